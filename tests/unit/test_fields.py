"""Fields of schemas that are asked for a form."""

import marshmallow
import pytest

from blueprints.http.fields import Matches

PIN = Matches("[0-9]{6}", error="Must be 6 digits.")


def test_a_text_that_matches_is_taken_as_it_is() -> None:
    assert PIN("012345") == "012345"
    assert PIN.regex.pattern == "^[0-9]{6}$"  # as the OpenAPI document has it


@pytest.mark.parametrize(
    "text", ["", "12345", "1234567", "123456\n", "\n123456", "12345a", "١٢٣٤٥٦", " 123456"]
)
def test_a_text_that_matches_in_part_is_refused(text: str) -> None:
    with pytest.raises(marshmallow.ValidationError, match="Must be 6 digits"):
        PIN(text)
