"""Normalisation of mobile numbers to E.164, by the ``phonenumbers`` library."""

import re

_DEFAULT_REGION = "NG"
_MAX_LENGTH = 24
# Spelling aids between digits. The library would also accept letters, extensions and text around the number.
_WRITTEN_NUMBER = re.compile(r"\+?[0-9(][0-9 .()-]*", re.ASCII)


def normalise_phone(text: str) -> str | None:
    """Convert a mobile number to E.164, such as ``+2348031234567``.

    :param text: a number such as ``0803 123 4567`` or ``+234 803-123-4567``. Without a country code, the number is
        Nigerian
    :return: none for a landline, a service number or an impossible number
    """
    # Imported here because the metadata takes 7 MiB, and most processes read no phone numbers.
    import phonenumbers  # noqa: PLC0415

    if len(text) > _MAX_LENGTH or not _WRITTEN_NUMBER.fullmatch(text):
        return None
    try:
        number = phonenumbers.parse(text, _DEFAULT_REGION)
    except phonenumbers.NumberParseException:
        return None
    # Some countries, such as the United States, do not distinguish mobile numbers from landlines.
    mobile = (phonenumbers.PhoneNumberType.MOBILE, phonenumbers.PhoneNumberType.FIXED_LINE_OR_MOBILE)
    if not phonenumbers.is_valid_number(number) or phonenumbers.number_type(number) not in mobile:
        return None
    return phonenumbers.format_number(number, phonenumbers.PhoneNumberFormat.E164)
