"""The figures of the queues: counted by the rows that hold the work, since messages to workers may get lost.

- ``waiting``: rows that are due, or wait for their next try, and that nobody works on
- ``active``: rows that workers are at, as their heartbeats of the last second tell
- ``failed``: rows that were given up and lie there: dead webhooks, and outbox events after their last try
- ``completed``: rows that were completed ever, also those that are deleted by now; kept by triggers

What is put off to a later time on purpose, such as the end of a flash sale, is not waiting until then.
"""

from collections import Counter
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.background import workers
from marketplace.background.workers import WorkersSnapshot
from marketplace.infra.cache import Cache, CacheDownError
from marketplace.infra.db import Statement
from marketplace.kernel import queues
from marketplace.kernel.errors import ServiceUnavailableError


@dataclass(frozen=True, slots=True)
class QueueStats:
    """What is known of a queue; ``scheduled`` are the rows that are put off on purpose."""

    waiting: int = 0
    active: int = 0
    failed: int = 0
    completed: int = 0
    scheduled: int = 0
    oldest_due_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class QueueReport:
    """The figures of all queues, and what the cache knows; none of it while the cache is away."""

    queues: dict[str, QueueStats]
    workers: WorkersSnapshot | None


# The inbox is the queue of webhooks. What is open and what failed is counted in indexes that hold nothing else.
_COUNT_QUEUES = Statement(
    text(
        """
        SELECT queue, sum(waiting)::bigint AS waiting, sum(later)::bigint AS later, min(oldest) AS oldest_due_at,
            sum(failed)::bigint AS failed, sum(completed)::bigint AS completed
        FROM (
            SELECT queue, count(*) FILTER (WHERE due_at <= :now OR attempts > 0) AS waiting,
                count(*) FILTER (WHERE due_at > :now AND attempts = 0) AS later,
                min(due_at) FILTER (WHERE due_at <= :now) AS oldest, 0 AS failed, 0 AS completed
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
    """Count, by one statement and one round trip to the cache.

    :param session: one that reads
    :param now: what is due by then is waiting
    """
    try:
        snapshot = workers.fetch_live_workers(cache)
    except CacheDownError:
        snapshot = None
    # A row may be held by two workers for a moment, of whom one will find it done.
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
            # A row that is worked on is open until its transaction commits. A heartbeat's row may be done by now.
            busy = min(active[queue], waiting)
            stats[queue] = QueueStats(waiting - busy, busy, failed, completed, scheduled, oldest_due_at)
    return QueueReport(stats, snapshot)


def fetch_complete_queue_report(
    session: Session, cache: Cache, *, now: datetime
) -> tuple[dict[str, QueueStats], WorkersSnapshot]:
    """Give the figures as ``statistics`` does, where all of them must be known.

    :raises ServiceUnavailableError: the cache is away, and with it what the workers do
    """
    report = fetch_queue_report(session, cache, now=now)
    if report.workers is None:
        raise ServiceUnavailableError(
            "The queues' server can't be reached, so nobody knows what the workers do.", retry_after_seconds=5
        )
    return report.queues, report.workers
