"""Tasks of reconciliation: runs that officers start, and charges that their events never told of."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy.orm import Session

from marketplace.audit.operations import Act
from marketplace.infra.outbox import Handler
from marketplace.kernel.errors import ProviderUnavailableError
from marketplace.providers.gateway.payments import Charge
from marketplace.reconciliation import resolution, run
from marketplace.reconciliation.figures import ReconciliationOutcome
from marketplace.reconciliation.run import ReconciliationRunningError, ReconciliationStuckError
from marketplace.services import Services
from tasks.phased_handler import PhasedHandler


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


def _load_run_id(_session: Session, payload: dict[str, Any]) -> UUID:
    return UUID(payload["runId"])


def _execute_run(services: Services, run_id: UUID) -> None:
    execute_run(services, run_id, now=services.clock())


def _complete(_session: Session, _run_id: UUID, _done: None, _now: datetime) -> None:
    """Nothing is left: the run has committed what it did."""


def _load_reference(_session: Session, payload: dict[str, Any]) -> str:
    reference: str = payload["reference"]
    return reference


def _fetch_charge(services: Services, reference: str) -> _FetchedCharge:
    charge = resolution.fetch_charge(services.gateway, reference)
    return _FetchedCharge(charge, services.settings.gateway_fee_bearer)


def _apply_charge(session: Session, reference: str, asked: _FetchedCharge, now: datetime) -> None:
    resolution.apply_charge(
        session, reference=reference, charge=asked.charge, fee_bearer=asked.fee_bearer, now=now
    )


HANDLERS: Mapping[str, Handler | PhasedHandler[Any, Any]] = {
    run.RUN_TOPIC: PhasedHandler(read=_load_run_id, ask=_execute_run, settle=_complete),
    resolution.APPLY_TOPIC: PhasedHandler(read=_load_reference, ask=_fetch_charge, settle=_apply_charge),
}
