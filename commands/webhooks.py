"""Webhooks that came in: look at them, and replay those that failed for good."""

import json
import math
from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

import click
import orjson

from commands import webhook_replay
from commands.console.database import build_services, read_session
from commands.console.failures import CommandFailedError, explaining_missing
from commands.console.output import print_facts, print_table, warn_truncated
from commands.console.times import RelativeTime
from commands.webhook_replay import BUSY, ReplayRun
from marketplace.kernel.redaction import redact
from marketplace.webhooks import events, queries
from marketplace.webhooks.events import PermanentEventError
from marketplace.webhooks.queries import (
    PROVIDERS,
    STATES,
    WebhookEvent,
    WebhookEventDetail,
    WebhookEventFilters,
)
from marketplace.webhooks.replay import FAILED, OUTCOMES, PROCESSED

_MAX_LISTED = 1_000
# Headings, and what stands below them.
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
    "First came": "first_at",
    "Last came": "last_at",
    "Last error": "last_error",
}


class _RateRange(click.FloatRange):
    """A range of numbers, which what is none does not fall into."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Read a number."""
        number = super().convert(value, param, ctx)
        if math.isnan(number):
            self.fail(f"{value!r} is not a number", param, ctx)
        return number


@click.group(help="List, inspect and replay webhooks that came in.")
def webhooks() -> None:
    """Group the commands."""


_TIME_OR_AGE = RelativeTime(
    r"(\d{1,6})([mhd])", -1, "a time such as 2026-03-01T10:00:00Z, or an age such as 90m, 2h or 7d"
)
_TYPE_OPTION = click.option(
    "--type", "event_type", metavar="TYPE", help="Only of this type, such as charge.success."
)
_PROVIDER_OPTION = click.option("--provider", type=click.Choice(PROVIDERS), help="Only from this one.")
_SINCE_OPTION = click.option(
    "--since", type=_TIME_OR_AGE, help="Only those that came since: a time, or an age such as 2h."
)
_ERROR_OPTION = click.option("--error-like", metavar="TEXT", help="Only those whose last error holds TEXT.")
_JSON_OPTION = click.option("--json", "as_json", is_flag=True, help="Print JSON, for machines.")


@webhooks.command(
    name="list",
    help="""List webhooks, the latest first; or count them by type and cause, the most frequent first.

    \b
    Examples:
      marketplace webhooks list --state dead
      marketplace webhooks list --state dead --causes
      marketplace webhooks list --type charge.success --since 2h
      marketplace webhooks list --state dead --error-like "no payment" --json""",
)
@click.option(
    "--state", "--status", "state", type=click.Choice(tuple(STATES)), help="Only those that are so."
)
@_TYPE_OPTION
@_PROVIDER_OPTION
@_SINCE_OPTION
@_ERROR_OPTION
@click.option(
    "--limit", type=click.IntRange(1, _MAX_LISTED), default=50, show_default=True, help="At most so many."
)
@click.option("--causes", "by_cause", is_flag=True, help="Count them by type and last error.")
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
    if as_json:
        _print_json(rows)
    elif not rows:
        click.echo("No webhook matches.", err=True)
    else:
        columns = _CAUSE_COLUMNS if by_cause else _EVENT_COLUMNS
        cells = [[row[name] for name in columns.values()] for row in rows]
        print_table(tuple(columns), cells, wrapped_columns=("Event", "Last error"))
    if len(matches) > limit:
        warn_truncated(_MAX_LISTED)


@webhooks.command(
    help="""Show the webhook ID with its body; what is secret or personal in it is redacted.

    \b
    Example:
      marketplace webhooks show 01998c2a-7d1e-7c3f-9a43-0e7d1c5b2f10"""
)
@click.argument("webhook_id", metavar="ID", type=click.UUID)
@click.option("--raw", is_flag=True, help="Print the body alone, byte by byte as it came, nothing redacted.")
@_JSON_OPTION
def show(webhook_id: UUID, *, raw: bool, as_json: bool) -> None:
    """Show a webhook."""
    if raw and as_json:
        raise click.UsageError("--raw prints the body as it came, --json prints JSON: take one of them.")
    with read_session() as session:
        event = _find_event(session, webhook_id)
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
    shown = f"({event.body_bytes} bytes that are not JSON; --raw prints them)"
    click.echo(f"\n{shown if content is None else json.dumps(content, indent=2)}")


@webhooks.command(
    name="replay",
    help="""Try webhooks again that failed for good (state dead).

    Name them by --id, or take dead ones that match --type, --since and the like, up to --limit of them, those
    of one cause after the other. Those that were never replayed come first, then those whose last replay is longest
    ago, so that the same command goes on with the rest. A replay is one try: it works, or the event stays as it was.
    One that was processed before changes nothing. Every replay is audited. Ends with status 1 if one failed.

    A dry run tries each by itself, as if the others had not been replayed: one that needs another to be replayed
    before it fails there, and of two deliveries of one charge both count.

    \b
    Examples:
      marketplace webhooks replay --id 01998c2a-7d1e-7c3f-9a43-0e7d1c5b2f10 --dry-run
      marketplace webhooks replay --type charge.success --since 1d --dry-run
      marketplace webhooks replay --error-like "no payment" --rate 20
      marketplace webhooks replay --all --limit 1000""",
)
@click.option("--id", "ids", multiple=True, type=click.UUID, help="This one; may be given several times.")
@_TYPE_OPTION
@_PROVIDER_OPTION
@_SINCE_OPTION
@_ERROR_OPTION
@click.option("--all", "take_all", is_flag=True, help="All dead ones.")
@click.option(
    "--limit", type=click.IntRange(1, 10_000), default=100, show_default=True, help="At most so many."
)
@click.option("--rate", type=_RateRange(0.1, 1_000), help="At most so many in a second.")
@click.option("--dry-run", is_flag=True, help="Show what would change, and change nothing.")
@_JSON_OPTION
def replay_webhooks(
    *,
    ids: tuple[UUID, ...],
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
            "Name webhooks by --id, or choose dead ones by --type, --provider, --since, --error-like or --all;"
            " `marketplace webhooks list --state dead` shows them."
        )
    with read_session() as session:
        if ids:
            # Each once, and none at all if one is unknown.
            rows: Sequence[WebhookEvent] = [_find_event(session, row_id) for row_id in dict.fromkeys(ids)]
            matching = len(rows)
        else:
            filters = WebhookEventFilters("dead", event_type, provider, since, error_like)
            rows, matching = queries.list_dead_events(session, filters=filters, limit=limit)
    left = matching - len(rows)
    run = webhook_replay.replay_all(build_services(), rows, dry_run=dry_run, rate=rate)
    if as_json:
        _print_json(webhook_replay.build_report(run, dry_run=dry_run))
    elif not rows:
        click.echo("No dead webhook matches.", err=True)
    else:
        _print_run(run, dry_run=dry_run, verbose=bool(ids) or dry_run)
    if left:
        turn = "--limit takes more" if dry_run else "the same command takes them next, --limit more at once"
        click.echo(f"{left:,} more match: {turn}.", err=True)
    _ensure_all_replayed(run, len(rows), dry_run=dry_run)


def _find_event(session: Any, webhook_id: UUID) -> WebhookEventDetail:
    with explaining_missing(f"webhook as {webhook_id}", list_command="webhooks list"):
        return queries.fetch_event(session, inbox_id=webhook_id)


def _display_row(event: WebhookEvent) -> dict[str, Any]:
    displayed = vars(event) | {"state": _display_state(event.status), "dedupe_id": event.event_id}
    del displayed["status"]
    return displayed


def _display_state(status: str) -> str:
    state = queries.STATE_OF[status]
    return f"{state} (duplicate)" if status == "duplicate" else state


def _print_run(run: ReplayRun, *, dry_run: bool, verbose: bool) -> None:
    """Print a run: what each event changed, or only what failed, and how many fared how."""
    shown = [item for item in run.replayed if verbose or item.result.outcome in (FAILED, BUSY)]
    if shown:
        what = "What would change" if dry_run else "What changed"
        rows = [
            (item.id, _display_state(item.result.before), _display_state(item.result.after), line)
            for item in shown
            for line in webhook_replay.describe_changes(item.result)
        ]
        print_table(("ID", "Was", "Would be" if dry_run else "Is", what), rows, wrapped_columns=(what,))
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
            click.echo("Each was tried alone: of two deliveries of one charge, both count here.", err=True)


def _ensure_all_replayed(run: ReplayRun, requested_count: int, *, dry_run: bool) -> None:
    counts = sum(run.counts().values(), Counter[str]())
    if counts[BUSY]:
        click.echo(
            f"{counts[BUSY]} of {requested_count} were left alone, since a worker or another replay had them just then;"
            " `marketplace webhooks list --state dead` shows whether they still are.",
            err=True,
        )
    failed = counts[FAILED]
    all_dead = all(item.result.before == "dead" for item in run.replayed if item.result.outcome == FAILED)
    stay = "stay dead" if all_dead else "stay as they were"
    if run.interruption:
        fared = [f"{counts[name]} {name}" for name in OUTCOMES if counts[name] or name == PROCESSED]
        rest = "nothing was changed" if dry_run else ", ".join(fared) + (f" and {stay}" if failed else "")
        raise CommandFailedError(
            f"{run.interruption} after {len(run.replayed)} of {requested_count}: {rest}."
            " Run the same command again for the rest."
        )
    if failed:
        verb = "would fail" if dry_run else "failed"
        raise CommandFailedError(
            f"{failed} of {requested_count} {verb} again and {stay}; `marketplace webhooks show ID` tells more."
        )


def _print_json(value: Any) -> None:
    click.echo(orjson.dumps(value, option=orjson.OPT_INDENT_2 | orjson.OPT_UTC_Z))
