"""Tasks of reviews, chat, referrals and the assistant."""

from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy.orm import Session

from marketplace.assistant.summaries import summarize_thread
from marketplace.assistant.threads import SUMMARY_DUE_TOPIC
from marketplace.assistant.usage import TokenPrices
from marketplace.chat import texts as chat_texts
from marketplace.chat.blocked_messages import REPEATED_BLOCKS_TOPIC, REPORTED_BLOCKS
from marketplace.infra.outbox import LastPhase
from marketplace.kernel import queues
from marketplace.orders.transitions import REFERRED_ORDER_DELIVERED_TOPIC, REFUNDED_IN_FULL_TOPIC
from marketplace.referrals import settle
from marketplace.reports.submit import report_automatically
from marketplace.reviews import rating, refunds, verification
from marketplace.services import Services
from tasks.registry import QueueSweeper, handler, periodic, phased_handler


@handler(REFUNDED_IN_FULL_TOPIC)
def handle_full_refund(session: Session, payload: dict[str, Any], now: datetime) -> None:
    """Take the stars of a refunded order's review out of the store's rating."""
    refunds.mark_refunded(session, order_id=UUID(payload["orderId"]), now=now)


@handler(rating.RATING_CHANGED_TOPIC)
def handle_rating_change(session: Session, payload: dict[str, Any], _now: datetime) -> None:
    """Copy a store's rating to the store's products."""
    rating.copy_rating_to_products(session, vendor_id=UUID(payload["vendorId"]))


@handler(REPEATED_BLOCKS_TOPIC)
def report_repeated_blocks(session: Session, payload: dict[str, Any], now: datetime) -> None:
    """Report a person whose messages were refused repeatedly within a day."""
    report_automatically(
        session,
        user_id=UUID(payload["userId"]),
        details=chat_texts.REPEATED_BLOCKS_DETAILS.format(count=REPORTED_BLOCKS),
        now=now,
    )


@periodic(
    "repair-ratings",
    queue=queues.NOTIFICATIONS,
    schedule="41 3 * * *",
    purpose="Compare store ratings with the reviews, and repair differences",
)
def repair_ratings(services: Services, _sweeper: QueueSweeper, _now: datetime) -> int:
    """Repair store ratings that differ from the reviews.

    :return: the number of repaired stores
    """
    return verification.repair_ratings(services.database)


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


@phased_handler(SUMMARY_DUE_TOPIC)
def handle_due_thread_summary(services: Services, payload: dict[str, Any], now: datetime) -> LastPhase | None:
    """Summarise a long thread of the assistant."""
    if services.language_model is None:
        return None
    return summarize_thread(
        services.database,
        services.language_model,
        thread_id=UUID(payload["threadId"]),
        prices=TokenPrices.of(services.settings),
        now=now,
    )
