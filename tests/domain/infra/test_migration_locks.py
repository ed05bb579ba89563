"""Migrations after the baseline do not block the running service, and run under time-outs."""

from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import alembic.command
import pytest
from alembic.config import Config

import migrations
from commands.db import alembic_config, latest_revision
from tests.support.installation import query
from tests.support.migration_locks import find_blocking_statements, render_sql
from tests.support.servers import Addresses, create_database, drop_database

PLANTED = """
from alembic import op
from migrations.operations import backfill, build_index, outside_transaction, validate_constraint

revision = "{revision}"
down_revision = "{down_revision}"
branch_labels = None
depends_on = None


def note_timeouts(place):
    op.execute(
        f"INSERT INTO seen (place, lock, statement)"
        f" VALUES ('{{place}}', current_setting('lock_timeout'), current_setting('statement_timeout'))"
    )


def upgrade():
    {body}
"""
CAREFUL = (
    """
    op.execute("CREATE TABLE seen (place text, lock text, statement text)")
    op.execute("ALTER TABLE hubs ADD COLUMN floor text")
    op.execute("ALTER TABLE hubs ADD CONSTRAINT ck_hubs_floor CHECK (floor IS NOT NULL) NOT VALID")
    note_timeouts("transaction")
    """,
    """
    backfill("UPDATE hubs SET floor = '0' WHERE id IN (SELECT id FROM hubs WHERE floor IS NULL LIMIT 2)")
    build_index("ix_hubs_floor", "hubs", ["campus_id", "floor"])
    validate_constraint("hubs", "ck_hubs_floor")
    with outside_transaction():
        note_timeouts("outside")
    """,
    """
    op.alter_column("hubs", "floor", nullable=False)
    note_timeouts("next transaction")
    """,
)

HARMLESS = {
    "index of a new table": "BEGIN; CREATE TABLE t (a int); CREATE INDEX i ON t (a); COMMIT;",
    "rules of a new table": "BEGIN; CREATE TABLE t (a int); ALTER TABLE t ADD CONSTRAINT c CHECK (a > 0); COMMIT;",
    "rows of a new table": "BEGIN; CREATE TABLE t (a int); UPDATE t SET a = 1; COMMIT;",
    "index concurrently": "BEGIN; COMMIT; CREATE UNIQUE INDEX CONCURRENTLY i ON orders (a); BEGIN; COMMIT;",
    "drop concurrently": "DROP INDEX CONCURRENTLY IF EXISTS i;",
    "nullable column": "BEGIN; ALTER TABLE orders ADD COLUMN a text; COMMIT;",
    "column with a constant default": "BEGIN; ALTER TABLE orders ADD a text DEFAULT 'x, y' NOT NULL; COMMIT;",
    "two columns": "BEGIN; ALTER TABLE orders ADD COLUMN a numeric(9, 2), ADD COLUMN b text; COMMIT;",
    "not valid": "BEGIN; ALTER TABLE orders ADD CONSTRAINT c CHECK (a > 0) NOT VALID; COMMIT;",
    "foreign key not valid": "BEGIN; ALTER TABLE a ADD CONSTRAINT c FOREIGN KEY (b) REFERENCES d NOT VALID; COMMIT;",
    "unique using index": "BEGIN; ALTER TABLE orders ADD CONSTRAINT u UNIQUE USING INDEX i; COMMIT;",
    "not null after a validated check": (
        "BEGIN; ALTER TABLE orders ADD CONSTRAINT c CHECK (note IS NOT NULL) NOT VALID; COMMIT;"
        "ALTER TABLE orders VALIDATE CONSTRAINT c;"
        "BEGIN; ALTER TABLE orders ALTER COLUMN note SET NOT NULL; ALTER TABLE orders DROP CONSTRAINT c; COMMIT;"
    ),
    "brief changes": (
        "BEGIN; ALTER TABLE orders DROP COLUMN a; ALTER TABLE orders ALTER COLUMN b SET DEFAULT 1;"
        "ALTER TABLE orders ALTER COLUMN b DROP NOT NULL; ALTER TABLE orders DROP CONSTRAINT c; COMMIT;"
    ),
    "batched backfill": "UPDATE orders SET a = 1 WHERE id IN (SELECT id FROM orders WHERE a IS NULL LIMIT 1000);",
    "inserted row": "BEGIN; INSERT INTO platform_settings (key, value) VALUES ('a', '1'); COMMIT;",
    "function that updates": (
        "BEGIN; CREATE FUNCTION f() RETURNS void LANGUAGE sql AS $$ UPDATE orders SET a = 1; $$; COMMIT;"
    ),
    "words in a comment": "BEGIN; -- UPDATE t SET a = 1;\n COMMENT ON TABLE orders IS 'DROP INDEX i; it''s'; COMMIT;",
    "Alembic's own row": "BEGIN; UPDATE alembic_version SET version_num='2' WHERE version_num = '1'; COMMIT;",
}

BLOCKING = {
    "index": "BEGIN; CREATE INDEX i ON orders (a); COMMIT;",
    "unique index of another schema": 'BEGIN; CREATE UNIQUE INDEX "i" ON public."orders" (a); COMMIT;',
    "index concurrently in a transaction": "BEGIN; CREATE INDEX CONCURRENTLY i ON orders (a); COMMIT;",
    "index of an earlier table": "BEGIN; CREATE TABLE t (a int); COMMIT; BEGIN; CREATE INDEX i ON t (a); COMMIT;",
    "dropped index": "BEGIN; DROP INDEX i; COMMIT;",
    "reindex": "REINDEX TABLE orders;",
    "check": "BEGIN; ALTER TABLE orders ADD CONSTRAINT c CHECK (a > 0); COMMIT;",
    "foreign key": "BEGIN; ALTER TABLE orders ADD CONSTRAINT c FOREIGN KEY (a) REFERENCES b (id); COMMIT;",
    "unique": "BEGIN; ALTER TABLE orders ADD CONSTRAINT u UNIQUE (a); COMMIT;",
    "exclusion": "BEGIN; ALTER TABLE orders ADD CONSTRAINT e EXCLUDE USING gist (a WITH =); COMMIT;",
    "validated at once": (
        "BEGIN; ALTER TABLE orders ADD CONSTRAINT c CHECK (a > 0) NOT VALID;"
        "ALTER TABLE orders VALIDATE CONSTRAINT c; COMMIT;"
    ),
    "validated in a transaction": "BEGIN; ALTER TABLE orders VALIDATE CONSTRAINT c; COMMIT;",
    "type": "BEGIN; ALTER TABLE orders ALTER COLUMN a TYPE bigint; COMMIT;",
    "type, the long way": "BEGIN; alter table only public.orders alter a set data type bigint using a::bigint; COMMIT;",
    "not null": "BEGIN; ALTER TABLE orders ALTER COLUMN a SET NOT NULL; COMMIT;",
    "not null after a check that was not validated": (
        "BEGIN; ALTER TABLE orders ADD CONSTRAINT c CHECK (a IS NOT NULL) NOT VALID; COMMIT;"
        "BEGIN; ALTER TABLE orders ALTER COLUMN a SET NOT NULL; COMMIT;"
    ),
    "not null of another column": (
        "BEGIN; ALTER TABLE orders ADD CONSTRAINT c CHECK (a IS NOT NULL) NOT VALID; COMMIT;"
        "ALTER TABLE orders VALIDATE CONSTRAINT c; BEGIN; ALTER TABLE orders ALTER COLUMN b SET NOT NULL; COMMIT;"
    ),
    "second action": "BEGIN; ALTER TABLE orders ADD COLUMN a text, ALTER COLUMN b TYPE text; COMMIT;",
    "volatile default": "BEGIN; ALTER TABLE orders ADD COLUMN a uuid DEFAULT gen_random_uuid() NOT NULL; COMMIT;",
    "generated column": "BEGIN; ALTER TABLE orders ADD COLUMN a int GENERATED ALWAYS AS (b + 1) STORED; COMMIT;",
    "serial column": "BEGIN; ALTER TABLE orders ADD COLUMN a bigserial; COMMIT;",
    "column with a foreign key": "BEGIN; ALTER TABLE orders ADD COLUMN a uuid REFERENCES b (id); COMMIT;",
    "required column without a default": "BEGIN; ALTER TABLE orders ADD COLUMN a text NOT NULL; COMMIT;",
    "update": "BEGIN; UPDATE orders SET a = 1; COMMIT;",
    "update with a CTE": "BEGIN; WITH x AS (SELECT 1) UPDATE orders SET a = 1 FROM x; COMMIT;",
    "batch in a transaction": "BEGIN; UPDATE orders SET a = 1 WHERE id IN (SELECT id FROM orders LIMIT 9); COMMIT;",
    "update of everything in autocommit": "UPDATE orders SET a = 1;",
    "delete": "BEGIN; DELETE FROM orders WHERE a = 1; COMMIT;",
    "copied rows": "BEGIN; INSERT INTO audit_logs (a) SELECT a FROM orders; COMMIT;",
    "copied table": "BEGIN; CREATE TABLE t AS SELECT * FROM orders; COMMIT;",
    "truncate": "BEGIN; TRUNCATE orders; COMMIT;",
    "lock": "BEGIN; LOCK TABLE orders; COMMIT;",
    "block that can't be read": "BEGIN; DO $$ BEGIN UPDATE orders SET a = 1; END $$; COMMIT;",
    "longer time-out": "BEGIN; SET LOCAL statement_timeout = '1h'; COMMIT;",
    "unlogged": "BEGIN; ALTER TABLE orders SET UNLOGGED; COMMIT;",
}


def test_migrations_after_the_baseline_do_not_block() -> None:
    assert find_blocking_statements(render_sql(alembic_config(""))) == []


@pytest.mark.parametrize("sql", HARMLESS.values(), ids=HARMLESS)
def test_harmless_statement_is_accepted(sql: str) -> None:
    assert find_blocking_statements(sql) == []


@pytest.mark.parametrize("sql", BLOCKING.values(), ids=BLOCKING)
def test_blocking_statement_is_refused(sql: str) -> None:
    assert len(find_blocking_statements(sql)) == 1


@pytest.fixture
def copy(addresses: Addresses) -> Iterator[str]:
    name = f"locks_{uuid4().hex[:8]}"
    yield create_database(addresses, name)
    drop_database(addresses, name)


def plant(folder: Path, url: str, bodies: tuple[str, ...]) -> Config:
    """Write migrations that follow the latest one."""
    config = alembic_config(url)
    before = latest_revision()
    for number, body in enumerate(bodies):
        revision = f"9{number:03}"
        text = PLANTED.format(revision=revision, down_revision=before, body=body)
        (folder / f"{revision}.py").write_text(text, encoding="utf-8")
        before = revision
    config.set_main_option("path_separator", "newline")
    versions = Path(migrations.__file__).parent / "versions"
    config.set_main_option("version_locations", f"{versions}\n{folder}")
    return config


def test_planted_migrations_are_read(tmp_path: Path) -> None:
    index, change = "CREATE INDEX i ON orders (note)", "UPDATE orders SET note = 1"
    bodies = ("op.create_index('i', 'orders', ['note'])", f"op.execute('{change}')")
    faults = find_blocking_statements(render_sql(plant(tmp_path, "", bodies)))
    assert [fault.split(":")[0] for fault in faults] == [index, change]


def test_careful_migrations_are_accepted_and_run_under_time_outs(copy: str, tmp_path: Path) -> None:
    query(copy, "INSERT INTO campuses (name, slug) VALUES ('C', 'c')")
    hub = "INSERT INTO hubs (campus_id, name, address, opening_hours) SELECT id, 'H', 'A', 'always' FROM campuses"
    for _ in range(5):
        query(copy, hub)
    config = plant(tmp_path, copy, CAREFUL)
    assert find_blocking_statements(render_sql(config)) == []

    alembic.command.upgrade(config, "head")

    assert query(copy, "SELECT count(*) FROM hubs WHERE floor = '0'") == [(5,)]
    assert query(copy, "SELECT indisvalid FROM pg_index WHERE indexrelid = 'ix_hubs_floor'::regclass") == [
        (True,)
    ]
    assert query(copy, "SELECT place, lock, statement FROM seen") == [
        ("transaction", "4s", "5s"),
        ("outside", "0", "0"),
        ("next transaction", "4s", "5s"),
    ]


def test_interrupted_index_is_built_again(copy: str, tmp_path: Path) -> None:
    query(copy, "CREATE INDEX ix_hubs_name ON hubs (name)")
    query(copy, "UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'ix_hubs_name'::regclass")
    alembic.command.upgrade(plant(tmp_path, copy, ('build_index("ix_hubs_name", "hubs", ["name"])',)), "head")
    assert query(copy, "SELECT indisvalid FROM pg_index WHERE indexrelid = 'ix_hubs_name'::regclass") == [
        (True,)
    ]
