"""Pages, as the domain is asked for them and gives them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, TypeVar

from marketplace.kernel.errors import InvalidParam, ValidationError
from marketplace.kernel.ids import parse_uuid

DEFAULT_LIMIT = 20
DEFAULT_TABLE_LIMIT = 50
MAX_LIMIT = 100
MAX_PAGE_NUMBER = 100_000


_RowT = TypeVar("_RowT")
CursorValueType = Literal["id", "time", "number", "text", "flag"]


class UnknownCursorError(ValidationError):
    """The cursor was altered, is another listing's, or was given out when its listing was sorted otherwise."""

    def __init__(self) -> None:
        reason = "Is not a cursor of this listing with these filters."
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
    """Give the values of a position, each of which is what its listing is sorted by now.

    A cursor's signature tells that we gave it out, not when: a listing may have been sorted otherwise before a
    deployment. So no listing takes a position apart by itself.

    :param position: as it stood in the cursor, or none
    :param parts: what each of its values is
    :return: as many values as there are parts; each is none where the position is
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
    """A page by keyset: at most ``limit`` rows after a position (none: from the start)."""

    limit: int
    position: list[Any] | None = None

    def after(self, *parts: CursorValueType) -> list[Any]:
        """Give the position's values; see ``read_position``."""
        return read_position(self.position, parts)


@dataclass(frozen=True)
class Page:
    """Rows in order, and the position to go on from (none: there is no more).

    ``data`` is what is answered where that is more than the items: an object that has them as one of its fields.
    """

    items: list[Any]
    limit: int
    next_position: list[Any] | None
    extra_meta: dict[str, Any] = field(default_factory=dict)
    data: Any = None


@dataclass(frozen=True, kw_only=True)
class TableRequest(PageRequest):
    """A page of a table, sorted as the client likes: by its number, or (none) after a position like a page.

    ``number`` counts from 1; without number and position it is the cursor form's first page.
    """

    number: int | None
    sort: str
    descending: bool

    @property
    def offset(self) -> int:
        """Give the number of rows before the page; none where it goes by position."""
        return (self.number - 1) * self.limit if self.number else 0


@dataclass(frozen=True)
class TablePage:
    """Rows of a table in order, how many there are in all, and the position to go on from (none: no more)."""

    items: list[Any]
    request: TableRequest
    total: int
    next_position: list[Any] | None = None
    extra_meta: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class DataWithMeta:
    """Data that is not paged, with what ``meta`` tells of it."""

    data: Any
    meta: dict[str, Any]


def page_of(rows: list[_RowT], *, request: PageRequest, position_of: Callable[[_RowT], list[Any]]) -> Page:
    """Make a page of rows of which one more than asked for was fetched, if there are.

    :param rows: at most ``limit + 1``, in order
    :param request: what was asked for
    :param position_of: gives a row's sort key as JSON scalars
    """
    items = rows[: request.limit]
    return Page(
        items=items,
        limit=request.limit,
        next_position=position_of(items[-1]) if len(rows) > request.limit else None,
    )
