"""Proposals as officers read them."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.identity.queries import Caller
from marketplace.infra.db import Statement
from marketplace.infra.tables import build_sorted_statements
from marketplace.kernel.errors import NotFoundError
from marketplace.kernel.paging import TablePage, TableRequest
from marketplace.proposals import states
from marketplace.proposals.kinds import CHANGES

SORTS = {"createdAt": "p.created_at", "effectiveAt": "p.effective_at", "expiresAt": "p.expires_at"}
OFFICER_STEPS = ("proposed", "approved", "rejected")

_SELECT_PROPOSALS = """
    SELECT p.id, p.kind, p.target, p.payload, p.reason, p.status, p.before, p.after, p.effect,
        p.effective_at AS "effectiveAt", p.expires_at AS "expiresAt", p.approved_at AS "approvedAt",
        p.activated_at AS "activatedAt", p.rejected_at AS "rejectedAt", p.rejection_reason AS "rejectionReason",
        p.expired_at AS "expiredAt", p.created_at AS "createdAt",
        p.proposed_by, proposed.name AS proposed_name, p.approved_by, approved.name AS approved_name,
        p.rejected_by, rejected.name AS rejected_name
    FROM platform_proposals p
        JOIN profiles proposed ON proposed.id = p.proposed_by
        LEFT JOIN profiles approved ON approved.id = p.approved_by
        LEFT JOIN profiles rejected ON rejected.id = p.rejected_by
"""
_WHERE_FILTERS = """
    WHERE (CAST(:status AS text) IS NULL OR p.status = :status)
        AND (CAST(:kind AS text) IS NULL OR p.kind = :kind)
"""
_SELECT_PROPOSAL = Statement(text(f"{_SELECT_PROPOSALS} WHERE p.id = :proposal_id"))
_SELECT_PROPOSAL_PAGES = build_sorted_statements(
    _SELECT_PROPOSALS, _WHERE_FILTERS, SORTS, tie_breaker="p.id", nullable=["effectiveAt"]
)
_COUNT_PROPOSALS = Statement(text(f"SELECT count(*) AS total FROM platform_proposals p {_WHERE_FILTERS}"))


@dataclass(frozen=True)
class ProposalFilters:
    """Which proposals are wanted; none for any."""

    status: str | None = None
    kind: str | None = None


def list_proposals(session: Session, *, filters: ProposalFilters, page: TableRequest) -> TablePage:
    """List proposals, in two queries.

    :param filters: which
    :param page: which page, sorted by one of ``SORTS``
    """
    filter_values = {"status": filters.status, "kind": filters.kind}
    rows = _SELECT_PROPOSAL_PAGES[page.sort, page.descending].all(
        session, **filter_values, most=page.limit, offset=page.offset
    )
    return TablePage(
        [_with_officers(row) for row in rows], page, _COUNT_PROPOSALS.one(session, **filter_values)["total"]
    )


def show_proposal(session: Session, *, proposal_id: UUID, caller: Caller, now: datetime) -> dict[str, Any]:
    """Give a proposal; of an open one, with what it changes and what it does as of now.

    :param caller: whose possible next steps are told
    :param now: when
    :raises NotFoundError: there is no such proposal
    """
    row = _SELECT_PROPOSAL.first(session, proposal_id=proposal_id)
    if row is None:
        raise NotFoundError("There is no such proposal.")
    row["current"] = None
    is_open = states.PROPOSAL.allows(row["status"], states.REJECT)
    if is_open:
        change = CHANGES[row["kind"]]
        row["current"] = change.current_state(session, row["payload"], now=now)
        row["effect"] = change.effect(session, row["payload"])
    row["nextActions"] = [
        step
        for step in (states.APPROVE, states.REJECT)
        if states.PROPOSAL.allows(row["status"], step)
        and not (step == states.APPROVE and row["proposed_by"] == caller.id)
    ]
    return _with_officers(row)


def _with_officers(row: dict[str, Any]) -> dict[str, Any]:
    for step in OFFICER_STEPS:
        person_id, name = row.pop(f"{step}_by"), row.pop(f"{step}_name")
        row[f"{step}By"] = None if person_id is None else {"id": person_id, "name": name}
    return row
