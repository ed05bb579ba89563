"""Command ``python -m bench.search_quality``: run the labelled queries and print recall and ranks."""

import base64
import secrets
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import click
from sqlalchemy import text

from bench.search_quality.labels import LABELS
from bench.search_quality.measuring import DEPTH, Outcome, evaluate, mean
from commands.db import upgrade_database
from commands.seeding import people, products
from commands.seeding.categories import load_categories
from marketplace.catalog.browse.listing import ProductFilters
from marketplace.catalog.search import find as search_find, index_maintenance
from marketplace.infra.db import Database
from marketplace.infra.encryption import make_keyring, use_keyring
from marketplace.kernel.paging import PageRequest
from sandbox.ports import reserve_ports
from sandbox.servers import EmbeddedPostgres

TARGET_RECALL = 0.95
_FIRST_PORT = 18_700
_SHOWN_TITLES = 3


@click.command(
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    help=f"""Measure the search quality over the seeded catalogue.

    The command starts PostgreSQL with data in a temporary directory. Recall at {DEPTH} is the share of relevant
    listings among the first {DEPTH} results, relative to the maximum possible. The reciprocal rank is 1 divided by
    the rank of the first relevant listing. The exit status is 1 if the mean recall is below {TARGET_RECALL}.

    \b
    Examples:
      python -m bench.search_quality                     the demo's catalogue
      python -m bench.search_quality --products 50000    the catalogue of load tests""",
)
@click.option(
    "--products",
    "count",
    default=products.DEMO_PRODUCTS,
    show_default=True,
    type=click.IntRange(products.DEMO_PRODUCTS, products.MAX_PRODUCTS),
    help="Rows in the catalogue.",
)
@click.option("--all", "show_all", is_flag=True, help="Show all queries, also those with full recall.")
def main(*, count: int, show_all: bool) -> None:
    """Run the labelled queries and print the measures."""
    with _database() as database:
        now = datetime.now(UTC)
        keys = {number: f"products/{number}.webp" for number in products.picture_numbers()}
        with database.transaction() as session:
            load_categories(session)
            people.load_people(session, vendors=products.count_required_stores(count), now=now)
            products.load_products(session, count=count, keys=keys, now=now, progress=lambda _rows: None)
            index_maintenance.refresh_search_index(session, now=now)
        with database.reading() as session:
            session.execute(text("VACUUM ANALYZE"))
            titles = list(session.scalars(text("SELECT title FROM products WHERE status = 'published'")))

            def find(query: str) -> Sequence[str]:
                page = search_find.search_catalog(
                    session,
                    query=query,
                    filters=ProductFilters(),
                    page=PageRequest(DEPTH),
                    now=now,
                    media_base_url="",
                )
                return [card.title for card in page.items]

            outcomes = evaluate(LABELS, catalogue=titles, search=find)
    _report(outcomes, show_all=show_all)
    sys.exit(mean([outcome.recall for outcome in outcomes]) < TARGET_RECALL)


@contextmanager
def _database() -> Iterator[Database]:
    with tempfile.TemporaryDirectory(prefix="marketplace-search-quality-") as name:
        directory = Path(name)
        # Root starts PostgreSQL as another user, which needs to traverse the directory.
        directory.chmod(0o711)
        reservation = reserve_ports(("database",), first=_FIRST_PORT, remembered={})
        port = reservation.ports["database"]
        reservation.close()
        server = EmbeddedPostgres(
            directory / "postgresql", port, password=secrets.token_hex(16), durable=False
        )
        server.start()
        try:
            upgrade_database(server.url)
            # The seed stores bank accounts, whose numbers are encrypted.
            key, index_key = (base64.b64encode(secrets.token_bytes(32)).decode() for _ in range(2))
            use_keyring(make_keyring(f"bench:{key}", index_key))
            database = Database(server.url, pool_size=2, application_name="search quality")
            yield database
            database.close()
        finally:
            server.stop()


def _report(outcomes: Sequence[Outcome], *, show_all: bool) -> None:
    shown = [outcome for outcome in outcomes if show_all or outcome.recall < 1]
    if shown:
        click.echo(f"{'query':30} {'kind':17} {'recall':>6} {'1/rank':>6}  first results")
    for outcome in shown:
        first = "; ".join(outcome.titles[:_SHOWN_TITLES]) or "nothing"
        click.echo(
            f"{outcome.label.query:30} {outcome.label.kind:17} {outcome.recall:6.2f}"
            f" {outcome.reciprocal_rank:6.2f}  {first}"
        )
    click.echo(f"\n{'kind':17} {'queries':>7} {f'recall@{DEPTH}':>9} {'MRR':>6}")
    kinds = dict.fromkeys(outcome.label.kind for outcome in outcomes)
    for kind in (*kinds, "all"):
        some = [outcome for outcome in outcomes if kind in ("all", outcome.label.kind)]
        recall = mean([outcome.recall for outcome in some])
        rank = mean([outcome.reciprocal_rank for outcome in some])
        click.echo(f"{kind:17} {len(some):7} {recall:9.3f} {rank:6.3f}")


if __name__ == "__main__":
    main()
