"""The load: parallel clients in one small loop, whose own cost is the same for every figure and floor.

Each request takes a connection of its own, as a proxy's does towards sync workers, which keep none alive.
"""

import itertools
import select
import socket
import struct
import time
from collections import Counter
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


def put_under_load(port: int, calls: Iterator[Call], *, clients: int, seconds: float) -> Run:
    """This function will send calls, so many at a time, until the time or the calls run out.

    :param port: of the server on this machine
    :param calls: what to send; each is sent once
    :param clients: how many calls are under way at any time
    :param seconds: how long new calls are begun; those under way then are waited for
    :return: the timings and statuses; the processors' time is the caller's to add
    :raises LoadError: an answer did not come within 30 s, or is not HTTP
    """
    timings: list[tuple[str, float]] = []
    statuses: Counter[int] = Counter()
    opened: dict[int, _Open] = {}
    with select.epoll() as poll:
        started = time.perf_counter()
        deadline = started + seconds
        try:
            for call in itertools.islice(calls, clients):
                _begin(port, call, poll, opened)
            while opened:
                ready = poll.poll(_ANSWER_SECONDS)
                if not ready:
                    raise LoadError(f"no answer within {_ANSWER_SECONDS:.0f} s from port {port}")
                for number, _ in ready:
                    current = opened[number]
                    if not _finished(current):
                        continue
                    now = time.perf_counter()
                    timings.append((current.call.key, now - current.started))
                    statuses[_status(current.head)] += 1
                    poll.unregister(number)
                    opened.pop(number).connection.close()
                    following = next(calls, None) if now < deadline else None
                    if following is not None:
                        _begin(port, following, poll, opened)
        finally:
            for current in opened.values():
                current.connection.close()
        elapsed = time.perf_counter() - started
    return Run(elapsed, timings, statuses)


def _begin(port: int, call: Call, poll: select.epoll, opened: dict[int, _Open]) -> None:
    started = time.perf_counter()
    connection = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    # Bounds the connect too; a time-out of Python's own would cost two system calls more for each request.
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", _CONNECT_SECONDS, 0))
    connection.connect((HOST, port))
    connection.sendall(call.content)
    opened[connection.fileno()] = _Open(call, connection, started)
    poll.register(connection, select.EPOLLIN)


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
    """This function will write a request as our proxy would send it on for a browser.

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
