"""What officers are told of proposals."""

from datetime import datetime
from uuid import UUID

from sqlalchemy.orm import Session

from marketplace.identity.permissions import MANAGE_PLATFORM
from marketplace.identity.queries import list_officers_with_permission
from marketplace.notifications.operations import NewNotification, notify_all
from marketplace.proposals.models import PlatformProposal


def notify_proposal_filed(
    session: Session, *, proposal_id: UUID, kind: str, reason: str, officer_id: UUID, now: datetime
) -> None:
    """Tell those who may decide on a proposal that it waits for them.

    :param kind: the proposal's
    :param reason: why it was filed
    :param officer_id: who filed it, and is not told
    """
    notify_all(
        session,
        notifications=[
            NewNotification(
                user_id=user_id,
                type="proposal_filed",
                title="A change waits for your approval",
                body=f"An officer proposes a change of the platform ({kind}): {reason}",
                link=_link(proposal_id),
                cause=f"proposal:{proposal_id}:filed",
            )
            for user_id in list_officers_with_permission(
                session, permission=MANAGE_PLATFORM, excluded_officer_id=officer_id
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
                link=_link(proposal.id),
                cause=f"proposal:{proposal.id}:{step}",
            )
            for user_id in (proposal.proposed_by, proposal.approved_by)
            if user_id is not None
        ],
        now=now,
    )


def _link(proposal_id: UUID) -> str:
    return f"/admin/proposals/{proposal_id}"
