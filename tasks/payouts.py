"""Tasks of payouts: staging, submission to the gateway, status polls, and alerts about stalled payouts."""

from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any
from uuid import UUID

from sqlalchemy.orm import Session

from marketplace.infra.outbox import LastPhase
from marketplace.kernel import queues
from marketplace.payments.intents import expiry
from marketplace.payouts.batches import staging
from marketplace.payouts.transfers import apply_status, polling, stalled, submit, void
from marketplace.services import Services
from tasks.registry import QueueSweeper, periodic, phased_handler


@dataclass(frozen=True)
class StalledCounts:
    """Counts of stalled payments and of newly flagged payouts."""

    payments: int
    payouts_flagged: int


@phased_handler(submit.SEND_TOPIC)
def submit_payouts(services: Services, payload: dict[str, Any], now: datetime) -> LastPhase:
    """Submit the next payouts of a batch to the gateway."""
    leased = services.database.in_transaction(_lease_payouts, batch_id=UUID(payload["batchId"]), now=now)
    answers = submit.submit_payouts(services.transfers, leased.claimed)
    return partial(submit.record_submission, found=leased, answers=answers)


def _lease_payouts(session: Session, *, batch_id: UUID, now: datetime) -> submit.LeasedPayouts:
    void.void_payouts_to_replaced_accounts(session, batch_id=batch_id, now=now)
    return submit.lease_payouts(session, batch_id=batch_id, now=now)


@phased_handler(apply_status.POLL_TOPIC)
def poll_transfer(services: Services, payload: dict[str, Any], _now: datetime) -> LastPhase:
    """Fetch a transfer's status from the gateway."""
    payout = services.database.in_transaction(polling.find_transfer, reference=payload["reference"])
    reported = services.transfers.fetch_transfer(payout.reference)
    return partial(polling.record_status, polled=payout, reported=reported)


@periodic(
    "requery-transfers",
    queue=queues.ESCROW_RECONCILIATION,
    schedule="* * * * *",
    purpose="Poll the gateway for payouts without a final status, and resume dispatched batches",
)
def poll_transfers(services: Services, _sweeper: QueueSweeper, now: datetime) -> Any:
    """Poll the gateway for transfers without a final status, and resume dispatched batches."""
    return polling.poll_transfers(services.database, services.transfers, now=now)


@periodic(
    "stage-payouts",
    queue=queues.ESCROW_RECONCILIATION,
    schedule="0 6 * * *",
    purpose="Stage payable balances and requested payouts into a batch for approval by two officers",
)
def stage_payouts(services: Services, _sweeper: QueueSweeper, now: datetime) -> int:
    """Stage due payouts and withdrawal requests into a batch."""
    return services.database.in_transaction(staging.stage_on_schedule, now=now).payments


@periodic(
    "flag-stalled-intents",
    queue=queues.ESCROW_RECONCILIATION,
    schedule="*/5 * * * *",
    purpose="Raise alerts about payments overdue for two hours, and about payouts in transit for 48 hours",
)
def flag_stalled_intents(services: Services, _sweeper: QueueSweeper, now: datetime) -> StalledCounts:
    """Raise alerts about stalled payments and payouts."""
    return StalledCounts(
        payments=services.database.in_transaction(expiry.flag_stalled_payments, now=now),
        payouts_flagged=services.database.in_transaction(stalled.flag_stalled_payouts, now=now),
    )
