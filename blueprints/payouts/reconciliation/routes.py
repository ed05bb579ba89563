"""Routes of reconciliation, for finance: start and list runs, list and resolve differences."""

from typing import Any
from uuid import UUID

from blueprints.http import FINANCE, FINANCE_AAL2, Context, ContractBlueprint, Idempotency, SharedLimit
from blueprints.payouts.reconciliation.schemas import (
    FindingQuery,
    FindingView,
    ReconciliationDetail,
    ReconciliationQuery,
    ReconciliationView,
    ResolvedFinding,
    ResolveFinding,
    StartedReconciliation,
    StartReconciliation,
)
from marketplace.kernel.errors import ConflictOfInterestError, SecondApproverRequiredError
from marketplace.kernel.paging import TablePage
from marketplace.kernel.states import IllegalTransitionError
from marketplace.ledger.operations import AlreadyPostedError
from marketplace.reconciliation import queries, resolution, run

area = ContractBlueprint("reconciliation", "/api/payouts", "Reconciliation of the ledger with the gateway")


@area.post(
    "/reconcile", auth=FINANCE_AAL2, limit="5/minute", body=StartReconciliation, reply=StartedReconciliation,
    status=202,
    raises=(run.ReconciliationRunningError, run.ReconciliationStuckError),
)  # fmt: skip
def start_reconciliation(ctx: Context, body: dict[str, Any]) -> dict[str, Any]:
    """Start a reconciliation of the ledger with the gateway, in the background."""
    run_id = run.start_reconciliation(
        ctx.session,
        started_by=run.OFFICER,
        act=ctx.act,
        since=body.get("from_"),
        until=body.get("to"),
    )
    return {"run_id": run_id, "status": run.RUNNING}


@area.get(
    "/reconciliations", auth=FINANCE, limit=SharedLimit.CALLER_TIER, query=ReconciliationQuery,
    reply=ReconciliationView(many=True),
)  # fmt: skip
def list_reconciliations(ctx: Context, query: dict[str, Any]) -> TablePage:
    """List reconciliation runs, the latest first."""
    return queries.list_runs(ctx.session, status=query["status"], page=ctx.table)


@area.get(
    "/reconciliations/<uuid:run_id>", auth=FINANCE, limit=SharedLimit.CALLER_TIER, reply=ReconciliationDetail
)
def get_reconciliation(ctx: Context, run_id: UUID) -> queries.RunDetail:
    """Show a reconciliation run with totals, differences and suggested resolutions."""
    return queries.show_run(ctx.session, run_id=run_id)


@area.get(
    "/reconciliations/<uuid:run_id>/exceptions", auth=FINANCE, limit=SharedLimit.CALLER_TIER, query=FindingQuery,
    reply=FindingView(many=True),
)  # fmt: skip
def list_reconciliation_differences(ctx: Context, run_id: UUID, query: dict[str, Any]) -> TablePage:
    """List the differences that a reconciliation run found."""
    return queries.list_exceptions(
        ctx.session,
        run_id=run_id,
        page=ctx.table,
        kind=query["kind"],
        problem=query["problem"],
        is_open=query["open"],
    )


@area.post(
    "/reconciliations/<uuid:run_id>/exceptions/<uuid:exception_id>/resolve", auth=FINANCE_AAL2,
    limit="10/minute", body=ResolveFinding, reply=ResolvedFinding, idempotent=Idempotency.OPTIONAL,
    raises=(
        AlreadyPostedError, ConflictOfInterestError, resolution.DifferenceAlreadyResolvedError,
        IllegalTransitionError, resolution.InsufficientOwnFundsError, resolution.ResolutionNotAllowedError,
        SecondApproverRequiredError, resolution.SupersededRunError,
    ),
)  # fmt: skip
def resolve_reconciliation_difference(
    ctx: Context, run_id: UUID, exception_id: UUID, body: dict[str, Any]
) -> resolution.Resolution:
    """Resolve a difference of the latest reconciliation run: poll the gateway, or accept the difference."""
    return resolution.resolve_difference(
        ctx.session,
        run_id=run_id,
        exception_id=exception_id,
        resolution=body["resolution"],
        note=body["note"],
        act=ctx.act,
    )
