"""Verification of phone numbers by SMS, over HTTP."""

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from flask import Flask
from flask.testing import FlaskClient
from sqlalchemy import exists, select
from structlog.testing import capture_logs

from marketplace.alerts.models import Alert
from marketplace.identity.phone_verification import MAX_ATTEMPTS, MAX_CODES_PER_DAY, MAX_CODES_PER_MINUTE
from marketplace.infra.db import Database
from marketplace.infra.settings import Settings
from marketplace.kernel.errors import ServiceUnavailableError
from marketplace.notifications.delivery.code_sms import ensure_within_sms_limit
from marketplace.notifications.models import NotificationDeliveryLog
from tests.support.gateway import MovableClock, TestGateway
from tests.support.market import Bearer, Market
from tests.support.product_api import faults_of
from tests.support.purchases import NOW

ME = "/api/users/me"
CODE, CONFIRM = f"{ME}/phone/code", f"{ME}/phone/confirm"


def random_number() -> str:
    return f"+234803{uuid4().int % 10**7:07}"


class Phones:
    """People who verify phone numbers. The numbers are new for each test, because the limits count by number."""

    def __init__(self, client: FlaskClient, market: Market, bearer: Bearer, gateway: TestGateway) -> None:
        self._client, self._market, self._bearer = client, market, bearer
        self.sms = gateway.server.sms
        self.number, self.other_number = random_number(), random_number()

    def person(self) -> UUID:
        return self._market.person()

    def request_code(self, user_id: UUID, phone: str | None = None) -> Any:
        return self.post_number(user_id, phone or self.number)

    def post_number(self, user_id: UUID, phone: Any) -> Any:
        return self._client.post(CODE, json={"phone": phone}, headers=self._bearer(user_id))

    def confirm(self, user_id: UUID, code: str) -> Any:
        return self._client.post(CONFIRM, json={"code": code}, headers=self._bearer(user_id))

    def latest_code(self, phone: str | None = None) -> str:
        text = self.sms.list_messages((phone or self.number)[1:])[-1]["text"]
        [code] = re.findall(r"\b[0-9]{6}\b", text)
        assert len(text) <= 160
        return str(code)

    def verify(self, user_id: UUID, phone: str | None = None) -> None:
        assert self.request_code(user_id, phone).status_code == 200
        assert self.confirm(user_id, self.latest_code(phone)).status_code == 200

    def me(self, user_id: UUID) -> Any:
        return self._client.get(ME, headers=self._bearer(user_id)).json["data"]

    def update(self, user_id: UUID, **body: Any) -> None:
        assert self._client.put(ME, json=body, headers=self._bearer(user_id)).status_code == 200


@pytest.fixture
def phones(
    paying_app: Flask,
    market: Market,
    bearer: Bearer,
    gateway: TestGateway,
    clock: MovableClock,
) -> Phones:
    gateway.server.sms.reset()
    return Phones(paying_app.test_client(), market, bearer, gateway)


def test_confirmed_number_becomes_verified_number(phones: Phones) -> None:
    user = phones.person()
    before = phones.me(user)

    sent = phones.request_code(user, f"0{phones.number[4:]}")
    confirmed = phones.confirm(user, phones.latest_code())

    assert (sent.status_code, sent.json["data"]["phone"]) == (200, phones.number)
    assert sent.json["data"]["attemptsLeft"] == MAX_ATTEMPTS
    assert not before["phoneVerified"]
    assert confirmed.status_code == 200
    assert (confirmed.json["data"]["phone"], confirmed.json["data"]["phoneVerified"]) == (phones.number, True)
    assert confirmed.json["data"]["revision"] == before["revision"] + 1
    assert phones.request_code(user).json["reason"] == "phone-already-verified"


def test_response_and_logs_do_not_contain_code(phones: Phones) -> None:
    user = phones.person()

    with capture_logs() as logs:
        answer = phones.request_code(user)
        code = phones.latest_code()
        phones.confirm(user, "000000")
        phones.confirm(user, code)

    assert code not in answer.get_data(as_text=True).replace(answer.json["meta"]["requestId"], "")
    assert not [log for log in logs if code in str(log) or phones.number[1:] in str(log)]


def test_wrong_codes_use_up_attempts(phones: Phones) -> None:
    user = phones.person()
    phones.request_code(user)
    right = phones.latest_code()
    wrong = f"{(int(right) + 1) % 10**6:06}"

    answers = [phones.confirm(user, wrong) for _ in range(MAX_ATTEMPTS)]

    assert [answer.status_code for answer in answers] == [422] * MAX_ATTEMPTS
    assert [answer.json["attemptsLeft"] for answer in answers] == [4, 3, 2, 1, 0]
    assert (answers[0].json["reason"], faults_of(answers[0])) == ("wrong-code", ["code"])
    refused = phones.confirm(user, right)
    assert (refused.status_code, refused.json["reason"]) == (409, "no-valid-code")
    assert not phones.me(user)["phoneVerified"]


def test_code_expires_after_ten_minutes(phones: Phones, clock: MovableClock) -> None:
    user = phones.person()
    phones.request_code(user)
    clock.now += timedelta(minutes=10)

    assert phones.confirm(user, phones.latest_code()).json["reason"] == "no-valid-code"


def test_new_code_replaces_earlier_code(phones: Phones) -> None:
    user = phones.person()
    phones.request_code(user)
    first = phones.latest_code()
    phones.request_code(user, phones.other_number)

    assert phones.confirm(user, first).status_code == 422
    assert (
        phones.confirm(user, phones.latest_code(phones.other_number)).json["data"]["phone"]
        == phones.other_number
    )


def test_code_is_valid_once_and_only_for_its_user(phones: Phones) -> None:
    user, other = phones.person(), phones.person()
    phones.request_code(user)
    code = phones.latest_code()

    assert phones.confirm(other, code).json["reason"] == "no-valid-code"
    assert phones.confirm(user, code).status_code == 200
    assert phones.confirm(user, code).json["reason"] == "no-valid-code"


def test_change_of_number_ends_verification(phones: Phones) -> None:
    user = phones.person()
    phones.verify(user)

    phones.update(user, phone=f"0{phones.number[4:]}", name="Amara")
    assert phones.me(user)["phoneVerified"]
    phones.update(user, phone=phones.other_number)
    assert (phones.me(user)["phone"], phones.me(user)["phoneVerified"]) == (phones.other_number, False)
    phones.update(user, phone=phones.number)
    assert not phones.me(user)["phoneVerified"]
    phones.verify(user)
    phones.update(user, clear=["phone"])
    assert (phones.me(user)["phone"], phones.me(user)["phoneVerified"]) == (None, False)


def test_number_that_changed_hands_is_verified_for_latest_user_only(phones: Phones) -> None:
    former, present = phones.person(), phones.person()
    phones.verify(former)

    phones.verify(present)

    assert [phones.me(user)["phoneVerified"] for user in (former, present)] == [False, True]


def test_number_receives_limited_codes(phones: Phones, clock: MovableClock) -> None:
    answers = [phones.request_code(phones.person()) for _ in range(MAX_CODES_PER_MINUTE + 1)]
    assert [answer.status_code for answer in answers] == [200] * MAX_CODES_PER_MINUTE + [429]
    assert answers[-1].headers["Retry-After"] == "60"
    assert len(phones.sms.list_messages()) == MAX_CODES_PER_MINUTE

    clock.now += timedelta(minutes=1)
    for _ in range(MAX_CODES_PER_DAY - MAX_CODES_PER_MINUTE):
        assert phones.request_code(phones.person()).status_code == 200
    clock.now += timedelta(minutes=1)
    refused = phones.request_code(phones.person())
    assert (refused.status_code, refused.headers["Retry-After"]) == (429, "3600")
    clock.now += timedelta(days=1)
    assert phones.request_code(phones.person()).status_code == 200


def test_user_receives_limited_codes_a_day(phones: Phones, clock: MovableClock) -> None:
    user = phones.person()
    for _ in range(MAX_CODES_PER_DAY):
        assert phones.request_code(user, random_number()).status_code == 200

    assert phones.request_code(user, random_number()).status_code == 429


@pytest.mark.parametrize("outcome", ["error", "refused"])
def test_failed_sms_is_reported_and_may_be_repeated(phones: Phones, outcome: Any) -> None:
    user = phones.person()
    phones.sms.plan(outcome, 1)

    failed = phones.request_code(user)

    assert (failed.status_code, failed.json["code"]) == (502, "PROVIDER_UNAVAILABLE")
    phones.verify(user)


@pytest.mark.parametrize("phone", ["01234567890", "112", "", "+2348031234567890", 8031234567, None, ["0803"]])
def test_invalid_number_is_named(phones: Phones, phone: Any) -> None:
    answer = phones.post_number(phones.person(), phone)

    assert (answer.status_code, faults_of(answer)) == (422, ["phone"])


@pytest.mark.parametrize(
    "code", ["12345", "1234567", "12345a", "\uff11\uff12\uff13\uff14\uff15\uff16", 123456, ""]
)
def test_invalid_code_is_named_and_uses_no_attempt(phones: Phones, code: Any) -> None:
    user = phones.person()
    phones.request_code(user)

    answer = phones.confirm(user, code)

    assert (answer.status_code, faults_of(answer)) == (422, ["code"])
    assert "attemptsLeft" not in answer.json


def test_each_code_is_logged_with_the_cost(phones: Phones, database: Database) -> None:
    person = phones.person()
    phones.request_code(person)
    phones.sms.plan("refused", 1)
    phones.request_code(person)

    with database.reading() as session:
        rows = session.scalars(
            select(NotificationDeliveryLog)
            .where(NotificationDeliveryLog.user_id == person)
            .order_by(NotificationDeliveryLog.id)
        ).all()
    attempts = [(row.channel, row.status, row.error_class, row.cost_minor) for row in rows]
    assert attempts == [("sms", "sent", None, 400), ("sms", "failed", "unavailable", None)]


def test_no_code_is_sent_beyond_the_daily_limit(database: Database, settings: Settings) -> None:
    without_money = replace(settings, sms_daily_limit_naira=0)
    with database.reading() as session, pytest.raises(ServiceUnavailableError):
        ensure_within_sms_limit(session, settings=without_money, now=datetime.now(UTC))


def test_code_that_reaches_the_daily_limit_raises_an_alert_until_the_next_day(
    phones: Phones, database: Database, settings: Settings
) -> None:
    phones.request_code(phones.person())
    with database.transaction() as session:
        is_open = select(exists().where(Alert.identifier == "SMS_LIMIT_REACHED", Alert.resolved_at.is_(None)))
        limited = replace(settings, sms_daily_limit_naira=1)
        with pytest.raises(ServiceUnavailableError):
            ensure_within_sms_limit(session, settings=limited, now=NOW)
        assert session.scalar(is_open)
        ensure_within_sms_limit(session, settings=limited, now=NOW + timedelta(days=2))
        assert not session.scalar(is_open)
        session.rollback()
