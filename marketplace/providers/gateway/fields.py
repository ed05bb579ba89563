"""Typed access to fields of the gateway's JSON. Malformed fields raise an error."""

import re
from datetime import UTC, datetime
from typing import Any

_MAX_NAME_LENGTH = 255
_MAX_AMOUNT_MINOR = 10**15
_DIGITS = re.compile("[0-9]{1,15}")


class MalformedGatewayDataError(Exception):
    """A field of the gateway's data is missing or has the wrong type, so the data can never be applied."""


def read_object(data: Any, name: str | None = None) -> dict[str, Any]:
    """Return an object, or the object in the field ``name``. Other values become an empty object."""
    value = data if name is None else read_object(data).get(name)
    return value if isinstance(value, dict) else {}


def require_object(data: Any) -> dict[str, Any]:
    """Return the data, which must be an object.

    :raises MalformedGatewayDataError: the data is not an object
    """
    if not isinstance(data, dict):
        raise MalformedGatewayDataError("data is not an object")
    return data


def require_list(data: Any) -> list[Any]:
    """Return the data, which must be a list.

    :raises MalformedGatewayDataError: the data is not a list
    """
    if not isinstance(data, list):
        raise MalformedGatewayDataError("data is not a list")
    return data


def require_field(data: Any, name: str, kind: type) -> Any:
    """Return a required field of a type.

    :param kind: ``int`` or ``str``
    :raises MalformedGatewayDataError: the field is missing or has another type
    """
    value = read_object(data).get(name)
    if not isinstance(value, kind) or isinstance(value, bool):
        raise MalformedGatewayDataError(f"data.{name} is not {'an integer' if kind is int else 'a string'}")
    return value


def require_text(data: Any, name: str, *, max_length: int = 200) -> str:
    """Return a required text field.

    :raises MalformedGatewayDataError: the field is missing, empty, too long or not a string
    """
    value: str = require_field(data, name, str)
    if not 0 < len(value) <= max_length:
        raise MalformedGatewayDataError(f"data.{name} is empty or too long")
    return value


def parse_short_text(value: Any, *, max_length: int = 100) -> str:
    """Return the start of a string or an integer as text. Other values become an empty text."""
    return str(value)[:max_length] if isinstance(value, str | int) and not isinstance(value, bool) else ""


def parse_identifier(value: Any) -> str:
    """Return an id or a reference as text, empty if missing. A truncated identifier would identify another object.

    :raises MalformedGatewayDataError: the identifier is too long
    """
    name = parse_short_text(value, max_length=_MAX_NAME_LENGTH + 1)
    if len(name) > _MAX_NAME_LENGTH:
        raise MalformedGatewayDataError("an id or a reference is too long")
    return name


def require_identifier(data: Any, name: str) -> str:
    """Return a required id or reference.

    :raises MalformedGatewayDataError: the identifier is missing or too long
    """
    return require_given(parse_identifier(read_object(data).get(name)), name)


def require_given(text: str, name: str) -> str:
    """Return a text that must not be empty.

    :raises MalformedGatewayDataError: the text is empty
    """
    if not text:
        raise MalformedGatewayDataError(f"data.{name} is missing")
    return text


def parse_digits(value: Any) -> Any:
    """Convert a string of digits to an integer. The gateway's events contain some amounts as strings."""
    return int(value) if isinstance(value, str) and _DIGITS.fullmatch(value) else value


def parse_amount(value: Any) -> int | None:
    """Return an amount in kobo, or none if the value is not an amount."""
    whole = isinstance(value, int) and not isinstance(value, bool)
    return value if whole and 0 <= value <= _MAX_AMOUNT_MINOR else None


def require_amount(value: Any, name: str) -> int:
    """Return a required amount in kobo.

    :raises MalformedGatewayDataError: the value is not an integer, negative or too large
    """
    amount: int = require_field({name: value}, name, int)
    if not 0 <= amount <= _MAX_AMOUNT_MINOR:
        raise MalformedGatewayDataError(f"data.{name} is out of range")
    return amount


def parse_time(value: Any) -> datetime | None:
    """Return a time in UTC, or none if the value is not a time with a time zone."""
    try:
        moment = datetime.fromisoformat(value) if isinstance(value, str) else None
        return moment.astimezone(UTC) if moment and moment.tzinfo else None
    except (ValueError, OverflowError):
        return None


def require_time(value: Any) -> datetime:
    """Return a required time in UTC. A time without a zone counts as UTC, like all times of the gateway.

    :raises MalformedGatewayDataError: the value is not a time
    """
    try:
        moment = datetime.fromisoformat(value)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)
    except (TypeError, ValueError, OverflowError) as error:
        raise MalformedGatewayDataError("a time is missing or invalid") from error
