"""Measure concurrent transitions of orders over HTTP, on distinct and shared orders (``python -m bench.contention``).

On distinct orders, no request may be refused. On shared orders, several clients request each transition: exactly one
request must succeed, and no request may deadlock. Shared orders also produce 404, because a vendor does not see an
order before its payment.
"""

import http.client
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from uuid import UUID

import click
import orjson
import psycopg2

from bench import data, floors
from bench.data import STORES, Sizes, row_id
from bench.stand import INBOX_PATH, Stand
from marketplace.infra.db import Database
from marketplace.orders.pin import delivery_pin
from marketplace.reconciliation.ledger_check import verify_ledger
from sandbox.ports import HOST
from sandbox.process import ProcessFailedError

# Few enough that concurrent orders share products and wallets.
_PRODUCTS = 1_000  # every twentieth product is ordered
_BUYERS = 40
# Average transitions per order: 4, or 3 for every fifth order, which is cancelled.
_PER_LIFE = 3.8
_CANCELS_EVERY = 5
_AT_EACH = 4  # clients per shared order
_ANSWER_SECONDS = 30
_DEADLOCKS = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
_RETRIED = b'"transaction retried"'

Step = tuple[str, dict[str, str], bytes]
"""A POST request: target, headers and body."""


@dataclass
class Result:
    """The result of a run."""

    name: str
    statuses: Counter[int] = field(default_factory=Counter)
    retries: int = 0
    deadlocks: int = 0
    seconds: float = 0.0

    def line(self) -> str:
        """Format the result as a row of a Markdown table."""
        tried, done, refused = self.statuses.total(), self.statuses[200], self.statuses[409]
        others = {status: count for status, count in self.statuses.items() if status not in (200, 409)}
        return (
            f"| {self.name} | {tried:,} | {done:,} | {done / self.seconds:,.0f} | {self.retries} | {self.deadlocks} |"
            f" {refused:,} ({100 * refused / max(tried, 1):.2f} %) | {others or 0} |"
        )


class Lives:
    """A builder of the requests that take orders through their states."""

    def __init__(self, stand: Stand) -> None:
        """Keep the stand, which signs the requests."""
        self._stand = stand

    def of(self, number: int) -> list[Step]:
        """Build the requests of an order: charge, accept, ship and PIN, or charge, accept and cancel.

        :param number: number of the order
        """
        order = row_id("charged", number)
        vendor, buyer = self._bearer("merchant", number % STORES), self._bearer("buyer", number % _BUYERS)
        path = f"/api/orders/{order}"
        began: list[Step] = [
            (f"{INBOX_PATH}?{row_id('event', number)}", {}, b""),
            (f"{path}/accept", vendor, b""),
        ]
        if number % _CANCELS_EVERY == 0:
            return [*began, (f"{path}/cancel", buyer, b"{}")]
        pin = delivery_pin(key=self._stand.pin_key, order_id=UUID(order), counter=0)
        return [
            *began,
            (f"{path}/status", vendor, b'{"status":"shipped"}'),
            (f"{path}/verify-code", vendor, orjson.dumps({"pin": pin})),
        ]

    def _bearer(self, kind: str, number: int) -> dict[str, str]:
        token = self._stand.identity.token(row_id(kind, number))
        return {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}


def _measure(
    name: str, stand: Stand, lives: Sequence[list[Step]], *, clients: int, most_seconds: float
) -> Result:
    """Send the requests of orders concurrently and count the statuses. No order starts after the time limit."""
    result = Result(name)
    deadlocks, retries = _deadlocks(stand), _retries(stand)
    began = time.monotonic()

    def live(steps: list[Step]) -> list[int]:
        return [_post(stand, step) for step in steps] if time.monotonic() - began < most_seconds else []

    with ThreadPoolExecutor(clients) as pool:
        for statuses in pool.map(live, lives):
            result.statuses.update(statuses)
    result.seconds = time.monotonic() - began
    result.deadlocks = _deadlocks(stand) - deadlocks
    result.retries = _retries(stand) - retries
    return result


def _post(stand: Stand, step: Step) -> int:
    target, headers, body = step
    connection = http.client.HTTPConnection(HOST, stand.ports["charging"], timeout=_ANSWER_SECONDS)
    try:
        connection.request("POST", target, body, headers)
        answer = connection.getresponse()
        answer.read()
        return answer.status
    finally:
        connection.close()


def _deadlocks(stand: Stand) -> int:
    connection = psycopg2.connect(stand.database.url, connect_timeout=5)
    try:
        with connection.cursor() as cursor:
            cursor.execute(_DEADLOCKS)
            ((count,),) = cursor.fetchall()
            return int(count)
    finally:
        connection.close()


def _retries(stand: Stand) -> int:
    with stand.log("charging").open("rb") as lines:
        return sum(_RETRIED in line for line in lines)


def _broken(stand: Stand) -> int:
    database = Database(stand.database.url, pool_size=1, application_name="contention")
    try:
        with database.reading() as session:
            return len(verify_ledger(session))
    finally:
        database.close()


@click.command(help=__doc__)
@click.option(
    "--transitions",
    default=10_000,
    show_default=True,
    type=click.IntRange(100, 100_000),
    help="Number of transitions per run.",
)
@click.option(
    "--clients",
    default=8,
    show_default=True,
    type=click.IntRange(2, 64),
    help="Number of concurrent clients, each served by its own process.",
)
@click.option(
    "--seconds",
    default=120.0,
    show_default=True,
    type=click.FloatRange(1, 3_600),
    help="Time limit of a run. No order starts after it.",
)
def main(transitions: int, clients: int, seconds: float) -> None:
    """Measure distinct and shared orders, print the figures, and check the ledger's invariants."""
    directory = Path(tempfile.mkdtemp(prefix="marketplace-contention-"))
    distinct = round(transitions / _PER_LIFE) + 1
    shared = round(transitions / _PER_LIFE / _AT_EACH) + 1
    sizes = Sizes(_PRODUCTS, buyers=_BUYERS, shipped=0, payable=0, charged=distinct + shared)
    try:
        with Stand(directory, tell=lambda line: click.echo(line, err=True)) as stand:
            stand.migrate()
            data.load(stand.database, sizes)
            data.settle(stand.database)
            # The floors serve the identity provider's keys.
            stand.start_floors(floors.describe(statements={}, published_keys=stand.identity.published_keys()))
            stand.start_charging(workers=clients)
            lives = [Lives(stand).of(number) for number in range(distinct + shared)]
            click.echo(
                "| Run | requests | transitions | per second | retries | deadlocks | 409s | other statuses |"
            )
            click.echo("|---|---|---|---|---|---|---|---|")
            for name, work in (
                ("distinct orders", lives[:distinct]),
                (
                    f"shared orders, {_AT_EACH} clients each",
                    [steps for steps in lives[distinct:] for _ in range(_AT_EACH)],
                ),
            ):
                result = _measure(name, stand, work, clients=clients, most_seconds=seconds)
                click.echo(result.line())
            broken = _broken(stand)
            click.echo(f"ledger invariants violated: {broken}")
    except ProcessFailedError as error:
        raise click.ClickException(str(error)) from error
    finally:
        shutil.rmtree(directory)
    if broken:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
