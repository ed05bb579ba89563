"""Routes of disputes: parties open, respond and withdraw; staff find and rule."""

from typing import Any
from uuid import UUID

from sqlalchemy.orm import Session

from blueprints.disputes.schemas import (
    AppealDecisionView,
    AppealRuling,
    DecideRulingAppeal,
    DisputeDetail,
    DisputeQuery,
    DisputeView,
    MakeOffer,
    MarkReturnSent,
    OpenDispute,
    RespondToDispute,
    RuleOnDispute,
    RulingQuery,
    RulingView,
    WriteFinding,
)
from blueprints.http import (
    AUTHENTICATED_ANY_STATUS,
    BUYER_OR_VENDOR,
    DISPUTE_STAFF,
    DISPUTE_STAFF_AAL2,
    Context,
    ContractBlueprint,
    FinalPhase,
    Idempotency,
    ProcessGroup,
    SharedLimit,
    WithStatus,
)
from marketplace.disputes import appeals, cases, offers, queries, returns, rulings, second_officer
from marketplace.disputes.evidence.files import sealed_at
from marketplace.kernel.errors import (
    ConflictOfInterestError,
    NotFoundError,
    SecondApproverRequiredError,
)
from marketplace.kernel.paging import Page
from marketplace.kernel.states import IllegalTransitionError
from marketplace.payments.guards import ChargedBackError
from marketplace.payments.refunds.admin_refund import (
    EscrowDeficitError,
    ItemsNotRefundableError,
    RefundItem,
)

_OFFER_ERRORS = (cases.NotYourTurnError, IllegalTransitionError, offers.OfferNotOpenError)

area = ContractBlueprint("disputes", "/api/disputes", "Disputes between buyers and vendors")


@area.post(
    "",
    auth=BUYER_OR_VENDOR,
    limit="5/day",
    body=OpenDispute,
    reply=DisputeDetail,
    status=201,
    raises=(NotFoundError, cases.AlreadyDisputedError, IllegalTransitionError),
)
def open_dispute(ctx: Context, body: dict[str, Any]) -> dict[str, Any]:
    """Open a dispute about your paid order. The escrow is frozen until staff rule, or until you withdraw."""
    dispute = cases.open_dispute(
        ctx.session,
        order_id=body["order_id"],
        caller=ctx.user,
        complaint=cases.Complaint(
            reason=body["reason"],
            description=body["description"],
            desired_outcome=body["desired_outcome"],
            claimed_minor=body.get("claimed_minor"),
            item_ids=body["item_ids"],
        ),
        now=ctx.now,
    )
    return _detail(ctx, dispute.id)


@area.get(
    "",
    auth=AUTHENTICATED_ANY_STATUS,
    limit=SharedLimit.CALLER_TIER,
    query=DisputeQuery,
    reply=DisputeView(many=True),
)
def list_disputes(ctx: Context, query: dict[str, Any]) -> Page:
    """List your disputes from the newest. Staff with `canManageDisputes` list all disputes."""
    listed = queries.list_disputes(ctx.session, caller=ctx.user, status=query.get("status"), page=ctx.page)
    return Page([_view(row) for row in listed.items], listed.limit, listed.next_position)


@area.get(
    "/<uuid:dispute_id>", auth=AUTHENTICATED_ANY_STATUS, limit=SharedLimit.CALLER_TIER, reply=DisputeDetail
)
def get_dispute(ctx: Context, dispute_id: UUID) -> dict[str, Any]:
    """Get a dispute with its timeline, as a party or as staff with `canManageDisputes`."""
    return _detail(ctx, dispute_id)


@area.post(
    "/<uuid:dispute_id>/response",
    auth=AUTHENTICATED_ANY_STATUS,
    limit="10/minute",
    body=RespondToDispute,
    reply=DisputeDetail,
    raises=(cases.NotYourTurnError, IllegalTransitionError),
)
def respond_to_dispute(ctx: Context, dispute_id: UUID, body: dict[str, Any]) -> dict[str, Any]:
    """Respond to a dispute that the other side opened. A later response replaces an earlier one until the ruling."""
    cases.respond(ctx.session, dispute_id=dispute_id, caller=ctx.user, response=body["response"], now=ctx.now)
    return _detail(ctx, dispute_id)


@area.post(
    "/<uuid:dispute_id>/withdraw",
    auth=AUTHENTICATED_ANY_STATUS,
    limit="10/minute",
    reply=DisputeDetail,
    raises=(cases.NotYourTurnError, ChargedBackError, IllegalTransitionError),
)
def withdraw_dispute(ctx: Context, dispute_id: UUID) -> dict[str, Any]:
    """Withdraw your dispute. The order continues where it was."""
    cases.withdraw(ctx.session, dispute_id=dispute_id, caller=ctx.user, now=ctx.now)
    return _detail(ctx, dispute_id)


@area.post(
    "/<uuid:dispute_id>/offers",
    auth=AUTHENTICATED_ANY_STATUS,
    limit="10/minute",
    body=MakeOffer,
    reply=DisputeDetail,
    status=201,
    raises=(IllegalTransitionError,),
)
def make_offer(ctx: Context, dispute_id: UUID, body: dict[str, Any]) -> dict[str, Any]:
    """Offer a settlement: the amount that is refunded, while the rest is released. It replaces an earlier offer."""
    offers.make_offer(
        ctx.session,
        dispute_id=dispute_id,
        caller=ctx.user,
        buyer_minor=body["buyer_amount_minor"],
        note=body.get("note"),
        now=ctx.now,
    )
    return _detail(ctx, dispute_id)


@area.post(
    "/<uuid:dispute_id>/offers/<uuid:offer_id>/accept",
    auth=AUTHENTICATED_ANY_STATUS,
    limit="10/minute",
    reply=DisputeDetail,
    idempotent=Idempotency.OPTIONAL,
    raises=(*_OFFER_ERRORS, ChargedBackError),
)
def accept_offer(ctx: Context, dispute_id: UUID, offer_id: UUID) -> dict[str, Any]:
    """Accept the other side's offer. The money moves at once, and the dispute is resolved."""
    offers.accept_offer(ctx.session, dispute_id=dispute_id, offer_id=offer_id, caller=ctx.user, now=ctx.now)
    return _detail(ctx, dispute_id)


@area.post(
    "/<uuid:dispute_id>/offers/<uuid:offer_id>/decline",
    auth=AUTHENTICATED_ANY_STATUS,
    limit="10/minute",
    reply=DisputeDetail,
    raises=_OFFER_ERRORS,
)
def decline_offer(ctx: Context, dispute_id: UUID, offer_id: UUID) -> dict[str, Any]:
    """Decline the other side's offer. The dispute goes on."""
    offers.decline_offer(ctx.session, dispute_id=dispute_id, offer_id=offer_id, caller=ctx.user, now=ctx.now)
    return _detail(ctx, dispute_id)


@area.post(
    "/<uuid:dispute_id>/findings",
    auth=DISPUTE_STAFF,
    limit="30/minute",
    body=WriteFinding,
    reply=DisputeDetail,
    raises=(ConflictOfInterestError, IllegalTransitionError),
)
def write_finding(ctx: Context, dispute_id: UUID, body: dict[str, Any]) -> dict[str, Any]:
    """Write the first finding, which both sides read. The case is then under review."""
    cases.write_finding(ctx.session, dispute_id=dispute_id, finding=body["finding"], act=ctx.act)
    return _detail(ctx, dispute_id)


@area.post(
    "/<uuid:dispute_id>/resolve",
    auth=DISPUTE_STAFF_AAL2,
    limit="10/minute",
    group=ProcessGroup.API,
    query=RulingQuery,
    body=RuleOnDispute,
    reply=RulingView,
    idempotent=Idempotency.OPTIONAL,
    phased=True,
    further_statuses=(202,),
    raises=(
        ChargedBackError,
        ConflictOfInterestError,
        EscrowDeficitError,
        IllegalTransitionError,
        ItemsNotRefundableError,
        second_officer.RulingDiffersError,
        SecondApproverRequiredError,
    ),
)
def rule_on_dispute(
    ctx: Context, dispute_id: UUID, query: dict[str, Any], body: dict[str, Any]
) -> FinalPhase | rulings.RulingResult:
    """Rule on a dispute: refund the buyer, release to the vendor, or split by amount or items.

    From \u20a650,000 in escrow a second officer must send the same body: the first answer is 202. A required return
    answers 202, too: nothing moves before the receipt. `dryRun=true` shows the ledger entries and changes nothing.
    """
    ruling = rulings.Ruling(
        outcome=body["outcome"],
        rationale=body["rationale"],
        buyer_amount_minor=body.get("buyer_amount_minor"),
        items=[RefundItem(**item) for item in body.get("items", ())],
        return_required=body["return_required"],
    )
    if query["dry_run"]:
        return rulings.preview_ruling(
            ctx.services.database, dispute_id=dispute_id, ruling=ruling, act=ctx.act
        )

    def execute(session: Session) -> rulings.RulingResult | WithStatus:
        result = rulings.rule(session, dispute_id=dispute_id, ruling=ruling, act=ctx.act)
        return result if result.state == rulings.EXECUTED else WithStatus(result, 202)

    return FinalPhase(execute)


@area.post(
    "/<uuid:dispute_id>/return/sent",
    auth=AUTHENTICATED_ANY_STATUS,
    limit="10/minute",
    body=MarkReturnSent,
    reply=DisputeDetail,
    raises=(cases.NotYourTurnError, returns.NoOpenReturnError),
)
def mark_return_sent(ctx: Context, dispute_id: UUID, body: dict[str, Any]) -> dict[str, Any]:
    """Mark the goods as sent back, as the buyer."""
    returns.mark_sent(
        ctx.session,
        dispute_id=dispute_id,
        caller=ctx.user,
        tracking_note=body.get("tracking_note"),
        now=ctx.now,
    )
    return _detail(ctx, dispute_id)


@area.post(
    "/<uuid:dispute_id>/return/received",
    auth=AUTHENTICATED_ANY_STATUS,
    limit="10/minute",
    reply=DisputeDetail,
    idempotent=Idempotency.OPTIONAL,
    raises=(
        ChargedBackError,
        cases.NotYourTurnError,
        EscrowDeficitError,
        IllegalTransitionError,
        ItemsNotRefundableError,
        returns.NoOpenReturnError,
    ),
)
def confirm_return(ctx: Context, dispute_id: UUID) -> dict[str, Any]:
    """Confirm the receipt of returned goods, as the vendor or staff. The ruling is executed at once."""
    returns.confirm_return(ctx.session, dispute_id=dispute_id, caller=ctx.user, now=ctx.now)
    return _detail(ctx, dispute_id)


@area.post(
    "/<uuid:dispute_id>/appeal",
    auth=AUTHENTICATED_ANY_STATUS,
    limit="10/minute",
    body=AppealRuling,
    reply=DisputeDetail,
    status=201,
    raises=(appeals.RulingAlreadyAppealedError, appeals.NotAppealableError),
)
def appeal_ruling(ctx: Context, dispute_id: UUID, body: dict[str, Any]) -> dict[str, Any]:
    """Appeal a ruling within 72 hours, once. Another officer decides. The vendor's share stays on hold meanwhile."""
    appeals.appeal(ctx.session, dispute_id=dispute_id, caller=ctx.user, reason=body["reason"], now=ctx.now)
    return _detail(ctx, dispute_id)


@area.post(
    "/<uuid:dispute_id>/appeal/decision",
    auth=DISPUTE_STAFF_AAL2,
    limit="10/minute",
    group=ProcessGroup.API,
    body=DecideRulingAppeal,
    reply=AppealDecisionView,
    idempotent=Idempotency.OPTIONAL,
    phased=True,
    further_statuses=(202,),
    raises=(
        appeals.NoPendingAppealError,
        ChargedBackError,
        ConflictOfInterestError,
        EscrowDeficitError,
        second_officer.RulingDiffersError,
        SecondApproverRequiredError,
    ),
)
def decide_ruling_appeal(ctx: Context, dispute_id: UUID, body: dict[str, Any]) -> FinalPhase:
    """Decide an appeal, as an officer who did not rule. A granted amount is clawed back, or paid by the platform.

    From \u20a650,000 a second officer must send the same body: the first answer is 202.
    """
    decision = appeals.AppealDecision(
        decision=body["decision"], rationale=body["rationale"], amount_minor=body.get("amount_minor")
    )

    def execute(session: Session) -> dict[str, Any] | WithStatus:
        executed = appeals.decide_appeal(session, dispute_id=dispute_id, decision=decision, act=ctx.act)
        view = {
            "dispute_id": dispute_id,
            "state": rulings.EXECUTED if executed else rulings.AWAITING_SECOND_OFFICER,
            "decision": decision.decision,
            "amount_minor": decision.amount_minor,
        }
        return view if executed else WithStatus(view, 202)

    return FinalPhase(execute)


def _detail(ctx: Context, dispute_id: UUID) -> dict[str, Any]:
    detail = queries.fetch_dispute(ctx.session, caller=ctx.user, dispute_id=dispute_id)
    return vars(detail) | _view(detail.dispute)


def _view(dispute: queries.DisputeRow) -> dict[str, Any]:
    return vars(dispute) | {"evidence_due_at": sealed_at(dispute.created_at)}
