"""Payouts: what an operator does about them."""

import click

from commands.reconciling import reconcile


@click.group(help="Reconcile the gateway with the books.")
def payouts() -> None:
    """This function will group the commands."""


payouts.add_command(reconcile)
