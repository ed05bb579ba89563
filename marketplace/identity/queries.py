"""Queries of callers, profiles, addresses and officers."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import bindparam, case, func, literal, select, text
from sqlalchemy.orm import Session, with_expression

from marketplace.identity.models import AdminRole, Profile
from marketplace.infra.sql.statements import Prepared, Statement
from marketplace.kernel.errors import NotFoundError
from marketplace.kernel.paging import Page, PageRequest, page_of
from marketplace.platform.models import Campus

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
        Profile.account_status,
        Profile.campus_id,
        AdminRole.permissions,
    )
    .outerjoin(AdminRole, AdminRole.role == Profile.staff_role)
    .where(Profile.id == bindparam("user_id"))
)


def find_caller(session: Session, *, user_id: UUID, aal: str) -> Caller | None:
    """Find the caller for the subject of a valid token.

    :param user_id: the token's subject
    :param aal: the token's assurance level, ``aal1`` or ``aal2``
    :return: none if the user has no profile yet
    """
    row = _SELECT_CALLER.first(session, user_id=user_id)
    if row is None:
        return None
    permissions = frozenset(row.pop("permissions") or ())
    return Caller(**row, permissions=permissions, aal=aal)


def find_only_profile_with_phone(session: Session, *, phone: str) -> UUID | None:
    """Find the only profile with a phone number.

    Phone numbers in profiles are unverified, so a number that several profiles share identifies no profile.

    :param phone: in international format
    :return: the profile's id; none for no profile or several
    """
    ids = session.scalars(select(Profile.id).where(Profile.phone == phone).limit(2)).all()
    return ids[0] if len(ids) == 1 else None


def fetch_profile(session: Session, *, user_id: UUID, media_base_url: str) -> Profile:
    """Fetch the owner's view of a profile, with permissions, campus and the avatar's URL.

    :param media_base_url: the base URL of uploaded images
    :raises NotFoundError: the profile does not exist
    """
    campus = func.jsonb_build_object("id", Campus.id, "name", Campus.name, "slug", Campus.slug)
    profile = session.scalar(
        select(Profile)
        .outerjoin(AdminRole, AdminRole.role == Profile.staff_role)
        .outerjoin(Campus, Campus.id == Profile.campus_id)
        .where(Profile.id == user_id)
        .options(
            with_expression(
                Profile.shown_avatar_url,
                func.coalesce(Profile.avatar_url, literal(f"{media_base_url}/") + Profile.avatar_key),
            ),
            with_expression(Profile.permissions, func.coalesce(AdminRole.permissions, [])),
            with_expression(Profile.campus, case((Campus.id.is_not(None), campus))),
        ),
        execution_options={"populate_existing": True},
    )
    if profile is None:
        raise NotFoundError
    return profile


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
            SELECT DISTINCT ON (f.contact) f.id, f.replaced_at
            FROM former_contacts f JOIN profiles p ON p.id = f.user_id
            WHERE f.user_id = :user_id AND f.replaced_at >= :since
                AND f.contact IS DISTINCT FROM CASE f.kind WHEN 'phone' THEN p.phone ELSE p.email END
            ORDER BY f.contact, f.replaced_at
        ) each_once
        ORDER BY replaced_at LIMIT :limit
        """
    )
)


def list_former_contacts(session: Session, *, user_id: UUID, since: datetime, limit: int) -> list[UUID]:
    """List the ids of a user's former contacts, the earliest first.

    :param since: ignore contacts replaced earlier; another person may have an old number by now
    :param limit: the maximum number of contacts
    """
    return _SELECT_FORMER_CONTACTS.scalars(session, user_id=user_id, since=since, limit=limit)


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
