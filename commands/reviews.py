"""Commands that check the ratings of stores."""

import click

from commands.console.database import build_services
from commands.console.output import print_table
from marketplace.reviews import verification


@click.group(help="Verify and repair the ratings of stores.")
def reviews() -> None:
    """Group the commands."""


@reviews.command(
    help="""Compare the rating of each store with the store's reviews, and the products' ratings with the store's.

    A rating that changed a moment ago is listed until its products have the new rating.

    Exits with status 1 if a rating differs and is not repaired. A nightly task repairs differences too.

    \b
    Examples:
      marketplace reviews verify            list differences
      marketplace reviews verify --repair   count the reviews again"""
)
@click.option("--repair", is_flag=True, help="Repair the listed ratings.")
@click.pass_context
def verify(ctx: click.Context, *, repair: bool) -> None:
    """Verify the ratings."""
    database = build_services().database
    with database.transaction() as session:
        differences = verification.find_differences(session)
    if not differences:
        click.echo("All ratings equal the reviews.")
        return
    print_table(
        ("Store", "Stored, 1 to 5 stars", "Counted", "Products that differ"),
        [
            (one.vendor_id, _join(one.stored_counts), _join(one.counted_counts), one.products)
            for one in differences
        ],
    )
    if not repair:
        ctx.exit(1)
    click.echo(f"Repaired stores: {verification.repair_ratings(database)}")


def _join(counts: list[int]) -> str:
    return " ".join(map(str, counts))
