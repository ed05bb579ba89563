"""What staff do about listings: approve, reject, take down, delete; and how a listing is deleted by its vendor.

Each act of staff is made under the row's lock, is audited with before and after, and tells the vendor. Nobody
acts on a listing of the own store.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import select
from sqlalchemy.orm import Session

from marketplace.audit.operations import AuditActor, record
from marketplace.catalog import states
from marketplace.catalog.models import Product
from marketplace.catalog.moderation import automated_review
from marketplace.catalog.revisions import Shown, check_revision, drop_stale
from marketplace.identity.queries import Caller
from marketplace.kernel.errors import ForbiddenError, NotFoundError
from marketplace.kernel.redaction import redact_text
from marketplace.vendors import queries as vendor_queries

MANAGES_PRODUCTS = "canManageProducts"
MAX_BULK = 100
BULK_REASON = "The listing violates the rules of the marketplace."


class OwnListingError(ForbiddenError):
    """An officer may not act on a listing of the own store."""


@dataclass
class BulkDeletion:
    """What a bulk deletion found: ids that it deleted, that were deleted before, and that do not exist."""

    deleted: list[UUID] = field(default_factory=list)
    already_deleted: list[UUID] = field(default_factory=list)
    missing: list[UUID] = field(default_factory=list)


def approve(
    session: Session,
    *,
    officer: Caller,
    actor: AuditActor,
    product_id: UUID,
    revision: int | None,
    note: str | None,
    now: datetime,
) -> None:
    """Publish a listing that is in review or was rejected, or bring back a removed one.

    :param officer: who decides
    :param actor: the officer, as the audit trail names one
    :param revision: the one that the officer read, or none not to compare
    :param note: for the audit trail
    :param now: the time of the request
    :raises NotFoundError: there is none
    :raises OwnListingError: it is of the officer's own store
    :raises StaleRevisionError: it changed since the officer read it
    :raises IllegalTransitionError: its state does not allow it
    """
    product = _lock_for_officer(session, officer=officer, product_id=product_id, revision=revision)
    act = _Act(session, actor, product, now, "restore" if product.status == "removed" else "approve")
    product.status = states.PRODUCT.target(product.status, act.trigger)
    automated_review.mark_published(product, now=now)
    act.finish(
        note=note,
        outcome="published",
        title="Your listing is live",
        body=f"{automated_review.named(product)} was looked at by our staff, and can be seen and bought now.",
    )


def reject(
    session: Session,
    *,
    officer: Caller,
    actor: AuditActor,
    product_id: UUID,
    revision: int | None,
    reason: str,
    now: datetime,
) -> None:
    """Reject a listing that is in review; its vendor may mend it and hand it in again.

    Parameters and errors are those of ``approve``.

    :param reason: for the vendor
    """
    product = _lock_for_officer(session, officer=officer, product_id=product_id, revision=revision)
    act = _Act(session, actor, product, now, "reject")
    _turn_down(product, "reject", reason)
    act.finish(
        outcome="rejected",
        title="Your listing was not approved",
        body=f"{automated_review.named(product)} was not approved: {reason} You can change it and hand it in again.",
    )


def take_down(
    session: Session,
    *,
    officer: Caller,
    actor: AuditActor,
    product_id: UUID,
    revision: int | None,
    reason: str,
    now: datetime,
) -> None:
    """Take a listing down; staff alone can bring it back.

    Parameters and errors are those of ``approve``.

    :param reason: for the vendor
    """
    product = _lock_for_officer(session, officer=officer, product_id=product_id, revision=revision)
    act = _Act(session, actor, product, now, "take_down")
    _turn_down(product, "take_down", reason)
    act.finish(
        outcome="removed",
        title="Your listing was taken down",
        body=f"{automated_review.named(product)} was taken down by our staff: {reason}",
    )


def delete_product(
    session: Session,
    *,
    caller: Caller,
    actor: AuditActor,
    product_id: UUID,
    revision: int | None,
    now: datetime,
) -> None:
    """Delete a listing: the row stays for its orders, and nobody is shown it any more.

    :param caller: the vendor, of a listing of the own store, or staff that manages products
    :param actor: the caller, as the audit trail names one
    :param revision: the one that the caller read, or none not to compare
    :param now: the time of the request
    :raises ForbiddenError: no permission, or the vendor's store is not active
    :raises NotFoundError: there is none, it is another store's, or it was deleted before
    :raises OwnListingError: staff delete a listing of their own store
    :raises StaleRevisionError: it changed since the caller read it
    """
    if caller.is_staff:
        if not caller.has_permission(MANAGES_PRODUCTS):
            raise ForbiddenError(f"This takes the permission {MANAGES_PRODUCTS}.")
        product = _lock_for_officer(session, officer=caller, product_id=product_id, revision=revision)
        _delete_by_staff(session, actor, product, reason=None, now=now)
        return
    store = vendor_queries.store_of_user(session, user_id=caller.id)
    found = _lock(session, product_id)
    if store is None or found is None or found.vendor_id != store.id:
        raise NotFoundError("There is no such product in the own store.")
    if store.status != "active":
        raise ForbiddenError(f"The store is {store.status}.")
    check_revision(found, revision)
    before = Shown.of(found)
    _mark_deleted(found, now=now)
    drop_stale(session, before, found)


def delete_products(
    session: Session,
    *,
    officer: Caller,
    actor: AuditActor,
    product_ids: Sequence[UUID],
    reason: str,
    now: datetime,
) -> BulkDeletion:
    """Delete listings that violate the rules, all of them or none.

    :param officer: staff that manages products
    :param actor: the officer, as the audit trail names one
    :param product_ids: at most ``MAX_BULK``, none twice
    :param reason: for the vendors and the audit trail
    :param now: the time of the request
    :return: what became of each id, in the order in which they were given
    :raises OwnListingError: one of them is of the officer's own store
    """
    # In the order of their ids, as everybody who takes several: no two can deadlock.
    rows = session.scalars(
        select(Product)
        .where(Product.id.in_(list(product_ids)))
        .order_by(Product.id)
        .with_for_update(key_share=True)
    )
    found = {product.id: product for product in rows}
    own = vendor_queries.store_of_user(session, user_id=officer.id)
    if own is not None and any(product.vendor_id == own.id for product in found.values()):
        raise OwnListingError("Nobody deletes listings of the own store as an officer.")
    result = BulkDeletion()
    for product_id in product_ids:
        product = found.get(product_id)
        if product is None:
            result.missing.append(product_id)
        elif product.status == "deleted":
            result.already_deleted.append(product_id)
        else:
            _delete_by_staff(session, actor, product, reason=reason, now=now)
            result.deleted.append(product_id)
    return result


class _Act:
    """An act of staff on one listing: what it was like before, and what is done about it afterwards."""

    def __init__(
        self, session: Session, actor: AuditActor, product: Product, now: datetime, trigger: str
    ) -> None:
        self._session = session
        self._actor = actor
        self._product = product
        self._now = now
        self.trigger = trigger
        self._shown = Shown.of(product)
        self._before = _state_of(product)

    def finish(self, *, outcome: str, title: str, body: str, note: str | None = None) -> None:
        """Count the change, drop what it made stale, record it and tell the vendor."""
        product, session, now = self._product, self._session, self._now
        product.revision += 1
        product.moderated_at = product.updated_at = now
        drop_stale(session, self._shown, product)
        record(
            session,
            actor=self._actor,
            action=f"product.{self.trigger}",
            target_type="product",
            target_id=str(product.id),
            now=now,
            before=self._before,
            after=_state_of(product) | ({"note": redact_text(note)} if note else {}),
        )
        automated_review.tell_vendor(
            session,
            product,
            outcome=outcome,
            title=title,
            body=body,
            occasion=f"revision-{product.revision}",
            now=now,
        )


def _state_of(product: Product) -> dict[str, Any]:
    """Give what an act changes or judges. The trail is kept for years, so contact details stay out of it."""
    return {
        "status": product.status,
        "held": product.held,
        "statusReason": redact_text(product.status_reason) if product.status_reason else None,
        "reviewReasons": [redact_text(reason) for reason in product.review_reasons],
        "title": redact_text(product.title),
        "priceMinor": product.price_minor,
        "categoryId": str(product.category_id),
        "vendorId": str(product.vendor_id),
        "revision": product.revision,
    }


def _lock(session: Session, product_id: UUID) -> Product | None:
    return session.scalar(
        select(Product)
        .where(Product.id == product_id, Product.status != "deleted")
        .with_for_update(key_share=True)
    )


def _lock_for_officer(
    session: Session, *, officer: Caller, product_id: UUID, revision: int | None
) -> Product:
    product = _lock(session, product_id)
    if product is None:
        raise NotFoundError("There is no such product.")
    store = vendor_queries.store_of_user(session, user_id=officer.id)
    if store is not None and store.id == product.vendor_id:
        raise OwnListingError("Nobody decides about a listing of the own store.")
    check_revision(product, revision)
    return product


def _turn_down(product: Product, trigger: str, reason: str) -> None:
    product.status = states.PRODUCT.target(product.status, trigger)
    product.held = False
    product.needs_staff = True
    product.screened_at = None
    product.status_reason = reason


def _mark_deleted(product: Product, *, now: datetime) -> None:
    product.status = states.PRODUCT.target(product.status, "delete")
    product.held = False
    product.deleted_at = product.updated_at = now


def _delete_by_staff(
    session: Session, actor: AuditActor, product: Product, *, reason: str | None, now: datetime
) -> None:
    act = _Act(session, actor, product, now, "delete")
    _mark_deleted(product, now=now)
    if reason is not None:
        product.status_reason = reason
    act.finish(
        outcome="deleted",
        title="Your listing was deleted",
        body=f"{automated_review.named(product)} was deleted by our staff{f': {reason}' if reason else '.'}",
    )
