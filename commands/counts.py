"""Commands for the daily counts of the service."""

from datetime import UTC, datetime, timedelta

import click

from commands.console.database import read_session
from commands.console.output import print_table
from marketplace.health.signal_counts import list_daily_counts
from marketplace.kernel.signals import CSP_VIOLATION, DEPRECATED_CALL

_KINDS = {"csp": CSP_VIOLATION, "deprecated": DEPRECATED_CALL}


@click.command(
    help="""List the daily counts of a kind, the latest day first.

    csp lists violations of the content security policy that browsers report: the directive and the blocked origin.
    deprecated lists calls of deprecated routes: the route and the client's name and version.

    \b
    Examples:
      marketplace counts csp
      marketplace counts deprecated --days 90"""
)
@click.argument("kind", type=click.Choice(list(_KINDS)))
@click.option(
    "--days", type=click.IntRange(1, 365), default=30, show_default=True, help="The number of days."
)
def counts(kind: str, days: int) -> None:
    """Print the counts."""
    since = (datetime.now(UTC) - timedelta(days=days - 1)).date()
    with read_session() as session:
        rows = list_daily_counts(session, kind=_KINDS[kind], since=since)
    if not rows:
        click.echo(f"No counts of {kind} in the last {days} days (UTC).")
        return
    print_table(("Day", "Count", "Label"), [(row.day.isoformat(), str(row.count), row.label) for row in rows])
