"""Telling people: a cause tells a person once, whoever tells it and however often."""

from typing import Any
from uuid import UUID, uuid4

import pytest

from marketplace.infra.db import Database
from marketplace.notifications.operations import notify
from tests.support.audit_and_notifications import notifications_of
from tests.support.market import Market
from tests.support.purchases import NOW, later
from tests.support.threads import at_once


@pytest.fixture
def person(database: Database) -> UUID:
    return Market(database).person()


def tell(database: Database, person: UUID, **changes: Any) -> UUID | None:
    given: dict[str, Any] = {
        "type": "product_held",
        "title": "Your listing waits",
        "body": "Staff look at it.",
        "link": "/products/1",
        "cause": f"product.held:{uuid4()}",
        "now": NOW,
    }
    return database.in_transaction(notify, user_id=person, **given | changes)


def test_a_row_of_the_feed_is_written(database: Database, person: UUID) -> None:
    told = tell(database, person, cause="once")

    [row] = notifications_of(database, person)
    assert row == {
        "id": told,
        "user_id": person,
        "type": "product_held",
        "title": "Your listing waits",
        "body": "Staff look at it.",
        "link": "/products/1",
        "cause": "once",
        "former_contact_id": None,
        "created_at": NOW,
        "read_at": None,
    }


def test_a_cause_is_told_once_to_each(database: Database, person: UUID) -> None:
    other = Market(database).person()
    cause = f"cause:{uuid4()}"

    assert tell(database, person, cause=cause) is not None
    assert tell(database, person, cause=cause, title="Again", now=later(hours=1)) is None
    assert tell(database, other, cause=cause) is not None
    assert tell(database, person, link=None) is not None

    assert [row["title"] for row in notifications_of(database, person)] == ["Your listing waits"] * 2
    assert len(notifications_of(database, other)) == 1


def test_of_many_at_once_one_tells(database: Database, person: UUID) -> None:
    cause = f"cause:{uuid4()}"

    told = at_once(lambda _: tell(database, person, cause=cause), range(6))

    assert sum(isinstance(one, UUID) for one in told) == 1
    assert len(notifications_of(database, person)) == 1


def test_what_is_rolled_back_was_never_told(database: Database, person: UUID) -> None:
    def fail() -> None:
        with database.transaction() as session:
            notify(session, user_id=person, type="x", title="x", body="x", link=None, cause="x", now=NOW)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()

    assert notifications_of(database, person) == []
