"""Sessions: plain statements and the ORM share a connection and a transaction."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from uuid import uuid4

import pytest
from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.infra.db import Database
from marketplace.infra.settings import Settings
from marketplace.infra.sql.statements import Statement
from marketplace.kernel.signals import BUCKETS_MS, RECORDER
from marketplace.platform.models import Campus
from tests.support.pgbouncer import connection_mode, pgbouncer, pooled_url, role_settings
from tests.support.threads import at_once

__all__ = ["connection_mode", "pgbouncer", "pooled_url", "role_settings"]

_ADD = Statement(text("INSERT INTO campuses (name, slug) VALUES ('North', :slug)"))
_COUNT = Statement(text("SELECT count(*) AS count FROM campuses WHERE slug = ANY(:slugs)"))
_PROCESS = Statement(text("SELECT pg_backend_pid() AS id"))


Ways = tuple[Callable[[Session, str], None], ...]


class GivenUpError(Exception):
    """Abort a transaction in these tests."""


@pytest.fixture
def single_connection_database(connection_mode: tuple[str, bool]) -> Iterator[Database]:
    """A database with a single connection, for each way to connect. All sessions share the connection."""
    url, prepared = connection_mode
    database = Database(url, pool_size=1, application_name="sessions", prepared_statements=prepared)
    yield database
    database.close()


def new_slug() -> str:
    return f"north-{uuid4().hex}"


def count(database: Database, *slugs: str) -> int:
    with database.reading() as session:
        found: int = _COUNT.one(session, slugs=list(slugs))["count"]
        return found


def by_statement(session: Session, slug: str) -> None:
    _ADD.run(session, slug=slug)


def by_orm(session: Session, slug: str) -> None:
    session.add(Campus(name="North", slug=slug))


WAYS: dict[str, Ways] = {
    "statements": (by_statement, by_statement),
    "the ORM": (by_orm, by_orm),
    "statements, then the ORM": (by_statement, by_orm),
    "the ORM, then statements": (by_orm, by_statement),
}


@pytest.mark.parametrize("ways", WAYS.values(), ids=WAYS)
class TestTransaction:
    def test_transaction_commits_all_changes(self, single_connection_database: Database, ways: Ways) -> None:
        slugs = [new_slug(), new_slug()]
        with single_connection_database.transaction() as session:
            for way, slug in zip(ways, slugs, strict=True):
                way(session, slug)

        assert count(single_connection_database, *slugs) == 2

    def test_failed_transaction_leaves_no_changes(
        self, single_connection_database: Database, ways: Ways
    ) -> None:
        slugs = [new_slug(), new_slug()]
        with suppress(GivenUpError), single_connection_database.transaction() as session:
            for way, slug in zip(ways, slugs, strict=True):
                way(session, slug)
            session.flush()
            raise GivenUpError

        assert count(single_connection_database, *slugs) == 0

    def test_session_is_usable_after_rollback(self, single_connection_database: Database, ways: Ways) -> None:
        slugs = [new_slug(), new_slug()]
        with single_connection_database.transaction() as session:
            ways[0](session, slugs[0])
            session.rollback()
            ways[1](session, slugs[1])

        assert [count(single_connection_database, slug) for slug in slugs] == [0, 1]

    def test_rolled_back_savepoint_keeps_earlier_changes(
        self, single_connection_database: Database, ways: Ways
    ) -> None:
        slugs = [new_slug(), new_slug()]
        with single_connection_database.transaction() as session:
            ways[0](session, slugs[0])
            with suppress(GivenUpError), session.begin_nested():
                ways[1](session, slugs[1])
                session.flush()
                raise GivenUpError

        assert [count(single_connection_database, slug) for slug in slugs] == [1, 0]


def test_changes_are_invisible_before_commit(
    single_connection_database: Database, database: Database
) -> None:
    slug = new_slug()
    with single_connection_database.transaction() as session:
        by_statement(session, slug)
        assert count(database, slug) == 0

    assert count(database, slug) == 1


def test_reading_session_commits_each_statement(
    single_connection_database: Database, database: Database
) -> None:
    slug = new_slug()
    with single_connection_database.reading() as session:
        by_statement(session, slug)
        assert count(database, slug) == 1


def test_autocommit_ends_with_reading_session(single_connection_database: Database) -> None:
    slug = new_slug()
    with single_connection_database.reading() as session:
        process = _PROCESS.one(session)["id"]

    with suppress(GivenUpError), single_connection_database.transaction() as session:
        assert _PROCESS.one(session)["id"] == process
        by_statement(session, slug)
        raise GivenUpError
    with single_connection_database.engine.connect() as connection:
        connection.execute(text("INSERT INTO campuses (name, slug) VALUES ('North', :slug)"), {"slug": slug})
        connection.rollback()

    assert count(single_connection_database, slug) == 0


@dataclass(frozen=True)
class _CampusRow:
    slug: str
    name: str


def test_rows_are_instances_of_row_class_of_statement(single_connection_database: Database) -> None:
    statement = Statement(text("SELECT 'north' AS slug, 'North' AS name"), row=_CampusRow)
    with single_connection_database.reading() as session:
        assert statement.one(session) == _CampusRow(slug="north", name="North")
        assert statement.all(session) == [_CampusRow(slug="north", name="North")]
        assert statement.scalar(session) == "north"
        assert statement.scalars(session) == ["north"]


def test_row_class_with_other_columns_than_the_statement_is_refused(
    single_connection_database: Database,
) -> None:
    statement = Statement(text("SELECT 'North' AS name, 'north' AS slug"), row=_CampusRow)
    with single_connection_database.reading() as session, pytest.raises(TypeError, match="_CampusRow"):
        statement.one(session)


def test_wait_for_a_connection_is_recorded(settings: Settings) -> None:
    small = Database(settings.database_url, pool_size=1, application_name="tests")

    def use(_number: int) -> None:
        with small.reading() as session:
            session.execute(text("SELECT pg_sleep(0.2)"))

    RECORDER.take()
    # The pool grows to two connections, so the third session waits for one of the others.
    assert at_once(use, range(3)) == [None] * 3
    small.close()

    waits = {key.bucket: number for key, number in RECORDER.take().items() if key.signal == "pool_wait"}
    assert sum(number for bucket, number in waits.items() if bucket > BUCKETS_MS.index(100)) >= 1
