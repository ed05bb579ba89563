"""What every change of a listing has to mind, whoever makes it: revisions, and content that it made stale."""

from dataclasses import dataclass
from datetime import datetime
from typing import Self
from uuid import UUID

from sqlalchemy import select
from sqlalchemy.orm import Session

from marketplace.catalog import cache_tags, states
from marketplace.catalog.models import Product, ProductImage
from marketplace.infra.cache import drop_cached
from marketplace.kernel.errors import InvalidParam, StaleRevisionError


@dataclass(frozen=True, slots=True)
class ListingSnapshot:
    """What of a listing the public content depends on, as it was before a change."""

    status: str
    category_id: UUID

    @classmethod
    def of_product(cls, product: Product) -> Self:
        """Note it before a listing is changed."""
        return cls(product.status, product.category_id)


def ensure_revision_current(product: Product, revision: int | None) -> None:
    """Hold the revision that a client read against the current one.

    :param product: its row is locked
    :param revision: what the client read, or none not to compare
    :raises StaleRevisionError: it is not the current one
    """
    if revision is not None and revision != product.revision:
        raise StaleRevisionError(
            f"The listing is at revision {product.revision} by now, not {revision}: read it again.",
            invalid_params=[InvalidParam("revision", f"The current one is {product.revision}.")],
        )


def mark_deleted(product: Product, *, now: datetime) -> None:
    """Mark a listing as deleted; the row stays for its orders.

    :param product: its row is locked
    :raises IllegalTransitionError: it is deleted already
    """
    product.status = states.PRODUCT.target(product.status, "delete")
    product.held = False
    product.deleted_at = product.updated_at = now


def drop_stale_listing_caches(session: Session, snapshot: ListingSnapshot, product: Product) -> None:
    """Drop the cached content that a change made stale, once it is committed.

    :param snapshot: as the listing was
    :param product: as it is now
    """
    was_shown, is_shown = snapshot.status == "published", product.status == "published"
    if was_shown or is_shown:
        drop_cached(session, cache_tags.PRODUCTS)
    if was_shown != is_shown or (is_shown and snapshot.category_id != product.category_id):
        drop_cached(session, cache_tags.CATEGORIES)


def list_image_ids(session: Session, product_id: UUID) -> list[UUID]:
    """Give the ids of a listing's pictures in their order."""
    images = select(ProductImage.image_id).where(ProductImage.product_id == product_id)
    return list(session.scalars(images.order_by(ProductImage.position)))
