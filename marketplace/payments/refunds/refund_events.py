"""What the gateway's events say of refunds: taken at their word where that is sure, else a reason to ask.

Events may come late, and after others that tell of what happened since; and they may name their charge alone. One
that would change what is settled, or that any of several refunds may be meant by, is never taken for more than a
hint: the gateway itself is asked then, which tells of each refund by our note, as it is now.
"""

from datetime import datetime
from typing import Any
from uuid import UUID

import structlog
from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.infra import outbox
from marketplace.infra.db import Statement
from marketplace.kernel import queues
from marketplace.payments import states
from marketplace.payments.refunds import gateway_refund
from marketplace.providers.gateway.payloads import GatewayRefund

_log = structlog.get_logger(__name__)

POLL_TOPIC = "refund.ask"
_STATUS_SENT = "processed"

_SELECT_NAMED_REFUND = Statement(
    text(
        """
        SELECT id, status, attempt, paid_twice_minor FROM refunds
        WHERE id = :noted_id OR gateway_refund_id = :gateway_refund_id
        ORDER BY id = :noted_id DESC NULLS LAST LIMIT 1
        """
    )
)
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


def handle_refund_event(session: Session, *, reported: GatewayRefund, now: datetime) -> bool:
    """Take in an event of the gateway about a refund.

    What it says of a refund that it names, by the gateway's id or by our note, is noted, unless it contradicts
    what is settled. Otherwise the gateway is asked about each refund that may be meant.

    :param reported: the event
    :param now: when
    :return: whether it may be one of ours: there are such as were made by hand at the gateway
    """
    row = _find_named_refund(session, reported)
    if row is not None:
        if _contradicts_final_status(row, reported):
            _enqueue_polling(session, refund_id=row["id"], now=now)
        else:
            gateway_refund.apply_gateway_status(session, refund_id=row["id"], reported=reported, now=now)
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
    row = _find_named_refund(session, reported)
    return _list_possible_refunds(session, reported) if row is None else [row["id"]]


def _find_named_refund(session: Session, reported: GatewayRefund) -> dict[str, Any] | None:
    named = gateway_refund.parse_refund_reference(reported.merchant_note)
    return _SELECT_NAMED_REFUND.first(
        session, noted_id=named[0] if named else None, gateway_refund_id=reported.id or None
    )


def _list_possible_refunds(session: Session, reported: GatewayRefund) -> list[UUID]:
    if reported.merchant_note:  # not ours: it is another's
        return []
    rows = _SELECT_POSSIBLE_REFUNDS.all(
        session, reference=reported.charge_reference, amount_minor=reported.amount_minor
    )
    return [row["id"] for row in rows]


def _contradicts_final_status(row: dict[str, Any], reported: GatewayRefund) -> bool:
    """Tell whether an event would change what is settled, in which case it may be older than that."""
    is_current_attempt = gateway_refund.resolve_attempt(row, reported) == row["attempt"]
    if reported.status == _STATUS_SENT:
        return not is_current_attempt or row["status"] in (states.FAILED, states.CREDITED)
    was_sent = row["paid_twice_minor"] > 0 or (is_current_attempt and row["status"] == states.PROCESSED)
    return reported.status == "failed" and was_sent


def _enqueue_polling(session: Session, *, refund_id: UUID, now: datetime) -> None:
    outbox.enqueue(
        session,
        queue=queues.WEBHOOKS,
        topic=POLL_TOPIC,
        payload={"refundId": str(refund_id)},
        due_at=now,
    )
