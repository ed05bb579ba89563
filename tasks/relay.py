"""From rows to Huey and back: nudges after commits, and what a worker does with a row.

Huey hands a message out at most once. The rows make it at least once: whatever a lost message or a killed
worker leaves behind is taken up by the sweeps, and the rows' locks and unique keys make the effect exactly
once.
"""

import random
import time
from collections.abc import Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

import redis
import structlog
from huey import RedisHuey
from sqlalchemy.orm import Session

from marketplace.alerts import kinds
from marketplace.alerts.operations import raise_alert
from marketplace.infra import nudges, outbox
from marketplace.infra.outbox import Handler
from marketplace.kernel import queues
from marketplace.kernel.errors import ServiceUnavailableError
from marketplace.services import Services
from marketplace.webhooks import operations as webhooks
from tasks.alerts import HANDLERS as ALERT_HANDLERS
from tasks.catalog import HANDLERS as CATALOG_HANDLERS
from tasks.payments import HANDLERS as PAYMENT_HANDLERS
from tasks.phases import Phased
from tasks.promotions import HANDLERS as PROMOTION_HANDLERS
from tasks.queues import make_queue

_log = structlog.get_logger(__name__)

HANDLERS: Mapping[str, Handler | Phased[Any, Any]] = {
    **CATALOG_HANDLERS,
    **PROMOTION_HANDLERS,
    **PAYMENT_HANDLERS,
    **ALERT_HANDLERS,
}
SWEEP_BATCH = 500
_SWEEP_SECONDS = 45.0  # the next sweep begins after a minute
_DOWN_SECONDS = 1.0
_AFTER_DUE_SECONDS = 0.05  # a message that came a moment early would find the row not due


class Relay:
    """The queues of one process, and the one kind of message that they carry: a row's id."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self.queues: dict[str, RedisHuey] = {
            name: make_queue(name, services.settings.redis_url) for name in queues.NAMES
        }
        self._run = {name: queue.task(name="run_row")(self.run_row) for name, queue in self.queues.items()}
        self._down_until = 0.0

    def nudge(self, queue: str, table: str, row_id: UUID, *, delay_seconds: float = 0) -> None:
        """This function will tell a queue that a committed row waits for it.

        It never raises: while the queue's server is gone, rows wait for the sweep.
        """
        if time.monotonic() < self._down_until:
            return
        try:
            arguments = (queue, table, str(row_id))
            if delay_seconds:
                self._run[queue].schedule(arguments, delay=delay_seconds)
            else:
                self._run[queue](*arguments)
        except (redis.RedisError, OSError) as error:
            self._down_until = time.monotonic() + _DOWN_SECONDS
            _log.warning("queue not nudged", queue=queue, error=type(error).__name__)

    def nudge_when_due(self, queue: str, table: str, row_id: UUID, due_at: datetime | None) -> None:
        """This function will tell a queue of a row that it is to take up at a time, at once if that has come.

        A message that waits is the queue's own: while it is lost, the sweep of each minute takes the row up.
        """
        delay = 0 if due_at is None else (due_at - self._services.clock()).total_seconds()
        self.nudge(queue, table, row_id, delay_seconds=delay + _AFTER_DUE_SECONDS if delay > 0 else 0)

    def run_row(self, queue: str, table: str, row_id: str) -> None:
        """This function will do what a row asks for; a worker calls it.

        :param queue: the queue that the message came by
        :param table: ``inbox`` or ``outbox``
        :param row_id: the row's id
        """
        if table == nudges.INBOX:
            self._run_inbox(queue, UUID(row_id))
        else:
            self._run_outbox(queue, UUID(row_id))

    def sweep_inbox(self, now: datetime) -> int:
        """This function will process the inbox rows that are due, until none is left or its time is over.

        :param now: the time that it takes for now
        :return: how many rows it looked at
        """
        database = self._services.database
        database.in_transaction(webhooks.pull_in, now=now)
        count, until = 0, time.monotonic() + _SWEEP_SECONDS
        while time.monotonic() < until:
            with database.reading() as session:
                due = webhooks.due_events(session, now=now, most=SWEEP_BATCH)
            moved = sum(self._run_inbox_apart(row_id) for row_id in due)
            count += len(due)
            if len(due) < SWEEP_BATCH or not moved:
                break
        return count

    def sweep_outbox(self, now: datetime) -> int:
        """This function will hand the outbox rows that are due to their queues, and tell how many they were."""
        count = 0
        for queue in queues.NAMES:
            with self._services.database.reading() as session:
                due = outbox.due_events(session, queue=queue, now=now, most=SWEEP_BATCH)
            for row_id in due:
                self.nudge(queue, nudges.OUTBOX, row_id)
            count += len(due)
        return count

    def _run_inbox_apart(self, row_id: UUID) -> bool:
        """Process a row of a sweep; one whose failure can't even be noted must not hold up those behind it."""
        try:
            return self._run_inbox(queues.WEBHOOKS, row_id)
        except ServiceUnavailableError:
            # The database is away, for the next row too.
            raise
        except Exception:  # noqa: BLE001 - logged with its trace; the row stays due
            _log.exception("inbox row not processed", inboxId=str(row_id))
            return False

    def _run_inbox(self, queue: str, row_id: UUID) -> bool:
        """Process a row, and tell whether it was ours to process."""
        result = webhooks.process(
            self._services.database,
            inbox_id=row_id,
            fee_bearer=self._services.settings.gateway_fee_bearer,
            now=self._services.clock(),
            random=random.random,
            clock=self._services.clock,
        )
        if result is not None and result.due_at is not None:
            self.nudge_when_due(queue, nudges.INBOX, row_id, result.due_at)
        return result is not None

    def _run_outbox(self, queue: str, row_id: UUID) -> None:
        database, clock = self._services.database, self._services.clock
        try:
            self._do(row_id)
        except Exception as error:  # noqa: BLE001 - logged with its trace and kept on the row
            _log.exception("outbox event failed", eventId=str(row_id))
            described = type(error).__name__
            # The time of the failure: a provider may have taken long to fail.
            due_at = database.in_transaction(_note_failure, row_id, described, now=clock())
            if due_at is not None:
                self.nudge_when_due(queue, nudges.OUTBOX, row_id, due_at)

    def _do(self, row_id: UUID) -> None:
        """Do an event's work, having asked its provider first where it has one."""
        database, clock = self._services.database, self._services.clock
        with database.reading() as session:
            event = outbox.due_event(session, event_id=row_id, now=clock())
        if event is None:
            return
        handler = HANDLERS[event.topic]
        if isinstance(handler, Phased):
            handler = handler.asked(self._services, event.payload)
        database.in_transaction(
            outbox.run_event, event_id=row_id, handlers={event.topic: handler}, now=clock()
        )


def _note_failure(session: Session, event_id: UUID, error: str, *, now: datetime) -> datetime | None:
    """Note that an event failed, and raise that it was given up; give when it is due again.

    Many of a kind may fail together: the alert is about the kind of work, and counts them.
    """
    failure = outbox.note_failure(session, event_id=event_id, error=error, now=now)
    if failure is not None and failure.due_at is None:
        raise_alert(
            session,
            identifier=kinds.OUTBOX_GIVEN_UP,
            subject=failure.topic,
            title="Work was given up after its last try",
            facts={"eventId": event_id, "tries": failure.attempts, "error": error},
            now=now,
        )
    return failure.due_at if failure else None


def connect_nudges(relay: Relay) -> None:
    """This function will have this process's commits nudge the queues."""

    nudges.set_nudge(relay.nudge_when_due)
