"""Tasks of reconciliation: runs that officers start, and charges that their events never told of."""

from collections.abc import Callable
from datetime import datetime
from functools import partial
from typing import Any
from uuid import UUID

from marketplace.audit.operations import Act
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
    """Perform a reconciliation that was started.

    :return: what came of it; none if it is over already
    """
    return run.perform_reconciliation(
        services.database, services.gateway_records, run_id=run_id, now=now, clock=services.clock
    )


@phased_handler(run.RUN_TOPIC)
def execute_started_run(services: Services, payload: dict[str, Any], now: datetime) -> None:
    """Perform a reconciliation that an officer started. The run commits its own steps."""
    execute_run(services, UUID(payload["runId"]), now=now)


@phased_handler(resolution.APPLY_TOPIC)
def apply_missed_charge(services: Services, payload: dict[str, Any], _now: datetime) -> Callable[..., object]:
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
    purpose="Checks that the books are whole",
)
def check_invariants(services: Services, _sweeper: QueueSweeper, now: datetime) -> int:
    """Check the ledger's invariants.

    :return: how many are violated
    """
    return len(ledger_check.check_ledger(services.database, now=now))


@periodic(
    "reconcile-escrow",
    queue=queues.ESCROW_RECONCILIATION,
    schedule="22 * * * *",
    purpose="Compares what the gateway holds with the books, and books its settlements",
)
def reconcile_escrow(
    services: Services, _sweeper: QueueSweeper, now: datetime
) -> ReconciliationOutcome | str:
    """Reconcile the escrow accounts with the gateway, unless a reconciliation is running.

    :return: what came of it, or that there was one running
    :raises ReconciliationStuckError: one has been running for an hour: nothing is compared any more
    :raises ProviderUnavailableError: no usable answer of the gateway; the run is kept as failed
    """
    try:
        run_id = services.database.in_transaction(
            run.start_reconciliation, started_by=run.SCHEDULE, act=Act("schedule", now)
        )
    except ReconciliationStuckError:
        raise
    except ReconciliationRunningError:
        return "one is running already"
    outcome = execute_run(services, run_id, now=now)
    if outcome is not None and outcome.status == run.FAILED:
        raise ProviderUnavailableError("The payment gateway can't be reconciled with.")
    return outcome or "done already"
