"""Retention of personal rows: each limited table of the register loses its old rows and keeps the others."""

from datetime import date, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.infra.db import Database
from marketplace.kernel.ids import first_id_of
from marketplace.models import metadata
from marketplace.notifications.operations import notify
from marketplace.privacy.register import PERSONAL_TABLES
from marketplace.privacy.retention import delete_expired_rows, list_limited_tables
from tests.support.purchases import NOW, make_person, make_shop

SETUPS = {
    "assistant_usage": "INSERT INTO assistant_usage (user_id, day, purpose) VALUES (:user, :at, 'conversation')",
    "blocked_messages": "INSERT INTO blocked_messages (id, sender_id, recipient_id, vendor_id, body,"
    " earlier_messages, kinds, created_at) VALUES (:id, :user, :other, :store, 'x', '{}', '{phone}', :at)",
    "former_contacts": "INSERT INTO former_contacts (id, user_id, kind, contact, contact_index, replaced_at)"
    " VALUES (:id, :user, 'phone', 'v1:k1:' || repeat('a', 40), 'x', :at)",
    "notification_delivery_logs": "INSERT INTO notification_delivery_logs (id, user_id, channel, status,"
    " created_at, updated_at) VALUES (:id, :user, 'email', 'sent', :at, :at)",
    "phone_codes": "INSERT INTO phone_codes (id, user_id, phone, phone_index, created_at, expires_at)"
    " VALUES (:id, :user, 'v1:k1:' || repeat('a', 40), 'x', :at, :at + interval '1 hour')",
    "privacy_exports": "INSERT INTO privacy_exports (id, user_id, status, requested_at)"
    " VALUES (:id, :user, 'failed', :at)",
    "staff_sign_ins": "INSERT INTO staff_sign_ins (user_id, signed_in_at) VALUES (:user, :at)",
}


def insert(session: Session, table: str, at: datetime) -> UUID:
    """Insert a row of a person, created at a time, and return the person."""
    shop = make_shop(session)
    values: dict[str, Any] = {
        "id": first_id_of(at),
        "user": shop.buyer.id,
        "other": shop.vendor.id,
        "store": shop.store_id,
        "at": at.date() if table == "assistant_usage" else at,
    }
    statement = SETUPS[table]
    session.execute(
        text(statement), {name: value for name, value in values.items() if f":{name}" in statement}
    )
    return shop.buyer.id


def count_of(database: Database, table: str, user_id: UUID) -> int:
    column = "sender_id" if table == "blocked_messages" else "user_id"
    with database.reading() as session:
        found: int = session.execute(
            text(f"SELECT count(*) FROM {table} WHERE {column} = :id"), {"id": user_id}
        ).scalar_one()
    return found


def test_each_limited_table_has_a_case() -> None:
    assert set(SETUPS) == set(list_limited_tables())


@pytest.mark.parametrize("table", sorted(SETUPS))
def test_row_is_deleted_after_the_days_of_the_register(database: Database, table: str) -> None:
    days = PERSONAL_TABLES[table].retention.days
    assert days is not None
    old = database.in_transaction(insert, table, NOW - timedelta(days=days + 1))
    young = database.in_transaction(insert, table, NOW - timedelta(days=days - 1))

    deleted = delete_expired_rows(database, tables=metadata.tables, now=NOW)

    assert deleted[table] >= 1
    assert (count_of(database, table, old), count_of(database, table, young)) == (0, 1)
    assert table not in delete_expired_rows(database, tables=metadata.tables, now=NOW)


def test_columns_of_the_register_exist() -> None:
    for table, rule in list_limited_tables().items():
        column = metadata.tables[table].columns[rule.retention.since]
        assert column.type.python_type in (date, datetime)


def test_notification_to_a_former_contact_goes_with_the_contact(database: Database) -> None:
    person = database.in_transaction(insert, "former_contacts", NOW - timedelta(days=31))
    with database.transaction() as session:
        contact_id = session.scalar(
            text("SELECT id FROM former_contacts WHERE user_id = :id"), {"id": person}
        )
        notify(
            session, user_id=person, type="bank_account_changed", title="Changed", body="Changed", link=None,
            cause="old", now=NOW, former_contact_id=contact_id,
        )  # fmt: skip
        notify(
            session, user_id=person, type="bank_account_changed", title="Changed", body="Changed", link=None,
            cause="new", now=NOW,
        )  # fmt: skip

    delete_expired_rows(database, tables=metadata.tables, now=NOW)

    assert count_of(database, "former_contacts", person) == 0
    assert count_of(database, "notifications", person) == 1


def test_rows_of_the_demo_have_no_age(database: Database) -> None:
    with database.transaction() as session:
        person = make_person(session).id
        session.execute(
            text(
                "INSERT INTO privacy_exports (id, user_id, status, requested_at) VALUES (:id, :user, 'failed', :at)"
            ),
            {"id": UUID("00000032-0000-7000-8000-000000000001"), "user": person, "at": NOW},
        )

    delete_expired_rows(database, tables=metadata.tables, now=NOW)

    assert count_of(database, "privacy_exports", person) == 1
