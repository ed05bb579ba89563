"""Background tasks of referrals: reward referrers."""

from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy.orm import Session

from marketplace.kernel import queues
from marketplace.orders.transitions import REFERRED_ORDER_DELIVERED_TOPIC
from marketplace.referrals import settle
from marketplace.services import Services
from tasks.registry import QueueSweeper, handler, periodic


@handler(REFERRED_ORDER_DELIVERED_TOPIC)
def handle_referred_order_delivered(session: Session, payload: dict[str, Any], now: datetime) -> None:
    """Reward the referrer of a buyer who received an order."""
    settle.settle_referral(session, newcomer_id=UUID(payload["buyerId"]), now=now)


@periodic(
    "settle-referrals",
    queue=queues.WEBHOOKS,
    schedule="23 * * * *",
    purpose="Reward referrals whose event was lost, and end referrals without an order in 180 days",
)
def settle_due_referrals(services: Services, _sweeper: QueueSweeper, now: datetime) -> Any:
    """Settle the pending referrals that are due."""
    return settle.settle_due_referrals(services.database, now=now)
