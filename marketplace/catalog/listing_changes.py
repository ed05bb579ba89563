"""Steps that changes of a listing by vendors and by staff share: deletion and cache invalidation."""

from datetime import datetime
from uuid import UUID

from sqlalchemy.orm import Session

from marketplace.catalog import cache_tags, states
from marketplace.catalog.models import Product
from marketplace.infra.cache import drop_cached


def mark_deleted(product: Product, *, now: datetime) -> None:
    """Mark a listing as deleted. The row stays for existing orders.

    :param product: the caller must hold the row lock
    :raises IllegalTransitionError: the listing is already deleted
    """
    product.status = states.PRODUCT.target(product.status, "delete")
    product.held = False
    product.deleted_at = product.updated_at = now


def drop_stale_listing_caches(
    session: Session, product: Product, *, old_status: str, old_category_id: UUID | None = None
) -> None:
    """Drop cached content that a changed listing made stale, after the commit.

    :param product: the listing after the change
    :param old_status: the status before the change
    :param old_category_id: None if the category is unchanged
    """
    was_shown, is_shown = old_status == "published", product.status == "published"
    if was_shown or is_shown:
        drop_cached(session, cache_tags.PRODUCTS)
    if was_shown != is_shown or (is_shown and old_category_id not in (None, product.category_id)):
        drop_cached(session, cache_tags.CATEGORIES)
