"""Reconciliation at the command line: performed here and now, its result printed."""

from datetime import UTC, datetime
from uuid import UUID

import click

from commands.console.database import build_services
from commands.console.operators import build_operator_act
from commands.console.output import print_facts, print_table
from marketplace.kernel.money import format_naira
from marketplace.reconciliation import queries, run
from marketplace.services import Services
from tasks.dispatcher import Dispatcher, connect_wakeups
from tasks.reconciliation import execute_run

_TIME_TYPE = click.DateTime(["%Y-%m-%d", "%Y-%m-%dT%H:%M:%SZ", "%Y-%m-%dT%H:%M:%S.%fZ"])


@click.command(
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
        _print_differences(current, run_id)
    if outcome.status == run.DRIFT:
        click.secho("\nPayouts are halted: they go on by a proposal of two officers.", err=True, fg="red")
        ctx.exit(1)


def _print_differences(current: Services, run_id: UUID) -> None:
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


def _in_utc(moment: datetime | None) -> datetime | None:
    return moment.replace(tzinfo=UTC) if moment else None
