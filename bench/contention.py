"""``python -m bench.contention``: transitions of orders from many threads at once, and how they meet.

On distinct orders nobody should ever be refused; on shared ones all but one must be, and nobody may deadlock.
"""

import logging
import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import click
import structlog
from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.infra.db import Database
from marketplace.kernel.errors import ConflictError
from marketplace.orders import operations as orders
from marketplace.payments import cancelling
from marketplace.payments.books import verify
from marketplace.payments.charges import Outcome
from tests.support.purchases import (
    NOW,
    Shop,
    apply,
    make_charge,
    make_intent,
    make_product,
    make_shop,
    place,
    release,
    with_buyer,
)
from tests.support.servers import Servers

SHOPS = 4
PRODUCTS = 5
_DEADLOCKS = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"


class CountingDatabase(Database):
    """Counts the transactions that are begun: more than there was work for are retries."""

    begun = 0
    _lock = threading.Lock()

    def _once(self, *args: Any, **kwargs: Any) -> Any:
        with self._lock:
            self.begun += 1
        return super()._once(*args, **kwargs)


@dataclass
class Result:
    """What came of a run."""

    name: str
    transitions: int = 0
    tried: int = 0
    conflicts: int = 0
    retries: int = 0
    deadlocks: int = 0
    seconds: float = 0.0
    others: Counter[str] = field(default_factory=Counter)

    def line(self) -> str:
        """Write the result as a row of a table."""
        share = 100 * self.conflicts / max(self.tried, 1)
        return (
            f"| {self.name} | {self.tried:,} | {self.transitions:,} | {self.transitions / self.seconds:,.0f} | "
            f"{self.retries} | {self.deadlocks} | {self.conflicts:,} ({share:.2f} %) | {sum(self.others.values())} |"
        )


def _steps(shop: Shop, order_id: UUID, charge: Any, *, ends: str) -> list[Callable[[Session], Any]]:
    """Give the transitions of an order's life, the last being a PIN or a cancellation."""
    paid: list[Callable[[Session], Any]] = [lambda session: apply(session, charge)]
    accepted = [
        *paid,
        lambda session: orders.accept(session, order_id=order_id, caller=shop.vendor, now=NOW),
    ]
    if ends == "cancel":
        return [
            *accepted,
            lambda session: cancelling.cancel(
                session, order_id=order_id, caller=shop.buyer, reason=None, now=NOW
            ),
        ]
    return [
        *accepted,
        lambda session: orders.ship(
            session, order_id=order_id, caller=shop.vendor, tracking_note=None, now=NOW
        ),
        lambda session: release(session, shop, order_id),
    ]


def _prepare(database: Database, count: int) -> list[list[Callable[[Session], Any]]]:
    """Place orders in a few shops, whose vendors and products they share, and make the charge of each."""
    draw = random.Random(1)
    with database.transaction() as session:
        shops = [make_shop(session) for _ in range(SHOPS)]
        products = {
            shop.store_id: [make_product(session, shop, quantity=10_000) for _ in range(PRODUCTS)]
            for shop in shops
        }
    lives = []
    for number in range(count):
        with database.transaction() as session:
            shop = with_buyer(session, draw.choice(shops))
            order_id = place(session, shop, draw.choice(products[shop.store_id]))
            charge = make_charge(make_intent(session, shop, order_id))
        lives.append(_steps(shop, order_id, charge, ends="cancel" if number % 5 == 0 else "pin"))
    return lives


def _measure(
    name: str, database: CountingDatabase, work: list[list[Callable[[Session], Any]]], threads: int
) -> Result:
    result, lock = Result(name), threading.Lock()
    before = _deadlocks(database)
    database.begun = 0

    def live(steps: list[Callable[[Session], Any]]) -> None:
        for step in steps:
            outcome = "done"
            try:
                # A charge that is known already is no error, and no transition.
                if database.in_transaction(step) is Outcome.REPEATED:
                    outcome = "repeated"
            except ConflictError:
                outcome = "conflict"
            except Exception as error:  # noqa: BLE001 - counted and shown
                outcome = type(error).__name__
            with lock:
                result.tried += 1
                result.transitions += outcome == "done"
                result.conflicts += outcome == "conflict"
                if outcome not in ("done", "conflict", "repeated"):
                    result.others[outcome] += 1

    began = time.monotonic()
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(live, work))
    result.seconds = time.monotonic() - began
    result.retries = database.begun - result.tried
    result.deadlocks = _deadlocks(database) - before
    return result


def _deadlocks(database: Database) -> int:
    with database.reading() as session:
        session.execute(text("SELECT pg_stat_force_next_flush()"))
        session.execute(text("SELECT pg_stat_clear_snapshot()"))
        return int(session.execute(text(_DEADLOCKS)).scalar_one())


@click.command(help=__doc__)
@click.option("--transitions", default=10_000, show_default=True, help="How many, in each of the two runs.")
@click.option("--threads", default=8, show_default=True, help="How many at once.")
def main(transitions: int, threads: int) -> None:
    """This function will measure both, print the figures, and make sure that the books are whole."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    servers = Servers()
    try:
        url = servers.start().database_url
        database = CountingDatabase(url, pool_size=threads, application_name="contention")
        click.echo("| Run | tried | transitions | a second | retries | deadlocks | 409s | other errors |")
        click.echo("|---|---|---|---|---|---|---|---|")
        # A life is 4 transitions, or 3 where it ends by a cancellation: 3.8 on average.
        distinct = _prepare(database, round(transitions / 3.8) + 1)
        click.echo(_measure("distinct orders", database, distinct, threads).line())
        shared = [steps for steps in _prepare(database, round(transitions / 3.8 / 4) + 1) for _ in range(4)]
        result = _measure("shared orders, four at each", database, shared, threads)
        click.echo(result.line())
        if result.others:
            click.echo(dict(result.others))
        with database.reading() as session:
            broken = verify(session)
        click.echo(f"broken rules of the books: {len(broken)}")
        database.close()
    finally:
        servers.stop()
    if broken:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
