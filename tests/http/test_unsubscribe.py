"""Unsubscribing from e-mails with one click, over HTTP."""

from urllib.parse import parse_qs, urlsplit
from uuid import uuid4

import pytest
from flask.testing import FlaskClient

from marketplace.identity.models import Profile
from marketplace.infra.settings import Settings
from marketplace.notifications.unsubscribe import PATH, make_unsubscribe_url
from tests.support.market import Market
from tests.support.probes import assert_problem


def token_of(settings: Settings, user_id: object, preference: str = "favorites", *, key: str = "") -> str:
    url = make_unsubscribe_url(
        user_id,  # type: ignore[arg-type]
        preference,
        key=key or settings.cursor_key,
        base_url=settings.public_base_url,
    )
    return parse_qs(urlsplit(url).query)["token"][0]


def test_mail_program_unsubscribes_with_a_post(
    client: FlaskClient, market: Market, settings: Settings
) -> None:
    person = market.person(notification_preferences={"favorites": {"push": True}})
    token = token_of(settings, person)
    for _ in range(2):
        answer = client.post(PATH, query_string={"token": token}, data={"List-Unsubscribe": "One-Click"})
        assert answer.status_code == 200
        assert answer.get_json()["data"] == {"kind": "favorites", "email": False}

    profile = market.row(Profile, person)
    assert profile.notification_preferences == {"favorites": {"push": True, "email": False}}
    assert profile.revision == 2


@pytest.mark.parametrize("fault", ["other key", "changed", "unknown person", "unknown kind", "none"])
def test_faulty_token_is_refused(client: FlaskClient, market: Market, settings: Settings, fault: str) -> None:
    person = market.person()
    token = {
        "other key": token_of(settings, person, key="x" * 40),
        "changed": token_of(settings, person)[:-2] + "xx",
        "unknown person": token_of(settings, uuid4()),
        "unknown kind": token_of(settings, person, "orders-of-others"),
        "none": "",
    }[fault]

    assert_problem(client.post(PATH, query_string={"token": token}), 422, "VALIDATION_FAILED")
