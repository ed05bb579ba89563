"""Restrict, suspend and reinstate accounts, and end decisions at their time.

A decision about an owner also suspends an active store, so that its products are neither listed nor orderable.
"""

from datetime import datetime
from uuid import UUID

from sqlalchemy import select, update
from sqlalchemy.orm import Session

from marketplace.audit.operations import Act, record_audit_entry
from marketplace.catalog import cache_tags
from marketplace.identity.models import AccountAppeal, AccountDecision, DeletionRequest, Profile
from marketplace.infra.cache import drop_cached
from marketplace.infra.db import Database
from marketplace.infra.live_events import END, LiveEvent, publish_after_commit
from marketplace.kernel.errors import ConflictError, ConflictOfInterestError, ValidationError, found
from marketplace.notifications.live_streams import EndReason
from marketplace.notifications.operations import notify
from marketplace.people import texts
from marketplace.people.staff_roles import ensure_not_erased, ensure_not_last_admin
from marketplace.vendors.models import VendorProfile

RESTRICTED, SUSPENDED = "restricted", "suspended"
DELETION_PENDING = "deletion_pending"
ENDINGS = ("expired", "reinstated", "appeal", "replaced")
_ACTIVE = "active"
_NOTIFICATIONS = {
    RESTRICTED: ("account_restricted", texts.ACCOUNT_RESTRICTED_TITLE, texts.ACCOUNT_RESTRICTED_BODY),
    SUSPENDED: ("account_suspended", texts.ACCOUNT_SUSPENDED_TITLE, texts.ACCOUNT_SUSPENDED_BODY),
}
_DUE_BATCH = 100
_SYSTEM_ROLE = "schedule"


class StatusUnchangedError(ConflictError):
    """The account already has this status."""

    reason = "account-status-unchanged"


class DeletionPendingError(ConflictError):
    """The account is restricted because the person wants the account deleted."""

    reason = "deletion-pending"


def bar_account(
    session: Session, *, user_id: UUID, status: str, reason: str, until: datetime | None, act: Act
) -> None:
    """Restrict or suspend an account, and notify the person. The decision replaces an earlier decision.

    :param status: ``restricted`` or ``suspended``
    :param reason: shown to the person
    :param until: the end of the decision; none for a decision that only staff end
    :raises NotFoundError: the person does not exist
    :raises ConflictOfInterestError: the person is the officer
    :raises LastAdminError: the person is the last active administrator
    :raises StatusUnchangedError: the account already has the status
    :raises ValidationError: ``until`` is not in the future
    """
    if until is not None and until <= act.now:
        raise ValidationError.of("until", "Must be in the future.")
    profile = _lock_person(session, user_id=user_id, act=act)
    _end_if_due(session, profile, now=act.now)
    if profile.account_status == status and profile.status_code is None:
        raise StatusUnchangedError(texts.STATUS_UNCHANGED.format(status=status))
    before = _snapshot(profile)
    _end_current_decision(session, profile, how="replaced", act=act)
    session.add(
        AccountDecision(
            user_id=user_id,
            status=status,
            reason=reason,
            decided_by=act.person_id,
            decided_at=act.now,
            until=until,
        )
    )
    _set_status(profile, status=status, reason=reason, until=until, now=act.now)
    session.flush()
    _suspend_store(session, profile.id, now=act.now)
    publish_after_commit(session, LiveEvent(user_id, END, {"reason": EndReason.ACCOUNT_CHANGED}))
    _record(session, profile, before=before, reason=reason, act=act)
    kind, title, body = _NOTIFICATIONS[status]
    _notify(session, profile, kind, title, body.format(reason=reason), now=act.now)


def reinstate_account(session: Session, *, user_id: UUID, reason: str, act: Act) -> None:
    """End the restriction or suspension of an account, and notify the person.

    :param reason: for the audit trail
    :raises NotFoundError: the person does not exist
    :raises ConflictOfInterestError: the person is the officer
    :raises StatusUnchangedError: the account is active
    :raises DeletionPendingError: only the person can cancel the deletion of the account
    """
    profile = _lock_person(session, user_id=user_id, act=act)
    _end_if_due(session, profile, now=act.now)
    if profile.account_status == _ACTIVE:
        raise StatusUnchangedError(texts.STATUS_UNCHANGED.format(status=_ACTIVE))
    if profile.status_code == DELETION_PENDING:
        raise DeletionPendingError(texts.DELETION_PENDING)
    end_decision(session, profile=profile, how="reinstated", reason=reason, act=act)


def restrict_for_deletion(session: Session, *, profile: Profile, act: Act) -> None:
    """Restrict a locked profile until the deletion is cancelled or executed, and suspend the store.

    A decision of staff about the account stays as it is.
    """
    if profile.account_status != _ACTIVE:
        return
    before = _snapshot(profile)
    _set_status(profile, status=RESTRICTED, reason=texts.DELETION_REASON, until=None, now=act.now)
    profile.status_code = DELETION_PENDING
    session.flush()
    _suspend_store(session, profile.id, now=act.now)
    publish_after_commit(session, LiveEvent(profile.id, END, {"reason": EndReason.ACCOUNT_CHANGED}))
    _record(session, profile, before=before, reason=None, act=act)


def close_account(session: Session, *, profile: Profile, now: datetime) -> None:
    """Suspend a locked profile and close the store for good, because the person is erased.

    A current decision of staff ends, so that the task for due decisions does not find the decision for ever.
    """
    _end_current_decision(session, profile, how="replaced", act=Act(_SYSTEM_ROLE, now))
    _set_status(profile, status=SUSPENDED, reason=None, until=None, now=now)
    session.flush()
    session.execute(
        update(VendorProfile)
        .where(VendorProfile.user_id == profile.id)
        .values(
            status="closed", suspended_with_owner=False, revision=VendorProfile.revision + 1, updated_at=now
        ),
        execution_options={"synchronize_session": False},
    )
    drop_cached(session, cache_tags.PRODUCTS, cache_tags.CATEGORIES)
    publish_after_commit(session, LiveEvent(profile.id, END, {"reason": EndReason.ACCOUNT_CHANGED}))


def lift_deletion(session: Session, *, profile: Profile, act: Act) -> None:
    """End the restriction of a locked profile whose deletion was cancelled, and reopen the store.

    A decision of staff about the account stays as it is.
    """
    if profile.status_code != DELETION_PENDING:
        return
    before = _snapshot(profile)
    _set_status(profile, status=_ACTIVE, reason=None, until=None, now=act.now)
    session.flush()
    _reopen_store(session, profile.id, now=act.now)
    _record(session, profile, before=before, reason=None, act=act)


def end_decision(session: Session, *, profile: Profile, how: str, reason: str | None, act: Act) -> None:
    """Make a locked profile active, reopen the store that was suspended with the account, and notify the person.

    An account whose deletion is pending becomes restricted for the deletion instead.

    :param how: ``expired``, ``reinstated`` or ``appeal``
    :param reason: for the audit trail
    """
    before = _snapshot(profile)
    _end_current_decision(session, profile, how=how, act=act)
    _set_status(profile, status=_ACTIVE, reason=None, until=None, now=act.now)
    session.flush()
    if _is_deletion_pending(session, profile.id):
        _record(session, profile, before=before, reason=reason, act=act)
        restrict_for_deletion(session, profile=profile, act=act)
        return
    _reopen_store(session, profile.id, now=act.now)
    _record(session, profile, before=before, reason=reason, act=act)
    _notify(
        session,
        profile,
        "account_reinstated",
        texts.ACCOUNT_REINSTATED_TITLE,
        texts.ACCOUNT_REINSTATED_BODY,
        now=act.now,
    )


def end_due_decisions(database: Database, *, now: datetime) -> int:
    """End all decisions whose time has passed, each in a transaction of its own.

    :return: the number of ended decisions
    """
    ended = 0
    while True:
        with database.reading() as session:
            due = session.scalars(
                select(AccountDecision.user_id)
                .where(AccountDecision.ended_at.is_(None), AccountDecision.until <= now)
                .limit(_DUE_BATCH)
            ).all()
        ended_now = sum(
            database.in_transaction(_end_due_decision, user_id=user_id, now=now) for user_id in due
        )
        ended += ended_now
        if len(due) < _DUE_BATCH or not ended_now:
            return ended


def _end_due_decision(session: Session, *, user_id: UUID, now: datetime) -> bool:
    return _end_if_due(session, lock_profile(session, user_id=user_id), now=now)


def _end_if_due(session: Session, profile: Profile, *, now: datetime) -> bool:
    """End the decision about a locked profile if its time has passed. The periodic task may be late."""
    if profile.status_until is None or profile.status_until > now:
        return False
    end_decision(session, profile=profile, how="expired", reason=None, act=Act(_SYSTEM_ROLE, now))
    return True


def lock_profile(session: Session, *, user_id: UUID) -> Profile:
    """Lock a person's profile until the end of the transaction.

    :raises NotFoundError: the person does not exist
    """
    return found(
        session.get(Profile, user_id, with_for_update={"key_share": True}, populate_existing=True),
        texts.PERSON_NOT_FOUND,
    )


def _lock_person(session: Session, *, user_id: UUID, act: Act) -> Profile:
    if user_id == act.person_id:
        raise ConflictOfInterestError(texts.OWN_ACCOUNT)
    ensure_not_last_admin(session, user_id=user_id)
    profile = lock_profile(session, user_id=user_id)
    ensure_not_erased(profile)
    return profile


def _is_deletion_pending(session: Session, user_id: UUID) -> bool:
    pending = select(DeletionRequest.id).where(
        DeletionRequest.user_id == user_id, DeletionRequest.status == "pending"
    )
    return session.scalar(pending) is not None


def _end_current_decision(session: Session, profile: Profile, *, how: str, act: Act) -> None:
    """End the current decision, if any, and close an appeal without a ruling."""
    decision = session.scalar(
        select(AccountDecision).where(
            AccountDecision.user_id == profile.id, AccountDecision.ended_at.is_(None)
        )
    )
    profile.appeal_status = None
    if decision is None:
        return
    decision.ended_at, decision.ended_how, decision.ended_by = act.now, how, act.user_id
    session.execute(
        update(AccountAppeal)
        .where(AccountAppeal.decision_id == decision.id, AccountAppeal.status == "pending")
        .values(status="closed", decided_at=act.now)
    )
    session.flush()


def _set_status(
    profile: Profile, *, status: str, reason: str | None, until: datetime | None, now: datetime
) -> None:
    profile.account_status, profile.status_reason, profile.status_until = status, reason, until
    profile.status_code = None
    profile.revision += 1
    profile.updated_at = now


def _suspend_store(session: Session, user_id: UUID, *, now: datetime) -> None:
    suspended = session.execute(
        update(VendorProfile)
        .where(VendorProfile.user_id == user_id, VendorProfile.status == "active")
        .values(
            status="suspended",
            suspended_with_owner=True,
            revision=VendorProfile.revision + 1,
            updated_at=now,
        )
        .returning(VendorProfile.id),
        execution_options={"synchronize_session": False},
    ).first()
    if suspended is not None:
        drop_cached(session, cache_tags.PRODUCTS, cache_tags.CATEGORIES)


def _reopen_store(session: Session, user_id: UUID, *, now: datetime) -> None:
    reopened = session.execute(
        update(VendorProfile)
        .where(VendorProfile.user_id == user_id, VendorProfile.suspended_with_owner)
        .values(
            status="active", suspended_with_owner=False, revision=VendorProfile.revision + 1, updated_at=now
        )
        .returning(VendorProfile.id),
        execution_options={"synchronize_session": False},
    ).first()
    if reopened is not None:
        drop_cached(session, cache_tags.PRODUCTS, cache_tags.CATEGORIES)


def _snapshot(profile: Profile) -> dict[str, str | None]:
    return {
        "accountStatus": profile.account_status,
        "until": profile.status_until.isoformat() if profile.status_until else None,
    }


def _record(
    session: Session, profile: Profile, *, before: dict[str, str | None], reason: str | None, act: Act
) -> None:
    record_audit_entry(
        session,
        act=act,
        action="person.status",
        target_type="profile",
        target_id=str(profile.id),
        before=before,
        after={**_snapshot(profile), "reason": reason},
    )


def _notify(session: Session, profile: Profile, kind: str, title: str, body: str, *, now: datetime) -> None:
    notify(
        session,
        user_id=profile.id,
        type=kind,
        title=title,
        body=body,
        link="/account",
        cause=f"account_status:{profile.revision}",
        now=now,
    )
