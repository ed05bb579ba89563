"""The monitored alerts: each a rule with a window on the counts of all processes.

The conditions and severities are from the section "Internal alerts" of the interface specification. ESCROW_DRIFT has
its rule in ``payments.integrity.drift``.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import structlog
from sqlalchemy import select, text
from sqlalchemy.orm import Session

from marketplace.alerts.kinds import AlertIdentifier, Severity
from marketplace.alerts.models import Alert
from marketplace.alerts.operations import raise_alert, repeat_messages, resolve_alert
from marketplace.background.queues import fetch_queue_report
from marketplace.health import texts
from marketplace.health.objectives import BAD
from marketplace.health.signal_counts import (
    MAX_REJECTIONS,
    POOL_MAXIMUM,
    POOL_TIMEOUTS,
    POOL_USED,
    POOL_WAITS,
    WEBHOOK_REJECTED,
    sum_counts,
)
from marketplace.infra.cache import Cache
from marketplace.infra.db import Database
from marketplace.kernel.errors import ProviderUnavailableError
from marketplace.providers.client import ProviderRefusedError
from marketplace.providers.scale_hook import ScaleHook

# An alert whose condition still holds is sent again after this time.
REPEAT_AFTER = timedelta(minutes=30)
MAX_ERROR_RATE = 0.02
MIN_ERRORS = 3  # with little traffic, a single failed request exceeds every rate
MAX_POOL_USE = 0.85
MAX_WAIT = timedelta(seconds=120)
_ERROR_WINDOW, _POOL_WINDOW, _REJECTION_WINDOW = (
    timedelta(minutes=5),
    timedelta(minutes=3),
    timedelta(minutes=5),
)
_SLOW_STATEMENTS = 5

_log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class MonitoredCondition:
    """The result of a rule. The facts never have personal data or values of parameters.

    :ivar severity: none for the default severity of the kind
    """

    identifier: AlertIdentifier
    subject: str
    holds: bool
    facts: Mapping[str, Any]
    severity: Severity | None = None


def check_signals(session: Session, *, now: datetime) -> None:
    """Raise, repeat or resolve the alerts about requests, connections and webhooks."""
    for check in (check_error_rate, check_pool_use, check_webhook_signatures):
        apply_condition(session, check(session, now=now), now=now)


def apply_condition(session: Session, condition: MonitoredCondition, *, now: datetime) -> None:
    """Raise the alert once, repeat its messages while the condition holds, and resolve the alert afterwards."""
    identifier, subject = condition.identifier, condition.subject
    if not condition.holds:
        resolve_alert(session, identifier=identifier, subject=subject, note=texts.CONDITION_ENDED, now=now)
        return
    earlier = session.execute(
        select(Alert.last_raised_at, Alert.severity).where(
            Alert.identifier == identifier, Alert.subject == subject, Alert.resolved_at.is_(None)
        )
    ).first()
    # Severities compare as texts: SEV-1 sorts first and is the most severe.
    if earlier is not None and condition.severity is not None and condition.severity > earlier.severity:
        # An open alert keeps its severity, so the milder condition gets an alert of its own.
        resolve_alert(session, identifier=identifier, subject=subject, note=texts.CONDITION_MILDER, now=now)
        earlier = None
    is_more_severe = (
        earlier is not None and condition.severity is not None and condition.severity < earlier.severity
    )
    if earlier is not None and not is_more_severe and now - earlier.last_raised_at < REPEAT_AFTER:
        return
    alert_id = raise_alert(
        session,
        identifier=identifier,
        subject=subject,
        title=texts.MONITOR_TITLES[identifier],
        facts=condition.facts,
        now=now,
        severity=condition.severity,
    )
    if earlier is not None:
        repeat_messages(session, alert_id=alert_id, now=now)


def check_error_rate(session: Session, *, now: datetime) -> MonitoredCondition:
    """Check the rate of server errors of the last five minutes."""
    counts = _sum_minutes(session, "error_rate", now=now, window=_ERROR_WINDOW)
    errors, requests = counts.get(BAD, 0), sum(counts.values())
    return MonitoredCondition(
        "ERR_API_SPIKE",
        "api",
        errors >= MIN_ERRORS and errors > MAX_ERROR_RATE * requests,
        {"requests": requests, "serverErrors": errors},
    )


def check_pool_use(session: Session, *, now: datetime) -> MonitoredCondition:
    """Check the use of the connection pools in each of the last three minutes."""
    starts = [(now - timedelta(minutes=back)).replace(second=0, microsecond=0) for back in (1, 2, 3)]
    minutes = [_pool_use(session, start) for start in starts]
    timeouts = [_sum_minute(session, POOL_TIMEOUTS, start) for start in starts]
    # The pool of a busy process can be exhausted while other processes are idle.
    holds = all(use is not None and use > MAX_POOL_USE for use in minutes) or all(timeouts)
    facts: dict[str, Any] = {
        "percentPerMinute": [None if use is None else round(100 * use) for use in minutes],
        "waits": sum(_sum_minutes(session, POOL_WAITS, now=now, window=_POOL_WINDOW).values()),
        "timeouts": sum(timeouts),
    }
    if holds:
        facts["slowestStatements"] = list_slow_statements(session)
    return MonitoredCondition("DB_POOL_SATURATED", "database", holds, facts)


def _pool_use(session: Session, start: datetime) -> float | None:
    """Return the fraction of the connections that were in use in a minute; none without samples."""
    used, maximum = (_sum_minute(session, signal, start) for signal in (POOL_USED, POOL_MAXIMUM))
    return used / maximum if maximum else None


def _sum_minute(session: Session, signal: str, start: datetime) -> int:
    counts = sum_counts(session, signal=signal, minutes=1, since=start, until=start + timedelta(minutes=1))
    return sum(counts.values())


def check_webhook_signatures(session: Session, *, now: datetime) -> MonitoredCondition:
    """Check the number of wrong signatures of the last five minutes."""
    rejected = sum(_sum_minutes(session, WEBHOOK_REJECTED, now=now, window=_REJECTION_WINDOW).values())
    return MonitoredCondition(
        "PAYMENT_WEBHOOK_FAIL", "webhooks", rejected > MAX_REJECTIONS, {"rejected": rejected}
    )


def _sum_minutes(session: Session, signal: str, *, now: datetime, window: timedelta) -> Mapping[int, int]:
    return sum_counts(session, signal=signal, minutes=1, since=now - window, until=now + timedelta(minutes=1))


def list_slow_statements(session: Session) -> list[str]:
    """List the statements with the highest mean execution time, with placeholders for values.

    :return: empty if the server does not have the extension pg_stat_statements
    """
    if session.scalar(text("SELECT to_regclass('pg_stat_statements')")) is None:
        return []
    rows = session.execute(
        text(
            r"""
            SELECT round(mean_exec_time) AS milliseconds, calls, query FROM pg_stat_statements
            WHERE dbid = (SELECT oid FROM pg_database WHERE datname = current_database())
                AND query ~* '^\s*(select|insert|update|delete|with|prepare)\s'
            ORDER BY mean_exec_time DESC LIMIT :limit
            """
        ),
        {"limit": _SLOW_STATEMENTS},
    )
    return [f"{row.milliseconds} ms, {row.calls} calls: {' '.join(row.query.split())[:200]}" for row in rows]


def check_queues(
    database: Database, cache: Cache, hook: ScaleHook, *, queues: tuple[str, ...], now: datetime
) -> int:
    """Raise or resolve the alerts about stalled queues, and request a second worker for each.

    The hook gets the request at each run while a queue stalls, because a request can be lost.

    :param queues: the queues to check; a worker cannot check its own queue, which may be the stalled one
    :return: the number of stalled queues
    """
    with database.reading() as session:
        report = fetch_queue_report(session, cache, now=now)
    stalled = 0
    for queue in queues:
        stats = report.queues[queue]
        oldest = stats.oldest_due_at
        holds = oldest is not None and now - oldest > MAX_WAIT
        facts = {
            "waiting": stats.waiting,
            "oldestSeconds": int((now - oldest).total_seconds()) if oldest else 0,
        }
        was_open = database.in_transaction(
            _apply_queue_condition, queue=queue, holds=holds, facts=facts, now=now
        )
        stalled += holds
        if holds or was_open:
            _request_workers(hook, queue, workers=2 if holds else 1)
    return stalled


def _apply_queue_condition(
    session: Session, *, queue: str, holds: bool, facts: Mapping[str, Any], now: datetime
) -> bool:
    """Apply the condition, and return whether the alert was open."""
    was_open = session.scalar(
        select(Alert.id).where(
            Alert.identifier == "QUEUE_STALL", Alert.subject == f"queue:{queue}", Alert.resolved_at.is_(None)
        )
    )
    apply_condition(session, MonitoredCondition("QUEUE_STALL", f"queue:{queue}", holds, facts), now=now)
    return was_open is not None


def _request_workers(hook: ScaleHook, queue: str, *, workers: int) -> None:
    try:
        hook.request_workers(queue, workers=workers)
    except (ProviderUnavailableError, ProviderRefusedError) as error:
        _log.warning("scale hook failed", queue=queue, error=type(error).__name__)
