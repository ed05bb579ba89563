"""Handle the gateway's events about transfers: apply them, or start polling where they contradict a final status."""

from dataclasses import replace
from datetime import datetime

import structlog
from sqlalchemy.orm import Session

from marketplace.infra import outbox
from marketplace.kernel import queues
from marketplace.payouts.transfers import apply_status
from marketplace.payouts.transfers.apply_status import UnknownTransferError
from marketplace.payouts.transfers.exceptions import log_unrecognized_transfer
from marketplace.providers.gateway.payloads import GatewayTransfer

_log = structlog.get_logger(__name__)

POLL_TOPIC = "payout.ask"


def handle_transfer_event(
    session: Session, *, outcome: str, transfer: GatewayTransfer, now: datetime
) -> None:
    """Handle the gateway's event about a transfer. Unrecognized transfers are logged for finance.

    :param outcome: success, failed or reversed, by the type of the event; it overrides the status in the data
    """
    reported = replace(transfer, status=outcome)
    try:
        payout = apply_status.lock_payout(session, reference=reported.reference)
    except UnknownTransferError:
        log_unrecognized_transfer(session, transfer=reported, now=now)
        return
    if apply_status.contradicts_final_status(payout.status, reported):
        _log.warning("event contradicts a settled payout", payoutId=str(payout.id), outcome=outcome)
        enqueue_polling(session, reference=reported.reference, now=now)
    else:
        apply_status.apply_gateway_status(session, payout, reported, now=now)


def enqueue_polling(session: Session, *, reference: str, now: datetime) -> None:
    """Have a worker poll the gateway for a transfer."""
    outbox.enqueue(
        session, queue=queues.WEBHOOKS, topic=POLL_TOPIC, payload={"reference": reference}, due_at=now
    )
