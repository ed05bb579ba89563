"""Routes of the platform: proposals and payout halts."""

from typing import Any
from uuid import UUID

from blueprints.http import (
    PROPOSAL_STAFF,
    PROPOSAL_STAFF_AAL2,
    STAFF,
    Context,
    ContractBlueprint,
    CursorQuery,
    SharedLimit,
)
from blueprints.platform.schemas import (
    CreateProposal,
    PayoutHaltView,
    Proposal,
    ProposalQuery,
    ProposalRow,
    RejectProposal,
)
from marketplace.kernel.errors import (
    ConflictOfInterestError,
    PermissionRequiredError,
    SecondApproverRequiredError,
    StepUpRequiredError,
)
from marketplace.kernel.paging import Page, TablePage
from marketplace.kernel.states import IllegalTransitionError
from marketplace.ledger.operations import InsufficientFundsError
from marketplace.platform import halts
from marketplace.proposals import operations, policy, queries

area = ContractBlueprint("platform", "/api/platform", "Platform changes that require two officers")


@area.post(
    "/proposals",
    auth=PROPOSAL_STAFF,
    limit="10/minute",
    body=CreateProposal,
    reply=Proposal,
    status=201,
    raises=(
        ConflictOfInterestError,
        halts.PayoutsNotHaltedError,
        PermissionRequiredError,
        StepUpRequiredError,
    ),
)
def create_proposal(ctx: Context, body: dict[str, Any]) -> queries.ProposalDetail:
    """Propose to change a fee, a commission, a feature or maintenance, to resume payouts, or to adjust a wallet."""
    policy.ensure_may_file(ctx.user, kind=body["kind"])
    return _proposal_view(ctx, operations.propose(ctx.session, act=ctx.act, **body))


@area.get(
    "/proposals",
    auth=PROPOSAL_STAFF,
    limit=SharedLimit.CALLER_TIER,
    query=ProposalQuery,
    reply=ProposalRow(many=True),
)
def list_proposals(ctx: Context, query: dict[str, Any]) -> TablePage:
    """List proposals with the change and effect of each."""
    return queries.list_proposals(
        ctx.session,
        kinds=policy.visible_kinds(ctx.user.permissions),
        status=query["status"],
        kind=query["kind"],
        page=ctx.table,
    )


@area.get("/proposals/<uuid:proposal_id>", auth=PROPOSAL_STAFF, limit=SharedLimit.CALLER_TIER, reply=Proposal)
def get_proposal(ctx: Context, proposal_id: UUID) -> queries.ProposalDetail:
    """Get a proposal. For an open proposal, the effect is computed from the current values."""
    return _proposal_view(ctx, proposal_id)


@area.post(
    "/proposals/<uuid:proposal_id>/approve",
    auth=PROPOSAL_STAFF_AAL2,
    limit="5/minute",
    reply=Proposal,
    raises=(
        ConflictOfInterestError,
        IllegalTransitionError,
        InsufficientFundsError,
        halts.PayoutsNotHaltedError,
        operations.ProposalExpiredError,
        SecondApproverRequiredError,
        operations.StaleProposalError,
    ),
)
def approve_proposal(ctx: Context, proposal_id: UUID) -> queries.ProposalDetail:
    """Approve another officer's proposal. The change takes effect at once, or at `effectiveAt`."""
    operations.approve_proposal(
        ctx.session,
        proposal_id=proposal_id,
        kinds=policy.visible_kinds(ctx.user.permissions),
        act=ctx.act,
    )
    return _proposal_view(ctx, proposal_id)


@area.post(
    "/proposals/<uuid:proposal_id>/reject", auth=PROPOSAL_STAFF, limit="10/minute", body=RejectProposal,
    reply=Proposal,
    raises=(IllegalTransitionError,),
)  # fmt: skip
def reject_proposal(ctx: Context, proposal_id: UUID, body: dict[str, Any]) -> queries.ProposalDetail:
    """Reject a proposal before it takes effect, or withdraw your own proposal."""
    operations.reject_proposal(
        ctx.session,
        proposal_id=proposal_id,
        kinds=policy.visible_kinds(ctx.user.permissions),
        act=ctx.act,
        reason=body["reason"],
    )
    return _proposal_view(ctx, proposal_id)


@area.get(
    "/halts", auth=STAFF, limit=SharedLimit.CALLER_TIER, query=CursorQuery, reply=PayoutHaltView(many=True)
)
def list_payout_halts(ctx: Context, query: dict[str, Any]) -> Page:
    """List the halts of payouts with reasons, the latest first."""
    return halts.list_halts(ctx.session, page=ctx.page)


def _proposal_view(ctx: Context, proposal_id: UUID) -> queries.ProposalDetail:
    return queries.show_proposal(ctx.session, proposal_id=proposal_id, caller=ctx.user, now=ctx.now)
