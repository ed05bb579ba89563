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
    op.execute(f"INSERT INTO seen (place) VALUES ('{{place}}')")


def upgrade():
    {body}
"""
CAREFUL = (
    """
    op.execute(
        "CREATE TABLE seen (place text, lock text DEFAULT current_setting('lock_timeout'),"
        " statement text DEFAULT current_setting('statement_timeout'))"
    )
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

SAFE_INSIDE = (
    "ALTER TABLE orders ADD COLUMN a text",
    "ALTER TABLE orders ADD a text DEFAULT 'x, y' NOT NULL",
    "ALTER TABLE orders ADD COLUMN a numeric(9, 2), ADD COLUMN b text",
    "ALTER TABLE orders ADD CONSTRAINT c CHECK (a > 0) NOT VALID",
    "ALTER TABLE a ADD CONSTRAINT c FOREIGN KEY (b) REFERENCES d NOT VALID",
    "ALTER TABLE orders ADD CONSTRAINT u UNIQUE USING INDEX i",
    "INSERT INTO platform_settings (key, value) VALUES ('a', '1')",
    "CREATE FUNCTION f() RETURNS void LANGUAGE sql AS $$ UPDATE orders SET a = 1; $$",
    "-- UPDATE t SET a = 1;\n COMMENT ON TABLE orders IS 'DROP INDEX i; it''s'",
    "CREATE TRIGGER r BEFORE UPDATE ON orders FOR EACH ROW EXECUTE FUNCTION f()",
    "ALTER INDEX i RENAME TO ix_orders_note",
    "ALTER TABLE orders ADD a timestamptz DEFAULT now(), ADD b jsonb DEFAULT '{}'::jsonb NOT NULL",
    "ALTER TABLE orders ADD CONSTRAINT c NOT NULL note NOT VALID",
    "UPDATE alembic_version SET version_num='2' WHERE version_num = '1'",
    "ALTER TABLE orders DROP COLUMN a, DROP CONSTRAINT c",
    "ALTER TABLE orders ALTER a SET DEFAULT 1, ALTER b DROP NOT NULL, ALTER c SET STATISTICS 500",
    "ALTER TABLE orders SET (fillfactor = 90)",
    "CREATE OR REPLACE VIEW v AS SELECT a FROM orders",
    "CREATE TYPE e AS ENUM ('a')",
    "ALTER TYPE e ADD VALUE 'b'",
    "CREATE SEQUENCE s",
    "ALTER SEQUENCE s RESTART WITH 9",
    "GRANT SELECT ON orders TO reader",
    "DROP TABLE IF EXISTS t, u",
    "DROP TRIGGER r ON orders",
    "DROP FUNCTION f()",
    "DROP VIEW v",
    "DROP SEQUENCE s",
    "DROP TYPE e",
)
SAFE_OUTSIDE = (
    "CREATE UNIQUE INDEX CONCURRENTLY i ON orders (a)",
    "DROP INDEX CONCURRENTLY IF EXISTS i",
    "REINDEX INDEX CONCURRENTLY i",
    "REINDEX (CONCURRENTLY) TABLE orders",
    "ALTER TABLE orders VALIDATE CONSTRAINT c",
    "SET statement_timeout = 0",
    "SET lock_timeout = 0",
    "UPDATE orders SET a = 1 WHERE id IN (SELECT id FROM orders WHERE a IS NULL LIMIT 1000)",
    "DELETE FROM carts WHERE ctid IN (SELECT ctid FROM carts WHERE a IN (SELECT a FROM b) LIMIT 10000) AND a > 1",
    "INSERT INTO t (a) SELECT a FROM orders WHERE NOT EXISTS (SELECT FROM t) LIMIT 1000",
    "INSERT INTO t (a) VALUES (1)",
)
CHECKED = (
    "BEGIN; ALTER TABLE orders ADD CONSTRAINT c CHECK (a IS NOT NULL) NOT VALID; COMMIT;"
    "ALTER TABLE orders VALIDATE CONSTRAINT c; "
)
SAFE_SCRIPTS = {
    "new table": (
        "BEGIN; CREATE TABLE t (id uuid DEFAULT uuidv7() CONSTRAINT pk_t PRIMARY KEY, o uuid REFERENCES orders);"
        "CREATE INDEX ON t (o); ALTER TABLE t ADD COLUMN n int GENERATED ALWAYS AS IDENTITY, ALTER o SET NOT NULL;"
        "ALTER TABLE t ADD CONSTRAINT c CHECK (n > 0); INSERT INTO t (o) VALUES (NULL), (DEFAULT);"
        "UPDATE t SET n = 1; DELETE FROM t WHERE n > 9; COMMIT;"
    ),
    "not null after a validated check": (
        CHECKED
        + "BEGIN; ALTER TABLE orders ALTER a SET NOT NULL; ALTER TABLE orders DROP CONSTRAINT c; COMMIT;"
    ),
    "not null after a change of another table": (
        CHECKED + "BEGIN; ALTER TABLE carts DROP a; ALTER TABLE orders ALTER a SET NOT NULL; COMMIT;"
    ),
}

REFUSED_INSIDE = (
    "CREATE INDEX i ON orders (a)",
    'CREATE UNIQUE INDEX "i" ON public."orders" (a)',
    "CREATE INDEX CONCURRENTLY i ON orders (a)",
    "DROP INDEX i",
    "ALTER TABLE orders ADD CONSTRAINT c CHECK (a > 0)",
    "ALTER TABLE orders ADD CONSTRAINT c FOREIGN KEY (a) REFERENCES b (id)",
    "ALTER TABLE orders ADD CONSTRAINT u UNIQUE (a)",
    "ALTER TABLE orders ADD CONSTRAINT e EXCLUDE USING gist (a WITH =)",
    "ALTER TABLE orders VALIDATE CONSTRAINT c",
    "ALTER TABLE orders ALTER COLUMN a TYPE bigint",
    "alter table only public.orders alter a set data type bigint using a::bigint",
    "ALTER TABLE orders ALTER COLUMN a SET NOT NULL",
    "ALTER TABLE orders ADD COLUMN a text, ALTER COLUMN b TYPE text",
    "ALTER TABLE orders ADD COLUMN a uuid DEFAULT gen_random_uuid() NOT NULL",
    "ALTER TABLE orders ADD COLUMN a int GENERATED ALWAYS AS (b + 1) STORED",
    "ALTER TABLE orders ADD COLUMN a bigserial",
    "ALTER TABLE orders ADD COLUMN a uuid REFERENCES b (id)",
    "ALTER TABLE orders ADD COLUMN a text NOT NULL",
    "UPDATE orders SET a = 1",
    "WITH x AS (SELECT 1) UPDATE orders SET a = 1 FROM x",
    "UPDATE orders SET a = 1 WHERE id IN (SELECT id FROM orders LIMIT 9)",
    "DELETE FROM orders WHERE a = 1",
    "INSERT INTO audit_logs (a) SELECT a FROM orders",
    "CREATE TABLE t AS SELECT * FROM orders",
    "TRUNCATE orders",
    "LOCK TABLE orders",
    "DO $$ BEGIN UPDATE orders SET a = 1; END $$",
    "SET LOCAL statement_timeout = '1h'",
    "ALTER TABLE orders SET UNLOGGED",
    "CREATE INDEX ON orders (a)",
    "ALTER TABLE orders ADD EXCLUDE USING gist (a WITH =)",
    "ALTER TABLE orders ADD CONSTRAINT p PRIMARY KEY USING INDEX i",
    "ALTER TABLE orders ADD a float DEFAULT random()",
    "ALTER TABLE orders ADD a timestamptz DEFAULT clock_timestamp()",
    "ALTER TABLE orders ADD a text DEFAULT 'a' || lower(f())",
    "ALTER TABLE orders ADD a int GENERATED BY DEFAULT AS IDENTITY",
    "ALTER TABLE orders ADD a int CHECK (a > 0)",
    "CREATE TABLE IF NOT EXISTS orders (a int)",
    "CREATE TEMP TABLE orders (a int)",
    "CREATE TABLE p PARTITION OF orders DEFAULT",
    "ALTER TABLE orders RENAME TO purchases",
    "ALTER TABLE orders RENAME note TO remark",
    "INSERT INTO t (a) TABLE orders",
    "INSERT INTO t (SELECT a FROM orders)",
    "INSERT INTO t WITH x AS (SELECT 1) SELECT * FROM x",
    "WITH x AS (SELECT 1) INSERT INTO t SELECT * FROM x",
    "INSERT INTO t VALUES ((SELECT max(a) FROM orders))",
    "INSERT INTO t VALUES (1) UNION SELECT a FROM orders",
    "WITH x AS (DELETE FROM orders RETURNING 1) SELECT * FROM x",
    "WITH x AS (DELETE FROM orders) INSERT INTO t VALUES (1)",
    "MERGE INTO orders o USING t ON t.id = o.id WHEN MATCHED THEN DELETE",
    "SELECT fix_orders()",
    "INSERT INTO t VALUES (fix_orders())",
    "INSERT INTO t VALUES (public.now())",
    "CALL fix_orders()",
    "SELECT * INTO t FROM orders",
    "CREATE MATERIALIZED VIEW v AS SELECT * FROM orders",
    "REFRESH MATERIALIZED VIEW v",
    "COPY orders FROM '/f'",
    "CLUSTER orders USING i",
    "ALTER TABLE orders SET TABLESPACE fast",
    "ALTER INDEX i SET TABLESPACE fast",
    "ALTER TABLE ALL IN TABLESPACE slow SET TABLESPACE fast",
    "ALTER DOMAIN kobo ADD CHECK (value > 0)",
    "CREATE DOMAIN kobo AS bigint CHECK (value > 0)",
    "SET lock_timeout = 0",
    'SET LOCAL "statement_timeout" TO DEFAULT',
    "RESET lock_timeout",
    "RESET ALL",
    "SELECT set_config('lock_timeout', '0', true)",
    "ALTER ROLE marketplace SET lock_timeout = 0",
    "COMMIT AND CHAIN",
    "SAVEPOINT s",
    "VACUUM FULL orders",
    "EXPLAIN ANALYZE DELETE FROM orders",
)
REFUSED_OUTSIDE = (
    "REINDEX TABLE orders",
    "UPDATE orders SET a = 1",
    "SET search_path = archive",
    "CREATE INDEX i ON orders (a)",
    "DROP INDEX i",
    "REINDEX (CONCURRENTLY false) TABLE orders",
    "CREATE TABLE t (a int)",
    "ALTER TABLE orders ADD a text",
    "ALTER TABLE orders VALIDATE CONSTRAINT c, ALTER a TYPE bigint",
    "DROP TABLE t",
    "CREATE TRIGGER r BEFORE UPDATE ON orders FOR EACH ROW EXECUTE FUNCTION f()",
    "VACUUM FULL orders",
    "CLUSTER orders",
    "SELECT fix_orders()",
    "DO $$ BEGIN UPDATE orders SET a = 1; END $$",
    "UPDATE orders SET a = 'no limit 5'",
    "UPDATE orders SET a = 1 -- LIMIT 5\n",
    "UPDATE orders SET a = (SELECT b FROM t LIMIT 1)",
    "DELETE FROM orders WHERE a > (SELECT b FROM t LIMIT 1)",
    "DELETE FROM orders WHERE id NOT IN (SELECT id FROM orders LIMIT 9)",
    "DELETE FROM orders WHERE a > 0 OR id IN (SELECT id FROM orders LIMIT 9)",
    "DELETE FROM orders WHERE a IN (SELECT a FROM orders LIMIT 9)",
    "UPDATE orders SET a = 1 WHERE id IN (SELECT orders.id FROM campuses LIMIT 1)",
    "DELETE FROM orders WHERE id > ANY (SELECT id FROM orders LIMIT 9)",
    "DELETE FROM orders WHERE id IN (SELECT orders.id FROM orders o LIMIT 1)",
    "DELETE FROM orders o WHERE id IN (SELECT o.id FROM orders LIMIT 1)",
    "UPDATE orders SET a = 1 FROM t WHERE id IN (SELECT t.id FROM orders LIMIT 1)",
    "DELETE FROM orders WHERE id IN (SELECT id FROM orders ORDER BY a FETCH FIRST 9 ROWS WITH TIES)",
    "DELETE FROM orders WHERE id IN (SELECT id FROM orders LIMIT ALL)",
    "DELETE FROM orders WHERE id IN (SELECT id FROM orders LIMIT 1000000)",
    "WITH x AS (DELETE FROM t) DELETE FROM orders WHERE id IN (SELECT id FROM orders LIMIT 9)",
    "INSERT INTO t SELECT a FROM orders",
    "WITH x AS (DELETE FROM u) INSERT INTO t SELECT a FROM orders LIMIT 9",
    "INSERT INTO t WITH x AS (DELETE FROM orders RETURNING a) SELECT a FROM x LIMIT 9",
)
REFUSED_SCRIPTS = {
    "index of an earlier table": "BEGIN; CREATE TABLE t (a int); COMMIT; BEGIN; CREATE INDEX i ON t (a); COMMIT;",
    "table of the same name in another schema": (
        "BEGIN; CREATE TABLE archive.orders (a int); CREATE INDEX i ON orders (a); COMMIT;"
    ),
    "attached partition": (
        "BEGIN; CREATE TABLE t (a int) PARTITION BY LIST (a); ALTER TABLE t ATTACH PARTITION orders DEFAULT; COMMIT;"
    ),
    "new table filled by a query": "BEGIN; CREATE TABLE t (a int); INSERT INTO t SELECT a FROM orders; COMMIT;",
    "delete in a CTE of an update of a new table": (
        "BEGIN; CREATE TABLE t (a int); WITH x AS (DELETE FROM orders) UPDATE t SET a = 1; COMMIT;"
    ),
    "constraint validated immediately": (
        "BEGIN; ALTER TABLE orders ADD CONSTRAINT c CHECK (a > 0) NOT VALID;"
        "ALTER TABLE orders VALIDATE CONSTRAINT c; COMMIT;"
    ),
    "not null after a check that was not validated": (
        "BEGIN; ALTER TABLE orders ADD CONSTRAINT c CHECK (a IS NOT NULL) NOT VALID; COMMIT;"
        "BEGIN; ALTER TABLE orders ALTER a SET NOT NULL; COMMIT;"
    ),
    "not null after another check": (
        "BEGIN; ALTER TABLE orders ADD CONSTRAINT c CHECK (a > 0) NOT VALID; COMMIT;"
        "ALTER TABLE orders VALIDATE CONSTRAINT c; BEGIN; ALTER TABLE orders ALTER a SET NOT NULL; COMMIT;"
    ),
    "not null after the opposite check": (
        CHECKED.replace("IS NOT NULL", "IS NULL") + "BEGIN; ALTER TABLE orders ALTER a SET NOT NULL; COMMIT;"
    ),
    "not null of another column": CHECKED + "BEGIN; ALTER TABLE orders ALTER b SET NOT NULL; COMMIT;",
    "not null of another table": CHECKED + "BEGIN; ALTER TABLE carts ALTER a SET NOT NULL; COMMIT;",
    "not null after the check was dropped": (
        CHECKED + "BEGIN; ALTER TABLE orders ALTER a SET NOT NULL, DROP CONSTRAINT c; COMMIT;"
    ),
    "not null of a recreated column": (
        CHECKED + "BEGIN; ALTER TABLE orders DROP a; ALTER TABLE orders ADD a int;"
        "ALTER TABLE orders ALTER a SET NOT NULL; COMMIT;"
    ),
}

ADVICE = {
    "CREATE INDEX ON orders (a)": "use build_index()",
    "UPDATE orders SET a = 1": "use INSERT ... VALUES with constants, or backfill()",
    "ALTER TABLE orders ADD CHECK (a > 0)": "add it NOT VALID, then use validate_constraint()",
    "ALTER TABLE orders ADD a uuid DEFAULT uuidv7()": "give it a constant default",
    "ALTER TABLE orders ALTER a SET NOT NULL": "validate CHECK (column IS NOT NULL) first",
    "ALTER TABLE orders ALTER a TYPE bigint": "see CONTRIBUTING.md",
    "CREATE TABLE IF NOT EXISTS orders (a int)": "without IF NOT EXISTS",
    "COMMIT; CREATE TABLE t (a int)": "put it into the migration's own transaction",
    "COMMIT; DELETE FROM orders": "WHERE id IN (SELECT id FROM the_same_table WHERE ... LIMIT 1000)",
}


def test_migrations_after_the_baseline_do_not_block() -> None:
    assert find_blocking_statements(render_sql(alembic_config(""))) == []


@pytest.mark.parametrize("sql", SAFE_INSIDE)
def test_brief_statement_is_accepted_in_a_transaction(sql: str) -> None:
    assert find_blocking_statements(f"BEGIN; {sql}; COMMIT;") == []


@pytest.mark.parametrize("sql", SAFE_OUTSIDE)
def test_non_blocking_statement_is_accepted_outside_a_transaction(sql: str) -> None:
    assert find_blocking_statements(f"BEGIN; COMMIT; {sql}; BEGIN; COMMIT;") == []


@pytest.mark.parametrize("sql", SAFE_SCRIPTS.values(), ids=SAFE_SCRIPTS)
def test_safe_script_is_accepted(sql: str) -> None:
    assert find_blocking_statements(sql) == []


@pytest.mark.parametrize("sql", REFUSED_INSIDE)
def test_blocking_statement_is_refused_in_a_transaction(sql: str) -> None:
    assert len(find_blocking_statements(f"BEGIN; {sql}; COMMIT;")) == 1


@pytest.mark.parametrize("sql", REFUSED_OUTSIDE)
def test_blocking_statement_is_refused_outside_a_transaction(sql: str) -> None:
    assert len(find_blocking_statements(f"BEGIN; COMMIT; {sql}; BEGIN; COMMIT;")) == 1


@pytest.mark.parametrize("sql", REFUSED_SCRIPTS.values(), ids=REFUSED_SCRIPTS)
def test_blocking_script_is_refused(sql: str) -> None:
    assert len(find_blocking_statements(sql)) == 1


@pytest.mark.parametrize(("sql", "advice"), ADVICE.items())
def test_refusal_contains_advice(sql: str, advice: str) -> None:
    [fault] = find_blocking_statements(f"BEGIN; {sql}")
    assert advice in fault


def test_baseline_is_refused_for_a_single_foreign_key() -> None:
    # Alembic can't write the JSON of the last revision, reference data, offline.
    [fault] = find_blocking_statements(render_sql(alembic_config(""), "base:1013"))
    assert fault.startswith("ALTER TABLE products ADD CONSTRAINT fk_products_sale_id FOREIGN KEY")


@pytest.fixture
def copy(addresses: Addresses) -> Iterator[str]:
    name = f"locks_{uuid4().hex[:8]}"
    yield create_database(addresses, name)
    drop_database(addresses, name)


def write_migrations(folder: Path, url: str, bodies: tuple[str, ...]) -> Config:
    """Write migrations that follow the latest revision."""
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


def test_blocking_statements_of_migration_files_are_found(tmp_path: Path) -> None:
    index, change = "CREATE INDEX i ON orders (note)", "UPDATE orders SET note = 1"
    bodies = ("op.create_index('i', 'orders', ['note'])", f"op.execute('{change}')")
    faults = find_blocking_statements(render_sql(write_migrations(tmp_path, "", bodies)))
    assert [fault.split(":")[0] for fault in faults] == [index, change]


def test_non_blocking_migrations_are_accepted_and_run_with_timeouts(copy: str, tmp_path: Path) -> None:
    query(copy, "INSERT INTO campuses (name, slug) VALUES ('C', 'c')")
    hub = (
        "INSERT INTO hubs (campus_id, name, address, opening_hours)"
        " SELECT id, gen_random_uuid(), 'A', 'always' FROM campuses"
    )
    for _ in range(5):
        query(copy, hub)
    config = write_migrations(tmp_path, copy, CAREFUL)
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
    alembic.command.upgrade(
        write_migrations(tmp_path, copy, ('build_index("ix_hubs_name", "hubs", ["name"])',)), "head"
    )
    assert query(copy, "SELECT indisvalid FROM pg_index WHERE indexrelid = 'ix_hubs_name'::regclass") == [
        (True,)
    ]
