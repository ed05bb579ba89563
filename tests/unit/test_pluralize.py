"""Singular and plural of counted nouns."""

import pytest

from marketplace.kernel.pluralize import format_count


@pytest.mark.parametrize(
    ("number", "expected"),
    [(0, "0 payments"), (1, "1 payment"), (2, "2 payments"), (5_000, "5,000 payments")],
)
def test_count_has_singular_or_plural_noun(number: int, expected: str) -> None:
    assert format_count(number, "payment") == expected
