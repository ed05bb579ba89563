"""Migrations: agreement with the models, and downgrade and upgrade of each revision."""

from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import alembic.command
import psycopg2
import pytest
from alembic.script import ScriptDirectory

from commands.console.failures import CommandFailedError
from commands.db import (
    alembic_config,
    current_revision,
    latest_revision,
    list_differences,
    upgrade_database,
)
from marketplace.models import metadata
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
