"""Checks of the audit trail."""

import click

from commands.console.database import read_session
from commands.console.failures import CommandFailedError
from marketplace.audit.queries import find_first_broken_link


@click.group(help="Check that the audit trail is as it was written.")
def audit() -> None:
    """Group the commands."""


@audit.command(
    help="""Walk the audit trail's chain of hashes from its start.

    Ends with status 1 and names the first row that was changed, or that follows one that is missing.

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
            f"The audit trail is broken at row {broken} of audit_logs: it was changed, or a row before it is gone."
        )
    click.echo("The audit trail is whole.")
