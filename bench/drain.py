"""Measure how fast workers drain a queue of payment events, and check the results (``python -m bench.drain``).

Each event pays a different order and changes the order, escrow, stock and ledger. Some events are delivered
twice. All events are in the inbox and in the queue before the workers start, as webhook ingest leaves them.
"""

import logging
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
import psycopg2
import structlog

from bench import data
from bench.stand import Stand
from marketplace.infra import wakeups
from marketplace.infra.db import Database
from marketplace.infra.settings import load_settings
from marketplace.kernel import queues
from marketplace.reconciliation.ledger_check import verify_ledger
from marketplace.services import Services
from sandbox.process import wait_until
from tasks.dispatcher import Dispatcher

TARGET_A_SECOND = 150
CORES = 2
_PRODUCTS = 1_000
_LOOK_AGAIN_SECONDS = 0.5
# Share of events processed in advance. Otherwise PostgreSQL would keep plans made for empty tables.
_FIRST_SHARE = 0.1

_PREPARE = (
    # Reserve many products, as many buyers do.
    """WITH numbered AS (SELECT order_id, row_number() OVER (ORDER BY order_id) AS n FROM order_items)
    UPDATE order_items i SET product_id = p.id
    FROM numbered JOIN (SELECT id, row_number() OVER (ORDER BY id) - 1 AS n FROM products) p
        ON p.n = numbered.n %% %(products)s
    WHERE i.order_id = numbered.order_id""",
    """UPDATE products p SET quantity = 100000, reserved = i.pieces
    FROM (SELECT product_id, sum(quantity) AS pieces FROM order_items GROUP BY product_id) i
    WHERE p.id = i.product_id""",
    """INSERT INTO payment_intents (buyer_id, amount_minor, status)
    SELECT buyer_id, total_minor, 'pending' FROM orders ORDER BY id""",
    """INSERT INTO payment_allocations (intent_id, order_id, amount_minor)
    SELECT i.id, o.id, o.total_minor
    FROM (SELECT id, buyer_id, row_number() OVER (PARTITION BY buyer_id ORDER BY id) AS n FROM payment_intents) i
    JOIN (SELECT id, buyer_id, total_minor, row_number() OVER (PARTITION BY buyer_id ORDER BY id) AS n FROM orders) o
        USING (buyer_id, n)""",
    """INSERT INTO webhook_inbox (provider, body)
    SELECT 'gateway', convert_to(jsonb_build_object('event', 'charge.success', 'data', jsonb_build_object(
        'id', 4000000000 + n, 'domain', 'live', 'status', 'success', 'reference', reference, 'amount', amount_minor,
        'fees', 4650, 'gateway_response', 'Approved', 'paid_at', '2026-11-20T09:31:00.000Z', 'channel', 'card',
        'currency', 'NGN', 'customer', jsonb_build_object('id', n, 'email', 'buyer@example.edu'),
        'metadata', jsonb_build_object('settlement', 'platform_escrow')))::text, 'UTF8')
    FROM (SELECT row_number() OVER (ORDER BY id) AS n, reference, amount_minor FROM payment_intents) numbered""",
    # Repeated deliveries are spread among the others.
    """INSERT INTO webhook_inbox (provider, body)
    SELECT provider, body FROM webhook_inbox ORDER BY md5(id::text) LIMIT %(again)s""",
)
_WAITING = "SELECT count(*) FROM webhook_inbox WHERE status IN ('received', 'retrying')"
# Only events that the workers finished.
_FINISHED = """SELECT count(*), extract(epoch FROM max(finished_at) - min(finished_at))::float,
    count(*) FILTER (WHERE status = 'duplicate')
    FROM webhook_inbox WHERE finished_at > %(since)s"""
# Unpaid orders and unfinished events.
_LOST = """SELECT (SELECT count(*) FROM orders WHERE status <> 'paid_escrow')
    + (SELECT count(*) FROM webhook_inbox WHERE status NOT IN ('processed', 'duplicate'))"""
# Charges posted more than once, orders paid more than once, and payments that did not reach escrow.
_DOUBLED = """SELECT (SELECT count(*) - count(DISTINCT source) FROM ledger_transactions)
    + (SELECT count(*) - count(DISTINCT order_id) FROM order_events WHERE trigger = 'pay')
    + (SELECT count(*) FROM ledger_transactions) - (SELECT count(*) FROM orders WHERE status = 'paid_escrow')
    + (SELECT count(*) FROM refunds)"""


@dataclass(frozen=True)
class Drained:
    """The result: speed, and counters that must be zero.

    :param processor_ms: processor time of workers and servers per delivery, which does not depend on other
        load
    """

    deliveries: int
    duplicates: int
    seconds: float
    lost: int
    doubled: int
    broken_rules: int
    processor_ms: float

    @property
    def a_second(self) -> float:
        """The number of deliveries processed per second."""
        return self.deliveries / self.seconds

    @property
    def sound(self) -> bool:
        """Whether each event was applied exactly once."""
        return not (self.lost or self.doubled or self.broken_rules)

    def lines(self) -> list[str]:
        """Format the figures, a line each."""
        idle = CORES * 1000 / self.processor_ms
        met = "met" if self.a_second >= TARGET_A_SECOND else "missed"
        return [
            f"deliveries           {self.deliveries:,}, of which {self.duplicates:,} repeated",
            f"seconds              {self.seconds:.1f}",
            f"events a second      {self.a_second:,.0f} (target {TARGET_A_SECOND}: {met})",
            f"processor time       {self.processor_ms:.1f} ms per delivery: {idle:,.0f} a second on {CORES} idle cores",
            f"lost                 {self.lost}",
            f"applied twice        {self.doubled}",
            f"invariants violated  {self.broken_rules}",
        ]


def drain(
    stand: Stand, *, events: int, again: int, workers: int, limit_seconds: float, tell: Callable[[str], None]
) -> Drained:
    """Queue events, let workers drain the queue, and check the results.

    :param stand: with running, empty servers
    :param events: number of events, each for a different order
    :param again: number of events delivered twice
    :param workers: number of worker processes
    :param limit_seconds: events not processed by then count as lost
    :param tell: receives progress messages
    """
    tell(f"creating {events:,} orders with payment events")
    stand.migrate()
    data.load(
        stand.database,
        data.Sizes(products=_PRODUCTS, buyers=max(events // 4, 100), shipped=0, payable=events, charged=0),
    )
    _run(stand, *_PREPARE, products=_PRODUCTS, again=again)
    tell("processing the first events and enqueueing the others")
    _begin(stand, first=int(events * _FIRST_SHARE))
    data.settle(stand.database)
    since = datetime.now(UTC)
    tell(f"draining with {workers} worker(s)")
    for number in range(workers):
        stand.start_worker(queues.WEBHOOKS, number)
    names = [f"worker-{queues.WEBHOOKS}-{number}" for number in range(workers)]
    before = stand.cpu(names[0])
    wait_until(
        lambda: _one(stand, _WAITING) == 0,
        timeout_seconds=limit_seconds,
        pause=lambda _seconds: time.sleep(_LOOK_AGAIN_SECONDS),
    )
    after = [stand.cpu(name) for name in names]
    servers = after[0] - before
    spent = servers.database + servers.cache + sum(cpu.web for cpu in after)
    database = Database(stand.database.url, pool_size=1, application_name="drain")
    with database.reading() as session:
        broken = verify_ledger(session)
    database.close()
    [[deliveries, seconds, duplicates]] = _rows(stand, _FINISHED, since=since)
    return Drained(
        deliveries=deliveries,
        duplicates=duplicates,
        seconds=seconds or limit_seconds,
        lost=_one(stand, _LOST),
        doubled=_one(stand, _DOUBLED),
        broken_rules=len(broken),
        processor_ms=spent * 1000 / max(deliveries, 1),
    )


def _begin(stand: Stand, *, first: int) -> None:
    """Process the first events in this process, and enqueue all others in random order."""
    services = Services.from_settings(load_settings(stand.variables), application_name="drain")
    relay = Dispatcher(services)
    rows = _rows(stand, "SELECT id FROM webhook_inbox ORDER BY md5(id::text)")
    for (row_id,) in rows[:first]:
        relay.run_row(queues.WEBHOOKS, wakeups.INBOX, str(row_id))
    for (row_id,) in rows[first:]:
        relay.send_wakeup(queues.WEBHOOKS, wakeups.INBOX, row_id)
    services.database.close()


def _run(stand: Stand, *statements: str, **parameters: Any) -> None:
    connection = psycopg2.connect(stand.database.url, connect_timeout=5)
    try:
        with connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement, parameters)
    finally:
        connection.close()


def _rows(stand: Stand, query: str, **parameters: Any) -> list[tuple[Any, ...]]:
    connection = psycopg2.connect(stand.database.url, connect_timeout=5)
    try:
        with connection, connection.cursor() as cursor:
            cursor.execute(query, parameters or None)
            return cursor.fetchall()
    finally:
        connection.close()


def _one(stand: Stand, query: str) -> Any:
    [[value]] = _rows(stand, query)
    return value


@click.command(help=__doc__)
@click.option("--events", default=10_000, show_default=True, type=click.IntRange(10, 100_000))
@click.option(
    "--again",
    default=500,
    show_default=True,
    type=click.IntRange(0, 100_000),
    help="Number of events delivered twice.",
)
@click.option(
    "--workers", default=2, show_default=True, type=click.IntRange(1, 8), help="Number of worker processes."
)
@click.option(
    "--limit-seconds", default=300.0, show_default=True, type=click.FloatRange(1, 3600), help="Time limit."
)
def main(*, events: int, again: int, workers: int, limit_seconds: float) -> None:
    """Measure, print the figures, and exit with status 1 if an event was lost or applied twice."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    started = time.monotonic()

    def tell(line: str) -> None:
        click.echo(f"[{time.monotonic() - started:5.1f} s] {line}", err=True)

    with (
        tempfile.TemporaryDirectory(prefix="marketplace-drain-") as directory,
        Stand(Path(directory), tell=tell) as stand,
    ):
        drained = drain(
            stand,
            events=events,
            again=min(again, events),
            workers=workers,
            limit_seconds=limit_seconds,
            tell=tell,
        )
    for line in drained.lines():
        click.echo(line)
    if not drained.sound:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
