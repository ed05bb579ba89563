"""Vibes as the public sees them, with the cards of their products, and as staff do."""

import re
from collections.abc import Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any
from uuid import UUID

from sqlalchemy import ARRAY, Uuid, bindparam, func, literal_column, select, text, true
from sqlalchemy.orm import Session

from marketplace.catalog.browse import cards
from marketplace.catalog.campus_filter import campus_condition, campus_parameters
from marketplace.catalog.models import Product
from marketplace.catalog.promotions import listing
from marketplace.catalog.promotions.models import VibeProduct
from marketplace.catalog.promotions.vibes import MAX_PRODUCTS_PER_VIBE, SLUG_PATTERN
from marketplace.infra.db import Row, Statement
from marketplace.kernel.errors import NotFoundError
from marketplace.kernel.ids import parse_uuid
from marketplace.kernel.paging import Page, PageRequest
from marketplace.vendors.models import VendorProfile
from marketplace.vendors.queries import STORE_IS_OPEN

CARDS_PER_LISTED_VIBE = 12
"""So many cards of each vibe are in the listing; all of them are in its detail."""

_SLUG_REGEX = re.compile(SLUG_PATTERN)
_SELECT_VIBES_SQL = f"""
    SELECT t.id, t.slug, t.title, t.description, {listing.IMAGE_URL_SQL}, t.image_id, t.campus_id,
        t.position, {listing.LIFETIME_COLUMNS_SQL},
        ARRAY(SELECT v.product_id FROM vibe_products v WHERE v.vibe_id = t.id ORDER BY v.position) AS product_ids
    FROM vibes t
"""
VIBE_TABLE = listing.PromotionTable(_SELECT_VIBES_SQL, name="vibe")


def list_running_vibes(
    session: Session, *, campus: str | None, page: PageRequest, now: datetime, media_base_url: str
) -> Page:
    """List the vibes whose time it is with the first cards of each, in two queries.

    :param campus: its id or slug: its vibes and those of all campuses, with what is sold there alone; none for
        every vibe
    """
    running = VIBE_TABLE.list_running(
        session, campus=campus, page=page, now=now, media_base_url=media_base_url
    )
    feeds = _fetch_cards_by_vibe(
        session,
        [row["id"] for row in running.items],
        campus=campus,
        max_cards=CARDS_PER_LISTED_VIBE + 1,
        now=now,
        media_base_url=media_base_url,
    )
    for row in running.items:
        feed = feeds[row["id"]]
        row |= {"products": feed[:CARDS_PER_LISTED_VIBE], "has_more": len(feed) > CARDS_PER_LISTED_VIBE}
    return running


_SELECT_RUNNING_VIBE_BY_ID = Statement(
    text(f"{_SELECT_VIBES_SQL} WHERE t.id = :vibe AND {listing.IS_RUNNING_SQL}")
)
_SELECT_RUNNING_VIBE_BY_SLUG = Statement(
    text(f"{_SELECT_VIBES_SQL} WHERE t.slug = :vibe AND {listing.IS_RUNNING_SQL}")
)


def fetch_running_vibe(session: Session, *, vibe: str, now: datetime, media_base_url: str) -> Row:
    """Fetch a running vibe with all its cards, in two queries.

    :param vibe: its id or slug
    :raises NotFoundError: the vibe does not exist or does not run
    """
    row = None
    if parse_uuid(vibe) is not None:
        row = _SELECT_RUNNING_VIBE_BY_ID.first(session, vibe=vibe, now=now, media_base_url=media_base_url)
    elif _SLUG_REGEX.fullmatch(vibe):  # A path may hold text that the database cannot.
        row = _SELECT_RUNNING_VIBE_BY_SLUG.first(session, vibe=vibe, now=now, media_base_url=media_base_url)
    if row is None:
        raise NotFoundError("There is no such vibe.")
    feeds = _fetch_cards_by_vibe(
        session,
        [row["id"]],
        campus=None,
        max_cards=MAX_PRODUCTS_PER_VIBE,
        now=now,
        media_base_url=media_base_url,
    )
    return row | {"products": feeds[row["id"]], "has_more": False}


@lru_cache(maxsize=4)
def _cards_statement(*, campus: str | None) -> Statement[Row]:
    """Select, for each of some vibes, the first cards that the public sees."""
    vibe_ids = func.unnest(bindparam("ids", type_=ARRAY(Uuid))).table_valued("id").render_derived("wanted")
    vibe_cards = (
        select(*cards.CARD_COLUMNS, VibeProduct.position.label("place"))
        .join(Product, Product.id == VibeProduct.product_id)
        .join(VendorProfile, VendorProfile.id == Product.vendor_id)
        .where(
            VibeProduct.vibe_id == vibe_ids.c.id,
            Product.status == literal_column("'published'"),
            STORE_IS_OPEN,
        )
        .order_by(VibeProduct.position)
        .limit(bindparam("limit"))
    )
    if campus is not None:
        vibe_cards = vibe_cards.where(campus_condition(Product.campus_id, campus))
    first_cards = vibe_cards.lateral("shown")
    return Statement(
        select(*first_cards.c, vibe_ids.c.id.label("vibe_id"))
        .select_from(vibe_ids)
        .join(first_cards, true())
        .order_by(vibe_ids.c.id, first_cards.c.place)
    )


def _fetch_cards_by_vibe(
    session: Session,
    ids: Sequence[UUID],
    *,
    campus: str | None,
    max_cards: int,
    now: datetime,
    media_base_url: str,
) -> dict[UUID, list[dict[str, Any]]]:
    feeds: dict[UUID, list[dict[str, Any]]] = {vibe_id: [] for vibe_id in ids}
    campus_values = campus_parameters(campus)
    rows = _cards_statement(campus=next(iter(campus_values), None)).tuples(
        session, **campus_values, ids=list(ids), limit=max_cards, now=now, media_base_url=media_base_url
    )
    for row in rows:
        feeds[row[-1]].append(cards.build_card(row))
    return feeds
