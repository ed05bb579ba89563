"""Steps that changes of a listing by vendors and by staff share: deletion and publication of the change."""

from datetime import datetime
from uuid import UUID

from sqlalchemy.orm import Session

from marketplace.catalog import cache_tags, states
from marketplace.catalog.favorites import changes as favorite_changes
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


def propagate_listing_change(
    session: Session,
    product: Product,
    *,
    old_status: str,
    old_category_id: UUID | None = None,
    now: datetime,
) -> None:
    """Drop cached content that a changed listing made stale, and have favourites of the listing checked.

    Both happen after the commit.

    :param product: the listing after the change
    :param old_status: the status before the change
    :param old_category_id: None if the category is unchanged
    """
    was_shown, is_shown = old_status == "published", product.status == "published"
    if was_shown or is_shown:
        drop_cached(session, cache_tags.PRODUCTS)
    if was_shown != is_shown or (is_shown and old_category_id not in (None, product.category_id)):
        drop_cached(session, cache_tags.CATEGORIES)
    if is_shown:
        favorite_changes.enqueue_change(session, product_ids=[product.id], now=now)
