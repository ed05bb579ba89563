"""Measure the server time of the probes (``python -m bench.probes``).

Liveness is measured while the sync workers serve cached listings from eight clients, and again without database and
cache. Readiness is measured without both. The server time is the duration in the access log.
"""

import http.client
import json
import logging
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import click
import structlog

from bench import data, floors
from bench.figures import percentile
from bench.stand import Stand
from sandbox.ports import HOST

MAX_LIVE_P99_MS, MAX_READINESS_MS = 5.0, 1_000.0
_CLIENTS = 8
_READY_CALLS = 20
_TIMEOUT_SECONDS = 20.0


def _call(stand: Stand, group: str, path: str, *, calls: int, until: threading.Event | None = None) -> None:
    """Request a path repeatedly on one connection. Stop after ``calls`` requests, or when ``until`` is set."""
    connection = http.client.HTTPConnection(HOST, stand.ports[group], timeout=_TIMEOUT_SECONDS)
    for _ in range(calls):
        if until is not None and until.is_set():
            break
        connection.request("GET", path, headers={"Host": "bench"})
        connection.getresponse().read()
    connection.close()


def _server_milliseconds(stand: Stand, group: str, path: str, *, calls: int) -> list[float]:
    """Call a path, and return the durations of the calls in the access log of the group."""
    before = stand.log(group).stat().st_size
    _call(stand, group, path, calls=calls)
    time.sleep(0.5)
    with stand.log(group).open(encoding="utf-8") as log:
        log.seek(before)
        entries = [json.loads(line) for line in log if line.startswith("{")]
    return [entry["durationMs"] for entry in entries if entry.get("path") == path and "durationMs" in entry]


def measure(stand: Stand, *, calls: int, tell: Callable[[str], None]) -> dict[str, float]:
    """Return the p99 of liveness under load and in an outage, and the longest readiness, in milliseconds."""
    stand.migrate()
    data.load(stand.database, data.Sizes(products=100, buyers=1, shipped=0, payable=0, charged=0))
    stand.start_floors(floors.describe(statements={}, published_keys=stand.identity.published_keys()))
    stand.start_web()
    stand.start_waiting()
    ended = threading.Event()
    clients = [
        threading.Thread(
            target=_call,
            args=(stand, "web", "/api/products"),
            kwargs={"calls": 10**9, "until": ended},
            daemon=True,
        )
        for _ in range(_CLIENTS)
    ]
    tell(f"calling liveness {calls} times while {_CLIENTS} clients keep the sync workers busy")
    for client in clients:
        client.start()
    busy = _server_milliseconds(stand, "waiting", "/health/live", calls=calls)
    ended.set()
    for client in clients:
        client.join()
    tell("stopping PostgreSQL and Valkey")
    stand.database.stop()
    stand.cache.stop()
    outage = _server_milliseconds(stand, "waiting", "/health/live", calls=calls)
    ready = _server_milliseconds(stand, "waiting", "/health/readiness", calls=_READY_CALLS)
    return {
        "busy": percentile(busy, 99),
        "outage": percentile(outage, 99),
        "ready": max(ready),
    }


@click.command(help=__doc__)
@click.option("--calls", default=2_000, show_default=True, type=click.IntRange(100, 20_000))
def main(*, calls: int) -> None:
    """Measure and print the figures."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    started = time.monotonic()

    def tell(line: str) -> None:
        click.echo(f"[{time.monotonic() - started:5.1f} s] {line}", err=True)

    with (
        tempfile.TemporaryDirectory(prefix="marketplace-probes-") as directory,
        Stand(Path(directory), tell=tell) as stand,
    ):
        found = measure(stand, calls=calls, tell=tell)
    live_met = max(found["busy"], found["outage"]) < MAX_LIVE_P99_MS
    click.echo(
        f"Liveness, server time: p99 {found['busy']:.2f} ms with busy sync workers, {found['outage']:.2f} ms without"
        f" database and cache (target {MAX_LIVE_P99_MS:g}): {'met' if live_met else 'missed'}"
    )
    ready_met = found["ready"] < MAX_READINESS_MS
    click.echo(
        f"Readiness without database and cache: at most {found['ready']:.0f} ms"
        f" (target {MAX_READINESS_MS:g}): {'met' if ready_met else 'missed'}"
    )


if __name__ == "__main__":
    main()
