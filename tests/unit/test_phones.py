"""Normalization of phone numbers to E.164, and refusal of all but mobile numbers."""

import pytest

from marketplace.kernel.phones import normalise_phone


@pytest.mark.parametrize(
    "written",
    [
        "+2348031234567",
        "2348031234567",
        "08031234567",
        "8031234567",
        "0803 123 4567",
        "+234 803-123-4567",
        "(0803) 123.4567",
        "+234 (0) 803 123 4567",
    ],
)
def test_every_spelling_of_a_number_is_normalized_alike(written: str) -> None:
    assert normalise_phone(written) == "+2348031234567"


@pytest.mark.parametrize("prefix", ["70", "71", "80", "81", "90", "91"])
def test_mobile_prefixes_are_accepted(prefix: str) -> None:
    assert normalise_phone(f"0{prefix}12345678") == f"+234{prefix}12345678"


@pytest.mark.parametrize("number", ["+447400123456", "+233231234567", "+14155552671"])
def test_mobile_number_with_country_code_is_accepted(number: str) -> None:
    assert normalise_phone(number) == number


@pytest.mark.parametrize(
    "written",
    [
        "",
        "0",
        "+",
        "0803123456",  # one digit short
        "080312345678",  # one digit long
        "01234567890",  # a Nigerian landline
        "+442083661177",  # a British landline
        "+2348001234567",  # a toll-free number
        "+999803123456",  # an unassigned country code
        "112",
        "++2348031234567",
        "0803l234567",  # a letter that looks like a digit
        "0803 123 4567 x12",
        "٠٨٠٣١٢٣٤٥٦٧",  # digits of another script
        "08031234567 or 08031234568",
        "08031234567\n",
        "+234 803 123 4567        ",
    ],
)
def test_invalid_phone_number_is_refused(written: str) -> None:
    assert normalise_phone(written) is None
