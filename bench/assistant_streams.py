"""Measure answers of the assistant: our share of the time to the first token, memory, and the API meanwhile.

A model of our own streams at a fixed pace. Its first word says when the request arrived and when the word left, so the
time of the model itself does not count (``python -m bench.assistant_streams``).
"""

import logging
import multiprocessing
import re
import selectors
import socket
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Event
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
_DRAIN_SECONDS = 0.25


@dataclass(eq=False)
class _Open:
    """An open stream: when the request left, and what arrived until the first token."""

    person: int
    connection: socket.socket
    sent_at: int
    head: bytes = b""
    is_measured: bool = False
    tail: bytes = b""


class _Reader:
    """Keeps a number of streams open: each that ends is replaced by the next question of the person."""

    def __init__(self, port: int, tokens: Sequence[str], counting: Event, stopping: Event) -> None:
        self._port = port
        self._tokens = tokens
        self._counting = counting
        self._stopping = stopping
        self.shares_ms: list[float] = []
        self.errors: list[str] = []
        # The streams that wait for the first token. Later tokens are read from time to time, as by other machines.
        self._selector = selectors.DefaultSelector()
        self._measured: set[_Open] = set()

    def run(self) -> None:
        """Open the streams one after the other, and read until the end."""
        pause = TOKENS / TOKENS_PER_SECOND / len(self._tokens)
        due = drained_at = time.monotonic()
        waiting = list(range(len(self._tokens)))
        while not self._stopping.is_set():
            if waiting and time.monotonic() >= due:
                due += pause
                self._open(waiting.pop())
            for key, _ in self._selector.select(0.002):
                if self._read(key.data):
                    waiting.insert(0, key.data.person)
            if time.monotonic() >= drained_at + _DRAIN_SECONDS:
                drained_at = time.monotonic()
                for stream in [stream for stream in list(self._measured) if self._read(stream)]:
                    waiting.insert(0, stream.person)
        for stream in (*self._measured, *(key.data for key in self._selector.get_map().values())):
            stream.connection.close()

    def _open(self, person: int) -> None:
        connection = socket.create_connection((HOST, self._port), timeout=10)
        body = b'{"messages":[{"role":"user","content":"I need a reading lamp for my room."}]}'
        head = (
            "POST /api/assistant/stream HTTP/1.1\r\nHost: bench\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\nAuthorization: Bearer {self._tokens[person]}\r\n\r\n"
        )
        sent_at = time.perf_counter_ns()
        connection.sendall(head.encode() + body)
        connection.setblocking(False)
        self._selector.register(connection, selectors.EVENT_READ, _Open(person, connection, sent_at))

    def _read(self, stream: _Open) -> bool:
        """Read what arrived, and return whether the stream ended."""
        try:
            content = stream.connection.recv(64 * 1024)
        except BlockingIOError:
            return False
        arrived = time.perf_counter_ns()
        if not stream.is_measured:
            stream.head += content
            first = _FIRST.search(stream.head)
            if first is not None:
                stream.is_measured = True
                self._selector.unregister(stream.connection)
                self._measured.add(stream)
                received, began = decode_times(first[1].decode())
                if self._counting.is_set():
                    self.shares_ms.append((received - stream.sent_at + arrived - began) / 1e6)
            elif b"event: error" in stream.head or not stream.head.startswith(b"HTTP/1.1 200"):
                self.errors.append(stream.head[-300:].decode(errors="replace"))
        stream.tail = (stream.tail + content)[-8:]
        if content and not stream.tail.endswith(_END):
            return False
        if stream.is_measured:
            self._measured.discard(stream)
        else:
            self._selector.unregister(stream.connection)
        stream.connection.close()
        return True


def _read_streams(
    port: int,
    tokens: Sequence[str],
    counting: Event,
    stopping: Event,
    result: "Queue[tuple[list[float], list[str]]]",
) -> None:
    """Keep streams open in a process of their own, which does not delay the requests of the API's load."""
    reader = _Reader(port, tokens, counting, stopping)
    reader.run()
    result.put((reader.shares_ms, reader.errors))


@dataclass(frozen=True)
class Figures:
    """Our shares of the times to first tokens, and the memory of the process."""

    shares_ms: list[float]
    mebibytes: float
    meanwhile_ms: float = 0.0


def run_streams(
    stand: Stand,
    people: int,
    *,
    first: int,
    seconds: float,
    tell: Callable[[str], None],
    meanwhile: Callable[[], float] = lambda: 0.0,
) -> Figures:
    """Keep streams open, count first tokens for a time, then measure something else meanwhile."""
    tokens = [stand.identity.token(row_id("buyer", first + number)) for number in range(people)]
    context = multiprocessing.get_context("spawn")
    counting, stopping, result = context.Event(), context.Event(), context.Queue()
    arguments = (stand.ports["waiting"], tokens, counting, stopping, result)
    process = context.Process(target=_read_streams, args=arguments, daemon=True)
    process.start()
    tell(f"opening {people} streams")
    time.sleep(TOKENS / TOKENS_PER_SECOND + _SETTLE_SECONDS)
    counting.set()
    time.sleep(seconds)
    counting.clear()
    measured = meanwhile()
    mebibytes = _proportional_mebibytes(stand.process_id("waiting"))
    stopping.set()
    shares_ms, errors = result.get(timeout=30)
    process.join()
    if errors:
        raise click.ClickException(f"{len(errors)} streams failed, such as: {errors[0]}")
    return Figures(shares_ms, mebibytes, measured)


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
        few = run_streams(stand, FEW, first=0, seconds=3 * seconds, tell=tell)
        slowdowns = []
        for number in range(rounds):
            tell(f"API without and with streams, round {number + 1}")

            def measure_api() -> float:
                return _p95_ms(stand, per_second=per_second, seconds=seconds)

            before = measure_api()
            many = run_streams(stand, MANY, first=100, seconds=seconds, tell=tell, meanwhile=measure_api)
            slowdowns.append(many.meanwhile_ms / before)
            tell(f"p95 {before:.1f} ms without, {many.meanwhile_ms:.1f} ms with {MANY} streams")
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
