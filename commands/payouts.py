"""Payouts, for the operator: batches and their risks, and reconciliation. Officers decide on batches."""

from datetime import UTC, datetime
from uuid import UUID

import click

from commands.console.database import build_operator_act, build_services, read_session
from commands.console.output import print_facts, print_table, warn_truncated
from marketplace.kernel.money import format_naira
from marketplace.kernel.paging import MAX_LIMIT, PageRequest, TableRequest
from marketplace.kernel.pluralize import format_count
from marketplace.payouts.batches import detail, queries as batch_queries
from marketplace.payouts.batches.detail import RISK_FLAGS, BatchDetail
from marketplace.reconciliation import queries, run
from tasks.dispatcher import Dispatcher, connect_wakeups
from tasks.reconciliation import execute_run

_TIME_TYPE = click.DateTime(["%Y-%m-%d", "%Y-%m-%dT%H:%M:%SZ", "%Y-%m-%dT%H:%M:%S.%fZ"])


@click.group(help="Look at batches of payouts, and reconcile the gateway with the books.")
def payouts() -> None:
    """Group the commands."""


@payouts.command(
    name="list",
    help="""List batches of payouts, the latest first: those that are staged, approved or being sent, or others.

    \b
    Examples:
      marketplace payouts list
      marketplace payouts list --status all""",
)
@click.option(
    "--status",
    type=click.Choice(tuple(batch_queries.FILTERS)),
    default=batch_queries.UNDISBURSED,
    show_default=True,
    help="Only those that are so.",
)
@click.option(
    "--limit", type=click.IntRange(1, MAX_LIMIT), default=50, show_default=True, help="At most so many."
)
def list_batches(status: str, limit: int) -> None:
    """List batches."""
    with read_session() as session:
        page = batch_queries.list_batches(
            session,
            status=status,
            starts=None,
            ends=None,
            page=TableRequest(limit, number=1, sort="created_at", descending=True),
        )
    if not page.items:
        click.echo("No batch matches.", err=True)
        return
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
            for row in page.items
        ],
    )
    if page.total > len(page.items):
        click.echo(f"There are {page.total}; --limit shows up to {MAX_LIMIT} of them.", err=True)


@payouts.command(
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
                payment.store_name or payment.user_id,
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
            ("stagedBy", batch.staged_by_id),
            ("rejectedBy", batch.rejected_by_id),
            ("dispatchedBy", batch.dispatched_by_id),
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
        click.echo(f"Approved by {approval.officer_id} at {approval.created_at:%Y-%m-%d %H:%M:%SZ}{counts}")


@payouts.command(
    help="""Compare what the payment gateway holds with the books, here and now.

    Its movements, charges, transfers, refunds and settlements are read page by page. Settlements to the bank are
    booked. What is on its way is no drift; what else differs is listed with what to do about it, raises ESCROW_DRIFT
    and halts payouts.

    Ends with status 1 where there is drift, and with 2 where the gateway does not answer.

    \b
    Examples:
      marketplace payouts reconcile
      marketplace payouts reconcile --from 2026-03-01 --to 2026-03-31"""
)
@click.option(
    "--from",
    "since",
    type=_TIME_TYPE,
    help="Compare the gateway's lists from then on, in UTC.",
    metavar="TIME",
)
@click.option("--to", "until", type=_TIME_TYPE, help="Up to then; now unless given.", metavar="TIME")
@click.pass_context
def reconcile(ctx: click.Context, since: datetime | None, until: datetime | None) -> None:
    """Reconcile."""
    current = build_services()
    connect_wakeups(Dispatcher(current))
    now = current.clock()
    run_id = current.database.in_transaction(
        run.start_reconciliation,
        started_by=run.OPERATOR,
        act=build_operator_act(now),
        since=_in_utc(since),
        until=_in_utc(until),
    )
    outcome = execute_run(current, run_id, now=now)
    if outcome is None or outcome.status == run.FAILED:
        click.secho(
            f"The payment gateway did not answer as it should: run {run_id} failed.", err=True, fg="red"
        )
        ctx.exit(2)
    print_facts(
        [
            ("Run", run_id),
            ("Status", outcome.status),
            ("Gateway holds", format_naira(outcome.gateway_minor)),
            ("Books say", format_naira(outcome.books_minor)),
            ("On its way", format_naira(outcome.in_flight_minor)),
            ("Drift", format_naira(outcome.drift_minor)),
        ]
    )
    if outcome.exceptions:
        with current.database.reading() as session:
            shown = queries.show_run(session, run_id=run_id).exceptions
        click.echo()
        print_table(
            ("Kind", "Problem", "Kobo", "Reference", "Gateway's id", "Order", "What to do"),
            [
                [
                    row.kind,
                    row.problem,
                    row.difference_minor,
                    row.reference,
                    row.gateway_id,
                    row.order_number,
                    row.suggestion,
                ]
                for row in shown
            ],
            wrapped_columns=("What to do",),
        )
    if outcome.status == run.DRIFT:
        click.secho("\nPayouts are halted: they go on by a proposal of two officers.", err=True, fg="red")
        ctx.exit(1)


def _in_utc(moment: datetime | None) -> datetime | None:
    return moment.replace(tzinfo=UTC) if moment else None
