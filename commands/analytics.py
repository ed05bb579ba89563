"""Commands of the figures of stores."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

import click

from commands.console.database import build_services
from marketplace.analytics import roll_up
from marketplace.kernel.opening_hours import LAGOS

_DEFAULT_DAYS = 366


@click.group(help="Rebuild the figures of stores.")
def analytics() -> None:
    """Group the commands."""


@analytics.command(
    help="""Recompute the figures of stores by day from orders, refunds and counters.

    The command commits in batches, so it can be interrupted and repeated. The periodic task roll-up-analytics may run
    at the same time. Views older than 90 days stay as they are, because their counters were deleted.

    \b
    Examples:
      marketplace analytics rebuild                                     all stores, the last year
      marketplace analytics rebuild --from 2026-09-01 --to 2026-09-30   all stores, a month
      marketplace analytics rebuild --vendor 01958b3c-7a10-7c3e-9d52-4f6a8b0c1d2e"""
)
@click.option("--vendor", "vendor_id", type=click.UUID, help="Only this store, by id.")
@click.option(
    "--from", "first_day", type=click.DateTime(["%Y-%m-%d"]), help="First day; a year ago by default."
)
@click.option("--to", "last_day", type=click.DateTime(["%Y-%m-%d"]), help="Last day; today by default.")
def rebuild(*, vendor_id: UUID | None, first_day: datetime | None, last_day: datetime | None) -> None:
    """Rebuild the figures."""
    services = build_services()
    today = datetime.now(UTC).astimezone(LAGOS).date()
    ends = last_day.date() if last_day else today
    starts = first_day.date() if first_day else ends - timedelta(days=_DEFAULT_DAYS - 1)
    if starts > ends:
        raise click.UsageError("--from must not be after --to.")
    done = 0

    def show(days: int) -> None:
        nonlocal done
        done += days
        click.echo(f"Recomputed days of stores: {done}", err=True)

    total = roll_up.rebuild(
        services.database, vendor_id=vendor_id, first_day=starts, last_day=ends, progress=show
    )
    click.echo(f"Rebuilt {total} days of stores from {starts} to {ends}.")
