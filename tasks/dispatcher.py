"""Dispatch rows to Huey: wake-ups after commits, sweeps, and the processing of a row by a worker.

Huey hands a message out at most once. The rows make it at least once: whatever a lost message or a killed
worker leaves behind is taken up by the sweeps, and the rows' locks and unique keys make the effect exactly
once.
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
from huey import RedisHuey
from sqlalchemy.orm import Session

from marketplace.alerts.operations import raise_alert
from marketplace.background.workers import WORKER_CRASHED, InFlightMarkers, Worker, WorkerActivity
from marketplace.infra import outbox, wakeups
from marketplace.infra.outbox import RetryLaterError
from marketplace.kernel import queues
from marketplace.kernel.errors import ServiceUnavailableError
from marketplace.services import Services
from marketplace.webhooks import inbox as webhooks
from tasks.all_tasks import HANDLERS
from tasks.queues import make_queue
from tasks.registry import PhasedHandler

_log = structlog.get_logger(__name__)

# What a sweep fills a queue up to. What is beyond stays in its rows until these are done.
MAX_QUEUE_LENGTH = 2_000
# What has become due since then has its message on the way, or in a worker's hands.
SWEEP_GRACE = timedelta(seconds=10)
# Without the queues' server a sweep does the work itself, so much of it.
_MAX_INLINE_ROWS = 100
_MAX_INLINE_SECONDS = 10.0
_REDIS_BACKOFF_SECONDS = 1.0
_DUE_MARGIN_SECONDS = 0.05  # a message that came a moment early would find the row not due


@dataclass
class QueueSweepResult:
    """What a sweep did: rows that it handed to their queues, and those that it worked on itself."""

    enqueued: int = field(default=0, metadata={"label": "handed on"})
    processed_inline: int = field(default=0, metadata={"label": "done here"})


class Activity:
    """The rows and tasks that this process works on, for its heartbeats and for putting them back at its end."""

    def __init__(self) -> None:
        self._current: dict[int, WorkerActivity] = {}

    @contextmanager
    def track(
        self, description: str, *, now: datetime, queue: str | None = None, row_id: str | None = None
    ) -> Iterator[None]:
        """Have something go on while the context lasts.

        :param description: for people
        :param now: since when
        :param queue: the queue of a row
        :param row_id: the row's id
        """
        activity = WorkerActivity(description, now, queue, row_id)
        self._current[id(activity)] = activity
        try:
            yield
        finally:
            del self._current[id(activity)]

    def current(self) -> tuple[WorkerActivity, ...]:
        """Tell what goes on, the longest first."""
        # A copy at once: other threads add and take away meanwhile.
        return tuple(self._current.copy().values())


class Dispatcher:
    """The queues of one process, and the one kind of message that they carry: a row's id."""

    def __init__(self, services: Services, *, worker: Worker | None = None) -> None:
        """Make the queues; nothing is connected to until it is used.

        :param worker: this process, if it is one that tells that it lives
        """
        self._services = services
        self.activity = Activity()
        self._in_flight_markers = InFlightMarkers(services.cache, worker)
        self.queues: dict[str, RedisHuey] = {
            name: make_queue(name, services.settings.redis_url) for name in queues.NAMES
        }
        self._run_tasks = {
            name: queue.task(name="run_row")(self.run_row) for name, queue in self.queues.items()
        }
        self._redis_down_until = 0.0

    def send_wakeup(self, queue: str, table: str, row_id: UUID, *, delay_seconds: float = 0) -> bool:
        """Tell a queue that a committed row waits for it.

        It never raises: while the queue's server is gone, rows wait for the sweep.

        :return: whether the queue was told
        """
        if time.monotonic() < self._redis_down_until:
            return False
        try:
            arguments = (queue, table, str(row_id))
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
        """Tell a queue of a row that it is to take up at a time, at once if that has come.

        A message that waits is the queue's own: if it is lost, the sweep takes the row up soon after its time.
        """
        delay = 0 if due_at is None else (due_at - self._services.clock()).total_seconds()
        self.send_wakeup(queue, table, row_id, delay_seconds=delay + _DUE_MARGIN_SECONDS if delay > 0 else 0)

    def run_row(self, queue: str, table: str, row_id: str) -> None:
        """Do what a row asks for; a worker calls it.

        :param queue: the queue that the message came by
        :param table: ``inbox`` or ``outbox``
        :param row_id: the row's id
        """
        row_key, now = f"{table} {row_id}", self._services.clock()
        with (
            self.activity.track(row_key, now=now, queue=queue, row_id=row_id),
            self._in_flight_markers.track(row_key) as crashed_worker,
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
        """Hand the inbox rows that are due to their queue, the longest waiting first.

        :param now: what was due some time before is taken up
        """
        result = QueueSweepResult()
        self._enqueue_due_rows(result, queues.WEBHOOKS, wakeups.INBOX, webhooks.list_due_events, now)
        return result

    def sweep_outbox(self, now: datetime) -> QueueSweepResult:
        """Hand the outbox rows that are due to their queues, the longest waiting first.

        :param now: what was due some time before is taken up
        """
        result = QueueSweepResult()
        for queue in queues.NAMES:
            self._enqueue_due_rows(
                result, queue, wakeups.OUTBOX, partial(outbox.list_due_events, queue=queue), now
            )
        return result

    def requeue_running_rows(self) -> int:
        """Hand back what this process is at, since it must stop: another one takes it up.

        :return: how many rows they are
        """
        running = [activity for activity in self.activity.current() if activity.queue and activity.row_id]
        for activity in running:
            table = activity.what.partition(" ")[0]
            # By then the process is gone, and its locks with it.
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
            # There are messages enough: when they are done, the next sweep hands on what is left.
            return
        with self._services.database.reading() as session:
            due = due_rows(session, now=now - SWEEP_GRACE, limit=capacity or _MAX_INLINE_ROWS)
        for index, row_id in enumerate(due):
            if capacity is None or not self.send_wakeup(queue, table, row_id):
                result.processed_inline += self._process_inline(
                    queue, table, due[index : index + _MAX_INLINE_ROWS]
                )
                break
            result.enqueued += 1

    def _free_capacity(self, queue: str) -> int | None:
        """Tell how many messages more a queue may hold; none if its server is away."""
        try:
            return max(0, MAX_QUEUE_LENGTH - int(self.queues[queue].pending_count()))
        except (redis.RedisError, OSError) as error:
            self._redis_down_until = time.monotonic() + _REDIS_BACKOFF_SECONDS
            _log.warning("queue not asked", queue=queue, error=type(error).__name__)
            return None

    def _process_inline(self, queue: str, table: str, rows: Sequence[UUID]) -> int:
        """Work on rows in this thread, for a while, and tell on how many."""
        until = time.monotonic() + _MAX_INLINE_SECONDS
        for count, row_id in enumerate(rows, start=1):
            try:
                self.run_row(queue, table, str(row_id))
            except ServiceUnavailableError:
                # The database is away, for the next row too.
                raise
            except Exception:  # noqa: BLE001 - logged with its trace; one whose failure can't be noted stays due
                _log.exception("row not worked on", table=table, rowId=str(row_id))
            if time.monotonic() >= until:
                return count
        return len(rows)

    def _record_worker_crash(self, queue: str, table: str, row_id: UUID) -> datetime | None:
        """Count that a worker died at a row as a try of it. The next one comes after the delay, and is a real one.

        :return: when the row is due again
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
        # What was beside it has died with it, and is to be beside it no more.
        share = random.uniform(0.5, 1)  # noqa: S311 - no secret
        return database.in_transaction(_record_failure, row_id, WORKER_CRASHED, now=now, share=share)

    def _run_inbox(self, row_id: UUID) -> datetime | None:
        """Process a webhook event, and return when it is due again."""
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
        """Do an event's work, having called its provider first where it has one.

        :return: when the event is due again
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
            _log.debug("outbox event put off", eventId=str(row_id), reason=reason)
            return database.in_transaction(
                outbox.postpone_event, event_id=row_id, reason=reason, delay=retry_later.delay, now=clock()
            )
        except Exception as error:  # noqa: BLE001 - logged with its trace and kept on the row
            _log.exception("outbox event failed", eventId=str(row_id))
            # The time of the failure: a provider may have taken long to fail.
            return database.in_transaction(_record_failure, row_id, type(error).__name__, now=clock())
        return None


def _record_failure(
    session: Session, event_id: UUID, error: str, *, now: datetime, share: float = 1
) -> datetime | None:
    """Note that an event failed, and raise that it was given up; give when it is due again.

    Many of a kind may fail together: the alert is about the kind of work, and counts them.
    """
    failure = outbox.record_failure(session, event_id=event_id, error=error, now=now, delay_factor=share)
    if failure is not None and failure.due_at is None:
        raise_alert(
            session,
            identifier="OUTBOX_GIVEN_UP",
            subject=failure.topic,
            title="Work was given up after its last try",
            facts={"eventId": event_id, "tries": failure.attempts, "error": error},
            now=now,
        )
    return failure.due_at if failure else None


def connect_wakeups(dispatcher: Dispatcher) -> None:
    """Have the commits of this process send wake-ups to the queues."""

    wakeups.set_wakeup_sender(dispatcher.send_wakeup_when_due)
