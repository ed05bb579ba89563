"""Readers and validators of request fields. Each error names the field."""

import re
from collections.abc import Collection, Mapping
from urllib.parse import urlsplit

from flask import Flask, Request
from flask.json.provider import DefaultJSONProvider, JSONProvider

_DIGITS = re.compile(r"[0-9]{1,18}")
_EMAIL = re.compile(r"[^@\s]{1,64}@[^@\s.]+(\.[^@\s.]+)+")
MAXIMUM_EMAIL_LENGTH = 254
MAXIMUM_URL_LENGTH = 2_000


class InvalidFieldError(Exception):
    """A field is missing or invalid. The message may be sent to the client."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field
        self.message = message


def json_in_order(app: Flask) -> JSONProvider:
    """Make an application keep the order of members in JSON output."""
    provider = DefaultJSONProvider(app)
    provider.sort_keys = False
    return provider


def json_object(request: Request, *, may_be_empty: bool = False) -> Mapping[str, object]:
    """Read a request's body as a JSON object, regardless of its content type.

    :param may_be_empty: treat a missing body as an empty object
    :raises InvalidFieldError: the body is not a JSON object
    """
    if may_be_empty and not request.get_data(cache=True):
        return {}
    try:
        body = request.get_json(force=True, silent=True)
    except RecursionError:
        body = None
    if not isinstance(body, dict):
        raise InvalidFieldError("body", "The body must be a JSON object")
    return body


def text(
    values: Mapping[str, object],
    name: str,
    *,
    maximum: int = 255,
    pattern: re.Pattern[str] | None = None,
    message: str | None = None,
) -> str:
    """Read a required text.

    :param maximum: maximum length in characters
    :param pattern: must match the whole text
    :param message: replaces the default error message
    :raises InvalidFieldError: the text is missing, empty, not a string, too long or does not match
    """
    value = values.get(name)
    if not isinstance(value, str) or not value.strip():
        raise InvalidFieldError(name, message or f"{name} is required")
    if len(value) > maximum or (pattern is not None and not pattern.fullmatch(value)):
        raise InvalidFieldError(name, message or f"{name} is invalid")
    return value


def optional_text(
    values: Mapping[str, object],
    name: str,
    *,
    maximum: int = 255,
    pattern: re.Pattern[str] | None = None,
    message: str | None = None,
) -> str | None:
    """Read an optional text with the checks of ``text``. Null and empty count as missing."""
    if values.get(name) in (None, ""):
        return None
    return text(values, name, maximum=maximum, pattern=pattern, message=message)


def integer(
    values: Mapping[str, object],
    name: str,
    *,
    minimum: int,
    maximum: int,
    message: str | None = None,
    accepts_text: bool = False,
) -> int:
    """Read a required integer. Floats and booleans are refused.

    :param accepts_text: also accept a string of decimal digits
    :raises InvalidFieldError: the value is missing, not an integer or out of range
    """
    value = values.get(name)
    if accepts_text and isinstance(value, str) and _DIGITS.fullmatch(value):
        value = int(value)
    # In Python bool is a subclass of int.
    if not isinstance(value, int) or isinstance(value, bool) or not minimum <= value <= maximum:
        raise InvalidFieldError(name, message or f"{name} must be an integer from {minimum} to {maximum}")
    return value


def number(
    values: Mapping[str, object], name: str, *, minimum: float, maximum: float, default: float | None
) -> float | None:
    """Read an optional number.

    :raises InvalidFieldError: the value is not a number or out of range
    """
    value = values.get(name)
    if value is None:
        return default
    if not isinstance(value, int | float) or isinstance(value, bool) or not minimum <= value <= maximum:
        raise InvalidFieldError(name, f"{name} must be a number from {minimum:g} to {maximum:g}")
    return float(value)


def choice(
    values: Mapping[str, object], name: str, *, allowed: Collection[str], default: str | None = None
) -> str:
    """Read a value of a fixed set of words.

    :param default: used if the field is missing; without a default the field is required
    :raises InvalidFieldError: the value is missing or not allowed
    """
    value = values.get(name, default)
    if value is None:
        value = default
    if not isinstance(value, str) or value not in allowed:
        raise InvalidFieldError(name, f"{name} must be one of {', '.join(allowed)}")
    return value


def email(values: Mapping[str, object], name: str, *, message: str) -> str:
    """Read an e-mail address in lower case.

    :raises InvalidFieldError: the address is missing or invalid, with ``message``
    """
    return text(values, name, maximum=MAXIMUM_EMAIL_LENGTH, pattern=_EMAIL, message=message).lower()


def optional_url(values: Mapping[str, object], name: str) -> str | None:
    """Read an optional absolute http(s) URL.

    :raises InvalidFieldError: the value is not such a URL
    """
    value = optional_text(values, name, maximum=MAXIMUM_URL_LENGTH)
    if value is not None and not is_web_address(value):
        raise InvalidFieldError(name, f"{name} must be an absolute http or https URL")
    return value


def is_web_address(value: str) -> bool:
    """Return whether a text is an absolute http(s) URL with a host."""
    try:
        parts = urlsplit(value)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def refuse_unknown(values: Mapping[str, object], *, known: Collection[str]) -> None:
    """Refuse unknown fields. Otherwise misspelled names would go unnoticed.

    :raises InvalidFieldError: for the first unknown field
    """
    for name in values:
        if name not in known:
            raise InvalidFieldError(name, f"{name} is unknown; allowed fields are {', '.join(known)}")
