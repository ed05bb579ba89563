"""The load: parallel clients in one small loop, whose own cost is the same for every figure and floor.

Each request takes a connection of its own, as a proxy's does towards sync workers, which keep none alive.
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
    """A server did not answer, or answered something that is not HTTP."""


@dataclass(frozen=True)
class Call:
    """A request, ready to be sent, under a key that finds it again among the timings."""

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
    """Send calls, so many at a time, until the time or the calls run out.

    :param port: of the server on this machine
    :param calls: what to send; each is sent once
    :param clients: how many calls are under way at any time
    :param seconds: how long new calls are begun; those under way then are waited for
    :param pause_seconds: how long each client rests between an answer and its next call
    :return: the timings and statuses; the processors' time is the caller's to add
    :raises LoadError: an answer did not come within 30 s, or is not HTTP
    """
    with select.epoll() as poll:
        load = _Load(port, calls, poll)
        started = time.perf_counter()
        # When each client begins its next call; those at work are not among them. Paused ones start spread.
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
    """The calls under way, and what came of those that are over."""

    def __init__(self, port: int, calls: Iterator[Call], poll: select.epoll) -> None:
        self.timings: list[tuple[str, float]] = []
        self.statuses: Counter[int] = Counter()
        self.opened: dict[int, _Open] = {}
        self.exhausted = False
        self._port = port
        self._calls = calls
        self._poll = poll

    def begin(self) -> bool:
        """Begin the next call, if there is one."""
        call = next(self._calls, None)
        if call is None:
            self.exhausted = True
            return False
        opened = _open(self._port, call)
        self.opened[opened.connection.fileno()] = opened
        self._poll.register(opened.connection, select.EPOLLIN)
        return True

    def wait(self, seconds: float) -> int:
        """Wait for answers and take in what came; return how many calls ended by it."""
        ended = 0
        ready = self._poll.poll(min(max(seconds, 0), _ANSWER_SECONDS))
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
        """Drop the calls that are under way."""
        for current in self.opened.values():
            current.connection.close()


def _open(port: int, call: Call) -> _Open:
    started = time.perf_counter()
    connection = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    # Bounds the connect too; a time-out of Python's own would cost two system calls more for each request.
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", _CONNECT_SECONDS, 0))
    connection.connect((HOST, port))
    connection.sendall(call.content)
    return _Open(call, connection, started)


def _finished(current: _Open) -> bool:
    """Read what is there, keep the beginning of it, and tell whether the server has closed."""
    received = current.connection.recv(_CHUNK_BYTES)
    if received and len(current.head) < _HEAD_BYTES:
        current.head += received[:_HEAD_BYTES]
    return not received


def _status(head: bytes) -> int:
    if not head.startswith(b"HTTP/1.") or not head[9:12].isdigit():
        raise LoadError(f"not an answer: {head!r}")
    return int(head[9:12])


def request(
    method: str,
    target: str,
    *,
    body: bytes = b"",
    headers: dict[str, str] | None = None,
) -> bytes:
    """Write a request as our proxy would send it on for a browser.

    :param target: path and query
    :param body: JSON, or empty
    :param headers: more headers
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
