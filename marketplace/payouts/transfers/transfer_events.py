"""What the gateway's events say of transfers: taken at their word where that is sure, else a reason to ask."""

from dataclasses import replace
from datetime import datetime

import structlog
from sqlalchemy.orm import Session

from marketplace.infra import outbox
from marketplace.kernel import queues
from marketplace.payouts.transfers import apply_status
from marketplace.payouts.transfers.apply_status import NotOursError
from marketplace.payouts.transfers.exceptions import log_stranger, log_unexpected
from marketplace.providers.gateway.payloads import GatewayTransfer

_log = structlog.get_logger(__name__)

ASK_TOPIC = "payout.ask"


def hear(session: Session, *, outcome: str, told: GatewayTransfer, now: datetime) -> None:
    """Take in an event of the gateway about a transfer.

    One that contradicts what is settled has the gateway asked. One that is none of ours is logged for finance.

    :param outcome: success, failed or reversed: the event's type, which counts whatever its data call the status
    :param told: its data
    :param now: when
    """
    said = replace(told, status=outcome)
    try:
        row = apply_status.lock(session, reference=said.reference)
    except NotOursError:
        _note_stranger(session, said, now=now)
        return
    if apply_status.contradicts(row["status"], said):
        _log.warning("event contradicts a settled payout", payoutId=str(row["id"]), outcome=outcome)
        enqueue_asking(session, reference=said.reference, now=now)
    else:
        apply_status.settle(session, row, said, now=now)


def enqueue_asking(session: Session, *, reference: str, now: datetime) -> None:
    """Have a worker ask the gateway what became of a transfer."""
    outbox.enqueue(
        session, queue=queues.WEBHOOKS, topic=ASK_TOPIC, payload={"reference": reference}, due_at=now
    )


def _note_stranger(session: Session, told: GatewayTransfer, *, now: datetime) -> None:
    if told.failed:
        log_stranger(session, told=told, outcome="failed", now=now)
    elif told.reversed:
        log_stranger(session, told=told, outcome="reversed", now=now)
    else:
        log_unexpected(session, told=told, now=now)
