"""Nigerian mobile numbers, as people write them and as the service keeps them."""

import re

# The National Numbering Plan: mobile numbers begin with 70, 71, 80, 81, 90 or 91 and have ten digits, behind
# the trunk prefix 0 at home or the country code 234 abroad.
_MOBILE = re.compile(r"(?:\+?234|0)([789][01]\d{8})")
_SEPARATORS = str.maketrans("", "", " -.()")


def normalise_phone(text: str) -> str | None:
    """Write a Nigerian mobile number in the international form: ``+2348031234567``.

    :param text: as people write it: ``0803 123 4567``, ``+234 803-123-4567``
    :return: the number in E.164, or none if the text is no such number
    """
    if len(text) > 24 or not text.isascii():
        return None
    match = _MOBILE.fullmatch(text.translate(_SEPARATORS))
    return f"+234{match[1]}" if match else None
