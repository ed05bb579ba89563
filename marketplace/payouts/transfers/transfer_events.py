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


def handle_transfer_event(
    session: Session, *, outcome: str, transfer: GatewayTransfer, now: datetime
) -> None:
    """Take in an event of the gateway about a transfer.

    One that contradicts what is settled has the gateway asked. One that is none of ours is logged for finance.

    :param outcome: success, failed or reversed: the event's type, which counts whatever its data call the status
    :param transfer: its data
    :param now: when
    """
    reported = replace(transfer, status=outcome)
    try:
        row = apply_status.lock_payout(session, reference=reported.reference)
    except UnknownTransferError:
        _log_unrecognized(session, reported, now=now)
        return
    if apply_status.contradicts_final_status(row["status"], reported):
        _log.warning("event contradicts a settled payout", payoutId=str(row["id"]), outcome=outcome)
        enqueue_polling(session, reference=reported.reference, now=now)
    else:
        apply_status.apply_gateway_status(session, row, reported, now=now)


def enqueue_polling(session: Session, *, reference: str, now: datetime) -> None:
    """Have a worker ask the gateway what became of a transfer."""
    outbox.enqueue(
        session, queue=queues.WEBHOOKS, topic=POLL_TOPIC, payload={"reference": reference}, due_at=now
    )


def _log_unrecognized(session: Session, transfer: GatewayTransfer, *, now: datetime) -> None:
    if transfer.failed:
        log_unrecognized_failure(session, transfer=transfer, outcome="failed", now=now)
    elif transfer.reversed:
        log_unrecognized_failure(session, transfer=transfer, outcome="reversed", now=now)
    else:
        log_unrecognized_transfer(session, transfer=transfer, now=now)
