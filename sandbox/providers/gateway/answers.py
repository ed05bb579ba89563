"""The gateway's response envelopes: successes, failures and paginated lists."""

import secrets
import sqlite3
from collections.abc import Mapping
from datetime import UTC, datetime

from flask import Response, jsonify

from sandbox.providers.fields import InvalidFieldError

DEFAULT_PER_PAGE = 50
MAXIMUM_PER_PAGE = 100
MAXIMUM_PAGE = 1_000_000
CODE_ALPHABET = "abcdefghijklmnopqrstuvwxyz0123456789"


class GatewayFailure(Exception):  # noqa: N818 - the gateway's term for a response with status false
    """A response with ``status: false``. The call has had no effect."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        code: str = "invalid_params",
        kind: str = "validation_error",
        next_step: str = "Ensure that the value(s) you're passing are valid.",
    ) -> None:
        super().__init__(message)
        self.status = status
        self.body = {
            "status": False,
            "message": message,
            "meta": {"nextStep": next_step},
            "type": kind,
            "code": code,
        }


def success(message: str, data: object, *, meta: Mapping[str, object] | None = None) -> Response:
    """Build the response to a successful call."""
    body: dict[str, object] = {"status": True, "message": message, "data": data}
    if meta is not None:
        body["meta"] = dict(meta)
    return jsonify(body)


def timestamp(moment: datetime) -> str:
    """Format a time as the gateway does: ISO 8601 in UTC with milliseconds.

    All such texts have the same length and zone, so they sort by time. The lists rely on this order.
    """
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def random_code(prefix: str, *, length: int = 15) -> str:
    """Generate an unguessable code such as ``TRF_x8..``."""
    return prefix + "".join(secrets.choice(CODE_ALPHABET) for _ in range(length))


class Page:
    """The requested part of a list: ``perPage``, ``page``, ``from`` and ``to``."""

    def __init__(self, arguments: Mapping[str, str]) -> None:
        """Read the requested part from the query string.

        :raises InvalidFieldError: a number is out of range, or a date is invalid
        """
        self.per_page = _bounded(arguments, "perPage", default=DEFAULT_PER_PAGE, maximum=MAXIMUM_PER_PAGE)
        self.page = _bounded(arguments, "page", default=1, maximum=MAXIMUM_PAGE)
        self.since = _moment(arguments, "from") or ""
        # This default sorts after every time.
        self.until = _moment(arguments, "to") or "9999"

    @property
    def skipped(self) -> int:
        """The number of rows before this page."""
        return (self.page - 1) * self.per_page

    def meta(self, total: int) -> dict[str, object]:
        """Describe the page.

        :param total: number of rows in the whole list
        """
        return {
            "total": total,
            "skipped": self.skipped,
            "perPage": self.per_page,
            "page": self.page,
            "pageCount": -(-total // self.per_page),
        }

    def rows(
        self, connection: sqlite3.Connection, *, query: str, parameters: Mapping[str, object]
    ) -> tuple[list[sqlite3.Row], int]:
        """Fetch the page's rows and count all rows.

        :param query: a fixed SELECT of this package with a column ``id``, without order and limit; may use
            ``:since`` and ``:until``
        :return: the rows, newest first, and the total number of rows
        """
        values = {**parameters, "since": self.since, "until": self.until}
        total = connection.execute(f"SELECT count(*) FROM ({query})", values).fetchone()[0]
        paged = f"SELECT * FROM ({query}) ORDER BY id DESC LIMIT :limit OFFSET :offset"
        rows = connection.execute(
            paged, {**values, "limit": self.per_page, "offset": self.skipped}
        ).fetchall()
        return rows, int(total)


def _bounded(arguments: Mapping[str, str], name: str, *, default: int, maximum: int) -> int:
    value = arguments.get(name)
    if value is None:
        return default
    if not (value.isascii() and value.isdigit() and len(value) <= 7 and 1 <= int(value) <= maximum):
        raise InvalidFieldError(name, f"{name} must be an integer from 1 to {maximum}")
    return int(value)


def _moment(arguments: Mapping[str, str], name: str) -> str | None:
    value = arguments.get(name)
    if value is None:
        return None
    try:
        moment = datetime.fromisoformat(value)
    except ValueError as error:
        raise InvalidFieldError(name, f"{name} must be an ISO 8601 date or time") from error
    return timestamp(moment if moment.tzinfo else moment.replace(tzinfo=UTC))
