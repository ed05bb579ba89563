"""Migrations: agreement with the models, and downgrade and upgrade of each revision."""

from collections.abc import Iterator
from functools import partial
from typing import Any
from uuid import uuid4

import alembic.command
import psycopg2
import pytest
from alembic.script import ScriptDirectory
from sqlalchemy import select

from commands.console.failures import CommandFailedError
from commands.db import (
    alembic_config,
    current_revision,
    latest_revision,
    list_differences,
    upgrade_database,
)
from marketplace.idempotency.models import IdempotencyKey
from marketplace.identity.models import Address, FormerContact, Profile
from marketplace.infra.db import Database
from marketplace.models import metadata
from marketplace.orders.models import Order
from marketplace.support.models import SupportContact
from tests.support.installation import query
from tests.support.servers import Addresses, create_database, drop_database

# The server's own description of every part of the schema.
SCHEMA = {
    # Sorted by name, because a column added again by an upgrade is the last column.
    "columns": "SELECT table_name, column_name, data_type, is_nullable, column_default, generation_expression,"
    " col_description(format('%I', table_name)::regclass, ordinal_position::int)"
    " FROM information_schema.columns WHERE table_schema = 'public' AND table_name <> 'alembic_version'"
    " ORDER BY table_name, column_name",
    "indexes": "SELECT indexdef FROM pg_indexes WHERE schemaname = 'public' AND tablename <> 'alembic_version'"
    " ORDER BY 1",
    "constraints": "SELECT conrelid::regclass::text, conname, pg_get_constraintdef(oid) FROM pg_constraint"
    " WHERE connamespace = 'public'::regnamespace AND conrelid::regclass::text <> 'alembic_version'"
    " ORDER BY 1, 2",
    "functions": "SELECT proname, prosrc FROM pg_proc WHERE pronamespace = 'public'::regnamespace ORDER BY 1",
    "triggers": "SELECT tgrelid::regclass::text, pg_get_triggerdef(oid) FROM pg_trigger WHERE NOT tgisinternal"
    " ORDER BY 1, 2",
    "sequences": "SELECT sequencename, start_value FROM pg_sequences WHERE schemaname = 'public' ORDER BY 1",
    "types": "SELECT typname FROM pg_type WHERE typnamespace = 'public'::regnamespace AND typtype IN ('e', 'd')",
    "roles": "SELECT role, permissions FROM admin_roles ORDER BY 1",
    "settings": "SELECT key, value::text FROM platform_settings ORDER BY 1",
    "accounts": "SELECT id, kind, normal_side FROM ledger_accounts ORDER BY 2",
    "banned": "SELECT term, category, exceptions FROM banned_terms ORDER BY 1",
}
DATA = frozenset({"roles", "settings", "accounts", "banned"})


@pytest.fixture
def empty_database_url(addresses: Addresses) -> Iterator[str]:
    name = f"migrations_{uuid4().hex[:8]}"
    yield create_database(addresses, name, template="template1")
    drop_database(addresses, name)


def schema(url: str, *, without: frozenset[str] = frozenset()) -> dict[str, list[tuple[Any, ...]]]:
    connection = psycopg2.connect(url)
    try:
        with connection, connection.cursor() as cursor:
            parts = {}
            for part, sql in SCHEMA.items():
                if part not in without:
                    cursor.execute(sql)
                    parts[part] = cursor.fetchall()
            return parts
    finally:
        connection.close()


def test_revisions_form_a_single_line() -> None:
    scripts = ScriptDirectory.from_config(alembic_config(""))
    revisions = [script.revision for script in scripts.walk_revisions()]
    assert revisions == sorted(revisions, reverse=True)
    assert scripts.get_heads() == [latest_revision()] == revisions[:1]
    assert all(script.doc for script in scripts.walk_revisions())


def test_models_and_migrations_agree(empty_database_url: str) -> None:
    assert current_revision(empty_database_url) is None
    assert len(list_differences(empty_database_url)) >= len(
        metadata.tables
    )  # the comparison reports missing tables
    alembic.command.upgrade(alembic_config(empty_database_url), "head")
    assert current_revision(empty_database_url) == latest_revision()
    assert list_differences(empty_database_url) == []


@pytest.mark.parametrize(
    ("drift", "reported"),
    [
        ("ALTER TABLE products ADD COLUMN extra text", "remove column: products extra"),
        ("ALTER TABLE orders ALTER note SET NOT NULL", "modify nullable of orders.note"),
        ("ALTER TABLE orders ALTER total_minor TYPE int", "modify type of orders.total_minor"),
        ("ALTER TABLE products ALTER reserved SET DEFAULT 7", "modify default of products.reserved"),
        ("ALTER TABLE hubs DROP CONSTRAINT fk_hubs_campus_id", "add fk: fk_hubs_campus_id"),
        ("CREATE TABLE stray (id int)", "remove table: stray"),
    ],
)
def test_schema_drift_is_reported(addresses: Addresses, drift: str, reported: str) -> None:
    name = f"drift_{uuid4().hex[:8]}"
    url = create_database(addresses, name)
    try:
        query(url, drift)
        [line] = list_differences(url)
        assert line.startswith(reported)
    finally:
        drop_database(addresses, name)


def test_each_revision_can_be_downgraded_and_upgraded_again(empty_database_url: str) -> None:
    config = alembic_config(empty_database_url)
    scripts = list(ScriptDirectory.from_config(config).walk_revisions())
    earlier = [schema(empty_database_url, without=DATA)]
    for script in reversed(scripts):
        alembic.command.upgrade(config, script.revision)
        earlier.append(schema(empty_database_url, without=DATA))
    newest = schema(empty_database_url)
    assert all(newest[part] for part in SCHEMA if part != "types")
    earlier.pop()
    for script in scripts:
        alembic.command.downgrade(config, "-1")
        assert schema(empty_database_url, without=DATA) == earlier.pop(), script.revision
    assert schema(empty_database_url, without=DATA) == {part: [] for part in SCHEMA if part not in DATA}
    alembic.command.upgrade(config, "head")
    assert schema(empty_database_url) == newest
    assert list_differences(empty_database_url) == []


def test_old_revision_is_refused_with_the_next_step(empty_database_url: str) -> None:
    alembic.command.upgrade(alembic_config(empty_database_url), "head")
    query(empty_database_url, "UPDATE alembic_version SET version_num = '0029'")
    with pytest.raises(CommandFailedError, match=r"0029, which is too old to upgrade.*`make reset`"):
        upgrade_database(empty_database_url)


def test_upgrade_encrypts_stored_contacts(empty_database_url: str) -> None:
    config = alembic_config(empty_database_url)
    alembic.command.upgrade(config, "1075")
    person, campus, phone = uuid4(), uuid4(), "+2348031234567"
    add = partial(query, empty_database_url)
    add("INSERT INTO campuses (id, name, slug) VALUES (%s, 'North', 'north')", str(campus))
    add("INSERT INTO profiles (id, phone, phone_verified_at) VALUES (%s, %s, now())", str(person), phone)
    add("INSERT INTO addresses (user_id, hostel, phone) VALUES (%s, 'Unity', %s)", str(person), phone)
    add(
        "INSERT INTO former_contacts (user_id, kind, contact, replaced_at) VALUES (%s, 'email', 'ada@x.ng', now())",
        str(person),
    )
    add(
        "INSERT INTO support_contacts (sender, phone, first_message_at, last_message_at)"
        " VALUES ('2348031234567', %s, now(), now())",
        phone,
    )
    add(
        "INSERT INTO idempotency_keys (caller, method, path, key, request_hash, claimed_at, completed_at,"
        " response_status, response_type, response_body, expires_at)"
        " VALUES ('x', 'POST', '/x', 'k', 'h', now(), now(), 201, 'application/json', %s, now())",
        phone.encode(),
    )
    add(
        "INSERT INTO vendor_profiles (user_id, campus_id, display_name, slug) VALUES (%s, %s, 'Ada', 'ada')",
        str(person),
        str(campus),
    )
    add(
        "INSERT INTO orders (buyer_id, vendor_id, campus_id, status, subtotal_minor, delivery_fee_minor,"
        " service_fee_minor, discount_minor, total_minor, delivery_method, shipping_address, expires_at)"
        " SELECT user_id, id, campus_id, 'pending_payment', 1000, 0, 0, 0, 1000, 'delivery',"
        " jsonb_build_object('hostel', 'Unity', 'phone', %s), now() FROM vendor_profiles",
        phone,
    )

    assert upgrade_database(empty_database_url)

    database = Database(empty_database_url, pool_size=1, application_name="tests")
    with database.reading() as session:
        profile = session.scalars(select(Profile).where(Profile.phone_index == phone)).one()
        assert (profile.id, profile.phone) == (person, phone)
        assert session.scalars(select(Address.phone)).all() == [phone]
        former = session.scalars(select(FormerContact).where(FormerContact.contact_index == "ada@x.ng")).one()
        assert former.contact == "ada@x.ng"
        contact = session.scalars(
            select(SupportContact).where(SupportContact.sender_index == "2348031234567")
        ).one()
        assert (contact.sender, contact.phone) == ("2348031234567", phone)
        assert session.execute(select(Order.shipping_address, Order.delivery_phone)).all() == [
            ({"hostel": "Unity"}, phone)
        ]
        assert session.scalars(select(IdempotencyKey.response_text)).all() == [phone]
    database.close()
    with pytest.raises(RuntimeError, match=r"has encrypted values\. Restore a backup"):
        alembic.command.downgrade(config, "1075")
