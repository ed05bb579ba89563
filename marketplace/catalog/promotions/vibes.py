"""Vibes: themed feeds of products in an order chosen by staff."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from functools import lru_cache
from re import fullmatch
from typing import Any
from uuid import UUID

from sqlalchemy import ARRAY, Uuid, bindparam, delete, func, literal_column, select, text, true
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from marketplace.audit.operations import Act
from marketplace.catalog import cache_tags, texts
from marketplace.catalog.browse.listing import CARD_COLUMNS, ProductCard, build_card
from marketplace.catalog.campus_filter import campus_condition, campus_parameters
from marketplace.catalog.models import Product
from marketplace.catalog.promotions import common, listing
from marketplace.catalog.promotions.models import Vibe, VibeProduct
from marketplace.infra.db import violated_constraint
from marketplace.infra.sql.statements import Row, Statement
from marketplace.kernel.errors import ConflictError, InvalidParam, ValidationError, found
from marketplace.kernel.ids import parse_uuid
from marketplace.kernel.paging import Page, PageRequest
from marketplace.vendors.models import VendorProfile
from marketplace.vendors.queries import STORE_IS_OPEN

MAX_PRODUCTS_PER_VIBE = 50
SLUG_PATTERN = "[a-z0-9]+(-[a-z0-9]+)*"
MAX_SLUG_LENGTH = 60
RESERVED_SLUGS = frozenset({"all"})
CARDS_PER_LISTED_VIBE = 12
"""Number of cards per vibe in the listing. The detail view has all cards."""


class SlugTakenError(ConflictError):
    """Another vibe has this slug."""

    reason = "slug-taken"


def create_vibe(session: Session, act: Act, *, fields: dict[str, Any], product_ids: Sequence[UUID]) -> UUID:
    """Create a vibe.

    :param fields: columns, with at most one of image_id and image_url. campus_id is None for all campuses, starts_at
        for now, ends_at for an open end.
    :param product_ids: in display order
    :return: the vibe's id
    :raises ValidationError: the image, the campus or a product does not exist, a product is of another campus, or the
        period is invalid
    :raises ConflictOfInterestError: a product belongs to the officer's own store
    :raises SlugTakenError: another vibe that has not been ended uses the slug
    """
    vibe = VIBES.build(session, act, fields)
    _ensure_products_promotable(session, act, product_ids, campus_id=vibe.campus_id)
    session.add(vibe)
    with _unique_slug(session, vibe.slug):
        session.flush()
    _replace_products(session, vibe.id, product_ids)
    VIBES.publish_and_audit(session, act, "create", vibe, before=None)
    return vibe.id


def update_vibe(
    session: Session,
    act: Act,
    *,
    vibe_id: UUID,
    revision: int | None,
    changes: dict[str, Any],
    product_ids: Sequence[UUID] | None,
) -> None:
    """Change a vibe that has not ended.

    :param revision: the revision that the client read, or None to skip the check
    :param changes: columns, as for ``create_vibe``; a new image replaces the old image
    :param product_ids: all products in display order, or None to keep the products
    :raises NotFoundError: the vibe does not exist
    :raises PromotionEndedError: the vibe has ended
    :raises StaleRevisionError: the revision is not current
    :raises ValidationError: as for ``create_vibe``, or the vibe has started and its start would change
    :raises ConflictOfInterestError: an added product belongs to the officer's own store
    :raises SlugTakenError: another vibe that has not been ended uses the slug
    """
    vibe = VIBES.lock_to_change(session, act, vibe_id, revision=revision, changes=changes)
    campus_id = changes.get("campus_id", vibe.campus_id)
    current_product_ids = _list_product_ids(session, vibe.id)
    if product_ids is not None or campus_id not in (None, vibe.campus_id):
        new_product_ids = current_product_ids if product_ids is None else product_ids
        _ensure_products_promotable(
            session, act, new_product_ids, campus_id=campus_id, current_product_ids=current_product_ids
        )
    with VIBES.recorded(session, act, "change", vibe):
        if product_ids is not None:
            _replace_products(session, vibe.id, product_ids)
        with _unique_slug(session, changes.get("slug", vibe.slug)):
            common.apply_changes(session, vibe, changes, now=act.now)


@contextmanager
def _unique_slug(session: Session, slug: str) -> Iterator[None]:
    try:
        with session.begin_nested():
            yield
    except IntegrityError as error:
        if violated_constraint(error) != "uq_vibes_slug":
            raise
        raise SlugTakenError(
            f"Another vibe already uses the slug {slug}.",
            invalid_params=[InvalidParam("slug", "Another vibe already uses this slug.")],
        ) from error


def _list_product_ids(session: Session, vibe_id: UUID) -> list[UUID]:
    products_of_vibe = select(VibeProduct.product_id).where(VibeProduct.vibe_id == vibe_id)
    return list(session.scalars(products_of_vibe.order_by(VibeProduct.position)))


def _ensure_products_promotable(
    session: Session,
    act: Act,
    product_ids: Sequence[UUID],
    *,
    campus_id: UUID | None,
    current_product_ids: Sequence[UUID] = (),
) -> None:
    """Check the products of a vibe.

    Products that the vibe already holds may since have been removed, or may belong to the officer's store.
    """
    products = common.find_promotable_products(session, product_ids, include_removed=True)
    promotable = common.find_promotable_products(session, product_ids)
    faults = []
    for index, product_id in enumerate(product_ids):
        product = products.get(product_id)
        if product is None or not (product_id in promotable or product_id in current_product_ids):
            faults.append(InvalidParam(f"productIds[{index}]", "Product not found."))
        elif campus_id not in (None, product.campus_id):
            faults.append(InvalidParam(f"productIds[{index}]", "Must belong to the vibe's campus."))
    if faults:
        raise ValidationError(texts.VIBE_PRODUCTS_INVALID, invalid_params=faults)
    for product in products.values():
        if product.id not in current_product_ids:
            common.ensure_not_own_store(product.user_id, user_id=act.person_id)


def _replace_products(session: Session, vibe_id: UUID, product_ids: Sequence[UUID]) -> None:
    session.execute(delete(VibeProduct).where(VibeProduct.vibe_id == vibe_id))
    session.add_all(
        VibeProduct(vibe_id=vibe_id, position=position, product_id=product_id)
        for position, product_id in enumerate(product_ids)
    )
    session.flush()


class _VibeType(common.PromotionType[Vibe]):
    """Vibes; audit snapshots include the product ids."""

    def snapshot(self, session: Session, row: Vibe) -> dict[str, Any]:
        """Return a vibe's audited columns and product ids as JSON values."""
        products = [str(product_id) for product_id in _list_product_ids(session, row.id)]
        return super().snapshot(session, row) | {"product_ids": products}


VIBES = _VibeType(
    Vibe,
    name="vibe",
    audited_columns=(
        *("slug", "title", "description", "image_id", "image_url", "campus_id", "position"),
        *("starts_at", "ends_at", "ended_at"),
    ),
    tag=cache_tags.VIBES,
)

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
    """List running vibes, each with its first cards, in two queries.

    :param campus: id or slug: vibes of that campus and of all campuses, with products of that campus only; None for
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


_SELECT_RUNNING_VIBE = {
    column: Statement(text(f"{_SELECT_VIBES_SQL} WHERE t.{column} = :vibe AND {listing.IS_RUNNING_SQL}"))
    for column in ("id", "slug")
}


def fetch_running_vibe(session: Session, *, vibe: str, now: datetime, media_base_url: str) -> Row:
    """Fetch a running vibe with all its cards in two queries.

    :param vibe: id or slug
    :raises NotFoundError: the vibe does not exist or is not running
    """
    column = "slug" if parse_uuid(vibe) is None else "id"
    row = None
    if column == "id" or fullmatch(
        SLUG_PATTERN, vibe
    ):  # A path may contain characters that the database rejects.
        row = _SELECT_RUNNING_VIBE[column].first(session, vibe=vibe, now=now, media_base_url=media_base_url)
    row = found(row, "Vibe not found.")
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
    """Select the first publicly visible cards of each of several vibes."""
    vibe_ids = func.unnest(bindparam("ids", type_=ARRAY(Uuid))).table_valued("id").render_derived("wanted")
    vibe_cards = (
        select(*CARD_COLUMNS, VibeProduct.position.label("place"))
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
) -> dict[UUID, list[ProductCard]]:
    feeds: dict[UUID, list[ProductCard]] = {vibe_id: [] for vibe_id in ids}
    campus_values = campus_parameters(campus)
    rows = _cards_statement(campus=next(iter(campus_values), None)).tuples(
        session, **campus_values, ids=list(ids), limit=max_cards, now=now, media_base_url=media_base_url
    )
    for row in rows:
        feeds[row[-1]].append(build_card(row))
    return feeds
