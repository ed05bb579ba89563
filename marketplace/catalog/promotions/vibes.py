"""Vibes: themed feeds of products, in an order that staff chose."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from sqlalchemy import delete, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from marketplace.catalog import cache_tags
from marketplace.catalog.promotions import common as promotions
from marketplace.catalog.promotions.common import Act
from marketplace.catalog.promotions.models import Vibe, VibeProduct
from marketplace.infra.db import violated_constraint
from marketplace.kernel.errors import ConflictError, InvalidParam, NotFoundError, ValidationError

MAX_PRODUCTS = 50
SLUG = "[a-z0-9]+(-[a-z0-9]+)*"
MAX_SLUG_LENGTH = 60
RESERVED_SLUGS = frozenset({"all"})

_AUDITED = (
    *("slug", "title", "description", "image_id", "image_url", "campus_id", "position"),
    *("starts_at", "ends_at", "ended_at"),
)


class SlugTakenError(ConflictError):
    """Another vibe has the slug."""


def create(session: Session, act: Act, *, fields: dict[str, Any], product_ids: Sequence[UUID]) -> UUID:
    """Make a vibe.

    :param fields: columns: slug, title, description, image_id or image_url or neither, campus_id (none for all),
        position, starts_at (none for now), ends_at (none for as long as staff like)
    :param product_ids: its products, in their order
    :return: its id
    :raises ValidationError: no such picture, campus or product, a product is of another campus, or the window
        can't be meant
    :raises ForbiddenError: a product is the officer's own store's
    :raises SlugTakenError: another vibe, not ended, has the slug
    """
    begins = fields.get("starts_at") or act.now
    promotions.check_window(starts_at=begins, ends_at=fields.get("ends_at"), now=act.now)
    promotions.check_references(session, fields)
    _check_products(session, act, product_ids, campus_id=fields.get("campus_id"))
    vibe = Vibe(
        **fields | {"starts_at": begins},
        created_by=act.caller.id,
        created_at=act.now,
        updated_at=act.now,
    )
    session.add(vibe)
    _flush(session, fields["slug"])
    _write_products(session, vibe.id, product_ids)
    _publish(session, act, "create", vibe, before=None)
    return vibe.id


def change(
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
    :param changes: columns, as for ``create``; a new picture takes the place of the old one
    :param product_ids: all of its products in their order, or none to leave them
    :raises NotFoundError: there is none
    :raises PromotionOverError: it is over
    :raises StalePromotionError: the revision is not the current one
    :raises ValidationError: as for ``create``, or it has begun and its beginning would change
    :raises ForbiddenError: a product that is added is the officer's own store's
    :raises SlugTakenError: another vibe, not ended, has the slug
    """
    vibe = _lock(session, vibe_id)
    promotions.check_changeable(vibe, revision=revision, now=act.now)
    promotions.changed_window(vibe, changes, now=act.now)
    promotions.check_references(session, changes)
    campus_id = changes.get("campus_id", vibe.campus_id)
    held = _products_of(session, vibe.id)
    if product_ids is not None:
        _check_products(session, act, product_ids, campus_id=campus_id, held=held)
    elif campus_id is not None and campus_id != vibe.campus_id:
        _check_products(session, act, held, campus_id=campus_id, held=held)
    before = _snapshot(session, vibe)
    if product_ids is not None:
        _write_products(session, vibe.id, product_ids)
    try:
        with session.begin_nested():
            promotions.apply(session, vibe, changes, now=act.now)
    except IntegrityError as error:
        raise _taken(error, changes.get("slug", vibe.slug)) from error
    _publish(session, act, "change", vibe, before=before)


def end(session: Session, act: Act, *, vibe_id: UUID) -> None:
    """Take a vibe down now; its slug is free again.

    :raises NotFoundError: there is none
    :raises PromotionOverError: it is over already
    """
    vibe = _lock(session, vibe_id)
    before = _snapshot(session, vibe)
    promotions.end(vibe, act)
    session.flush()
    _publish(session, act, "end", vibe, before=before)


def _lock(session: Session, vibe_id: UUID) -> Vibe:
    vibe = session.scalar(select(Vibe).where(Vibe.id == vibe_id).with_for_update(key_share=True))
    if vibe is None:
        raise NotFoundError("There is no such vibe.")
    return vibe


def _flush(session: Session, slug: str) -> None:
    try:
        with session.begin_nested():
            session.flush()
    except IntegrityError as error:
        raise _taken(error, slug) from error


def _taken(error: IntegrityError, slug: str) -> Exception:
    if violated_constraint(error) != "uq_vibes_slug":
        return error
    return SlugTakenError(
        f"Another vibe has the slug {slug}.", invalid_params=[InvalidParam("slug", "Is taken.")]
    )


def _products_of(session: Session, vibe_id: UUID) -> list[UUID]:
    chosen = select(VibeProduct.product_id).where(VibeProduct.vibe_id == vibe_id)
    return list(session.scalars(chosen.order_by(VibeProduct.position)))


def _check_products(
    session: Session,
    act: Act,
    product_ids: Sequence[UUID],
    *,
    campus_id: UUID | None,
    held: Sequence[UUID] = (),
) -> None:
    """Check products that are chosen; those that the vibe holds already may be gone meanwhile, or one's own."""
    found = promotions.find_products(session, product_ids, gone=True)
    usable = promotions.find_products(session, product_ids)
    faults = []
    for index, product_id in enumerate(product_ids):
        product = found.get(product_id)
        if product is None or not (product_id in usable or product_id in held):
            faults.append(InvalidParam(f"productIds[{index}]", "There is no such product."))
        elif campus_id not in (None, product.campus_id):
            faults.append(InvalidParam(f"productIds[{index}]", "Is of another campus than the vibe."))
    if faults:
        raise ValidationError("Not all products can be shown.", invalid_params=faults)
    for product in found.values():
        if product.id not in held:
            promotions.check_not_own(product.user_id, caller=act.caller)


def _write_products(session: Session, vibe_id: UUID, product_ids: Sequence[UUID]) -> None:
    session.execute(delete(VibeProduct).where(VibeProduct.vibe_id == vibe_id))
    session.add_all(
        VibeProduct(vibe_id=vibe_id, position=position, product_id=product_id)
        for position, product_id in enumerate(product_ids)
    )
    session.flush()


def _snapshot(session: Session, vibe: Vibe) -> dict[str, Any]:
    products = [str(product_id) for product_id in _products_of(session, vibe.id)]
    return promotions.snapshot(vibe, _AUDITED) | {"product_ids": products}


def _publish(session: Session, act: Act, verb: str, vibe: Vibe, *, before: dict[str, Any] | None) -> None:
    promotions.publish(session, act, vibe, tag=cache_tags.VIBES)
    after = _snapshot(session, vibe)
    promotions.audit(session, act, action=f"vibe.{verb}", row_id=vibe.id, before=before, after=after)
