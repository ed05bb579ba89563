"""Payouts: what an operator looks at, and does about them."""

import click

from commands.batches import list_batches, show_batch
from commands.reconcile import reconcile


@click.group(help="Look at batches of payouts, and reconcile the gateway with the books.")
def payouts() -> None:
    """Group the commands."""


payouts.add_command(list_batches)
payouts.add_command(show_batch)
payouts.add_command(reconcile)
