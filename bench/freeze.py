"""The entry point of ``python -m bench.freeze``: how the service answers while PostgreSQL is frozen."""

import hashlib
import hmac
import shutil
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import click
import orjson
import psycopg2

from bench import data, floors
from bench.data import charge_event, row_id
from bench.load import request
from bench.paced_load import Answers, Kind, PacedLoad
from bench.processes import children_ids, frozen
from bench.stand import Stand
from sandbox.process import ProcessFailedError

_FIRST_WEBHOOK = 10_000_000
_PRODUCTS = 1_000
_SECONDS_BEFORE = 3.0
_SECONDS_AFTER = 5.0
# The permitted statuses and the p99 in milliseconds while PostgreSQL is frozen. A request that is due at the last
# moment may succeed.
_PROMISES = {
    "webhook": ({503, 200}, 500),
    "listing": ({200}, 500),
    "detail": ({503, 200}, 500),
    "write": ({503, 200}, 500),
    "gevent": ({503, 200}, 500),
    "live": ({200}, 500),
}


@click.command(
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    help="""Freeze PostgreSQL under load and print how each kind of request is answered.

    The load goes through the proxy to the sync and the gevent workers. SIGSTOP freezes the server and all its
    sessions, as a stuck disk or a stopped virtual machine does. Times are measured from each request's scheduled
    start, and the time until the service notices counts too. The exit status is 1 if a promise is broken: 99 % of the
    answers within 500 ms, cached lists and liveness served, no acknowledged webhook lost, no worker replaced.""",
)
@click.option(
    "--seconds", default=20.0, show_default=True, type=click.FloatRange(2, 120), help="The freeze's duration."
)
def main(*, seconds: float) -> None:
    """Measure."""
    started = time.monotonic()

    def tell(line: str) -> None:
        click.echo(f"[{time.monotonic() - started:5.1f} s] {line}", err=True)

    directory = Path(tempfile.mkdtemp(prefix="marketplace-freeze-"))
    try:
        with Stand(directory, tell=tell) as stand:
            _measure(stand, seconds=seconds, tell=tell)
    except ProcessFailedError as error:
        raise click.ClickException(str(error)) from error
    finally:
        shutil.rmtree(directory)


def _measure(stand: Stand, *, seconds: float, tell: Callable[[str], None]) -> None:
    stand.migrate()
    sizes = data.Sizes.lasting(_PRODUCTS, seconds=0)
    data.load(stand.database, sizes)
    data.settle(stand.database)
    stand.start_floors(floors.describe(statements={}, published_keys=stand.identity.published_keys()))
    stand.start_web()
    stand.start_waiting()
    stand.start_proxy()
    workers = {name: children_ids(stand.process_id(name)) for name in ("web", "waiting")}
    database = stand.database.process
    if database is None or database.process_id is None:
        raise ProcessFailedError("PostgreSQL is not running")
    tell(f"freezing PostgreSQL for {seconds:.0f} s under load")
    with PacedLoad(stand.ports["proxy"], _kinds(stand)) as load:
        began_at = time.monotonic()
        time.sleep(_SECONDS_BEFORE)
        with frozen(database.process_id):
            frozen_at = time.monotonic()
            time.sleep(seconds)
        thawed_at = time.monotonic()
        time.sleep(_SECONDS_AFTER)
        ended_at = time.monotonic()
    periods = {
        "before": (began_at, frozen_at),
        "frozen": (frozen_at, thawed_at),
        "after": (thawed_at, ended_at),
    }
    rows = [
        (kind.name, period, load.between(since, until, kind.name))
        for kind in _kinds(stand)
        for period, (since, until) in periods.items()
    ]
    click.echo(
        f"{'request':<10} {'period':<7} {'number':>6} {'p50 ms':>8} {'p99 ms':>8} {'longest':>8}  statuses"
    )
    for name, period, answers in rows:
        times = "".join(f" {answers.percentile_ms(percent):8.0f}" for percent in (50, 99, 100))
        click.echo(f"{name:<10} {period:<7} {len(answers.samples):6}{times}  {dict(answers.statuses)}")
    acknowledged = [one.number for one in load.samples if one.kind == "webhook" and one.status == 200]
    lost = _count_missing(stand, acknowledged)
    click.echo(f"{len(acknowledged)} webhooks acknowledged, {lost} lost")
    broken = [name for name, period, answers in rows if period == "frozen" and not _is_kept(name, answers)]
    if lost:
        broken.append("no webhook is lost")
    if any(children_ids(stand.process_id(name)) != ids for name, ids in workers.items()):
        broken.append("no worker is replaced")
    if broken:
        raise click.ClickException(f"Broken promises: {', '.join(broken)}.")
    click.echo("All promises are kept.")


def _is_kept(name: str, answers: Answers) -> bool:
    statuses, milliseconds = _PROMISES[name]
    return answers.statuses.keys() <= statuses and answers.percentile_ms(99) <= milliseconds


def _kinds(stand: Stand) -> list[Kind]:
    token = stand.identity.token(row_id("buyer", 0))
    signed_in = {"Authorization": f"Bearer {token}"}

    def webhook(number: int) -> bytes:
        body = charge_event(_FIRST_WEBHOOK + number)
        signature = hmac.digest(stand.gateway_secret.encode(), body, hashlib.sha512).hex()
        headers = {"x-gateway-signature": signature}
        return request("POST", "/api/payments/webhook", body=body, headers=headers)

    verify = orjson.dumps({"reference": data.reference(0)})
    return [
        Kind("webhook", webhook, 20),
        Kind("listing", lambda _number: request("GET", "/api/products"), 40),
        Kind("detail", lambda number: request("GET", f"/api/products/{row_id('product', number % 900)}"), 20),
        Kind("write", lambda _number: request("DELETE", "/api/cart", headers=signed_in), 5),
        Kind(
            "gevent",
            lambda _number: request("POST", "/api/payments/verify", body=verify, headers=signed_in),
            5,
        ),
        Kind("live", lambda _number: request("GET", "/health/live"), 5),
    ]


def _count_missing(stand: Stand, numbers: list[int]) -> int:
    """Count the acknowledged webhooks that are not in the inbox."""
    connecting = closing(psycopg2.connect(stand.database.url, connect_timeout=5))
    with connecting as connection, connection.cursor() as cursor:
        cursor.execute("SELECT convert_from(body, 'UTF8')::jsonb #>> '{data,id}' FROM webhook_inbox")
        stored = {int(charge_id) for (charge_id,) in cursor.fetchall()}
    return sum(data.charge_id(_FIRST_WEBHOOK + number) not in stored for number in numbers)


if __name__ == "__main__":
    main()
