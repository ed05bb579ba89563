"""Prepared statements: preparation per connection, and correct results for all values."""

from collections.abc import Iterator
from datetime import UTC, datetime
from uuid import uuid4

import pytest
from sqlalchemy import Text, bindparam, cast, literal, select, text

from marketplace.infra.db import Database, allow_long_statements
from marketplace.infra.settings import Settings, SettingsError
from marketplace.infra.sql.statements import Prepared
from tests.support.pgbouncer import bare_database, connection_mode, pgbouncer, pooled_url, role_settings

__all__ = ["bare_database", "connection_mode", "pgbouncer", "pooled_url", "role_settings"]

KNOWN = text("SELECT count(*) FROM pg_prepared_statements")


@pytest.fixture
def any_database(connection_mode: tuple[str, bool]) -> Iterator[Database]:
    """A database with a pool of a single connection, for each way to connect."""
    url, prepared = connection_mode
    database = Database(url, pool_size=1, application_name="prepared", prepared_statements=prepared)
    yield database
    database.close()


@pytest.fixture
def own_database(settings: Settings) -> Iterator[Database]:
    """A database with a pool of a single connection."""
    database = Database(settings.database_url, pool_size=1, application_name="prepared")
    yield database
    database.close()


def test_values_of_every_type_are_returned_unchanged(any_database: Database) -> None:
    statement = Prepared(
        text(
            "SELECT CAST(:id AS uuid) AS id, CAST(:at AS timestamptz) AS at, CAST(:word AS text) AS word,"
            " CAST(:ids AS uuid[]) AS ids, CAST(:none AS bigint) AS none, '100%' AS share"
        )
    )
    given = {
        "id": uuid4(),
        "at": datetime(2026, 11, 20, 9, 30, tzinfo=UTC),
        "word": "it's 100 % \\ $1",
        "ids": [None, uuid4(), uuid4()],
        "none": None,
    }

    with any_database.reading() as session:
        for _ in range(8):  # the server may use a generic plan from the sixth execution on
            assert statement.one(session, **given) == given | {"share": "100%"}


def test_plan_made_on_small_table_uses_an_index(own_database: Database) -> None:
    statement = Prepared(text("SELECT amount FROM pg_temp.small WHERE id = :id"))

    with own_database.transaction() as session:
        session.execute(text("CREATE TEMPORARY TABLE small (id bigint PRIMARY KEY, amount bigint)"))
        session.execute(text("INSERT INTO small VALUES (1, 500)"))
        session.execute(text("ANALYZE small"))
        assert statement.scalar(session, id=1) == 500
        session.execute(text("INSERT INTO small SELECT n, n FROM generate_series(2, 20000) AS n"))
        [name] = session.scalars(text("SELECT name FROM pg_prepared_statements"))
        plan = "\n".join(session.scalars(text(f"EXPLAIN EXECUTE {name} (7)")))

    assert "Index Scan" in plan, plan
    assert "Seq Scan" not in plan


def test_long_statement_may_read_whole_tables(own_database: Database) -> None:
    with own_database.transaction() as session:
        allow_long_statements(session, seconds=60)
        plan = "\n".join(session.scalars(text("EXPLAIN SELECT sum(amount_minor) FROM ledger_entries")))

    assert "Seq Scan" in plan, plan


def test_repeated_parameter_is_bound_by_name(any_database: Database) -> None:
    word = bindparam("word", type_=Text)
    statement = Prepared(select(cast(word, Text).label("once"), (cast(word, Text) + "!").label("twice")))

    with any_database.reading() as session:
        assert statement.all(session, word="a") == [{"once": "a", "twice": "a!"}]
        assert statement.tuples(session, word="b") == [("b", "b!")]
        assert statement.first(session, word="c") == {"once": "c", "twice": "c!"}


def test_constants_need_no_parameters(any_database: Database) -> None:
    statement = Prepared(select(literal("it's").label("word"), literal(7).label("number")).limit(1))

    with any_database.reading() as session:
        assert statement.all(session) == [{"word": "it's", "number": 7}]
        assert statement.all(session, unused="parameter") == [{"word": "it's", "number": 7}]


def test_statement_with_array_parameter_is_planned_once(own_database: Database) -> None:
    statement = Prepared(text("SELECT o.number FROM orders o WHERE o.id = ANY(:ids)"))
    plans = text(
        "SELECT sum(generic_plans), sum(custom_plans) FROM pg_prepared_statements WHERE name = :name"
    )

    with own_database.reading() as session:
        for _ in range(8):
            statement.all(session, ids=[uuid4()])
        assert session.execute(plans, {"name": statement._name}).one() == (8, 0)


def test_each_connection_prepares_a_statement_once(own_database: Database) -> None:
    statement = Prepared(text("SELECT CAST(:number AS bigint) AS number"))

    for connection in range(2):
        for number in range(3):
            with own_database.reading() as session:
                assert statement.one(session, number=number)["number"] == number
                assert session.execute(KNOWN).scalar() == 1, connection
        own_database.dispose()


def test_statement_stays_prepared_after_rollback(own_database: Database) -> None:
    statement = Prepared(text("SELECT CAST(:number AS bigint) AS number"))

    for number in range(2):
        with own_database.transaction() as session:
            assert statement.one(session, number=number)["number"] == number
            session.rollback()


@pytest.mark.usefixtures("role_settings")
def test_statement_is_not_prepared_when_switched_off(settings: Settings) -> None:
    database = Database(
        settings.database_url, pool_size=1, application_name="plain", prepared_statements=False
    )
    statement = Prepared(text("SELECT CAST(:number AS bigint) AS number"))

    for session_of in (database.reading, database.transaction):
        with session_of() as session:
            assert statement.one(session, number=1)["number"] == 1
            assert session.execute(KNOWN).scalar() == 0
    database.close()


def test_role_without_session_settings_is_refused(bare_database: str) -> None:
    database = Database(bare_database, pool_size=1, application_name="bare", prepared_statements=False)

    refused = pytest.raises(SettingsError, match="statement_timeout = '30s', lock_timeout = '10s'")
    with refused, database.reading() as session:
        session.execute(KNOWN)
