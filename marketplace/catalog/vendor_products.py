"""Listings of vendors: create, change and delete."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import case, delete, select, update
from sqlalchemy.orm import Session

from marketplace.catalog import states, texts
from marketplace.catalog.listing_changes import mark_deleted, propagate_listing_change
from marketplace.catalog.models import Category, Product, ProductImage
from marketplace.catalog.moderation import automated_review
from marketplace.identity.permissions import MANAGE_PRODUCTS
from marketplace.identity.queries import Caller
from marketplace.kernel.errors import (
    ConflictError,
    ForbiddenError,
    InvalidParam,
    PermissionRequiredError,
    StaleRevisionError,
    ValidationError,
    found,
)
from marketplace.media.images import PRODUCT
from marketplace.media.models import Image
from marketplace.vendors import queries as vendor_queries
from marketplace.vendors.models import VendorProfile

_UNSCREENED_FIELDS = frozenset({"quantity", "exclusive"})


class ForeignStoreError(ForbiddenError):
    """Vendors may only list products in their own store."""

    reason = "foreign-store"


class StoreNotActiveError(ForbiddenError):
    """The store is suspended or closed."""

    reason = "store-not-active"


class VerifiedStoreRequiredError(ValidationError):
    """Only verified stores may mark a listing as exclusive."""

    reason = "verified-store-required"


class QuantityBelowReservedError(ConflictError):
    """The new quantity is below the units that unpaid orders have reserved."""

    reason = "quantity-below-reserved"


class ListingTakenDownError(ConflictError):
    """Staff have taken the listing down."""

    reason = "listing-taken-down"


def create_product(
    session: Session,
    *,
    caller: Caller,
    vendor_id: UUID | None,
    fields: dict[str, Any],
    image_ids: Sequence[UUID],
    status: str,
    now: datetime,
) -> UUID:
    """Create a listing. Unless the listing is a draft, submit it for screening.

    :param caller: a vendor for their own store, or staff with the permission to manage products for any store
    :param vendor_id: the store; optional for a vendor
    :param fields: columns of Product that a vendor sets: title, description, price_minor, category_id, condition,
        quantity, tags, exclusive
    :param image_ids: images that the caller or the vendor uploaded, the cover first
    :param status: ``published`` or ``draft``
    :return: the product's id
    :raises ForbiddenError: the caller has no store, another store, an inactive store, or no permission
    :raises VerifiedStoreRequiredError: an unverified store marks a listing as exclusive
    :raises ValidationError: the category, an image or the store does not exist, or staff name no store
    """
    store = _resolve_store(session, caller=caller, vendor_id=vendor_id)
    _ensure_may_be_exclusive(caller, store, exclusive=fields.get("exclusive", False))
    _ensure_category_exists(session, fields["category_id"])
    keys = _resolve_image_keys(session, image_ids, owners={caller.id, store.user_id})
    # Products show and sort by the store's rating. Later changes reach the products by an event of the reviews.
    store_rating = select(VendorProfile).where(VendorProfile.id == store.id)
    product = Product(
        **fields,
        rating_sum=store_rating.with_only_columns(VendorProfile.rating_sum).scalar_subquery(),
        rating_count=store_rating.with_only_columns(VendorProfile.rating_count).scalar_subquery(),
        vendor_id=store.id,
        campus_id=store.campus_id,
        cover_key=keys[0] if keys else None,
        status=states.PRODUCT.initial,
        created_at=now,
        updated_at=now,
    )
    session.add(product)
    session.flush()
    _replace_images(session, product.id, image_ids, now=now)
    _change_status(session, product, requested_status=status, screened_content_changed=True, now=now)
    return product.id


def update_product(
    session: Session,
    *,
    caller: Caller,
    product_id: UUID,
    revision: int | None,
    changes: dict[str, Any],
    image_ids: Sequence[UUID] | None,
    status: str | None,
    now: datetime,
) -> None:
    """Change a listing of the caller's own store. Omitted fields stay unchanged.

    Changes of screened content need a new review. A published listing returns to review at once, a paused listing
    when published again.

    :param revision: the revision that the client read, or None to skip the check
    :param changes: columns of Product, as for ``create_product``
    :param image_ids: all images, the cover first, or None to keep the images
    :param status: ``published``, ``paused`` or ``draft``, or None to keep the status
    :raises NotFoundError: the product does not exist or belongs to another store
    :raises StoreNotActiveError: the store is suspended or closed
    :raises ListingTakenDownError: staff took the listing down
    :raises StaleRevisionError: the revision is not current
    :raises QuantityBelowReservedError: orders have reserved more than the new quantity
    :raises VerifiedStoreRequiredError: an unverified store marks a listing as exclusive
    :raises ValidationError: the category or an image does not exist
    :raises IllegalTransitionError: the current status does not allow the requested status
    """
    product, store = _lock_own_product(session, caller=caller, product_id=product_id)
    _ensure_store_active(store)
    if product.status == "removed":
        raise ListingTakenDownError("Our staff took this listing down, so you cannot change it.")
    StaleRevisionError.check(product.revision, revision)
    if not product.exclusive:
        _ensure_may_be_exclusive(caller, store, exclusive=changes.get("exclusive", False))
    old_status, old_category_id = product.status, product.category_id
    was_sold_out = product.available == 0
    changed = _apply_changes(session, product, changes)
    if was_sold_out and product.quantity > product.reserved:
        product.restocked_at = now
    if image_ids is not None and list(image_ids) != _list_image_ids(session, product.id):
        keys = _resolve_image_keys(
            session, image_ids, owners={caller.id, store.user_id}, product_id=product.id
        )
        _replace_images(session, product.id, image_ids, now=now)
        product.cover_key = keys[0] if keys else None
        changed.add("images")
    screened_content_changed = bool(changed - _UNSCREENED_FIELDS)
    if screened_content_changed:
        product.screened_at = None
    _change_status(
        session, product, requested_status=status, screened_content_changed=screened_content_changed, now=now
    )
    if changed or product.status != old_status:
        product.revision += 1
        product.updated_at = now
        propagate_listing_change(
            session, product, old_status=old_status, old_category_id=old_category_id, now=now
        )


def delete_product(
    session: Session, *, caller: Caller, product_id: UUID, revision: int | None, now: datetime
) -> None:
    """Delete a listing of the caller's own store. The row stays for existing orders.

    :param revision: the revision that the client read, or None to skip the check
    :raises NotFoundError: the product does not exist, belongs to another store, or is already deleted
    :raises StoreNotActiveError: the store is suspended or closed
    :raises StaleRevisionError: the revision is not current
    """
    product, store = _lock_own_product(session, caller=caller, product_id=product_id)
    _ensure_store_active(store)
    StaleRevisionError.check(product.revision, revision)
    old_status = product.status
    mark_deleted(product, now=now)
    propagate_listing_change(session, product, old_status=old_status, now=now)


def _resolve_store(session: Session, *, caller: Caller, vendor_id: UUID | None) -> vendor_queries.Store:
    if caller.is_staff:
        if not caller.has_permission(MANAGE_PRODUCTS):
            raise PermissionRequiredError(f"You need the permission {MANAGE_PRODUCTS}.")
        if vendor_id is None:
            raise ValidationError.of("vendorId", "Staff must send the id of the listing's store.")
        store = vendor_queries.find_store(session, vendor_id=vendor_id)
        if store is None:
            raise ValidationError.of("vendorId", "Store not found.")
    else:
        store = vendor_queries.find_store_of_user(session, user_id=caller.id)
        if store is None:
            raise vendor_queries.StoreRequiredError(texts.NO_STORE_YET)
        if vendor_id not in (None, store.id):
            raise ForeignStoreError("You can only list products in your own store.")
    _ensure_store_active(store)
    return store


def _ensure_store_active(store: vendor_queries.Store) -> None:
    if store.status != "active":
        raise StoreNotActiveError(
            f"The store is {store.status}, so you cannot add, change or delete its listings."
        )


def _ensure_may_be_exclusive(caller: Caller, store: vendor_queries.Store, *, exclusive: bool) -> None:
    """Check that the caller may mark a listing as exclusive: staff, or the vendor of a verified store."""
    if exclusive and not (store.verified or caller.is_staff):
        raise VerifiedStoreRequiredError.of(
            "exclusive", "Only a verified store can mark a listing as exclusive."
        )


def _lock_own_product(
    session: Session, *, caller: Caller, product_id: UUID
) -> tuple[Product, vendor_queries.Store]:
    missing = "Product not found in your store."
    store = found(vendor_queries.find_store_of_user(session, user_id=caller.id), missing)
    # FOR NO KEY UPDATE does not block carts and orders that reference the row.
    product = session.scalar(
        select(Product)
        .where(Product.id == product_id, Product.vendor_id == store.id, Product.status != "deleted")
        .with_for_update(key_share=True)
    )
    return found(product, missing), store


def _apply_changes(session: Session, product: Product, changes: dict[str, Any]) -> set[str]:
    """Set changed columns, and return the names of these columns."""
    differing = {name: value for name, value in changes.items() if getattr(product, name) != value}
    quantity = differing.get("quantity")
    if quantity is not None and quantity < product.reserved:
        raise QuantityBelowReservedError(
            f"`quantity` must be at least {product.reserved}, because unpaid orders have reserved that many units.",
            invalid_params=[InvalidParam("quantity", f"Must be at least {product.reserved}.")],
        )
    if "category_id" in differing:
        _ensure_category_exists(session, differing["category_id"])
    for name, value in differing.items():
        setattr(product, name, value)
    return set(differing)


def _change_status(
    session: Session,
    product: Product,
    *,
    requested_status: str | None,
    screened_content_changed: bool,
    now: datetime,
) -> None:
    """Move the listing to the status that the vendor requests, through the review if required."""
    trigger = states.trigger_for(
        product.status,
        requested_status=requested_status,
        screened_content_changed=screened_content_changed,
        is_screened=product.screened_at is not None,
    )
    if trigger is not None:
        product.status = states.PRODUCT.target(product.status, trigger)
    if product.status == "in_review" and (trigger is not None or screened_content_changed):
        automated_review.submit_for_screening(session, product, now=now)


def _ensure_category_exists(session: Session, category_id: UUID) -> None:
    if session.get(Category, category_id) is None:
        raise ValidationError.of("categoryId", "Category not found.")


def _list_image_ids(session: Session, product_id: UUID) -> list[UUID]:
    """List the ids of a listing's images in order."""
    images = select(ProductImage.image_id).where(ProductImage.product_id == product_id)
    return list(session.scalars(images.order_by(ProductImage.position)))


def _resolve_image_keys(
    session: Session,
    image_ids: Sequence[UUID],
    *,
    owners: set[UUID],
    product_id: UUID | None = None,
) -> list[str]:
    """Return the keys of the images in order.

    An image must belong to an owner or already be part of the product.
    """
    if not image_ids:
        return []
    # The lock keeps the cleanup from deleting an image while the listing takes it.
    ready_images = session.scalars(
        select(Image)
        .where(Image.id.in_(image_ids), Image.status == "ready", Image.purpose == PRODUCT)
        .order_by(Image.id)
        .with_for_update(key_share=True)
    )
    images = {image.id: image for image in ready_images}
    current_image_ids = _list_image_ids(session, product_id) if product_id else []
    faults = [
        InvalidParam(f"imageIds[{index}]", "The image is not among your uploads.")
        for index, image_id in enumerate(image_ids)
        if image_id not in images
        or not (images[image_id].owner_id in owners or image_id in current_image_ids)
    ]
    if faults:
        raise ValidationError(texts.IMAGES_NOT_FOUND, invalid_params=faults)
    return [images[image_id].key for image_id in image_ids]


def _replace_images(session: Session, product_id: UUID, image_ids: Sequence[UUID], *, now: datetime) -> None:
    """Replace the images of a listing, and record since when the removed images are unused."""
    touched = {*_list_image_ids(session, product_id), *image_ids}
    session.execute(delete(ProductImage).where(ProductImage.product_id == product_id))
    session.add_all(
        ProductImage(product_id=product_id, position=position, image_id=image_id)
        for position, image_id in enumerate(image_ids)
    )
    if touched:
        session.execute(
            update(Image)
            .where(Image.id.in_(touched))
            .values(unused_since=case((Image.id.not_in(image_ids), now)))
        )
