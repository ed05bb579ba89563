"""Waits for the database end at the client's deadline, or when a probe is not answered."""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import replace
from typing import Any

import psycopg2
import pytest
from psycopg2 import extensions
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from bench.recording import note_statements
from marketplace.infra.db import Database, allow_long_statements
from marketplace.infra.sql.statements import Prepared, Statement
from marketplace.infra.waits.circuit import DatabaseCircuit, is_answered
from marketplace.infra.waits.limits import WaitLimits, declared_wait_seconds, web_limits
from marketplace.infra.waits.watch import DatabaseHangsError, WaitExpiredError, WatchedConnection
from marketplace.kernel.errors import ServiceUnavailableError
from sandbox.process import wait_until
from tests.support.installation import query
from tests.support.pgbouncer import connection_mode, pgbouncer, pooled_url, role_settings

__all__ = ["connection_mode", "pgbouncer", "pooled_url", "role_settings"]

_SLEEP = Statement(text("SELECT pg_sleep(:seconds)"))
_PROCESS = Statement(text("SELECT pg_backend_pid() AS id"))
_NUMBER = Prepared(text("SELECT CAST(:number AS bigint) AS number"))
_BOUND_SECONDS = 30.0
# The limits that a test means to exceed are short, all others so long that a slow machine stays within them.
_SHORT = 0.2
_LONG = _BOUND_SECONDS
_NAME = "waits"
# A probe of this scale has 12 s for its answer.
_PATIENT = 50
_DEFERRED_SLEEP = """
    CREATE TEMP TABLE slow (id int) ON COMMIT DROP;
    CREATE FUNCTION pg_temp.sleep() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN PERFORM pg_sleep(60); RETURN NULL; END $$;
    CREATE CONSTRAINT TRIGGER slow_commit AFTER INSERT ON slow DEFERRABLE INITIALLY DEFERRED
        FOR EACH ROW EXECUTE FUNCTION pg_temp.sleep();
    INSERT INTO slow VALUES (1)
"""

Open = Callable[..., Database]


@pytest.fixture
def watched() -> Iterator[Open]:
    """A function that opens a database with limits. Waits of this process have no limits after the test."""
    opened = []

    def open_database(url: str, *, prepared_statements: bool = True, **limits: Any) -> Database:
        given = WaitLimits(
            **{"connect_seconds": _LONG, "read_seconds": _LONG, "write_seconds": _LONG}
            | {"detects_hangs": False}
            | limits
        )
        opened.append(
            Database(
                url,
                pool_size=1,
                application_name=_NAME,
                prepared_statements=prepared_statements,
                wait_limits=given,
            )
        )
        return opened[-1]

    yield open_database
    for database in opened:
        database.close()
    extensions.set_wait_callback(None)


@pytest.fixture
def silent_url() -> Iterator[str]:
    """The address of a server that accepts connections and never answers, as a frozen server does."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        yield f"postgresql://someone@127.0.0.1:{port}/none?sslmode=disable&gssencmode=disable"


def running_statements(url: str) -> int:
    [[count]] = query(
        url,
        "SELECT count(*) FROM pg_stat_activity"
        " WHERE application_name = %s AND datname = current_database() AND state = 'active'",
        _NAME,
    )
    return int(count)


def test_expired_read_is_refused_as_busy_and_cancelled_on_the_server(
    watched: Open, database_url: str
) -> None:
    database = watched(database_url, read_seconds=_SHORT)

    with pytest.raises(ServiceUnavailableError) as refused, database.reading() as session:
        _SLEEP.run(session, seconds=60)

    assert "busy" in refused.value.detail
    assert refused.value.retry_after_seconds
    assert isinstance(refused.value.__cause__, WaitExpiredError)
    assert wait_until(lambda: running_statements(database_url) == 0, timeout_seconds=_BOUND_SECONDS)


def test_connection_of_expired_wait_is_not_used_again(
    watched: Open, connection_mode: tuple[str, bool]
) -> None:
    url, prepared = connection_mode
    database = watched(url, prepared_statements=prepared)
    token = declared_wait_seconds.set(None)
    try:
        with database.reading() as session:
            assert _NUMBER.one(session, number=1)["number"] == 1
            before = _PROCESS.one(session)["id"]
        declared_wait_seconds.set(_SHORT)
        with suppress(ServiceUnavailableError), database.transaction() as session:
            _SLEEP.run(session, seconds=60)
        declared_wait_seconds.set(None)

        with database.reading() as session:
            # Prepared anew on the new connection.
            assert _NUMBER.one(session, number=2)["number"] == 2
            assert _PROCESS.one(session)["id"] != before
    finally:
        declared_wait_seconds.reset(token)


def test_expired_wait_of_the_orm_is_refused_too(watched: Open, database_url: str) -> None:
    database = watched(database_url, read_seconds=_SHORT)

    with pytest.raises(ServiceUnavailableError) as refused, database.reading() as session:
        session.execute(text("SELECT pg_sleep(60)"))

    assert isinstance(refused.value.__cause__, DBAPIError)
    assert "busy" in refused.value.detail
    with database.reading() as session:
        assert session.scalar(text("SELECT 1")) == 1


def test_commit_with_expired_wait_is_reported_as_failed(watched: Open, database_url: str) -> None:
    database = watched(database_url, write_seconds=_SHORT * 5)

    with pytest.raises(ServiceUnavailableError), database.transaction() as session:
        session.execute(text(_DEFERRED_SLEEP))

    assert wait_until(lambda: running_statements(database_url) == 0, timeout_seconds=_BOUND_SECONDS)


def test_transactions_and_reads_have_separate_limits(watched: Open, database_url: str) -> None:
    database = watched(database_url, read_seconds=_SHORT)

    with database.transaction() as session:
        _SLEEP.run(session, seconds=_SHORT * 2)
    with pytest.raises(ServiceUnavailableError), database.reading() as session:
        _SLEEP.run(session, seconds=60)


def test_raised_statement_timeout_raises_the_limit_of_this_session_only(
    watched: Open, database_url: str
) -> None:
    database = watched(database_url, write_seconds=_SHORT)

    with database.transaction() as session:
        allow_long_statements(session, seconds=600)
        assert session.scalar(text("SELECT current_setting('statement_timeout')")) == "10min"
        _SLEEP.run(session, seconds=_SHORT * 2)
    with pytest.raises(ServiceUnavailableError), database.transaction() as session:
        _SLEEP.run(session, seconds=60)


def test_connecting_to_silent_server_ends_at_the_limit(watched: Open, silent_url: str) -> None:
    database = watched(silent_url, connect_seconds=_SHORT)

    with pytest.raises(ServiceUnavailableError, match="busy"), database.reading() as session:
        _PROCESS.one(session)


def test_silent_server_opens_the_circuit_which_refuses_without_connecting(
    watched: Open, silent_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = watched(silent_url, detects_hangs=True)
    with pytest.raises(ServiceUnavailableError, match="reached") as refused, database.reading() as session:
        _PROCESS.one(session)
    assert isinstance(refused.value.__cause__, DatabaseHangsError)

    def connect(*_: object) -> None:
        raise AssertionError("connected")

    monkeypatch.setattr(database.engine, "raw_connection", connect)
    with pytest.raises(ServiceUnavailableError, match="reached"), database.reading() as session:
        _PROCESS.one(session)


def test_long_wait_continues_if_the_probe_is_answered(watched: Open, database_url: str) -> None:
    probes = []

    def connect() -> Any:
        probes.append(psycopg2.connect(database_url, async_=True))
        return probes[-1]

    class Connection(WatchedConnection):
        circuit = DatabaseCircuit(connect, scale=_PATIENT)
        wait_seconds = _LONG

    Connection.circuit.suspect_seconds = _SHORT
    watched(database_url)  # installs the wait callback
    with closing(psycopg2.connect(database_url, connection_factory=Connection)) as connection:
        connection.cursor().execute("SELECT pg_sleep(%s)", (_SHORT * 2,))

    assert len(probes) == 1
    assert wait_until(lambda: not Connection.circuit.is_probing, timeout_seconds=_BOUND_SECONDS)


def test_circuit_closes_when_the_server_answers_again(database_url: str, silent_url: str) -> None:
    url = silent_url
    circuit = DatabaseCircuit(lambda: psycopg2.connect(url, async_=True))
    circuit.suspect(waiting_since=0.0)
    assert wait_until(lambda: circuit.is_open, timeout_seconds=_BOUND_SECONDS)

    url = database_url

    assert wait_until(lambda: not circuit.is_open, timeout_seconds=_BOUND_SECONDS)


def test_refused_connection_counts_as_answer(database_url: str) -> None:
    probed = threading.Event()

    def connect() -> Any:
        probed.set()
        return psycopg2.connect(database_url.replace("/", "/unknown_", 3), async_=True)

    circuit = DatabaseCircuit(connect)
    circuit.suspect(waiting_since=0.0)

    assert probed.wait(_BOUND_SECONDS)
    assert wait_until(lambda: not circuit.is_probing, timeout_seconds=_BOUND_SECONDS)
    assert not circuit.is_open


def test_answer_that_a_busy_process_reads_late_counts_as_answer(database_url: str) -> None:
    class Late(extensions.connection):
        def poll(self) -> int:
            time.sleep(0.05)  # as if other requests used the processor
            return super().poll()

    assert is_answered(
        lambda: psycopg2.connect(database_url, async_=True, connection_factory=Late), seconds=0.06
    )


def test_one_probe_runs_at_a_time(silent_url: str) -> None:
    attempts = threading.Semaphore(0)

    def connect() -> Any:
        attempts.release()
        return psycopg2.connect(silent_url, async_=True)

    circuit = DatabaseCircuit(connect, scale=_PATIENT)
    for _ in range(10):
        circuit.suspect(waiting_since=0.0)

    assert attempts.acquire(timeout=_BOUND_SECONDS)
    assert not attempts.acquire(blocking=False)


def test_scale_multiplies_all_limits(watched: Open, database_url: str) -> None:
    scaled = replace(web_limits(_PATIENT), detects_hangs=False)
    database = watched(database_url, **vars(scaled))

    with database.reading() as session:
        _SLEEP.run(session, seconds=scaled.read_seconds + _SHORT)


def test_bench_records_the_statements_of_watched_connections(watched: Open, database_url: str) -> None:
    database = watched(database_url)
    sent = note_statements(database.engine)

    with database.transaction() as session:
        _NUMBER.one(session, number=7)

    sent_since_begin = sent[sent.index("BEGIN") :]
    assert any("EXECUTE" in statement and "7" in statement for statement in sent_since_begin)
    assert sent[-1] == "COMMIT"
