"""Queue statistics, counted from database rows because messages to workers may get lost.

- ``waiting``: rows that are due or wait for a retry, and that no worker is processing
- ``active``: rows that workers are processing, according to the latest heartbeats
- ``failed``: dead webhooks, and outbox events that failed the last attempt
- ``completed``: all rows ever completed, including deleted rows; counted by triggers

Rows scheduled for a later time, such as the end of a flash sale, are not waiting until that time.
"""

from collections import Counter
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.background import workers
from marketplace.background.workers import WorkersSnapshot
from marketplace.infra.cache import Cache, CacheDownError
from marketplace.infra.sql.statements import Statement
from marketplace.kernel import queues
from marketplace.kernel.errors import ServiceUnavailableError


@dataclass(frozen=True, slots=True)
class QueueStats:
    """The statistics of a queue. ``scheduled`` counts the rows scheduled for a later time.

    :ivar oldest_due_at: the time since which the oldest row waits: due and written
    """

    waiting: int = 0
    active: int = 0
    failed: int = 0
    completed: int = 0
    scheduled: int = 0
    oldest_due_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class QueueReport:
    """The statistics of all queues. ``workers`` is None while the cache is unavailable."""

    queues: dict[str, QueueStats]
    workers: WorkersSnapshot | None


# The inbox is the webhooks queue. Partial indexes contain exactly the open and the failed rows.
_COUNT_QUEUES = Statement(
    text(
        """
        SELECT queue, sum(waiting)::bigint AS waiting, sum(later)::bigint AS later, min(oldest) AS oldest_due_at,
            sum(failed)::bigint AS failed, sum(completed)::bigint AS completed
        FROM (
            SELECT queue, count(*) FILTER (WHERE due_at <= :now OR attempts > 0) AS waiting,
                count(*) FILTER (WHERE due_at > :now AND attempts = 0) AS later,
                min(greatest(due_at, created_at)) FILTER (WHERE due_at <= :now) AS oldest, 0 AS failed, 0 AS completed
            FROM outbox_events WHERE done_at IS NULL AND failed_at IS NULL GROUP BY queue
            UNION ALL
            SELECT :webhooks, count(*), 0, min(due_at) FILTER (WHERE due_at <= :now), 0, 0
            FROM webhook_inbox WHERE status IN ('received', 'retrying')
            UNION ALL SELECT queue, 0, 0, NULL, count(*), 0
                FROM outbox_events WHERE failed_at IS NOT NULL GROUP BY queue
            UNION ALL SELECT :webhooks, 0, 0, NULL, count(*), 0 FROM webhook_inbox WHERE status = 'dead'
            UNION ALL SELECT queue, 0, 0, NULL, 0, completed FROM queue_counts
        ) counted GROUP BY queue
        """
    )
)


def fetch_queue_report(session: Session, cache: Cache, *, now: datetime) -> QueueReport:
    """Fetch the statistics of all queues, in one statement and one round trip to the cache."""
    try:
        snapshot = workers.fetch_live_workers(cache)
    except CacheDownError:
        snapshot = None
    # Two workers may report the same row for a moment, so count each row once.
    in_flight = (
        {(activity.queue, activity.row_id) for worker in snapshot.workers for activity in worker.doing}
        if snapshot
        else set()
    )
    active = Counter(queue for queue, row_id in in_flight if row_id is not None)
    stats = dict.fromkeys(queues.NAMES, QueueStats())
    for queue, waiting, scheduled, oldest_due_at, failed, completed in _COUNT_QUEUES.tuples(
        session, now=now, webhooks=queues.WEBHOOKS
    ):
        if queue in stats:
            # An active row is still open in the database. A row of a heartbeat may be completed by now.
            busy = min(active[queue], waiting)
            stats[queue] = QueueStats(waiting - busy, busy, failed, completed, scheduled, oldest_due_at)
    return QueueReport(stats, snapshot)


def fetch_complete_queue_report(
    session: Session, cache: Cache, *, now: datetime
) -> tuple[dict[str, QueueStats], WorkersSnapshot]:
    """Fetch the statistics of all queues and the live workers.

    :raises ServiceUnavailableError: the cache is unavailable, so the workers are unknown
    """
    report = fetch_queue_report(session, cache, now=now)
    if report.workers is None:
        raise ServiceUnavailableError(
            "The queue server cannot be reached, so the state of the workers is unknown; try again later.",
            retry_after_seconds=5,
        )
    return report.queues, report.workers
