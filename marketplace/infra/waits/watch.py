"""Watched connections: each wait for the server ends at a deadline, or as soon as the circuit opens.

psycopg2 calls the wait callback for every answer, also while connecting and committing. In gevent processes
``select.poll`` is gevent's, so the same callback lets other requests run. A wait callback forbids COPY.
"""

import math
import select
import time
from collections.abc import Callable
from typing import Any

import psycopg2
import structlog
from psycopg2 import extensions
from psycopg2.extensions import POLL_OK, POLL_READ

from marketplace.infra import texts
from marketplace.infra.waits.circuit import DatabaseCircuit, is_ready
from marketplace.infra.waits.limits import WaitLimits, declared_wait_seconds
from marketplace.kernel.errors import ServiceUnavailableError

_log = structlog.get_logger(__name__)

# A doubtful wait checks the circuit this often.
_CHECK_SECONDS = 0.02
RETRY_AFTER_SECONDS = 5


class WaitExpiredError(psycopg2.OperationalError):
    """The server did not answer in time. psycopg2 has closed the connection, so the outcome of a commit is unknown."""


class DatabaseHangsError(psycopg2.OperationalError):
    """The circuit opened during the wait. psycopg2 has closed the connection."""


class WatchedConnection(extensions.connection):
    """A connection with a limit on each wait, which sessions set, and the circuit of its database."""

    wait_seconds: float
    circuit: DatabaseCircuit | None = None
    # Of a connected connection: waits for data, and for how long before there is doubt.
    poller: Any = None
    undoubted_milliseconds: float = 0.0


class Watch:
    """The limits and the circuit of a database's connections."""

    def __init__(self, limits: WaitLimits, *, connect: Callable[[], Any]) -> None:
        """Create the class of watched connections, and install the wait callback in this process.

        :param connect: starts an asynchronous connection for a probe
        """
        self._limits = limits
        self._circuit = DatabaseCircuit(connect, scale=limits.scale) if limits.detects_hangs else None
        self._undoubted_seconds = self._circuit.suspect_seconds if self._circuit else math.inf
        self.connection_class = type(
            "WatchedConnection",
            (WatchedConnection,),
            {"circuit": self._circuit, "wait_seconds": limits.connect_seconds * limits.scale},
        )
        extensions.set_wait_callback(wait_for_server)

    def ensure_answering(self) -> None:
        """Refuse to use the database while the circuit is open.

        :raises ServiceUnavailableError: the circuit is open
        """
        if self._circuit is not None and self._circuit.is_open:
            raise ServiceUnavailableError(texts.DATABASE_UNAVAILABLE, retry_after_seconds=RETRY_AFTER_SECONDS)

    def limit_waits(self, connection: Any, *, autocommit: bool) -> None:
        """Limit the waits of a session: as the request's route declares, or by the kind of session."""
        limits = self._limits
        kind_seconds = limits.read_seconds if autocommit else limits.write_seconds
        seconds = (declared_wait_seconds.get() or kind_seconds) * limits.scale
        connection.wait_seconds = seconds
        connection.undoubted_milliseconds = min(seconds, self._undoubted_seconds) * 1000
        if connection.poller is None:
            connection.poller = select.poll()
            connection.poller.register(connection.fileno(), select.POLLIN)


def wait_for_server(connection: Any) -> None:
    """Wait until the server has answered. psycopg2 closes the connection after an error.

    :raises WaitExpiredError: the server did not answer in time
    :raises DatabaseHangsError: a probe on another connection was not answered either
    """
    state = connection.poll()
    # Nearly all waits end here. The loop for doubtful waits costs twice as much.
    if state == POLL_READ and (poller := getattr(connection, "poller", None)) is not None:
        started = time.monotonic()
        if poller.poll(connection.undoubted_milliseconds):
            state = connection.poll()
        if state != POLL_OK:
            _wait_in_doubt(connection, state, started=started)
    elif state != POLL_OK:
        _wait_in_doubt(connection, state, started=time.monotonic())


def _wait_in_doubt(connection: Any, state: int, *, started: float) -> None:
    """Go on waiting. After a while, probe and watch the circuit beside the connection."""
    circuit: DatabaseCircuit | None = getattr(connection, "circuit", None)
    limit_seconds: float = getattr(connection, "wait_seconds", math.inf)
    while state != POLL_OK:
        waited = time.monotonic() - started
        if circuit is not None and circuit.is_open:
            raise DatabaseHangsError("the database hangs")
        if waited >= limit_seconds:
            _log.warning("database wait expired", limitSeconds=limit_seconds)
            raise WaitExpiredError("the database did not answer in time")
        seconds = limit_seconds - waited
        if circuit is not None:
            doubted_in = circuit.suspect_seconds - waited
            if doubted_in <= 0:
                circuit.suspect(waiting_since=started)
            seconds = min(seconds, doubted_in if doubted_in > 0 else _CHECK_SECONDS)
        if is_ready(connection, state, seconds=seconds):
            state = connection.poll()
