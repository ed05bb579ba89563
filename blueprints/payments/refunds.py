"""Routes for finance officers: refunds, recovery of failed refunds, and quarantined charges."""

from functools import partial
from typing import Any
from uuid import UUID

from blueprints.http import (
    FINANCE,
    FINANCE_AAL2,
    Context,
    ContractBlueprint,
    FinalPhase,
    Idempotency,
    SharedLimit,
)
from blueprints.payments.refund_schemas import (
    ProcessedRefund,
    ProcessRefund,
    QuarantinedChargeQuery,
    QuarantinedChargeRow,
    RecoveredRefund,
    RefundQuery,
    RefundRow,
    ResolvedQuarantinedCharge,
    ResolveQuarantinedCharge,
)
from marketplace.kernel.errors import ConflictOfInterestError
from marketplace.kernel.paging import TablePage
from marketplace.kernel.states import IllegalTransitionError
from marketplace.payments import admin_queries, states
from marketplace.payments.charges import quarantine
from marketplace.payments.guards import ChargedBackError
from marketplace.payments.refunds import admin_refund, gateway_reports, recovery
from marketplace.payments.refunds.admin_refund import (
    AlreadyReleasedError,
    EscrowDeficitError,
    EscrowNotReleasedError,
    ItemsNotRefundableError,
    RefundItem,
    RefundRequest,
    claw_back,
    process_refund,
)

area = ContractBlueprint("refunds", "/api/payments", "Refunds and quarantined charges, for finance officers")


@area.post(
    "/order/<uuid:order_id>/process-refund", auth=FINANCE_AAL2, limit="10/minute", body=ProcessRefund,
    reply=ProcessedRefund, idempotent=Idempotency.OPTIONAL,
    raises=(
        AlreadyReleasedError, ChargedBackError, ConflictOfInterestError, EscrowDeficitError,
        EscrowNotReleasedError, IllegalTransitionError, ItemsNotRefundableError,
    ),
)  # fmt: skip
def refund_order(ctx: Context, order_id: UUID, body: dict[str, Any]) -> admin_refund.ProcessedRefund:
    """Refund an order in full or in part, from escrow or, after the release, by a clawback.

    A worker sends refunds to the gateway after the response.
    """
    refund_request = RefundRequest(
        destination=body["destination"],
        reason=body["reason"],
        amount_minor=body.get("amount_minor"),
        items=[RefundItem(**item) for item in body.get("items", ())],
    )
    execute = claw_back if body["clawback"] else process_refund
    return execute(ctx.session, order_id=order_id, act=ctx.act, refund_request=refund_request)


@area.get(
    "/refunds", auth=FINANCE, limit=SharedLimit.CALLER_TIER, query=RefundQuery, reply=RefundRow(many=True)
)
def list_refunds(ctx: Context, query: dict[str, Any]) -> TablePage:
    """List refunds with status and age."""
    return admin_queries.list_refunds(ctx.session, page=ctx.table, now=ctx.now, **query)


@area.post(
    "/refunds/<uuid:refund_id>/retry", auth=FINANCE_AAL2, limit="10/minute", reply=RecoveredRefund,
    idempotent=Idempotency.OPTIONAL, phased=True,
    raises=(
        ChargedBackError, ConflictOfInterestError, IllegalTransitionError, recovery.RefundStillInFlightError,
    ),
)  # fmt: skip
def retry_refund(ctx: Context, refund_id: UUID) -> FinalPhase:
    """Retry a failed refund through the gateway.

    The status is fetched from the gateway first. A refund that was sent after all is not sent again.
    """
    return _recover_refund(ctx, refund_id, states.RETRY)


@area.post(
    "/refunds/<uuid:refund_id>/credit", auth=FINANCE_AAL2, limit="10/minute", reply=RecoveredRefund,
    idempotent=Idempotency.OPTIONAL, phased=True,
    raises=(
        ChargedBackError, ConflictOfInterestError, recovery.GatewayStatusUnknownError, IllegalTransitionError,
        recovery.RefundStillInFlightError,
    ),
)  # fmt: skip
def credit_refund(ctx: Context, refund_id: UUID) -> FinalPhase:
    """Credit a failed gateway refund to the buyer's wallet.

    The status is fetched from the gateway first. A refund that was sent after all is not credited.
    """
    return _recover_refund(ctx, refund_id, states.CREDIT)


def _recover_refund(ctx: Context, refund_id: UUID, trigger: str) -> FinalPhase:
    with ctx.transaction() as session:
        failed_refund = recovery.find_failed_refund(
            session, refund_id=refund_id, trigger=trigger, officer_id=ctx.user.id
        )
    recover = recovery.retry_failed_refund if trigger == states.RETRY else recovery.credit_failed_refund
    attempts = gateway_reports.fetch_status(ctx.services.gateway, failed_refund)
    return FinalPhase(partial(recover, failed_refund=failed_refund, attempts=attempts, act=ctx.act))


@area.get(
    "/quarantine",
    auth=FINANCE,
    limit=SharedLimit.CALLER_TIER,
    query=QuarantinedChargeQuery,
    reply=QuarantinedChargeRow(many=True),
)
def list_quarantined_charges(ctx: Context, query: dict[str, Any]) -> TablePage:
    """List quarantined charges, open and resolved."""
    return admin_queries.list_quarantine(ctx.session, page=ctx.table, **query)


@area.post(
    "/quarantine/<uuid:charge_id>/resolve", auth=FINANCE_AAL2, limit="10/minute", body=ResolveQuarantinedCharge,
    reply=ResolvedQuarantinedCharge, idempotent=Idempotency.OPTIONAL,
    raises=(
        quarantine.ChargeAlreadyResolvedError, ChargedBackError, ConflictOfInterestError,
        IllegalTransitionError, quarantine.QuarantineActionNotAllowedError,
    ),
)  # fmt: skip
def resolve_quarantined_charge(
    ctx: Context, charge_id: UUID, body: dict[str, Any]
) -> quarantine.ResolvedCharge:
    """Resolve a quarantined charge: accept the money for its orders, refund it or credit the wallet."""
    return quarantine.resolve_quarantined_charge(
        ctx.session,
        quarantined_charge_id=charge_id,
        action=body["action"],
        note=body["note"],
        act=ctx.act,
    )
