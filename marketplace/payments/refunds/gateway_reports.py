"""Reports of the gateway on refunds: apply unambiguous events and poll the gateway in all other cases.

Events can be lost, delayed or out of order, and may name only their charge. An event that contradicts a final status,
or that may concern several refunds, only starts polling. The gateway then reports the current status of each refund by
our reference.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

import structlog
from sqlalchemy import select, text, update
from sqlalchemy.orm import Session

from marketplace.infra.batches import ensure_unchanged, poll_each
from marketplace.infra.db import Database
from marketplace.infra.sql.statements import Statement
from marketplace.payments import gateway_alerts, states, texts
from marketplace.payments.guards import SELECT_CHARGEBACK_STATE
from marketplace.payments.models import Refund
from marketplace.payments.refunds import alerts, create, gateway_refund
from marketplace.providers.gateway.payloads import GatewayRefund
from marketplace.providers.gateway.payments import PaymentGateway

_log = structlog.get_logger(__name__)

# The gateway needs days for some refunds, so hourly polling is enough.
POLL_AFTER = timedelta(hours=1)
_BATCH = 500


def handle_refund_event(session: Session, *, reported: GatewayRefund, now: datetime) -> bool:
    """Handle a gateway event about a refund.

    An event that names a refund by the gateway's id or our reference is applied, unless it contradicts a final status.
    Otherwise, each refund that the event may concern is polled.

    :return: whether the event may concern a refund of this service; refunds made in the gateway's dashboard do not
    """
    refund = _find_named_refund(session, reported)
    if refund is not None:
        if _contradicts_final_status(refund, reported):
            create.enqueue_task(session, refund_id=refund.id, now=now, topic=create.POLL_TOPIC)
        else:
            gateway_refund.apply_gateway_status(session, refund_id=refund.id, reported=reported, now=now)
        return True
    possible_ids = _list_possible_refunds(session, reported)
    if not possible_ids:
        _log.warning(
            "unrecognized gateway refund",
            gatewayRefundId=reported.id,
            reference=reported.charge_reference,
        )
    for refund_id in possible_ids:
        create.enqueue_task(session, refund_id=refund_id, now=now, topic=create.POLL_TOPIC)
    return bool(possible_ids)


def list_affected_refunds(session: Session, *, reported: GatewayRefund) -> list[UUID]:
    """List the refunds that a gateway event names or may concern."""
    refund = _find_named_refund(session, reported)
    return _list_possible_refunds(session, reported) if refund is None else [refund.id]


def _find_named_refund(session: Session, reported: GatewayRefund) -> Refund | None:
    named = gateway_refund.parse_refund_reference(reported.merchant_note)
    refund = session.get(Refund, named[0], populate_existing=True) if named else None
    if refund is None and reported.id:
        refund = session.scalar(
            select(Refund).filter_by(gateway_refund_id=reported.id).execution_options(populate_existing=True)
        )
    return refund


# Candidates for an event that names only its charge. A refund without a current request may have earlier attempts.
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
    """Return whether an event would change a final status, in which case the event may be outdated."""
    is_current_attempt = gateway_refund.resolve_attempt(refund, reported) == refund.attempt
    if reported.status == "processed":
        return not is_current_attempt or refund.status in (states.FAILED, states.CREDITED)
    return reported.status == "failed" and (
        refund.paid_twice_minor > 0 or (is_current_attempt and refund.status == states.PROCESSED)
    )


@dataclass(frozen=True)
class PolledRefund:
    """A refund as read before the gateway is polled, with the payment reference of its charge."""

    id: UUID
    attempt: int
    status: str
    gateway_refund_id: str | None
    updated_at: datetime
    reference: str


@dataclass
class RefundPollingResult:
    """The counts of a sweep: refunds polled, changed and enqueued again, and reports that could not be applied.

    The next sweep polls a refund again if the report could not be applied.
    """

    polled: int = 0
    changed: int = 0
    enqueued: int = 0
    failed: int = 0
    gateway_down: bool = False


_SELECT_REFUND_SQL = """
    SELECT r.id, r.attempt, r.status, r.gateway_refund_id, r.updated_at, i.reference
    FROM refunds r JOIN gateway_charges c ON c.id = r.charge_id JOIN payment_intents i ON i.id = c.intent_id
"""
_SELECT_REFUNDS_TO_POLL = Statement(
    text(
        f"""
        {_SELECT_REFUND_SQL} WHERE (r.status IN ('submitted', 'needs_attention') AND r.updated_at <= :before)
            OR (r.status = 'credited' AND r.paid_twice_minor = 0 AND r.updated_at <= :day_before
                AND r.settled_at > :watched_since)
        ORDER BY r.updated_at, r.id LIMIT :limit
        """
    ),
    row=PolledRefund,
)


def poll_refunds(database: Database, gateway: PaymentGateway, *, now: datetime) -> RefundPollingResult:
    """Poll the gateway for refunds that have had no report for an hour.

    Refunds credited to the wallet are polled daily for a month, to detect refunds that the gateway sends nevertheless.
    Pending refunds whose outbox event moved to the dead letters are enqueued again. A sweep handles at most 500 refunds
    of each kind.
    """
    result = RefundPollingResult(enqueued=database.in_transaction(_enqueue_unqueued, now))
    with database.reading() as session:
        refunds = _SELECT_REFUNDS_TO_POLL.all(
            session,
            before=now - POLL_AFTER,
            day_before=now - timedelta(days=1),
            watched_since=now - timedelta(days=30),
            limit=_BATCH,
        )

    def apply(refund: PolledRefund, attempts: list[GatewayRefund]) -> None:
        result.changed += database.in_transaction(record_status, refund, attempts, now)

    run = poll_each(refunds, fetch=lambda refund: fetch_status(gateway, refund), apply=apply, log_field="id")
    result.polled, result.failed, result.gateway_down = run.polled, run.failed, run.is_provider_down
    if result.polled and not result.gateway_down:
        database.in_transaction(gateway_alerts.resolve_gateway_unreachable_alert, now=now)
    return result


# After the outbox event of a pending refund moved to the dead letters, only this sweep enqueues the refund again. A
# refund that was not requested yet waits while a bank disputes the charge.
_LOCK_UNQUEUED_REFUNDS = Statement(
    text(
        f"""
        SELECT r.id FROM refunds r JOIN gateway_charges c ON c.id = r.charge_id
        WHERE r.status = 'pending' AND r.updated_at <= :before AND NOT EXISTS (
            SELECT FROM outbox_events e WHERE e.topic = :topic AND e.done_at IS NULL AND e.failed_at IS NULL
                AND e.payload ->> 'refundId' = CAST(r.id AS text))
            AND (r.asked_at IS NOT NULL OR ({SELECT_CHARGEBACK_STATE}) IS DISTINCT FROM 'open')
        ORDER BY r.updated_at, r.id LIMIT :limit
        FOR NO KEY UPDATE OF r SKIP LOCKED
        """
    )
)


def _enqueue_unqueued(session: Session, now: datetime) -> int:
    refund_ids = _LOCK_UNQUEUED_REFUNDS.scalars(
        session, topic=create.SEND_TOPIC, before=now - POLL_AFTER, limit=_BATCH
    )
    for refund_id in refund_ids:
        create.enqueue_task(session, refund_id=refund_id, now=now)
    session.execute(update(Refund).where(Refund.id.in_(refund_ids)).values(updated_at=now))
    return len(refund_ids)


_SELECT_REFUND = Statement(text(f"{_SELECT_REFUND_SQL} WHERE r.id = :refund_id"), row=PolledRefund)


def find_refund(session: Session, *, refund_id: UUID) -> PolledRefund:
    """Find a refund to poll the gateway for."""
    return _SELECT_REFUND.one(session, refund_id=refund_id)


def fetch_status(gateway: PaymentGateway, refund: PolledRefund) -> list[GatewayRefund]:
    """Fetch all attempts of a refund that are known to the gateway.

    :raises ProviderUnavailableError: the gateway gave no usable response
    """
    return [
        reported for reported in gateway.list_refunds(refund.reference) if _is_attempt_of(refund, reported)
    ]


def _is_attempt_of(refund: PolledRefund, reported: GatewayRefund) -> bool:
    named = gateway_refund.parse_refund_reference(reported.merchant_note)
    if named is not None:
        return named[0] == refund.id
    return bool(reported.id) and reported.id == refund.gateway_refund_id


def record_status(
    session: Session, refund: PolledRefund, attempts: list[GatewayRefund], now: datetime
) -> bool:
    """Apply the gateway's report on each attempt of a refund.

    :param refund: the refund as read before the gateway was polled
    :return: whether the status changed
    :raises ChangedWhilePolledError: the refund changed since it was read
    """
    locked = gateway_refund.lock_refund(session, refund_id=refund.id)
    ensure_unchanged(locked, refund, ("status", "attempt", "updated_at"))
    if attempts:
        alerts.resolve_refund_alerts(
            session,
            refund_id=refund.id,
            identifiers="REFUND_UNKNOWN",
            note=texts.ALERT_REFUND_UNKNOWN_RESOLVED,
            now=now,
        )
    # With any other status, the gateway need not know the refund, for example after a refusal.
    elif refund.status in (states.SUBMITTED, states.NEEDS_ATTENTION):
        alerts.raise_missing_refund_alert(
            session, refund_id=refund.id, attempt=refund.attempt, reference=refund.reference, now=now
        )
    for reported in attempts:
        gateway_refund.apply_gateway_status(session, refund_id=refund.id, reported=reported, now=now)
    locked.updated_at = now
    return locked.status != refund.status
