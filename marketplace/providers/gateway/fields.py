"""Fields of the gateway's JSON: read with their types, or refused as malformed."""

import re
from datetime import UTC, datetime
from typing import Any

_MAX_NAME_LENGTH = 255
_MAX_AMOUNT_MINOR = 10**15
_DIGITS = re.compile("[0-9]{1,15}")


class MalformedGatewayDataError(Exception):
    """A field of the gateway's data is missing or of the wrong type: it can never be applied."""


def read_object(data: Any, name: str | None = None) -> dict[str, Any]:
    """Give an object, or the object in one of its fields; anything else counts as an empty object."""
    value = data if name is None else read_object(data).get(name)
    return value if isinstance(value, dict) else {}


def require_object(data: Any) -> dict[str, Any]:
    """Give an object.

    :raises MalformedGatewayDataError: the data is anything else
    """
    if not isinstance(data, dict):
        raise MalformedGatewayDataError("data is not an object")
    return data


def require_list(data: Any) -> list[Any]:
    """Give a list.

    :raises MalformedGatewayDataError: the data is anything else
    """
    if not isinstance(data, list):
        raise MalformedGatewayDataError("data is not a list")
    return data


def require_field(data: Any, name: str, kind: type) -> Any:
    """Give a field of a type.

    :param kind: ``int`` or ``str``
    :raises MalformedGatewayDataError: the field is missing or of another type
    """
    value = read_object(data).get(name)
    if not isinstance(value, kind) or isinstance(value, bool):
        raise MalformedGatewayDataError(f"data.{name} is not {'an integer' if kind is int else 'a string'}")
    return value


def require_text(data: Any, name: str, *, max_length: int = 200) -> str:
    """Give a text that is neither empty nor too long.

    :raises MalformedGatewayDataError: the field is missing or another value
    """
    value: str = require_field(data, name, str)
    if not 0 < len(value) <= max_length:
        raise MalformedGatewayDataError(f"data.{name} has no usable length")
    return value


def parse_short_text(value: Any, *, max_length: int = 100) -> str:
    """Give the start of a word or a number as text, empty where the value is neither."""
    return str(value)[:max_length] if isinstance(value, str | int) and not isinstance(value, bool) else ""


def parse_identifier(value: Any) -> str:
    """Give an id or a reference as text, empty where there is none. A shortened one would name something else.

    :raises MalformedGatewayDataError: the identifier is too long
    """
    name = parse_short_text(value, max_length=_MAX_NAME_LENGTH + 1)
    if len(name) > _MAX_NAME_LENGTH:
        raise MalformedGatewayDataError("an id or a reference is too long to be one")
    return name


def require_identifier(data: Any, name: str) -> str:
    """Give an id or a reference.

    :raises MalformedGatewayDataError: the identifier is missing or too long
    """
    return require_given(parse_identifier(read_object(data).get(name)), name)


def require_given(text: str, name: str) -> str:
    """Give a text that is not empty.

    :raises MalformedGatewayDataError: the text is empty
    """
    if not text:
        raise MalformedGatewayDataError(f"data.{name} is missing")
    return text


def parse_digits(value: Any) -> Any:
    """Give the number that a text of digits spells. The gateway's events write some amounts as digits."""
    return int(value) if isinstance(value, str) and _DIGITS.fullmatch(value) else value


def parse_amount(value: Any) -> int | None:
    """Give an amount in kobo, none where the value is no amount."""
    whole = isinstance(value, int) and not isinstance(value, bool)
    return value if whole and 0 <= value <= _MAX_AMOUNT_MINOR else None


def require_amount(value: Any, name: str) -> int:
    """Give an amount in kobo.

    :raises MalformedGatewayDataError: the value is no integer, below zero or too large
    """
    amount: int = require_field({name: value}, name, int)
    if not 0 <= amount <= _MAX_AMOUNT_MINOR:
        raise MalformedGatewayDataError(f"data.{name} is out of range")
    return amount


def parse_time(value: Any) -> datetime | None:
    """Give a time in UTC, none where the value is no time with a zone."""
    try:
        moment = datetime.fromisoformat(value) if isinstance(value, str) else None
        return moment.astimezone(UTC) if moment and moment.tzinfo else None
    except (ValueError, OverflowError):
        return None


def require_time(value: Any) -> datetime:
    """Give a time in UTC. A time without a zone is UTC, as all of the gateway's are.

    :raises MalformedGatewayDataError: the value is no time
    """
    try:
        moment = datetime.fromisoformat(value)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)
    except (TypeError, ValueError, OverflowError) as error:
        raise MalformedGatewayDataError("no time") from error
