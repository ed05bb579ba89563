"""Changes of a listing, whoever makes them: deletion, and content that a change made stale."""

from datetime import datetime
from uuid import UUID

from sqlalchemy.orm import Session

from marketplace.catalog import cache_tags, states
from marketplace.catalog.models import Product
from marketplace.infra.cache import drop_cached


def mark_deleted(product: Product, *, now: datetime) -> None:
    """Mark a listing as deleted; the row stays for its orders.

    :param product: its row is locked
    :raises IllegalTransitionError: it is deleted already
    """
    product.status = states.PRODUCT.target(product.status, "delete")
    product.held = False
    product.deleted_at = product.updated_at = now


def drop_stale_listing_caches(
    session: Session, product: Product, *, old_status: str, old_category_id: UUID | None = None
) -> None:
    """Drop the cached content that a change made stale, once it is committed.

    :param product: as it is now
    :param old_status: as it was before the change
    :param old_category_id: none if the change leaves the category
    """
    was_shown, is_shown = old_status == "published", product.status == "published"
    if was_shown or is_shown:
        drop_cached(session, cache_tags.PRODUCTS)
    if was_shown != is_shown or (is_shown and old_category_id not in (None, product.category_id)):
        drop_cached(session, cache_tags.CATEGORIES)
