"""Codes of six digits for a single use, derived from a key and never stored."""

import hashlib
import hmac

CODE_DIGITS = 6


def derive_code(*, key: str, subject: str) -> str:
    """Derive the code of a subject by HMAC-SHA256. Without the key, the code cannot be predicted.

    :param key: the setting DELIVERY_PIN_KEY
    :param subject: the use of the code and the id of the row, such as ``phone-code:<id>``
    :return: six digits
    """
    digest = hmac.digest(key.encode(), subject.encode(), hashlib.sha256)
    # 64 bits over a million values: the bias of the remainder is below 10^-13.
    return f"{int.from_bytes(digest[:8]) % 10**CODE_DIGITS:0{CODE_DIGITS}d}"


def code_matches(*, key: str, subject: str, code: str) -> bool:
    """Return whether a code is correct, comparing in constant time."""
    return hmac.compare_digest(derive_code(key=key, subject=subject), code)
