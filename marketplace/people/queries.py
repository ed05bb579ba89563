"""Search of people, and the view of a person, for staff."""

import re
import unicodedata
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import ColumnElement, ScalarSelect, func, select, union
from sqlalchemy.orm import Session

from marketplace.applications.models import VendorApplication
from marketplace.identity.models import AccountAppeal, AccountDecision, Profile
from marketplace.kernel.errors import found
from marketplace.kernel.ids import parse_uuid
from marketplace.kernel.paging import TablePage, TableRequest
from marketplace.kernel.phones import normalise_phone
from marketplace.ledger import accounts
from marketplace.ledger.queries import fetch_balances
from marketplace.notifications.devices import list_devices
from marketplace.notifications.models import UserDevice
from marketplace.orders.models import Order
from marketplace.people import texts
from marketplace.reports.queries import ReportCounts, count_reports_of_person
from marketplace.vendors.models import VendorProfile

SORTS = ("created_at", "name")
LATEST_ORDERS = 10
LATEST_DECISIONS = 10
LATEST_APPLICATIONS = 10
_ORDER_NUMBER = re.compile(r"CM-\d{1,18}", re.ASCII | re.IGNORECASE)


@dataclass(frozen=True, kw_only=True)
class PeopleFilters:
    """Filters of the list of people. None means that a filter is not applied.

    :param text: parts of name or e-mail address, a phone number, an order number or an id
    """

    text: str | None = None
    role: str | None = None
    staff_role: str | None = None
    account_status: str | None = None
    campus_id: UUID | None = None


@dataclass(frozen=True)
class PersonRow:
    """A person in the list of people."""

    id: UUID
    name: str | None
    email: str | None
    phone: str | None
    role: str
    staff_role: str | None
    account_status: str
    campus_id: UUID | None
    created_at: datetime


_ROW_COLUMNS = (
    Profile.id,
    Profile.name,
    Profile.email,
    Profile.phone,
    Profile.role,
    Profile.staff_role,
    Profile.account_status,
    Profile.campus_id,
    Profile.created_at,
)


def list_people(session: Session, *, filters: PeopleFilters, table: TableRequest) -> TablePage:
    """List people by page, in two queries.

    :param table: sorted by one of ``SORTS``
    """
    conditions = _conditions(filters)
    key = {"created_at": Profile.created_at, "name": func.lower(Profile.name)}[table.sort]
    order = (
        (key.desc().nulls_last(), Profile.id.desc())
        if table.descending
        else (key.asc().nulls_last(), Profile.id)
    )
    rows = session.execute(
        select(*_ROW_COLUMNS).where(*conditions).order_by(*order).limit(table.limit).offset(table.offset)
    )
    total = session.scalar(select(func.count()).select_from(Profile).where(*conditions))
    return TablePage([PersonRow(*row) for row in rows], table, total or 0)


def fold_search_text(given: str) -> str:
    """Convert a text to lower case without accents, as the database function ``people_search_text`` does."""
    decomposed = unicodedata.normalize("NFKD", given)
    return "".join(character for character in decomposed if not unicodedata.combining(character)).lower()


def _conditions(filters: PeopleFilters) -> list[ColumnElement[bool]]:
    equal = {
        Profile.role: filters.role,
        Profile.staff_role: filters.staff_role,
        Profile.account_status: filters.account_status,
        Profile.campus_id: filters.campus_id,
    }
    conditions = [column == value for column, value in equal.items() if value is not None]
    return conditions + (_text_conditions(filters.text) if filters.text else [])


def _text_conditions(given: str) -> list[ColumnElement[bool]]:
    """Return the conditions of a search text. Ids, order numbers and phone numbers are exact."""
    if (person_id := parse_uuid(given)) is not None:
        return [Profile.id == person_id]
    if _ORDER_NUMBER.fullmatch(given):
        return [Profile.id.in_(_parties_of_order(given.upper()))]
    if (phone := normalise_phone(given)) is not None:
        return [Profile.phone_index == phone]
    searched = func.people_search_text(Profile.name, Profile.email)
    return [searched.contains(word, autoescape=True) for word in fold_search_text(given).split()]


def _parties_of_order(number: str) -> ScalarSelect[Any]:
    buyer = select(Order.buyer_id).where(Order.number == number)
    vendor = (
        select(VendorProfile.user_id)
        .join(Order, Order.vendor_id == VendorProfile.id)
        .where(Order.number == number)
    )
    return union(buyer, vendor).scalar_subquery()


@dataclass(frozen=True)
class PersonOrder:
    """An order in the view of a person. ``as_role`` tells whether the person bought or sold."""

    id: UUID
    number: str
    status: str
    total_minor: int
    as_role: str
    created_at: datetime


@dataclass(frozen=True)
class PersonStore:
    """The store of a person, with the balance in kobo that the platform owes the store."""

    id: UUID
    display_name: str
    slug: str
    status: str
    verified: bool
    completed_orders: int
    payable_minor: int


@dataclass(frozen=True)
class PersonDecision:
    """A decision about an account, for staff. ``appeal_status`` is none without an appeal."""

    id: UUID
    status: str
    reason: str
    decided_at: datetime
    decided_by: UUID
    until: datetime | None
    ended_at: datetime | None
    ended_how: str | None
    appeal_id: UUID | None
    appeal_status: str | None


@dataclass(frozen=True)
class PersonApplication:
    """An application of a person to open a store."""

    id: UUID
    status: str
    store_name: str
    slug: str
    created_at: datetime
    decided_at: datetime | None


@dataclass(frozen=True)
class Person(PersonRow):
    """A person with store, wallet and orders, for staff. Amounts are in kobo.

    ``orders_bought`` and ``orders_sold`` count orders in all states. ``latest_orders`` has at most ``LATEST_ORDERS``,
    ``decisions`` the latest ``LATEST_DECISIONS``, and ``applications`` the latest ``LATEST_APPLICATIONS``.
    """

    badges: list[str]
    status_reason: str | None
    appeal_status: str | None
    referral_code: str
    updated_at: datetime
    wallet_minor: int
    debt_minor: int
    store: PersonStore | None
    orders_bought: int
    orders_sold: int
    latest_orders: list[PersonOrder]
    status_until: datetime | None
    decisions: list[PersonDecision]
    report_counts: ReportCounts
    devices: list[UserDevice]
    applications: list[PersonApplication]


def show_person(session: Session, *, user_id: UUID) -> Person:
    """Show a person in a fixed number of queries.

    :raises NotFoundError: the person does not exist
    """
    profile = found(session.get(Profile, user_id, populate_existing=True), texts.PERSON_NOT_FOUND)
    store = session.scalar(select(VendorProfile).where(VendorProfile.user_id == user_id))
    own = [accounts.wallet(user_id), accounts.buyer_receivable(user_id)]
    balances = fetch_balances(session, *own, *([accounts.vendor_payable(store.id)] if store else []))
    bought = Order.buyer_id == user_id
    sold = Order.vendor_id == store.id if store else None
    return Person(
        **{column.key: getattr(profile, column.key) for column in _ROW_COLUMNS},
        badges=profile.badges,
        status_reason=profile.status_reason,
        appeal_status=profile.appeal_status,
        referral_code=profile.referral_code,
        updated_at=profile.updated_at,
        wallet_minor=balances[0],
        debt_minor=balances[1],
        store=PersonStore(
            id=store.id,
            display_name=store.display_name,
            slug=store.slug,
            status=store.status,
            verified=store.verified,
            completed_orders=store.completed_orders,
            payable_minor=balances[2],
        )
        if store
        else None,
        orders_bought=_count_orders(session, bought),
        orders_sold=0 if sold is None else _count_orders(session, sold),
        latest_orders=_list_latest_orders(session, user_id, bought, sold),
        status_until=profile.status_until,
        decisions=_list_decisions(session, user_id),
        report_counts=count_reports_of_person(session, user_id=user_id),
        devices=list_devices(session, user_id=user_id),
        applications=_list_applications(session, user_id),
    )


def _list_decisions(session: Session, user_id: UUID) -> list[PersonDecision]:
    columns = [field.name for field in fields(PersonDecision) if not field.name.startswith("appeal")]
    rows = session.execute(
        select(
            *(getattr(AccountDecision, name) for name in columns),
            AccountAppeal.id.label("appeal_id"),
            AccountAppeal.status.label("appeal_status"),
        )
        .outerjoin(AccountAppeal, AccountAppeal.decision_id == AccountDecision.id)
        .where(AccountDecision.user_id == user_id)
        .order_by(AccountDecision.id.desc())
        .limit(LATEST_DECISIONS)
    )
    return [PersonDecision(**row) for row in rows.mappings()]


def _list_applications(session: Session, user_id: UUID) -> list[PersonApplication]:
    columns = (getattr(VendorApplication, field.name) for field in fields(PersonApplication))
    rows = session.execute(
        select(*columns)
        .where(VendorApplication.user_id == user_id)
        .order_by(VendorApplication.id.desc())
        .limit(LATEST_APPLICATIONS)
    )
    return [PersonApplication(**row) for row in rows.mappings()]


def _count_orders(session: Session, condition: ColumnElement[bool]) -> int:
    return session.scalar(select(func.count()).select_from(Order).where(condition)) or 0


def _list_latest_orders(
    session: Session, user_id: UUID, bought: ColumnElement[bool], sold: ColumnElement[bool] | None
) -> list[PersonOrder]:
    columns = (Order.id, Order.number, Order.status, Order.total_minor, Order.buyer_id, Order.created_at)
    # Each part reads an index in the order of ids.
    parts = [
        select(*columns).where(condition).order_by(Order.id.desc()).limit(LATEST_ORDERS).subquery()
        for condition in (bought, sold)
        if condition is not None
    ]
    found_orders = union(*(select(part) for part in parts)).subquery()
    rows = session.execute(select(found_orders).order_by(found_orders.c.id.desc()).limit(LATEST_ORDERS))
    return [
        PersonOrder(
            id=row.id,
            number=row.number,
            status=row.status,
            total_minor=row.total_minor,
            as_role="buyer" if row.buyer_id == user_id else "vendor",
            created_at=row.created_at,
        )
        for row in rows
    ]
