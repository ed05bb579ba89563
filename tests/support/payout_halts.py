"""Halts of payouts, for tests."""

from datetime import timedelta
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.platform import halts
from tests.support.finance import make_officer
from tests.support.purchases import NOW, later


def approved_resume_proposal(session: Session) -> UUID:
    """Create an active proposal to resume payouts, approved by a second officer."""
    found: UUID = session.execute(
        text(
            "INSERT INTO platform_proposals (kind, target, payload, reason, status, before, after, effect, proposed_by,"
            " expires_at, approved_by, approved_at, activated_at) VALUES ('payout_resume', 'payouts', '{}', 'Mended',"
            " 'active', '{}', '{}', '{}', :one, :later, :other, :now, :now) RETURNING id"
        ),
        {
            "one": make_officer(session).id,
            "other": make_officer(session).id,
            "now": NOW,
            "later": NOW + timedelta(days=7),
        },
    ).scalar_one()
    return found


def resume(session: Session) -> None:
    """Resume payouts as an approved proposal does."""
    halt = halts.fetch_current_halt(session)
    assert halt is not None
    halts.resume_payouts(
        session,
        halt_id=halt.id,
        mark=halt.mark,
        proposal_id=approved_resume_proposal(session),
        now=later(hours=1),
    )
