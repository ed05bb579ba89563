"""Grant and revoke staff roles."""

from uuid import UUID

from sqlalchemy import func, select, text
from sqlalchemy.orm import Session

from marketplace.audit.operations import Act, record_audit_entry
from marketplace.identity.models import Profile
from marketplace.infra.sql.statements import Statement
from marketplace.kernel.errors import (
    ConflictError,
    ConflictOfInterestError,
    NotFoundError,
    ValidationError,
    found,
)
from marketplace.notifications.operations import notify
from marketplace.people import texts
from marketplace.vendors.queries import find_store_of_user

ADMIN = "admin"
CAMPUS_REP = "campus_rep"


class LastAdminError(ConflictError):
    """The platform would have no active administrator."""

    reason = "last-admin"


class NotStaffError(ConflictError):
    """The person has no staff role to revoke."""

    reason = "not-staff"


def grant_staff_role(session: Session, *, user_id: UUID, staff_role: str, reason: str, act: Act) -> None:
    """Give a person a staff role, instead of any earlier staff role. The change applies to the next request.

    :param staff_role: a key of ``admin_roles``
    :param reason: for the audit trail
    :raises NotFoundError: the person does not exist
    :raises ConflictOfInterestError: the person is the officer
    :raises LastAdminError: the person is the last active administrator
    :raises ValidationError: a campus representative needs a campus
    """
    profile = _lock_for_role_change(session, user_id=user_id, act=act)
    if profile.staff_role == staff_role:
        return
    if staff_role == CAMPUS_REP and profile.campus_id is None:
        raise ValidationError.of("staffRole", texts.CAMPUS_REQUIRED)
    _ensure_other_admin(session, profile)
    _change_role(session, profile, role="staff", staff_role=staff_role, reason=reason, act=act)
    notify(
        session,
        user_id=user_id,
        type="staff_role_granted",
        title=texts.STAFF_ROLE_GRANTED_TITLE,
        body=texts.STAFF_ROLE_GRANTED_BODY.format(staff_role=staff_role),
        link="/admin",
        cause=f"staff_role:{staff_role}:{act.now.isoformat()}",
        now=act.now,
    )


def revoke_staff_role(session: Session, *, user_id: UUID, reason: str, act: Act) -> None:
    """Take a person's staff role. The person becomes a vendor with a store, else a buyer.

    :param reason: for the audit trail
    :raises NotFoundError: the person does not exist
    :raises ConflictOfInterestError: the person is the officer
    :raises NotStaffError: the person has no staff role
    :raises LastAdminError: the person is the last active administrator
    """
    profile = _lock_for_role_change(session, user_id=user_id, act=act)
    revoked = profile.staff_role
    if revoked is None:
        raise NotStaffError(texts.NOT_STAFF)
    _ensure_other_admin(session, profile)
    role = "vendor" if find_store_of_user(session, user_id=user_id) else "buyer"
    _change_role(session, profile, role=role, staff_role=None, reason=reason, act=act)
    notify(
        session,
        user_id=user_id,
        type="staff_role_revoked",
        title=texts.STAFF_ROLE_REVOKED_TITLE,
        body=texts.STAFF_ROLE_REVOKED_BODY.format(staff_role=revoked),
        link=None,
        cause=f"staff_role:{revoked}:revoked:{act.now.isoformat()}",
        now=act.now,
    )


# Two administrators who revoke each other's role at once must not both succeed, so changes run one after the other.
_ACQUIRE_STAFF_LOCK = Statement(text("SELECT pg_advisory_xact_lock(hashtext('staff_roles'))"))


def ensure_not_last_admin(session: Session, *, user_id: UUID) -> None:
    """Refuse an act that would leave the platform without an active administrator, such as a suspension.

    Acts on administrators run one after the other until the end of the transaction.

    :raises LastAdminError: the person is the last active administrator
    """
    _ACQUIRE_STAFF_LOCK.first(session)
    profile = session.get(Profile, user_id, populate_existing=True)
    if profile is not None:
        _ensure_other_admin(session, profile)


def _lock_for_role_change(session: Session, *, user_id: UUID, act: Act) -> Profile:
    _ACQUIRE_STAFF_LOCK.first(session)
    profile = found(
        session.get(Profile, user_id, with_for_update={"key_share": True}, populate_existing=True),
        texts.PERSON_NOT_FOUND,
    )
    if profile.id == act.person_id:
        raise ConflictOfInterestError(texts.OWN_ROLE)
    ensure_not_erased(profile)
    return profile


def ensure_not_erased(profile: Profile) -> None:
    """Refuse an act of staff on the empty profile of an erased person.

    :raises NotFoundError: the person is erased
    """
    if profile.erased_at is not None:
        raise NotFoundError(texts.PERSON_ERASED)


def _ensure_other_admin(session: Session, profile: Profile) -> None:
    if profile.staff_role != ADMIN or profile.account_status != "active":
        return
    others = select(func.count()).where(
        Profile.staff_role == ADMIN, Profile.account_status == "active", Profile.id != profile.id
    )
    if not session.scalar(others):
        raise LastAdminError(texts.LAST_ADMIN)


def _change_role(
    session: Session, profile: Profile, *, role: str, staff_role: str | None, reason: str, act: Act
) -> None:
    before = {"role": profile.role, "staffRole": profile.staff_role}
    profile.role, profile.staff_role = role, staff_role
    profile.updated_at = act.now
    session.flush()
    record_audit_entry(
        session,
        act=act,
        action="person.role",
        target_type="profile",
        target_id=str(profile.id),
        before=before,
        after={"role": role, "staffRole": staff_role, "reason": reason},
    )
