"""Rows that kill the worker, as a fault in a library or a lack of memory does.

As a program, ``python -m tests.support.poison_messages QUEUE``, the module is a worker that such rows kill.
``PoisonedQueue`` is the supervisor.
"""

import os
import signal
import sys
from collections.abc import Sequence
from typing import Any
from uuid import UUID

from marketplace.background import workers
from marketplace.infra import wakeups
from marketplace.infra.cache import Cache
from marketplace.kernel import queues
from marketplace.webhooks import events, inbox as webhooks
from tasks import dispatcher, worker
from tests.support.forked_processes import Forked
from tests.support.service_processes import ServiceProcesses

BODY = b"poison"
TOPIC = "test.poison"
_AGAIN = {
    wakeups.INBOX: "UPDATE webhook_inbox SET due_at = now()"
    " WHERE id = %s AND status = 'retrying' AND due_at > now() RETURNING id",
    wakeups.OUTBOX: "UPDATE outbox_events SET due_at = now()"
    " WHERE id = %s AND failed_at IS NULL AND due_at > now() RETURNING id",
}


class PoisonedQueue:
    """A queue with poison messages and a worker that is restarted after each crash.

    Retries run at once, as if the sweeps had enqueued the rows.
    """

    def __init__(self, site: ServiceProcesses, queue: str = queues.WEBHOOKS) -> None:
        self._site, self._queue = site, queue
        self._cache = Cache(site.valkey.url)
        self._rows: dict[UUID, str] = {}
        self.workers: list[Forked] = []
        self._start()

    def _start(self) -> None:
        self.workers.append(self._site.worker(self._queue, module="tests.support.poison_messages"))

    def add_event(self, *, attempts: int) -> UUID:
        """Add an event with a number of earlier attempts and return the row id."""
        [[row_id]] = self._site.query(
            "INSERT INTO webhook_inbox (provider, body, status, attempts, due_at)"
            " VALUES ('gateway', %s, 'retrying', %s, now() - interval '1 minute') RETURNING id",
            BODY,
            attempts,
        )
        return self.enqueue_when_due(wakeups.INBOX, row_id)

    def add_work(self, *, attempts: int) -> UUID:
        """Add an outbox row with a number of earlier attempts and return the row id."""
        [[row_id]] = self._site.query(
            "INSERT INTO outbox_events (queue, topic, payload, attempts, due_at)"
            " VALUES (%s, %s, '{}', %s, now() - interval '1 minute') RETURNING id",
            self._queue,
            TOPIC,
            attempts,
        )
        return self.enqueue_when_due(wakeups.OUTBOX, row_id)

    def enqueue_when_due(self, table: str, row_id: object) -> UUID:
        """Enqueue a row whenever a retry is due."""
        attended = UUID(str(row_id))
        self._rows[attended] = table
        self._site.enqueue(self._queue, table, attended)
        return attended

    def supervise(self) -> bool:
        """Restart a crashed worker, enqueue due retries, and return True."""
        died = not self.workers[-1].running
        if died:
            # Simulate the expiry of the crashed worker's heartbeat.
            for one in workers.fetch_live_workers(self._cache).workers:
                workers.remove_worker(self._cache, one.name)
            self._start()
        for row_id, table in self._rows.items():
            if self._site.query(_AGAIN[table], str(row_id)) or died:
                self._site.enqueue(self._queue, table, row_id)
        return True

    def waiting(self, rows: Sequence[UUID]) -> bool:
        """Return whether any of these rows is neither processed nor a dead letter."""
        return bool(
            self._site.query(
                "SELECT id FROM webhook_inbox WHERE id = ANY(%s::uuid[]) AND finished_at IS NULL"
                " UNION ALL SELECT id FROM outbox_events"
                " WHERE id = ANY(%s::uuid[]) AND done_at IS NULL AND failed_at IS NULL",
                *[[str(row_id) for row_id in rows]] * 2,
            )
        )


def _die(*_: object) -> Any:
    os.kill(os.getpid(), signal.SIGKILL)


def _parse(body: bytes) -> events.Event:
    event: events.Event = _die() if body == BODY else events.parse_gateway_event(body)
    return event


if __name__ == "__main__":
    webhooks._PARSERS[webhooks.GATEWAY] = _parse
    dispatcher.HANDLERS = {**dispatcher.HANDLERS, TOPIC: _die}
    sys.exit(worker.main(sys.argv[1:]))
