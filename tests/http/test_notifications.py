"""The notification feed over HTTP: pages, unread count, reading, and privacy."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from flask.testing import FlaskClient
from sqlalchemy import text

from blueprints.notifications.schemas import NotificationView
from marketplace.identity.models import FormerContact
from marketplace.infra.db import Database
from marketplace.notifications import feed as feed_module
from marketplace.notifications.feed import MAX_UNREAD_COUNT
from marketplace.notifications.operations import NewNotification, notify, notify_all
from tests.support.market import Bearer, Market
from tests.support.probes import assert_problem, faults
from tests.support.query_plans import explain

PATH = "/api/notifications"
NOW = datetime(2026, 11, 2, 9, tzinfo=UTC)


class Feed:
    """A person with notifications, the oldest first in ``ids``."""

    def __init__(self, market: Market, database: Database, bearer: Bearer, client: FlaskClient) -> None:
        self.user_id = market.person()
        self.database, self._client = database, client
        self.headers = bearer(self.user_id)
        self.ids: list[str] = []

    def add(self, count: int = 1) -> None:
        """Notify the person of several causes, one after the other."""
        with self.database.transaction() as session:
            for _ in range(count):
                notification_id = notify(
                    session,
                    user_id=self.user_id,
                    type="order_paid",
                    title="Payment received",
                    body="Accept the order.",
                    link="/orders/7",
                    cause=f"test:{uuid4()}",
                    now=NOW,
                )
                assert notification_id is not None
                self.ids.append(str(notification_id))

    def page(self, **query: Any) -> Any:
        answer = self._client.get(PATH, query_string=query, headers=self.headers)
        assert answer.status_code == 200, answer.json
        return answer.json

    def read(self, notification_id: str) -> Any:
        return self._client.put(f"{PATH}/{notification_id}/read", headers=self.headers)

    def read_all(self, **body: Any) -> Any:
        return self._client.post(f"{PATH}/read-all", json=body, headers=self.headers)


@pytest.fixture
def feed(market: Market, database: Database, bearer: Bearer, client: FlaskClient) -> Feed:
    return Feed(market, database, bearer, client)


def ids(page: Any) -> list[str]:
    return [item["id"] for item in page["data"]]


def test_feed_is_listed_newest_first_with_unread_count(feed: Feed) -> None:
    feed.add(3)

    page = feed.page()

    assert ids(page) == feed.ids[::-1]
    assert page["meta"]["unreadCount"] == 3
    assert not NotificationView().validate(page["data"][0])
    assert page["data"][0] == {
        "id": feed.ids[-1],
        "type": "order_paid",
        "title": "Payment received",
        "body": "Accept the order.",
        "link": "/orders/7",
        "createdAt": "2026-11-02T09:00:00Z",
        "readAt": None,
    }


def test_cursor_neither_repeats_nor_skips_while_notifications_arrive(feed: Feed) -> None:
    feed.add(5)
    first = feed.page(limit=2)
    feed.add(2)

    second = feed.page(limit=2, cursor=first["meta"]["next_cursor"])
    third = feed.page(limit=2, cursor=second["meta"]["next_cursor"])

    assert ids(first) + ids(second) + ids(third) == feed.ids[4::-1]
    assert third["meta"]["has_more"] is False


def test_unread_filter_leaves_out_read_notifications(feed: Feed) -> None:
    feed.add(3)
    feed.read(feed.ids[1])

    page = feed.page(unread="true")

    assert ids(page) == [feed.ids[2], feed.ids[0]]
    assert page["meta"]["unreadCount"] == 2
    assert len(ids(feed.page(unread="false"))) == 3


def test_cursor_of_all_notifications_is_refused_for_unread_ones(feed: Feed, client: FlaskClient) -> None:
    feed.add(3)
    cursor = feed.page(limit=1)["meta"]["next_cursor"]

    refused = client.get(
        PATH, query_string={"limit": 1, "cursor": cursor, "unread": "true"}, headers=feed.headers
    )

    assert_problem(refused, 422, "VALIDATION_FAILED")
    assert faults(refused) == ["cursor"]


def test_repeated_reading_keeps_the_first_time(feed: Feed) -> None:
    feed.add()

    first, second = feed.read(feed.ids[0]), feed.read(feed.ids[0])

    assert first.status_code == second.status_code == 200
    assert first.json["data"]["readAt"] is not None
    assert second.json["data"] == first.json["data"]


def test_read_all_keeps_notifications_after_the_given_one_unread(feed: Feed) -> None:
    feed.add(4)

    answer = feed.read_all(upToId=feed.ids[2])

    assert answer.json["data"] == {"unreadCount": 1}
    assert ids(feed.page(unread="true")) == [feed.ids[3]]
    assert feed.read_all().json["data"] == {"unreadCount": 0}


def test_read_all_keeps_the_time_of_read_notifications(feed: Feed) -> None:
    feed.add(2)
    read_at = feed.read(feed.ids[0]).json["data"]["readAt"]

    feed.read_all()

    assert feed.page()["data"][1]["readAt"] == read_at


def test_notifications_of_other_people_are_not_found(
    feed: Feed, market: Market, bearer: Bearer, client: FlaskClient
) -> None:
    feed.add()
    other = bearer(market.person())

    assert_problem(client.put(f"{PATH}/{feed.ids[0]}/read", headers=other), 404, "RESOURCE_NOT_FOUND")
    assert client.post(f"{PATH}/read-all", json={}, headers=other).json["data"] == {"unreadCount": 0}
    assert client.get(PATH, headers=other).json["data"] == []
    assert feed.page()["meta"]["unreadCount"] == 1
    assert_problem(client.get(PATH), 401, "AUTH_UNAUTHORIZED")


@pytest.mark.parametrize("status", ["restricted", "suspended"])
def test_barred_person_reads_the_feed(feed: Feed, status: str) -> None:
    feed.add()
    with feed.database.transaction() as session:
        session.execute(
            text("UPDATE profiles SET account_status = :status, status_reason = 'Fraud' WHERE id = :id"),
            {"status": status, "id": feed.user_id},
        )

    assert ids(feed.page()) == feed.ids
    assert feed.read(feed.ids[0]).status_code == 200
    assert feed.read_all().status_code == 200


def test_notification_to_former_contact_is_not_in_the_feed(feed: Feed) -> None:
    feed.add()
    with feed.database.transaction() as session:
        replaced = FormerContact(
            user_id=feed.user_id, kind="phone", contact="+2348031234567", replaced_at=datetime.now(UTC)
        )
        session.add(replaced)
        session.flush()
        session.execute(
            text("UPDATE notifications SET former_contact_id = :contact WHERE id = :id"),
            {"contact": replaced.id, "id": feed.ids[0]},
        )

    assert feed.page()["data"] == []
    assert feed.page(unread="true")["meta"]["unreadCount"] == 0
    assert_problem(feed.read(feed.ids[0]), 404, "RESOURCE_NOT_FOUND")


def test_unread_count_ends_at_its_maximum(feed: Feed) -> None:
    feed.add(MAX_UNREAD_COUNT + 5)

    assert feed.page(limit=1)["meta"]["unreadCount"] == MAX_UNREAD_COUNT


def test_unread_pages_and_count_read_only_unread_notifications(feed: Feed) -> None:
    with feed.database.transaction() as session:
        others = [
            NewNotification(feed.user_id, "order_paid", "Paid", "Body.", None, f"bulk:{number}")
            for number in range(2_000)
        ]
        notify_all(session, notifications=others, now=NOW - timedelta(days=1))
        session.execute(
            text("UPDATE notifications SET read_at = now() WHERE user_id = :id"), {"id": feed.user_id}
        )
    feed.add(2)

    values = {"user_id": feed.user_id, "before": UUID(int=2**128 - 1), "limit": 21}
    with feed.database.reading() as session:
        for statement in (feed_module._SELECT_UNREAD_PAGE, feed_module._COUNT_UNREAD):
            nodes, _buffers = explain(session, statement.sql, statement._constants | values)
            assert any("ix_notifications_unread" in node for node in nodes), nodes
