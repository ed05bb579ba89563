"""Notifications to officers about proposals."""

from datetime import datetime

from sqlalchemy.orm import Session

from marketplace.identity.queries import list_officers_with_permission
from marketplace.notifications.operations import NewNotification, notify_all
from marketplace.proposals import states, texts
from marketplace.proposals.kinds import CHANGES
from marketplace.proposals.models import PlatformProposal

_PROGRESS_TEXTS = {
    states.APPROVED: (texts.PROPOSAL_APPROVED_TITLE, texts.PROPOSAL_APPROVED_BODY),
    states.ACTIVE: (texts.PROPOSAL_ACTIVE_TITLE, texts.PROPOSAL_ACTIVE_BODY),
    states.REJECTED: (texts.PROPOSAL_REJECTED_TITLE, texts.PROPOSAL_REJECTED_BODY),
    states.EXPIRED: (texts.PROPOSAL_EXPIRED_TITLE, texts.PROPOSAL_EXPIRED_BODY),
}


def notify_proposal_filed(session: Session, proposal: PlatformProposal, *, now: datetime) -> None:
    """Notify the officers with the permission to decide on a proposal, except for the proposer."""
    notify_all(
        session,
        notifications=[
            NewNotification(
                user_id=user_id,
                type="proposal_filed",
                title=texts.PROPOSAL_FILED_TITLE,
                body=texts.PROPOSAL_FILED_BODY.format(kind=proposal.kind, reason=proposal.reason),
                link=f"/admin/proposals/{proposal.id}",
                cause=f"proposal:{proposal.id}:filed",
            )
            for user_id in list_officers_with_permission(
                session,
                permission=CHANGES[proposal.kind].permission,
                excluded_officer_id=proposal.proposed_by,
            )
        ],
        now=now,
    )


def notify_proposal_progress(
    session: Session, proposal: PlatformProposal, step: str, *, now: datetime, **values: str
) -> None:
    """Notify the proposer and the approver of a proposal's new status.

    :param step: the new status
    :param values: further placeholders of the status's text
    """
    title, body = _PROGRESS_TEXTS[step]
    notify_all(
        session,
        notifications=[
            NewNotification(
                user_id=user_id,
                type=f"proposal_{step}",
                title=title,
                body=body.format(kind=proposal.kind, target=proposal.target, **values),
                link=f"/admin/proposals/{proposal.id}",
                cause=f"proposal:{proposal.id}:{step}",
            )
            for user_id in (proposal.proposed_by, proposal.approved_by)
            if user_id is not None
        ],
        now=now,
    )
