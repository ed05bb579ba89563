"""Webhooks over real sockets, to gunicorn directly and through the proxy: unusual, large, slow and broken bodies."""

import gzip
import hashlib
import hmac
import json
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from uuid import uuid4

import pytest
import requests

from marketplace.identity.models import CONTACT
from sandbox.servers import EmbeddedProxy
from tests.support.gateway import charge_data, event_of, sign
from tests.support.messaging import envelope, message
from tests.support.ports import free_port
from tests.support.servers import PROJECT
from tests.support.service_processes import ServiceProcesses

GATEWAY = "/api/payments/webhook"
FUNCTION = "/functions/v1/gateway-webhook"
MESSAGING = "/api/whatsapp/webhook"
MEGABYTE = 1024 * 1024
APP_SECRET = "of-these-tests-only"
VERIFY_TOKEN = "agreed-on"
SECONDS = 20
SLOW_SENDERS = 5  # more than the number of sync workers


class Ingress:
    """A site behind a proxy, with raw requests to either."""

    def __init__(self, site: ServiceProcesses, proxy: EmbeddedProxy) -> None:
        self.site = site
        self.ports = {"gunicorn": int(site.url.rsplit(":", 1)[1]), "proxy": proxy.port}

    def url(self, entry: str, path: str) -> str:
        return f"http://127.0.0.1:{self.ports[entry]}{path}"

    def connect(self, entry: str) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.ports[entry]), timeout=SECONDS)

    def send(self, entry: str, path: str, body: bytes, **headers: str) -> tuple[int, bytes]:
        """Send raw headers and a raw body, and return status and body of the response."""
        with closing(self.connect(entry)) as connection:
            connection.sendall(head_of(path, **headers) + body)
            return answer_of(connection)

    def stored(self, body: bytes) -> int:
        [[count]] = self.site.query("SELECT count(*) FROM webhook_inbox WHERE body = %s", body)
        return int(count)

    def total(self) -> int:
        [[count]] = self.site.query("SELECT count(*) FROM webhook_inbox")
        return int(count)


def head_of(path: str, **headers: str) -> bytes:
    lines = [f"POST {path} HTTP/1.1", "Host: market.example", "Connection: close"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode()


def answer_of(connection: socket.socket) -> tuple[int, bytes]:
    """Read a response to the end. A connection closed without a response has status 0."""
    received = b""
    try:
        while chunk := connection.recv(1 << 16):
            received += chunk
    except ConnectionResetError:
        pass
    head, _, body = received.partition(b"\r\n\r\n")
    return int(head.split(b" ", 2)[1]) if head else 0, body


def chunked(body: bytes, size: int = 50_000) -> bytes:
    parts = [body[start : start + size] for start in range(0, len(body), size)]
    return b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts) + b"0\r\n\r\n"


def some_event(**more: str) -> bytes:
    return event_of(charge_data(f"checkout-{uuid4().hex}", 100, **more))


def signed(path: str, body: bytes) -> dict[str, str]:
    """Return the signature header of a body for a path."""
    if path == MESSAGING:
        digest = hmac.digest(APP_SECRET.encode(), body, hashlib.sha256).hex()
        return {"X-Hub-Signature-256": f"sha256={digest}"}
    return {"x-gateway-signature": sign(body)}


@pytest.fixture(scope="module")
def ingress(whole_site: ServiceProcesses) -> Iterator[Ingress]:
    """The site with a proxy."""
    with ExitStack() as stack:
        site = whole_site
        site.environment |= {
            "MESSAGING_APP_SECRET": APP_SECRET,
            "MESSAGING_VERIFY_TOKEN": VERIFY_TOKEN,
            "TRUSTED_PROXY_HOPS": "1",
        }
        site.web()
        proxy = proxy_before(site)
        stack.callback(proxy.stop)
        proxy.start()
        yield Ingress(site, proxy)


def proxy_before(site: ServiceProcesses) -> EmbeddedProxy:
    port = free_port("site")
    upstream = site.url.removeprefix("http://")
    return EmbeddedProxy(
        site.directory / "proxy",
        port,
        caddyfile=PROJECT / "deploy" / "Caddyfile",
        environment={
            "SITE_ADDRESS": f"http://:{port}",
            "BIND_ADDRESS": "127.0.0.1",
            "API_UPSTREAM": upstream,
            "WAITING_UPSTREAM": upstream,
            "MEDIA_UPSTREAM": upstream,
        },
    )


via_gunicorn_and_proxy = pytest.mark.parametrize("entry", ["gunicorn", "proxy"])
all_paths = pytest.mark.parametrize("path", [GATEWAY, FUNCTION, MESSAGING])


@via_gunicorn_and_proxy
@all_paths
def test_body_is_stored_unchanged_for_any_transfer_encoding(ingress: Ingress, entry: str, path: str) -> None:
    whole, parts = some_event(note="é\N{THUMBS UP SIGN}"), some_event(note="x" * 200_000)

    sent = [
        ingress.send(entry, path, whole, Content_Length=str(len(whole)), **signed(path, whole)),
        ingress.send(entry, path, chunked(parts), Transfer_Encoding="chunked", **signed(path, parts)),
    ]

    assert sent == [(200, b'{"received":true}')] * 2
    assert (ingress.stored(whole), ingress.stored(parts)) == (1, 1)


@via_gunicorn_and_proxy
@all_paths
@pytest.mark.parametrize("size", [MEGABYTE + 1, 3 * MEGABYTE])
def test_body_over_a_megabyte_is_refused_with_or_without_length(
    ingress: Ingress, entry: str, path: str, size: int
) -> None:
    body = b"x" * size
    before = ingress.total()

    with_length = ingress.send(entry, path, body, Content_Length=str(size), **signed(path, body))
    without_length = ingress.send(
        entry, path, chunked(body), Transfer_Encoding="chunked", **signed(path, body)
    )

    for status, answer in (with_length, without_length):
        assert status == 413
        assert json.loads(answer)["code"] == "PAYLOAD_TOO_LARGE"
    assert ingress.total() == before


@all_paths
def test_refused_body_is_read_completely_before_the_response(ingress: Ingress, path: str) -> None:
    body = b"x" * (3 * MEGABYTE)
    with closing(ingress.connect("gunicorn")) as connection:
        head = head_of(path, Content_Length=str(len(body)), **signed(path, body))
        connection.sendall(head + body[:MEGABYTE])
        time.sleep(0.3)  # a server that responds now would reset the connection during the rest
        connection.sendall(body[MEGABYTE:])
        status, answer = answer_of(connection)

    assert (status, json.loads(answer)["code"]) == (413, "PAYLOAD_TOO_LARGE")


@via_gunicorn_and_proxy
@all_paths
def test_body_of_a_megabyte_is_accepted(ingress: Ingress, entry: str, path: str) -> None:
    whole, parts = b"t" * MEGABYTE, b"u" * MEGABYTE
    before = ingress.total()

    assert ingress.send(entry, path, whole, Content_Length=str(MEGABYTE), **signed(path, whole))[0] == 200
    answer = ingress.send(entry, path, chunked(parts), Transfer_Encoding="chunked", **signed(path, parts))
    assert answer[0] == 200
    assert ingress.total() == before + 2


@via_gunicorn_and_proxy
@all_paths
def test_compressed_body_is_refused(ingress: Ingress, entry: str, path: str) -> None:
    body = gzip.compress(some_event())
    before = ingress.total()

    status, answer = ingress.send(
        entry, path, body, Content_Encoding="gzip", Content_Length=str(len(body)), **signed(path, body)
    )

    assert (status, json.loads(answer)["code"]) == (415, "UNSUPPORTED_MEDIA_TYPE")
    assert ingress.total() == before


@via_gunicorn_and_proxy
@pytest.mark.parametrize(
    ("headers", "body"),
    [
        ({"Transfer_Encoding": "gzip, chunked"}, chunked(b"{}")),
        ({"Transfer_Encoding": "chunked, identity"}, chunked(b"{}")),
        ({"Transfer_Encoding": "chunked"}, b"zz\r\n{}\r\n0\r\n\r\n"),
        ({"Transfer_Encoding": "chunked"}, b"-2\r\n{}\r\n0\r\n\r\n"),
        ({"Content_Length": "-2"}, b"{}"),
        ({"Content_Length": "two"}, b"{}"),
    ],
    ids=[
        "compressed chunks",
        "chunked encoding not last",
        "invalid chunk size",
        "negative chunk size",
        "negative length",
        "invalid length",
    ],
)
def test_malformed_request_is_refused_and_not_stored(
    ingress: Ingress, entry: str, headers: dict[str, str], body: bytes
) -> None:
    before = ingress.total()

    status, _ = ingress.send(entry, GATEWAY, body, **headers, **signed(GATEWAY, b"{}"))

    # Both answer 501 to an unknown encoding.
    assert status in {400, 415, 501}
    assert ingress.total() == before
    assert ingress.site.is_serving("/health/live")


@via_gunicorn_and_proxy
def test_interrupted_request_is_not_stored(ingress: Ingress, entry: str) -> None:
    body = some_event()
    before = ingress.total()

    with closing(ingress.connect(entry)) as connection:
        connection.sendall(
            head_of(GATEWAY, Content_Length=str(len(body)), **signed(GATEWAY, body)) + body[:40]
        )
        connection.shutdown(socket.SHUT_WR)
        status, _ = answer_of(connection)

    # The proxy records 499 for a closed client connection.
    assert status == 400 if entry == "gunicorn" else status in (0, 400, 499)
    assert ingress.total() == before


@all_paths
def test_slow_senders_do_not_block_other_requests(ingress: Ingress, path: str) -> None:
    """The proxy forwards only complete requests to a worker."""
    bodies = [some_event() for _ in range(SLOW_SENDERS)]
    quick = some_event()
    with ExitStack() as stack:
        slow = [stack.enter_context(closing(ingress.connect("proxy"))) for _ in bodies]
        for connection, body in zip(slow, bodies, strict=True):
            head = head_of(path, Content_Length=str(len(body)), **signed(path, body))
            connection.sendall(head + body[:10])

        status, _ = ingress.send("proxy", path, quick, Content_Length=str(len(quick)), **signed(path, quick))
        assert status == 200
        assert [ingress.stored(body) for body in bodies] == [0] * SLOW_SENDERS

        for connection, body in zip(slow, bodies, strict=True):
            connection.sendall(body[10:])
        assert [answer_of(connection)[0] for connection in slow] == [200] * SLOW_SENDERS
    assert [ingress.stored(body) for body in bodies] == [1] * SLOW_SENDERS


@via_gunicorn_and_proxy
def test_signature_in_upper_case_is_refused(ingress: Ingress, entry: str) -> None:
    body = some_event()

    for path in (GATEWAY, FUNCTION):
        answer = requests.post(
            ingress.url(entry, path),
            data=body,
            headers={"x-gateway-signature": sign(body).upper()},
            timeout=SECONDS,
        )
        assert (answer.status_code, answer.json()["code"]) == (401, "AUTH_UNAUTHORIZED")
    assert ingress.stored(body) == 0


@via_gunicorn_and_proxy
def test_messaging_provider_verifies_the_webhook_address(ingress: Ingress, entry: str) -> None:
    parameters = {"hub.mode": "subscribe", "hub.verify_token": VERIFY_TOKEN, "hub.challenge": "1158201444"}

    answer = requests.get(ingress.url(entry, MESSAGING), params=parameters, timeout=SECONDS)
    refused = requests.get(
        ingress.url(entry, MESSAGING), params=parameters | {"hub.verify_token": "x"}, timeout=SECONDS
    )

    assert (answer.status_code, answer.text) == (200, "1158201444")
    assert answer.headers["Content-Type"] == "text/plain; charset=utf-8"
    assert refused.status_code == 403
    log = (ingress.site.directory / "web.log").read_text(encoding="utf-8")
    assert VERIFY_TOKEN not in log


def test_message_is_stored_for_the_contact_and_not_logged(ingress: Ingress) -> None:
    """No text or number of the sender appears in a log."""
    first, second = message(text={"body": "my-secret-words"}), message()
    body = envelope(first, second, names={first["from"]: "Ada Obi"})
    [[started_at]] = ingress.site.query("SELECT now()")

    for _ in range(2):
        answer = requests.post(
            ingress.url("proxy", MESSAGING), data=body, headers=signed(MESSAGING, body), timeout=SECONDS
        )
        assert (answer.status_code, answer.json()) == (200, {"received": True})
    worker = ingress.site.worker()
    try:
        ingress.site.wait_until(
            lambda: (
                ingress.site.query(
                    "SELECT count(*) - count(DISTINCT dedupe_id) FROM webhook_inbox"
                    " WHERE event_type = 'message.text' AND received_at >= %s",
                    started_at,
                )
                == [(2,)]
            ),
            worker,
        )
    finally:
        worker.stop()

    kept = ingress.site.query(
        "SELECT c.sender, c.display_name, m.text FROM support_contact_messages m"
        " JOIN support_contacts c ON c.id = m.contact_id WHERE m.provider_message_id = ANY(%s)",
        [first["id"], second["id"]],
    )
    assert sorted([(CONTACT.decrypt(sender), *others) for sender, *others in kept], key=str) == sorted(
        [
            (first["from"], "Ada Obi", "my-secret-words"),
            (second["from"], None, "Where is my lamp?"),
        ],
        key=str,
    )
    for log in ingress.site.directory.glob("*.log"):
        text = log.read_text(encoding="utf-8")
        for private in (first["from"], second["from"], "my-secret-words", "Ada Obi", first["id"]):
            assert private not in text, log.name


@pytest.fixture
def stopped_database(ingress: Ingress) -> Iterator[None]:
    """Stop the database for one test; later tests get web processes without connections to the stopped server."""
    ingress.site.postgres.stop()
    yield
    ingress.site.restart_servers()
    ingress.site.stop_processes()
    ingress.site.web()


@via_gunicorn_and_proxy
@pytest.mark.usefixtures("stopped_database")
def test_webhook_is_answered_503_with_retry_after_while_database_is_stopped(
    ingress: Ingress, entry: str
) -> None:
    body = some_event()
    for path in (GATEWAY, FUNCTION, MESSAGING):
        answer = requests.post(
            ingress.url(entry, path), data=body, headers=signed(path, body), timeout=SECONDS
        )
        assert (answer.status_code, answer.json()["code"]) == (503, "SERVICE_UNAVAILABLE")
        assert int(answer.headers["Retry-After"]) > 0

    ingress.site.restart_servers()

    ingress.site.wait_until(
        lambda: (
            requests.post(
                ingress.url(entry, GATEWAY), data=body, headers=signed(GATEWAY, body), timeout=SECONDS
            ).status_code
            == 200
        )
    )


@pytest.fixture
def gateway_networks(ingress: Ingress) -> Iterator[None]:
    """Run web processes that admit only the gateway's networks, for one test."""
    ingress.site.stop_processes()
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(ingress.site.environment, "GATEWAY_WEBHOOK_ADDRESSES", "203.0.113.0/24")
        ingress.site.web()
        yield
    ingress.site.stop_processes()
    ingress.site.web()


@pytest.mark.usefixtures("gateway_networks")
def test_forwarded_address_is_trusted_only_from_own_proxy(ingress: Ingress) -> None:
    body = some_event()
    claim = {"X-Forwarded-For": "203.0.113.7"}

    def post(entry: str, path: str, **headers: str) -> int:
        return requests.post(
            ingress.url(entry, path), data=body, headers=signed(path, body) | headers, timeout=SECONDS
        ).status_code

    for path in (GATEWAY, FUNCTION):
        assert post("proxy", path) == 403
        assert post("proxy", path, **claim) == 403
        # The address is trusted here, because the request looks like a request of the proxy.
        assert post("gunicorn", path, **claim) == 200
    assert post("proxy", MESSAGING) == 200
    assert ingress.stored(body) == 3
