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
from marketplace.catalog.promotions.vibes import MAX_PRODUCTS, SLUG
from marketplace.infra.db import Statement
from marketplace.kernel.errors import NotFoundError
from marketplace.kernel.ids import parse_uuid
from marketplace.kernel.paging import Page, PageRequest
from marketplace.vendors.models import VendorProfile
from marketplace.vendors.queries import OPEN

IN_LISTING = 12
"""So many cards of each vibe are in the listing; all of them are in its detail."""

_IS_SLUG = re.compile(SLUG)
_SELECT = f"""
    SELECT t.id, t.slug, t.title, t.description, {listing.IMAGE_URL}, t.image_id, t.campus_id,
        t.position, {listing.LIFETIME}
    FROM vibes t
"""  # noqa: S608 - our own text
_BY_ID = Statement(text(f"{_SELECT} WHERE t.id = :vibe AND {listing.SHOWN}"))
_BY_SLUG = Statement(text(f"{_SELECT} WHERE t.slug = :vibe AND {listing.SHOWN}"))
_CHOSEN = Statement(
    text(
        """
        SELECT vibe_id, array_agg(product_id ORDER BY position) AS product_ids
        FROM vibe_products WHERE vibe_id = ANY(:ids) GROUP BY vibe_id
        """
    )
)


@lru_cache(maxsize=4)
def _cards(*, campus: str | None) -> Statement:
    """Select, for each of some vibes, the first cards that the public sees."""
    wanted = func.unnest(bindparam("ids", type_=ARRAY(Uuid))).table_valued("id").render_derived("wanted")
    chosen = (
        select(*cards.COLUMNS, VibeProduct.position.label("place"))
        .join(Product, Product.id == VibeProduct.product_id)
        .join(VendorProfile, VendorProfile.id == Product.vendor_id)
        .where(VibeProduct.vibe_id == wanted.c.id, Product.status == literal_column("'published'"), OPEN)
        .order_by(VibeProduct.position)
        .limit(bindparam("most"))
    )
    if campus is not None:
        chosen = chosen.where(campus_condition(Product.campus_id, campus))
    shown = chosen.lateral("shown")
    return Statement(
        select(*shown.c, wanted.c.id.label("vibe_id"))
        .select_from(wanted)
        .join(shown, true())
        .order_by(wanted.c.id, shown.c.place)
    )


def list_shown(
    session: Session, *, campus: str | None, page: PageRequest, now: datetime, media_base_url: str
) -> Page:
    """List the vibes whose time it is with the first cards of each, in two queries.

    :param campus: its id or slug: its vibes and those of all campuses, with what is sold there alone; none for
        every vibe
    """
    conditions: tuple[str, ...] = ()
    parameters: dict[str, Any] = {"media_base_url": media_base_url}
    if campus is not None:
        named, given = listing.campus_of(campus)
        conditions, parameters = (f"t.campus_id IS NULL OR t.campus_id = {named}",), parameters | given
    found = listing.list_shown(
        session, select=_SELECT, conditions=conditions, parameters=parameters, page=page, now=now
    )
    ids = [row["id"] for row in found.items]
    feeds = _feeds(session, ids, campus=campus, most=IN_LISTING + 1, now=now, media_base_url=media_base_url)
    items = [
        _view(row)
        | {"products": feeds[row["id"]][:IN_LISTING], "hasMore": len(feeds[row["id"]]) > IN_LISTING}
        for row in found.items
    ]
    return Page(items, found.limit, found.next_position)


def shown(session: Session, *, vibe: str, now: datetime, media_base_url: str) -> dict[str, Any]:
    """Give a vibe whose time it is with all its cards, in two queries.

    :param vibe: its id or slug
    :raises NotFoundError: there is none, or it is not its time
    """
    statement = _BY_SLUG if parse_uuid(vibe) is None else _BY_ID
    row = None
    # A path may hold anything, even what no text in the database can.
    if statement is _BY_ID or _IS_SLUG.fullmatch(vibe):
        row = statement.first(session, vibe=vibe, now=now, media_base_url=media_base_url)
    if row is None:
        raise NotFoundError("There is no such vibe.")
    feeds = _feeds(
        session, [row["id"]], campus=None, most=MAX_PRODUCTS, now=now, media_base_url=media_base_url
    )
    return _view(row) | {"products": feeds[row["id"]], "hasMore": False}


def list_for_staff(
    session: Session, *, state: str | None, page: PageRequest, now: datetime, media_base_url: str
) -> Page:
    """List vibes of any state, or of one, the last made first."""
    found = listing.list_for_staff(
        session,
        select=_SELECT,
        state=state,
        parameters={"media_base_url": media_base_url},
        page=page,
        now=now,
        view=lambda row: _staff_view(row, now),
    )
    chosen = _chosen(session, [item["id"] for item in found.items])
    items = [item | {"productIds": chosen.get(item["id"], [])} for item in found.items]
    return Page(items, found.limit, found.next_position)


def for_staff(session: Session, *, vibe_id: UUID, now: datetime, media_base_url: str) -> dict[str, Any]:
    """Give a vibe as staff see it.

    :raises NotFoundError: there is none
    """
    parameters = {"media_base_url": media_base_url}
    row = listing.find(session, select=_SELECT, row_id=vibe_id, parameters=parameters)
    if row is None:
        raise NotFoundError("There is no such vibe.")
    return _staff_view(row, now) | {"productIds": _chosen(session, [vibe_id]).get(vibe_id, [])}


def _feeds(
    session: Session,
    ids: Sequence[UUID],
    *,
    campus: str | None,
    most: int,
    now: datetime,
    media_base_url: str,
) -> dict[UUID, list[dict[str, Any]]]:
    feeds: dict[UUID, list[dict[str, Any]]] = {vibe_id: [] for vibe_id in ids}
    place = campus_parameters(campus)
    rows = _cards(campus=next(iter(place), None)).tuples(
        session, **place, ids=list(ids), most=most, now=now, media_base_url=media_base_url
    )
    for row in rows:
        feeds[row[-1]].append(cards.card(row))
    return feeds


def _chosen(session: Session, ids: Sequence[UUID]) -> dict[UUID, list[UUID]]:
    return {row["vibe_id"]: row["product_ids"] for row in _CHOSEN.all(session, ids=list(ids))}


def _view(row: dict[str, Any]) -> dict[str, Any]:
    return {
        "id": row["id"],
        "slug": row["slug"],
        "title": row["title"],
        "description": row["description"],
        "imageUrl": row["shown_image_url"],
        "campusId": row["campus_id"],
        "position": row["position"],
        "startsAt": row["starts_at"],
        "endsAt": row["ends_at"],
    }


def _staff_view(row: dict[str, Any], now: datetime) -> dict[str, Any]:
    return _view(row) | {"imageId": row["image_id"]} | listing.lifetime_view(row, now=now)
