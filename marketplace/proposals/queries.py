"""Queries of proposals, for officers."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.identity.queries import Caller
from marketplace.infra.sql.statements import Statement
from marketplace.infra.sql.tables import SortedTable
from marketplace.kernel.errors import found
from marketplace.kernel.paging import TablePage, TableRequest
from marketplace.proposals import states, texts
from marketplace.proposals.kinds import CHANGES
from marketplace.proposals.policy import visible_kinds

SORTS = {"created_at": "p.created_at", "effective_at": "p.effective_at", "expires_at": "p.expires_at"}


@dataclass(frozen=True)
class ProposalView:
    """A proposal with the participating officers, each as ``id`` and ``name``."""

    id: UUID
    kind: str
    target: str
    payload: dict[str, Any]
    reason: str
    status: str
    before: dict[str, Any]
    after: dict[str, Any]
    effect: dict[str, Any]
    effective_at: datetime | None
    expires_at: datetime
    proposed_by: dict[str, Any]
    approved_by: dict[str, Any] | None
    approved_at: datetime | None
    activated_at: datetime | None
    rejected_by: dict[str, Any] | None
    rejected_at: datetime | None
    rejection_reason: str | None
    expired_at: datetime | None
    created_at: datetime


@dataclass(frozen=True)
class ProposalDetail(ProposalView):
    """A proposal with the target's current state and the caller's possible next steps.

    ``current`` is none for a proposal with a final status.
    """

    current: dict[str, Any] | None
    next_actions: list[str]


_SELECT_PROPOSALS_SQL = """
    SELECT p.id, p.kind, p.target, p.payload, p.reason, p.status, p.before, p.after, p.effect, p.effective_at,
        p.expires_at,
        (SELECT jsonb_build_object('id', o.id, 'name', o.name) FROM profiles o WHERE o.id = p.proposed_by)
            AS proposed_by,
        (SELECT jsonb_build_object('id', o.id, 'name', o.name) FROM profiles o WHERE o.id = p.approved_by)
            AS approved_by, p.approved_at, p.activated_at,
        (SELECT jsonb_build_object('id', o.id, 'name', o.name) FROM profiles o WHERE o.id = p.rejected_by)
            AS rejected_by, p.rejected_at, p.rejection_reason, p.expired_at, p.created_at
"""
_PROPOSALS = SortedTable(
    _SELECT_PROPOSALS_SQL,
    """
    FROM platform_proposals p
    WHERE p.kind = ANY(:kinds) AND (CAST(:status AS text) IS NULL OR p.status = :status)
        AND (CAST(:kind AS text) IS NULL OR p.kind = :kind)
    """,
    SORTS,
    row=ProposalView,
    tie_breaker="p.id",
    nullable=["effective_at"],
)


def list_proposals(
    session: Session, *, kinds: Collection[str], status: str | None, kind: str | None, page: TableRequest
) -> TablePage:
    """List proposals in two queries. Filters that are none are not applied.

    :param kinds: the kinds that the officer may see
    :param page: sorted by a key of ``SORTS``
    """
    return _PROPOSALS.fetch_page(session, page, kinds=sorted(kinds), status=status, kind=kind)


_SELECT_PROPOSAL = Statement(
    text(
        f"{_SELECT_PROPOSALS_SQL} FROM platform_proposals p WHERE p.id = :proposal_id AND p.kind = ANY(:kinds)"
    ),
    row=ProposalView,
)


def show_proposal(session: Session, *, proposal_id: UUID, caller: Caller, now: datetime) -> ProposalDetail:
    """Show a proposal. The effect of an open proposal is computed anew.

    :raises NotFoundError: the proposal does not exist, or the officer lacks the kind's permission
    """
    kinds = sorted(visible_kinds(caller.permissions))
    proposal = found(
        _SELECT_PROPOSAL.first(session, proposal_id=proposal_id, kinds=kinds), texts.PROPOSAL_NOT_FOUND
    )
    change, fields = CHANGES[proposal.kind], vars(proposal) | {"current": None}
    if states.PROPOSAL.allows(proposal.status, states.REJECT):
        fields["current"] = change.current_state(session, proposal.payload, now=now)
        fields["effect"] = change.effect(session, proposal.payload)
    may_not_approve = (
        proposal.proposed_by["id"] == str(caller.id) or change.concerned_person(proposal.payload) == caller.id
    )
    next_actions = [
        step
        for step in (states.APPROVE, states.REJECT)
        if states.PROPOSAL.allows(proposal.status, step) and not (step == states.APPROVE and may_not_approve)
    ]
    return ProposalDetail(**fields, next_actions=next_actions)
