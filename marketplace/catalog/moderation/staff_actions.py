"""Staff's actions on listings: approve, reject, take down, delete.

Each act of staff is made under the row's lock, is audited with before and after, and tells the vendor. Nobody
acts on a listing of the own store.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from sqlalchemy import select
from sqlalchemy.orm import Session

from marketplace.audit.operations import Act, record_audit_entry
from marketplace.catalog import states
from marketplace.catalog.listing_changes import drop_stale_listing_caches, mark_deleted
from marketplace.catalog.models import Product
from marketplace.catalog.moderation import automated_review
from marketplace.identity.permissions import MANAGE_PRODUCTS
from marketplace.identity.queries import Caller
from marketplace.kernel.errors import ForbiddenError, PermissionRequiredError, StaleRevisionError, found
from marketplace.kernel.redaction import redact_text
from marketplace.vendors import queries as vendor_queries

MAX_BULK_DELETIONS = 100
BULK_DELETION_REASON = "The listing violates the rules of the marketplace."


class OwnListingError(ForbiddenError):
    """Officers may not moderate a listing of their own store."""

    reason = "own-listing"


@dataclass
class BulkDeletionResult:
    """What a bulk deletion found: ids that it deleted, that were deleted before, and that do not exist."""

    deleted: list[UUID] = field(default_factory=list)
    already_deleted: list[UUID] = field(default_factory=list)
    missing: list[UUID] = field(default_factory=list)


def approve_product(
    session: Session,
    *,
    act: Act,
    product_id: UUID,
    revision: int | None,
    note: str | None,
) -> None:
    """Publish a listing that is in review or was rejected, or bring back a removed one.

    :param revision: the one that the officer read, or none not to compare
    :param note: for the audit trail
    :raises NotFoundError: there is none
    :raises OwnListingError: it is of the officer's own store
    :raises StaleRevisionError: it changed since the officer read it
    :raises IllegalTransitionError: its state does not allow it
    """
    product = _lock_product_for_officer(
        session, officer_id=act.person_id, product_id=product_id, revision=revision
    )
    trigger = "restore" if product.status == "removed" else "approve"
    with _staff_action(
        session,
        act,
        product,
        trigger,
        note=note,
        outcome="published",
        title="Your listing is live",
        body="{listing} was looked at by our staff, and can be seen and bought now.",
    ):
        product.status = states.PRODUCT.target(product.status, trigger)
        automated_review.mark_published(product, now=act.now)


REJECT, TAKE_DOWN = "reject", "take_down"
_REFUSALS = {
    REJECT: {
        "outcome": "rejected",
        "title": "Your listing was not approved",
        "body": "{listing} was not approved: {reason} You can change it and hand it in again.",
    },
    TAKE_DOWN: {
        "outcome": "removed",
        "title": "Your listing was taken down",
        "body": "{listing} was taken down by our staff: {reason}",
    },
}


def refuse_product(
    session: Session,
    *,
    act: Act,
    trigger: str,
    product_id: UUID,
    revision: int | None,
    reason: str,
) -> None:
    """Reject a listing that is in review, or take a listing down.

    The vendor may mend a rejected listing and hand it in again. Staff alone can bring back one that was taken down.
    Parameters and errors are those of ``approve_product``.

    :param trigger: ``REJECT`` or ``TAKE_DOWN``
    :param reason: for the vendor
    """
    product = _lock_product_for_officer(
        session, officer_id=act.person_id, product_id=product_id, revision=revision
    )
    with _staff_action(session, act, product, trigger, reason=reason, **_REFUSALS[trigger]):
        product.status = states.PRODUCT.target(product.status, trigger)
        product.held = False
        product.needs_staff = True
        product.screened_at = None
        product.status_reason = reason


def delete_product(
    session: Session,
    *,
    caller: Caller,
    act: Act,
    product_id: UUID,
    revision: int | None,
) -> None:
    """Delete a listing: the row stays for its orders, and nobody is shown it any more.

    :param caller: staff that manages products
    :param revision: the one that the caller read, or none not to compare
    :raises PermissionRequiredError: no permission
    :raises NotFoundError: there is none, or it was deleted before
    :raises OwnListingError: it is of the officer's own store
    :raises StaleRevisionError: it changed since the caller read it
    """
    if not caller.has_permission(MANAGE_PRODUCTS):
        raise PermissionRequiredError(f"This takes the permission {MANAGE_PRODUCTS}.")
    product = _lock_product_for_officer(
        session, officer_id=caller.id, product_id=product_id, revision=revision
    )
    _delete_by_staff(session, act, product, reason=None)


def delete_products(
    session: Session,
    *,
    act: Act,
    product_ids: Sequence[UUID],
    reason: str,
) -> BulkDeletionResult:
    """Delete listings that violate the rules, all of them or none.

    :param product_ids: at most ``MAX_BULK_DELETIONS``, none twice
    :param reason: for the vendors and the audit trail
    :return: what became of each id, in the order in which they were given
    :raises OwnListingError: one of them is of the officer's own store
    """
    # In the order of their ids, as everybody who takes several: no two can deadlock.
    products = {
        product.id: product
        for product in session.scalars(
            select(Product)
            .where(Product.id.in_(product_ids))
            .order_by(Product.id)
            .with_for_update(key_share=True)
        )
    }
    own_store = vendor_queries.find_store_of_user(session, user_id=act.person_id)
    if own_store is not None and any(product.vendor_id == own_store.id for product in products.values()):
        raise OwnListingError("Nobody deletes listings of the own store as an officer.")
    result = BulkDeletionResult()
    for product_id in product_ids:
        product = products.get(product_id)
        if product is None:
            result.missing.append(product_id)
        elif product.status == "deleted":
            result.already_deleted.append(product_id)
        else:
            _delete_by_staff(session, act, product, reason=reason)
            result.deleted.append(product_id)
    return result


@contextmanager
def _staff_action(
    session: Session,
    act: Act,
    product: Product,
    trigger: str,
    *,
    outcome: str,
    title: str,
    body: str,
    reason: str | None = None,
    note: str | None = None,
) -> Iterator[None]:
    """Count and audit the change of a listing, drop what the change made stale, and notify the vendor.

    :param body: the notification's text about ``{listing}``, with the ``{reason}``
    """
    before = _audit_snapshot(product)
    old_status = product.status
    yield
    product.revision += 1
    product.moderated_at = product.updated_at = act.now
    drop_stale_listing_caches(session, product, old_status=old_status)
    record_audit_entry(
        session,
        act=act,
        action=f"product.{trigger}",
        target_type="product",
        target_id=str(product.id),
        before=before,
        after=_audit_snapshot(product) | ({"note": redact_text(note)} if note else {}),
    )
    automated_review.notify_vendor(
        session,
        product,
        outcome=outcome,
        title=title,
        body=body.format(listing=automated_review.quoted_title(product), reason=reason),
        cause_suffix=f"revision-{product.revision}",
        now=act.now,
    )


def _audit_snapshot(product: Product) -> dict[str, Any]:
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


def _lock_product_for_officer(
    session: Session, *, officer_id: UUID, product_id: UUID, revision: int | None
) -> Product:
    product = found(
        session.scalar(
            select(Product)
            .where(Product.id == product_id, Product.status != "deleted")
            .with_for_update(key_share=True)
        ),
        "There is no such product.",
    )
    store = vendor_queries.find_store_of_user(session, user_id=officer_id)
    if store is not None and store.id == product.vendor_id:
        raise OwnListingError("Nobody decides about a listing of the own store.")
    StaleRevisionError.check(product.revision, revision, subject="The listing is")
    return product


def _delete_by_staff(session: Session, act: Act, product: Product, *, reason: str | None) -> None:
    with _staff_action(
        session,
        act,
        product,
        "delete",
        outcome="deleted",
        title="Your listing was deleted",
        body="{listing} was deleted by our staff" + (": {reason}" if reason else "."),
        reason=reason,
    ):
        mark_deleted(product, now=act.now)
        if reason is not None:
            product.status_reason = reason
