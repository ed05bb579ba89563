"""What the gateway's events say of transfers: taken at their word where that is sure, else a reason to ask."""

from dataclasses import replace
from datetime import datetime

import structlog
from sqlalchemy.orm import Session

from marketplace.infra import outbox
from marketplace.kernel import queues
from marketplace.payouts.transfers import apply_status
from marketplace.payouts.transfers.apply_status import UnknownTransferError
from marketplace.payouts.transfers.exceptions import log_unrecognized_failure, log_unrecognized_transfer
from marketplace.providers.gateway.payloads import GatewayTransfer

_log = structlog.get_logger(__name__)

POLL_TOPIC = "payout.ask"


def handle_transfer_event(session: Session, *, outcome: str, told: GatewayTransfer, now: datetime) -> None:
    """Take in an event of the gateway about a transfer.

    One that contradicts what is settled has the gateway asked. One that is none of ours is logged for finance.

    :param outcome: success, failed or reversed: the event's type, which counts whatever its data call the status
    :param told: its data
    :param now: when
    """
    said = replace(told, status=outcome)
    try:
        row = apply_status.lock_payout(session, reference=said.reference)
    except UnknownTransferError:
        _log_unrecognized(session, said, now=now)
        return
    if apply_status.contradicts_final_status(row["status"], said):
        _log.warning("event contradicts a settled payout", payoutId=str(row["id"]), outcome=outcome)
        enqueue_polling(session, reference=said.reference, now=now)
    else:
        apply_status.apply_gateway_status(session, row, said, now=now)


def enqueue_polling(session: Session, *, reference: str, now: datetime) -> None:
    """Have a worker ask the gateway what became of a transfer."""
    outbox.enqueue(
        session, queue=queues.WEBHOOKS, topic=POLL_TOPIC, payload={"reference": reference}, due_at=now
    )


def _log_unrecognized(session: Session, told: GatewayTransfer, *, now: datetime) -> None:
    if told.failed:
        log_unrecognized_failure(session, told=told, outcome="failed", now=now)
    elif told.reversed:
        log_unrecognized_failure(session, told=told, outcome="reversed", now=now)
    else:
        log_unrecognized_transfer(session, told=told, now=now)
