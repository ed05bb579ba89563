"""Names, notification preferences and revisions of the caller's profile over HTTP."""

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest
from flask.testing import FlaskClient

from blueprints.users.schemas import (
    ChannelChanges,
    ChannelPreferences,
    NotificationPreferenceChanges,
    NotificationPreferences,
)
from marketplace.identity.preferences import CHANNELS, DEFAULTS, KINDS
from marketplace.infra.db import Database
from marketplace.notifications.operations import NewNotification, notify, notify_all
from marketplace.notifications.phrases import say
from marketplace.orders import texts as order_texts
from tests.support.market import Bearer, Market
from tests.support.probes import assert_problem, faults

ME = "/api/users/me"


@pytest.fixture
def headers(market: Market, bearer: Bearer) -> dict[str, str]:
    return bearer(market.person(name="Amara"))


def change(client: FlaskClient, headers: dict[str, str], **body: Any) -> Any:
    answer = client.put(ME, json=body, headers=headers)
    assert answer.status_code == 200, answer.json
    return answer.json["data"]


def test_schemas_list_all_kinds_and_channels() -> None:
    assert tuple(NotificationPreferences().fields) == tuple(NotificationPreferenceChanges().fields) == KINDS
    assert tuple(ChannelPreferences().fields) == tuple(ChannelChanges().fields) == CHANNELS


def test_new_user_has_the_default_preferences(client: FlaskClient, headers: dict[str, str]) -> None:
    assert client.get(ME, headers=headers).json["data"]["notificationPreferences"] == {
        kind: {channel: channel in on for channel in CHANNELS} for kind, on in DEFAULTS.items()
    }


def test_changed_preferences_leave_other_kinds_and_channels_unchanged(
    client: FlaskClient, headers: dict[str, str]
) -> None:
    before = client.get(ME, headers=headers).json["data"]["notificationPreferences"]
    change(client, headers, notificationPreferences={"marketing": {"push": True}, "orders": {"email": False}})
    after = change(client, headers, notificationPreferences={"marketing": {"sms": True, "push": None}})

    assert after["notificationPreferences"] == before | {
        "marketing": before["marketing"] | {"push": True, "sms": True},
        "orders": before["orders"] | {"email": False},
    }


@pytest.mark.parametrize(
    ("preferences", "name"),
    [
        ({"security": {"sms": False}}, "notificationPreferences.security"),
        ({"orders": {"pigeon": True}}, "notificationPreferences.orders.pigeon"),
        ({"orders": {"sms": "no"}}, "notificationPreferences.orders.sms"),
        ({"orders": False}, "notificationPreferences.orders"),
        ([], "notificationPreferences"),
    ],
)
def test_invalid_preferences_are_refused(
    client: FlaskClient, headers: dict[str, str], preferences: Any, name: str
) -> None:
    answer = client.put(ME, json={"notificationPreferences": preferences}, headers=headers)
    assert list(faults(answer)) == [name]


@pytest.mark.parametrize(
    ("given", "stored"),
    [
        ("Ame\u0301lie", "Am\u00e9lie"),
        ("O\u0323la\u0301yi\u0301nka\u0301", "\u1eccl\u00e1y\u00ednk\u00e1"),
        ("Ada\u202eevil", "Adaevil"),
        ("Ada\u200b\u2060 Obi\ufeff", "Ada Obi"),
        ("\u0645\u062d\u0645\u062f", "\u0645\u062d\u0645\u062f"),
        ("Ada \U0001f469\u200d\U0001f393", "Ada \U0001f469\u200d\U0001f393"),
        ("A\u200dda", "Ada"),
    ],
    ids=["combining", "yoruba", "bidi", "zero width", "arabic", "emoji", "stray joiner"],
)
def test_name_is_stored_in_normal_form(
    client: FlaskClient, headers: dict[str, str], given: str, stored: str
) -> None:
    assert change(client, headers, name=given)["name"] == stored


@pytest.mark.parametrize("name", ["\x00Ada", "Ada\x1b[31m", "\u200b", "e\u0301" * 101])
def test_name_with_control_characters_or_of_wrong_length_is_refused(
    client: FlaskClient, headers: dict[str, str], name: str
) -> None:
    assert list(faults(client.put(ME, json={"name": name}, headers=headers))) == ["name"]


def test_stale_revision_is_refused_in_body_and_header(client: FlaskClient, headers: dict[str, str]) -> None:
    first = client.get(ME, headers=headers).json["data"]["revision"]
    second = change(client, headers, name="Ada", revision=first)["revision"]
    assert second == first + 1

    stale = client.put(ME, json={"name": "Obi", "revision": first}, headers=headers)
    assert_problem(stale, 409, "CONCURRENCY_CONFLICT")
    by_header = headers | {"If-Match": f'"{first}"'}
    assert_problem(client.put(ME, json={"name": "Obi"}, headers=by_header), 409, "CONCURRENCY_CONFLICT")
    assert client.get(ME, headers=headers).json["data"]["name"] == "Ada"
    assert change(client, headers, name="Ada")["revision"] == second


@pytest.mark.parametrize(
    "field", ["role", "staffRole", "accountStatus", "badges", "permissions", "referralCode", "email", "id"]
)
def test_protected_fields_cannot_be_set(client: FlaskClient, headers: dict[str, str], field: str) -> None:
    assert list(faults(client.put(ME, json={field: "admin"}, headers=headers))) == [field]


def test_notifications_are_written_in_the_chosen_language(
    client: FlaskClient, market: Market, bearer: Bearer, database: Database
) -> None:
    people = {"pcm": market.person(), "en": market.person()}
    pidgin = bearer(people["pcm"])
    assert change(client, pidgin, language="pcm")["language"] == "pcm"
    notifications = [
        NewNotification(
            person,
            "order_expired",
            say(order_texts.ORDER_EXPIRED_TITLE),
            [say(order_texts.ORDER_EXPIRED_BODY, order_number="CM-7")],
            None,
            "tests:bulk",
        )
        for person in people.values()
    ]
    with database.transaction() as session:
        notify_all(session, notifications=notifications, now=datetime.now(UTC))
        notify(
            session,
            user_id=people["pcm"],
            type="order_expired",
            title=say(order_texts.ORDER_EXPIRED_TITLE),
            body="Plain.",
            link=None,
            cause="tests:single",
            now=datetime.now(UTC),
        )

    def titles(person: UUID) -> list[str]:
        listed = client.get("/api/notifications", headers=bearer(person)).json["data"]
        return [notification["title"] for notification in listed]

    assert titles(people["pcm"]) == ["Your order don expire", "Your order don expire"]
    assert titles(people["en"]) == ["Your order expired"]


def test_unknown_language_is_refused(client: FlaskClient, headers: dict[str, str]) -> None:
    answer = client.put(ME, json={"language": "tlh"}, headers=headers)
    assert_problem(answer, 422, "VALIDATION_FAILED")
