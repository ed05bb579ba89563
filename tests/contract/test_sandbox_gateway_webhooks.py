"""The sandbox gateway's events, controls for scripts, and state after restarts and kills."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from sandbox.providers.gateway.context import InvalidSettingsError
from sandbox.providers.gateway.webhooks import MAXIMUM_TRIES, wait_before_next_try
from sandbox.providers.server import PortUnavailableError, ProvidersServer
from sandbox.providers.store import Store, StoreVersionError
from tests.contract.sandbox_client import BOUND_SECONDS, SECRET_KEY, Client, Receiver, providers, wait_until


def test_script_can_pay_another_amount_or_currency(gateway: Client) -> None:
    less = gateway.paid("checkout-less", amountMinor=499_999)
    assert (less["amount"], less["requested_amount"]) == (499_999, 500_000)
    assert gateway.paid("checkout-dollars", currency="USD")["currency"] == "USD"
    assert [one["currency"] for one in gateway.ok("GET", "/balance")] == ["NGN", "USD"]


def test_failed_charge_moves_no_money_and_can_be_paid_later(gateway: Client, receiver: Receiver) -> None:
    assert gateway.paid("checkout-fails", outcome="failed")["status"] == "failed"
    assert gateway.balance() == 0
    assert gateway.ok("GET", "/sandbox/deliveries?reference=checkout-fails") == []
    assert gateway.ok("POST", "/sandbox/pay/checkout-fails")["status"] == "success"
    wait_until(receiver.events)


def test_charge_can_be_paid_only_once(gateway: Client) -> None:
    gateway.paid("checkout-twice")
    again = gateway.call("POST", "/sandbox/pay/checkout-twice")
    assert (again.status_code, again.json()["code"]) == (409, "already_paid")
    assert gateway.balance() == 482_500
    assert gateway.call("POST", "/sandbox/pay/checkout-none").status_code == 404


def test_duplicate_events_are_identical(gateway: Client, receiver: Receiver) -> None:
    gateway.paid("checkout-many", duplicates=49)
    wait_until(lambda: len(receiver.received) == 50)
    assert len({body for _, body in receiver.received}) == 1
    wait_until(
        lambda: (
            {one["status"] for one in gateway.ok("GET", "/sandbox/deliveries?reference=checkout-many")}
            == {"delivered"}
        )
    )


def test_delay_postpones_the_event_but_not_the_payment(gateway: Client, receiver: Receiver) -> None:
    gateway.paid("checkout-late", delaySeconds=600)
    assert gateway.ok("GET", "/transaction/verify/checkout-late")["status"] == "success"
    delivery = gateway.ok("GET", "/sandbox/deliveries?reference=checkout-late")[0]
    assert (delivery["status"], delivery["attempts"]) == ("waiting", 0)
    assert delivery["dueAt"] > time.time() + 500
    assert receiver.received == []


@pytest.mark.parametrize(
    ("path", "wrong"),
    [
        ("/pay/checkout-x", {"channel": "cash"}),
        ("/pay/checkout-x", {"amountMinor": 0}),
        ("/pay/checkout-x", {"amountMinor": 1.5}),
        ("/pay/checkout-x", {"currency": "EUR"}),
        ("/pay/checkout-x", {"outcome": "maybe"}),
        ("/pay/checkout-x", {"duplicates": 101}),
        ("/pay/checkout-x", {"duplicates": -1}),
        ("/pay/checkout-x", {"delaySeconds": -1}),
        ("/pay/checkout-x", {"delaySeconds": 1e9}),
        ("/pay/checkout-x", {"delay": 1}),
        ("/pay/checkout-x", []),
        ("/transfers/next", {}),
        ("/transfers/next", {"outcome": "odd"}),
        ("/transfers/next", {"outcome": "failed", "count": 0}),
        ("/refunds/next", {"outcome": "failed", "delaySeconds": "1"}),
        ("/balance", {}),
    ],
)
def test_invalid_control_request_names_the_field(gateway: Client, path: str, wrong: object) -> None:
    gateway.initialize("checkout-x")
    response = gateway.call("POST", f"/sandbox{path}", json=wrong)
    assert response.status_code == 422
    assert response.json()["status"] is False
    assert response.json()["field"]


def test_event_is_repeated_until_answered_200(gateway: Client, receiver: Receiver) -> None:
    receiver.answers = [500, 302, 201]
    gateway.paid("checkout-again")
    wait_until(lambda: len(receiver.received) == 4)
    delivery = wait_until(
        lambda: [
            one
            for one in gateway.ok("GET", "/sandbox/deliveries?reference=checkout-again")
            if one["status"] == "delivered"
        ]
    )[0]
    assert [answer["status"] for answer in delivery["answers"]] == [500, 302, 201, 200]
    assert len({body for _, body in receiver.received}) == 1
    assert gateway.balance() == 482_500


def test_slow_webhook_response_counts_as_timeout(gateway: Client, receiver: Receiver) -> None:
    receiver.hang_seconds = 5.0
    gateway.paid("checkout-slow")
    wait_until(receiver.events)
    receiver.hang_seconds = 0.0
    delivery = wait_until(
        lambda: [
            one
            for one in gateway.ok("GET", "/sandbox/deliveries?reference=checkout-slow")
            if one["status"] == "delivered"
        ]
    )[0]
    assert delivery["answers"][0]["status"] is None
    assert "Timeout" in delivery["answers"][0]["error"]
    assert delivery["answers"][0]["durationMilliseconds"] < 3_000
    assert delivery["answers"][-1]["status"] == 200


def test_retry_schedule_matches_the_real_gateway() -> None:
    waits = [wait_before_next_try(tries, scale=1.0) for tries in range(1, MAXIMUM_TRIES + 1)]
    assert waits[:3] == [180.0] * 3
    assert waits[3:-1] == [3_600.0] * 72
    assert waits[-1] is None
    assert wait_before_next_try(1, scale=1 / 60) == pytest.approx(3.0)


def test_unsent_event_is_sent_after_restart(receiver: Receiver, tmp_path: Path) -> None:
    with providers(receiver, tmp_path, webhook_url="http://127.0.0.1:9/refused", retry_scale=1.0) as server:
        client = Client(server.gateway_url)
        client.paid("checkout-restart", delaySeconds=0.5)
    with providers(receiver, tmp_path) as server:
        client = Client(server.gateway_url)
        assert client.ok("GET", "/transaction/verify/checkout-restart")["status"] == "success"
        event = wait_until(receiver.events)[0]
        assert event["data"]["reference"] == "checkout-restart"


def started_process(
    data: Path, webhook_url: str, *, wait: bool = True
) -> tuple[subprocess.Popen[str], dict[str, Any]]:
    process = subprocess.Popen(
        [sys.executable, "-m", "sandbox.providers", "--port", "0", "--data", str(data)],
        env={**os.environ, "GATEWAY_SECRET_KEY": SECRET_KEY, "SANDBOX_WEBHOOK_URL": webhook_url},
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    return process, json.loads(process.stderr.readline())


def test_kill_loses_no_event_and_sigterm_ends_cleanly(receiver: Receiver, tmp_path: Path) -> None:
    process, ready = started_process(tmp_path, receiver.url)
    try:
        Client(ready["gateway"]).paid("checkout-kill", delaySeconds=1)
    finally:
        process.kill()
        process.communicate(timeout=BOUND_SECONDS)
    assert receiver.received == []

    process, ready = started_process(tmp_path, receiver.url)
    try:
        assert wait_until(receiver.events)[0]["data"]["reference"] == "checkout-kill"
        assert Client(ready["gateway"]).balance() == 482_500
        process.send_signal(signal.SIGTERM)
        _, rest = process.communicate(timeout=BOUND_SECONDS)
    finally:
        process.kill()
        process.wait(timeout=BOUND_SECONDS)
    assert process.returncode == 0
    assert json.loads(rest.splitlines()[-1])["event"] == "sandbox providers stopped"


def test_taken_port_and_invalid_settings_are_reported(receiver: Receiver, tmp_path: Path) -> None:
    with (
        providers(receiver, tmp_path / "one") as server,
        pytest.raises(PortUnavailableError, match=f"127.0.0.1:{server.port}: Address already in use"),
    ):
        ProvidersServer("127.0.0.1", server.port, tmp_path / "two", secret_key=SECRET_KEY)
    for settings in (
        {"secret_key": ""},
        {"gateway_name": "a b"},
        {"retry_scale": 0.0},
        {"hang_seconds": 1e6},
    ):
        with pytest.raises(InvalidSettingsError):
            providers(receiver, tmp_path / "three", **settings)


def test_command_reports_missing_setting_in_a_single_line(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "sandbox.providers", "--port", "0", "--data", str(tmp_path)]
    environment = {name: value for name, value in os.environ.items() if name != "GATEWAY_SECRET_KEY"}
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=BOUND_SECONDS, check=False
    )
    assert done.returncode == 1
    assert done.stderr.startswith("sandbox providers: GATEWAY_SECRET_KEY must be set")


def test_store_file_of_another_version_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "some.sqlite3"
    Store(path, schema="CREATE TABLE a (b);", version=1).close()
    assert path.stat().st_mode & 0o777 == 0o600
    with pytest.raises(StoreVersionError, match="Delete the file to start afresh"):
        Store(path, schema="", version=2)
