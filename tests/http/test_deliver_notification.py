"""The function deliver-notification: callers, both shapes of bodies, and repeated calls."""

from typing import Any
from uuid import UUID, uuid4

import pytest
from flask.testing import FlaskClient
from sqlalchemy import select, update
from werkzeug.test import TestResponse

from marketplace.infra.db import Database
from marketplace.notifications.models import Notification, NotificationDeliveryLog
from marketplace.notifications.operations import notify
from tests.support.function_calls import KEYED, encode, signed
from tests.support.market import Market
from tests.support.probes import assert_problem
from tests.support.product_api import faults_of
from tests.support.purchases import NOW

PATH = "/functions/v1/deliver-notification"


def post(client: FlaskClient, body: dict[str, Any], headers: dict[str, str] | None = None) -> TestResponse:
    return client.post(
        PATH,
        data=encode(body),
        content_type="application/json",
        headers=KEYED if headers is None else headers,
    )


def own_body(user_id: UUID, **changes: Any) -> dict[str, Any]:
    given = {
        "id": str(uuid4()),
        "userId": str(user_id),
        "kind": "order_refunded",
        "title": "Refund sent",
        "body": "Your refund is on its way.",
        "link": "/orders",
    } | changes
    return {name: value for name, value in given.items() if value is not None}


def trigger_body(notification_id: object, **changes: Any) -> dict[str, Any]:
    return {
        "type": "INSERT",
        "schema": "public",
        "table": "notifications",
        "record": {"id": str(notification_id), "title": "Refund sent"},
        "old_record": None,
    } | changes


def planned(database: Database, user_id: UUID) -> list[bool]:
    """Return for each notification of a person whether deliveries will be planned."""
    with database.reading() as session:
        rows = session.scalars(select(Notification.deliver_at).where(Notification.user_id == user_id))
        return [row is not None for row in rows]


@pytest.fixture
def notified(market: Market, database: Database) -> tuple[UUID, UUID]:
    """A person with a notification whose deliveries were lost before the plan."""
    person = market.person()
    with database.transaction() as session:
        written = notify(
            session,
            user_id=person,
            type="order_refunded",
            title="Refund sent",
            body="Body.",
            link=None,
            cause=f"tests:{uuid4()}",
            now=NOW,
        )
        assert written is not None
        session.execute(update(Notification).where(Notification.id == written).values(deliver_at=None))
    return person, written


def test_notification_of_a_service_is_delivered_once(
    client: FlaskClient, market: Market, database: Database
) -> None:
    person = market.person()
    body = own_body(person)

    assert post(client, body).json == {"ignored": False, "accepted": True}
    assert post(client, body).json == {"ignored": False, "accepted": False}
    assert planned(database, person) == [True]


def test_signed_call_is_accepted(client: FlaskClient, market: Market) -> None:
    body = own_body(market.person())
    assert post(client, body, signed(encode(body))).status_code == 200


def test_call_without_key_is_refused(client: FlaskClient, market: Market) -> None:
    assert_problem(post(client, own_body(market.person()), {}), 401, "AUTH_UNAUTHORIZED")


def test_row_of_a_trigger_is_delivered_once(
    client: FlaskClient, notified: tuple[UUID, UUID], database: Database
) -> None:
    person, notification_id = notified

    assert post(client, trigger_body(notification_id)).json == {"ignored": False, "accepted": True}
    assert planned(database, person) == [True]
    with database.transaction() as session:
        session.execute(update(Notification).values(deliver_at=None))
        session.add(
            NotificationDeliveryLog(
                notification_id=notification_id, user_id=person, channel="email", status="sent"
            )
        )
    assert post(client, trigger_body(notification_id)).json == {"ignored": False, "accepted": False}
    assert planned(database, person) == [False]


@pytest.mark.parametrize("change", [{"type": "UPDATE"}, {"table": "orders"}, {"schema": "private"}])
def test_other_row_changes_are_ignored(
    client: FlaskClient, notified: tuple[UUID, UUID], change: dict[str, str]
) -> None:
    assert post(client, trigger_body(notified[1], **change)).json == {"ignored": True}


def test_unknown_row_is_not_found(client: FlaskClient) -> None:
    assert_problem(post(client, trigger_body(uuid4())), 404, "RESOURCE_NOT_FOUND")


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"kind": "order_vanished"}, "kind"),
        ({"kind": "order_paid"}, "kind"),
        ({"kind": None}, "kind"),
        ({"title": None}, "title"),
        ({"body": ""}, "body"),
        ({"userId": str(uuid4())}, "userId"),
        ({"userId": None}, "userId"),
        ({"link": "//evil.example"}, "link"),
        ({"link": "https://evil.example"}, "link"),
        ({"colour": "red"}, "colour"),
    ],
)
def test_faulty_field_is_named(
    client: FlaskClient, market: Market, changes: dict[str, Any], field: str
) -> None:
    response = post(client, own_body(market.person(), **changes))

    assert_problem(response, 422, "VALIDATION_FAILED")
    assert field in faults_of(response)


@pytest.mark.parametrize("body", [{}, {"record": {}}, {"id": str(uuid4()), "record": {"id": str(uuid4())}}])
def test_body_without_a_single_shape_is_refused_or_ignored(client: FlaskClient, body: dict[str, Any]) -> None:
    response = post(client, body)

    assert response.json == {"ignored": True} or response.status_code == 422
