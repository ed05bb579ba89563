"""The one redaction function: every sink (logs, error tracker, provider call logs) passes through it.

Two nets. Values whose key is on the specification's list are replaced whatever they look like. Texts under
any other key are searched for what gives itself away by its shape: bearer tokens, secret keys, JSON web
tokens, phone numbers and ten-digit account numbers.
"""

import re
from collections.abc import Mapping
from typing import Any

MARKER = "[REDACTED]"
_MAX_DEPTH = 12

# Compared without case, '_' and '-': one entry covers snake_case, camelCase and header spelling.
_SECRET_KEYS = frozenset(
    """
    pin deliverypin pinhash password passwordhash passphrase secret gatewaysecret gatewaysecretkey secretkey
    authorizationcode last4 cardlast4 cardnumber cvv bin nin nationalid nationalidentitynumber bvn
    bankverificationnumber accountnumber phone phonenumber msisdn waid authorization cookie setcookie token
    accesstoken refreshtoken idtoken bearertoken accesscode clientsecret apikey functionskey deliverypinkey
    cursorkey sharedsecret verifytoken appsecret s3secretaccesskey signature email
    """.split()  # noqa: SIM905 - a list of forty quoted words reads worse
)
_SEPARATORS = str.maketrans("", "", "_- ")

_SHAPES = re.compile(
    r"""
      (?P<bearer>\bbearer\s+[^\s"',;]+)
    | (?P<basic>\bbasic\s+[A-Za-z0-9+/=]{8,})
    | (?P<jwt>\beyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*)
    | (?P<key>\bsk_(?:test|live)_\w+)
    | (?P<url_password>(?<=://)[^\s/:@]*:[^\s/@]+(?=@))
    | (?P<assignment>\b(?:delivery[\s_-]?pin|pin|otp|password|passphrase|bvn|nin|last4)\b["']?
        \s*(?:[:=]|\bis\b)\s*["']?[^\s"',;}&]+)
    | (?P<email>\b[\w.+-]+@[\w-]+(?:\.[\w-]+)+)
    | (?P<phone>(?<![\w.-])\+?\d{1,3}[\s-]?\(?\d{2,4}\)?[\s-]?\d{3}[\s-]?\d{3,4}(?![\w-]|\.\d))
    | (?P<account>(?<![\w.-])\d{10,11}(?![\w-]|\.\d))
    """,
    re.IGNORECASE | re.VERBOSE,
)
# Cheap test before the expression: a text without any of these can hold none of the shapes.
_HINT = re.compile(r"\d{3}|@|bearer|basic|eyJ|sk_|p(?:in|ass)|otp|bvn|nin|last4", re.IGNORECASE)


def is_secret_key(key: str) -> bool:
    """This function will tell whether a field's value is replaced because of the field's name."""
    return key.translate(_SEPARATORS).lower() in _SECRET_KEYS


def redact_text(text: str) -> str:
    """This function will replace what gives itself away by its shape in a text."""
    return _SHAPES.sub(MARKER, text) if _HINT.search(text) else text


def redact(value: Any, *, depth: int = 0) -> Any:
    """This function will copy a value of mappings, sequences and scalars without the secrets in it.

    :param value: anything that a log or an error event carries
    :param depth: how deep the value stands; below twelve levels everything is replaced
    :return: the copy; other objects are replaced by their redacted ``str``
    """
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, Mapping | list | tuple | set | frozenset):
        return MARKER if depth >= _MAX_DEPTH else _redact_container(value, depth + 1)
    return redact_text(value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value))


def _redact_container(value: Any, depth: int) -> Any:
    if not isinstance(value, Mapping):
        return [redact(item, depth=depth) for item in value]
    return {
        key: MARKER
        if isinstance(key, str) and is_secret_key(key) and item is not None
        else redact(item, depth=depth)
        for key, item in value.items()
    }
