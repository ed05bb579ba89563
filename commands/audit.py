"""Commands for the audit trail."""

import click

from commands.console.database import read_session
from commands.console.failures import CommandFailedError
from marketplace.audit.queries import find_first_broken_link


@click.group(help="Verify the audit trail.")
def audit() -> None:
    """Group the commands."""


@audit.command(
    help="""Verify the chain of hashes of the whole audit trail.

    Exits with status 1 if the chain is broken, and names the first row that was changed or follows a deleted row.

    \b
    Example:
      marketplace audit verify"""
)
def verify() -> None:
    """Verify the audit trail."""
    with read_session() as session:
        broken = find_first_broken_link(session)
    if broken is not None:
        raise CommandFailedError(
            f"The audit trail is broken at row {broken} of audit_logs."
            " That row was changed, or a row before it was deleted."
        )
    click.echo("The audit trail is intact.")
