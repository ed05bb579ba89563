"""The payment gateway for tests: the sandbox's gateway over HTTP, behind a proxy that can inject faults."""

import hashlib
import hmac
import http.client
import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import pytest
import requests
from flask import Flask

from blueprints.areas import AREAS
from marketplace.infra.settings import Settings
from marketplace.providers.gateway.payloads import Charge
from marketplace.providers.gateway.payments import HttpPaymentGateway
from marketplace.providers.gateway.transfers import HttpTransferGateway
from marketplace.services import Services
from sandbox.providers.server import ProvidersServer
from tests.support.checked_client import checked_app
from tests.support.purchases import NOW

GATEWAY_KEY = "sk_test_of_the_tests_only"  # the same key as in the application under test
TIMEOUT_SECONDS = 20
# Short for tests of the time-out, but long enough for a busy machine.
_TIMEOUT = {"gateway_timeout_seconds": 3}


class FaultProxy:
    """A proxy between the service and the gateway that can inject faults.

    ``fault`` is none, ``refuse`` (503, nothing forwarded), ``lose`` (forwarded, response lost),
    ``hang`` (forwarded, response delayed until ``release``), or ``garble`` (response without JSON).
    """

    def __init__(self, target: str) -> None:
        self.fault: str | None = None
        self.calls: list[str] = []
        self._released = threading.Event()
        self._address = urlsplit(target)
        line = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                line.pass_on(self)

            def do_POST(self) -> None:
                line.pass_on(self)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_port}/gateway"

    def pass_on(self, request: BaseHTTPRequestHandler) -> None:
        """Forward a request, or apply the fault."""
        fault = self.fault
        self.calls.append(f"{request.command} {request.path}")
        body = request.rfile.read(int(request.headers.get("Content-Length") or 0))
        if fault == "refuse":
            self._answer(request, 503, b'{"status":false,"message":"try later"}')
            return
        status, content = self._ask(request, body)
        if fault == "hang":
            self._released.wait(TIMEOUT_SECONDS)
        if fault in ("hang", "lose"):
            request.close_connection = True
            return
        self._answer(request, status, b"<html>" if fault == "garble" else content)

    def _ask(self, request: BaseHTTPRequestHandler, body: bytes) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection(
            str(self._address.hostname), self._address.port, timeout=TIMEOUT_SECONDS
        )
        try:
            kept = ("Authorization", "Content-Type")
            headers = {name: request.headers[name] for name in kept if request.headers[name]}
            connection.request(request.command, request.path, body or None, headers)
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def _answer(self, request: BaseHTTPRequestHandler, status: int, content: bytes) -> None:
        request.send_response(status)
        request.send_header("Content-Length", str(len(content)))
        request.end_headers()
        request.wfile.write(content)

    def release(self) -> None:
        """Release all hanging requests."""
        self._released.set()
        self._released = threading.Event()

    def close(self) -> None:
        """Stop the proxy."""
        self.release()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class TestGateway:
    """The sandbox's gateway with a proxy, and the acts of customers and officers at the gateway.

    The gateway delivers no webhooks. Tests deliver events as often and in any order as needed.
    """

    __test__ = False

    def __init__(self, directory: Path) -> None:
        self.server = ProvidersServer(
            "127.0.0.1",
            0,
            directory,
            secret_key=GATEWAY_KEY,
            webhook_url="http://127.0.0.1:1/nowhere",
            retry_scale=1,
        )
        self.server.start()
        self.proxy = FaultProxy(self.server.gateway_url)

    def adapter(self, settings: Settings) -> HttpPaymentGateway:
        """Return the application's adapter with this proxy and short time-outs."""
        return HttpPaymentGateway(replace(settings, **self.settings()))

    def transfer_adapter(self, settings: Settings, **changed: Any) -> HttpTransferGateway:
        """Return the application's adapter of transfers with this proxy and short time-outs."""
        return HttpTransferGateway(replace(settings, **self.settings() | changed))

    def settings(self) -> dict[str, Any]:
        """Return the settings that point to this proxy and to the SMS gateway of the same server."""
        return {
            "gateway_url": self.proxy.url,
            "gateway_secret_key": GATEWAY_KEY,
            "sms_url": self.server.sms_url,
            **_TIMEOUT,
        }

    def call(self, method: str, path: str, **options: Any) -> Any:
        """Call the gateway directly, without the proxy, and return the response's data."""
        answer = requests.request(
            method,
            f"{self.server.gateway_url}{path}",
            headers={"Authorization": f"Bearer {GATEWAY_KEY}"},
            timeout=TIMEOUT_SECONDS,
            **options,
        )
        assert answer.ok, answer.text
        return answer.json()["data"]

    def open(self, reference: str, amount_minor: int) -> None:
        """Open a hosted page without the application."""
        body = {"reference": reference, "amount": amount_minor, "email": "ada@example.com"}
        self.call("POST", "/transaction/initialize", json=body)

    def pay(self, reference: str, **payment: Any) -> dict[str, Any]:
        """Pay as a customer and return the charge in the gateway's JSON format."""
        data: dict[str, Any] = self.call("POST", f"/sandbox/pay/{reference}", json=payment)
        return data

    def charge(self, reference: str) -> Charge:
        """Return the gateway's charge of a reference."""
        return Charge.from_wire(self.call("GET", f"/transaction/verify/{reference}"))

    def charge_of_paid(self, reference: str, **payment: Any) -> Charge:
        """Pay as a customer and return the charge."""
        return Charge.from_wire(self.pay(reference, **payment))

    def fill(self, amount_minor: int) -> None:
        """Increase the balance, so that transfers can be paid."""
        self.call("POST", "/sandbox/balance", json={"amountMinor": amount_minor})

    def calls(self, reference: str) -> dict[str, int]:
        """Count the calls with a reference, per operation."""
        operations: dict[str, int] = self.call("GET", "/sandbox/calls", params={"reference": reference})[
            "operations"
        ]
        return operations

    def close(self) -> None:
        """Stop the gateway and the proxy."""
        self.proxy.close()
        self.server.stop()


def event_of(data: dict[str, Any], event: str = "charge.success") -> bytes:
    """Build a webhook's body."""
    return json.dumps({"event": event, "data": data}).encode()


def charge_data(reference: str, amount_minor: int, **values: Any) -> dict[str, Any]:
    """Build a successful charge in the gateway's JSON format, with a unique id."""
    return {
        "id": uuid4().int % 10**15,
        "status": "success",
        "reference": reference,
        "amount": amount_minor,
        "fees": 0,
        "currency": "NGN",
        "channel": "card",
        "paid_at": "2026-11-20T09:31:00.000Z",
    } | values


def sign(body: bytes, key: str = GATEWAY_KEY) -> str:
    """Sign a webhook's body."""
    return hmac.digest(key.encode(), body, hashlib.sha512).hex()


@pytest.fixture(scope="session")
def gateway_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestGateway]:
    """The gateway of this worker process."""
    gateway = TestGateway(tmp_path_factory.mktemp("gateway"))
    yield gateway
    gateway.close()


@pytest.fixture
def gateway(gateway_server: TestGateway) -> Iterator[TestGateway]:
    """The gateway, without faults before and after the test."""
    gateway_server.proxy.fault = None
    gateway_server.proxy.calls.clear()
    yield gateway_server
    gateway_server.proxy.fault = None
    gateway_server.proxy.release()


class MovableClock:
    """A clock that moves only when set."""

    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> datetime:
        """Return the time."""
        return self.now


@pytest.fixture(scope="session")
def paying_services(settings: Settings, gateway_server: TestGateway) -> Iterator[Services]:
    """The application's services with the gateway and a movable clock."""
    made = Services.from_settings(replace(settings, **gateway_server.settings()), application_name="tests")
    yield replace(made, clock=MovableClock())
    made.database.close()


@pytest.fixture
def clock(paying_services: Services) -> Iterator[MovableClock]:
    """The clock of that application, set to NOW before and after the test."""
    clock = paying_services.clock
    assert isinstance(clock, MovableClock)
    clock.now = NOW
    yield clock
    clock.now = NOW


@pytest.fixture(scope="session")
def paying_app(paying_services: Services) -> Flask:
    """The application connected to the gateway, with clients that check each response."""
    return checked_app(paying_services, AREAS)
