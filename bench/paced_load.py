"""A paced load of several kinds of requests, sent at fixed times whether earlier requests were answered or not."""

import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from bench.figures import percentile
from sandbox.ports import HOST

_ANSWER_SECONDS = 45.0
_CHUNK_BYTES = 1 << 16
# Enough senders per kind that slow responses seldom delay the next request.
_SENDERS = 8


@dataclass(frozen=True)
class Kind:
    """A kind of request.

    :param build: returns the request with a number, from 0
    :param per_second: the number of requests per second
    """

    name: str
    build: Callable[[int], bytes]
    per_second: float


@dataclass(frozen=True)
class Sample:
    """A request: its scheduled time on the monotonic clock, and the response's status and time. 0 is no response."""

    kind: str
    number: int
    scheduled_at: float
    status: int
    seconds: float


class PacedLoad:
    """Senders that run until the end of the ``with`` block."""

    def __init__(self, port: int, kinds: Sequence[Kind]) -> None:
        """Describe the load on a port of this machine."""
        self.samples: list[Sample] = []
        self._port = port
        self._kinds = kinds
        self._end = threading.Event()
        self._pool = ThreadPoolExecutor(_SENDERS * len(kinds))
        self._senders: list[Future[None]] = []

    def __enter__(self) -> Self:
        started = time.monotonic()
        for kind in self._kinds:
            self._senders += [
                self._pool.submit(self._send, kind, number, started) for number in range(_SENDERS)
            ]
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self._end.set()
        self._pool.shutdown()
        for sender in self._senders:
            sender.result()

    def _send(self, kind: Kind, number: int, started: float) -> None:
        while True:
            scheduled_at = started + number / kind.per_second
            if self._end.wait(max(scheduled_at - time.monotonic(), 0)):
                return
            status = request_status(self._port, kind.build(number))
            self.samples.append(
                Sample(kind.name, number, scheduled_at, status, time.monotonic() - scheduled_at)
            )
            number += _SENDERS

    def between(self, since: float, until: float, kind: str) -> "Answers":
        """Return the answers to a kind's requests that were due between two times of the monotonic clock."""
        return Answers(
            [one for one in self.samples if one.kind == kind and since <= one.scheduled_at < until]
        )


@dataclass(frozen=True)
class Answers:
    """The answers to requests of one kind."""

    samples: Sequence[Sample]

    @property
    def statuses(self) -> Counter[int]:
        """The number of answers by status."""
        return Counter(one.status for one in self.samples)

    def percentile_ms(self, percent: float) -> float:
        """Return a percentile of the times from the scheduled start to the response, in milliseconds."""
        return percentile([one.seconds for one in self.samples], percent) * 1000


def request_status(port: int, content: bytes) -> int:
    """Send a request and return the response's status, or 0 if there is no response."""
    try:
        with socket.create_connection((HOST, port), timeout=_ANSWER_SECONDS) as connection:
            connection.sendall(content)
            received = b""
            while chunk := connection.recv(_CHUNK_BYTES):
                received = received or chunk
    except OSError:
        return 0
    return int(received[9:12]) if received.startswith(b"HTTP/1.") else 0
