"""Normalisation of Nigerian mobile numbers."""

import re

# The National Numbering Plan: mobile numbers have ten digits and begin with 70, 71, 80, 81, 90 or 91. The prefix is
# 0 in Nigeria and 234 abroad.
_MOBILE = re.compile(r"(?:\+?234|0)([789][01]\d{8})")
_SEPARATORS = str.maketrans("", "", " -.()")


def normalise_phone(text: str) -> str | None:
    """Convert a Nigerian mobile number to E.164, such as ``+2348031234567``.

    :param text: a number such as ``0803 123 4567`` or ``+234 803-123-4567``
    :return: none if the text is not a Nigerian mobile number
    """
    if len(text) > 24 or not text.isascii():
        return None
    match = _MOBILE.fullmatch(text.translate(_SEPARATORS))
    return f"+234{match[1]}" if match else None
