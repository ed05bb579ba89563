"""The clock of a process, synchronised with the database's clock."""

import contextlib
import statistics
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg2
import structlog
from sqlalchemy import event

from marketplace.infra.db import Database
from marketplace.infra.sessions import driver_connection
from marketplace.infra.settings import SettingsError
from marketplace.kernel.clock import Clock, system_clock
from marketplace.kernel.errors import ServiceUnavailableError

_log = structlog.get_logger(__name__)

_MEASURE_EVERY_SECONDS = 60.0
# Hosts with NTP differ by less. Smaller corrections would make the time of a process jump back and forth.
_TOLERANCE = timedelta(milliseconds=250)


class DatabaseClock:
    """A clock with the database's time. Between measurements, the process's monotonic clock advances the time.

    Later changes of the host's time have no effect, and processes on different hosts agree on the time to about
    ``_TOLERANCE``. At most once a minute, a connection that leaves the pool measures the database's time, before its
    transaction begins.
    """

    def __init__(
        self,
        database: Database,
        *,
        system: Clock = system_clock,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """Start with the host's time.

        :param monotonic: returns seconds that are independent of changes of the host's time
        """
        self._database = database
        self._monotonic = monotonic
        self._origin = system() - timedelta(seconds=monotonic())  # the time at which monotonic() was zero
        self._was_measured = False
        self._measure_at = monotonic()
        event.listen(database.engine, "checkout", self._on_checkout)

    def __call__(self) -> datetime:
        """Return the current time in UTC.

        The first call measures the database's time unless a connection already did. Before the first successful
        measurement, the clock uses the host's time.
        """
        if not self._was_measured:
            self._was_measured = True
            # If the database is unavailable, the caller's own statements report the error.
            with (
                contextlib.suppress(ServiceUnavailableError, SettingsError),
                self._database.reading() as session,
            ):
                driver_connection(session)
        return self._origin + timedelta(seconds=self._monotonic())

    def _on_checkout(self, connection: Any, *_pool: Any) -> None:
        if self._monotonic() >= self._measure_at:
            self._was_measured = True
            self._measure_at = self._monotonic() + _MEASURE_EVERY_SECONDS
            # A broken connection also fails the caller's statement, which reports the error.
            with contextlib.suppress(psycopg2.Error):
                self._measure(connection)

    def _measure(self, connection: Any) -> None:
        origins, longest = [], 0.0
        with connection.cursor() as cursor:
            for _ in range(3):
                asked = self._monotonic()
                cursor.execute("SELECT clock_timestamp()")
                [answer] = cursor.fetchone()
                answered = self._monotonic()
                origins.append(answer.astimezone(UTC) - timedelta(seconds=(asked + answered) / 2))
                longest = max(longest, answered - asked)
        connection.rollback()
        origin = statistics.median(origins)
        correction = origin - self._origin
        # The server read its clock at any time between the query and the response.
        if abs(correction) > _TOLERANCE + timedelta(seconds=longest / 2):
            self._origin = origin
            _log.warning("clock set by the database", seconds=correction.total_seconds())
