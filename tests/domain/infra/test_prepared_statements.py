"""Prepared statements: known to a connection by name, right for any value, and gone with their connection."""

from collections.abc import Iterator
from datetime import UTC, datetime
from uuid import uuid4

import pytest
from sqlalchemy import Text, bindparam, cast, literal, select, text

from marketplace.infra.db import Database, Prepared
from marketplace.infra.settings import Settings, SettingsError
from tests.support.pgbouncer import bare_database, database_way, pgbouncer, pooled_url, role_settings

__all__ = ["bare_database", "database_way", "pgbouncer", "pooled_url", "role_settings"]

KNOWN = text("SELECT count(*) FROM pg_prepared_statements")


@pytest.fixture
def any_database(database_way: tuple[str, bool]) -> Iterator[Database]:
    """A database with one connection a pool, by each way to the server."""
    url, prepared = database_way
    database = Database(url, pool_size=1, application_name="prepared", prepared_statements=prepared)
    yield database
    database.close()


@pytest.fixture
def own_database(settings: Settings) -> Iterator[Database]:
    """A database with one connection a pool."""
    database = Database(settings.database_url, pool_size=1, application_name="prepared")
    yield database
    database.close()


def test_values_of_every_kind_come_through(any_database: Database) -> None:
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
        "ids": [uuid4(), uuid4()],
        "none": None,
    }

    with any_database.reading() as session:
        for _ in range(8):  # from the sixth time on the server may use one plan for all values
            assert statement.one(session, **given) == given | {"share": "100%"}


def test_one_name_is_used_for_one_parameter_wherever_it_stands(any_database: Database) -> None:
    word = bindparam("word", type_=Text)
    statement = Prepared(select(cast(word, Text).label("once"), (cast(word, Text) + "!").label("twice")))

    with any_database.reading() as session:
        assert statement.all(session, word="a") == [{"once": "a", "twice": "a!"}]
        assert statement.tuples(session, word="b") == [("b", "b!")]
        assert statement.first(session, word="c") == {"once": "c", "twice": "c!"}


def test_constants_are_written_into_the_statement(any_database: Database) -> None:
    statement = Prepared(select(literal("it's").label("word"), literal(7).label("number")).limit(1))

    with any_database.reading() as session:
        assert statement.all(session) == [{"word": "it's", "number": 7}]
        assert statement.all(session, unused="parameter") == [{"word": "it's", "number": 7}]


def test_a_connection_prepares_once_and_a_new_one_again(own_database: Database) -> None:
    statement = Prepared(text("SELECT CAST(:number AS bigint) AS number"))

    for connection in range(2):
        for number in range(3):
            with own_database.reading() as session:
                assert statement.one(session, number=number)["number"] == number
                assert session.execute(KNOWN).scalar() == 1, connection
        own_database.dispose()


def test_a_rollback_leaves_it_prepared(own_database: Database) -> None:
    statement = Prepared(text("SELECT CAST(:number AS bigint) AS number"))

    for number in range(2):
        with own_database.transaction() as session:
            assert statement.one(session, number=number)["number"] == number
            session.rollback()


@pytest.mark.usefixtures("role_settings")
def test_nothing_is_prepared_where_it_is_switched_off(settings: Settings) -> None:
    database = Database(
        settings.database_url, pool_size=1, application_name="plain", prepared_statements=False
    )
    statement = Prepared(text("SELECT CAST(:number AS bigint) AS number"))

    for session_of in (database.reading, database.transaction):
        with session_of() as session:
            assert statement.one(session, number=1)["number"] == 1
            assert session.execute(KNOWN).scalar() == 0
    database.close()


def test_a_role_without_the_session_settings_is_refused(bare_database: str) -> None:
    database = Database(bare_database, pool_size=1, application_name="bare", prepared_statements=False)

    refused = pytest.raises(SettingsError, match="statement_timeout = '30s', lock_timeout = '10s'")
    with refused, database.reading() as session:
        session.execute(KNOWN)
