"""The gateway's background work: results of transfers and refunds, and delivery of webhooks."""

import sqlite3
import threading
from concurrent.futures import Future, ThreadPoolExecutor

import structlog

from sandbox.providers.gateway import refunds, transfers, webhooks
from sandbox.providers.gateway.context import Gateway

# Number of concurrent webhook deliveries. A hanging receiver occupies a sender only until the time-out.
SENDERS = 16
# Maximum sleep without due work. A change of the system clock is noticed after this time.
LONGEST_NAP_SECONDS = 30.0
# Pause after a database error, so that a full disk does not cause a busy loop.
PAUSE_AFTER_ERROR_SECONDS = 1.0

log = structlog.stdlib.get_logger(__name__)


class Clockwork:
    """A background thread that sleeps until work is due or ``wake`` is called."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._woken = False
        self._stopping = False
        self._under_way: set[int] = set()
        self._senders = ThreadPoolExecutor(max_workers=SENDERS, thread_name_prefix="sandbox-webhook")
        self._thread: threading.Thread | None = None

    def start(self, gateway: Gateway) -> None:
        """Start the thread, which continues unfinished work of an earlier run."""
        with gateway.store.transaction() as connection:
            webhooks.forget_old(connection)
        self._thread = threading.Thread(
            target=self._run, args=(gateway,), name="sandbox-clockwork", daemon=True
        )
        self._thread.start()

    def wake(self) -> None:
        """Make the thread check for due work."""
        with self._changed:
            self._woken = True
            self._changed.notify()

    def stop(self) -> None:
        """Stop the thread after the deliveries in progress. Due work is kept for the next run."""
        with self._changed:
            self._stopping = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join()
        self._senders.shutdown(wait=True, cancel_futures=True)

    def _run(self, gateway: Gateway) -> None:
        while True:
            try:
                nap = self._work(gateway)
            except sqlite3.Error:
                log.exception("sandbox database error")
                nap = PAUSE_AFTER_ERROR_SECONDS
            with self._changed:
                if not self._woken and not self._stopping:
                    self._changed.wait(timeout=nap)
                self._woken = False
                if self._stopping:
                    return

    def _work(self, gateway: Gateway) -> float:
        """Do all due work.

        :return: seconds until more work is due
        """
        now = gateway.clock()
        with gateway.store.transaction() as connection:
            transfers.finish_due(connection, now=now)
            refunds.finish_due(connection, now=now)
            with self._changed:
                busy = set(self._under_way)
            found = webhooks.due(connection, now=now, limit=2 * SENDERS)
            times = [
                moment
                for moment in (
                    webhooks.next_due_at(connection, after=now),
                    transfers.next_due_at(connection),
                    refunds.next_due_at(connection),
                )
                if moment is not None
            ]
        for delivery in found:
            if delivery["id"] not in busy:
                self._hand_over(gateway, delivery)
        return min([LONGEST_NAP_SECONDS, *(max(0.0, moment - now.timestamp()) for moment in times)])

    def _hand_over(self, gateway: Gateway, delivery: sqlite3.Row) -> None:
        with self._changed:
            self._under_way.add(delivery["id"])

        def done(future: Future[None]) -> None:
            with self._changed:
                self._under_way.discard(delivery["id"])
            if not future.cancelled() and (error := future.exception()) is not None:
                # The delivery is still due and is found by the next check. Waking the thread now would cause a
                # busy loop.
                log.error("sandbox webhook not recorded", delivery_id=delivery["id"], error=repr(error))
            else:
                self.wake()

        self._senders.submit(webhooks.send, gateway, delivery).add_done_callback(done)
