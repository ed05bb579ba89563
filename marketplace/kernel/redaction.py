"""Redaction of secrets and personal data. Every sink (logs, error tracker, provider call logs) uses this module.

Redaction has three layers:

- The value of a field with a listed name is always replaced.
- In a text, the value after a listed name is replaced (``pin=…``, ``"password": "…"``, ``Authorization: …``).
- In a text, values with a recognizable format are replaced: tokens, keys, hashes, phone, account and card numbers,
  and e-mail addresses.

Clients control logged texts, so every expression runs in time proportional to the text. Repetitions are therefore
bounded or possessive.
"""

import re
from collections.abc import Mapping
from datetime import date
from functools import lru_cache
from typing import Any
from uuid import UUID

MARKER = "[REDACTED]"

# Names are compared without case and separators, so an entry covers snake_case, camelCase and header spelling.
# A name is also secret if its last words are an entry (buyerPhone, new_password, x-gateway-signature).
_SECRET_KEYS = frozenset(
    """
    pin pincode pins deliverypin pinhash otp otpcode password passwords passwordhash passwd pwd passphrase
    passcode secret secrets gatewaysecret gatewaysecretkey secretkey secretaccesskey privatekey signingkey
    authorizationcode authcode last4 cardlast4 last4digits lastfour cardlastfour lastfourdigits cardnumber pan cvv
    cvc bin nin ninnumber nationalid nationalidnumber nationalidentity nationalidentitynumber
    nationalidentificationnumber bvn bvnnumber bankverificationnumber accountnumber accountnumbers accountno
    acctnumber acctno phone phonenumber phones phonenumbers phonee164 mobile mobilenumber telephone msisdn waid
    authorization cookie setcookie token tokens tokenhash accesstoken refreshtoken idtoken bearertoken bearer jwt
    accesscode clientsecret apikey functionskey functionssigningsecrets deliverypinkey cursorkey
    dataencryptionkeys blindindexkey sharedsecret verifytoken appsecret credentials sessionid databaseurl redisurl
    dsn s3secretaccesskey signature
    email emails emailaddress accountnumberindex accountname ownername payeename buyername customername holdername
    fullname firstname lastname surname displayname avatarurl avatarkey hostel hall roomnumber latitude longitude
    shippingaddress deliveryaddress ipaddress useragent responsebody responsetext providermessageid repliesto dedupeid
    replytext trackingnote vacationnote resolutionnote proposalnote cancellationreason statusreason rejectionreason
    decisionreason ratingcomment emailmessageid p256dh earliermessages threadtitle threadsummary flagdetails
    """.split()  # noqa: SIM905 - a list of so many quoted words reads worse
)
# Long names are unlikely endings of other words. They also match inside one word, such as userpassword.
_LONG_KEYS = tuple(key for key in _SECRET_KEYS if len(key) >= 8)
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")

# Separators between a name and its value in JSON, JSON inside a JSON string, Python, queries and headers.
_BETWEEN = r"""\\*["']?\s{0,3}(?:[:=]>?|->|%3[AD])\s{0,3}"""
# Names of several words in prose.
_PHRASE = r"""(?:
    (?:account|phone|mobile|card|bvn|nin)\s(?:number|no\b\.?) | last[\s-](?:four|4)(?:\sdigits)? | e-?mail\saddress
  | (?:delivery|pin|access|auth|authori[sz]ation|otp)\scode | (?:secret|api|private)\skey | (?:pin|password)\shash
  | national\s(?:id(?:entity)?|identification)(?:\snumber)? | bank\sverification\snumber
)"""
_NAMED = re.compile(
    rf"""
      (?P<line>(?<![A-Za-z])(?:authorization|cookie|passphrase){_BETWEEN})
    | (?P<phrase>\b{_PHRASE}(?:{_BETWEEN}|\s(?:is|was)[\s:=]{{1,3}}))
    | (?<![\w.-])(?P<name>[\w.-]++)(?:
          {_BETWEEN}
        | ["'],\s{{0,3}}(?=["'][^"']{{0,99}}\d)
        | \s(?:is|was)[\s:=]{{1,3}}(?=["']?[^\s"']{{0,99}}\d)
      )
    """,
    re.IGNORECASE | re.VERBOSE,
)
_VALUE = re.compile(
    r"""
      \\+["'][^"'\\]*+ | "(?:[^"\\]|\\.)*+"? | '(?:[^'\\]|\\.)*+'? | \[[^\]]*+\]? | \{[^{}]*+\}?
    | \d[\d\s-]{3,24}\d | [^\s"'\\,;&<>)\]}]++
    """,
    re.VERBOSE,
)
# Values that may contain spaces extend to the end of the line or of the quoted text.
_LINE = re.compile(r"""\\*["']?[^"'\r\n]++""")

# Separators allowed inside a phone number, and boundaries that exclude digits of ids, decimals and times.
_GAP = r"(?:[\s().\u2010-\u2015-]|%20|\\xa0|\\u20[01][0-9a-f]){0,3}"
_BEFORE = r"(?:(?<![\da-fA-F])(?<!\d[.-])|(?<=%2B)|(?<=%20))"
_AFTER = r"(?![\dA-Za-z]|-\w|\.\d)"
# A name begins a word or a part of a word: pin, delivery_pin and deliveryPin match, spin does not.
_START = r"(?-i:(?<![A-Za-z0-9])|(?<=[a-z])(?=[A-Z]))"
_SHAPES = re.compile(
    rf"""
      \bbearer(?:[\s:=+]|%20|%3A){{1,4}}(?!tokens?\b|of\b)[^\s"';]++
    | \bbasic(?:\s|%20){{1,3}}[A-Za-z0-9+/=]{{8,}}
    | (?-i:(?:(?<![\w-])|(?<=%20)|(?<=%22)|(?<=%3D))eyJ[\w-]{{8,}}+\.[\w-]{{8,}}+(?:\.[\w-]*+)?)
    | (?<![A-Za-z])sk_(?:test|live)_\w++
    | (?-i:(?<![A-Za-z])AUTH_(?![A-Z0-9_]{{0,64}}+(?!\w))\w{{2,}})
    | \$(?:2[abxy]|argon2\w{{0,2}}|scrypt)\$[^\s"',]++ | \b(?:pbkdf2|scrypt):[^\s"',$]{{1,99}}\$[^\s"',]++
    | {_START}(?:pin|otp|passcode|last[\s_-]?(?:4|four))\b(?:\\[rnt]|\W){{1,10}}\d{{4,8}}(?!\w)
    | {_START}(?:pin|otp)\b[^\n]{{1,40}}?\bis\W{{1,4}}\d{{4,8}}(?!\w)
    | (?<!\w)\d{{4,8}}\sis\s(?:your|the)\s[^\n\d]{{0,20}}\b(?:pin|otp|passcode)\b
    | \b{_PHRASE}\W{{1,3}}\d[\d\s-]{{2,24}}\d(?!\w)
    | \bending(?:\s(?:in|with))?\W{{1,3}}\d{{4}}(?!\w) | (?:[*\u2022]{{2}}|(?<!\w)x{{4}})[\s-]{{0,2}}\d{{4}}(?!\w)
    | (?<=://)[^\s/:@]{{0,200}}:[^\s/@]{{1,200}}(?=@)
    | (?<![\w.+'-])[\w.+%'-]{{1,64}}?(?:@|%40)[\w-]{{1,63}}(?:\.[\w-]{{1,63}}){{1,8}}
    | {_BEFORE}(?=[\d(+])(?:
          \(?(?:(?:\+|00)234|(?:234|0)(?!\.)){_GAP}(?:0\)?\s?)?[789]{_GAP}[01](?:{_GAP}\d){{8}}
        | \(?\+[1-9]\d{{0,2}}(?:{_GAP}\d){{7,12}}
        | \d{{10,11}}
        | [3-6]\d{{3}}(?P<space>[\s-]?)\d{{4}}(?P=space)\d{{4}}(?P=space)\d{{1,7}}
        | (?=(?:\d[\s-]?){{10,12}}(?!\d))\d{{2,4}}(?P<gap>[\s-])\d{{3,4}}(?P=gap)\d{{3,4}}
      ){_AFTER}
    """,
    re.IGNORECASE | re.VERBOSE,
)
# Cheap checks before the full expressions, because most texts contain nothing to redact.
_NAME_HINT = re.compile(r"[:=>]|%3[AD]|\b(?:is|was)\b|[\"'],", re.IGNORECASE)
_SHAPE_HINT = re.compile(
    r"\d{3}|(?:\d[\s().\u2010-\u2015-]{1,3}){4}|@|%40|bearer|basic|eyJ|sk_|auth_|\$[2as]|pbkdf2|scrypt",
    re.IGNORECASE,
)
# Ids are frequent and never secret. Removing ids first lets the cheap check skip most paths and lines.
_ID = re.compile(
    r"(?<![\w.-])(?:[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|(?:checkout|payout)-[0-9a-f]{32})(?![\w.-])",
    re.IGNORECASE,
)
# Short texts without secrets. Log messages, field names and paths repeat often.
_texts_without_secrets: set[str] = set()


@lru_cache(maxsize=4096)
def is_secret_key(key: str) -> bool:
    """Return whether the name of a field requires redaction of the value.

    :param key: a field name in any spelling; endings count too (``buyerPhone``)
    """
    words = [word.lower() for word in _WORD.findall(key[-100:])]
    if any("".join(words[start:]) in _SECRET_KEYS for start in range(len(words))):
        return True
    # Names with numbers (phone1, pin_2), and several words written as one word.
    while words and words[-1].isdigit():
        words.pop()
    return bool(words) and (words[-1] in _SECRET_KEYS or "".join(words).endswith(_LONG_KEYS))


def redact_text(text: str) -> str:
    """Replace the values after secret names and the values with a recognizable format in a text."""
    if text in _texts_without_secrets:
        return text
    redacted = _redact_named_values(text) if _NAME_HINT.search(text) else text
    if _SHAPE_HINT.search(_ID.sub(" ", redacted)):
        redacted = _SHAPES.sub(MARKER, redacted)
    if redacted != text:
        return redacted
    if len(text) <= 80:
        if len(_texts_without_secrets) >= 2048:
            _texts_without_secrets.clear()
        _texts_without_secrets.add(text)
    return text


def _redact_named_values(text: str) -> str:
    """Replace the values after secret names. The names stay."""
    pieces: list[str] = []
    copied = position = 0
    while match := _NAMED.search(text, position):
        position = match.end()
        if match["name"] and not is_secret_key(match["name"]):
            continue
        value = (_LINE if match["line"] else _VALUE).match(text, position)
        if value is not None:
            pieces += (text[copied:position], MARKER)
            copied = position = value.end()
    return "".join((*pieces, text[copied:])) if pieces else text


def redact(value: Any, *, depth: int = 0) -> Any:
    """Copy a value of a log or an error event without its secrets.

    :param value: mappings, sequences and scalars; other objects become redacted strings
    :param depth: the current nesting level; containers below twelve levels are replaced
    """
    # Amounts, ids and times stay readable.
    if value is None or isinstance(value, bool | int | float | date | UUID):
        return value
    if isinstance(value, Mapping | list | tuple | set | frozenset):
        return MARKER if depth >= 12 else _redact_container(value, depth + 1)
    return redact_text(value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value))


def _redact_container(value: Any, depth: int) -> Any:
    if isinstance(value, Mapping):
        return dict(_redact_field(key, item, depth) for key, item in value.items())
    if isinstance(value, list | tuple) and len(value) == 2 and isinstance(value[0], str | bytes):
        # A pair of name and value, as in headers and forms.
        return list(_redact_field(value[0], value[1], depth))
    return [redact(item, depth=depth) for item in value]


def _redact_field(name: Any, value: Any, depth: int) -> tuple[Any, Any]:
    key = name.decode("utf-8", "replace") if isinstance(name, bytes) else name
    if not isinstance(key, str):
        return key, redact(value, depth=depth)
    secret = value is not None and is_secret_key(key)
    # A key can itself be personal data, such as a phone number.
    return redact_text(key), MARKER if secret else redact(value, depth=depth)
