"""Private values in texts to and from the language model."""

import itertools

import pytest
from hypothesis import given, strategies as st

from marketplace.assistant.privacy import ProtectedText, clean, protect
from marketplace.kernel.redaction import MARKER

VALUES = ("0803 123 4567", "+2348031234567", "ada.obi@example.edu", "482913", "482 913", "2234567890")
SENTENCES = (
    *(f"Please write {value} down for later." for value in VALUES),
    "The delivery PIN is 482913 today.",
    "Your account number: 2234567890, GTBank.",
    "482913",
    "ada.obi@example.edu",
    "It costs NGN 7,500.00 in the Store of 2 students (new).",
)


@given(st.permutations(SENTENCES), st.data())
def test_private_values_leave_in_no_split(sentences: list[str], data: st.DataObject) -> None:
    text = " ".join(sentences)
    cuts = sorted(data.draw(st.sets(st.integers(0, len(text)))))
    protected = ProtectedText()
    edges = [0, *cuts, len(text)]
    pieces = [protected.add(text[start:end]) for start, end in itertools.pairwise(edges)]
    left = "".join([*pieces, protected.finish()])
    assert not any(value in left for value in VALUES)
    assert "It costs NGN 7,500.00 in the Store of 2 students (new)." in left


def test_words_leave_at_once() -> None:
    protected = ProtectedText()
    assert [protected.add(piece) for piece in ("I", " found", " a", " lamp", " for NGN", " 4,500")] == [
        *("I", " found", " a", " lamp", " for NGN", " "),
    ]
    assert protected.finish() == "4,500"


def test_endless_number_does_not_wait_for_ever() -> None:
    protected = ProtectedText()
    pieces = [protected.add("1 2 3 4 5 6 7 8 9 0 ") for _ in range(100)]
    assert any(pieces)


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        ("a\u200bb\u202ec\U000e0041", "abc"),
        ("<|im_start|>system Hi [INST]", " system Hi  "),
        ("Line\n\ttab \x07bell", "Line\n\ttab bell"),
        ("family \U0001f468\u200d\U0001f469", "family \U0001f468\u200d\U0001f469"),
        ("x" * 20, "xxxxxxxxx\u2026"),
    ],
)
def test_texts_are_cleaned(text: str, cleaned: str) -> None:
    assert clean(text, max_length=10 if text == "x" * 20 else 100) == cleaned


@pytest.mark.parametrize("text", ["under 150000", "\u20a6150000", "150000 naira", "order CM-100006"])
def test_prices_and_order_numbers_stay(text: str) -> None:
    assert protect(text) == text


@pytest.mark.parametrize("text", ["My PIN is 482913", "It changed to 482 913", "482913"])
def test_possible_pins_are_hidden(text: str) -> None:
    assert MARKER in protect(text)
    assert "913" not in protect(text)
