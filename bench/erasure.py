"""Measure the erasure of a person with many rows, and placing meanwhile (``python -m bench.erasure``).

Orders are placed under an open-loop load, before and during the erasure. The erasure runs in a process of its own, as a
worker does, with a storage that accepts everything.
"""

import itertools
import json
import logging
import multiprocessing
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import click
import psycopg2
import structlog

from bench import data, floors
from bench.data import CAMPUSES, SOLD_OUT_EVERY, row_id
from bench.paced_load import Kind, PacedLoad
from bench.stand import Stand
from marketplace.audit.operations import Act
from marketplace.infra.db import Database
from marketplace.infra.encryption import make_keyring, use_keyring
from marketplace.models import metadata
from marketplace.privacy import erasure, erasure_plans

MOST_SECONDS = 60.0
MOST_SLOWDOWN = 1.10
_PRODUCTS, _BUYERS = 1_000, 2_000
_VICTIM = row_id("buyer", 0)
_FILL = (
    """INSERT INTO notifications (user_id, type, title, body, cause, created_at)
    SELECT %(person)s, 'order_paid', 'Paid', 'A text of some length, as in a real notification.', 'bench:' || n, now()
    FROM generate_series(1, %(rows)s * 6 / 10) n""",
    """INSERT INTO notification_delivery_logs (notification_id, user_id, channel, status, created_at, updated_at)
    SELECT id, user_id, 'email', 'sent', now(), now() FROM notifications
    WHERE user_id = %(person)s LIMIT %(rows)s * 2 / 10""",
    """INSERT INTO addresses (user_id, hostel, created_at, updated_at)
    SELECT %(person)s, 'Peacock Hostel', now(), now() FROM generate_series(1, %(rows)s * 2 / 10)""",
    "ANALYZE",
)


class _AcceptingStorage:
    """A storage that accepts every object. Its time would not be the database's."""

    def put(self, **_given: Any) -> None:
        """Accept an object."""


def _erase(url: str, data_keys: str, index_key: str, sent: Any) -> None:
    """Plan and execute the erasure, and send the seconds of each."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    use_keyring(make_keyring(data_keys, index_key))
    database = Database(url, pool_size=2, application_name="erasure")
    person, officer = UUID(_VICTIM), uuid4()
    with database.transaction() as session:
        session.execute(
            metadata.tables["profiles"].insert().values(id=officer, role="staff", staff_role="compliance")
        )
    act = Act("compliance", datetime.now(UTC), user_id=officer)
    started = time.monotonic()
    plan = database.in_transaction(erasure_plans.make_plan, tables=metadata.tables, user_id=person, act=act)
    planned = time.monotonic()
    execution = database.in_transaction(
        erasure.start_erasure,
        tables=metadata.tables,
        plan_id=plan.id,
        plan_hash=plan.content_hash,
        act=act,
    )
    files: Any = erasure.StoredFiles(_AcceptingStorage(), "public", "private")  # type: ignore[arg-type]
    while True:
        finish = erasure.run_erasure(
            database, files, None, tables=metadata.tables, execution_id=execution.id, now=act.now
        )
        if finish is None:
            break
        database.in_transaction(finish, now=act.now)
    sent.put((planned - started, time.monotonic() - planned))
    database.close()


class Orders:
    """The requests that place orders: each buyer places five orders at most."""

    def __init__(self, stand: Stand) -> None:
        """Create the access tokens of all buyers but the erased person."""
        self._tokens = [stand.identity.token(row_id("buyer", number)) for number in range(1, _BUYERS)]
        self._numbers = itertools.count()

    def build(self, _number: int) -> bytes:
        """Build the next request."""
        number = next(self._numbers)
        buyer = number % len(self._tokens)
        product = number * 37 % (_PRODUCTS - _PRODUCTS % CAMPUSES)
        product += (buyer + 1) % CAMPUSES - product % CAMPUSES
        if product % SOLD_OUT_EVERY == 0:
            product += CAMPUSES
        body = json.dumps({"items": [{"productId": row_id("product", product), "quantity": 1}]})
        return (
            "POST /api/orders HTTP/1.1\r\nHost: bench\r\nConnection: close\r\nContent-Type: application/json\r\n"
            f"Authorization: Bearer {self._tokens[buyer]}\r\nContent-Length: {len(body)}\r\n\r\n{body}"
        ).encode()


def _p95_ms(load: PacedLoad, started: float, ended: float) -> float:
    answers = load.between(started, ended, "placing")
    if set(answers.statuses) != {201}:
        raise click.ClickException(f"placing answered {dict(answers.statuses)}")
    return answers.percentile_ms(95)


@click.command(help=__doc__)
@click.option("--rows", default=100_000, show_default=True, help="Rows of the person.")
@click.option(
    "--per-second", default=25.0, show_default=True, help="Orders: about a quarter of the capacity."
)
@click.option("--seconds", default=30.0, show_default=True, help="Length of the run before the erasure.")
def main(*, rows: int, per_second: float, seconds: float) -> None:
    """Measure and print the figures."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    began = time.monotonic()

    def tell(line: str) -> None:
        click.echo(f"[{time.monotonic() - began:5.1f} s] {line}", err=True)

    with (
        tempfile.TemporaryDirectory(prefix="marketplace-erasure-") as directory,
        Stand(Path(directory), tell=tell) as stand,
    ):
        stand.migrate()
        data.load(
            stand.database, data.Sizes(products=_PRODUCTS, buyers=_BUYERS, shipped=0, payable=0, charged=0)
        )
        tell(f"filling {rows:,} rows")
        connection = psycopg2.connect(stand.database.url, connect_timeout=5)
        with connection, connection.cursor() as cursor:
            for statement in _FILL:
                cursor.execute(statement, {"person": _VICTIM, "rows": rows})
        connection.close()
        stand.start_floors(floors.describe(statements={}, published_keys=stand.identity.published_keys()))
        stand.start_web()
        context = multiprocessing.get_context("spawn")
        sent = context.Queue()
        arguments = (stand.database.url, f"bench:{stand.data_key}", stand.index_key, sent)
        process = context.Process(target=_erase, args=arguments, daemon=True)
        with PacedLoad(stand.ports["web"], [Kind("placing", Orders(stand).build, per_second)]) as load:
            tell("placing orders before the erasure")
            time.sleep(5.0)
            before = time.monotonic()
            time.sleep(seconds)
            started = time.monotonic()
            tell("placing orders during the erasure")
            process.start()
            plan_seconds, erase_seconds = sent.get(timeout=600)
            ended = time.monotonic()
            time.sleep(0.5)
        process.join()
        before_ms, during_ms = _p95_ms(load, before, started), _p95_ms(load, started, ended)
    click.echo(f"plan of {rows:,} rows: {plan_seconds:.1f} s")
    click.echo(f"erasure of {rows:,} rows: {erase_seconds:.1f} s (target {MOST_SECONDS:.0f})")
    click.echo(
        f"p95 of placing at {per_second:.0f} a second: {before_ms:.1f} ms before, {during_ms:.1f} ms during,"
        f" {during_ms / before_ms:.2f} times (target {MOST_SLOWDOWN:.2f})"
    )


if __name__ == "__main__":
    main()
