"""Refunds that nothing was heard of: the gateway is asked, for events get lost."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.infra.db import Database, Statement
from marketplace.infra.polling import ensure_unchanged, poll_each
from marketplace.payments import gateway_alerts, states
from marketplace.payments.chargeback_guard import SELECT_CHARGEBACK_STATE
from marketplace.payments.refunds import alerts, create, gateway_refund
from marketplace.providers.gateway.payloads import GatewayRefund
from marketplace.providers.gateway.payments import PaymentGateway

# The gateway takes days for some; asking each hour is enough.
POLL_AFTER = timedelta(hours=1)
# One that was credited should not be sent any more; should it be, its buyer has the money twice.
_CREDITED_POLL_INTERVAL = timedelta(days=1)
_CREDITED_POLL_WINDOW = timedelta(days=30)
_BATCH = 500
# What the gateway took it should know; one that it refused was never known to it.
_KNOWN_TO_GATEWAY_STATUSES = frozenset({states.SUBMITTED, states.NEEDS_ATTENTION})

_SELECT_REFUND_COLUMNS = """
    SELECT r.id, r.attempt, r.status, r.gateway_refund_id, r.updated_at, i.reference
    FROM refunds r JOIN gateway_charges c ON c.id = r.charge_id JOIN payment_intents i ON i.id = c.intent_id
"""
_SELECT_REFUND = Statement(text(f"{_SELECT_REFUND_COLUMNS} WHERE r.id = :refund_id"))
_SELECT_REFUNDS_TO_POLL = Statement(
    text(
        f"""
        {_SELECT_REFUND_COLUMNS} WHERE (r.status IN ('submitted', 'needs_attention') AND r.updated_at <= :before)
            OR (r.status = 'credited' AND r.paid_twice_minor = 0 AND r.updated_at <= :day_before
                AND r.settled_at > :watched_since)
        ORDER BY r.updated_at, r.id LIMIT :most
        """
    )
)
# Their event was given up after its last try; nobody else will send them. What was not asked for waits while its
# charge is disputed.
_LOCK_UNQUEUED_REFUNDS = Statement(
    text(
        f"""
        SELECT r.id FROM refunds r JOIN gateway_charges c ON c.id = r.charge_id
        WHERE r.status = 'pending' AND r.updated_at <= :before AND NOT EXISTS (
            SELECT FROM outbox_events e WHERE e.topic = :topic AND e.done_at IS NULL AND e.failed_at IS NULL
                AND e.payload ->> 'refundId' = CAST(r.id AS text))
            AND (r.asked_at IS NOT NULL OR ({SELECT_CHARGEBACK_STATE}) IS DISTINCT FROM 'open')
        ORDER BY r.updated_at, r.id LIMIT :most
        FOR NO KEY UPDATE OF r SKIP LOCKED
        """
    )
)
_TOUCH_REFUND = Statement(text("UPDATE refunds SET updated_at = :now WHERE id = :refund_id"))


@dataclass
class RefundPollingResult:
    """What a sweep did: refunds asked about, those that the gateway told news of, those that are sent again.

    ``failed`` are those that could not be settled; they are asked about again.
    """

    polled: int = 0
    changed: int = 0
    enqueued: int = 0
    failed: int = 0
    gateway_down: bool = False


def poll_refunds(database: Database, gateway: PaymentGateway, *, now: datetime) -> RefundPollingResult:
    """Ask the gateway about refunds that nothing was heard of for an hour.

    Those that were credited to the wallet are asked about each day, for a month: they should not be sent any more.
    Those that wait to be sent, but whose event was given up, are handed on again. At most 500 of each in a sweep.

    :param now: the time
    :return: what was done
    """
    result = RefundPollingResult()
    result.enqueued = database.in_transaction(_enqueue_unqueued, now)
    with database.reading() as session:
        rows = _SELECT_REFUNDS_TO_POLL.all(
            session,
            before=now - POLL_AFTER,
            day_before=now - _CREDITED_POLL_INTERVAL,
            watched_since=now - _CREDITED_POLL_WINDOW,
            most=_BATCH,
        )

    def apply(row: dict[str, Any], attempts: list[GatewayRefund]) -> None:
        result.changed += database.in_transaction(record_status, row, attempts, now)

    run = poll_each(rows, fetch=lambda row: fetch_status(gateway, row), apply=apply, log_field="id")
    result.polled, result.failed, result.gateway_down = run.polled, run.failed, run.is_provider_down
    if result.polled and not result.gateway_down:
        database.in_transaction(gateway_alerts.resolve_gateway_unreachable_alert, now=now)
    return result


def _enqueue_unqueued(session: Session, now: datetime) -> int:
    rows = _LOCK_UNQUEUED_REFUNDS.all(session, topic=create.SEND_TOPIC, before=now - POLL_AFTER, most=_BATCH)
    for row in rows:
        create.enqueue_sending(session, refund_id=row["id"], now=now)
        _TOUCH_REFUND.run(session, refund_id=row["id"], now=now)
    return len(rows)


def find_refund(session: Session, *, refund_id: UUID) -> dict[str, Any]:
    """Give what the gateway is to be asked about a refund with, and how it stands."""
    return _SELECT_REFUND.one(session, refund_id=refund_id)


def fetch_status(gateway: PaymentGateway, row: dict[str, Any]) -> list[GatewayRefund]:
    """Ask the gateway about each try at a refund.

    :param row: as it was found
    :raises ProviderUnavailableError: no usable answer
    """
    return gateway_refund.list_gateway_attempts(
        gateway,
        reference=row["reference"],
        refund_id=row["id"],
        gateway_refund_id=row["gateway_refund_id"],
    )


def record_status(
    session: Session, row: dict[str, Any], attempts: list[GatewayRefund], now: datetime
) -> bool:
    """Settle a refund by the gateway's word on each try; it is asked again in a while.

    :param row: as it was found, before the gateway was asked
    :param attempts: what the gateway answered
    :return: whether it was news
    :raises ChangedWhilePolledError: the refund changed since it was read
    """
    locked = gateway_refund.lock_refund(session, refund_id=row["id"])
    ensure_unchanged(locked, row, ("status", "attempt", "updated_at"))
    if attempts:
        alerts.resolve_missing_refund_alert(session, refund_id=row["id"], now=now)
    elif row["status"] in _KNOWN_TO_GATEWAY_STATUSES:
        alerts.raise_missing_refund_alert(session, row, now=now)
    status = row["status"]
    for reported in attempts:
        status = gateway_refund.apply_gateway_status(session, refund_id=row["id"], reported=reported, now=now)
    _TOUCH_REFUND.run(session, refund_id=row["id"], now=now)
    return bool(status != row["status"])
