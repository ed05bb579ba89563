"""Who calls, and what people have saved."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import bindparam, func, literal_column, select, text
from sqlalchemy.orm import Session

from marketplace.identity.models import Address, AdminRole, Profile
from marketplace.infra.db import Statement
from marketplace.infra.prepared import Prepared
from marketplace.kernel.errors import NotFoundError
from marketplace.kernel.paging import Page, PageRequest, page_of
from marketplace.platform.models import Campus


@dataclass(frozen=True, slots=True)
class Caller:
    """The person behind a request. Role and permissions are the database's, assurance is the token's."""

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
        """Tell whether the caller has a staff role."""
        return self.role == "staff"

    def has_permission(self, permission: str) -> bool:
        """Tell whether the caller's staff role holds a permission."""
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

_SELECT_PROFILE = Statement(
    select(
        Profile.id,
        Profile.email,
        Profile.name,
        Profile.phone,
        Profile.avatar_url.label("avatarUrl"),
        Profile.role,
        Profile.staff_role.label("staffRole"),
        AdminRole.permissions,
        Profile.badges,
        Profile.account_status.label("accountStatus"),
        Profile.status_reason.label("statusReason"),
        Profile.appeal_status.label("appealStatus"),
        Profile.referral_code.label("referralCode"),
        Profile.campus_id.label("campusId"),
        Campus.name.label("campus_name"),
        Campus.slug.label("campus_slug"),
        Profile.created_at.label("createdAt"),
        Profile.updated_at.label("updatedAt"),
    )
    .outerjoin(AdminRole, AdminRole.role == Profile.staff_role)
    .outerjoin(Campus, Campus.id == Profile.campus_id)
    .where(Profile.id == bindparam("user_id"))
)

# Each once, and none that they can be reached at again. The earliest first: whoever takes an account over may change it
# as often as they like, and does not get the first one out of the list by that.
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
        ORDER BY replaced_at LIMIT :most
        """
    )
)

_ADDRESS_COLUMNS = (
    Address.id,
    Address.label,
    Address.hostel,
    Address.hall,
    Address.room_number.label("roomNumber"),
    Address.latitude,
    Address.longitude,
    Address.instructions,
    Address.phone,
    Address.is_default.label("isDefault"),
    Address.created_at.label("createdAt"),
    Address.updated_at.label("updatedAt"),
)
_SELECT_ADDRESSES = Statement(
    select(*_ADDRESS_COLUMNS)
    .where(Address.user_id == bindparam("user_id"), Address.deleted_at.is_(None))
    .order_by(Address.is_default.desc(), Address.id.desc())
)
_SELECT_ADDRESS = Statement(
    select(*_ADDRESS_COLUMNS).where(
        Address.id == bindparam("address_id"),
        Address.user_id == bindparam("user_id"),
        Address.deleted_at.is_(None),
    )
)
_COUNT_ADDRESSES = Statement(
    select(func.count().label("count"))
    .select_from(Address)
    .where(Address.user_id == bindparam("user_id"), Address.deleted_at.is_(None))
)

# Two are enough to know that there is not one.
_SELECT_PROFILES_WITH_PHONE = Statement(
    select(Profile.id).where(Profile.phone == bindparam("phone")).limit(literal_column("2"))
)


def find_caller(session: Session, *, user_id: UUID, aal: str) -> Caller | None:
    """Look up the person that a valid token names.

    :param user_id: the token's subject
    :param aal: the token's assurance level, ``aal1`` or ``aal2``
    :return: the caller, or none if there is no profile yet
    """
    row = _SELECT_CALLER.first(session, user_id=user_id)
    if row is None:
        return None
    permissions = frozenset(row.pop("permissions") or ())
    return Caller(**row, permissions=permissions, aal=aal)


def find_only_profile_with_phone(session: Session, *, phone: str) -> UUID | None:
    """Find the one profile that has a phone number.

    Numbers are what people say of themselves: of several with the same one, nobody knows whose it is.

    :param phone: in the international form
    :return: its id; none if there is none, or several
    """
    rows = _SELECT_PROFILES_WITH_PHONE.all(session, phone=phone)
    return rows[0]["id"] if len(rows) == 1 else None


def fetch_profile(session: Session, *, user_id: UUID) -> dict[str, Any]:
    """Give a person's own view of their profile.

    :raises NotFoundError: there is no such profile
    """
    row = _SELECT_PROFILE.first(session, user_id=user_id)
    if row is None:
        raise NotFoundError
    name, slug = row.pop("campus_name"), row.pop("campus_slug")
    row["campus"] = {"id": row["campusId"], "name": name, "slug": slug} if row["campusId"] else None
    row["permissions"] = row["permissions"] or []
    return row


def list_addresses(session: Session, *, user_id: UUID) -> list[dict[str, Any]]:
    """List a person's saved addresses, the default one first; they are few by rule."""
    return [_with_float_coordinates(row) for row in _SELECT_ADDRESSES.all(session, user_id=user_id)]


def list_addresses_page(session: Session, *, user_id: UUID, page: PageRequest) -> Page:
    """List a person's saved addresses by page, the default one first.

    :param page: which; its position is whether the last address shown is the default one, and its id
    """
    rows = list_addresses(session, user_id=user_id)
    last = page.after("flag", "id")
    if page.position is not None:
        rows = [row for row in rows if _address_position(row) < last]
    return page_of(rows, request=page, position_of=_address_position)


def _address_position(row: dict[str, Any]) -> list[Any]:
    return [row["isDefault"], str(row["id"])]


def fetch_address(session: Session, *, user_id: UUID, address_id: UUID) -> dict[str, Any]:
    """Give one of a person's saved addresses.

    :raises NotFoundError: there is none of that id, or it is somebody else's
    """
    row = _SELECT_ADDRESS.first(session, user_id=user_id, address_id=address_id)
    if row is None:
        raise NotFoundError("There is no such address.")
    return _with_float_coordinates(row)


def count_addresses(session: Session, *, user_id: UUID) -> int:
    """Count a person's saved addresses."""
    count: int = _COUNT_ADDRESSES.one(session, user_id=user_id)["count"]
    return count


def _with_float_coordinates(row: dict[str, Any]) -> dict[str, Any]:
    for name in ("latitude", "longitude"):
        row[name] = None if row[name] is None else float(row[name])
    return row


def list_former_contacts(session: Session, *, user_id: UUID, since: datetime, limit: int) -> list[UUID]:
    """List where somebody could be reached before and can't be now, the earliest first, by id.

    :param since: those that were replaced since then; what was given up long ago may be somebody else's by now
    :param limit: at most so many
    """
    return [
        row["id"] for row in _SELECT_FORMER_CONTACTS.all(session, user_id=user_id, since=since, most=limit)
    ]


_MAX_OFFICERS = 100
_SELECT_OFFICERS_WITH_PERMISSION = Statement(
    text(
        """
        SELECT p.id FROM profiles p JOIN admin_roles r ON r.role = p.staff_role
        WHERE p.role = 'staff' AND p.account_status = 'active' AND :permission = ANY(r.permissions)
            AND p.id IS DISTINCT FROM CAST(:besides AS uuid)
        ORDER BY p.created_at DESC, p.id LIMIT :most
        """
    )
)


def list_officers_with_permission(
    session: Session, *, permission: str, excluded_officer_id: UUID | None = None
) -> list[UUID]:
    """Tell which officers hold a permission and may act, at most the 100 latest of them.

    :param excluded_officer_id: an officer who is left out; none for nobody
    """
    rows = _SELECT_OFFICERS_WITH_PERMISSION.all(
        session, permission=permission, besides=excluded_officer_id, most=_MAX_OFFICERS
    )
    return [row["id"] for row in rows]
