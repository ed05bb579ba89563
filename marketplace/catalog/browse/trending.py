"""What trends, and after it what nobody looked at of late, by popularity."""

from datetime import datetime
from typing import Any

from sqlalchemy.orm import Session

from marketplace.catalog.browse import cards, listing
from marketplace.catalog.browse.listing import Filters
from marketplace.kernel.paging import Page, PageRequest, UnknownCursorError

_TRENDS = "trends"
_TAIL = "trends_not"


def list_trending(
    session: Session, *, filters: Filters, page: PageRequest, now: datetime, media_base_url: str
) -> Page:
    """List published products of open stores by what was counted of them in 24 hours.

    What was not counted at all follows by popularity, so that a quiet campus still sees something. It takes one
    query, two where the page reaches what was not counted, and one more with a category.

    :param filters: what is wanted
    :param page: which page; its position tells which of the two parts it is in
    :param now: the time of the request
    :param media_base_url: where pictures are read
    :return: cards
    """
    given = listing.conditions_of(session, filters)
    if given is None:
        return Page(items=[], limit=page.limit, next_position=None)

    def rows_of(part: str, sort: str, limit: int, position: list[Any] | None) -> list[tuple[Any, ...]]:
        return listing.rows_of(
            session,
            sort=sort,
            given=given | {part: True},
            page=PageRequest(limit, position),
            now=now,
            media_base_url=media_base_url,
        )

    part: Any = _TRENDS
    position: list[Any] | None = None
    if page.position is not None:
        part, position = next(iter(page.position), None), page.position[1:]
        if part not in (_TRENDS, _TAIL):
            raise UnknownCursorError
    rows: list[tuple[Any, ...]] = []
    if part == _TRENDS:
        rows = rows_of(_TRENDS, "trending", page.limit, position)
        if len(rows) > page.limit:
            return _page(page, rows[:-1], [_TRENDS, *listing.position_of(rows[-2])])
        position = None
    room = page.limit - len(rows)
    tail = rows_of(_TAIL, "popular", room, position or None)
    more = len(tail) > room
    shown = tail[:room]
    if not more:
        return _page(page, rows + shown, None)
    return _page(page, rows + shown, [_TAIL, *(listing.position_of(shown[-1]) if shown else ())])


def _page(page: PageRequest, rows: list[tuple[Any, ...]], next_position: list[Any] | None) -> Page:
    return Page(items=[cards.card(row) for row in rows], limit=page.limit, next_position=next_position)
