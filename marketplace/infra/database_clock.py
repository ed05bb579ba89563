"""The clock of a process, set by the database's."""

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
# Hosts with NTP differ by less. Following each measurement would make the time of a process jump back and forth.
_TOLERANCE = timedelta(milliseconds=250)


class DatabaseClock:
    """The time of the database, kept between measurements by the process's monotonic clock.

    Changes of the host's own time have no effect after the start, and processes on hosts whose times differ agree.
    A connection that leaves the pool measures the difference, before its transaction begins.
    """

    def __init__(
        self,
        database: Database,
        *,
        system: Clock = system_clock,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """Start with the host's time.

        :param database: its time is followed
        :param system: the host's time
        :param monotonic: seconds that no change of the host's time affects
        """
        self._database = database
        self._monotonic = monotonic
        self._origin = system() - timedelta(seconds=monotonic())  # the time at which monotonic() was zero
        self._was_measured = False
        self._measure_at = monotonic()
        event.listen(database.engine, "checkout", self._on_checkout)

    def __call__(self) -> datetime:
        """Tell the current time, in UTC.

        The first call measures, if no connection has done so yet; while the database can't be used, the host's time
        holds.
        """
        if not self._was_measured:
            self._was_measured = True
            # The caller's own statements fail likewise.
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
            # A connection that fails here fails the statement that it was taken for, which says so.
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
        # The answer's time lies anywhere between question and answer.
        if abs(correction) > _TOLERANCE + timedelta(seconds=longest / 2):
            self._origin = origin
            _log.warning("clock set by the database", seconds=correction.total_seconds())
