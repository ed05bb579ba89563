"""Vibes: themed feeds of products, in an order that staff chose."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from sqlalchemy import delete, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from marketplace.audit.operations import Act
from marketplace.catalog import cache_tags
from marketplace.catalog.promotions import common as promotions
from marketplace.catalog.promotions.models import Vibe, VibeProduct
from marketplace.infra.db import violated_constraint
from marketplace.kernel.errors import ConflictError, InvalidParam, NotFoundError, ValidationError

MAX_PRODUCTS_PER_VIBE = 50
SLUG_PATTERN = "[a-z0-9]+(-[a-z0-9]+)*"
MAX_SLUG_LENGTH = 60
RESERVED_SLUGS = frozenset({"all"})

_AUDITED_COLUMNS = (
    *("slug", "title", "description", "image_id", "image_url", "campus_id", "position"),
    *("starts_at", "ends_at", "ended_at"),
)


class SlugTakenError(ConflictError):
    """Another vibe has the slug."""


def create_vibe(session: Session, act: Act, *, fields: dict[str, Any], product_ids: Sequence[UUID]) -> UUID:
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
    promotions.ensure_valid_window(starts_at=begins, ends_at=fields.get("ends_at"), now=act.now)
    promotions.ensure_references_exist(session, fields)
    _ensure_products_promotable(session, act, product_ids, campus_id=fields.get("campus_id"))
    vibe = Vibe(
        **fields | {"starts_at": begins},
        created_by=act.person_id,
        created_at=act.now,
        updated_at=act.now,
    )
    session.add(vibe)
    _flush_unique_slug(session, fields["slug"])
    _replace_products(session, vibe.id, product_ids)
    _publish_and_audit(session, act, "create", vibe, before=None)
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
    :param changes: columns, as for ``create``; a new picture takes the place of the old one
    :param product_ids: all of its products in their order, or none to leave them
    :raises NotFoundError: there is none
    :raises PromotionEndedError: it is over
    :raises StalePromotionError: the revision is not the current one
    :raises ValidationError: as for ``create``, or it has begun and its beginning would change
    :raises ForbiddenError: a product that is added is the officer's own store's
    :raises SlugTakenError: another vibe, not ended, has the slug
    """
    vibe = _lock_vibe(session, vibe_id)
    promotions.ensure_changeable(vibe, revision=revision, now=act.now)
    promotions.ensure_window_change_allowed(vibe, changes, now=act.now)
    promotions.ensure_references_exist(session, changes)
    campus_id = changes.get("campus_id", vibe.campus_id)
    held = _list_product_ids(session, vibe.id)
    if product_ids is not None:
        _ensure_products_promotable(session, act, product_ids, campus_id=campus_id, current_product_ids=held)
    elif campus_id is not None and campus_id != vibe.campus_id:
        _ensure_products_promotable(session, act, held, campus_id=campus_id, current_product_ids=held)
    before = _audit_snapshot(session, vibe)
    if product_ids is not None:
        _replace_products(session, vibe.id, product_ids)
    try:
        with session.begin_nested():
            promotions.apply_changes(session, vibe, changes, now=act.now)
    except IntegrityError as error:
        raise _translate_slug_conflict(error, changes.get("slug", vibe.slug)) from error
    _publish_and_audit(session, act, "change", vibe, before=before)


def end_vibe(session: Session, act: Act, *, vibe_id: UUID) -> None:
    """Take a vibe down now; its slug is free again.

    :raises NotFoundError: there is none
    :raises PromotionEndedError: it is over already
    """
    vibe = _lock_vibe(session, vibe_id)
    before = _audit_snapshot(session, vibe)
    promotions.end_promotion(vibe, act)
    session.flush()
    _publish_and_audit(session, act, "end", vibe, before=before)


def _lock_vibe(session: Session, vibe_id: UUID) -> Vibe:
    vibe = session.scalar(select(Vibe).where(Vibe.id == vibe_id).with_for_update(key_share=True))
    if vibe is None:
        raise NotFoundError("There is no such vibe.")
    return vibe


def _flush_unique_slug(session: Session, slug: str) -> None:
    try:
        with session.begin_nested():
            session.flush()
    except IntegrityError as error:
        raise _translate_slug_conflict(error, slug) from error


def _translate_slug_conflict(error: IntegrityError, slug: str) -> Exception:
    if violated_constraint(error) != "uq_vibes_slug":
        return error
    return SlugTakenError(
        f"Another vibe has the slug {slug}.", invalid_params=[InvalidParam("slug", "Is taken.")]
    )


def _list_product_ids(session: Session, vibe_id: UUID) -> list[UUID]:
    chosen = select(VibeProduct.product_id).where(VibeProduct.vibe_id == vibe_id)
    return list(session.scalars(chosen.order_by(VibeProduct.position)))


def _ensure_products_promotable(
    session: Session,
    act: Act,
    product_ids: Sequence[UUID],
    *,
    campus_id: UUID | None,
    current_product_ids: Sequence[UUID] = (),
) -> None:
    """Check products that are chosen; those that the vibe holds already may be gone meanwhile, or one's own."""
    found = promotions.find_promotable_products(session, product_ids, include_removed=True)
    usable = promotions.find_promotable_products(session, product_ids)
    faults = []
    for index, product_id in enumerate(product_ids):
        product = found.get(product_id)
        if product is None or not (product_id in usable or product_id in current_product_ids):
            faults.append(InvalidParam(f"productIds[{index}]", "There is no such product."))
        elif campus_id not in (None, product.campus_id):
            faults.append(InvalidParam(f"productIds[{index}]", "Is of another campus than the vibe."))
    if faults:
        raise ValidationError("Not all products can be shown.", invalid_params=faults)
    for product in found.values():
        if product.id not in current_product_ids:
            promotions.ensure_not_own_store(product.user_id, user_id=act.person_id)


def _replace_products(session: Session, vibe_id: UUID, product_ids: Sequence[UUID]) -> None:
    session.execute(delete(VibeProduct).where(VibeProduct.vibe_id == vibe_id))
    session.add_all(
        VibeProduct(vibe_id=vibe_id, position=position, product_id=product_id)
        for position, product_id in enumerate(product_ids)
    )
    session.flush()


def _audit_snapshot(session: Session, vibe: Vibe) -> dict[str, Any]:
    products = [str(product_id) for product_id in _list_product_ids(session, vibe.id)]
    return promotions.audit_snapshot(vibe, _AUDITED_COLUMNS) | {"product_ids": products}


def _publish_and_audit(
    session: Session, act: Act, verb: str, vibe: Vibe, *, before: dict[str, Any] | None
) -> None:
    promotions.invalidate_now_and_at_boundaries(session, act, vibe, tag=cache_tags.VIBES)
    after = _audit_snapshot(session, vibe)
    promotions.record_audit(session, act, action=f"vibe.{verb}", row_id=vibe.id, before=before, after=after)
