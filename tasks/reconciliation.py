"""Tasks of reconciliation: runs that officers start, and charges that their events never told of."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy.orm import Session

from marketplace.infra.outbox import Handler
from marketplace.kernel.errors import ProviderUnavailableError
from marketplace.providers.gateway.payments import Charge
from marketplace.reconciliation import resolution, run
from marketplace.reconciliation.figures import Outcome
from marketplace.reconciliation.run import ReconciliationRunningError, ReconciliationStuckError
from marketplace.services import Services
from tasks.phased_handler import Phased


def reconcile(services: Services, now: datetime) -> Outcome | str:
    """Start a reconciliation and perform it, unless one is running.

    :param now: its moment
    :return: what came of it, or that there was one running
    :raises ReconciliationStuckError: one has been running for an hour: nothing is compared any more
    :raises ProviderUnavailableError: no usable answer of the gateway; the run is kept as failed
    """
    try:
        run_id = services.database.in_transaction(run.start, started_by=run.SCHEDULE, now=now)
    except ReconciliationStuckError:
        raise
    except ReconciliationRunningError:
        return "one is running already"
    outcome = perform(services, run_id, now=now)
    if outcome is not None and outcome.status == run.FAILED:
        raise ProviderUnavailableError("The payment gateway can't be reconciled with.")
    return outcome or "done already"


def perform(services: Services, run_id: UUID, *, now: datetime) -> Outcome | None:
    """Perform a reconciliation that was started.

    :return: what came of it; none if it is over already
    """
    return run.perform(
        services.database, services.gateway_records, run_id=run_id, now=now, clock=services.clock
    )


@dataclass(frozen=True)
class _Asked:
    """What the gateway told of a charge."""

    charge: Charge | None
    fee_bearer: str


def _read_run(_session: Session, payload: dict[str, Any]) -> UUID:
    return UUID(payload["runId"])


def _perform(services: Services, run_id: UUID) -> None:
    perform(services, run_id, now=services.clock())


def _nothing_left(_session: Session, _run_id: UUID, _done: None, _now: datetime) -> None:
    """Nothing is left: the run has committed what it did."""


def _read_reference(_session: Session, payload: dict[str, Any]) -> str:
    reference: str = payload["reference"]
    return reference


def _ask(services: Services, reference: str) -> _Asked:
    charge = resolution.ask(services.gateway, reference)
    return _Asked(charge, services.settings.gateway_fee_bearer)


def _apply(session: Session, reference: str, asked: _Asked, now: datetime) -> None:
    resolution.apply(session, reference=reference, charge=asked.charge, fee_bearer=asked.fee_bearer, now=now)


HANDLERS: Mapping[str, Handler | Phased[Any, Any]] = {
    run.RUN_TOPIC: Phased(read=_read_run, ask=_perform, settle=_nothing_left),
    resolution.APPLY_TOPIC: Phased(read=_read_reference, ask=_ask, settle=_apply),
}
