"""The circuit of a process's database: open while the server accepts connections but does not answer."""

import math
import random
import select
import threading
import time
from collections.abc import Callable
from typing import Any

import psycopg2
import structlog
from psycopg2.extensions import POLL_OK, POLL_READ, POLL_WRITE

_log = structlog.get_logger(__name__)

# The first probe of a wait starts after this time. Together with the probe this is shorter than a webhook's deadline.
_SUSPECT_SECONDS = 0.1
_PROBE_SECONDS = 0.25
# A process without processor time reads an answer late. Each step of a probe therefore has at least this time.
_STEP_SECONDS = 0.05
# The pause between probes while the circuit is open. Jitter keeps the processes from probing at the same moment.
_PAUSE_SECONDS = 0.5
_JITTER = 0.2  # as a fraction of the pause, in both directions
# A wait that outlasts a successful probe by this time starts another probe.
_TRUST_SECONDS = 1.0

_POLL_EVENTS = {POLL_READ: select.POLLIN, POLL_WRITE: select.POLLOUT}


class DatabaseCircuit:
    """A circuit that opens if ``SELECT 1`` on a new connection is not answered in time, and closes by the same probe.

    A refused connection or another error counts as an answer: such a server fails requests fast by itself.

    Each process learns by itself. A thread probes only while an answer is doubtful, so that no request waits for a
    probe and the circuit also closes without requests. In gevent processes the thread is a greenlet.
    """

    def __init__(self, connect: Callable[[], Any], *, scale: int = 1) -> None:
        """Start closed, without connecting.

        :param connect: starts an asynchronous connection
        :param scale: the factor of the times until the first probe and until its answer
        """
        self.is_open = False
        self._connect = connect
        self.suspect_seconds = _SUSPECT_SECONDS * scale
        self._probe_seconds = _PROBE_SECONDS * scale
        self._lock = threading.Lock()
        self.is_probing = False
        self._answered_at = -_TRUST_SECONDS

    def suspect(self, *, waiting_since: float) -> None:
        """Start probing because an answer is slow, unless a probe is running or has just been answered.

        :param waiting_since: the start of the wait, in seconds of the monotonic clock
        """
        with self._lock:
            is_trusted = self._answered_at > max(waiting_since, time.monotonic() - _TRUST_SECONDS)
            if self.is_probing or is_trusted:
                return
            self.is_probing = True
        threading.Thread(target=self._probe_until_answered, name="database probe", daemon=True).start()

    def _probe_until_answered(self) -> None:
        opened_at = None
        try:
            while not is_answered(self._connect, seconds=self._probe_seconds):
                self.is_open = True
                if opened_at is None:
                    opened_at = time.monotonic()
                    _log.error("database circuit opened")
                time.sleep(_PAUSE_SECONDS * (1 + _JITTER * (2 * random.random() - 1)))  # noqa: S311 - no secret
            if opened_at is not None:
                _log.warning("database circuit closed", openSeconds=round(time.monotonic() - opened_at, 1))
        finally:
            with self._lock:
                self._answered_at = time.monotonic()
                self.is_open = self.is_probing = False


def is_answered(connect: Callable[[], Any], *, seconds: float) -> bool:
    """Return whether the server answers a new connection and ``SELECT 1`` within a time, be it by an error."""
    deadline = time.monotonic() + seconds
    connection = None
    try:
        connection = connect()
        if not _poll(connection, deadline):
            return False
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
            return _poll(connection, deadline)
    except psycopg2.Error:
        return True
    finally:
        if connection is not None:
            connection.close()


def is_ready(connection: Any, state: int, *, seconds: float) -> bool:
    """Wait until a connection can be polled again. Return whether this is the case in time.

    :param state: the result of the last ``poll``
    """
    if state not in _POLL_EVENTS:
        raise psycopg2.OperationalError("the connection is broken")
    poller = select.poll()
    poller.register(connection.fileno(), _POLL_EVENTS[state])
    return bool(poller.poll(None if math.isinf(seconds) else seconds * 1000))


def _poll(connection: Any, deadline: float) -> bool:
    """Wait for an asynchronous connection until a time of the monotonic clock. Return whether it is ready."""
    while (state := connection.poll()) != POLL_OK:
        if not is_ready(connection, state, seconds=max(deadline - time.monotonic(), _STEP_SECONDS)):
            return False
    return True
