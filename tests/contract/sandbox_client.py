"""Both sides of the sandbox gateway: a client with the secret key, and a receiver of webhooks."""

import json
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, TypeVar

import requests

from sandbox.providers.server import ProvidersServer

Found = TypeVar("Found")

SECRET_KEY = "sk_test_of_these_tests"
BOUND_SECONDS = 20.0
RETRY_SCALE = 0.001  # 0.18 s between the first tries
VENDOR_ACCOUNT = {"account_number": "2234567890", "bank_code": "058"}


def wait_until(look: Callable[[], Found]) -> Found:
    """Poll until a value is found, within a time limit."""
    pause = threading.Event()
    deadline = time.monotonic() + BOUND_SECONDS
    while not (found := look()):
        assert time.monotonic() < deadline, "the expected value did not appear in time"
        pause.wait(0.02)
    return found


class Receiver:
    """The merchant's side: receives webhooks and returns the planned status codes."""

    def __init__(self) -> None:
        self.received: list[tuple[dict[str, str], bytes]] = []
        self.answers: list[int] = []  # consumed in order, then 200
        self.hang_seconds = 0.0
        self.released = threading.Event()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                headers = {name.lower(): value for name, value in self.headers.items()}
                receiver.received.append((headers, body))
                if receiver.hang_seconds:
                    receiver.released.wait(receiver.hang_seconds)
                self.send_response(receiver.answers.pop(0) if receiver.answers else 200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_port}/hook"

    def events(self, event: str | None = None) -> list[dict[str, Any]]:
        everything = [json.loads(body) for _, body in list(self.received)]
        return [one for one in everything if event in (None, one["event"])]

    def close(self) -> None:
        self.released.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class Client:
    """A client with the secret key."""

    def __init__(self, gateway_url: str, key: str = SECRET_KEY) -> None:
        self.url = gateway_url
        self.headers = {"Authorization": f"Bearer {key}"}

    def call(self, method: str, path: str, **options: Any) -> requests.Response:
        return requests.request(
            method, f"{self.url}{path}", headers=self.headers, timeout=BOUND_SECONDS, **options
        )

    def ok(self, method: str, path: str, **options: Any) -> Any:
        response = self.call(method, path, **options)
        body = response.json()
        assert response.ok, body
        assert body["status"] is True
        return body["data"]

    def initialize(self, reference: str, amount: int = 500_000, **more: object) -> Any:
        body = {"email": "Ada@Example.com", "amount": amount, "reference": reference, **more}
        return self.ok("POST", "/transaction/initialize", json=body)

    def paid(self, reference: str, amount: int = 500_000, **more: object) -> Any:
        self.initialize(reference, amount)
        return self.ok("POST", f"/sandbox/pay/{reference}", json=more)

    def balance(self) -> int:
        return int(self.ok("GET", "/balance")[0]["balance"])

    def recipient(self) -> str:
        body = {"type": "nuban", "name": "Ngozi Adeyemi", **VENDOR_ACCOUNT}
        return str(self.ok("POST", "/transferrecipient", json=body)["recipient_code"])

    def transfer(self, reference: str, amount: int = 10_000) -> Any:
        body = {
            "source": "balance",
            "amount": amount,
            "recipient": self.recipient(),
            "reference": reference,
            "reason": "Payout",
        }
        return self.ok("POST", "/transfer", json=body)


def providers(receiver: Receiver, data: Path, **settings: Any) -> ProvidersServer:
    return ProvidersServer(
        "127.0.0.1",
        0,
        data,
        **{
            "secret_key": SECRET_KEY,
            "webhook_url": receiver.url,
            "retry_scale": RETRY_SCALE,
            "settle_seconds": 0.05,
            "hang_seconds": 3.0,
            "webhook_timeout_seconds": 0.5,
            **settings,
        },
    )
