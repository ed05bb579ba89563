"""Pages, as the domain is asked for them and gives them."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

DEFAULT_LIMIT = 20
MAX_LIMIT = 100


@dataclass(frozen=True)
class PageRequest:
    """A page by keyset: at most ``limit`` rows after a position (none: from the start)."""

    limit: int
    position: list[Any] | None = None


@dataclass(frozen=True)
class Page:
    """Rows in order, and the position to go on from (none: there is no more)."""

    items: list[dict[str, Any]]
    limit: int
    next_position: list[Any] | None
    extra_meta: dict[str, Any] = field(default_factory=dict)


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
