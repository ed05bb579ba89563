"""Commands for received webhooks: list, inspect and replay."""

import json
import math
from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import click
import orjson

from commands import webhook_replay
from commands.console.database import build_services, read_session
from commands.console.failures import CommandFailedError, explaining_missing
from commands.console.output import print_facts, print_table, warn_truncated
from commands.console.times import RelativeTime
from commands.webhook_replay import BUSY, ReplayRun
from marketplace.kernel.pluralize import format_count
from marketplace.kernel.redaction import redact
from marketplace.webhooks import events, queries
from marketplace.webhooks.events import PermanentEventError
from marketplace.webhooks.queries import (
    PROVIDERS,
    STATES,
    WebhookEvent,
    WebhookEventFilters,
)
from marketplace.webhooks.replay import FAILED, OUTCOMES, PROCESSED

_MAX_LISTED = 1_000
# Field of a row by column heading.
_EVENT_COLUMNS = {
    "ID": "id",
    "State": "state",
    "Provider": "provider",
    "Type": "event_type",
    "Event": "dedupe_id",
    "Tries": "attempts",
    "Received": "received_at",
    "Last error": "last_error",
}
_CAUSE_COLUMNS = {
    "Events": "events",
    "Type": "event_type",
    "First received": "first_at",
    "Last received": "last_at",
    "Last error": "last_error",
}


class _RateRange(click.FloatRange):
    """A range of numbers that also refuses NaN."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Parse a number."""
        number = super().convert(value, param, ctx)
        if math.isnan(number):
            self.fail(f"{value!r} is not a number", param, ctx)
        return number


@click.group(help="List, inspect and replay received webhooks.")
def webhooks() -> None:
    """Group the commands."""


_TIME_OR_AGE = RelativeTime(
    r"(\d{1,6})([mhd])", -1, "a time such as 2026-03-01T10:00:00Z, or an age such as 90m, 2h or 7d"
)
_TYPE_OPTION = click.option(
    "--type", "event_type", metavar="TYPE", help="Only webhooks of this type, such as charge.success."
)
_PROVIDER_OPTION = click.option(
    "--provider", type=click.Choice(PROVIDERS), help="Only webhooks from this provider."
)
_SINCE_OPTION = click.option(
    "--since", type=_TIME_OR_AGE, help="Only webhooks received since a time, or within an age such as 2h."
)
_ERROR_OPTION = click.option(
    "--error-like", metavar="TEXT", help="Only webhooks with TEXT in the last error."
)
_JSON_OPTION = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


@webhooks.command(
    name="list",
    help="""List webhooks, latest first. With --causes, count webhooks by type and last error, most frequent first.

    \b
    Examples:
      marketplace webhooks list --state dead
      marketplace webhooks list --state dead --causes
      marketplace webhooks list --type charge.success --since 2h
      marketplace webhooks list --state dead --error-like "no payment" --json""",
)
@click.option(
    "--state", "--status", "state", type=click.Choice(tuple(STATES)), help="Only webhooks in this state."
)
@_TYPE_OPTION
@_PROVIDER_OPTION
@_SINCE_OPTION
@_ERROR_OPTION
@click.option(
    "--limit",
    type=click.IntRange(1, _MAX_LISTED),
    default=50,
    show_default=True,
    help="Maximum number of rows.",
)
@click.option("--causes", "by_cause", is_flag=True, help="Count webhooks by type and last error.")
@_JSON_OPTION
def list_webhooks(
    *,
    state: str | None,
    event_type: str | None,
    provider: str | None,
    since: datetime | None,
    error_like: str | None,
    limit: int,
    by_cause: bool,
    as_json: bool,
) -> None:
    """List webhooks."""
    filters = WebhookEventFilters(state, event_type, provider, since, error_like)
    with read_session() as session:
        if by_cause:
            matches = list(map(vars, queries.list_failure_causes(session, filters=filters, limit=limit + 1)))
        else:
            matches = list(map(_display_row, queries.list_events(session, filters=filters, limit=limit + 1)))
    rows = matches[:limit]
    if rows or as_json:
        _print_rows(rows, _CAUSE_COLUMNS if by_cause else _EVENT_COLUMNS, as_json=as_json)
    else:
        click.echo("No webhook matches.", err=True)
    if len(matches) > limit:
        warn_truncated(_MAX_LISTED)


@webhooks.command(
    help="""Show a webhook with its body. Secrets and personal data are redacted.

    ID is the ID of the list, the ID of the gateway's event, or the gateway's reference of a charge or transfer. If
    several events match, they are listed in order of arrival. A webhook is found by its own ID only until its first
    attempt.

    \b
    Examples:
      marketplace webhooks show 01998c2a-7d1e-7c3f-9a43-0e7d1c5b2f10
      marketplace webhooks show charge.success:4099
      marketplace webhooks show checkout-0b3f5a2c9d8e4f1a8b7c6d5e4f3a2b1c"""
)
@click.argument("identifier", metavar="ID")
@click.option("--raw", is_flag=True, help="Print only the body, exactly as received, without redaction.")
@_JSON_OPTION
def show(identifier: str, *, raw: bool, as_json: bool) -> None:
    """Show a webhook."""
    if raw and as_json:
        raise click.UsageError("--raw and --json cannot be combined.")
    with read_session() as session:
        found = _find_events(session, identifier)
        event = queries.fetch_event(session, inbox_id=found[0].id)
    if len(found) > 1:
        if raw:
            raise CommandFailedError(
                f"{len(found)} webhooks match {identifier}. Run `marketplace webhooks show {identifier}` to list them,"
                " then use the ID of one."
            )
        _print_rows(list(map(_display_row, found)), _EVENT_COLUMNS, as_json=as_json)
        click.echo("Run `marketplace webhooks show` with the ID of one to see its body.", err=True)
        return
    if raw:
        click.echo(event.body, nl=False)
        return
    row = _display_row(event)
    del row["raw_body"]
    try:
        content = redact(events.load_json(event.body))
    except PermanentEventError:
        content = None
    if as_json:
        _print_json(row | {"body_bytes": event.body_bytes, "body": content})
        return
    print_facts((name.replace("_", " "), value) for name, value in row.items())
    shown = f"(The body has {event.body_bytes} bytes and is not JSON. Use --raw to print it.)"
    click.echo(f"\n{shown if content is None else json.dumps(content, indent=2)}")


@webhooks.command(
    name="replay",
    help="""Replay dead webhooks, which are no longer retried automatically.

    Select webhooks by --id, or dead webhooks by --type, --provider, --since, --error-like or --all. Webhooks that
    were never replayed come first, then the least recently replayed. If --limit leaves some out, repeat the command
    to continue. Webhooks with the same cause are replayed together.

    --id takes the ID of the list, the ID of the gateway's event, or the gateway's reference of a charge or transfer.
    All events of a reference are replayed in order of arrival.

    A replay is a single attempt. If it fails, the webhook stays as it was. Replaying a processed webhook changes
    nothing. Every replay is audited. Exits with status 1 if a replay failed.

    A dry run tries each webhook separately and rolls it back. A webhook that depends on another webhook therefore
    fails in a dry run, and two deliveries of the same charge both count.

    \b
    Examples:
      marketplace webhooks replay --id 01998c2a-7d1e-7c3f-9a43-0e7d1c5b2f10 --dry-run
      marketplace webhooks replay --id checkout-0b3f5a2c9d8e4f1a8b7c6d5e4f3a2b1c
      marketplace webhooks replay --type charge.success --since 1d --dry-run
      marketplace webhooks replay --error-like "no payment" --rate 20
      marketplace webhooks replay --all --limit 1000""",
)
@click.option(
    "--id",
    "ids",
    multiple=True,
    help="Only this webhook, or the webhooks of this reference. Can be repeated.",
)
@_TYPE_OPTION
@_PROVIDER_OPTION
@_SINCE_OPTION
@_ERROR_OPTION
@click.option("--all", "take_all", is_flag=True, help="All dead webhooks.")
@click.option(
    "--limit",
    type=click.IntRange(1, 10_000),
    default=100,
    show_default=True,
    help="Maximum number of webhooks.",
)
@click.option("--rate", type=_RateRange(0.1, 1_000), help="Maximum number of webhooks per second.")
@click.option("--dry-run", is_flag=True, help="Show the changes without making them.")
@_JSON_OPTION
def replay_webhooks(
    *,
    ids: tuple[str, ...],
    event_type: str | None,
    provider: str | None,
    since: datetime | None,
    error_like: str | None,
    limit: int,
    rate: float | None,
    take_all: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Replay webhooks."""
    if bool(ids) == bool(event_type or provider or since or error_like or take_all):
        raise click.UsageError(
            "Select webhooks by --id, or dead webhooks by --type, --provider, --since, --error-like or --all."
            " Run `marketplace webhooks list --state dead` to list dead webhooks."
        )
    with read_session() as session:
        if ids:
            # Repeated ids count once. An unknown id stops the command before any replay.
            found = {event.id: event for identifier in ids for event in _find_events(session, identifier)}
            rows: Sequence[WebhookEvent] = list(found.values())
            matching = len(rows)
        else:
            filters = WebhookEventFilters("dead", event_type, provider, since, error_like)
            rows, matching = queries.list_dead_events(session, filters=filters, limit=limit)
    left = matching - len(rows)
    run = webhook_replay.replay_all(build_services(), rows, dry_run=dry_run, rate=rate, by_cause=not ids)
    if as_json:
        _print_json(webhook_replay.build_report(run, dry_run=dry_run))
    elif not rows:
        click.echo("No dead webhook matches.", err=True)
    else:
        _print_run(run, dry_run=dry_run, verbose=bool(ids) or dry_run)
    if left:
        step = "Raise --limit to include more." if dry_run else "Repeat the command to continue."
        click.echo(f"Left out: {format_count(left, 'webhook')}. {step}", err=True)
    _ensure_all_replayed(run, len(rows), dry_run=dry_run)


def _find_events(session: Any, identifier: str) -> list[WebhookEvent]:
    with explaining_missing(f"webhook {identifier}", list_command="webhooks list"):
        return queries.find_events(session, identifier=identifier)


def _print_rows(rows: list[dict[str, Any]], columns: dict[str, str], *, as_json: bool) -> None:
    if as_json:
        _print_json(rows)
        return
    cells = [[row[name] for name in columns.values()] for row in rows]
    print_table(tuple(columns), cells, wrapped_columns=("Event", "Last error"))


def _display_row(event: WebhookEvent) -> dict[str, Any]:
    displayed = vars(event) | {"state": _display_state(event.status), "dedupe_id": event.event_id}
    del displayed["status"]
    return displayed


def _display_state(status: str) -> str:
    state = queries.STATE_OF[status]
    return f"{state} (duplicate)" if status == "duplicate" else state


def _print_run(run: ReplayRun, *, dry_run: bool, verbose: bool) -> None:
    """Print the changes of each event, or only failures, and the number of events by outcome."""
    shown = [item for item in run.replayed if verbose or item.result.outcome in (FAILED, BUSY)]
    if shown:
        what = "Would change" if dry_run else "Changed"
        rows = [
            (item.id, _display_state(item.result.before), _display_state(item.result.after), line)
            for item in shown
            for line in webhook_replay.describe_changes(item.result)
        ]
        print_table(("ID", "Before", "Would be" if dry_run else "After", what), rows, wrapped_columns=(what,))
    if len(run.replayed) > 1:
        click.echo()
        print_table(
            ("Cause", "Events", *(name.title() for name in (*OUTCOMES, BUSY))),
            [
                (cause, counts.total(), *(counts[name] for name in (*OUTCOMES, BUSY)))
                for cause, counts in run.counts().items()
            ],
            wrapped_columns=("Cause",),
        )
        if dry_run:
            click.echo(
                "Each webhook was tried separately, so two deliveries of the same charge both count.",
                err=True,
            )


def _ensure_all_replayed(run: ReplayRun, requested_count: int, *, dry_run: bool) -> None:
    counts = sum(run.counts().values(), Counter[str]())
    if counts[BUSY]:
        click.echo(
            f"{counts[BUSY]} of {requested_count} webhooks were skipped, because a worker or another replay had locked"
            " them. Run `marketplace webhooks list --state dead` to see whether they are still dead.",
            err=True,
        )
    failed = counts[FAILED]
    all_dead = all(item.result.before == "dead" for item in run.replayed if item.result.outcome == FAILED)
    kept = "still dead" if all_dead else "unchanged"
    if run.interruption:
        fared = [f"{counts[name]} {name}" for name in OUTCOMES if counts[name] or name == PROCESSED]
        rest = "nothing was changed" if dry_run else ", ".join(fared) + (f" ({kept})" if failed else "")
        raise CommandFailedError(
            f"{run.interruption} after {len(run.replayed)} of {requested_count} webhooks: {rest}."
            " Run the same command again for the rest."
        )
    if failed:
        verb = "would fail" if dry_run else "failed"
        raise CommandFailedError(
            f"{failed} of {requested_count} webhooks {verb} again ({kept})."
            " Run `marketplace webhooks show ID` for details."
        )


def _print_json(value: Any) -> None:
    click.echo(orjson.dumps(value, option=orjson.OPT_INDENT_2 | orjson.OPT_UTC_Z))
