"""Commands that check the ledger."""

import click

from commands.console.database import build_services
from commands.console.output import print_table
from marketplace.ledger import queries
from marketplace.platform.halts import are_payouts_halted
from marketplace.reconciliation import ledger_check

_PAYOUTS_HALTED = "Payouts are halted until two officers resume them."
_PAYOUTS_RUNNING = "Payouts continue, because two officers reviewed these findings and resumed payouts."


@click.group(help="Check the invariants of the ledger.")
def ledger() -> None:
    """Group the commands."""


@ledger.command(
    help="""Check every invariant of the ledger.

    Among others, debits must equal credits, stored balances must equal the sum of their entries, escrow must equal
    the records of its orders, and every charge and refund must be posted.

    A broken invariant raises the alert ESCROW_DRIFT and halts payouts until two officers resume them. The alert
    resolves with the next check that finds the invariant intact.

    Exits with status 1 if an invariant is broken, and prints the rows that break it. The ledger is not changed.

    \b
    Example:
      marketplace ledger verify && echo "the ledger is consistent\""""
)
@click.pass_context
def verify(ctx: click.Context) -> None:
    """Verify the ledger."""
    current = build_services()
    violations = ledger_check.check_ledger(current.database, now=current.clock())
    with current.database.reading() as session:
        balances = queries.fetch_balances_by_kind(session)
        payouts = _PAYOUTS_HALTED if are_payouts_halted(session) else _PAYOUTS_RUNNING
    for violation in violations:
        click.echo(f"\nBroken invariant: {violation.rule} ({len(violation.rows)} rows shown)")
        print_table(list(violation.rows[0]), [list(row.values()) for row in violation.rows])
    if violations:
        click.secho(
            f"\nThe ledger is inconsistent (broken invariants: {len(violations)}). Inform finance. {payouts}",
            err=True,
            fg="red",
        )
        ctx.exit(1)
    print_table(("Account", "Balance (kobo)"), balances.items())
    click.echo("The ledger is consistent.")
