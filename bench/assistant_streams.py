"""Measure answers of the assistant: our share of the time to the first token, memory, and the API meanwhile.

A model of our own streams at a fixed pace. Its first word says when the request arrived and when the word left, so the
time of the model itself does not count (``python -m bench.assistant_streams``).
"""

import logging
import re
import selectors
import socket
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import click
import psutil
import structlog

from bench import data, floors
from bench.data import row_id
from bench.figures import percentile
from bench.paced_load import Kind, PacedLoad
from bench.paced_model import decode_times
from bench.stand import Stand
from sandbox.ports import HOST

TOKENS_PER_SECOND = 10.0
TOKENS = 100
FEW, MANY = 16, 200
MOST_FEW_MS, MOST_MANY_MS, MOST_MEBIBYTES, MOST_SLOWDOWN = 10.0, 40.0, 300.0, 1.10
_FIRST = re.compile(rb'"text":"([g-pz]{20,}) ?"')
_END = b"0\r\n\r\n"
_SETTLE_SECONDS = 8.0


@dataclass
class _Open:
    """An open stream: when the request left, and what arrived until the first token."""

    person: int
    connection: socket.socket
    sent_at: int
    head: bytes = b""
    is_measured: bool = False
    tail: bytes = b""


class _Readers(threading.Thread):
    """Keeps a number of streams open: each that ends is replaced by the next question of the person."""

    def __init__(self, port: int, tokens: Sequence[str]) -> None:
        super().__init__(daemon=True)
        self.port = port
        self.tokens = tokens
        self.shares_ms: list[float] = []
        self.errors: list[str] = []
        self.is_counting = False
        self.is_stopping = False
        self._selector = selectors.DefaultSelector()

    def run(self) -> None:
        """Open the streams one after the other, and read until ``is_stopping``."""
        pause = TOKENS / TOKENS_PER_SECOND / len(self.tokens)
        due = time.monotonic()
        waiting = list(range(len(self.tokens)))
        while not self.is_stopping:
            if waiting and time.monotonic() >= due:
                due += pause
                self._open(waiting.pop())
            for key, _ in self._selector.select(0.002):
                if self._read(key.data):
                    waiting.insert(0, key.data.person)
        for key in list(self._selector.get_map().values()):
            key.data.connection.close()

    def _open(self, person: int) -> None:
        connection = socket.create_connection((HOST, self.port), timeout=10)
        body = b'{"messages":[{"role":"user","content":"I need a reading lamp for my room."}]}'
        head = (
            "POST /api/assistant/stream HTTP/1.1\r\nHost: bench\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\nAuthorization: Bearer {self.tokens[person]}\r\n\r\n"
        )
        sent_at = time.perf_counter_ns()
        connection.sendall(head.encode() + body)
        connection.setblocking(False)
        self._selector.register(connection, selectors.EVENT_READ, _Open(person, connection, sent_at))

    def _read(self, stream: _Open) -> bool:
        """Read what arrived, and return whether the stream ended."""
        content = stream.connection.recv(64 * 1024)
        arrived = time.perf_counter_ns()
        if not stream.is_measured:
            stream.head += content
            first = _FIRST.search(stream.head)
            if first is not None:
                stream.is_measured = True
                received, began = decode_times(first[1].decode())
                if self.is_counting:
                    self.shares_ms.append((received - stream.sent_at + arrived - began) / 1e6)
            elif b"event: error" in stream.head or not stream.head.startswith(b"HTTP/1.1 200"):
                self.errors.append(stream.head[-300:].decode(errors="replace"))
        stream.tail = (stream.tail + content)[-8:]
        if content and not stream.tail.endswith(_END):
            return False
        self._selector.unregister(stream.connection)
        stream.connection.close()
        return True


@dataclass(frozen=True)
class Figures:
    """The figures of a run with a number of open streams."""

    shares_ms: list[float]
    mebibytes: float


def run_streams(
    stand: Stand, people: int, *, first: int, seconds: float, tell: Callable[[str], None]
) -> tuple[_Readers, Figures]:
    """Keep streams open for a time, and return the readers, which still run, and the figures."""
    tokens = [stand.identity.token(row_id("buyer", first + number)) for number in range(people)]
    readers = _Readers(stand.ports["waiting"], tokens)
    readers.start()
    tell(f"opening {people} streams")
    time.sleep(TOKENS / TOKENS_PER_SECOND + _SETTLE_SECONDS)
    readers.is_counting = True
    time.sleep(seconds)
    readers.is_counting = False
    if readers.errors:
        raise click.ClickException(f"{len(readers.errors)} streams failed, such as: {readers.errors[0]}")
    return readers, Figures(list(readers.shares_ms), _proportional_mebibytes(stand.process_id("waiting")))


def _proportional_mebibytes(process_id: int) -> float:
    process = psutil.Process(process_id)
    return sum(float(one.memory_full_info().pss) for one in [process, *process.children(recursive=True)]) / (
        1 << 20
    )


def _p95_ms(stand: Stand, *, per_second: float, seconds: float) -> float:
    """Return the p95 of product pages under an open-loop load on the sync workers."""
    product = row_id("product", 1)
    content = f"GET /api/products/{product} HTTP/1.1\r\nHost: bench\r\nConnection: close\r\n\r\n".encode()
    started = time.monotonic()
    with PacedLoad(stand.ports["web"], [Kind("detail", lambda _number: content, per_second)]) as load:
        time.sleep(seconds)
    answers = load.between(started, started + seconds, "detail")
    if set(answers.statuses) != {200}:
        raise click.ClickException(f"the API answered {dict(answers.statuses)}")
    return answers.percentile_ms(95)


@click.command(help=__doc__)
@click.option("--seconds", default=20.0, show_default=True, help="Length of each run.")
@click.option("--per-second", default=100.0, show_default=True, help="Product pages for the API's latency.")
@click.option("--rounds", default=3, show_default=True, help="Pairs of runs with and without streams.")
def main(*, seconds: float, per_second: float, rounds: int) -> None:
    """Measure and print the figures."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    started = time.monotonic()

    def tell(line: str) -> None:
        click.echo(f"[{time.monotonic() - started:5.1f} s] {line}", err=True)

    with (
        tempfile.TemporaryDirectory(prefix="marketplace-assistant-") as directory,
        Stand(Path(directory), tell=tell) as stand,
    ):
        stand.migrate()
        data.load(stand.database, data.Sizes(products=1_000, buyers=400, shipped=0, payable=0, charged=0))
        stand.start_floors(floors.describe(statements={}, published_keys=stand.identity.published_keys()))
        stand.start_model(tokens=TOKENS, tokens_per_second=TOKENS_PER_SECOND)
        stand.start_web()
        stand.start_assistant()
        readers, few = run_streams(stand, FEW, first=0, seconds=seconds, tell=tell)
        readers.is_stopping = True
        readers.join()
        slowdowns = []
        for number in range(rounds):
            tell(f"API without streams, round {number + 1}")
            before = _p95_ms(stand, per_second=per_second, seconds=seconds / 2)
            readers, many = run_streams(stand, MANY, first=100, seconds=seconds, tell=tell)
            tell("API with streams")
            meanwhile = _p95_ms(stand, per_second=per_second, seconds=seconds / 2)
            readers.is_stopping = True
            readers.join()
            slowdowns.append(meanwhile / before)
            tell(f"p95 {before:.1f} ms without, {meanwhile:.1f} ms with {MANY} streams")
    for count, figures, most in ((FEW, few, MOST_FEW_MS), (MANY, many, MOST_MANY_MS)):
        p50, p90 = percentile(figures.shares_ms, 50), percentile(figures.shares_ms, 90)
        click.echo(
            f"{count} open streams, {len(figures.shares_ms)} first tokens: our share p50 {p50:.1f} ms,"
            f" p90 {p90:.1f} ms (target {most:.0f}), {figures.mebibytes:.0f} MiB (target {MOST_MEBIBYTES:.0f})"
        )
    click.echo(
        f"p95 of product pages with {MANY} streams: {statistics.median(slowdowns):.2f} times the p95 without"
        f" (target {MOST_SLOWDOWN:.2f})"
    )


if __name__ == "__main__":
    main()
