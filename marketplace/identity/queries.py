"""Queries of callers, profiles, addresses and officers."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import bindparam, case, select, text
from sqlalchemy.orm import Session

from marketplace.identity import texts
from marketplace.identity.models import CONTACT, CONTACT_INDEX, AdminRole, Profile
from marketplace.identity.preferences import Preferences, resolve_preferences
from marketplace.infra.sql.statements import Prepared, Statement
from marketplace.kernel.errors import AccountErasedError, NotFoundError, found
from marketplace.kernel.paging import Page, PageRequest, page_of

ROLES = ("buyer", "vendor", "staff")
ACCOUNT_STATUSES = ("active", "restricted", "suspended")


@dataclass(frozen=True, slots=True)
class Caller:
    """The user of a request. The database has the role and permissions, the token has the assurance level."""

    id: UUID
    email: str | None
    role: str
    staff_role: str | None
    permissions: frozenset[str]
    account_status: str
    campus_id: UUID | None
    aal: str
    is_deletion_pending: bool = False

    @property
    def is_staff(self) -> bool:
        """Whether the caller has a staff role."""
        return self.role == "staff"

    def has_permission(self, permission: str) -> bool:
        """Return whether the caller's staff role has a permission."""
        return permission in self.permissions


_SELECT_CALLER = Prepared(
    select(
        Profile.id,
        Profile.email,
        Profile.role,
        Profile.staff_role,
        # The stored status lasts until a periodic task ends the decision, a minute at most.
        case((Profile.status_until <= bindparam("now"), "active"), else_=Profile.account_status).label(
            "account_status"
        ),
        Profile.campus_id,
        (Profile.status_code.is_not_distinct_from("deletion_pending")).label("is_deletion_pending"),
        Profile.erased_at,
        AdminRole.permissions,
    )
    .outerjoin(AdminRole, AdminRole.role == Profile.staff_role)
    .where(Profile.id == bindparam("user_id"))
)


def find_caller(session: Session, *, user_id: UUID, aal: str, now: datetime) -> Caller | None:
    """Find the caller for the subject of a valid token.

    :param user_id: the token's subject
    :param aal: the token's assurance level, ``aal1`` or ``aal2``
    :param now: a restriction or suspension ends at ``status_until``
    :return: none if the user has no profile yet
    :raises AccountErasedError: the person had the personal data erased
    """
    row = _SELECT_CALLER.first(session, user_id=user_id, now=now)
    if row is None:
        return None
    if row.pop("erased_at") is not None:
        raise AccountErasedError(texts.ACCOUNT_ERASED)
    permissions = frozenset(row.pop("permissions") or ())
    return Caller(**row, permissions=permissions, aal=aal)


def find_profile_with_phone(session: Session, *, phone: str) -> UUID | None:
    """Find the profile that has verified a phone number. A number is verified for one profile at a time.

    :param phone: in international format
    :return: the profile's id, or none
    """
    return session.scalar(
        select(Profile.id).where(Profile.phone_index == phone, Profile.phone_verified_at.is_not(None))
    )


@dataclass(frozen=True)
class OwnProfile:
    """A profile as the owner sees the profile."""

    id: UUID
    email: str | None
    name: str | None
    phone: str | None
    phone_verified: bool
    avatar_url: str | None
    avatar_key: str | None
    media_base_url: str
    role: str
    staff_role: str | None
    permissions: list[str]
    badges: list[str]
    account_status: str
    status_reason: str | None
    appeal_status: str | None
    referral_code: str
    campus_id: UUID | None
    campus_name: str | None
    campus_slug: str | None
    notification_preferences: dict[str, dict[str, bool]]
    language: str
    revision: int
    created_at: datetime
    updated_at: datetime

    @property
    def shown_avatar_url(self) -> str | None:
        """The URL of the avatar: the given address, or the uploaded picture."""
        if self.avatar_url is not None or self.avatar_key is None:
            return self.avatar_url
        return f"{self.media_base_url}/{self.avatar_key}"

    @property
    def campus(self) -> dict[str, Any] | None:
        """The campus, or none."""
        if self.campus_name is None:
            return None
        return {"id": self.campus_id, "name": self.campus_name, "slug": self.campus_slug}

    @property
    def all_notification_preferences(self) -> Preferences:
        """The channels of all kinds of messages, with the defaults where the user decided nothing."""
        return resolve_preferences(self.notification_preferences)


_SELECT_OWN_PROFILE = Prepared(
    text(
        """
        SELECT p.id, p.email, p.name, p.phone, p.phone_verified_at IS NOT NULL AS phone_verified, p.avatar_url,
            p.avatar_key, CAST(:media_base_url AS text) AS media_base_url, p.role, p.staff_role,
            coalesce(r.permissions, '{}') AS permissions, p.badges,
            CASE WHEN p.status_until <= :now THEN 'active' ELSE p.account_status END AS account_status,
            CASE WHEN p.status_until <= :now THEN NULL ELSE p.status_reason END AS status_reason,
            CASE WHEN p.status_until <= :now THEN NULL ELSE p.appeal_status END AS appeal_status,
            p.referral_code, p.campus_id, c.name AS campus_name, c.slug AS campus_slug,
            p.notification_preferences, p.language, p.revision, p.created_at, p.updated_at
        FROM profiles p
            LEFT JOIN admin_roles r ON r.role = p.staff_role
            LEFT JOIN campuses c ON c.id = p.campus_id
        WHERE p.id = :user_id
        """
    ),
    row=OwnProfile,
    encrypted={"phone": CONTACT},
)


def fetch_profile(session: Session, *, user_id: UUID, media_base_url: str, now: datetime) -> OwnProfile:
    """Fetch the owner's view of a profile, with permissions and campus.

    :param media_base_url: the base URL of uploaded images
    :param now: a restriction or suspension ends at ``status_until``
    :raises NotFoundError: the profile does not exist
    """
    session.flush()
    return found(
        _SELECT_OWN_PROFILE.first(session, user_id=user_id, media_base_url=media_base_url, now=now),
        "Profile not found.",
    )


@dataclass(frozen=True)
class SavedAddress:
    """A saved delivery address of a user."""

    id: UUID
    label: str | None
    hostel: str
    hall: str | None
    room_number: str | None
    latitude: float | None
    longitude: float | None
    instructions: str | None
    phone: str | None
    is_default: bool
    created_at: datetime
    updated_at: datetime

    @property
    def position(self) -> list[Any]:
        """The position of the address in the paged list."""
        return [self.is_default, str(self.id)]


_SELECT_ADDRESSES = Prepared(
    text(
        """
        SELECT id, label, hostel, hall, room_number, latitude::float8, longitude::float8, instructions, phone,
            is_default, created_at, updated_at
        FROM addresses WHERE user_id = :user_id AND deleted_at IS NULL ORDER BY is_default DESC, id DESC
        """
    ),
    row=SavedAddress,
    encrypted={"phone": CONTACT},
)


def list_addresses(session: Session, *, user_id: UUID) -> list[SavedAddress]:
    """List a user's saved addresses, the default address first. Users have at most ``MAX_ADDRESSES`` addresses."""
    return _SELECT_ADDRESSES.all(session, user_id=user_id)


def list_addresses_page(session: Session, *, user_id: UUID, page: PageRequest) -> Page:
    """List a user's saved addresses by page, the default address first.

    :param page: a position holds the last row's default flag and id
    """
    addresses, last = list_addresses(session, user_id=user_id), page.after("flag", "id")
    if page.position is not None:
        addresses = [address for address in addresses if address.position < last]
    return page_of(addresses, request=page, position_of=lambda address: address.position)


def fetch_address(session: Session, *, user_id: UUID, address_id: UUID) -> SavedAddress:
    """Fetch a saved address of a user.

    :raises NotFoundError: the address does not exist, or belongs to another user
    """
    for address in list_addresses(session, user_id=user_id):
        if address.id == address_id:
            return address
    raise NotFoundError("Address not found.")


# Distinct contacts without the current contacts, the earliest first. An attacker who changes the contact of a stolen
# account many times therefore cannot push the original contact out of the list.
_SELECT_FORMER_CONTACTS = Statement(
    text(
        """
        SELECT id FROM (
            SELECT DISTINCT ON (contact_index) id, replaced_at FROM former_contacts
            WHERE user_id = :user_id AND replaced_at >= :since
                AND contact_index <> ALL(CAST(:current_indexes AS bytea[]))
            ORDER BY contact_index, replaced_at, id
        ) each_once
        ORDER BY replaced_at, id LIMIT :limit
        """
    )
)


def list_former_contacts(session: Session, *, user_id: UUID, since: datetime, limit: int) -> list[UUID]:
    """List the ids of a user's former contacts, the earliest first.

    :param since: ignore contacts replaced earlier; another person may have an old number by now
    :param limit: the maximum number of contacts
    """
    profile = session.get_one(Profile, user_id)
    current = [CONTACT_INDEX.compute(contact) for contact in (profile.phone, profile.email) if contact]
    return _SELECT_FORMER_CONTACTS.scalars(
        session, user_id=user_id, current_indexes=current, since=since, limit=limit
    )


_MAX_OFFICERS = 100
_SELECT_OFFICERS_WITH_PERMISSION = Statement(
    text(
        """
        SELECT p.id FROM profiles p JOIN admin_roles r ON r.role = p.staff_role
        WHERE p.role = 'staff' AND p.account_status = 'active' AND :permission = ANY(r.permissions)
            AND p.id IS DISTINCT FROM CAST(:excluded_id AS uuid)
        ORDER BY p.created_at DESC, p.id LIMIT :limit
        """
    )
)


def list_officers_with_permission(
    session: Session, *, permission: str, excluded_officer_id: UUID | None = None
) -> list[UUID]:
    """List the ids of active officers with a permission, at most the 100 latest.

    :param excluded_officer_id: an officer to leave out
    """
    return _SELECT_OFFICERS_WITH_PERMISSION.scalars(
        session, permission=permission, excluded_id=excluded_officer_id, limit=_MAX_OFFICERS
    )
