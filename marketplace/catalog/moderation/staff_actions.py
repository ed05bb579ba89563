"""Staff actions on listings: approve, reject, take down and delete.

Each action runs under the row lock, is audited with before and after, and notifies the vendor. An officer may not act
on listings of their own store.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from sqlalchemy import select
from sqlalchemy.orm import Session

from marketplace.audit.operations import Act, record_audit_entry
from marketplace.catalog import states, texts
from marketplace.catalog.listing_changes import mark_deleted, propagate_listing_change
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
    """Ids of a bulk deletion: deleted now, already deleted, and missing."""

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
    """Publish a listing in review or a rejected listing, or restore a removed listing.

    :param revision: the revision that the officer read, or None to skip the check
    :param note: for the audit trail
    :raises NotFoundError: the listing does not exist
    :raises OwnListingError: the listing belongs to the officer's own store
    :raises StaleRevisionError: the listing has changed since the officer read it
    :raises IllegalTransitionError: the listing's status does not allow the action
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
        title=texts.PRODUCT_APPROVED_TITLE,
        body=texts.PRODUCT_APPROVED_BODY,
    ):
        product.status = states.PRODUCT.target(product.status, trigger)
        automated_review.mark_published(product, now=act.now)


REJECT, TAKE_DOWN = "reject", "take_down"
_REFUSALS = {
    REJECT: {
        "outcome": "rejected",
        "title": texts.PRODUCT_REJECTED_TITLE,
        "body": texts.PRODUCT_REJECTED_BODY,
    },
    TAKE_DOWN: {
        "outcome": "removed",
        "title": texts.PRODUCT_REMOVED_TITLE,
        "body": texts.PRODUCT_REMOVED_BODY,
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
    """Reject a listing in review, or take a listing down.

    The vendor may edit and resubmit a rejected listing. Only staff can restore a listing that was taken down.
    Parameters and errors are the same as for ``approve_product``.

    :param trigger: ``REJECT`` or ``TAKE_DOWN``
    :param reason: shown to the vendor
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
    """Delete a listing as staff. The row stays for existing orders, but is no longer visible.

    :param revision: the revision that the caller read, or None to skip the check
    :raises PermissionRequiredError: the caller may not manage products
    :raises NotFoundError: the listing does not exist or is already deleted
    :raises OwnListingError: the listing belongs to the officer's own store
    :raises StaleRevisionError: the listing has changed since the caller read it
    """
    if not caller.has_permission(MANAGE_PRODUCTS):
        raise PermissionRequiredError(f"You need the permission {MANAGE_PRODUCTS}.")
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
    """Delete listings that violate the rules. Either all deletions succeed or none.

    :param product_ids: at most ``MAX_BULK_DELETIONS``, without duplicates
    :param reason: shown to the vendors and kept in the audit trail
    :return: ids by result, each list in request order
    :raises OwnListingError: a listing belongs to the officer's own store
    """
    # All code locks several products in the order of their ids, which avoids deadlocks.
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
        raise OwnListingError(texts.OWN_LISTINGS_IN_BULK)
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
    """Audit a change of a listing, drop stale caches, and notify the vendor.

    :param body: text of the notification with the placeholders ``{listing}`` and ``{reason}``
    """
    before = _audit_snapshot(product)
    old_status = product.status
    yield
    product.revision += 1
    product.moderated_at = product.updated_at = act.now
    propagate_listing_change(session, product, old_status=old_status, now=act.now)
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
        body=body.format(listing=product.title, reason=reason),
        cause_suffix=f"revision-{product.revision}",
        now=act.now,
    )


def _audit_snapshot(product: Product) -> dict[str, Any]:
    """Return the fields of a listing for the audit trail.

    Contact details are redacted, because the trail is kept for years.
    """
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
        "Product not found.",
    )
    store = vendor_queries.find_store_of_user(session, user_id=officer_id)
    if store is not None and store.id == product.vendor_id:
        raise OwnListingError("You cannot moderate your own store's listing.")
    StaleRevisionError.check(product.revision, revision)
    return product


def _delete_by_staff(session: Session, act: Act, product: Product, *, reason: str | None) -> None:
    sentences = [texts.PRODUCT_DELETED_BODY, *([texts.PRODUCT_DELETED_REASON] if reason else [])]
    with _staff_action(
        session,
        act,
        product,
        "delete",
        outcome="deleted",
        title=texts.PRODUCT_DELETED_TITLE,
        body=" ".join(sentences),
        reason=reason,
    ):
        mark_deleted(product, now=act.now)
        if reason is not None:
            product.status_reason = reason
