"""Batches of payouts, for the operator: which there are, and what is risky in one; officers decide on them."""

from uuid import UUID

import click

from commands.console.database import build_services, read_session
from commands.console.output import print_facts, print_table, warn_truncated
from marketplace.kernel.money import format_naira
from marketplace.kernel.paging import MAX_LIMIT, PageRequest, TableRequest
from marketplace.kernel.pluralize import format_count
from marketplace.payouts.batches import detail, queries
from marketplace.payouts.batches.detail import RISK_FLAGS, BatchDetail
from marketplace.payouts.batches.queries import BatchRow


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
    request = TableRequest(limit, number=1, sort="createdAt", descending=True)
    with read_session() as session:
        page = queries.list_batches(session, status=status, starts=None, ends=None, page=request)
    if not page.items:
        click.echo("No batch matches.", err=True)
        return
    rows: list[BatchRow] = page.items
    print_table(
        ("ID", "Status", "Payments", "Kobo", "Paid", "Failed", "Stalled", "Staged"),
        [
            [
                row.id,
                row.status,
                row.payments,
                row.amount_minor,
                row.paid,
                row.failed,
                row.stalled,
                row.created_at,
            ]
            for row in rows
        ],
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
    batch: BatchDetail = page.data
    _print_batch_facts(batch)
    if batch.halted:
        click.echo("\nPayouts are halted: nothing is sent until two officers resume them.")
    for flag in batch.risks:
        click.echo(
            f"\n{flag.name}: {format_count(flag.payments, 'payment')}, {format_naira(flag.amount_minor)}."
            f" {flag.meaning}"
        )
    if batch.changes:
        click.echo("\nNot as it was staged:")
        print_table(
            ("Payment", "Change", "Kobo", "At"),
            [
                [payment.id, payment.change, payment.amount_minor, payment.changed_at]
                for payment in batch.changes
            ],
        )
    click.echo()
    print_table(
        ("Payment", "Payee", "Kobo", "Status", "Account", "Risks"),
        [
            [
                payment.id,
                payment.payee_view["store_name"] or payment.user_id,
                payment.amount_minor,
                payment.status,
                f"{account.bank_code} {account.masked_number}",
                ", ".join(payment.risks),
            ]
            for payment in batch.intents
            if (account := payment.account) is not None
        ],
        wrapped_columns=("Payee", "Risks"),
    )
    if page.next_position is not None:
        warn_truncated(MAX_LIMIT)


def _print_batch_facts(batch: BatchDetail) -> None:
    officers = {
        name: officer and officer["id"]
        for name, officer in (
            ("stagedBy", batch.staged_by),
            ("rejectedBy", batch.rejected_by),
            ("dispatchedBy", batch.dispatched_by),
        )
    }
    print_facts(
        [
            ("id", batch.id),
            ("status", batch.status),
            ("approvedAt", batch.approved_at),
            ("rejectedAt", batch.rejected_at),
            ("rejectionReason", batch.rejection_reason),
            ("dispatchedAt", batch.dispatched_at),
            ("finishedAt", batch.finished_at),
            ("revision", batch.revision),
            ("createdAt", batch.created_at),
            ("updatedAt", batch.updated_at),
            ("payments", batch.payments),
            ("amountMinor", batch.amount_minor),
            ("paid", batch.paid),
            ("failed", batch.failed),
            ("stalled", batch.stalled),
            *officers.items(),
            ("contentHash", batch.content_hash),
            ("stagedHash", batch.staged_hash),
            ("approvedHash", batch.approved_hash),
            ("changedSinceStaging", batch.changed_since_staging),
            ("changedSinceApproval", batch.changed_since_approval),
            ("approvalsMissing", batch.approvals_missing),
        ]
    )
    for approval in batch.approvals:
        counts = "" if approval.counts else ", of what it was then"
        click.echo(
            f"Approved by {approval.officer['id']} at {approval.created_at:%Y-%m-%d %H:%M:%SZ}{counts}"
        )
