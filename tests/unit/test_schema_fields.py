# ruff: noqa: RUF001 - characters of many scripts are the test data
"""Schema fields with a required format."""

import unicodedata

import marshmallow
import pytest

from blueprints.http.fields import FullMatch, SingleLineText, Text

PIN = FullMatch("[0-9]{6}", error="Must be 6 digits.")


def test_matching_text_is_accepted_unchanged() -> None:
    assert PIN("012345") == "012345"
    assert PIN.regex.pattern == "^[0-9]{6}$"  # the pattern of the OpenAPI document


@pytest.mark.parametrize(
    "text", ["", "12345", "1234567", "123456\n", "\n123456", "12345a", "١٢٣٤٥٦", " 123456"]
)
def test_partially_matching_text_is_refused(text: str) -> None:
    with pytest.raises(marshmallow.ValidationError, match="Must be 6 digits"):
        PIN(text)


@pytest.mark.parametrize("field", [SingleLineText(max_length=40), Text(max_length=40)])
class TestInvisibleCharacters:
    @pytest.mark.parametrize(
        ("text", "kept"),
        [
            *((f"La{chr(code)}mp", "Lamp") for code in (*range(0x202A, 0x202F), *range(0x2066, 0x206A))),
            *((f"La{chr(code)}mp", "Lamp") for code in (0xAD, 0x200B, 0x200E, 0x200F, 0x2060, 0xFEFF)),
            ("\u202eLamp\u202c", "Lamp"),
            ("\u200b Lamp \ufeff", "Lamp"),
            ("La\u200dm\u200c\u200cp", "Lamp"),
            ("\u200dLamp\u200c", "Lamp"),
        ],
        ids=ascii,
    )
    def test_invisible_characters_are_removed(self, field: Text, text: str, kept: str) -> None:
        assert field.deserialize(text) == kept

    @pytest.mark.parametrize(
        "text",
        [
            "می\u200cخواهم",
            "क्\u200dष",
            "\U0001f468\u200d\U0001f469\u200d\U0001f467",
            "\u2764\ufe0f\u200d\U0001f525 lamp",
            "Ìwé kíkà",
            "O\u0323\u0300ṣọ́",
        ],
        ids=ascii,
    )
    def test_joiners_that_scripts_need_are_kept(self, field: Text, text: str) -> None:
        # Accents are composed (NFC).
        assert field.deserialize(text) == unicodedata.normalize("NFC", text)

    @pytest.mark.parametrize("text", ["\u200b", "\u202e\u202c", " \ufeff "], ids=ascii)
    def test_text_of_only_invisible_characters_is_refused(self, field: Text, text: str) -> None:
        with pytest.raises(marshmallow.ValidationError):
            field.deserialize(text)

    @pytest.mark.parametrize("text", ["La\x00mp", "La\x1bmp", "La\x9bmp"], ids=ascii)
    def test_control_characters_are_refused(self, field: Text, text: str) -> None:
        with pytest.raises(marshmallow.ValidationError, match="control characters"):
            field.deserialize(text)
