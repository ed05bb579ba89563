"""What officers are told of proposals."""

from datetime import datetime

from sqlalchemy.orm import Session

from marketplace.identity.permissions import MANAGE_PLATFORM
from marketplace.identity.queries import list_officers_with_permission
from marketplace.notifications.operations import NewNotification, notify_all
from marketplace.proposals.models import PlatformProposal


def notify_proposal_filed(session: Session, proposal: PlatformProposal, *, now: datetime) -> None:
    """Notify the officers who may decide on a proposal, except for the proposer."""
    notify_all(
        session,
        notifications=[
            NewNotification(
                user_id=user_id,
                type="proposal_filed",
                title="A change waits for your approval",
                body=f"An officer proposes a change of the platform ({proposal.kind}): {proposal.reason}",
                link=f"/admin/proposals/{proposal.id}",
                cause=f"proposal:{proposal.id}:filed",
            )
            for user_id in list_officers_with_permission(
                session, permission=MANAGE_PLATFORM, excluded_officer_id=proposal.proposed_by
            )
        ],
        now=now,
    )


def notify_proposal_progress(
    session: Session, proposal: PlatformProposal, step: str, body: str, *, now: datetime
) -> None:
    """Tell the two officers whose proposal it is how it went on.

    :param step: the state that it came to
    :param body: what that means
    """
    notify_all(
        session,
        notifications=[
            NewNotification(
                user_id=user_id,
                type=f"proposal_{step}",
                title=f"A proposal is {step}",
                body=f"{proposal.kind}, {proposal.target}: {body}",
                link=f"/admin/proposals/{proposal.id}",
                cause=f"proposal:{proposal.id}:{step}",
            )
            for user_id in (proposal.proposed_by, proposal.approved_by)
            if user_id is not None
        ],
        now=now,
    )
