"""Commands for payouts: batches, risk flags and reconciliation. Officers decide on batches in the API."""

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


@click.group(help="Inspect payout batches, and reconcile the payment gateway with the ledger.")
def payouts() -> None:
    """Group the commands."""


@payouts.command(
    name="list",
    help="""List payout batches, latest first. The default is batches that are staged, approved or being sent.

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
    help="Only batches with this status.",
)
@click.option(
    "--limit",
    type=click.IntRange(1, MAX_LIMIT),
    default=50,
    show_default=True,
    help="Maximum number of batches.",
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
        click.echo(f"{page.total:,} batches match. Use --limit to show up to {MAX_LIMIT}.", err=True)


@payouts.command(
    name="show",
    help="""Show a batch: approvals, risk flags, changes since staging, and payments.

    Payments with the most risk flags come first, then the largest. Account numbers show only the last four digits.

    \b
    Examples:
      marketplace payouts show 01998c2a-7d1e-7c3f-9a43-0e7d1c5b2f10
      marketplace payouts show 01998c2a-7d1e-7c3f-9a43-0e7d1c5b2f10 --risk any""",
)
@click.argument("batch_id", metavar="ID", type=click.UUID)
@click.option(
    "--risk", type=click.Choice((detail.ANY_RISK, *RISK_FLAGS)), help="Only payments with this risk flag."
)
@click.option(
    "--limit",
    type=click.IntRange(1, MAX_LIMIT),
    default=20,
    show_default=True,
    help="Maximum number of payments.",
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
        click.echo("\nPayouts are halted. Nothing is sent until two officers resume them.")
    for flag in batch.risks:
        click.echo(
            f"\n{flag.name}: {format_count(flag.payments, 'payment')}, {format_naira(flag.amount_minor)}."
            f" {flag.meaning}"
        )
    if batch.changes:
        click.echo("\nChanged since staging:")
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
        counts = "" if approval.counts else " (no longer counts, because the batch has changed)"
        click.echo(f"Approved by {approval.officer_id} at {approval.created_at:%Y-%m-%d %H:%M:%SZ}{counts}")


@payouts.command(
    help="""Reconcile the payment gateway with the ledger, in this process.

    Reads the gateway's balance, movements, charges, transfers, refunds and settlements. Settlements to the bank are
    posted to the ledger. Amounts in transit are not drift. Any other difference is listed with a suggested action,
    raises the alert ESCROW_DRIFT and halts payouts.

    Exits with status 1 if there is drift, and with status 2 if the gateway does not answer.

    \b
    Examples:
      marketplace payouts reconcile
      marketplace payouts reconcile --from 2026-03-01 --to 2026-03-31"""
)
@click.option(
    "--from",
    "since",
    type=_TIME_TYPE,
    help="Start of the period to compare, in UTC.",
    metavar="TIME",
)
@click.option(
    "--to",
    "until",
    type=_TIME_TYPE,
    help="End of the period to compare, in UTC. The default is now.",
    metavar="TIME",
)
@click.pass_context
def reconcile(ctx: click.Context, since: datetime | None, until: datetime | None) -> None:
    """Reconcile the gateway with the ledger."""
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
            f"Run {run_id} failed, because the gateway did not answer correctly. Check the gateway and try again.",
            err=True,
            fg="red",
        )
        ctx.exit(2)
    print_facts(
        [
            ("Run", run_id),
            ("Status", outcome.status),
            ("Gateway balance", format_naira(outcome.gateway_minor)),
            ("Ledger balance", format_naira(outcome.books_minor)),
            ("In transit", format_naira(outcome.in_flight_minor)),
            ("Drift", format_naira(outcome.drift_minor)),
        ]
    )
    if outcome.exceptions:
        with current.database.reading() as session:
            shown = queries.show_run(session, run_id=run_id).exceptions
        click.echo()
        print_table(
            ("Kind", "Problem", "Kobo", "Reference", "Gateway id", "Order", "Suggested action"),
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
            wrapped_columns=("Suggested action",),
        )
    if outcome.status == run.DRIFT:
        click.secho(
            "\nPayouts are halted. Resolve the differences, then have two officers resume payouts.",
            err=True,
            fg="red",
        )
        ctx.exit(1)


def _in_utc(moment: datetime | None) -> datetime | None:
    return moment.replace(tzinfo=UTC) if moment else None
