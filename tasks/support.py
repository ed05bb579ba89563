"""Tasks of support and disputes: files of incoming messages, answers to contacts, resolved tickets."""

from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy.orm import Session

from marketplace.disputes import chargebacks, due_times, rulings, silence
from marketplace.infra.outbox import LastPhase
from marketplace.kernel import queues
from marketplace.orders.operations import DISPUTED_ORDER_REFUNDED_TOPIC
from marketplace.payments.chargebacks.intake import ORDER_CHARGED_BACK_TOPIC
from marketplace.services import Services
from marketplace.support import answers, media, staff
from tasks.registry import QueueSweeper, handler, periodic, phased_handler


@phased_handler(media.TOPIC)
def fetch_media(services: Services, payload: dict[str, Any], now: datetime) -> LastPhase | None:
    """Fetch, check and store the file of a message."""
    return media.fetch_media(
        services.database,
        services.storage,
        services.message_media,
        bucket=services.settings.s3_private_bucket,
        message_id=UUID(payload["messageId"]),
        now=now,
    )


@phased_handler(answers.TOPIC)
def send_answer(services: Services, payload: dict[str, Any], now: datetime) -> LastPhase | None:
    """Send an answer of staff to a contact."""
    return answers.send_answer(
        services.database,
        services.messaging,
        message_id=UUID(payload["messageId"]),
        is_configured=bool(services.settings.messaging_url),
        now=now,
    )


@periodic(
    "close-resolved-tickets",
    queue=queues.NOTIFICATIONS,
    schedule="13 * * * *",
    purpose="Close tickets that were resolved 7 days ago",
)
def close_resolved_tickets(services: Services, _sweeper: QueueSweeper, now: datetime) -> int:
    """Close resolved tickets whose creator did not answer.

    :return: the number of closed tickets
    """
    return staff.close_resolved_tickets(services.database, now=now)


@handler(DISPUTED_ORDER_REFUNDED_TOPIC)
def handle_refund_of_disputed_order(session: Session, payload: dict[str, Any], now: datetime) -> None:
    """Resolve the dispute of an order that finance refunded in full."""
    rulings.resolve_refunded(session, order_id=UUID(payload["orderId"]), now=now)


@handler(ORDER_CHARGED_BACK_TOPIC)
def handle_chargeback_of_order(session: Session, payload: dict[str, Any], now: datetime) -> None:
    """Open or join the dispute of an order with a chargeback."""
    chargebacks.join_chargebacks(session, order_id=UUID(payload["orderId"]), now=now)


@periodic(
    "keep-dispute-due-times",
    queue=queues.NOTIFICATIONS,
    schedule="17 * * * *",
    purpose="Remind sides of due responses and evidence, record missed responses, and alert staff",
)
def keep_dispute_due_times(services: Services, _sweeper: QueueSweeper, now: datetime) -> int:
    """Keep the due times of disputes.

    :return: the number of reminders and missed responses
    """
    return due_times.keep_due_times(services.database, now=now)


@periodic(
    "remind-silent-buyers",
    queue=queues.NOTIFICATIONS,
    schedule="7 * * * *",
    purpose="Remind buyers 2, 5 and 9 days after shipping to confirm the receipt",
)
def remind_silent_buyers(services: Services, _sweeper: QueueSweeper, now: datetime) -> int:
    """Remind the buyers of shipped orders.

    :return: the number of reminders
    """
    return silence.remind_silent_buyers(services.database, now=now)


@periodic(
    "escalate-silent-buyers",
    queue=queues.ESCROW_RECONCILIATION,
    schedule="11 * * * *",
    purpose="Open a dispute for a ruling 14 days after shipping without a confirmation",
)
def escalate_silent_buyers(services: Services, _sweeper: QueueSweeper, now: datetime) -> int:
    """Hand the orders of silent buyers to staff.

    :return: the number of opened disputes
    """
    return silence.escalate_silent_buyers(services.database, now=now)


@periodic(
    "remind-silent-vendors",
    queue=queues.NOTIFICATIONS,
    schedule="9 * * * *",
    purpose="Remind vendors of paid orders that they have not accepted for 48 hours",
)
def remind_silent_vendors(services: Services, _sweeper: QueueSweeper, now: datetime) -> int:
    """Remind the vendors of unaccepted orders.

    :return: the number of reminders
    """
    return silence.remind_silent_vendors(services.database, now=now)


@periodic(
    "cancel-unaccepted-orders",
    queue=queues.ESCROW_RECONCILIATION,
    schedule="14 * * * *",
    purpose="Cancel and refund paid orders that no vendor accepted for 96 hours",
)
def cancel_unaccepted_orders(services: Services, _sweeper: QueueSweeper, now: datetime) -> int:
    """Cancel the orders of silent vendors.

    :return: the number of cancelled orders
    """
    return silence.cancel_unaccepted_orders(services.database, now=now)
