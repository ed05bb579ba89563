"""Pages, as the domain is asked for them and gives them."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

DEFAULT_LIMIT = 20
DEFAULT_TABLE_LIMIT = 50
MAX_LIMIT = 100
MAX_PAGE_NUMBER = 100_000


@dataclass(frozen=True)
class PageRequest:
    """A page by keyset: at most ``limit`` rows after a position (none: from the start)."""

    limit: int
    position: list[Any] | None = None


@dataclass(frozen=True)
class Page:
    """Rows in order, and the position to go on from (none: there is no more).

    ``data`` is what is answered where that is more than the items: an object that has them as one of its fields.
    """

    items: list[dict[str, Any]]
    limit: int
    next_position: list[Any] | None
    extra_meta: dict[str, Any] = field(default_factory=dict)
    data: dict[str, Any] | None = None


@dataclass(frozen=True)
class TableRequest:
    """A page of a table, sorted as the client likes: by its number, or (none) after a position like a page.

    ``number`` counts from 1; without number and position it is the cursor form's first page.
    """

    number: int | None
    limit: int
    sort: str
    descending: bool
    position: list[Any] | None = None

    @property
    def offset(self) -> int:
        """This function will give the number of rows before the page; none where it goes by position."""
        return (self.number - 1) * self.limit if self.number else 0


@dataclass(frozen=True)
class TablePage:
    """Rows of a table in order, how many there are in all, and the position to go on from (none: no more)."""

    items: list[dict[str, Any]]
    request: TableRequest
    total: int
    next_position: list[Any] | None = None
    extra_meta: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Annotated:
    """Data that is not paged, with what ``meta`` tells of it."""

    data: Any
    meta: dict[str, Any]


def page_of(
    rows: list[dict[str, Any]], *, request: PageRequest, position_of: Callable[[dict[str, Any]], list[Any]]
) -> Page:
    """This function will make a page of rows of which one more than asked for was fetched, if there are.

    :param rows: at most ``limit + 1``, in order
    :param request: what was asked for
    :param position_of: gives a row's sort key as JSON scalars
    """
    shown = rows[: request.limit]
    more = len(rows) > request.limit
    return Page(items=shown, limit=request.limit, next_position=position_of(shown[-1]) if more else None)
