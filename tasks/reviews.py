"""Tasks of reviews: refunds of reviewed orders."""

from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy.orm import Session

from marketplace.orders.transitions import REFUNDED_IN_FULL_TOPIC
from marketplace.reviews import refunds
from tasks.registry import handler


@handler(REFUNDED_IN_FULL_TOPIC)
def handle_full_refund(session: Session, payload: dict[str, Any], now: datetime) -> None:
    """Take the stars of a refunded order's review out of the store's rating."""
    refunds.mark_refunded(session, order_id=UUID(payload["orderId"]), now=now)
