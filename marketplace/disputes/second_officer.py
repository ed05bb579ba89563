"""Decisions that need two officers, who send the same body within a day."""

from datetime import timedelta
from typing import Any
from uuid import UUID

from sqlalchemy import delete
from sqlalchemy.orm import Session

from marketplace.audit.operations import Act
from marketplace.disputes import texts
from marketplace.disputes.models import Dispute, DisputeRulingProposal
from marketplace.kernel.errors import ConflictError, SecondApproverRequiredError

SECOND_OFFICER_MINOR = 5_000_000
PROPOSAL_LIFETIME = timedelta(hours=24)


class RulingDiffersError(ConflictError):
    """Another officer proposed a different ruling."""

    reason = "ruling-differs"


def confirm_decision(session: Session, dispute: Dispute, *, content: dict[str, Any], act: Act) -> UUID | None:
    """Return the officer who proposed the same decision, or store a first proposal and return none.

    :param content: the decision as JSON
    :raises SecondApproverRequiredError: the officer proposed this decision
    :raises RulingDiffersError: another officer proposed a different decision
    """
    proposal = session.get(DisputeRulingProposal, dispute.id, with_for_update=True, populate_existing=True)
    if proposal is not None and proposal.expires_at > act.now:
        if proposal.officer_id == act.person_id:
            raise SecondApproverRequiredError(texts.SAME_OFFICER)
        if proposal.content != content:
            raise RulingDiffersError(
                texts.OTHER_RULING.format(until=f"{proposal.expires_at:%Y-%m-%d %H:%M} UTC")
            )
        return proposal.officer_id
    drop_proposal(session, dispute)
    session.add(
        DisputeRulingProposal(
            dispute_id=dispute.id,
            officer_id=act.person_id,
            content=content,
            proposed_at=act.now,
            expires_at=act.now + PROPOSAL_LIFETIME,
        )
    )
    session.flush()
    return None


def drop_proposal(session: Session, dispute: Dispute) -> None:
    """Delete the waiting decision of a dispute, if any."""
    session.execute(delete(DisputeRulingProposal).where(DisputeRulingProposal.dispute_id == dispute.id))
