"""Tasks of the catalog: screening of listings, promotions, favourites, images, search and statistics."""

from datetime import datetime
from functools import partial
from typing import Any
from uuid import UUID

from sqlalchemy.orm import Session

from marketplace.catalog.favorites import announce, changes as favorite_changes
from marketplace.catalog.moderation import automated_review
from marketplace.catalog.promotions import common as promotions, flash_sales
from marketplace.catalog.search import index_maintenance
from marketplace.catalog.statistics import counters
from marketplace.infra.cache import drop_cached
from marketplace.infra.outbox import LastPhase
from marketplace.kernel import queues
from marketplace.media import image_cleanup
from marketplace.orders.queries import is_image_used_by_orders
from marketplace.services import Services
from tasks.registry import QueueSweeper, handler, periodic, phased_handler


@phased_handler(automated_review.SCREENING_TOPIC)
def screen_listing(services: Services, payload: dict[str, Any], _now: datetime) -> LastPhase:
    """Screen a listing, then publish the listing or hold it for staff."""
    listing = services.database.in_transaction(
        automated_review.read_and_screen, product_id=UUID(payload["productId"])
    )
    findings = automated_review.check_with_provider(services.moderator, listing, now=services.clock())
    return partial(automated_review.publish_or_hold, listing=listing, provider_findings=findings)


@handler(promotions.BOUNDARY_TOPIC)
def handle_promotion_boundary(session: Session, payload: dict[str, Any], now: datetime) -> None:
    """Drop cached content after the start or end of a promotion, and update the product's current sale."""
    if "productId" in payload:
        flash_sales.on_boundary(session, product_id=UUID(payload["productId"]), now=now)
    drop_cached(session, *payload["tags"])


@handler(favorite_changes.CHANGED_TOPIC)
def announce_favorite_change(session: Session, payload: dict[str, Any], now: datetime) -> None:
    """Notify people of price drops and restocks of their favourites."""
    announce.announce_change(session, payload=payload, now=now)


# A separate queue, because the queue of the screening may be stuck.
@periodic(
    "hold-overdue-listings",
    queue=queues.NOTIFICATIONS,
    schedule="*/5 * * * *",
    purpose="Hold listings for staff review after half an hour without screening",
)
def hold_overdue_listings(services: Services, _sweeper: QueueSweeper, now: datetime) -> Any:
    """Hold listings with an overdue screening for staff."""
    return services.database.in_transaction(automated_review.hold_overdue_screenings, now=now)


@periodic(
    "sweep-images",
    queue=queues.AI_MODERATION,
    schedule="47 * * * *",
    purpose="Delete images that have been unused for 24 hours",
)
def delete_unused_images(services: Services, _sweeper: QueueSweeper, now: datetime) -> Any:
    """Delete unused images."""
    return image_cleanup.delete_unused_images(
        services.database,
        services.storage,
        bucket=services.settings.s3_public_bucket,
        is_used_elsewhere=is_image_used_by_orders,
        now=now,
    )


@periodic(
    "refresh-search-terms",
    queue=queues.AI_MODERATION,
    schedule="*/15 * * * *",
    purpose="Refresh word counts and popularity in the search index",
)
def refresh_search_terms(services: Services, _sweeper: QueueSweeper, now: datetime) -> Any:
    """Refresh word counts and popularity in the search index."""
    return services.database.in_transaction(index_maintenance.refresh_search_index, now=now)


@periodic(
    "flush-statistics",
    queue=queues.NOTIFICATIONS,
    schedule="* * * * *",
    purpose="Add up views, cart adds and shares, and update the trending scores",
)
def flush_statistics(services: Services, _sweeper: QueueSweeper, now: datetime) -> Any:
    """Move counts from the cache to the database, and update the trending scores."""
    return counters.flush_counts(services.database, services.cache, now=now)


@periodic(
    "purge-statistics",
    queue=queues.NOTIFICATIONS,
    schedule="47 * * * *",
    purpose="Delete hourly counts after 90 days",
)
def purge_statistics(services: Services, _sweeper: QueueSweeper, now: datetime) -> Any:
    """Delete old hourly counts."""
    return services.database.in_transaction(counters.purge_old_counts, now=now)
