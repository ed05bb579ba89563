"""Routes of payout batches: stage, list, review, approve, reject, exclude payments."""

from typing import Any
from uuid import UUID

from blueprints.http import FINANCE, FINANCE_AAL2, Context, ContractBlueprint, Idempotency, SharedLimit
from blueprints.payouts.batches.schemas import (
    ApproveBatch,
    BatchDetailQuery,
    BatchQuery,
    ExcludePayments,
    PayoutBatchDetail,
    PayoutBatchRow,
    PayoutBatchView,
    RejectBatch,
    StageBatch,
    StagedPayoutBatch,
)
from marketplace.kernel.errors import ConflictOfInterestError
from marketplace.kernel.paging import Page, TablePage
from marketplace.kernel.states import IllegalTransitionError
from marketplace.ledger.operations import InsufficientFundsError
from marketplace.payouts.batches import decisions, detail, queries, staging

area = ContractBlueprint("batches", "/api/payouts/batches", "Payout batches, for finance")


@area.get("", auth=FINANCE, limit="30/minute", query=BatchQuery, reply=PayoutBatchRow(many=True))
def list_payout_batches(ctx: Context, query: dict[str, Any]) -> TablePage:
    """List payout batches, the latest first; by default batches that are not yet disbursed."""
    return queries.list_batches(
        ctx.session, status=query["status"], starts=query["from_"], ends=query["to"], page=ctx.table
    )


@area.post(
    "", auth=FINANCE, limit=SharedLimit.CALLER_TIER, body=StageBatch, reply=StagedPayoutBatch, status=201,
    idempotent=Idempotency.OPTIONAL,
    raises=(ConflictOfInterestError, InsufficientFundsError, staging.NothingToStageError),
)  # fmt: skip
def stage_payout_batch(ctx: Context, body: dict[str, Any]) -> queries.StagedBatch:
    """Stage a payout batch of payable balances and requested payouts. Staging counts as the first approval."""
    return queries.show_staged_batch(
        ctx.session,
        result=staging.stage_manually(ctx.session, act=ctx.act, vendor_ids=body.get("vendor_ids")),
    )


@area.get(
    "/<uuid:batch_id>", auth=FINANCE, limit="30/minute", query=BatchDetailQuery, reply=PayoutBatchDetail
)
def get_payout_batch(ctx: Context, batch_id: UUID, query: dict[str, Any]) -> Page:
    """Show a payout batch with risk totals and a page of payments, the riskiest first."""
    return detail.show_batch_detail(
        ctx.session, batch_id=batch_id, risk=query["risk"], page=ctx.page, now=ctx.now
    )


@area.post(
    "/<uuid:batch_id>/approve", auth=FINANCE_AAL2, limit="5/minute", body=ApproveBatch, reply=PayoutBatchView,
    idempotent=Idempotency.OPTIONAL,
    raises=(
        decisions.BatchChangedError, ConflictOfInterestError, decisions.DuplicateApprovalError,
        decisions.EmptyBatchError, IllegalTransitionError,
    ),
)  # fmt: skip
def approve_payout_batch(ctx: Context, batch_id: UUID, body: dict[str, Any]) -> queries.BatchView:
    """Approve a payout batch. The second officer's approval makes the batch ready for dispatch."""
    decisions.approve_batch(
        ctx.session,
        batch_id=batch_id,
        act=ctx.act,
        comment=body.get("comment"),
        expected_fingerprint=body.get("content_hash"),
    )
    return queries.show_batch(ctx.session, batch_id=batch_id)


@area.post(
    "/<uuid:batch_id>/reject", auth=FINANCE_AAL2, limit="5/minute", body=RejectBatch, reply=PayoutBatchView,
    idempotent=Idempotency.OPTIONAL,
    raises=(ConflictOfInterestError, IllegalTransitionError),
)  # fmt: skip
def reject_payout_batch(ctx: Context, batch_id: UUID, body: dict[str, Any]) -> queries.BatchView:
    """Reject a payout batch, and return the amounts to the payees' balances."""
    decisions.reject_batch(ctx.session, batch_id=batch_id, act=ctx.act, reason=body["reason"])
    return queries.show_batch(ctx.session, batch_id=batch_id)


@area.post(
    "/<uuid:batch_id>/exclude", auth=FINANCE_AAL2, limit="10/minute", body=ExcludePayments, reply=PayoutBatchView,
    idempotent=Idempotency.OPTIONAL,
    raises=(ConflictOfInterestError, decisions.EmptyBatchError, IllegalTransitionError),
)  # fmt: skip
def exclude_payments_from_batch(ctx: Context, batch_id: UUID, body: dict[str, Any]) -> queries.BatchView:
    """Exclude payments from a payout batch. The rest needs two approvals again."""
    decisions.exclude_payments(
        ctx.session, batch_id=batch_id, payout_ids=body["intent_ids"], act=ctx.act, reason=body["reason"]
    )
    return queries.show_batch(ctx.session, batch_id=batch_id)
