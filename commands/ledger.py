"""Checks of the books."""

import click

from commands.database import reading
from commands.output import table
from marketplace.ledger import queries
from marketplace.payments import books


@click.group(help="Check that the books are whole.")
def ledger() -> None:
    """This function will group the commands."""


@ledger.command(
    help="""Check every rule of the books: debits equal credits, kept balances equal their entries, escrow
    equals what its records hold, every charge and refund is accounted for, and the like. What is broken is
    logged too, as ESCROW_DRIFT.

    Ends with status 1 and names the rows where a rule does not hold; nothing is changed.

    \b
    Example:
      marketplace ledger verify && echo "the books are whole\""""
)
@click.pass_context
def verify(ctx: click.Context) -> None:
    """This function will verify the ledger."""
    with reading() as session:
        violations = books.check(session)
        balances = queries.balances_by_kind(session)
    for violation in violations:
        click.echo(f"\nBroken: {violation.rule} ({len(violation.rows)} rows shown)")
        table(list(violation.rows[0]), [list(row.values()) for row in violation.rows])
    if violations:
        click.secho(
            f"\nThe books are not whole: {len(violations)} rules are broken. Stop payouts and tell finance.",
            err=True,
            fg="red",
        )
        ctx.exit(1)
    table(("Account", "Balance (kobo)"), balances.items())
    click.echo("The books are whole.")
