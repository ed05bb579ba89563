"""Dispatch rows to Huey: wake-ups after commits, sweeps, and the processing of a row by a worker.

Huey delivers a message at most once. Sweeps enqueue rows again after a lost message or a killed worker, so each row is
processed at least once. Row locks and unique keys make the effect happen exactly once.
"""

import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from uuid import UUID

import redis
import structlog
from sqlalchemy.orm import Session

from marketplace.alerts.operations import raise_alert
from marketplace.background import texts
from marketplace.background.workers import WORKER_CRASHED, InFlightMarkers, Worker, WorkerActivity
from marketplace.infra import outbox, wakeups
from marketplace.infra.outbox import RetryLaterError
from marketplace.kernel import queues
from marketplace.kernel.errors import ServiceUnavailableError
from marketplace.kernel.tracing import current_parent, span
from marketplace.services import Services
from marketplace.webhooks import inbox as webhooks
from tasks.all_tasks import HANDLERS
from tasks.queues import Queue, make_queue
from tasks.registry import PhasedHandler

_log = structlog.get_logger(__name__)

# A sweep fills a queue up to this length. Further rows wait in the database until a later sweep.
MAX_QUEUE_LENGTH = 2_000
# Rows that became due within this time normally have a message in the queue or are in process.
SWEEP_GRACE = timedelta(seconds=10)
# Limits of the work that a sweep does inline while the queue server is unavailable.
_MAX_INLINE_ROWS = 100
_MAX_INLINE_SECONDS = 10.0
_REDIS_BACKOFF_SECONDS = 1.0
_DUE_MARGIN_SECONDS = 0.05  # a message that arrives too early would find a row that is not due


@dataclass
class QueueSweepResult:
    """The result of a sweep: the numbers of enqueued rows and of rows processed inline."""

    enqueued: int = field(default=0, metadata={"label": "enqueued"})
    processed_inline: int = field(default=0, metadata={"label": "processed inline"})


class Activity:
    """The current rows and tasks of this process, for heartbeats and for requeueing at shutdown."""

    def __init__(self) -> None:
        self._current: dict[int, WorkerActivity] = {}

    @contextmanager
    def track(
        self, description: str, *, now: datetime, queue: str | None = None, row_id: str | None = None
    ) -> Iterator[None]:
        """Track an activity during the context.

        :param description: shown to operators
        :param now: the start of the activity
        :param queue: the queue of a row; None for a periodic task
        :param row_id: None for a periodic task
        """
        activity = WorkerActivity(description, now, queue, row_id)
        self._current[id(activity)] = activity
        try:
            yield
        finally:
            del self._current[id(activity)]

    def current(self) -> tuple[WorkerActivity, ...]:
        """List the current activities, the longest running first."""
        # Copy atomically, because other threads add and remove activities.
        return tuple(self._current.copy().values())


class Dispatcher:
    """The queues of a process. Each message contains the id of a row."""

    def __init__(self, services: Services, *, worker: Worker | None = None) -> None:
        """Create the queues, which connect on first use.

        :param worker: this process, if the process sends heartbeats
        """
        self._services = services
        self.activity = Activity()
        self._in_flight_markers = InFlightMarkers(services.cache, worker)
        self.queues: dict[str, Queue] = {
            name: make_queue(name, services.settings.redis_url) for name in queues.NAMES
        }
        self._run_tasks = {
            name: queue.task(name="run_row")(self.run_row) for name, queue in self.queues.items()
        }
        self._redis_down_until = 0.0

    def send_wakeup(
        self, queue: str, table: str, row_id: UUID, *, delay_seconds: float = 0, parent: str | None = None
    ) -> bool:
        """Send a wake-up for a committed row to a queue.

        Errors of the queue server are logged and not raised, because a sweep enqueues the row later.

        :param parent: the ``traceparent`` of the job; none for the current span, empty for a trace of its own
        :return: whether the wake-up was sent
        """
        if time.monotonic() < self._redis_down_until:
            return False
        try:
            parent = current_parent() if parent is None else parent
            arguments = (queue, table, str(row_id), *([parent] if parent else []))
            if delay_seconds:
                self._run_tasks[queue].schedule(arguments, delay=delay_seconds)
            else:
                self._run_tasks[queue](*arguments)
        except (redis.RedisError, OSError) as error:
            self._redis_down_until = time.monotonic() + _REDIS_BACKOFF_SECONDS
            _log.warning("wake-up not sent", queue=queue, error=type(error).__name__)
            return False
        return True

    def send_wakeup_when_due(self, queue: str, table: str, row_id: UUID, due_at: datetime | None) -> None:
        """Send a wake-up for a row that is due at a time; None or a past time means immediately.

        The queue stores the delayed message. If the message is lost, a sweep enqueues the row soon after the due time.
        """
        delay = 0 if due_at is None else (due_at - self._services.clock()).total_seconds()
        self.send_wakeup(queue, table, row_id, delay_seconds=delay + _DUE_MARGIN_SECONDS if delay > 0 else 0)

    def run_row(self, queue: str, table: str, row_id: str, parent: str = "") -> None:
        """Process a row of the inbox or outbox in a worker.

        :param queue: the queue of the message
        :param table: ``inbox`` or ``outbox``
        :param parent: the ``traceparent`` of the request or job that wrote the row, if known
        """
        row_key, now = f"{table} {row_id}", self._services.clock()
        with (
            self.activity.track(row_key, now=now, queue=queue, row_id=row_id),
            self._in_flight_markers.track(row_key) as crashed_worker,
            span(
                f"job {table}",
                kind="consumer",
                parent=parent,
                marketplace__queue=queue,
                marketplace__row_id=row_id,
            ),
        ):
            if crashed_worker:
                due_at = self._record_worker_crash(queue, table, UUID(row_id))
            elif table == wakeups.INBOX:
                due_at = self._run_inbox(UUID(row_id))
            else:
                due_at = self._run_outbox(UUID(row_id))
            if due_at is not None:
                self.send_wakeup_when_due(queue, table, UUID(row_id), due_at)

    def sweep_inbox(self, now: datetime) -> QueueSweepResult:
        """Enqueue the inbox rows that have been due for some time, the earliest due first."""
        result = QueueSweepResult()
        self._enqueue_due_rows(result, queues.WEBHOOKS, wakeups.INBOX, webhooks.list_due_events, now)
        return result

    def sweep_outbox(self, now: datetime) -> QueueSweepResult:
        """Enqueue the outbox rows that have been due for some time, the earliest due first."""
        result = QueueSweepResult()
        for queue in queues.NAMES:
            self._enqueue_due_rows(
                result, queue, wakeups.OUTBOX, partial(outbox.list_due_events, queue=queue), now
            )
        return result

    def requeue_running_rows(self) -> int:
        """Requeue the current rows of this process before a stop, for another worker.

        :return: the number of requeued rows
        """
        running = [activity for activity in self.activity.current() if activity.queue and activity.row_id]
        for activity in running:
            table = activity.what.partition(" ")[0]
            # After this delay the process has ended and its locks are released.
            self.send_wakeup(activity.queue or "", table, UUID(activity.row_id), delay_seconds=3.0)
            self._in_flight_markers.clear(activity.what)
        return len(running)

    def _enqueue_due_rows(
        self,
        result: QueueSweepResult,
        queue: str,
        table: str,
        due_rows: Callable[..., Sequence[UUID]],
        now: datetime,
    ) -> None:
        capacity = self._free_capacity(queue)
        if capacity == 0:
            # The queue is full. A later sweep enqueues the remaining rows.
            return
        with self._services.database.reading() as session:
            due = due_rows(session, now=now - SWEEP_GRACE, limit=capacity or _MAX_INLINE_ROWS)
        for index, row_id in enumerate(due):
            if capacity is None or not self.send_wakeup(queue, table, row_id, parent=""):
                result.processed_inline += self._process_inline(
                    queue, table, due[index : index + _MAX_INLINE_ROWS]
                )
                break
            result.enqueued += 1

    def _free_capacity(self, queue: str) -> int | None:
        """Return the free capacity of a queue in messages; None if the queue server is unavailable."""
        try:
            return max(0, MAX_QUEUE_LENGTH - int(self.queues[queue].pending_count()))
        except (redis.RedisError, OSError) as error:
            self._redis_down_until = time.monotonic() + _REDIS_BACKOFF_SECONDS
            _log.warning("queue length not read", queue=queue, error=type(error).__name__)
            return None

    def _process_inline(self, queue: str, table: str, rows: Sequence[UUID]) -> int:
        """Process rows in this thread for a limited time, and return the number of processed rows."""
        until = time.monotonic() + _MAX_INLINE_SECONDS
        for count, row_id in enumerate(rows, start=1):
            try:
                self.run_row(queue, table, str(row_id))
            except ServiceUnavailableError:
                # The database is unavailable for the next row too.
                raise
            except Exception:  # noqa: BLE001 - logged with the traceback; the row stays due if the failure is not recorded
                _log.exception("row not processed", table=table, rowId=str(row_id))
            if time.monotonic() >= until:
                return count
        return len(rows)

    def _record_worker_crash(self, queue: str, table: str, row_id: UUID) -> datetime | None:
        """Record a worker crash as a failed attempt of a row. The next attempt processes the row after the usual delay.

        :return: the time of the next attempt
        """
        database, now = self._services.database, self._services.clock()
        _log.warning("worker died at row", queue=queue, table=table, rowId=str(row_id))
        if table == wakeups.INBOX:
            result = database.in_transaction(
                webhooks.record_failure,
                row_id,
                WORKER_CRASHED,
                attempt_started_at=now,
                now=now,
                random=random.random,
                parse_body=False,
            )
            return result.due_at if result else None
        # Rows processed in parallel crashed too. A random delay keeps these rows from running in parallel again.
        share = random.uniform(0.5, 1)  # noqa: S311 - not a secret
        return database.in_transaction(_record_failure, row_id, WORKER_CRASHED, now=now, share=share)

    def _run_inbox(self, row_id: UUID) -> datetime | None:
        """Process a webhook event, and return the time of a retry."""
        result = webhooks.process_event(
            self._services.database,
            inbox_id=row_id,
            fee_bearer=self._services.settings.gateway_fee_bearer,
            now=self._services.clock(),
            random=random.random,
            clock=self._services.clock,
        )
        return result.due_at if result else None

    def _run_outbox(self, row_id: UUID) -> datetime | None:
        """Handle an outbox event. A phased handler calls a provider first, outside the transaction.

        :return: the time of the next attempt; None if the event is finished
        """
        database, clock = self._services.database, self._services.clock
        try:
            with database.reading() as session:
                event = outbox.fetch_due_event(session, event_id=row_id, now=clock())
            if event is not None:
                handler = HANDLERS[event.topic]
                if isinstance(handler, PhasedHandler):
                    handler = handler.prepare(self._services, event.payload)
                database.in_transaction(
                    outbox.run_event, event_id=row_id, handlers={event.topic: handler}, now=clock()
                )
        except RetryLaterError as retry_later:
            reason = type(retry_later).__name__
            _log.debug("outbox event postponed", eventId=str(row_id), reason=reason)
            return database.in_transaction(
                outbox.postpone_event, event_id=row_id, reason=reason, delay=retry_later.delay, now=clock()
            )
        except Exception as error:  # noqa: BLE001 - logged with the traceback and recorded on the row
            _log.exception("outbox event failed", eventId=str(row_id))
            # Use the time of the failure, because a provider may take long to fail.
            return database.in_transaction(_record_failure, row_id, type(error).__name__, now=clock())
        return None


def _record_failure(
    session: Session, event_id: UUID, error: str, *, now: datetime, share: float = 1
) -> datetime | None:
    """Record the failure of an outbox event, and raise an alert after the last attempt.

    Many events of a topic may fail together, so there is a single alert per topic, with a count.

    :return: the time of the next attempt, if any
    """
    failure = outbox.record_failure(session, event_id=event_id, error=error, now=now, delay_factor=share)
    if failure is not None and failure.due_at is None:
        raise_alert(
            session,
            identifier="OUTBOX_GIVEN_UP",
            subject=failure.topic,
            title=texts.OUTBOX_GIVEN_UP_TITLE,
            facts={"eventId": event_id, "tries": failure.attempts, "error": error},
            now=now,
        )
    return failure.due_at if failure else None


def connect_wakeups(dispatcher: Dispatcher) -> None:
    """Send wake-ups to the queues after commits of this process."""
    wakeups.set_wakeup_sender(dispatcher.send_wakeup_when_due)
