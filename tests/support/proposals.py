"""Proposals for tests: platform officers and the filing and deciding of proposals."""

from dataclasses import replace
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.audit.operations import Act
from marketplace.identity.queries import Caller
from marketplace.proposals import operations
from marketplace.proposals.kinds import CHANGES
from tests.support.purchases import NOW, make_person, row_of

REASON = "The rectorate asked for it."
FEE = {"key": "service_fee_minor", "value": 20_000}


def make_admin(session: Session) -> Caller:
    """Create an officer with the permissions for all kinds of proposals."""
    permissions = frozenset(change.permission for change in CHANGES.values())
    return replace(make_person(session, role="staff", staff_role="admin"), permissions=permissions)


def act_of(officer: Caller, *, now: datetime = NOW) -> Act:
    """Build an act of a platform officer."""
    return Act("admin", now, user_id=officer.id, ip_address="127.0.0.1")


def propose(
    session: Session,
    kind: str = "fee",
    payload: dict[str, Any] | None = None,
    *,
    by: Caller | None = None,
    effective_at: datetime | None = None,
    now: datetime = NOW,
) -> UUID:
    """File a proposal as an officer."""
    officer = by or make_admin(session)
    return operations.propose(
        session,
        act=act_of(officer, now=now),
        kind=kind,
        payload=FEE if payload is None else payload,
        reason=REASON,
        effective_at=effective_at,
    )


def approve(session: Session, proposal_id: UUID, *, by: Caller | None = None, now: datetime = NOW) -> None:
    """Approve a proposal as another officer."""
    officer = by or make_admin(session)
    operations.approve_proposal(session, proposal_id=proposal_id, kinds=CHANGES, act=act_of(officer, now=now))


def reject(session: Session, proposal_id: UUID, *, by: Caller | None = None, now: datetime = NOW) -> None:
    """Reject a proposal as an officer."""
    officer = by or make_admin(session)
    operations.reject_proposal(
        session,
        proposal_id=proposal_id,
        kinds=CHANGES,
        act=act_of(officer, now=now),
        reason="Not now.",
    )


def proposal_row(session: Session, proposal_id: UUID) -> dict[str, Any]:
    """Return a proposal's row."""
    return row_of(session, "platform_proposals", id=proposal_id)


def proposals_filed(session: Session) -> int:
    """Count all proposals."""
    filed: int = session.execute(text("SELECT count(*) FROM platform_proposals")).scalar_one()
    return filed


def setting(session: Session, key: str) -> Any:
    """Return a platform setting, or None if absent."""
    return session.execute(
        text("SELECT value FROM platform_settings WHERE key = :key"), {"key": key}
    ).scalar_one_or_none()
