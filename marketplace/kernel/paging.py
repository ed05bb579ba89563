"""Requests for pages of a listing, and the pages that answer these requests."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, TypeVar

from marketplace.kernel import texts
from marketplace.kernel.errors import InvalidParam, ValidationError
from marketplace.kernel.ids import parse_uuid

DEFAULT_LIMIT = 20
DEFAULT_TABLE_LIMIT = 50
MAX_LIMIT = 100
MAX_PAGE_NUMBER = 100_000


_RowT = TypeVar("_RowT")
CursorValueType = Literal["id", "time", "number", "text", "flag"]


class UnknownCursorError(ValidationError):
    """The cursor was altered, belongs to another listing, or predates a change of the sort order."""

    def __init__(self) -> None:
        reason = texts.UNKNOWN_CURSOR
        super().__init__(f"cursor: {reason}", invalid_params=[InvalidParam("cursor", reason)])


def _is_time(value: Any) -> bool:
    try:
        return isinstance(value, str) and datetime.fromisoformat(value).tzinfo is not None
    except ValueError:
        return False


_TYPE_CHECKS: dict[CursorValueType, Callable[[Any], bool]] = {
    "id": lambda value: isinstance(value, str) and parse_uuid(value) is not None,
    "time": _is_time,
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    "text": lambda value: isinstance(value, str),
    "flag": lambda value: isinstance(value, bool),
}


def read_position(position: list[Any] | None, parts: Sequence[CursorValueType]) -> list[Any]:
    """Check that the values of a position match the current sort key, and return the values.

    A valid signature proves only that this service issued the cursor. The listing may have had another sort order
    before a deployment. Every listing must therefore read positions with this function.

    :param position: the position from the cursor; none means the first page
    :param parts: the type of each value
    :return: a value for each part; all are none without a position
    :raises UnknownCursorError: the position has another shape
    """
    if position is None:
        return [None] * len(parts)
    if len(position) != len(parts) or not all(
        _TYPE_CHECKS[part](value) for part, value in zip(parts, position, strict=True)
    ):
        raise UnknownCursorError
    return position


@dataclass(frozen=True)
class PageRequest:
    """A request for at most ``limit`` rows after a position (keyset paging). No position means the first page."""

    limit: int
    position: list[Any] | None = None

    def after(self, *parts: CursorValueType) -> list[Any]:
        """Return the values of the position, as ``read_position`` does."""
        return read_position(self.position, parts)


@dataclass(frozen=True)
class Page:
    """Ordered rows, and the position of the next page (none on the last page).

    ``data`` replaces the items in the response if the response is an object with the items in one of the fields.
    """

    items: list[Any]
    limit: int
    next_position: list[Any] | None
    extra_meta: dict[str, Any] = field(default_factory=dict)
    data: Any = None


@dataclass(frozen=True, kw_only=True)
class TableRequest(PageRequest):
    """A request for a page of a table in the client's sort order, by page number or after a position.

    ``number`` starts at 1. Without a number and a position, the request is for the first page of the cursor form.
    """

    number: int | None
    sort: str
    descending: bool

    @property
    def offset(self) -> int:
        """The number of rows before the page, or 0 for a page after a position."""
        return (self.number - 1) * self.limit if self.number else 0


@dataclass(frozen=True)
class TablePage:
    """Ordered rows of a table, the total number of rows, and the position of the next page (none on the last page)."""

    items: list[Any]
    request: TableRequest
    total: int
    next_position: list[Any] | None = None
    extra_meta: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class DataWithMeta:
    """Data without pages, and the fields of the response's ``meta``."""

    data: Any
    meta: dict[str, Any]


def page_of(rows: list[_RowT], *, request: PageRequest, position_of: Callable[[_RowT], list[Any]]) -> Page:
    """Build a page. The extra row beyond the limit shows that another page follows.

    :param rows: at most ``limit + 1`` rows, in order
    :param position_of: returns the sort key of a row as JSON scalars
    """
    items = rows[: request.limit]
    return Page(
        items=items,
        limit=request.limit,
        next_position=position_of(items[-1]) if len(rows) > request.limit else None,
    )
