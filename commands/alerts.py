"""Commands for alerts: list, explain and resolve."""

from operator import attrgetter
from typing import Any
from uuid import UUID

import click
import orjson

from commands.console.database import build_operator_act, build_services, read_session
from commands.console.environment import get_settings
from commands.console.failures import explaining_missing
from commands.console.output import display_value, print_facts, print_table, warn_truncated
from marketplace.alerts import kinds, operations, queries
from marketplace.infra.outbox import OutboxEvent
from marketplace.kernel.paging import MAX_LIMIT, PageRequest
from marketplace.kernel.pluralize import format_count
from marketplace.providers.messaging.alert_channels import email_channel_name
from tasks.dispatcher import Dispatcher, connect_wakeups

_LIST_ALL = "alerts list --state all"
_LISTED_FIELDS = attrgetter(
    "id", "severity", "identifier", "subject", "occurrences", "raised_at", "last_raised_at", "state"
)
_SHOWN_FIELDS = (
    "id", "identifier", "severity", "subject", "title", "facts", "latest_facts", "occurrences", "state", "raised_at",
    "last_raised_at", "resolved_at", "resolution", "resolved_by", "note",
)  # fmt: skip


@click.group(help="List, explain and resolve alerts.")
def alerts() -> None:
    """Group the commands."""


@alerts.command(
    name="list",
    help="""List alerts, latest first. The default is open alerts.

    \b
    Examples:
      marketplace alerts list
      marketplace alerts list --severity SEV-1
      marketplace alerts list --state all --identifier ESCROW_DRIFT""",
)
@click.option(
    "--state",
    type=click.Choice((*queries.STATES, queries.ALL)),
    default=queries.OPEN,
    show_default=True,
    help="Only alerts in this state.",
)
@click.option("--severity", type=click.Choice(kinds.SEVERITIES), help="Only alerts of this severity.")
@click.option(
    "--identifier",
    type=click.Choice(tuple(kinds.ALERT_KINDS)),
    metavar="IDENTIFIER",
    help="Only alerts of this kind.",
)
@click.option(
    "--limit",
    type=click.IntRange(1, MAX_LIMIT),
    default=50,
    show_default=True,
    help="Maximum number of alerts.",
)
def list_alerts(state: str, severity: str | None, identifier: str | None, limit: int) -> None:
    """List alerts."""
    with read_session() as session:
        page = queries.list_alerts(
            session, page=PageRequest(limit), state=state, severity=severity, identifier=identifier
        )
    if not page.items:
        click.echo("No alert matches.", err=True)
        return
    print_table(
        ("ID", "Severity", "Identifier", "About", "Times", "Raised", "Last raised", "State"),
        [_LISTED_FIELDS(alert) for alert in page.items],
        wrapped_columns=("About",),
    )
    if page.next_position is not None:
        warn_truncated(MAX_LIMIT)


@alerts.command(
    help="""Show an alert: meaning, first step, facts, and sent and unsent messages.

    \b
    Example:
      marketplace alerts show 01998c2a-7d1e-7c3f-9a43-0e7d1c5b2f10"""
)
@click.argument("alert_id", metavar="ID", type=click.UUID)
def show(alert_id: UUID) -> None:
    """Show an alert."""
    with read_session() as session, explaining_missing(f"alert {alert_id}", list_command=_LIST_ALL):
        alert = queries.fetch_alert(session, alert_id=alert_id)
        deliveries = queries.list_deliveries(session, alert_id=alert_id)
        waiting = queries.list_unsent_messages(session, alert_id=alert_id)
    print_facts((name.replace("_", " "), _display_fact(getattr(alert, name))) for name in _SHOWN_FIELDS)
    click.echo(f"\nMeaning: {alert.meaning}\nFirst step: {alert.first_step}\n")
    names = {email_channel_name(address): f"email to {address}" for address in get_settings().alert_email_to}
    sent = [message for message in deliveries if message.sent_at is not None]
    for message in sent:
        name = names.get(message.channel, message.channel)
        click.echo(f"{name}: {message.event}, sent at {display_value(message.sent_at)}")
    for event in waiting:
        click.echo(f"{event.payload['channel']}: {event.payload['event']}, {_describe_unsent(event)}")
    if not sent:
        click.echo("No message has been sent yet. ALERT_CHAT_URL and ALERT_EMAIL_TO set the recipients.")


def _describe_unsent(message: OutboxEvent) -> str:
    """Describe the state of an unsent message. Only the name of the last error is stored."""
    attempts = format_count(message.attempts, "attempt")
    if message.failed_at is not None:
        return (
            f"gave up at {display_value(message.failed_at)} after {attempts}, last error {message.last_error}"
        )
    if message.last_error is None:
        return "not sent yet"
    return (
        f"not sent to all recipients yet: {attempts}, last error {message.last_error},"
        f" next attempt at {display_value(message.due_at)}"
    )


@alerts.command(
    help="""Resolve an alert after you have dealt with it. If the cause returns, a new alert is raised.

    The resolution is audited, and the note is stored as written. Do not put names, numbers or secrets into it.

    \b
    Example:
      marketplace alerts resolve 01998c2a-7d1e-7c3f-9a43-0e7d1c5b2f10 --note "Replayed all webhooks."
    """
)
@click.argument("alert_id", metavar="ID", type=click.UUID)
@click.option("--note", required=True, help="The actions that you took.")
def resolve(alert_id: UUID, note: str) -> None:
    """Resolve an alert."""
    normalized_note = " ".join(note.split())
    if not 3 <= len(normalized_note) <= operations.MAX_NOTE_LENGTH:
        raise click.UsageError(f"--note must have 3 to {operations.MAX_NOTE_LENGTH} characters.")
    current = build_services()
    connect_wakeups(Dispatcher(current))
    with explaining_missing(f"alert {alert_id}", list_command=_LIST_ALL):
        current.database.in_transaction(
            operations.resolve_manually,
            alert_id=alert_id,
            note=normalized_note,
            act=build_operator_act(current.clock()),
        )
    click.echo(f"Resolved {alert_id}.")


def _display_fact(value: Any) -> Any:
    return orjson.dumps(value).decode() if isinstance(value, dict) else value
