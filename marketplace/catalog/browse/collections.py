"""Public product collections: trending, new arrivals, exclusives, a store's products, and products by id."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from sqlalchemy import ARRAY, Uuid, any_, bindparam, literal_column, select
from sqlalchemy.orm import Session

from marketplace.catalog.browse import listing
from marketplace.catalog.models import Product
from marketplace.infra.sql.statements import Statement
from marketplace.kernel.errors import NotFoundError
from marketplace.kernel.paging import Page, PageRequest, UnknownCursorError
from marketplace.vendors import queries as vendor_queries
from marketplace.vendors.models import VendorProfile

NEW_ARRIVAL_PERIOD = timedelta(days=14)
MAX_PRODUCT_IDS = 100
_TRENDING, _NOT_TRENDING = "trends", "trends_not"


def list_new_arrivals(
    session: Session,
    *,
    filters: listing.ProductFilters,
    page: PageRequest,
    now: datetime,
    media_base_url: str,
) -> Page:
    """List products first published within ``NEW_ARRIVAL_PERIOD``, newest first.

    :return: product cards
    """
    return listing.list_products(
        session,
        filters=replace(filters, published_after=now - NEW_ARRIVAL_PERIOD),
        sort="newest",
        page=page,
        now=now,
        media_base_url=media_base_url,
    )


def list_exclusives(
    session: Session,
    *,
    filters: listing.ProductFilters,
    page: PageRequest,
    now: datetime,
    media_base_url: str,
) -> Page:
    """List exclusive products of verified stores, newest first.

    A store without verification has no exclusives, even if listings are marked as exclusive.

    :return: product cards
    """
    return listing.list_products(
        session,
        filters=replace(filters, exclusive=True),
        sort="newest",
        page=page,
        now=now,
        media_base_url=media_base_url,
    )


def list_vendor_products(
    session: Session,
    *,
    vendor_id: UUID,
    filters: listing.ProductFilters,
    sort: str,
    page: PageRequest,
    now: datetime,
    media_base_url: str,
) -> Page:
    """List the public products of a store. A store on vacation has none.

    :param sort: a name of ``listing.SORTS``
    :return: product cards
    :raises NotFoundError: the store does not exist, or is suspended or closed
    """
    store = vendor_queries.find_store(session, vendor_id=vendor_id)
    if store is None or store.status != "active":
        raise NotFoundError("Store not found.")
    return listing.list_products(
        session,
        filters=replace(filters, vendor_id=vendor_id),
        sort=sort,
        page=page,
        now=now,
        media_base_url=media_base_url,
    )


_SELECT_CARDS_BY_IDS = Statement(
    select(*listing.CARD_COLUMNS)
    .join(VendorProfile, VendorProfile.id == Product.vendor_id)
    .where(
        Product.id == any_(bindparam("product_ids", type_=ARRAY(Uuid))),
        Product.status == literal_column("'published'"),
        vendor_queries.STORE_IS_OPEN,
    )
)


def list_products_by_ids(
    session: Session, *, product_ids: Sequence[UUID], now: datetime, media_base_url: str
) -> tuple[list[listing.ProductCard], list[str]]:
    """Fetch publicly visible products by id in a single query.

    :param product_ids: at most ``MAX_PRODUCT_IDS``; repeated ids are ignored
    :return: cards in the order of the ids, and the ids without a visible product
    """
    distinct_ids = list(dict.fromkeys(product_ids))
    rows_by_id = {
        row[0]: row
        for row in _SELECT_CARDS_BY_IDS.tuples(
            session, product_ids=distinct_ids, now=now, media_base_url=media_base_url
        )
    }
    names = [str(product_id) for product_id in distinct_ids]
    return (
        [listing.build_card(rows_by_id[name]) for name in names if name in rows_by_id],
        [name for name in names if name not in rows_by_id],
    )


def list_trending(
    session: Session,
    *,
    filters: listing.ProductFilters,
    page: PageRequest,
    now: datetime,
    media_base_url: str,
) -> Page:
    """List published products of open stores by trending score of the last 24 hours.

    Products without a score follow by popularity, so that a quiet campus still has results. The listing takes a
    single query, a second query when a page reaches products without a score, and another with a category.

    :param page: the cursor position also says which of the two parts the page starts in
    :return: product cards
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
    next_position: list[Any] | None = None
    if part == _TRENDING:
        rows = fetch_rows(_TRENDING, "trending", page.limit, position)
        position = None
    if len(rows) > page.limit:
        rows = rows[: page.limit]
        next_position = [_TRENDING, *listing.cursor_position(rows[-1])]
    else:
        room = page.limit - len(rows)
        tail = fetch_rows(_NOT_TRENDING, "popular", room, position or None)
        rows += tail[:room]
        if len(tail) > room:
            next_position = [_NOT_TRENDING, *(listing.cursor_position(rows[-1]) if room else ())]
    return Page([listing.build_card(row) for row in rows], page.limit, next_position)
