"""A load generator: concurrent clients in a small loop with the same overhead for every figure and floor.

Each request opens a new connection, as a proxy does for sync workers, which have no keep-alive.
"""

import select
import socket
import struct
import time
from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass

from bench.figures import Run
from sandbox.ports import HOST

_CONNECT_SECONDS = 5
_ANSWER_SECONDS = 30.0
_CHUNK_BYTES = 1 << 18
_HEAD_BYTES = 64


class LoadError(Exception):
    """A server did not answer, or the response is not HTTP."""


@dataclass(frozen=True)
class Call:
    """A request ready to send, with a key that identifies its timing."""

    key: str
    content: bytes


@dataclass(slots=True)
class _Open:
    call: Call
    connection: socket.socket
    started: float
    head: bytes = b""


def put_under_load(
    port: int, calls: Iterator[Call], *, clients: int, seconds: float, pause_seconds: float = 0.0
) -> Run:
    """Send calls concurrently until the time or the calls run out.

    :param port: of a server on this machine
    :param calls: each call is sent once
    :param clients: number of concurrent calls
    :param seconds: time during which new calls start; open calls are awaited afterwards
    :param pause_seconds: pause of each client between a response and the next call
    :return: the timings and statuses, without processor time
    :raises LoadError: a response took longer than 30 s or is not HTTP
    """
    load = _Load(port, calls)
    started = time.perf_counter()
    # Start times of the next calls of idle clients. With a pause, the first calls are spread over the pause.
    due = deque(started + pause_seconds * number / clients for number in range(clients))
    try:
        while True:
            now = time.perf_counter()
            while due and due[0] <= now < started + seconds and load.begin():
                due.popleft()
            if not load.opened and (now >= started + seconds or load.exhausted):
                break
            answered = load.wait(due[0] - now if due else _ANSWER_SECONDS)
            due.extend([time.perf_counter() + pause_seconds] * answered)
    finally:
        load.close()
    elapsed = time.perf_counter() - started
    return Run(elapsed, load.timings, load.statuses)


class _Load:
    """The open calls, and the results of finished calls."""

    def __init__(self, port: int, calls: Iterator[Call]) -> None:
        self.timings: list[tuple[str, float]] = []
        self.statuses: Counter[int] = Counter()
        self.opened: dict[int, _Open] = {}
        self.exhausted = False
        self._port = port
        self._calls = calls
        self._poll = select.poll()

    def begin(self) -> bool:
        """Start the next call, if any."""
        call = next(self._calls, None)
        if call is None:
            self.exhausted = True
            return False
        opened = _open(self._port, call)
        self.opened[opened.connection.fileno()] = opened
        self._poll.register(opened.connection, select.POLLIN)
        return True

    def wait(self, seconds: float) -> int:
        """Wait for data, record finished calls, and return the number of calls that finished."""
        ended = 0
        ready = self._poll.poll(min(max(seconds, 0), _ANSWER_SECONDS) * 1000)
        if not ready and self.opened:
            oldest = min(current.started for current in self.opened.values())
            if time.perf_counter() - oldest > _ANSWER_SECONDS:
                raise LoadError(f"no answer within {_ANSWER_SECONDS:.0f} s from port {self._port}")
        for number, _ in ready:
            current = self.opened[number]
            if _finished(current):
                self.timings.append((current.call.key, time.perf_counter() - current.started))
                self.statuses[_status(current.head)] += 1
                self._poll.unregister(number)
                self.opened.pop(number).connection.close()
                ended += 1
        return ended

    def close(self) -> None:
        """Close the connections of open calls."""
        for current in self.opened.values():
            current.connection.close()


def _open(port: int, call: Call) -> _Open:
    started = time.perf_counter()
    connection = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    # This also bounds the connect. A time-out set by Python would cost two more system calls per request.
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", _CONNECT_SECONDS, 0))
    connection.connect((HOST, port))
    connection.sendall(call.content)
    return _Open(call, connection, started)


def _finished(current: _Open) -> bool:
    """Read available data, keep the beginning, and return whether the server has closed the connection."""
    received = current.connection.recv(_CHUNK_BYTES)
    if received and len(current.head) < _HEAD_BYTES:
        current.head += received[:_HEAD_BYTES]
    return not received


def _status(head: bytes) -> int:
    if not head.startswith(b"HTTP/1.") or not head[9:12].isdigit():
        raise LoadError(f"not an HTTP response: {head!r}")
    return int(head[9:12])


def request(
    method: str,
    target: str,
    *,
    body: bytes = b"",
    headers: dict[str, str] | None = None,
) -> bytes:
    """Build a request as the proxy forwards it for a browser.

    :param target: path and query string
    :param body: JSON, or empty
    :param headers: additional headers
    """
    lines = [
        f"{method} {target} HTTP/1.1",
        "Host: marketplace.example",
        "User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0",
        "Accept: application/json",
        "Accept-Encoding: gzip, deflate, br",
        "X-Forwarded-For: 203.0.113.7",
        "X-Forwarded-Host: marketplace.example",
        "X-Forwarded-Proto: https",
        "Connection: close",
        *(f"{name}: {value}" for name, value in (headers or {}).items()),
        *(("Content-Type: application/json",) if body else ()),
    ]
    if body:
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join([*lines, "", ""]).encode() + body
