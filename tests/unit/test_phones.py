"""Normalization of phone numbers to a single form, and refusal of all but Nigerian mobile numbers."""

import pytest

from marketplace.kernel.phones import normalise_phone


@pytest.mark.parametrize(
    "written",
    [
        "+2348031234567",
        "2348031234567",
        "08031234567",
        "0803 123 4567",
        "+234 803-123-4567",
        "(0803) 123.4567",
    ],
)
def test_every_spelling_of_a_number_is_normalized_alike(written: str) -> None:
    assert normalise_phone(written) == "+2348031234567"


@pytest.mark.parametrize("prefix", ["70", "71", "80", "81", "90", "91"])
def test_mobile_prefixes_are_accepted(prefix: str) -> None:
    assert normalise_phone(f"0{prefix}12345678") == f"+234{prefix}12345678"


@pytest.mark.parametrize(
    "written",
    [
        "",
        "0",
        "8031234567",  # neither trunk prefix nor country code
        "0803123456",  # one digit short
        "080312345678",  # one digit long
        "01234567890",  # a landline
        "+14155550100",  # another country
        "+23408031234567",  # both prefixes
        "++2348031234567",
        "0803l234567",  # a letter that looks like a digit
        "٠٨٠٣١٢٣٤٥٦٧",  # digits of another script
        "08031234567 or 08031234568",
        "08031234567\n",
    ],
)
def test_invalid_phone_number_is_refused(written: str) -> None:
    assert normalise_phone(written) is None
