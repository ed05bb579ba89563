"""Featured products: chosen and ordered by staff, shown on the product's campus."""

from datetime import datetime
from functools import lru_cache
from typing import Any
from uuid import UUID

from sqlalchemy import and_, bindparam, literal_column, or_, select, tuple_
from sqlalchemy.orm import Session

from marketplace.audit.operations import Act
from marketplace.catalog import cache_tags, stock, texts
from marketplace.catalog.browse.listing import CARD_COLUMNS, LAST_ROW, card_page
from marketplace.catalog.campus_filter import campus_condition, campus_parameters
from marketplace.catalog.models import Product
from marketplace.catalog.promotions import common, listing
from marketplace.catalog.promotions.models import FeaturedProduct
from marketplace.infra.sql.statements import Row, Statement
from marketplace.kernel.clock import iso
from marketplace.kernel.errors import ConflictError, InvalidParam, ValidationError
from marketplace.kernel.paging import Page, PageRequest
from marketplace.vendors.models import VendorProfile
from marketplace.vendors.queries import STORE_IS_OPEN

_FEATURED = common.PromotionType(
    FeaturedProduct,
    name="featured_product",
    audited_columns=("product_id", "position", "starts_at", "ends_at", "ended_at"),
    tag=cache_tags.FEATURED,
)
FEATURED_TABLE = listing.PromotionTable(
    f"""
    SELECT t.id, t.position, {listing.LIFETIME_COLUMNS_SQL}, {listing.PRODUCT_SQL}
    FROM featured_products t JOIN products p ON p.id = t.product_id
    """,
    name="featured product",
)


class AlreadyFeaturedError(ConflictError):
    """The product is already featured in this period."""

    reason = "already-featured"


def create_featured_product(
    session: Session,
    act: Act,
    *,
    product_id: UUID,
    position: int,
    starts_at: datetime | None,
    ends_at: datetime | None,
) -> UUID:
    """Feature a product for a period.

    :param product_id: a product in any status except removed and deleted; shown only while the product is visible
    :param position: lowest first; equal positions are ordered by creation
    :param starts_at: None for now
    :param ends_at: None for an open end
    :return: id of the entry
    :raises ValidationError: the product does not exist, or the period is invalid
    :raises ConflictOfInterestError: the product belongs to the officer's own store
    :raises AlreadyFeaturedError: the product is already featured in the period
    """
    # The lock keeps two officers from featuring the product at the same time.
    stock.lock_products(session, product_ids=[product_id])
    product = common.find_promotable_products(session, [product_id]).get(product_id)
    if product is None:
        raise ValidationError.of("productId", "Product not found.")
    common.ensure_not_own_store(product.user_id, user_id=act.person_id)
    entry = _FEATURED.build(
        session,
        act,
        {"product_id": product_id, "position": position, "starts_at": starts_at, "ends_at": ends_at},
    )
    entry.campus_id = product.campus_id
    _ensure_no_overlap(session, product_id=product_id, starts_at=entry.starts_at, ends_at=ends_at)
    return _FEATURED.insert(session, act, entry)


def update_featured_product(
    session: Session, act: Act, *, entry_id: UUID, revision: int | None, changes: dict[str, Any]
) -> None:
    """Change the position or the period of a featured product.

    :param revision: the revision that the client read, or None to skip the check
    :param changes: columns: position, starts_at, ends_at
    :raises NotFoundError: the entry does not exist
    :raises ConflictOfInterestError: the product belongs to the officer's own store
    :raises PromotionEndedError: the entry has ended
    :raises StaleRevisionError: the revision is not current
    :raises ValidationError: the period is invalid, or the entry has started and its start would change
    :raises AlreadyFeaturedError: the product is already featured in the period
    """
    _lock_product_of_entry(session, act, entry_id)
    entry = _FEATURED.lock_to_change(session, act, entry_id, revision=revision, changes=changes)
    _ensure_no_overlap(
        session,
        product_id=entry.product_id,
        starts_at=changes.get("starts_at", entry.starts_at),
        ends_at=changes.get("ends_at", entry.ends_at),
        entry_id=entry.id,
    )
    _FEATURED.change(session, act, entry, changes)


def end_featured_product(session: Session, act: Act, *, entry_id: UUID) -> None:
    """Stop featuring a product now.

    :raises NotFoundError: the entry does not exist
    :raises ConflictOfInterestError: the product belongs to the officer's own store
    :raises PromotionEndedError: the entry has already ended
    """
    _lock_product_of_entry(session, act, entry_id)
    _FEATURED.end(session, act, entry_id)


@lru_cache(maxsize=16)
def _cards_statement(*, campus: str | None, has_cursor: bool) -> Statement[Row]:
    is_running = and_(
        FeaturedProduct.ended_at.is_(None),
        FeaturedProduct.starts_at <= bindparam("now"),
        or_(FeaturedProduct.ends_at.is_(None), FeaturedProduct.ends_at > bindparam("now")),
    )
    clause = (
        select(*CARD_COLUMNS, FeaturedProduct.position, FeaturedProduct.id.label("entry_id"))
        .join(Product, Product.id == FeaturedProduct.product_id)
        .join(VendorProfile, VendorProfile.id == Product.vendor_id)
        .where(is_running, Product.status == literal_column("'published'"), STORE_IS_OPEN)
        .order_by(FeaturedProduct.position, FeaturedProduct.id)
        .limit(bindparam("limit"))
    )
    if campus is not None:
        clause = clause.where(campus_condition(FeaturedProduct.campus_id, campus))
    if has_cursor:
        clause = clause.where(tuple_(FeaturedProduct.position, FeaturedProduct.id) > LAST_ROW)
    return Statement(clause)


def list_featured_cards(
    session: Session, *, campus: str | None, page: PageRequest, now: datetime, media_base_url: str
) -> Page:
    """List featured products of open stores as cards, in the order chosen by staff.

    :param campus: id or slug, or None for all campuses
    """
    campus_values = campus_parameters(campus)
    last_position, last_id = page.after("number", "id")
    rows = _cards_statement(
        campus=next(iter(campus_values), None), has_cursor=page.position is not None
    ).tuples(
        session,
        **campus_values,
        last_position=last_position,
        last_id=last_id,
        now=now,
        media_base_url=media_base_url,
        limit=page.limit + 1,
    )
    return card_page(rows, page, position_of=lambda row: [row[-2], str(row[-1])])


def _lock_product_of_entry(session: Session, act: Act, entry_id: UUID) -> None:
    product_id = _FEATURED.ensure_found(
        session.scalar(select(FeaturedProduct.product_id).where(FeaturedProduct.id == entry_id))
    )
    [product] = common.find_promotable_products(session, [product_id], include_removed=True).values()
    common.ensure_not_own_store(product.user_id, user_id=act.person_id)
    stock.lock_products(session, product_ids=[product_id])


def _ensure_no_overlap(
    session: Session,
    *,
    product_id: UUID,
    starts_at: datetime,
    ends_at: datetime | None,
    entry_id: UUID | None = None,
) -> None:
    over_at = FeaturedProduct.over_at
    overlapping = (
        select(FeaturedProduct.starts_at)
        .where(
            FeaturedProduct.product_id == product_id,
            or_(over_at.is_(None), and_(over_at > starts_at, over_at > FeaturedProduct.starts_at)),
            FeaturedProduct.id.is_distinct_from(entry_id),
        )
        .order_by(FeaturedProduct.starts_at)
        .limit(1)
    )
    if ends_at is not None:
        overlapping = overlapping.where(FeaturedProduct.starts_at < ends_at)
    other_start = session.scalar(overlapping)
    if other_start is not None:
        raise AlreadyFeaturedError(
            texts.ALREADY_FEATURED.format(starts_at=iso(other_start)),
            invalid_params=[
                InvalidParam("startsAt", f"Overlaps with the period that starts at {iso(other_start)}.")
            ],
        )
