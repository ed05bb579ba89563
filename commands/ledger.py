"""Checks of the books."""

import click

from commands.console.database import build_services
from commands.console.output import print_table
from marketplace.ledger import queries
from marketplace.platform.halts import are_payouts_halted
from marketplace.reconciliation import ledger_check


@click.group(help="Check that the books are whole.")
def ledger() -> None:
    """Group the commands."""


@ledger.command(
    help="""Check every rule of the books: debits equal credits, kept balances equal their entries, escrow
    equals what its records hold, every charge and refund is accounted for, and the like. What is broken
    raises the alert ESCROW_DRIFT, which the next check resolves that finds the rule to hold, and halts
    payouts until two officers resume them.

    Ends with status 1 and names the rows where a rule does not hold; the books are not changed.

    \b
    Example:
      marketplace ledger verify && echo "the books are whole\""""
)
@click.pass_context
def verify(ctx: click.Context) -> None:
    """Verify the ledger."""
    current = build_services()
    violations = ledger_check.check_ledger(current.database, now=current.clock())
    with current.database.reading() as session:
        balances = queries.fetch_balances_by_kind(session)
        payouts = "stand still" if are_payouts_halted(session) else "go on, as two officers decided"
    for violation in violations:
        click.echo(f"\nBroken: {violation.rule} ({len(violation.rows)} rows shown)")
        print_table(list(violation.rows[0]), [list(row.values()) for row in violation.rows])
    if violations:
        click.secho(
            f"\nThe books are not whole: {len(violations)} rules are broken. Tell finance. Payouts {payouts}.",
            err=True,
            fg="red",
        )
        ctx.exit(1)
    print_table(("Account", "Balance (kobo)"), balances.items())
    click.echo("The books are whole.")
