"""The process clock: set by the database and independent of changes of the host's time."""

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest
from sqlalchemy import text

from marketplace.infra.database_clock import DatabaseClock
from marketplace.infra.db import Database
from marketplace.infra.settings import Settings
from marketplace.infra.sql.statements import Statement
from marketplace.webhooks import inbox
from tests.support.probes import closed_port

# Longer than a measurement takes on a busy machine, far shorter than the differences that are corrected.
CLOSE = timedelta(seconds=10)
_LAG = Statement(text("SELECT clock_timestamp() - received_at AS lag FROM webhook_inbox WHERE id = :id"))


@dataclass
class Host:
    """A host with a wrong time that a test can change."""

    database: Database
    error: timedelta = timedelta()
    passed_seconds: float = 0.0
    clock: DatabaseClock = field(init=False)

    def __post_init__(self) -> None:
        self.clock = DatabaseClock(self.database, system=self.time, monotonic=self.monotonic)

    def time(self) -> datetime:
        return datetime.now(UTC) + self.error

    def monotonic(self) -> float:
        return time.monotonic() + self.passed_seconds


@pytest.fixture
def pool(settings: Settings) -> Iterator[Database]:
    """A separate pool that no other clock uses for measurements."""
    database = Database(settings.database_url, pool_size=2, application_name="clocks")
    yield database
    database.close()


def use(database: Database) -> None:
    with database.reading() as session:
        session.execute(text("SELECT 1"))


def error_of(clock: DatabaseClock) -> timedelta:
    return abs(clock() - datetime.now(UTC))


@pytest.mark.parametrize("seconds", [90, -90, 86_400, -400 * 86_400])
def test_host_with_wrong_time_writes_database_time(pool: Database, settings: Settings, seconds: int) -> None:
    other_pool = Database(settings.database_url, pool_size=1, application_name="clocks")
    right, wrong = Host(other_pool), Host(pool, timedelta(seconds=seconds))

    for host in (wrong, right):
        row_id = host.database.in_transaction(
            inbox.receive_event, provider="gateway", body=uuid4().bytes, now=host.clock()
        )
        with host.database.reading() as session:
            assert abs(_LAG.scalar(session, id=row_id)) < CLOSE
    assert abs(wrong.clock() - right.clock()) < CLOSE
    other_pool.close()


@pytest.mark.parametrize("seconds", [-1, 1, -3600, 3600])
def test_step_of_host_time_has_no_effect(pool: Database, seconds: int) -> None:
    host = Host(pool)
    times = [host.clock()]

    host.error += timedelta(seconds=seconds)
    times += [host.clock() for _ in range(3)]

    assert times == sorted(times)
    assert times[-1] - times[0] < CLOSE


def test_small_time_difference_is_not_corrected(pool: Database) -> None:
    """Correcting small differences would move the time back and forth at each measurement."""
    host = Host(pool, timedelta(milliseconds=-200))
    host.clock()

    assert max(datetime.now(UTC) - host.clock() for _ in range(20)) > timedelta(milliseconds=150)


def test_error_of_monotonic_clock_is_corrected_at_next_measurement(pool: Database) -> None:
    """The monotonic clock of a suspended machine stops. The test lets the clock run ahead, which is equivalent."""
    host = Host(pool)
    host.clock()

    host.passed_seconds += 3600
    assert error_of(host.clock) > timedelta(minutes=59)
    use(pool)

    assert error_of(host.clock) < CLOSE


def test_time_is_not_measured_in_a_transaction(pool: Database) -> None:
    host = Host(pool)
    with pool.transaction() as session:
        session.execute(text("SELECT 1"))
        host.passed_seconds += 3600
        before = host.clock()
        session.execute(text("SELECT 1"))
        assert host.clock() - before < CLOSE

    use(pool)
    assert error_of(host.clock) < CLOSE


def test_measurement_leaves_no_transaction_open(pool: Database) -> None:
    host = Host(pool, timedelta(seconds=90))
    host.clock()
    for _ in range(2):
        host.passed_seconds += 61
        with pool.reading() as session:
            session.execute(text("SELECT 1"))
            state = session.execute(
                text("SELECT xact_start = query_start FROM pg_stat_activity WHERE pid = pg_backend_pid()")
            )
            assert state.scalar_one()
        with pool.transaction() as session:
            session.execute(text("SELECT 1"))


def test_host_time_is_used_while_database_is_unreachable() -> None:
    away = Database(
        f"postgresql://nobody@127.0.0.1:{closed_port()}/none", pool_size=1, application_name="clocks"
    )
    host = Host(away, timedelta(seconds=90))

    assert timedelta(seconds=80) < host.clock() - datetime.now(UTC) < timedelta(seconds=100)
    away.close()
