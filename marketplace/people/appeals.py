"""Appeals against restrictions and suspensions: one for each decision, ruled on by another officer."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from sqlalchemy import select
from sqlalchemy.orm import Session, aliased

from marketplace.audit.operations import Act, record_audit_entry
from marketplace.identity.models import AccountAppeal, AccountDecision, Profile
from marketplace.kernel.errors import ConflictError, ConflictOfInterestError, found
from marketplace.kernel.paging import Page, PageRequest, page_of
from marketplace.notifications.operations import notify
from marketplace.people import texts
from marketplace.people.account_status import end_decision, lock_profile

PENDING, ACCEPTED, REJECTED, CLOSED = "pending", "accepted", "rejected", "closed"
STATUSES = (PENDING, ACCEPTED, REJECTED, CLOSED)


class NothingToAppealError(ConflictError):
    """No decision of staff restricts the account."""

    reason = "nothing-to-appeal"


class AlreadyAppealedError(ConflictError):
    """The person has already appealed against this decision."""

    reason = "already-appealed"


class AppealDecidedError(ConflictError):
    """The appeal has a ruling, or the decision has ended."""

    reason = "appeal-decided"


def submit_appeal(session: Session, *, user_id: UUID, message: str, now: datetime) -> None:
    """Appeal against the current decision about the user's account, once.

    :raises NothingToAppealError: no decision restricts the account
    :raises AlreadyAppealedError: the user has appealed before
    """
    profile = lock_profile(session, user_id=user_id)
    decision = session.scalar(
        select(AccountDecision).where(
            AccountDecision.user_id == user_id,
            AccountDecision.ended_at.is_(None),
            (AccountDecision.until > now) | AccountDecision.until.is_(None),
        )
    )
    if decision is None:
        raise NothingToAppealError(texts.NOTHING_TO_APPEAL)
    if session.scalar(select(AccountAppeal.id).where(AccountAppeal.decision_id == decision.id)) is not None:
        raise AlreadyAppealedError(texts.ALREADY_APPEALED)
    session.add(AccountAppeal(decision_id=decision.id, text=message, created_at=now))
    profile.appeal_status = PENDING
    session.flush()


def decide_appeal(session: Session, *, appeal_id: UUID, outcome: str, comment: str, act: Act) -> None:
    """Rule on an appeal. An accepted appeal ends the decision at once.

    :param outcome: ``accepted`` or ``rejected``
    :param comment: shown to the person
    :raises NotFoundError: the appeal does not exist
    :raises ConflictOfInterestError: the officer took the decision, or is the person
    :raises AppealDecidedError: the appeal is not pending
    """
    user_id = found(
        session.scalar(
            select(AccountDecision.user_id)
            .join(AccountAppeal, AccountAppeal.decision_id == AccountDecision.id)
            .where(AccountAppeal.id == appeal_id)
        ),
        texts.APPEAL_NOT_FOUND,
    )
    profile = lock_profile(session, user_id=user_id)
    appeal = session.get_one(AccountAppeal, appeal_id, populate_existing=True)
    decision = session.get_one(AccountDecision, appeal.decision_id, populate_existing=True)
    if act.person_id in (decision.decided_by, user_id):
        raise ConflictOfInterestError(texts.OWN_DECISION)
    if appeal.status != PENDING:
        raise AppealDecidedError(texts.APPEAL_DECIDED.format(status=appeal.status))
    appeal.status, appeal.comment = outcome, comment
    appeal.decided_by, appeal.decided_at = act.person_id, act.now
    profile.appeal_status = outcome
    session.flush()
    record_audit_entry(
        session,
        act=act,
        action="person.appeal",
        target_type="profile",
        target_id=str(user_id),
        before={"appealStatus": PENDING},
        after={"appealStatus": outcome, "appealId": str(appeal.id), "reason": comment},
    )
    if outcome == ACCEPTED:
        end_decision(session, profile=profile, how="appeal", reason=comment, act=act)
    body = texts.APPEAL_ACCEPTED_BODY if outcome == ACCEPTED else texts.APPEAL_REJECTED_BODY
    notify(
        session,
        user_id=user_id,
        type="appeal_decided",
        title=texts.APPEAL_DECIDED_TITLE,
        body=body.format(comment=comment),
        link="/account",
        cause=f"appeal:{appeal.id}",
        now=act.now,
    )


@dataclass(frozen=True)
class AppealRow:
    """An appeal for staff, with the decision and the person."""

    id: UUID
    status: str
    message: str
    created_at: datetime
    decided_at: datetime | None
    comment: str | None
    decided_by: UUID | None
    user_id: UUID
    name: str | None
    account_status: str
    reason: str
    restricted_at: datetime
    restricted_by: UUID
    restricted_by_name: str | None
    until: datetime | None


_OFFICER = aliased(Profile)
_SELECT_APPEALS = (
    select(
        AccountAppeal.id,
        AccountAppeal.status,
        AccountAppeal.text.label("message"),
        AccountAppeal.created_at,
        AccountAppeal.decided_at,
        AccountAppeal.comment,
        AccountAppeal.decided_by,
        AccountDecision.user_id,
        Profile.name,
        AccountDecision.status.label("account_status"),
        AccountDecision.reason,
        AccountDecision.decided_at.label("restricted_at"),
        AccountDecision.decided_by.label("restricted_by"),
        _OFFICER.name.label("restricted_by_name"),
        AccountDecision.until,
    )
    .join(AccountDecision, AccountDecision.id == AccountAppeal.decision_id)
    .join(Profile, Profile.id == AccountDecision.user_id)
    .join(_OFFICER, _OFFICER.id == AccountDecision.decided_by)
)


def list_appeals(session: Session, *, status: str, page: PageRequest) -> Page:
    """List the appeals with a status, the earliest first."""
    query = _SELECT_APPEALS.where(AccountAppeal.status == status)
    [after] = page.after("id")
    if after is not None:
        query = query.where(AccountAppeal.id > after)
    found_rows = session.execute(query.order_by(AccountAppeal.id).limit(page.limit + 1)).mappings()
    rows = [AppealRow(**row) for row in found_rows]
    return page_of(rows, request=page, position_of=lambda row: [str(row.id)])


def show_appeal(session: Session, *, appeal_id: UUID) -> AppealRow:
    """Show an appeal.

    :raises NotFoundError: the appeal does not exist
    """
    row = session.execute(_SELECT_APPEALS.where(AccountAppeal.id == appeal_id)).mappings().first()
    return AppealRow(**found(row, texts.APPEAL_NOT_FOUND))
