"""Batches of payouts, for the operator: which there are, and what is risky in one; officers decide on them."""

from typing import Any
from uuid import UUID

import click

from commands.console.database import build_services, read_session
from commands.console.output import print_facts, print_table, warn_truncated
from marketplace.kernel.money import format_naira
from marketplace.kernel.paging import MAX_LIMIT, PageRequest, TableRequest
from marketplace.kernel.pluralize import format_count
from marketplace.payouts.batches import detail, queries
from marketplace.payouts.batches.risk_flags import RISK_FLAGS


@click.command(
    name="list",
    help="""List batches of payouts, the latest first: those that are staged, approved or being sent, or others.

    \b
    Examples:
      marketplace payouts list
      marketplace payouts list --status all""",
)
@click.option(
    "--status",
    type=click.Choice(tuple(queries.FILTERS)),
    default=queries.UNDISBURSED,
    show_default=True,
    help="Only those that are so.",
)
@click.option(
    "--limit", type=click.IntRange(1, MAX_LIMIT), default=50, show_default=True, help="At most so many."
)
def list_batches(status: str, limit: int) -> None:
    """List batches."""
    request = TableRequest(1, limit, "createdAt", descending=True)
    with read_session() as session:
        page = queries.list_batches(session, status=status, starts=None, ends=None, page=request)
    if not page.items:
        click.echo("No batch matches.", err=True)
        return
    columns = ("id", "status", "payments", "amountMinor", "paid", "failed", "stalled", "createdAt")
    print_table(
        ("ID", "Status", "Payments", "Kobo", "Paid", "Failed", "Stalled", "Staged"),
        [[row[name] for name in columns] for row in page.items],
    )
    if page.total > len(page.items):
        click.echo(f"There are {page.total}; --limit shows up to {MAX_LIMIT} of them.", err=True)


@click.command(
    name="show",
    help="""Show the batch ID: who approved what of it, what is risky, what changed, and its payments.

    Those with the most risks come first, then the largest. Account numbers show their last four digits.

    \b
    Examples:
      marketplace payouts show 01998c2a-7d1e-7c3f-9a43-0e7d1c5b2f10
      marketplace payouts show 01998c2a-7d1e-7c3f-9a43-0e7d1c5b2f10 --risk any""",
)
@click.argument("batch_id", metavar="ID", type=click.UUID)
@click.option("--risk", type=click.Choice((detail.ANY_RISK, *RISK_FLAGS)), help="Only payments with it.")
@click.option(
    "--limit", type=click.IntRange(1, MAX_LIMIT), default=20, show_default=True, help="So many payments."
)
def show_batch(batch_id: UUID, risk: str | None, limit: int) -> None:
    """Show a batch."""
    services = build_services()
    with services.database.reading() as session:
        page = detail.show_batch_detail(
            session, batch_id=batch_id, risk=risk, page=PageRequest(limit), now=services.clock()
        )
    batch = page.data or {}
    _print_batch_facts(batch)
    if batch["halted"]:
        click.echo("\nPayouts are halted: nothing is sent until two officers resume them.")
    for flag in batch["risks"]:
        click.echo(
            f"\n{flag['risk']}: {format_count(flag['payments'], 'payment')}, {format_naira(flag['amountMinor'])}."
            f" {flag['meaning']}"
        )
    if batch["changes"]:
        click.echo("\nNot as it was staged:")
        print_table(
            ("Payment", "Change", "Kobo", "At"),
            [
                [change["intentId"], change["change"], change["amountMinor"], change["at"]]
                for change in batch["changes"]
            ],
        )
    click.echo()
    print_table(
        ("Payment", "Payee", "Kobo", "Status", "Account", "Risks"),
        [
            [
                payment["id"],
                payment["payee"]["storeName"] or payment["payee"]["userId"],
                payment["amountMinor"],
                payment["status"],
                f"{payment['account']['bankCode']} {payment['account']['accountNumber']}",
                ", ".join(payment["risks"]),
            ]
            for payment in page.items
        ],
        wrapped_columns=("Payee", "Risks"),
    )
    if page.next_position is not None:
        warn_truncated(MAX_LIMIT)


def _print_batch_facts(batch: dict[str, Any]) -> None:
    left_out = {"approvals", "risks", "changes", "statuses", "intents", "currency", "halted"}
    print_facts(
        (name, value["id"] if isinstance(value, dict) else value)
        for name, value in batch.items()
        if name not in left_out
    )
    for approval in batch["approvals"]:
        counts = "" if approval["counts"] else ", of what it was then"
        click.echo(
            f"Approved by {approval['officer']['id']} at {approval['createdAt']:%Y-%m-%d %H:%M:%SZ}{counts}"
        )
