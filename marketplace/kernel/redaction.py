"""The one redaction function: every sink (logs, error tracker, provider call logs) passes through it.

Two nets. Values whose key is on the specification's list are replaced whatever they look like. Texts under
any other key are searched for what gives itself away by its shape: bearer tokens, secret keys, JSON web
tokens, phone numbers, ten-digit account numbers, and values that stand behind a secret's name.
"""

import re
from collections.abc import Mapping
from datetime import date
from functools import lru_cache
from typing import Any
from uuid import UUID

MARKER = "[REDACTED]"
_MAX_DEPTH = 12

# Compared without case and separators: one entry covers snake_case, camelCase and header spelling. A name
# is also secret if it ends in one of these (buyerPhone, new_password, x-gateway-signature).
_SECRET_KEYS = frozenset(
    """
    pin pincode pins deliverypin pinhash otp otpcode password passwordhash passphrase secret gatewaysecret
    gatewaysecretkey secretkey authorizationcode last4 cardlast4 lastfour cardlastfour lastfourdigits cardnumber
    pan cvv cvc bin nin nationalid nationalidnumber nationalidentity nationalidentitynumber bvn
    bankverificationnumber accountnumber accountno phone phonenumber phones phonenumbers msisdn waid
    authorization cookie setcookie token tokens accesstoken refreshtoken idtoken bearertoken accesscode
    clientsecret apikey functionskey deliverypinkey cursorkey sharedsecret verifytoken appsecret
    s3secretaccesskey signature email
    """.split()  # noqa: SIM905 - a list of so many quoted words reads worse
)
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_MAX_KEY_LENGTH = 100

# Before a value in a text: the names above as people and programs write them.
_NAMES = r"""(?:
    pin(?:[\s_-]?(?:code|hash))? | otp(?:[\s_-]?code)? | pass(?:word|phrase)(?:[\s_-]?hash)?
  | secret(?:[\s_-]?key)? | api[\s_-]?key | token | (?:authori[sz]ation|access)[\s_-]?code
  | last[\s_-]?(?:4|four) | card[\s_-]?number | cv[vc] | bvn | nin | national[\s_-]?id
  | account[\s_-]?(?:number|no) | phone(?:[\s_-]?number)?
)"""
# A name starts a word, or a part of one: pin, delivery_pin, deliveryPin, but not spin.
_START = r"(?-i:(?<![A-Za-z0-9])|(?<=[a-z])(?=[A-Z]))"
_SHAPES = re.compile(
    rf"""
      (?:
        \bbearer\s+[^\s"',;]+
      | \bbasic\s+[A-Za-z0-9+/=]{{8,}}
      | \beyJ[\w-]{{8,}}\.[\w-]{{8,}}\.[\w-]*
      | \bsk_(?:test|live)_\w+
      | \bAUTH_\w{{6,}}
      | {_START}{_NAMES}(?![a-z0-9])["']?\s{{0,3}}
        (?: [:=]\s{{0,3}}(?:"[^"]*"?|'[^']*'?|[^\s"',;}}&]+) | (?:is|was)\s{{1,3}}["']?[^\s"']*\d[^\s"']* )
      | {_START}(?:pin|otp)\b[^\w"']{{1,3}}\d{{4,8}}(?!\w)
      )
    | (?<=://)[^\s/:@]*:[^\s/@]+(?=@)
    | (?<![\w.+-])[\w.+-]{{1,64}}@[\w-]{{1,63}}(?:\.[\w-]{{1,63}}){{1,8}}
    | (?<![\w.-])(?=[\d(+])(?:
        \(?(?:\+\d|0|234)(?:[\s()-]{{0,2}}\d){{9,13}}
      | \+?\d{{1,3}}[\s-]?\(?\d{{2,4}}\)?[\s-]?\d{{3}}[\s-]?\d{{3,4}}
      | \d{{10,11}}
      )(?![\w-]|\.\d)
    """,
    re.IGNORECASE | re.VERBOSE,
)
# Cheap test before the expression: a text without any of these can hold none of the shapes.
_HINT = re.compile(
    r"\d{3}|\+\d|@|bearer|basic|eyJ|sk_|auth|p(?:in|ass)|otp|bvn|nin|cv[vc]|last|secret|key|token|code|card|phone|nation",
    re.IGNORECASE,
)


_UUID = re.compile(
    r"(?<![\w.-])[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}(?![\w.-])", re.IGNORECASE
)
# Short texts that hold nothing to be redacted; messages, names of fields and paths come again and again.
_clean: set[str] = set()
_MAX_REMEMBERED = 2048
_MAX_REMEMBERED_LENGTH = 80


@lru_cache(maxsize=4096)
def is_secret_key(key: str) -> bool:
    """This function will tell whether a field's value is replaced because of the field's name.

    :param key: in any spelling; a name that ends in a secret's name is one too
    """
    words = [word.lower() for word in _WORD.findall(key[-_MAX_KEY_LENGTH:])]
    return any("".join(words[start:]) in _SECRET_KEYS for start in range(len(words)))


def redact_text(text: str) -> str:
    """This function will replace what gives itself away by its shape in a text."""
    if text in _clean:
        return text
    # Ids are in most paths and lines, and none of the shapes: they would only keep the expression busy.
    if _HINT.search(_UUID.sub(" ", text)):
        redacted = _SHAPES.sub(MARKER, text)
        if redacted != text:
            return redacted
    if len(text) <= _MAX_REMEMBERED_LENGTH:
        if len(_clean) >= _MAX_REMEMBERED:
            _clean.clear()
        _clean.add(text)
    return text


def redact(value: Any, *, depth: int = 0) -> Any:
    """This function will copy a value of mappings, sequences and scalars without the secrets in it.

    :param value: anything that a log or an error event carries
    :param depth: how deep the value stands; below twelve levels everything is replaced
    :return: the copy; other objects are replaced by their redacted ``str``
    """
    # Amounts, ids and times are what a log is read for.
    if value is None or isinstance(value, bool | int | float | date | UUID):
        return value
    if isinstance(value, Mapping | list | tuple | set | frozenset):
        return MARKER if depth >= _MAX_DEPTH else _redact_container(value, depth + 1)
    return redact_text(value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value))


def _redact_container(value: Any, depth: int) -> Any:
    if not isinstance(value, Mapping):
        return [redact(item, depth=depth) for item in value]
    return {
        # What stands before the colon may itself be somebody's number.
        redact_text(key) if isinstance(key, str) else key: MARKER
        if isinstance(key, str) and is_secret_key(key) and item is not None
        else redact(item, depth=depth)
        for key, item in value.items()
    }
