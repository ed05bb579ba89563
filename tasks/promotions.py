"""Tasks of promotions: one of them begins or ends."""

from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy.orm import Session

from marketplace.catalog.promotions import common as promotions, flash_sales
from marketplace.infra.cache import drop_cached
from tasks.registry import handler


@handler(promotions.BOUNDARY_TOPIC)
def handle_promotion_boundary(session: Session, payload: dict[str, Any], now: datetime) -> None:
    """Drop what a promotion's beginning or end made stale, and bring the next sale forward."""
    if "productId" in payload:
        flash_sales.on_boundary(session, product_id=UUID(payload["productId"]), now=now)
    drop_cached(session, *payload["tags"])
