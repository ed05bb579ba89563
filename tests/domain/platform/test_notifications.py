"""Notifications: each cause notifies a person once."""

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


def send(database: Database, person: UUID, **changes: Any) -> UUID | None:
    given: dict[str, Any] = {
        "type": "product_held",
        "title": "Your listing waits",
        "body": "Staff look at it.",
        "link": "/products/1",
        "cause": f"product.held:{uuid4()}",
        "now": NOW,
    }
    return database.in_transaction(notify, user_id=person, **given | changes)


def test_notification_is_stored(database: Database, person: UUID) -> None:
    sent = send(database, person, cause="once")

    [row] = notifications_of(database, person)
    assert row == {
        "id": sent,
        "user_id": person,
        "type": "product_held",
        "title": "Your listing waits",
        "body": "Staff look at it.",
        "link": "/products/1",
        "cause": "once",
        "former_contact_id": None,
        "subject_id": None,
        "created_at": NOW,
        "deliver_at": NOW,
        "read_at": None,
    }


def test_same_cause_notifies_each_person_once(database: Database, person: UUID) -> None:
    other = Market(database).person()
    cause = f"cause:{uuid4()}"

    assert send(database, person, cause=cause) is not None
    assert send(database, person, cause=cause, title="Again", now=later(hours=1)) is None
    assert send(database, other, cause=cause) is not None
    assert send(database, person, link=None) is not None

    assert [row["title"] for row in notifications_of(database, person)] == ["Your listing waits"] * 2
    assert len(notifications_of(database, other)) == 1


def test_concurrent_notifications_of_same_cause_are_stored_once(database: Database, person: UUID) -> None:
    cause = f"cause:{uuid4()}"

    sent = at_once(lambda _: send(database, person, cause=cause), range(6))

    assert sum(isinstance(one, UUID) for one in sent) == 1
    assert len(notifications_of(database, person)) == 1


def test_rolled_back_notification_is_not_stored(database: Database, person: UUID) -> None:
    def fail() -> None:
        with database.transaction() as session:
            notify(
                session, user_id=person, type="order_paid", title="x", body="x", link=None, cause="x", now=NOW
            )
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()

    assert notifications_of(database, person) == []
