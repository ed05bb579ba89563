"""The proxy in front of both groups of web processes: refused bodies and requests, compression, event streams."""

import gzip
import json
import re
import select
import socket
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, suppress
from http.client import HTTPConnection, HTTPResponse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest

from sandbox.servers import EmbeddedProxy
from tests.support.ports import free_ports
from tests.support.probes import unique_address
from tests.support.proxied_site import make_proxy, make_waiting_process
from tests.support.service_processes import ServiceProcesses

SECONDS = 30
UPLOAD = "/api/products/images"  # served by the gevent group
COMPUTED = "/api/orders"  # served by the sync group
UNKNOWN = "/no/such/path"
BODY = b"x" * (49 * 1024 * 1024 // 10)
LARGEST = 64_000_000  # the largest body that the proxy passes on
ENTRIES = ("proxy", "sync", "gevent")
BASE_URL = "https://api.example"


class Edge:
    """A proxy before sync and gevent web processes. Each entry accepts requests."""

    def __init__(self, ports: dict[str, int]) -> None:
        self.ports = ports

    def connect(self, entry: str = "proxy") -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.ports[entry]), timeout=SECONDS)

    def send(self, request: bytes, entry: str = "proxy") -> "Answer":
        """Send a raw request and read the response."""
        with closing(self.connect(entry)) as connection:
            connection.sendall(request)
            return answer_of(connection, request.split(b" ", 1)[0].decode())

    def post(self, path: str, size: int) -> int:
        """Post a body of a size and return the status."""
        with closing(HTTPConnection("127.0.0.1", self.ports["proxy"], timeout=SECONDS)) as connection:
            connection.request("POST", path, BODY[:size])
            return connection.getresponse().status


class Answer(HTTPResponse):
    """A response with its body."""

    content: bytes


def answer_of(connection: socket.socket, method: str = "POST") -> Answer:
    """Read the response on a connection."""
    answer = Answer(connection, method=method)
    answer.begin()
    answer.content = answer.read()
    answer.close()
    return answer


def head_of(target: str, *lines: str, method: str = "GET") -> bytes:
    return "\r\n".join([f"{method} {target} HTTP/1.1", "Host: market.example", *lines, "", ""]).encode()


def assert_refused(answer: Answer, status: int, code: str, instance: str) -> dict[str, Any]:
    """Check that a response is a complete problem, and return the problem."""
    assert answer.status == status
    assert answer.headers["Content-Type"] == "application/problem+json"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["Cache-Control"] == "no-store"
    problem: dict[str, Any] = json.loads(answer.content)
    assert (problem["status"], problem["code"], problem["instance"]) == (status, code, instance)
    assert problem["requestId"] == answer.headers["X-Request-ID"]
    assert problem["type"] == f"{BASE_URL}/errors/{code.lower().replace('_', '-')}"
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", problem["timestamp"])
    assert problem["title"]
    assert problem["detail"]
    return problem


def proxy_before(directory: Path, *, proxy: int, sync: int, gevent: int, media: int) -> EmbeddedProxy:
    return make_proxy(
        directory,
        port=proxy,
        sync=sync,
        gevent=gevent,
        media=media,
        PUBLIC_BASE_URL=BASE_URL,
        TRUSTED_PROXIES="127.0.0.1/32",  # tests choose the address that a request is counted by
    )


@pytest.fixture(scope="module")
def edge(whole_site: ServiceProcesses) -> Iterator[Edge]:
    site = whole_site
    site.environment |= {"TRUSTED_PROXY_HOPS": "2", "PUBLIC_BASE_URL": BASE_URL}
    sync = int(site.url.rsplit(":", 1)[1])
    ports = free_ports("server", "gevent", "proxy") | {"sync": sync, "media": sync}
    gevent = make_waiting_process(site, port=ports["gevent"])
    proxy = proxy_before(site.directory / "proxy", **ports)
    with ExitStack() as stack:
        stack.callback(gevent.stop, timeout_seconds=0)
        gevent.launch()
        site.web()
        stack.callback(proxy.stop)
        proxy.start()
        edge = Edge(ports)
        site.wait_until(lambda: edge.post(UPLOAD, 1) == 401)
        yield edge


@pytest.mark.parametrize(
    ("path", "statuses"), [(UPLOAD, {401, 429}), (COMPUTED, {401, 429}), (UNKNOWN, {404, 429})]
)
def test_every_refused_large_post_gets_its_own_answer(edge: Edge, path: str, statuses: set[int]) -> None:
    """The requests exceed the rate limit, so that most of them are refused with 429."""
    with ThreadPoolExecutor(4) as pool:
        answers = Counter(pool.map(lambda _: edge.post(path, len(BODY)), range(70)))

    assert answers.total() == 70
    assert answers.keys() <= statuses
    assert answers[429] > 0


@pytest.mark.parametrize("path", [UPLOAD, COMPUTED, UNKNOWN])
def test_refusal_waits_for_the_end_of_a_slow_body(edge: Edge, path: str) -> None:
    with closing(edge.connect()) as connection:
        connection.sendall(head_of(path, f"Content-Length: {len(BODY)}", method="POST") + BODY[:-1])
        answered, _, _ = select.select([connection], [], [], 3)
        connection.sendall(BODY[-1:])

        assert not answered
        assert answer_of(connection).status in {401, 404, 429}


def test_stalled_refused_bodies_hold_no_worker(edge: Edge) -> None:
    """More clients stall than there are sync workers."""
    with ExitStack() as stack:
        stalled = [stack.enter_context(closing(edge.connect())) for _ in range(12)]
        for index, connection in enumerate(stalled):
            path = (UPLOAD, COMPUTED, UNKNOWN)[index % 3]
            head = head_of(path, f"Content-Length: {len(BODY)}", method="POST")
            connection.sendall(head + BODY[: 3 * 1024 * 1024])

        assert edge.send(head_of("/health/live")).status == 200
        assert edge.post(UPLOAD, 100) in {401, 429}


@pytest.mark.parametrize("entry", ["sync", "gevent"])
def test_stalled_body_is_answered_at_the_latest_after_a_time_out(edge: Edge, entry: str) -> None:
    request = head_of(UNKNOWN, "Content-Length: 100000", method="POST") + b"x" * 1_000

    assert edge.send(request, entry).status in {404, 429}


def test_body_that_arrives_byte_by_byte_is_answered_at_the_deadline(edge: Edge) -> None:
    """Each byte restarts the socket's time-out, but not the deadline."""
    ended = threading.Event()
    with closing(edge.connect("sync")) as connection:
        connection.sendall(head_of(UNKNOWN, "Content-Length: 100000", method="POST"))

        def drip() -> None:
            with suppress(OSError):
                while not ended.wait(0.2):
                    connection.send(b"x")

        thread = threading.Thread(target=drip)
        thread.start()
        try:
            assert answer_of(connection).status in {404, 429}
        finally:
            ended.set()
            thread.join()


def test_body_larger_than_the_proxy_passes_on_is_a_problem(edge: Edge) -> None:
    with closing(edge.connect()) as connection:
        connection.sendall(head_of(COMPUTED, f"Content-Length: {LARGEST + 1}", method="POST"))
        piece, left = b"x" * 1_000_000, LARGEST + 1
        while left:
            left -= connection.send(piece[:left])
        assert_refused(answer_of(connection), 413, "PAYLOAD_TOO_LARGE", COMPUTED)


LONG = "a" * 9_000
VERY_LONG = "a" * 500_000
REFUSED = {
    "long URL": (head_of(f"/api/{LONG}"), 414),
    "very long URL": (head_of(f"/api/{VERY_LONG}"), 414),
    "long query": (head_of(f"/api/products?q={LONG}"), 414),
    "long header": (head_of("/api/products", f"X-Note: {LONG}"), 431),
    "very long header": (head_of("/api/products", f"X-Note: {VERY_LONG}"), 431),
    "too many headers": (head_of("/api/products", *[f"X-Note-{n}: x" for n in range(200)]), 431),
}


@pytest.mark.parametrize("entry", ENTRIES)
@pytest.mark.parametrize("name", REFUSED)
def test_too_long_urls_and_headers_are_problems(edge: Edge, entry: str, name: str) -> None:
    request, status = REFUSED[name]

    assert_refused(edge.send(request, entry), status, "VALIDATION_FAILED", "/")


@pytest.mark.parametrize("entry", ["sync", "gevent"])
@pytest.mark.parametrize(
    ("lines", "status"),
    [
        (["Bad Name: x"], 400),
        (["Content-Length: two"], 400),
        (["Expect: more"], 417),
        (["Transfer-Encoding: rot13"], 501),
    ],
    ids=["header name", "length", "expectation", "transfer encoding"],
)
def test_malformed_headers_are_problems_without_a_proxy(
    edge: Edge, entry: str, lines: list[str], status: int
) -> None:
    answer = edge.send(head_of("/api/products", *lines), entry)

    assert_refused(answer, status, "VALIDATION_FAILED", json.loads(answer.content)["instance"])


def test_invalid_chunks_are_a_bad_request(edge: Edge) -> None:
    request = head_of(COMPUTED, "Transfer-Encoding: chunked", method="POST") + b"zz\r\n{}\r\n0\r\n\r\n"

    assert_refused(edge.send(request), 400, "VALIDATION_FAILED", COMPUTED)


def test_missing_picture_is_a_problem_with_encoded_instance(edge: Edge) -> None:
    answer = edge.send(head_of('/media/"%22%C3%A9{{now}}'))

    assert_refused(answer, 404, "RESOURCE_NOT_FOUND", "/media/%22%22%C3%A9%7B%7Bnow%7D%7D")


def test_scheme_headers_of_a_client_are_ignored(edge: Edge) -> None:
    for line in (
        "X-Forwarded-Ssl: on",
        "X-Forwarded-Protocol: ssl",
        "Script_Name: /x",
        "X-Forwarded-Proto: x",
    ):
        assert edge.send(head_of("/health/live", line)).status == 200


def test_unreachable_upstream_is_a_temporary_problem(edge: Edge, tmp_path: Path) -> None:
    ports = free_ports("server", "proxy", "media")
    proxy = proxy_before(tmp_path / "proxy", **edge.ports | ports)
    try:
        proxy.start()
        answer = Edge(ports).send(head_of("/media/picture?size=1"))
        assert_refused(answer, 503, "SERVICE_UNAVAILABLE", "/media/picture")
        assert answer.headers["Retry-After"] == "5"
    finally:
        proxy.stop()


# --- compression


def from_unique_address(target: str, *lines: str, method: str = "GET") -> bytes:
    """Return the head of a request with an unused quota."""
    return head_of(target, f"X-Forwarded-For: {unique_address()}", *lines, method=method)


@pytest.mark.parametrize("encoding", ["zstd", "gzip"])
def test_large_answers_are_compressed_and_small_ones_are_not(edge: Edge, encoding: str) -> None:
    accepted = f"Accept-Encoding: {encoding}"
    plain = edge.send(from_unique_address("/openapi.json"))
    large = edge.send(from_unique_address("/openapi.json", accepted))
    head = edge.send(from_unique_address("/openapi.json", accepted, method="HEAD"))
    small = edge.send(from_unique_address("/health/live", accepted))

    assert large.headers["Content-Encoding"] == encoding
    assert "Accept-Encoding" in large.headers["Vary"]
    assert len(large.content) < len(plain.content) / 5
    if encoding == "gzip":
        assert gzip.decompress(large.content) == plain.content
    for other in (plain, head, small):
        assert "Content-Encoding" not in other.headers
    assert head.headers["Content-Length"] == str(len(plain.content))


@pytest.mark.parametrize("path", ["/api/products?limit=5", "/openapi.json"])
def test_weak_entity_tags_survive_compression(edge: Edge, path: str) -> None:
    accepted = [f"Accept-Encoding: {one}" for one in ("zstd", "gzip", "identity")]

    [tag] = {edge.send(from_unique_address(path, line)).headers["ETag"] for line in accepted}
    assert tag.startswith('W/"')
    for line in accepted:
        assert edge.send(from_unique_address(path, line, f"If-None-Match: {tag}")).status == 304


class Upstream(BaseHTTPRequestHandler):
    """A server that answers with an event stream, and keeps the stream open until a test ends it."""

    may_end: ClassVar[threading.Event]

    def do_GET(self) -> None:
        """Send one event, then wait."""
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        self.wfile.write(b"data: " + b"x" * 4_000 + b"\n\n")
        self.wfile.flush()
        self.may_end.wait(SECONDS)

    def log_message(self, *_: Any) -> None:
        """Log nothing."""


def test_event_streams_are_neither_compressed_nor_delayed(tmp_path: Path) -> None:
    handler = type("Handler", (Upstream,), {"may_end": threading.Event()})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    ports = free_ports("server", "proxy") | dict.fromkeys(("sync", "gevent", "media"), server.server_port)
    proxy = proxy_before(tmp_path / "proxy", **ports)
    try:
        proxy.start()
        with closing(Edge(ports).connect()) as connection:
            connection.sendall(head_of("/api/stream", "Accept-Encoding: zstd, gzip"))
            stream = HTTPResponse(connection)
            stream.begin()
            assert "Content-Encoding" not in stream.headers
            assert stream.read(4_000).startswith(b"data: xxx")  # the stream is still open
            stream.close()
    finally:
        handler.may_end.set()
        proxy.stop()
        server.shutdown()
        thread.join()
        server.server_close()
