"""Lists of the gateway: pages by number or by cursor, and filters of the query string."""

import base64
import binascii
import sqlite3
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from urllib.parse import unquote

from sandbox.providers.fields import InvalidFieldError
from sandbox.providers.gateway.answers import timestamp

DEFAULT_PER_PAGE = 50
MAXIMUM_PER_PAGE = 100
MAXIMUM_PAGE = 1_000_000
_DATE_LENGTH = len("2026-01-31")
_TICK = timedelta(milliseconds=1)


class Page:
    """The requested part of a list: ``perPage``, ``from`` and ``to``, and a ``page`` or a cursor.

    A cursor names the last or first row of a page, so new rows shift no page.
    """

    def __init__(self, arguments: Mapping[str, str], *, cursors: str = "id") -> None:
        """Read the requested part from the query string.

        :param cursors: kind of the list's cursors; ``id`` is the kind of tables
        :raises InvalidFieldError: a number is out of range, or a date or cursor is invalid
        """
        self.per_page = _bounded(arguments, "perPage", default=DEFAULT_PER_PAGE, maximum=MAXIMUM_PER_PAGE)
        self.page = _bounded(arguments, "page", default=1, maximum=MAXIMUM_PAGE)
        self.since = _moment(arguments, "from") or ""
        # This default sorts after every time.
        self.until = _moment(arguments, "to") or "9999"
        self.by_cursor = flag(arguments, "use_cursor") is True
        self.after = _position(arguments, "next", kind=cursors) if self.by_cursor else None
        self.before = _position(arguments, "previous", kind=cursors) if self.by_cursor else None

    def values(self, parameters: Mapping[str, object]) -> dict[str, object]:
        """Return a query's parameters together with ``since`` and ``until``."""
        return {**parameters, "since": self.since, "until": self.until}

    def rows(
        self, connection: sqlite3.Connection, *, query: str, parameters: Mapping[str, object]
    ) -> tuple[list[sqlite3.Row], dict[str, object]]:
        """Fetch the page's rows and describe the page.

        :param query: a fixed SELECT of this package with a column ``id``, without order and limit; may use
            ``:since`` and ``:until``
        :return: the rows, newest first, and the response's ``meta``
        """
        values = self.values(parameters)
        if self.by_cursor:
            return self._rows_at_cursor(connection, query, values)
        total = int(connection.execute(f"SELECT count(*) FROM ({query})", values).fetchone()[0])
        skipped = (self.page - 1) * self.per_page
        paged = f"SELECT * FROM ({query}) ORDER BY id DESC LIMIT :limit OFFSET :offset"
        rows = connection.execute(paged, {**values, "limit": self.per_page, "offset": skipped}).fetchall()
        return rows, {
            "total": total,
            "skipped": skipped,
            "perPage": self.per_page,
            "page": self.page,
            "pageCount": -(-total // self.per_page),
        }

    def _rows_at_cursor(
        self, connection: sqlite3.Connection, query: str, values: Mapping[str, object]
    ) -> tuple[list[sqlite3.Row], dict[str, object]]:
        backwards = self.before is not None
        # A row beyond the page shows whether the list continues.
        paged = (
            f"SELECT * FROM ({query}) WHERE (:after IS NULL OR id < :after) AND (:before IS NULL OR id > :before)"
            f" ORDER BY id {'ASC' if backwards else 'DESC'} LIMIT :limit"
        )
        limits = {"after": self.after, "before": self.before, "limit": self.per_page + 1}
        rows = connection.execute(paged, {**values, **limits}).fetchall()
        continues = len(rows) > self.per_page
        rows = rows[: self.per_page]
        if backwards:
            rows.reverse()
        older = bool(rows) and (backwards or continues)
        newer = bool(rows) and (continues if backwards else self.after is not None)
        return rows, {
            "next": cursor("id", rows[-1]["id"]) if older else None,
            "previous": cursor("id", rows[0]["id"]) if newer else None,
            "perPage": self.per_page,
        }


def cursor(kind: str, position: int) -> str:
    """Encode a position in a list."""
    return base64.urlsafe_b64encode(f"{kind}:{position}".encode()).decode()


def chosen(arguments: Mapping[str, str], name: str) -> str | None:
    """Read an optional filter. An empty value counts as missing."""
    return arguments.get(name) or None


def flag(arguments: Mapping[str, str], name: str) -> bool | None:
    """Read an optional truth value in any case, because Python clients send ``True``.

    :raises InvalidFieldError: the value is neither true nor false
    """
    value = chosen(arguments, name)
    if value is None:
        return None
    if value.lower() not in ("true", "false", "1", "0"):
        raise InvalidFieldError(name, f"{name} must be true or false")
    return value.lower() in ("true", "1")


def number(arguments: Mapping[str, str], name: str, *, maximum: int) -> int | None:
    """Read an optional whole number.

    :raises InvalidFieldError: the value is not a number from 1 to ``maximum``
    """
    value = chosen(arguments, name)
    if value is None:
        return None
    if not (value.isascii() and value.isdigit() and len(value) <= 18 and 1 <= int(value) <= maximum):
        raise InvalidFieldError(name, f"{name} must be an integer from 1 to {maximum}")
    return int(value)


def _bounded(arguments: Mapping[str, str], name: str, *, default: int, maximum: int) -> int:
    # A client of the real gateway sends 0 for its default.
    if arguments.get(name) == "0":
        return default
    return number(arguments, name, maximum=maximum) or default


def _position(arguments: Mapping[str, str], name: str, *, kind: str) -> int | None:
    """Decode a position in a list, or return None if the argument is missing.

    :raises InvalidFieldError: the cursor belongs to no list of this kind
    """
    value = chosen(arguments, name)
    if value is None:
        return None
    try:
        found, _, position = base64.urlsafe_b64decode(value.encode()).decode().partition(":")
    except (ValueError, binascii.Error):
        found, position = "", ""
    if found != kind or not (position.isascii() and position.isdigit() and len(position) <= 15):
        raise InvalidFieldError(name, f"{name} is not a cursor of this list")
    return int(position)


def _moment(arguments: Mapping[str, str], name: str) -> str | None:
    """Read a bound of a time range. Both bounds are inclusive, and a date means the whole day in UTC."""
    value = chosen(arguments, name)
    if value is None:
        return None
    # A client library escapes values twice.
    text = unquote(value)
    try:
        moment = datetime.fromisoformat(text)
        if name == "to" and len(text) <= _DATE_LENGTH:
            moment += timedelta(days=1) - _TICK
        return timestamp(moment if moment.tzinfo else moment.replace(tzinfo=UTC))
    except (ValueError, OverflowError) as error:
        raise InvalidFieldError(name, f"{name} must be an ISO 8601 date or time") from error
