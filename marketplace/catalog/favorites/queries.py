"""Favourites of a person as product cards."""

from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import Select, Uuid, bindparam, literal_column, select, tuple_
from sqlalchemy.orm import Session

from marketplace.catalog.browse import listing
from marketplace.catalog.models import Favorite, Product
from marketplace.infra.sql.statements import Prepared
from marketplace.kernel.clock import iso
from marketplace.kernel.paging import Page, PageRequest
from marketplace.vendors.models import VendorProfile
from marketplace.vendors.queries import STORE_IS_OPEN


def _page_clause(*, has_cursor: bool) -> Select[Any]:
    clause = (
        select(*listing.CARD_COLUMNS, Favorite.created_at.label("added_at"), Favorite.id.label("favorite_id"))
        .join(Product, Product.id == Favorite.product_id)
        .join(VendorProfile, VendorProfile.id == Product.vendor_id)
        .where(
            Favorite.user_id == bindparam("user_id", type_=Uuid),
            Product.status == literal_column("'published'"),
            STORE_IS_OPEN,
        )
        .order_by(Favorite.created_at.desc(), Favorite.id.desc())
        .limit(bindparam("limit"))
    )
    if has_cursor:
        clause = clause.where(tuple_(Favorite.created_at, Favorite.id) < listing.LAST_ROW)
    return clause


_SELECT_FIRST_PAGE = Prepared(_page_clause(has_cursor=False))
_SELECT_NEXT_PAGE = Prepared(_page_clause(has_cursor=True))


def list_favorites(
    session: Session, *, user_id: UUID, page: PageRequest, now: datetime, media_base_url: str
) -> Page:
    """List the visible favourites of a person in a single query, the latest first.

    Deleted and hidden products, and products of stores on vacation, are left out until they are visible again.

    :return: product cards
    """
    parameters: dict[str, Any] = {
        "user_id": user_id,
        "now": now,
        "media_base_url": media_base_url,
        "limit": page.limit + 1,
    }
    if page.position is None:
        rows = _SELECT_FIRST_PAGE.tuples(session, **parameters)
    else:
        last_position, last_id = page.after("time", "id")
        rows = _SELECT_NEXT_PAGE.tuples(session, **parameters, last_position=last_position, last_id=last_id)
    return listing.card_page(rows, page, position_of=_position_of)


def _position_of(row: tuple[Any, ...]) -> list[Any]:
    added_at, favorite_id = row[-2:]
    return [iso(added_at), str(favorite_id)]
