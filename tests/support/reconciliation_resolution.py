"""Resolution of reconciliation differences in tests."""

from datetime import UTC, datetime
from typing import Any

from sqlalchemy.orm import Session

from blueprints.payouts.reconciliation.schemas import ResolvedFinding
from marketplace.audit.operations import Act
from marketplace.identity.queries import Caller
from marketplace.reconciliation import resolution as reconciliation_resolution
from tests.support.reconciliation import ReconciledService
from tests.support.rendered import render

NOTE = "Seen in the gateway's dashboard."


def resolve(
    service: ReconciledService, resolution: str, *, officer: Caller | None = None, **values: Any
) -> Any:
    """Resolve the first difference of the latest run."""
    with service.database.transaction() as session:
        return resolve_in(session, service, resolution, officer=officer, **values)


def resolve_in(
    session: Session,
    service: ReconciledService,
    resolution: str,
    *,
    officer: Caller | None = None,
    **values: Any,
) -> Any:
    """Resolve a difference in the caller's transaction."""
    given = {"run_id": service.run_id, "exception_id": service.differences()[0]["id"]} | values
    who = officer or service.officer
    resolved = reconciliation_resolution.resolve_difference(
        session,
        **given,
        resolution=resolution,
        note=NOTE,
        act=Act("finance", datetime.now(UTC), user_id=who.id),
    )
    return render(ResolvedFinding, resolved)
