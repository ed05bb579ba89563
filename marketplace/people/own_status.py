"""The status of the own account: reason, end, remaining functions and appeal."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from marketplace.identity.models import AccountAppeal, AccountDecision, DeletionRequest, Profile
from marketplace.kernel.errors import found
from marketplace.people import texts
from marketplace.people.account_status import DELETION_PENDING

# The functions that a restricted or suspended person can use.
ALLOWED_WHILE_BARRED = ("profile", "paid_orders", "notifications", "appeal")
ALLOWED_WHILE_DELETING = ("profile", "paid_orders", "notifications", "wallet", "cancel_deletion")
ALLOWED = tuple(dict.fromkeys((*ALLOWED_WHILE_BARRED, *ALLOWED_WHILE_DELETING)))


@dataclass(frozen=True)
class OwnAppeal:
    """The appeal of a person against the current decision, with the ruling of staff."""

    status: str
    created_at: datetime
    decided_at: datetime | None
    comment: str | None


@dataclass(frozen=True)
class OwnStatus:
    """The status of a person's account.

    :ivar since: the time of the decision, or of the request to delete the account; none for an active account
    :ivar until: the end of the decision; none without a known end
    :ivar allowed: words of ``ALLOWED_WHILE_BARRED`` or ``ALLOWED_WHILE_DELETING``; none for an active account
    """

    status: str
    reason: str | None
    since: datetime | None
    until: datetime | None
    allowed: tuple[str, ...] | None
    can_appeal: bool
    appeal: OwnAppeal | None


_ACTIVE = OwnStatus("active", None, None, None, None, can_appeal=False, appeal=None)


def show_own_status(session: Session, *, user_id: UUID, now: datetime) -> OwnStatus:
    """Show the status of a person's account.

    :param now: a decision ends at its time
    :raises NotFoundError: the person has no profile
    """
    row = session.execute(
        select(
            Profile.account_status,
            Profile.status_code,
            Profile.status_reason,
            Profile.status_until,
            func.coalesce(AccountDecision.decided_at, DeletionRequest.requested_at),
            AccountDecision.id,
            AccountAppeal,
        )
        .outerjoin(
            AccountDecision,
            (AccountDecision.user_id == Profile.id) & AccountDecision.ended_at.is_(None),
        )
        .outerjoin(
            DeletionRequest,
            (DeletionRequest.user_id == Profile.id) & (DeletionRequest.status == "pending"),
        )
        .outerjoin(AccountAppeal, AccountAppeal.decision_id == AccountDecision.id)
        .where(Profile.id == user_id)
    ).first()
    status, code, reason, until, since, decision_id, appeal = found(row, texts.PERSON_NOT_FOUND)
    if status == "active" or (until is not None and until <= now):
        return _ACTIVE
    can_appeal = decision_id is not None and appeal is None
    words = ALLOWED_WHILE_DELETING if code == DELETION_PENDING else ALLOWED_WHILE_BARRED
    return OwnStatus(
        status=status,
        reason=reason,
        since=since,
        until=until,
        allowed=tuple(word for word in words if word != "appeal" or can_appeal),
        can_appeal=can_appeal,
        appeal=None
        if appeal is None
        else OwnAppeal(appeal.status, appeal.created_at, appeal.decided_at, appeal.comment),
    )
