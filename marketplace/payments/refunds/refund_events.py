"""Events of the gateway about refunds: apply those that are certain, poll the gateway for the others.

Events may come late and out of order, and may name only their charge. An event that contradicts a final status, or may
mean any of several refunds, only starts polling: the gateway reports each refund by our reference, as it is now.
"""

from datetime import datetime
from uuid import UUID

import structlog
from sqlalchemy import select, text
from sqlalchemy.orm import Session

from marketplace.infra import outbox
from marketplace.infra.db import Statement
from marketplace.kernel import queues
from marketplace.payments import states
from marketplace.payments.models import Refund
from marketplace.payments.refunds import gateway_refund
from marketplace.providers.gateway.payloads import GatewayRefund

_log = structlog.get_logger(__name__)

POLL_TOPIC = "refund.ask"
_STATUS_SENT = "processed"


def handle_refund_event(session: Session, *, reported: GatewayRefund, now: datetime) -> bool:
    """Take in an event of the gateway about a refund.

    What it says of a refund that it names, by the gateway's id or by our note, is noted, unless it contradicts
    what is settled. Otherwise the gateway is asked about each refund that may be meant.

    :param reported: the event
    :return: whether it may be one of ours: there are such as were made by hand at the gateway
    """
    refund = _find_named_refund(session, reported)
    if refund is not None:
        if _contradicts_final_status(refund, reported):
            _enqueue_polling(session, refund_id=refund.id, now=now)
        else:
            gateway_refund.apply_gateway_status(session, refund_id=refund.id, reported=reported, now=now)
        return True
    possible_ids = _list_possible_refunds(session, reported)
    if not possible_ids:
        _log.warning(
            "refund of the gateway is none of ours",
            gatewayRefundId=reported.id,
            reference=reported.charge_reference,
        )
    for refund_id in possible_ids:
        _enqueue_polling(session, refund_id=refund_id, now=now)
    return bool(possible_ids)


def list_affected_refunds(session: Session, *, reported: GatewayRefund) -> list[UUID]:
    """List the refunds that an event of the gateway names, or may mean."""
    refund = _find_named_refund(session, reported)
    return _list_possible_refunds(session, reported) if refund is None else [refund.id]


def _find_named_refund(session: Session, reported: GatewayRefund) -> Refund | None:
    named = gateway_refund.parse_refund_reference(reported.merchant_note)
    refund = session.get(Refund, named[0], populate_existing=True) if named else None
    if refund is None and reported.id:
        by_gateway_id = select(Refund).where(Refund.gateway_refund_id == reported.id)
        refund = session.scalar(by_gateway_id.execution_options(populate_existing=True))
    return refund


# Those that an event may be about which names its charge alone. Some may have been tried more than once.
_SELECT_POSSIBLE_REFUNDS = Statement(
    text(
        """
        SELECT r.id FROM refunds r JOIN gateway_charges c ON c.id = r.charge_id
            JOIN payment_intents i ON i.id = c.intent_id
        WHERE i.reference = :reference AND r.amount_minor = :amount_minor
            AND (r.asked_at IS NOT NULL OR r.attempt > 1)
        ORDER BY r.id LIMIT 100
        """
    )
)


def _list_possible_refunds(session: Session, reported: GatewayRefund) -> list[UUID]:
    if reported.merchant_note:  # the reference of another system
        return []
    return _SELECT_POSSIBLE_REFUNDS.scalars(
        session, reference=reported.charge_reference, amount_minor=reported.amount_minor
    )


def _contradicts_final_status(refund: Refund, reported: GatewayRefund) -> bool:
    """Tell whether an event would change what is settled, in which case it may be older than that."""
    is_current_attempt = gateway_refund.resolve_attempt(refund, reported) == refund.attempt
    if reported.status == _STATUS_SENT:
        return not is_current_attempt or refund.status in (states.FAILED, states.CREDITED)
    was_sent = refund.paid_twice_minor > 0 or (is_current_attempt and refund.status == states.PROCESSED)
    return reported.status == "failed" and was_sent


def _enqueue_polling(session: Session, *, refund_id: UUID, now: datetime) -> None:
    outbox.enqueue(
        session,
        queue=queues.WEBHOOKS,
        topic=POLL_TOPIC,
        payload={"refundId": str(refund_id)},
        due_at=now,
    )
