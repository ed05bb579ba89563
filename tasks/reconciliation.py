"""Tasks of reconciliation: runs, missed charges and the check of ledger invariants."""

from datetime import datetime
from functools import partial
from typing import Any
from uuid import UUID

from marketplace.audit.operations import Act
from marketplace.infra.outbox import LastPhase
from marketplace.kernel import queues
from marketplace.kernel.errors import ProviderUnavailableError
from marketplace.payments.intents import lifecycle
from marketplace.reconciliation import ledger_check, resolution, run
from marketplace.reconciliation.run import (
    ReconciliationOutcome,
    ReconciliationRunningError,
    ReconciliationStuckError,
)
from marketplace.services import Services
from tasks.registry import QueueSweeper, periodic, phased_handler


def execute_run(services: Services, run_id: UUID, *, now: datetime) -> ReconciliationOutcome | None:
    """Perform a started reconciliation.

    :return: the outcome; None if the run is already finished
    """
    return run.perform_reconciliation(
        services.database, services.gateway_records, run_id=run_id, now=now, clock=services.clock
    )


@phased_handler(run.RUN_TOPIC)
def execute_started_run(services: Services, payload: dict[str, Any], now: datetime) -> None:
    """Perform a reconciliation started by an officer. The run commits in steps."""
    execute_run(services, UUID(payload["runId"]), now=now)


@phased_handler(resolution.APPLY_TOPIC)
def apply_missed_charge(services: Services, payload: dict[str, Any], _now: datetime) -> LastPhase:
    """Apply a charge whose event was never received."""
    return partial(
        lifecycle.apply_reported_charge,
        reference=payload["reference"],
        charge=services.gateway.fetch_charge(payload["reference"]),
        fee_bearer=services.settings.gateway_fee_bearer,
    )


@periodic(
    "check-invariants",
    queue=queues.ESCROW_RECONCILIATION,
    schedule="7 * * * *",
    purpose="Check the ledger invariants",
)
def check_invariants(services: Services, _sweeper: QueueSweeper, now: datetime) -> int:
    """Check the ledger invariants.

    :return: the number of broken invariants
    """
    return len(ledger_check.check_ledger(services.database, now=now))


@periodic(
    "reconcile-escrow",
    queue=queues.ESCROW_RECONCILIATION,
    schedule="22 * * * *",
    purpose="Compare the gateway's balance with the ledger, and post settlements",
)
def reconcile_escrow(
    services: Services, _sweeper: QueueSweeper, now: datetime
) -> ReconciliationOutcome | str:
    """Reconcile the ledger with the gateway, unless a reconciliation is running.

    :return: the outcome, or a note about the running reconciliation
    :raises ReconciliationStuckError: a reconciliation has been running for more than an hour
    :raises ProviderUnavailableError: the gateway gave no usable response; the run is recorded as failed
    """
    try:
        run_id = services.database.in_transaction(
            run.start_reconciliation, started_by=run.SCHEDULE, act=Act("schedule", now)
        )
    except ReconciliationStuckError:
        raise
    except ReconciliationRunningError:
        return "another reconciliation is running"
    outcome = execute_run(services, run_id, now=now)
    if outcome is not None and outcome.status == run.FAILED:
        raise ProviderUnavailableError(
            "The reconciliation failed, because the payment gateway gave no usable response."
        )
    return outcome or "already finished"
