"""Webhooks that came in: look at them, and replay those that failed for good."""

import json
import random
import re
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import click

from commands.database import reading, services
from commands.failures import CommandFailedError
from commands.output import facts, table
from marketplace.kernel.redaction import redact
from marketplace.webhooks import queries
from marketplace.webhooks.replay import Replay, rehearse, replay

_STATUSES = ("received", "retrying", "processed", "duplicate", "ignored", "dead")
_MOST_SHOWN = 1_000
_UNITS = {"m": "minutes", "h": "hours", "d": "days"}
_FAILED = frozenset({"dead", "retrying"})


class Moment(click.ParamType[datetime]):
    """A time: ISO 8601 with its zone, or how long ago, such as 90m, 2h or 7d."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        """This function will read a time."""
        if isinstance(value, datetime):
            return value
        ago = re.fullmatch(r"(\d{1,6})([mhd])", value)
        if ago:
            return datetime.now(UTC) - timedelta(**{_UNITS[ago[2]]: int(ago[1])})
        try:
            moment = datetime.fromisoformat(value)
        except ValueError:
            self.fail(
                "must be a time such as 2026-03-01T10:00:00Z, or an age such as 90m, 2h or 7d", param, ctx
            )
        return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


@click.group(help="List, inspect and replay webhooks that came in.")
def webhooks() -> None:
    """This function will group the commands."""


@webhooks.command(
    name="list",
    help="""List webhooks, the latest first.

    \b
    Examples:
      marketplace webhooks list --status dead
      marketplace webhooks list --type charge.success --since 2h""",
)
@click.option("--status", type=click.Choice(_STATUSES), help="Only those that are so.")
@click.option("--type", "event_type", metavar="TYPE", help="Only of this type, such as charge.success.")
@click.option("--since", type=Moment(), help="Only those that came since: a time, or an age such as 2h.")
@click.option(
    "--limit", type=click.IntRange(1, _MOST_SHOWN), default=50, show_default=True, help="At most so many."
)
def list_webhooks(status: str | None, event_type: str | None, since: datetime | None, limit: int) -> None:
    """This function will list webhooks."""
    with reading() as session:
        rows = queries.list_events(session, status=status, event_type=event_type, since=since, most=limit)
    if not rows:
        click.echo("No webhook matches.", err=True)
        return
    columns = ("id", "status", "event_type", "dedupe_id", "attempts", "received_at", "last_error")
    table(
        ("ID", "Status", "Type", "Event", "Tries", "Received", "Last error"),
        [[row[name] for name in columns] for row in rows],
        wide=("Event", "Last error"),
    )


@webhooks.command(
    help="""Show the webhook ID with its body; what is secret or personal in it is redacted.

    \b
    Example:
      marketplace webhooks show 01998c2a-7d1e-7c3f-9a43-0e7d1c5b2f10"""
)
@click.argument("webhook_id", metavar="ID", type=click.UUID)
@click.option("--raw", is_flag=True, help="Print the body alone, byte by byte as it came, nothing redacted.")
def show(webhook_id: UUID, *, raw: bool) -> None:
    """This function will show a webhook."""
    with reading() as session:
        row = queries.show_event(session, inbox_id=webhook_id)
    body: bytes = row.pop("body")
    if raw:
        click.echo(body, nl=False)
        return
    facts((name.replace("_", " "), value) for name, value in row.items())
    try:
        shown = json.dumps(redact(json.loads(body)), indent=2, ensure_ascii=False)
    except ValueError:
        shown = f"({len(body)} bytes that are not JSON; --raw prints them)"
    click.echo(f"\n{shown}")


@webhooks.command(
    name="replay",
    help="""Process webhooks again that failed for good (status dead).

    Name them by --id, or take all dead ones that match --type and --since. An event that was processed
    once changes nothing when it is replayed. Ends with status 1 if one failed again.

    \b
    Examples:
      marketplace webhooks replay --type charge.success --since 1d --dry-run
      marketplace webhooks replay --id 01998c2a-7d1e-7c3f-9a43-0e7d1c5b2f10""",
)
@click.option("--id", "ids", multiple=True, type=click.UUID, help="This one; may be given several times.")
@click.option("--type", "event_type", metavar="TYPE", help="Dead ones of this type.")
@click.option("--since", type=Moment(), help="Dead ones that came since: a time, or an age such as 2h.")
@click.option(
    "--limit", type=click.IntRange(1, _MOST_SHOWN), default=100, show_default=True, help="At most so many."
)
@click.option("--all", "take_all", is_flag=True, help="All dead ones.")
@click.option("--dry-run", is_flag=True, help="Show what would change, and change nothing.")
@click.pass_context
def replay_webhooks(
    ctx: click.Context,
    ids: tuple[UUID, ...],
    event_type: str | None,
    since: datetime | None,
    limit: int,
    *,
    take_all: bool,
    dry_run: bool,
) -> None:
    """This function will replay webhooks."""
    filtered = bool(event_type or since or take_all)
    if bool(ids) == filtered:
        raise click.UsageError("Name webhooks by --id, or choose them by --type, --since or --all.")
    chosen = list(ids) or _dead_ones(event_type, since, limit)
    if not chosen:
        click.echo("No dead webhook matches.", err=True)
        return
    results = [(webhook_id, _replay(webhook_id, dry_run=dry_run)) for webhook_id in chosen]
    table(
        ("ID", "Was", "Would be" if dry_run else "Is", "What changes" if dry_run else "What changed"),
        [
            (webhook_id, result.before, result.after, "; ".join(result.changes) or _why(result))
            for webhook_id, result in results
        ],
        wide=("What changes", "What changed"),
    )
    failed = sum(result.after in _FAILED for _, result in results)
    if failed:
        verb = "would fail" if dry_run else "failed"
        raise CommandFailedError(
            f"{failed} of {len(results)} {verb} again; `marketplace webhooks show` tells more."
        )


def _dead_ones(event_type: str | None, since: datetime | None, limit: int) -> list[UUID]:
    with reading() as session:
        rows = queries.list_events(session, status="dead", event_type=event_type, since=since, most=limit)
    # The earliest first, as they came.
    return [row["id"] for row in reversed(rows)]


def _replay(webhook_id: UUID, *, dry_run: bool) -> Replay:
    current = services()
    fee_bearer, now = current.settings.gateway_fee_bearer, current.clock()
    if dry_run:
        return rehearse(current.database, inbox_id=webhook_id, fee_bearer=fee_bearer, now=now)
    return replay(current.database, inbox_id=webhook_id, fee_bearer=fee_bearer, now=now, random=random.random)


def _why(result: Replay) -> str:
    if result.error:
        return result.error
    return "nothing: it is not dead" if result.before == result.after else "nothing else"
