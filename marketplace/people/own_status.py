"""The status of the own account: reason, end, remaining functions and appeal."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from sqlalchemy import select
from sqlalchemy.orm import Session

from marketplace.identity.models import AccountAppeal, AccountDecision, Profile
from marketplace.kernel.errors import found
from marketplace.people import texts

# The functions that a restricted or suspended person can use.
ALLOWED_WHILE_BARRED = ("profile", "paid_orders", "notifications", "appeal")


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

    :ivar since: the time of the decision; none for an active account
    :ivar until: the end of the decision; none without a known end
    :ivar allowed: words of ``ALLOWED_WHILE_BARRED``; none for an active account, which can use everything
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
            Profile.status_reason,
            Profile.status_until,
            AccountDecision.decided_at,
            AccountAppeal,
        )
        .outerjoin(
            AccountDecision,
            (AccountDecision.user_id == Profile.id) & AccountDecision.ended_at.is_(None),
        )
        .outerjoin(AccountAppeal, AccountAppeal.decision_id == AccountDecision.id)
        .where(Profile.id == user_id)
    ).first()
    status, reason, until, decided_at, appeal = found(row, texts.PERSON_NOT_FOUND)
    if status == "active" or (until is not None and until <= now):
        return _ACTIVE
    can_appeal = decided_at is not None and appeal is None
    return OwnStatus(
        status=status,
        reason=reason,
        since=decided_at,
        until=until,
        allowed=tuple(word for word in ALLOWED_WHILE_BARRED if word != "appeal" or can_appeal),
        can_appeal=can_appeal,
        appeal=None
        if appeal is None
        else OwnAppeal(appeal.status, appeal.created_at, appeal.decided_at, appeal.comment),
    )
