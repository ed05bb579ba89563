"""Finance resolving, in tests, what a reconciliation found."""

from datetime import UTC, datetime
from typing import Any

from marketplace.audit.operations import AuditActor
from marketplace.identity.queries import Caller
from marketplace.payouts import reconciliation_desk
from marketplace.payouts.reconciliation_desk import Decision
from tests.support.reconciling import Service

NOTE = "Seen in the gateway's dashboard."


def resolve(service: Service, resolution: str, *, officer: Caller | None = None, **values: Any) -> Any:
    """Resolve the first that the latest run found."""
    given = {"run_id": service.run_id, "exception_id": service.found()[0]["id"]} | values
    who = officer or service.officer
    with service.database.transaction() as session:
        return reconciliation_desk.resolve(
            session,
            **given,
            decision=Decision(resolution, NOTE),
            officer=who,
            actor=AuditActor("finance", id=who.id),
            now=datetime.now(UTC),
        )
