"""Vibes: themed feeds of products, in an order that staff chose."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from uuid import UUID

from sqlalchemy import delete, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from marketplace.audit.operations import Act
from marketplace.catalog import cache_tags
from marketplace.catalog.promotions import common as promotions
from marketplace.catalog.promotions.common import PromotionType
from marketplace.catalog.promotions.models import Vibe, VibeProduct
from marketplace.infra.db import violated_constraint
from marketplace.kernel.errors import ConflictError, InvalidParam, ValidationError

MAX_PRODUCTS_PER_VIBE = 50
SLUG_PATTERN = "[a-z0-9]+(-[a-z0-9]+)*"
MAX_SLUG_LENGTH = 60
RESERVED_SLUGS = frozenset({"all"})


class SlugTakenError(ConflictError):
    """Another vibe has this slug."""

    reason = "slug-taken"


def create_vibe(session: Session, act: Act, *, fields: dict[str, Any], product_ids: Sequence[UUID]) -> UUID:
    """Make a vibe.

    :param fields: columns: slug, title, description, image_id or image_url or neither, campus_id (none for all),
        position, starts_at (none for now), ends_at (none for as long as staff like)
    :param product_ids: its products, in their order
    :return: its id
    :raises ValidationError: no such picture, campus or product, a product is of another campus, or the window
        can't be meant
    :raises ConflictOfInterestError: a product is the officer's own store's
    :raises SlugTakenError: another vibe, not ended, has the slug
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
    """Change a vibe that is not over.

    :param revision: the one that the client read, or none not to compare
    :param changes: columns, as for ``create_vibe``; a new picture takes the place of the old one
    :param product_ids: all of its products in their order, or none to leave them
    :raises NotFoundError: there is none
    :raises PromotionEndedError: it is over
    :raises StaleRevisionError: the revision is not the current one
    :raises ValidationError: as for ``create_vibe``, or it has begun and its beginning would change
    :raises ConflictOfInterestError: a product that is added is the officer's own store's
    :raises SlugTakenError: another vibe, not ended, has the slug
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
            promotions.apply_changes(session, vibe, changes, now=act.now)


@contextmanager
def _unique_slug(session: Session, slug: str) -> Iterator[None]:
    try:
        with session.begin_nested():
            yield
    except IntegrityError as error:
        if violated_constraint(error) != "uq_vibes_slug":
            raise
        raise SlugTakenError(
            f"Another vibe has the slug {slug}.", invalid_params=[InvalidParam("slug", "Is taken.")]
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
    """Check products that are chosen; those that the vibe holds already may be gone meanwhile, or one's own."""
    products = promotions.find_promotable_products(session, product_ids, include_removed=True)
    promotable = promotions.find_promotable_products(session, product_ids)
    faults = []
    for index, product_id in enumerate(product_ids):
        product = products.get(product_id)
        if product is None or not (product_id in promotable or product_id in current_product_ids):
            faults.append(InvalidParam(f"productIds[{index}]", "There is no such product."))
        elif campus_id not in (None, product.campus_id):
            faults.append(InvalidParam(f"productIds[{index}]", "Is of another campus than the vibe."))
    if faults:
        raise ValidationError("Not all products can be shown.", invalid_params=faults)
    for product in products.values():
        if product.id not in current_product_ids:
            promotions.ensure_not_own_store(product.user_id, user_id=act.person_id)


def _replace_products(session: Session, vibe_id: UUID, product_ids: Sequence[UUID]) -> None:
    session.execute(delete(VibeProduct).where(VibeProduct.vibe_id == vibe_id))
    session.add_all(
        VibeProduct(vibe_id=vibe_id, position=position, product_id=product_id)
        for position, product_id in enumerate(product_ids)
    )
    session.flush()


class _VibeType(PromotionType[Vibe]):
    """Vibes; their snapshots hold the ids of their products."""

    def snapshot(self, session: Session, row: Vibe) -> dict[str, Any]:
        """Write a vibe with its products as the audit trail keeps it."""
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
