"""Tasks of reconciliation: runs that officers start, and charges that their events never told of."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy.orm import Session

from marketplace.audit.operations import Act
from marketplace.kernel import queues
from marketplace.kernel.errors import ProviderUnavailableError
from marketplace.payments.intents import lifecycle
from marketplace.providers.gateway.payloads import Charge
from marketplace.reconciliation import ledger_check, resolution, run
from marketplace.reconciliation.run import (
    ReconciliationOutcome,
    ReconciliationRunningError,
    ReconciliationStuckError,
)
from marketplace.services import Services
from tasks.phased_handler import PhasedHandler
from tasks.registry import QueueSweeper, periodic, phased_handler


def reconcile(services: Services, now: datetime) -> ReconciliationOutcome | str:
    """Start a reconciliation and perform it, unless one is running.

    :param now: its moment
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


def execute_run(services: Services, run_id: UUID, *, now: datetime) -> ReconciliationOutcome | None:
    """Perform a reconciliation that was started.

    :return: what came of it; none if it is over already
    """
    return run.perform_reconciliation(
        services.database, services.gateway_records, run_id=run_id, now=now, clock=services.clock
    )


@dataclass(frozen=True)
class _FetchedCharge:
    """What the gateway told of a charge."""

    charge: Charge | None
    fee_bearer: str


@phased_handler(run.RUN_TOPIC)
class _ExecuteRun(PhasedHandler[UUID, None]):
    """Perform a reconciliation that an officer started. The run commits its own steps."""

    def read(self, _session: Session, payload: dict[str, Any], _now: datetime) -> UUID:
        return UUID(payload["runId"])

    def call_provider(self, services: Services, run_id: UUID) -> None:
        execute_run(services, run_id, now=services.clock())

    def apply(self, session: Session, run_id: UUID, response: None, now: datetime) -> None:
        """Do nothing: the run has committed its steps."""


@phased_handler(resolution.APPLY_TOPIC)
class _ApplyCharge(PhasedHandler[str, _FetchedCharge]):
    """Apply a charge whose event was never received."""

    def read(self, _session: Session, payload: dict[str, Any], _now: datetime) -> str:
        reference: str = payload["reference"]
        return reference

    def call_provider(self, services: Services, reference: str) -> _FetchedCharge:
        charge = services.gateway.fetch_charge(reference)
        return _FetchedCharge(charge, services.settings.gateway_fee_bearer)

    def apply(self, session: Session, reference: str, fetched: _FetchedCharge, now: datetime) -> None:
        lifecycle.apply_reported_charge(
            session, reference=reference, charge=fetched.charge, fee_bearer=fetched.fee_bearer, now=now
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
    """Reconcile the escrow accounts with the gateway."""
    return reconcile(services, now)
