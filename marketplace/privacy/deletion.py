"""Deletion of the own account: requested, restricted for a grace period, and cancelled or erased."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from sqlalchemy import select
from sqlalchemy.orm import Session

from marketplace.alerts.operations import raise_alert, resolve_alert
from marketplace.audit.operations import Act, record_audit_entry
from marketplace.identity.models import DeletionRequest
from marketplace.infra.db import Database
from marketplace.kernel.errors import ConflictError, found
from marketplace.kernel.money import format_naira
from marketplace.ledger import accounts
from marketplace.ledger.queries import fetch_balances
from marketplace.notifications.operations import notify
from marketplace.notifications.phrases import Phrase, say
from marketplace.people.account_status import lift_deletion, lock_profile, restrict_for_deletion
from marketplace.privacy import texts
from marketplace.privacy.blockers import BLOCKERS_OF_REQUESTS, find_blockers
from marketplace.vendors.queries import find_store_of_user

STATUSES = ("pending", "cancelled", "executed")
GRACE_PERIOD = timedelta(days=30)
# Days after the request. The first three reminders tell how to cancel, the other two only of money that is left.
REMINDER_DAYS = (7, 23, 29)
MONEY_REMINDER_DAYS = (30, 45)
MONEY_REPORT_DAY = 60
_BATCH = 100


class DeletionBlockedError(ConflictError):
    """Open orders or disputes block the deletion of the account."""

    reason = "deletion-blocked"


class DeletionRequestedError(ConflictError):
    """The deletion of the account is pending already."""

    reason = "deletion-already-requested"


class NoDeletionPendingError(ConflictError):
    """No deletion of the account is pending."""

    reason = "no-deletion-pending"


@dataclass(frozen=True)
class Deletion:
    """A request to delete an account, with the person's money in kobo."""

    id: UUID
    status: str
    requested_at: datetime
    grace_ends_at: datetime
    ended_at: datetime | None
    wallet_minor: int
    payable_minor: int

    @property
    def money_minor(self) -> int:
        """The money that the person can cash out or withdraw."""
        return self.wallet_minor + self.payable_minor


def request_deletion(session: Session, *, user_id: UUID, reason: str | None, act: Act) -> Deletion:
    """Request the deletion of an account, restrict the account, and suspend the store.

    :param reason: the person's reason, if given
    :raises DeletionRequestedError: the deletion is pending already
    :raises DeletionBlockedError: orders or disputes are open, or the person has a staff role
    """
    profile = lock_profile(session, user_id=user_id)
    pending = _find_pending(session, user_id)
    if pending is not None:
        day = pending.requested_at.date().isoformat()
        raise DeletionRequestedError(texts.DELETION_ALREADY_REQUESTED.format(requested=day))
    blockers = [
        blocker
        for blocker in find_blockers(session, user_id=user_id, now=act.now)
        if blocker.kind in BLOCKERS_OF_REQUESTS
    ]
    if blockers:
        raise DeletionBlockedError(
            texts.DELETION_BLOCKED,
            extensions={
                "blockers": [
                    {"kind": blocker.kind, "count": blocker.count, "detail": blocker.detail}
                    for blocker in blockers
                ]
            },
        )
    request = DeletionRequest(
        user_id=user_id,
        reason=reason,
        status="pending",
        requested_at=act.now,
        grace_ends_at=act.now + GRACE_PERIOD,
    )
    session.add(request)
    session.flush()
    restrict_for_deletion(session, profile=profile, act=act)
    _record(session, "privacy.deletion-requested", request, act)
    body = say(texts.DELETION_REQUESTED_BODY, date=_day(request.grace_ends_at))
    _notify(
        session,
        request,
        "deletion_requested",
        title=texts.DELETION_REQUESTED_TITLE,
        body=body,
        event="requested",
        now=act.now,
    )
    return _view(session, request)


def cancel_deletion(session: Session, *, user_id: UUID, act: Act) -> Deletion:
    """Cancel the pending deletion of an account, also after the grace period if the erasure has not begun.

    :raises NoDeletionPendingError: no deletion is pending
    """
    profile = lock_profile(session, user_id=user_id)
    request = _find_pending(session, user_id)
    if request is None:
        raise NoDeletionPendingError(texts.NO_DELETION_PENDING)
    end_request(session, request=request, status="cancelled", now=act.now)
    lift_deletion(session, profile=profile, act=act)
    _record(session, "privacy.deletion-cancelled", request, act)
    _notify(
        session,
        request,
        "deletion_cancelled",
        title=texts.DELETION_CANCELLED_TITLE,
        body=say(texts.DELETION_CANCELLED_BODY),
        event="cancelled",
        now=act.now,
    )
    return _view(session, request)


def show_deletion(session: Session, *, user_id: UUID) -> Deletion:
    """Return the latest request of a person.

    :raises NotFoundError: the person has never asked for the deletion
    """
    latest = (
        select(DeletionRequest)
        .where(DeletionRequest.user_id == user_id)
        .order_by(DeletionRequest.id.desc())
        .limit(1)
    )
    return _view(session, found(session.scalar(latest), texts.NO_DELETION_PENDING))


def end_request(session: Session, *, request: DeletionRequest, status: str, now: datetime) -> None:
    """End a pending request, and the alert about money that was left.

    :param status: ``cancelled`` or ``executed``
    """
    request.status, request.ended_at = status, now
    session.flush()
    _resolve_money_alert(session, request.id, now)


def remind_people(database: Database, *, now: datetime) -> int:
    """Send the reminders that are due, each request in a transaction of its own.

    After an outage, a person gets only the latest of several reminders. Money that is left after two reminders and
    30 more days is reported to compliance.

    :return: the number of requests with a reminder or a report
    """
    days = (*REMINDER_DAYS, *MONEY_REMINDER_DAYS, MONEY_REPORT_DAY)
    done, after = 0, UUID(int=0)
    while True:
        with database.reading() as session:
            due = session.scalars(
                select(DeletionRequest.id)
                .where(
                    DeletionRequest.status == "pending",
                    DeletionRequest.requested_at <= now - timedelta(days=days[0]),
                    DeletionRequest.id > after,
                )
                .order_by(DeletionRequest.id)
                .limit(_BATCH)
            ).all()
        done += sum(
            database.in_transaction(_remind_person, request_id=request_id, days=days, now=now)
            for request_id in due
        )
        if len(due) < _BATCH:
            return done
        after = due[-1]


def _remind_person(session: Session, *, request_id: UUID, days: tuple[int, ...], now: datetime) -> bool:
    request = session.get(DeletionRequest, request_id, with_for_update=True, populate_existing=True)
    if request is None or request.status != "pending":
        return False
    view = _view(session, request)
    if not view.money_minor:
        _resolve_money_alert(session, request.id, now)
    reached = sum(request.requested_at + timedelta(days=day) <= now for day in days)
    if reached <= request.reminders_sent:
        return False
    request.reminders_sent = reached
    day = days[reached - 1]
    if day == MONEY_REPORT_DAY and view.money_minor:
        _report_money(session, request, view, now)
        return True
    title, body = texts.DELETION_MONEY_TITLE, []
    if day in REMINDER_DAYS:
        title = texts.DELETION_REMINDER_TITLE
        body.append(say(texts.DELETION_REMINDER_BODY, date=_day(request.grace_ends_at)))
    if view.money_minor:
        body.append(say(texts.DELETION_MONEY_BODY, amount=format_naira(view.money_minor)))
    if not body:
        return False
    _notify(session, request, "deletion_reminder", title=title, body=body, event=str(day), now=now)
    return True


def _report_money(session: Session, request: DeletionRequest, view: Deletion, now: datetime) -> None:
    raise_alert(
        session,
        identifier="DELETION_MONEY_LEFT",
        subject=_alert_subject(request.id),
        title=texts.ALERT_MONEY_LEFT,
        facts={
            "userId": request.user_id,
            "walletMinor": view.wallet_minor,
            "payableMinor": view.payable_minor,
        },
        now=now,
    )


def _find_pending(session: Session, user_id: UUID) -> DeletionRequest | None:
    pending = select(DeletionRequest).where(
        DeletionRequest.user_id == user_id, DeletionRequest.status == "pending"
    )
    return session.scalar(pending)


def _view(session: Session, request: DeletionRequest) -> Deletion:
    store = find_store_of_user(session, user_id=request.user_id)
    payable = [accounts.vendor_payable(store.id)] if store else []
    wallet_minor, *payable_minor = fetch_balances(session, accounts.wallet(request.user_id), *payable)
    return Deletion(
        id=request.id,
        status=request.status,
        requested_at=request.requested_at,
        grace_ends_at=request.grace_ends_at,
        ended_at=request.ended_at,
        wallet_minor=max(wallet_minor, 0),
        payable_minor=max(sum(payable_minor), 0),
    )


def _record(session: Session, action: str, request: DeletionRequest, act: Act) -> None:
    record_audit_entry(
        session,
        act=act,
        action=action,
        target_type="profile",
        target_id=str(request.user_id),
        after={"requestId": str(request.id), "graceEndsAt": request.grace_ends_at.isoformat()},
    )


def _notify(
    session: Session,
    request: DeletionRequest,
    kind: str,
    *,
    title: str,
    body: Phrase | list[Phrase],
    event: str,
    now: datetime,
) -> None:
    notify(
        session,
        user_id=request.user_id,
        type=kind,
        title=say(title),
        body=body,
        link="/account/privacy",
        cause=f"deletion:{request.id}:{event}",
        now=now,
    )


def _resolve_money_alert(session: Session, request_id: UUID, now: datetime) -> None:
    resolve_alert(
        session,
        identifier="DELETION_MONEY_LEFT",
        subject=_alert_subject(request_id),
        note=texts.ALERT_MONEY_LEFT_RESOLVED,
        now=now,
    )


def _alert_subject(request_id: UUID) -> str:
    return f"deletion:{request_id}"


def _day(time: datetime) -> str:
    return time.strftime("%-d %B %Y")
