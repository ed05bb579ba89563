"""Replays of webhooks for operators: grouped by cause, at a limited rate, with a report in words."""

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any
from uuid import UUID

from blueprints.http.reply_renderer import compile_renderer
from blueprints.webhooks.schemas import ReplayChanges
from commands.console.database import build_operator_act
from commands.console.progress import Stages
from marketplace.audit.operations import Act
from marketplace.kernel.errors import ServiceUnavailableError
from marketplace.kernel.money import CURRENCY, format_naira
from marketplace.services import Services
from marketplace.webhooks.change_recorder import PostedTransaction, RefundChange
from marketplace.webhooks.queries import WebhookEvent
from marketplace.webhooks.replay import (
    OUTCOMES,
    UNCHANGED,
    EventInProgressError,
    ReplayResult,
    dry_run_event,
    replay_event,
)

BUSY = "busy"  # the event was locked by a worker or another replay, so this run skipped it
_NEVER_TRIED = "not tried yet"
_DUPLICATE_TEXT = "nothing: duplicate of an event that was applied before"
_ALREADY_FINAL_TEXTS = {
    "processed": "nothing: already processed",
    "ignored": "nothing: already ignored, because it has no effect here",
    "duplicate": _DUPLICATE_TEXT,
}
# Descriptions of events that reached this status in the replay itself.
_NO_EFFECT_TEXTS = {
    "processed": "only the status of the event",
    "ignored": "nothing: the event has no effect here",
    "duplicate": _DUPLICATE_TEXT,
}


@dataclass(frozen=True)
class ReplayedEvent:
    """An event with the result of a replay or of a dry run.

    :param cause: the event's last error before the replay
    """

    id: UUID
    type: str | None
    cause: str
    result: ReplayResult


@dataclass
class ReplayRun:
    """The replayed events of a run, and the reason for an early end, if any."""

    replayed: list[ReplayedEvent]
    interruption: str | None = None

    def counts(self) -> dict[str, Counter[str]]:
        """Count outcomes by cause, in the order of first appearance."""
        counts: dict[str, Counter[str]] = {}
        for item in self.replayed:
            counts.setdefault(item.cause, Counter())[item.result.outcome] += 1
        return counts


def replay_all(
    services: Services, rows: Sequence[WebhookEvent], *, dry_run: bool, rate: float | None, by_cause: bool
) -> ReplayRun:
    """Replay events, each event in a transaction of its own.

    An interruption or a lost database connection ends the run. Replays made until then remain.

    :param dry_run: roll back every replay
    :param rate: maximum number of replays per second; None for no limit
    :param by_cause: replay events with the same cause together; False to keep the order
    """
    run, stages, next_at = ReplayRun([]), Stages(on_stderr=True), time.monotonic()
    if by_cause:
        positions = {cause: index for index, cause in enumerate(dict.fromkeys(map(_cause_of, rows)))}
        rows = sorted(rows, key=lambda row: positions[_cause_of(row)])
    try:
        for cause, members in groupby(rows, key=_cause_of):
            group = list(members)
            with stages.stage(cause, total=len(group)) as advance:
                for row in group:
                    time.sleep(max(0, next_at - time.monotonic()))
                    next_at = max(next_at, time.monotonic()) + (1 / rate if rate else 0)
                    act = build_operator_act(services.clock())
                    result = _replay_one(services, row, dry_run=dry_run, act=act)
                    run.replayed.append(ReplayedEvent(row.id, row.event_type, cause, result))
                    advance(1)
    except ServiceUnavailableError:
        run.interruption = "The database connection was lost"
    except KeyboardInterrupt:
        run.interruption = "Interrupted"
    return run


def _cause_of(row: WebhookEvent) -> str:
    return row.last_error or _NEVER_TRIED


def _replay_one(services: Services, row: WebhookEvent, *, dry_run: bool, act: Act) -> ReplayResult:
    bearer = services.settings.gateway_fee_bearer
    try:
        if dry_run:
            return dry_run_event(services.database, inbox_id=row.id, fee_bearer=bearer, now=act.now)
        with services.database.reading() as read_session:
            return services.database.in_transaction(
                replay_event, read_session, inbox_id=row.id, fee_bearer=bearer, act=act
            )
    except EventInProgressError as error:
        return ReplayResult(row.status, row.status, BUSY, error.detail)


def describe_changes(result: ReplayResult) -> list[str]:
    """Describe the changes of a replay in lines, or the reason for no changes."""
    if result.outcome == UNCHANGED:
        return [_ALREADY_FINAL_TEXTS[result.before]]
    changes = result.changes
    if changes is None:
        return [result.error or ""]
    lines = [
        *(f"order {order.number}: {order.what} {order.before} -> {order.after}" for order in changes.orders),
        *(line for posted in changes.ledger for line in _describe_posting(posted)),
        *(_describe_refund(refund) for refund in changes.refunds),
        *(
            f"charge quarantined: {_format_amount(charge.amount_minor, charge.currency)}, {charge.reason}"
            for charge in changes.quarantined_charges
        ),
        *(
            f"payout exception: transfer {exception.reference} {exception.outcome},"
            f" {_format_amount(exception.amount_minor, exception.currency)}"
            for exception in changes.payout_exceptions
        ),
        *(
            f"alert {alert.event}: {alert.severity} {alert.identifier}, {alert.title} ({alert.subject})"
            for alert in changes.alerts
        ),
        *(
            f"notification {notification.type} to {notification.user_id}: {notification.title}"
            for notification in changes.notifications
        ),
        *(f"queued {work.topic} for {work.queue}" for work in changes.work),
        *(f"message of type {message.type} stored" for message in changes.messages),
    ]
    if changes.parts:
        lines.append(f"split into {len(changes.parts)} events, each processed separately")
    return lines or [_NO_EFFECT_TEXTS[result.after]]


def _describe_posting(posted: PostedTransaction) -> Iterator[str]:
    yield f"ledger {posted.kind} {posted.source}: {posted.description}"
    for entry in posted.entries:
        order = f" (order {entry.order_number})" if entry.order_number else ""
        yield f"  {entry.direction} {entry.account} {format_naira(entry.amount_minor)}{order}"


def _describe_refund(refund: RefundChange) -> str:
    about = f" of order {refund.order_number}" if refund.order_number else ""
    return (
        f"refund {refund.id}: {format_naira(refund.amount_minor)} to {refund.destination}{about},"
        f" {refund.before or 'new'} -> {refund.after}"
    )


def _format_amount(minor: int, currency: str) -> str:
    return format_naira(minor) if currency == CURRENCY else f"{minor:,} minor units of {currency}"


_render_changes = compile_renderer(ReplayChanges())


def build_report(run: ReplayRun, *, dry_run: bool) -> dict[str, Any]:
    """Build a machine-readable report of a run."""
    return {
        "dryRun": dry_run,
        "events": [
            {
                "id": item.id,
                "type": item.type,
                "cause": item.cause,
                "before": item.result.before,
                "after": item.result.after,
                "outcome": item.result.outcome,
                "error": item.result.error,
                "changes": item.result.changes and _render_changes(item.result.changes),
            }
            for item in run.replayed
        ],
        "summary": [
            {"cause": cause, "events": counts.total()} | {name: counts[name] for name in (*OUTCOMES, BUSY)}
            for cause, counts in run.counts().items()
        ],
    }
