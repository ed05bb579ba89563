"""Staff roles: granted and revoked by administrators, audited, and never the last administrator's."""

from uuid import uuid4

import pytest
from sqlalchemy import select, text
from sqlalchemy.orm import Session

from marketplace.audit.operations import Act
from marketplace.identity.models import AdminRole
from marketplace.identity.permissions import STAFF_ROLES
from marketplace.identity.queries import Caller
from marketplace.kernel.errors import ConflictOfInterestError, NotFoundError, ValidationError
from marketplace.people.staff_roles import (
    LastAdminError,
    NotStaffError,
    ensure_not_last_admin,
    grant_staff_role,
    revoke_staff_role,
)
from tests.support.finance import audit_entries_of, notification_types_of
from tests.support.purchases import NOW, Shop, make_person, row_of

REASON = "The team changes in March."


@pytest.fixture(autouse=True)
def _other_administrators_are_suspended(session: Session) -> None:
    session.execute(text("UPDATE profiles SET account_status = 'suspended' WHERE staff_role = 'admin'"))


@pytest.fixture
def admin(session: Session) -> Caller:
    return make_person(session, role="staff", staff_role="admin")


def act_of(officer: Caller) -> Act:
    return Act("admin", NOW, user_id=officer.id, ip_address="127.0.0.1", user_agent="Firefox")


def grant(session: Session, officer: Caller, person: Caller, staff_role: str) -> None:
    grant_staff_role(session, user_id=person.id, staff_role=staff_role, reason=REASON, act=act_of(officer))


def revoke(session: Session, officer: Caller, person: Caller) -> None:
    revoke_staff_role(session, user_id=person.id, reason=REASON, act=act_of(officer))


def test_role_names_are_those_of_the_database(session: Session) -> None:
    assert set(session.scalars(select(AdminRole.role))) == set(STAFF_ROLES)


def test_changes_of_a_role_are_audited_and_notified(session: Session, admin: Caller) -> None:
    person = make_person(session)
    grant(session, admin, person, "support")
    grant(session, admin, person, "orders")
    revoke(session, admin, person)

    buyer, support, orders = (
        {"role": role, "staffRole": staff_role}
        for role, staff_role in (("buyer", None), ("staff", "support"), ("staff", "orders"))
    )
    reason = {"reason": REASON}
    assert audit_entries_of(session, str(person.id)) == [
        ("person.role", buyer, support | reason),
        ("person.role", support, orders | reason),
        ("person.role", orders, buyer | reason),
    ]
    assert notification_types_of(session, person.id) == [
        "staff_role_granted",
        "staff_role_granted",
        "staff_role_revoked",
    ]


def test_repeated_grant_of_same_role_changes_nothing(session: Session, admin: Caller) -> None:
    person = make_person(session)
    grant(session, admin, person, "support")
    grant(session, admin, person, "support")
    assert len(audit_entries_of(session, str(person.id))) == 1


def test_person_with_store_becomes_vendor_after_revocation(
    session: Session, admin: Caller, shop: Shop
) -> None:
    grant(session, admin, shop.vendor, "support")
    revoke(session, admin, shop.vendor)
    assert row_of(session, "profiles", id=shop.vendor.id)["role"] == "vendor"


def test_nobody_changes_the_own_role(session: Session, admin: Caller) -> None:
    make_person(session, role="staff", staff_role="admin")
    with pytest.raises(ConflictOfInterestError):
        grant(session, admin, admin, "finance")
    with pytest.raises(ConflictOfInterestError):
        revoke(session, admin, admin)


def test_last_active_administrator_keeps_the_role(session: Session, admin: Caller) -> None:
    officer = make_person(session)  # a former administrator, whose request is still running
    for change in (revoke, lambda *people: grant(*people, "finance")):
        with pytest.raises(LastAdminError):
            change(session, officer, admin)
    with pytest.raises(LastAdminError):
        ensure_not_last_admin(session, user_id=admin.id)


def test_one_of_two_administrators_can_be_revoked(session: Session, admin: Caller) -> None:
    other = make_person(session, role="staff", staff_role="admin")
    ensure_not_last_admin(session, user_id=other.id)
    revoke(session, admin, other)
    with pytest.raises(LastAdminError):
        ensure_not_last_admin(session, user_id=admin.id)


def test_person_without_staff_role_has_nothing_to_revoke(session: Session, admin: Caller) -> None:
    with pytest.raises(NotStaffError):
        revoke(session, admin, make_person(session))


def test_campus_representative_needs_a_campus(session: Session, admin: Caller, shop: Shop) -> None:
    person = make_person(session)
    with pytest.raises(ValidationError) as refused:
        grant(session, admin, person, "campus_rep")
    assert [fault.name for fault in refused.value.invalid_params] == ["staffRole"]
    session.execute(
        text("UPDATE profiles SET campus_id = :campus WHERE id = :id"),
        {"campus": shop.campus_id, "id": person.id},
    )
    grant(session, admin, person, "campus_rep")
    assert row_of(session, "profiles", id=person.id)["staff_role"] == "campus_rep"


def test_unknown_person_is_not_found(session: Session, admin: Caller) -> None:
    with pytest.raises(NotFoundError):
        revoke_staff_role(session, user_id=uuid4(), reason=REASON, act=act_of(admin))
