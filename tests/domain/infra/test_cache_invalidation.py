"""Cache invalidation: stale content is dropped once, after the commit."""

from collections.abc import Sequence
from uuid import uuid4

import pytest
from sqlalchemy import text
from sqlalchemy.exc import DataError

from marketplace.infra.cache import drop_cached
from marketplace.infra.db import Database
from marketplace.infra.settings import Settings


class Dropped:
    """A recorder of the stale tags that a database reports."""

    def __init__(self) -> None:
        self.calls: list[list[str]] = []

    def __call__(self, tags: Sequence[str]) -> None:
        self.calls.append(list(tags))


@pytest.fixture
def dropped() -> Dropped:
    return Dropped()


@pytest.fixture
def own_database(settings: Settings, dropped: Dropped) -> Database:
    return Database(settings.database_url, pool_size=1, application_name="stale", drop_stale_content=dropped)


def test_tags_of_a_transaction_are_dropped_together_after_commit(
    own_database: Database, dropped: Dropped
) -> None:
    with own_database.transaction() as session:
        drop_cached(session, "products")
        drop_cached(session, "categories", "products")
        session.execute(text("SELECT 1"))
        assert dropped.calls == []

    assert dropped.calls == [["categories", "products"]]


def test_failed_transaction_drops_no_tags(own_database: Database, dropped: Dropped) -> None:
    def fail() -> None:
        with own_database.transaction() as session:
            drop_cached(session, "products")
            session.execute(text("SELECT 1 / 0"))

    with pytest.raises(DataError):
        fail()

    assert dropped.calls == []


def test_savepoint_drops_no_tags_before_commit(own_database: Database, dropped: Dropped) -> None:
    with own_database.transaction() as session:
        with session.begin_nested():
            drop_cached(session, str(uuid4()))
        assert dropped.calls == []

    assert len(dropped.calls) == 1


def test_database_without_cache_ignores_dropped_tags(settings: Settings) -> None:
    without = Database(settings.database_url, pool_size=1, application_name="stale")
    with without.transaction() as session:
        drop_cached(session, "products")
        assert session.execute(text("SELECT 1")).scalar() == 1
    without.close()
