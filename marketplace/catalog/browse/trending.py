"""What trends, and after it what nobody looked at of late, by popularity."""

from datetime import datetime
from typing import Any

from sqlalchemy.orm import Session

from marketplace.catalog.browse import cards, listing
from marketplace.catalog.browse.listing import ProductFilters
from marketplace.kernel.paging import Page, PageRequest, UnknownCursorError

_TRENDING = "trends"
_NOT_TRENDING = "trends_not"


def list_trending(
    session: Session, *, filters: ProductFilters, page: PageRequest, now: datetime, media_base_url: str
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
    conditions = listing.build_conditions(session, filters)
    if conditions is None:
        return Page(items=[], limit=page.limit, next_position=None)

    def fetch_rows(part: str, sort: str, limit: int, position: list[Any] | None) -> list[tuple[Any, ...]]:
        return listing.fetch_listing_rows(
            session,
            sort=sort,
            conditions=conditions | {part: True},
            page=PageRequest(limit, position),
            now=now,
            media_base_url=media_base_url,
        )

    part: Any = _TRENDING
    position: list[Any] | None = None
    if page.position is not None:
        part, position = next(iter(page.position), None), page.position[1:]
        if part not in (_TRENDING, _NOT_TRENDING):
            raise UnknownCursorError
    rows: list[tuple[Any, ...]] = []
    if part == _TRENDING:
        rows = fetch_rows(_TRENDING, "trending", page.limit, position)
        if len(rows) > page.limit:
            return _build_page(page, rows[:-1], [_TRENDING, *listing.cursor_position(rows[-2])])
        position = None
    room = page.limit - len(rows)
    tail = fetch_rows(_NOT_TRENDING, "popular", room, position or None)
    more = len(tail) > room
    shown_rows = tail[:room]
    if not more:
        return _build_page(page, rows + shown_rows, None)
    return _build_page(
        page,
        rows + shown_rows,
        [_NOT_TRENDING, *(listing.cursor_position(shown_rows[-1]) if shown_rows else ())],
    )


def _build_page(page: PageRequest, rows: list[tuple[Any, ...]], next_position: list[Any] | None) -> Page:
    return Page(items=[cards.build_card(row) for row in rows], limit=page.limit, next_position=next_position)
