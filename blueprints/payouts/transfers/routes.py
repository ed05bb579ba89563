"""Routes of payouts in transit: dispatch, early withdrawals, exceptions, stalled payouts, polls and voids."""

from typing import Any
from uuid import UUID

from blueprints.http import (
    FINANCE,
    FINANCE_AAL2,
    VENDOR_OR_FINANCE_AAL2,
    Context,
    ContractBlueprint,
    Idempotency,
    SharedLimit,
)
from blueprints.payouts.transfers.schemas import (
    DispatchedPayouts,
    DispatchPayouts,
    OfficerNote,
    PolledPayout,
    ResolvedTransferException,
    StalledPayoutQuery,
    StalledPayoutRow,
    TransferExceptionQuery,
    TransferExceptionRow,
    VoidedPayout,
)
from marketplace.kernel.errors import ConflictOfInterestError, NotFoundError, ValidationError
from marketplace.kernel.paging import TablePage
from marketplace.kernel.states import IllegalTransitionError
from marketplace.ledger.operations import InsufficientFundsError
from marketplace.payouts import accounting, models, withdrawals
from marketplace.payouts.batches.decisions import EmptyBatchError
from marketplace.payouts.transfers import admin_queries, dispatch, exceptions, polling, void
from marketplace.platform.features import FeatureUnavailableError
from marketplace.platform.halts import PayoutsHaltedError

area = ContractBlueprint("payout-dispatch", "/api/payouts", "Dispatch and follow-up of payouts")


@area.post(
    "/dispatch", auth=VENDOR_OR_FINANCE_AAL2, limit="5/minute", body=DispatchPayouts, reply=DispatchedPayouts,
    status=202, idempotent=Idempotency.REQUIRED,
    raises=(
        NotFoundError,
        dispatch.ChangedSinceApprovalError, ConflictOfInterestError, EmptyBatchError,
        withdrawals.EscrowLockedError, FeatureUnavailableError, IllegalTransitionError,
        withdrawals.InsufficientBalanceError, InsufficientFundsError, dispatch.PayeesOnHoldError,
        withdrawals.PayoutBelowMinimumError, PayoutsHaltedError, withdrawals.PayoutsOnHoldError,
        withdrawals.PendingPayoutExistsError,
    ),
)  # fmt: skip
def dispatch_payouts(ctx: Context, body: dict[str, Any]) -> dispatch.DispatchedPayouts:
    """Dispatch an approved batch as an officer, or request an early withdrawal as a vendor."""
    if ctx.user.is_staff:
        if "batch_id" not in body:
            raise ValidationError.of("batchId", "Required for officers.")
        return dispatch.dispatch_batch(ctx.session, batch_id=body["batch_id"], act=ctx.act)
    if "amount_minor" not in body:
        raise ValidationError.of("amountMinor", "Required for vendors.")
    payout = withdrawals.request_payout(
        ctx.session, caller=ctx.user, amount_minor=body["amount_minor"], now=ctx.now
    )
    return dispatch.DispatchedPayouts(1, payout.amount_minor, payout.status, payout_id=payout.id)


@area.get(
    "/exceptions",
    auth=FINANCE,
    limit=SharedLimit.CALLER_TIER,
    query=TransferExceptionQuery,
    reply=TransferExceptionRow(many=True),
)
def list_transfer_exceptions(ctx: Context, query: dict[str, Any]) -> TablePage:
    """List failed, reversed and unrecognized transfers."""
    return admin_queries.list_exceptions(
        ctx.session, status=query["status"], outcome=query["outcome"], page=ctx.table
    )


@area.post(
    "/exceptions/<uuid:exception_id>/resolve", auth=FINANCE, limit="30/minute", body=OfficerNote,
    reply=ResolvedTransferException, idempotent=Idempotency.OPTIONAL,
    raises=(ConflictOfInterestError, exceptions.PayoutExceptionAlreadyResolvedError),
)  # fmt: skip
def resolve_transfer_exception(
    ctx: Context, exception_id: UUID, body: dict[str, Any]
) -> models.PayoutException:
    """Resolve a transfer exception with a note. No money moves."""
    return exceptions.resolve_exception(
        ctx.session,
        exception_id=exception_id,
        note=body["note"],
        act=ctx.act,
    )


@area.get(
    "/stalled",
    auth=FINANCE,
    limit=SharedLimit.CALLER_TIER,
    query=StalledPayoutQuery,
    reply=StalledPayoutRow(many=True),
)
def list_stalled_payouts(ctx: Context, query: dict[str, Any]) -> TablePage:
    """List payouts that have been in transit for more than 48 hours."""
    return admin_queries.list_stalled_payouts(ctx.session, page=ctx.table, now=ctx.now)


@area.post(
    "/<uuid:payout_id>/ask", auth=FINANCE, limit="30/minute", reply=PolledPayout, status=202,
    idempotent=Idempotency.OPTIONAL,
    raises=(polling.PayoutNotSentError,),
)  # fmt: skip
def poll_payout(ctx: Context, payout_id: UUID) -> accounting.Payout:
    """Restart the status polls of a payout at the gateway."""
    return polling.restart_polling(ctx.session, payout_id=payout_id, now=ctx.now)


@area.post(
    "/<uuid:payout_id>/give-up", auth=FINANCE_AAL2, limit="10/minute", body=OfficerNote, reply=VoidedPayout,
    idempotent=Idempotency.OPTIONAL,
    raises=(
        ConflictOfInterestError, IllegalTransitionError, void.PayoutAlreadyFinalError,
        void.PayoutMayBeInFlightError,
    ),
)  # fmt: skip
def void_payout(ctx: Context, payout_id: UUID, body: dict[str, Any]) -> accounting.Payout:
    """Void a payout that was not sent, and return the amount to the payee's balance.

    A payout that is still unknown to the gateway after all status polls can be voided too.
    """
    return void.void_payout(
        ctx.session,
        payout_id=payout_id,
        note=body["note"],
        act=ctx.act,
    )
