"""Measure open event streams of one gevent process: memory, and the time of an event (``python -m bench.streams``)."""

import json
import logging
import selectors
import socket
import tempfile
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID

import click
import structlog

from bench import data, floors
from bench.data import row_id
from bench.figures import percentile
from bench.processes import largest_child_mebibytes
from bench.stand import Stand
from marketplace.infra.settings import load_settings
from marketplace.notifications.operations import notify
from marketplace.services import Services
from sandbox.ports import HOST

MOST_MEBIBYTES, MOST_P95_MS = 300, 100
_EVENTS = 400
_PAUSE_SECONDS = 0.02
_TIMEOUT_SECONDS = 20.0


class _Reader(threading.Thread):
    """A reader of all streams that notes when each notification arrives."""

    def __init__(self, streams: list[socket.socket]) -> None:
        super().__init__(daemon=True)
        self.arrived: dict[str, float] = {}
        self._streams = streams

    def run(self) -> None:
        """Read until a stream ends."""
        selector = selectors.DefaultSelector()
        for stream in self._streams:
            selector.register(stream, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                content = key.fileobj.recv(64 * 1024)  # type: ignore[union-attr]
                arrived = time.perf_counter()
                if not content:
                    return
                for line in content.split(b"\n"):
                    if line.startswith(b"id: "):
                        self.arrived[line[4:].decode().strip()] = arrived


def measure(stand: Stand, *, streams: int, tell: Callable[[str], None]) -> tuple[float, list[float]]:
    """Open streams of different people, notify some, and return the process's MiB and the milliseconds of events."""
    stand.migrate()
    data.load(stand.database, data.Sizes(products=10, buyers=streams, shipped=0, payable=0, charged=0))
    stand.start_floors(floors.describe(statements={}, published_keys=stand.identity.published_keys()))
    stand.start_waiting()
    tell(f"opening {streams} streams")
    opened = [_open(stand, row_id("buyer", number)) for number in range(streams)]
    reader = _Reader(opened)
    reader.start()
    services = Services.from_settings(load_settings(stand.variables), application_name="streams")
    published: dict[str, float] = {}
    tell(f"writing {_EVENTS} notifications")
    for number in range(_EVENTS):
        started = time.perf_counter()
        written = services.database.in_transaction(
            notify,
            user_id=UUID(row_id("buyer", number * 7 % streams)),
            type="wallet_credited",
            title="Your refund is in your wallet",
            body="We added the amount of your refund to your wallet.",
            link="/wallet",
            cause=f"bench:{number}",
            now=datetime.now(UTC),
        )
        published[str(written)] = started
        time.sleep(_PAUSE_SECONDS)
    time.sleep(1)
    mebibytes = largest_child_mebibytes(stand.process_id("waiting"))
    services.database.close()
    missing = published.keys() - reader.arrived.keys()
    if missing:
        raise click.ClickException(f"{len(missing)} of {_EVENTS} events did not arrive")
    return mebibytes, [(reader.arrived[one] - published[one]) * 1000 for one in published]


def _open(stand: Stand, user_id: str) -> socket.socket:
    stream = socket.create_connection((HOST, stand.ports["waiting"]), timeout=_TIMEOUT_SECONDS)
    request = (
        "GET /api/notifications/stream HTTP/1.1\r\nHost: bench\r\n"
        f"Authorization: Bearer {stand.identity.token(user_id)}\r\n\r\n"
    )
    stream.sendall(request.encode())
    answer = stream.recv(64 * 1024)
    if not answer.startswith(b"HTTP/1.1 200"):
        raise click.ClickException(f"a stream was refused: {json.dumps(answer[:200].decode())}")
    return stream


@click.command(help=__doc__)
@click.option("--streams", default=500, show_default=True, type=click.IntRange(1, 500))
def main(*, streams: int) -> None:
    """Measure and print the figures."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    started = time.monotonic()

    def tell(line: str) -> None:
        click.echo(f"[{time.monotonic() - started:5.1f} s] {line}", err=True)

    with (
        tempfile.TemporaryDirectory(prefix="marketplace-streams-") as directory,
        Stand(Path(directory), tell=tell) as stand,
    ):
        mebibytes, milliseconds = measure(stand, streams=streams, tell=tell)
    p50, p95 = percentile(milliseconds, 50), percentile(milliseconds, 95)
    met = "met" if mebibytes <= MOST_MEBIBYTES and p95 <= MOST_P95_MS else "missed"
    click.echo(
        f"{streams} open streams: {mebibytes:.0f} MiB in the process (target {MOST_MEBIBYTES}), from the start of the"
        f" transaction to the client p50 {p50:.1f} ms, p95 {p95:.1f} ms (target {MOST_P95_MS}): {met}"
    )


if __name__ == "__main__":
    main()
