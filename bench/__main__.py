"""The entry point of ``python -m bench``, which measures the service and prints a table."""

import itertools
import json
import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import click

from bench import cases, chat, community, data, floors, ledger, memory, reads, report
from bench.charges import Charges
from bench.ingest import messages_part
from bench.ledger import BrokenBooksError, Statements
from bench.load import Call, LoadError, put_under_load, request
from bench.parts import WARM_UP_SECONDS, Part, measure
from bench.pgbench import PgbenchError
from bench.processes import children_of
from bench.reads import AnswerError, Reads
from bench.reference import Reference, record, recorded_speed
from bench.slow import slow_part
from bench.stand import Stand
from bench.statements import read_recorded
from bench.writes import Writes
from sandbox.process import ProcessFailedError

_NAMES = (
    *("reference", "listing-cached", "listing-page", "listing-deep", "listing-filtered"),
    *("detail", "search", "suggestions", "memory"),
    *ledger.PARTS,
    *community.PARTS,
    *chat.PARTS,
    *cases.PARTS,
    *("placing", "ingest", "ingest-messages", "charge", "pin", "initialise", "initialise-flat-out"),
    "listing-slow-gateway",
)
_MAX_PAGES = 2_500
_RECORDING_SECONDS = 5.0


@click.command(
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    help="""Measure the speed of the service on this machine, compared with floors.

    A floor is the minimum cost of the same work: bare WSGI functions (bare HTTP), or the same SQL by pgbench.

    The command starts PostgreSQL, Valkey, gunicorn with the application and gunicorn with the floors. All listen on
    the loopback address, and all data is in a temporary directory. Figures and floors are put under load in turns.
    Rate limits (scaled up) and logs (to a file) are on. Stop other programs during the measurement: rounds that they
    disturb are repeated up to five times, then marked.

    \b
    Parts:
      reference         floors only: a bare WSGI constant, and an empty Flask route
      listing-cached    the product listing from the cache; floor: the same bytes by bare HTTP
      listing-page      any page of the listing, uncached; floor: the same SQL and JSON by bare HTTP
      listing-deep      pages around the 500th; floor: the first pages
      listing-filtered  a category and a price range, uncached; floor: the same SQL and JSON by bare HTTP
      detail            a product; floor: one row by bare HTTP
      search            rare, common and misspelled words; floor: one row by bare HTTP
      suggestions       prefixes of words, uncached; floor: one row by bare HTTP
      statement         the first page of GET /api/transactions of a store with 1,000,000 entries; floor: the same
                        SQL by bare HTTP
      statement-kind    the same for a common kind and for a kind that is one in 5,000
      statement-period  the same for a week, anywhere in two years
      me                a member's own profile; 100,000 members with 1,000,000 order lines. Floor of this part and
                        the next five: the same SQL by bare HTTP
      favourites        a member's favourites
      store             a store's profile
      store-reviews     the newest reviews of a store
      hubs              the hubs of a campus with their opening status
      analytics         a year of a store's figures by week
      conversations     a person's conversations; 100,000 conversations with 5,000,000 messages. Floor of this part
                        and the next two: the same SQL by bare HTTP
      messages          the newest messages of a conversation
      feed              a person's newest notifications, of 1,000,000
      inbox             an officer's waiting tickets, of 200,000. Floor of this part and the next four: the same SQL
                        by bare HTTP
      ticket            a ticket for staff
      own-disputes      a person's disputes, of 50,000
      case              a dispute with its timeline, for a party
      case-staff        the same for staff, with the histories of both sides
      memory            a web worker's memory after 10,000 mixed requests
      placing           placing an order; floors: the same SQL by bare HTTP, and by pgbench
      ingest            receiving a webhook; floor: HMAC, INSERT and enqueue by bare HTTP
      ingest-messages   receiving a customer's message
      charge            applying a charge event, which pays an order; floor: the same SQL by bare HTTP
      pin               releasing escrow with the buyer's PIN; floors: the same SQL by bare HTTP, and by pgbench
      initialise        initializing a payment at the sandbox gateway, with pauses of 100 ms; the application's own
                        time without the gateway's
      initialise-flat-out  the same without pauses: throughput and queueing
      listing-slow-gateway  the listing while payments wait 2 s for the gateway; floor: without payments

    \b
    Examples:
      python -m bench                                  all parts, in about four minutes
      python -m bench --part detail --seconds 3        a single part, briefly
      python -m bench --json /tmp/figures.json         keep the figures for comparison""",
)
@click.option(
    "--part",
    "names",
    multiple=True,
    type=click.Choice(_NAMES),
    help="Measure only this part. May be repeated.",
)
@click.option(
    "--products",
    default=50_000,
    show_default=True,
    type=click.IntRange(1_000, 1_000_000),
    help="Number of products in the catalog.",
)
@click.option(
    "--seconds",
    default=6.0,
    show_default=True,
    type=click.FloatRange(0.5, 60),
    help="Seconds of load on each figure and each floor, over all rounds.",
)
@click.option(
    "--rounds",
    default=3,
    show_default=True,
    type=click.IntRange(1, 20),
    help="Number of rounds. Each round puts the figure and each of its floors under load once.",
)
@click.option(
    "--clients",
    default=8,
    show_default=True,
    type=click.IntRange(1, 64),
    help="Number of concurrent requests.",
)
@click.option(
    "--json",
    "json_file",
    type=click.Path(dir_okay=False, writable=True, path_type=Path),
    help="Also write all figures to this file as JSON.",
)
@click.option(
    "--record-reference",
    is_flag=True,
    help="Record this machine's speed in bench/reference.json. Do this when no other program runs.",
)
@click.option("--keep", is_flag=True, help="Keep the directory with data and logs.")
def main(
    *,
    names: Sequence[str],
    products: int,
    seconds: float,
    rounds: int,
    clients: int,
    json_file: Path | None,
    record_reference: bool,
    keep: bool,
) -> None:
    """Measure the requested parts."""
    started = time.monotonic()

    def tell(line: str) -> None:
        click.echo(f"[{time.monotonic() - started:5.1f} s] {line}", err=True)

    directory = Path(tempfile.mkdtemp(prefix="marketplace-bench-"))
    sizes = data.Sizes.lasting(products, seconds=seconds)
    try:
        with Stand(directory, tell=tell) as stand:
            prepared, read = _prepare(
                stand, directory, sizes=sizes, clients=clients, names=names or _NAMES, tell=tell
            )
            machine = report.machine()
            reference = _reference(
                stand, machine["name"], clients=clients, record_it=record_reference, tell=tell
            )
            measured = [
                measure(part, seconds=seconds, rounds=rounds, reference=reference, tell=tell)
                for part in prepared
            ]
            rows = [row for one in measured for row in report.rows_of(one)]
            grown = (
                _memory(stand, read, clients=clients, tell=tell) if "memory" in (names or _NAMES) else None
            )
    except (ProcessFailedError, LoadError, PgbenchError, AnswerError, BrokenBooksError) as error:
        raise click.ClickException(str(error)) from error
    finally:
        if keep:
            click.echo(f"Data and logs are in {directory}.", err=True)
        else:
            shutil.rmtree(directory)
    machine |= {"products": products, "clients": clients, "seconds": seconds}
    click.echo(", ".join(f"{name} {value}" for name, value in machine.items()) + "\n")
    if rows:
        click.echo(report.table(rows))
    if grown:
        click.echo(grown)
    if json_file:
        json_file.write_text(
            json.dumps({"machine": machine, "rows": rows, "memory": grown}, indent=2), encoding="utf-8"
        )


def _prepare(
    stand: Stand,
    directory: Path,
    *,
    sizes: data.Sizes,
    clients: int,
    names: Sequence[str],
    tell: Callable[[str], None],
) -> tuple[list[Part], Reads]:
    """Load the data, record the application's SQL for the floors, and start the measured servers."""
    tell(f"loading {sizes.products} products and {sizes.shipped + sizes.payable} orders")
    stand.migrate()
    data.load(stand.database, sizes)
    _load_large(stand, sizes=sizes, names=names, tell=tell)
    # Search needs the word counts, which operators refresh on schedule.
    stand.run_periodic("refresh-search-terms")
    data.settle(stand.database)
    tell("recording the application's SQL for the floors")
    # The floors server also serves the identity provider's keys. It restarts later with the recorded SQL.
    stand.start_floors(floors.describe(statements={}, published_keys=stand.identity.published_keys()))
    stand.start_web()
    pages = reads.walk_listing(stand, most=_MAX_PAGES)
    writes = Writes(stand, directory=directory, clients=clients, sizes=sizes)
    # The walked pages are in the cache. A cached page would send no SQL.
    stand.empty_cache()
    charges = Charges(stand, clients=clients, sizes=sizes)
    statements = Statements(stand, clients=clients)
    calls = reads.recorded_calls(pages[0], pages[1]) | writes.recorded_calls() | charges.recorded_calls()
    members = community.build_reads(stand, clients=clients)
    talkers = chat.build_reads(stand, clients=clients)
    helpers = cases.build_reads(stand, clients=clients)
    large = [
        builder
        for parts, builder in (
            (ledger.PARTS, statements),
            (community.PARTS, members),
            (chat.PARTS, talkers),
            (cases.PARTS, helpers),
        )
        if any(name in parts for name in names)
    ]
    for builder in large:
        calls |= builder.recorded_calls()
    recorded = read_recorded(stand.record(json.dumps(calls)))
    place, release = writes.place_floor(recorded["place"]), writes.release_floor(recorded["release"])
    described = {
        "page": reads.page_floor(recorded["page"], pages[0]).described(shape="cards"),
        "filtered": reads.filtered_floor(recorded["filtered"]).described(shape="cards"),
        "place": place.described(shape="rows"),
        "release": release.described(shape="rows"),
        "charge": charges.floor(recorded["charge"]).described(shape="rows"),
    }
    for builder in large:
        described |= {name: floor.described(shape="rows") for name, floor in builder.floors(recorded).items()}
    stand.start_floors(floors.describe(statements=described, published_keys=stand.identity.published_keys()))
    if any(name.startswith("initialise") for name in names) or "listing-slow-gateway" in names:
        stand.start_waiting()
    if "charge" in names:
        stand.start_charging()
    read = Reads(stand, clients=clients, products=sizes.products, pages=pages)
    made = [
        *read.parts(),
        *statements.parts(),
        *members.parts(),
        *talkers.parts(),
        *helpers.parts(),
        *writes.parts(place=place, release=release),
        messages_part(stand, clients=clients),
        charges.part(),
        slow_part(stand, listing=read.listing, payments=writes.payments, clients=clients),
    ]
    return [part for part in made if part.name in names], read


def _load_large(
    stand: Stand, *, sizes: data.Sizes, names: Sequence[str], tell: Callable[[str], None]
) -> None:
    """Load the data of the parts that need millions of rows."""
    if any(name in ledger.PARTS for name in names):
        tell(f"loading a statement of {ledger.ENTRIES} entries")
        ledger.load(stand.database.url)
    if any(name in community.PARTS for name in names):
        tell(f"loading {community.MEMBERS} members with {community.ORDERS} orders")
        community.load(stand.database.url, products=sizes.products)
    if any(name in chat.PARTS for name in names):
        tell(f"loading {chat.CONVERSATIONS} conversations with {chat.MESSAGES_EACH} messages each")
        chat.load(stand.database.url)
    if any(name in cases.PARTS for name in names):
        tell(f"loading {cases.TICKETS} tickets and {cases.DISPUTES} disputes")
        cases.load(stand.database.url)


def _reference(
    stand: Stand, machine: str, *, clients: int, record_it: bool, tell: Callable[[str], None]
) -> Reference:
    """Build the measurement of the machine's speed, and record the speed on request."""

    def present(seconds: float) -> float:
        calls = itertools.repeat(Call("", request("GET", "/constant")))
        return put_under_load(stand.ports["floors"], calls, clients=clients, seconds=seconds).per_second

    if record_it:
        present(WARM_UP_SECONDS)
        record(machine, present(_RECORDING_SECONDS))
    recorded = recorded_speed(machine)
    if recorded is None:
        tell("no recorded speed of this machine: durations are not scaled (see --record-reference)")
    return Reference(present, recorded=recorded)


def _memory(stand: Stand, read: Reads, *, clients: int, tell: Callable[[str], None]) -> str:
    workers = children_of(stand.process_id("web"))
    return memory.measure(
        stand, lambda most: read.mixed(most=most), workers=workers, clients=clients, tell=tell
    )


if __name__ == "__main__":
    main()
