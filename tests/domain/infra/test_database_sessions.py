"""Sessions: statements past the ORM and the ORM itself go by one connection, and commit or vanish together."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from uuid import uuid4

import pytest
from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.infra.db import Database, Statement
from marketplace.platform.models import Campus
from tests.support.pgbouncer import database_way, pgbouncer, pooled_url, role_settings

__all__ = ["database_way", "pgbouncer", "pooled_url", "role_settings"]

_ADD = Statement(text("INSERT INTO campuses (name, slug) VALUES ('North', :slug)"))
_COUNT = Statement(text("SELECT count(*) AS count FROM campuses WHERE slug = ANY(:slugs)"))
_PROCESS = Statement(text("SELECT pg_backend_pid() AS id"))


Ways = tuple[Callable[[Session, str], None], ...]


class GivenUpError(Exception):
    """Ends a transaction."""


@pytest.fixture
def one(database_way: tuple[str, bool]) -> Iterator[Database]:
    """A database with one connection, which every session gets in turn, by each way to the server."""
    url, prepared = database_way
    database = Database(url, pool_size=1, application_name="sessions", prepared_statements=prepared)
    yield database
    database.close()


def new() -> str:
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
class TestATransaction:
    def test_commits_all_of_it(self, one: Database, ways: Ways) -> None:
        slugs = [new(), new()]
        with one.transaction() as session:
            for way, slug in zip(ways, slugs, strict=True):
                way(session, slug)

        assert count(one, *slugs) == 2

    def test_leaves_nothing_behind_when_it_fails(self, one: Database, ways: Ways) -> None:
        slugs = [new(), new()]
        with suppress(GivenUpError), one.transaction() as session:
            for way, slug in zip(ways, slugs, strict=True):
                way(session, slug)
            session.flush()
            raise GivenUpError

        assert count(one, *slugs) == 0

    def test_is_taken_back_and_used_further(self, one: Database, ways: Ways) -> None:
        slugs = [new(), new()]
        with one.transaction() as session:
            ways[0](session, slugs[0])
            session.rollback()
            ways[1](session, slugs[1])

        assert [count(one, slug) for slug in slugs] == [0, 1]

    def test_keeps_what_was_done_before_a_savepoint(self, one: Database, ways: Ways) -> None:
        slugs = [new(), new()]
        with one.transaction() as session:
            ways[0](session, slugs[0])
            with suppress(GivenUpError), session.begin_nested():
                ways[1](session, slugs[1])
                session.flush()
                raise GivenUpError

        assert [count(one, slug) for slug in slugs] == [1, 0]


def test_nothing_is_seen_before_the_commit(one: Database, database: Database) -> None:
    slug = new()
    with one.transaction() as session:
        by_statement(session, slug)
        assert count(database, slug) == 0

    assert count(database, slug) == 1


def test_a_reading_session_commits_each_statement(one: Database, database: Database) -> None:
    slug = new()
    with one.reading() as session:
        by_statement(session, slug)
        assert count(database, slug) == 1


def test_autocommit_ends_with_its_session(one: Database) -> None:
    slug = new()
    with one.reading() as session:
        process = _PROCESS.one(session)["id"]

    with suppress(GivenUpError), one.transaction() as session:
        assert _PROCESS.one(session)["id"] == process
        by_statement(session, slug)
        raise GivenUpError
    with one.engine.connect() as connection:
        connection.execute(text("INSERT INTO campuses (name, slug) VALUES ('North', :slug)"), {"slug": slug})
        connection.rollback()

    assert count(one, slug) == 0


@dataclass(frozen=True)
class _CampusRow:
    slug: str
    name: str


def test_rows_are_instances_of_the_class_that_a_statement_names(one: Database) -> None:
    statement = Statement(text("SELECT 'north' AS slug, 'North' AS name"), row=_CampusRow)
    with one.reading() as session:
        assert statement.one(session) == _CampusRow(slug="north", name="North")
        assert statement.all(session) == [_CampusRow(slug="north", name="North")]
        assert statement.scalar(session) == "north"
        assert statement.scalars(session) == ["north"]


def test_row_class_that_does_not_fit_its_statement_is_refused(one: Database) -> None:
    statement = Statement(text("SELECT 'North' AS name, 'north' AS slug"), row=_CampusRow)
    with one.reading() as session, pytest.raises(TypeError, match="_CampusRow"):
        statement.one(session)
