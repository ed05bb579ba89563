"""The adapter of the SMS gateway against the sandbox's SMS gateway over HTTP."""

import traceback
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import requests
from structlog.testing import capture_logs

from marketplace.infra.settings import Settings
from marketplace.kernel.errors import ProviderUnavailableError
from marketplace.providers.client import ProviderRefusedError
from marketplace.providers.messaging import sms as messaging_sms
from marketplace.providers.messaging.sms import SmsGateway
from sandbox.providers.server import ProvidersServer
from tests.support.probes import closed_port

KEY = "of-the-tests-only-sms-key"
PHONE = "+2348031234567"
CODE = "482915"
TIMEOUT_SECONDS = 20


class Sandbox:
    """The sandbox's SMS gateway."""

    def __init__(self, server: ProvidersServer) -> None:
        self.url = server.sms_url

    def plan(self, outcome: str) -> None:
        answer = requests.post(f"{self.url}/sandbox/next", json={"outcome": outcome}, timeout=TIMEOUT_SECONDS)
        assert answer.status_code == 200, answer.text

    def set_balance(self, kobo: int) -> None:
        requests.delete(
            f"{self.url}/sandbox/next", json={"balanceKobo": kobo}, timeout=TIMEOUT_SECONDS
        ).raise_for_status()

    def received(self) -> dict[str, Any]:
        answer = requests.get(f"{self.url}/sandbox/messages", timeout=TIMEOUT_SECONDS)
        data: dict[str, Any] = answer.json()["data"]
        return data


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProvidersServer]:
    with ProvidersServer(
        "127.0.0.1",
        0,
        tmp_path_factory.mktemp("providers"),
        secret_key="sk_test_x",
        webhook_url="http://127.0.0.1:9/",
        sms_key=KEY,
        hang_seconds=0.3,
    ) as running:
        yield running


@pytest.fixture
def sandbox(server: ProvidersServer) -> Sandbox:
    sandbox = Sandbox(server)
    sandbox.set_balance(100_000)
    return sandbox


@pytest.fixture
def gateway(settings: Settings, sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> SmsGateway:
    monkeypatch.setattr(messaging_sms, "_TIMEOUT_SECONDS", 0.2)
    return SmsGateway(replace(settings, sms_url=sandbox.url, sms_api_key=KEY))


def test_sent_message_arrives_and_lowers_balance(gateway: SmsGateway, sandbox: Sandbox) -> None:
    before = gateway.fetch_balance()

    sent = gateway.send(phone=PHONE, text="482915 is your code.")

    [message] = sandbox.received()["messages"]
    assert message | {"at": ""} == {
        "id": sent.message_id,
        "to": "2348031234567",
        "from": "Campus",
        "text": "482915 is your code.",
        "channel": "dnd",
        "at": "",
    }
    assert (before, gateway.fetch_balance()) == (100_000, 99_600)
    page = requests.get(f"{sandbox.url}/", timeout=TIMEOUT_SECONDS)
    assert "482915 is your code." in page.text


def test_long_message_costs_each_segment(gateway: SmsGateway) -> None:
    gateway.send(phone=PHONE, text="a" * 161)

    assert gateway.fetch_balance() == 100_000 - 2 * 400


@pytest.mark.parametrize("outcome", ["error", "limited", "timeout"])
def test_failed_send_is_an_unavailable_provider(gateway: SmsGateway, sandbox: Sandbox, outcome: str) -> None:
    sandbox.plan(outcome)

    with pytest.raises(ProviderUnavailableError):
        gateway.send(phone=PHONE, text=CODE)

    assert sandbox.received() == {"calls": 1, "messages": []}


def test_lost_answer_is_not_repeated(gateway: SmsGateway, sandbox: Sandbox) -> None:
    sandbox.plan("lost")

    with pytest.raises(ProviderUnavailableError):
        gateway.send(phone=PHONE, text=CODE)

    received = sandbox.received()
    assert (received["calls"], len(received["messages"])) == (1, 1)


def test_refused_message_is_not_sent(gateway: SmsGateway, sandbox: Sandbox) -> None:
    sandbox.plan("refused")
    with pytest.raises(ProviderRefusedError):
        gateway.send(phone=PHONE, text=CODE)
    sandbox.set_balance(399)
    with pytest.raises(ProviderRefusedError) as refused:
        gateway.send(phone=PHONE, text=CODE)

    assert refused.value.message == "Insufficient balance"
    assert sandbox.received()["messages"] == []


@pytest.mark.parametrize(
    ("phone", "settings_changes"),
    [("08031234567", {}), (PHONE, {"sms_sender_id": "Campus Market"}), (PHONE, {"sms_channel": "voice"})],
    ids=["national number", "long sender", "unknown channel"],
)
def test_sandbox_refuses_invalid_fields(
    settings: Settings, sandbox: Sandbox, phone: str, settings_changes: dict[str, str]
) -> None:
    gateway = SmsGateway(replace(settings, sms_url=sandbox.url, sms_api_key=KEY, **settings_changes))

    with pytest.raises(ProviderRefusedError):
        gateway.send(phone=phone, text=CODE)


def test_wrong_key_is_refused(settings: Settings, sandbox: Sandbox) -> None:
    gateway = SmsGateway(replace(settings, sms_url=sandbox.url, sms_api_key="wrong"))

    with pytest.raises(ProviderRefusedError):
        gateway.send(phone=PHONE, text=CODE)
    with pytest.raises(ProviderRefusedError):
        gateway.fetch_balance()


def test_key_and_text_reach_no_log_or_traceback(settings: Settings) -> None:
    gateway = SmsGateway(replace(settings, sms_url=f"http://127.0.0.1:{closed_port()}", sms_api_key=KEY))
    shown = ""
    with capture_logs() as logs:
        for call in (gateway.fetch_balance, lambda: gateway.send(phone=PHONE, text=CODE)):
            with pytest.raises(ProviderUnavailableError) as failed:
                call()
            shown += "".join(traceback.format_exception(failed.value))

    shown += str(logs)
    assert not [secret for secret in (KEY, CODE, PHONE[1:]) if secret in shown]
