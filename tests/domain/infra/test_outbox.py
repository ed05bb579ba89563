"""The outbox: wake-ups after commit, single processing, retries with growing delays, final failure."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from sqlalchemy.orm import Session

from marketplace.infra import outbox, wakeups
from marketplace.infra.db import Database
from marketplace.infra.outbox import MAX_TRIES
from tests.support.purchases import NOW, later, row_of

QUEUE = "notifications"
Wakeups = list[tuple[str, str, UUID, datetime | None]]


@pytest.fixture
def wakeups_sent() -> Iterator[Wakeups]:
    """Collect wake-ups instead of sending messages to queues."""
    before, seen = list(wakeups._wakeup_senders), []
    wakeups.set_wakeup_sender(lambda *wakeup: seen.append(wakeup))
    yield seen
    wakeups._wakeup_senders[:] = before


def enqueue(session: Session, *, due_at: datetime = NOW, topic: str = "test") -> UUID:
    return outbox.enqueue(session, queue=QUEUE, topic=topic, payload={"n": 7}, due_at=due_at)


def row(database: Database, event_id: UUID) -> dict[str, Any]:
    with database.reading() as session:
        return row_of(session, "outbox_events", id=event_id)


def run(database: Database, event_id: UUID, handler: outbox.Handler, now: datetime = NOW) -> bool:
    return database.in_transaction(outbox.run_event, event_id=event_id, handlers={"test": handler}, now=now)


class TestWakeups:
    def test_wakeups_are_sent_after_the_commit(self, database: Database, wakeups_sent: Wakeups) -> None:
        with database.transaction() as session:
            event_id = enqueue(session)
            assert wakeups_sent == []

        assert wakeups_sent == [(QUEUE, "outbox", event_id, NOW)]

    def test_rollback_sends_no_wakeup(self, database: Database, wakeups_sent: Wakeups) -> None:
        def fail() -> None:
            with database.transaction() as session:
                enqueue(session)
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            fail()
        with database.transaction():
            pass

        assert wakeups_sent == []

    def test_released_savepoint_sends_no_wakeup_before_commit(
        self, database: Database, wakeups_sent: Wakeups
    ) -> None:
        with database.transaction() as session:
            with session.begin_nested():
                event_id = enqueue(session)
            assert wakeups_sent == []

        assert wakeups_sent == [(QUEUE, "outbox", event_id, NOW)]


class TestRunning:
    def test_event_runs_once_with_payload(self, database: Database, wakeups_sent: Wakeups) -> None:
        with database.transaction() as session:
            event_id = enqueue(session)
        done: list[tuple[dict[str, Any], datetime]] = []

        def handler(_session: Session, payload: dict[str, Any], now: datetime) -> None:
            done.append((payload, now))

        assert run(database, event_id, handler, later(seconds=3))
        assert not run(database, event_id, handler, later(seconds=4))

        assert done == [({"n": 7}, later(seconds=3))]
        found = row(database, event_id)
        assert (found["done_at"], found["attempts"]) == (later(seconds=3), 1)

    def test_outbox_event_does_not_run_before_due_time(
        self, database: Database, wakeups_sent: Wakeups
    ) -> None:
        with database.transaction() as session:
            event_id = enqueue(session, due_at=later(hours=1))

        assert not run(database, event_id, lambda *_: None)
        with database.reading() as session:
            assert event_id not in outbox.list_due_events(session, queue=QUEUE, now=NOW, limit=500)
        assert run(database, event_id, lambda *_: None, later(hours=1))

    def test_failed_event_leaves_no_changes(self, database: Database, wakeups_sent: Wakeups) -> None:
        with database.transaction() as session:
            event_id = enqueue(session)
        another: list[UUID] = []

        def handler(session: Session, _payload: dict[str, Any], _now: datetime) -> None:
            another.append(enqueue(session))
            raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            run(database, event_id, handler)

        with database.reading() as session:
            due = outbox.list_due_events(session, queue=QUEUE, now=NOW, limit=500)
        assert event_id in due
        assert another[0] not in due

    def test_unknown_topic_is_an_error(self, database: Database, wakeups_sent: Wakeups) -> None:
        with database.transaction() as session:
            event_id = enqueue(session, topic=f"test.{uuid4().hex}")

        with pytest.raises(KeyError):
            run(database, event_id, lambda *_: None)

    def test_due_events_are_listed_for_own_queue_only(
        self, database: Database, wakeups_sent: Wakeups
    ) -> None:
        with database.transaction() as session:
            event_id = enqueue(session)

        with database.reading() as session:
            assert event_id not in outbox.list_due_events(session, queue="webhooks", now=NOW, limit=500)
            assert event_id in outbox.list_due_events(session, queue=QUEUE, now=NOW, limit=500)


def test_failed_event_is_retried_with_growing_delays_then_given_up(
    database: Database, wakeups_sent: Wakeups
) -> None:
    with database.transaction() as session:
        event_id = enqueue(session)

    now, delays = NOW, []
    for _ in range(MAX_TRIES - 1):
        failure = database.in_transaction(
            outbox.record_failure, event_id=event_id, error="ZeroDivisionError", now=now
        )
        assert failure is not None
        due_at = failure.due_at
        assert due_at is not None
        delays.append((due_at - now).total_seconds())
        assert not run(database, event_id, lambda *_: None, due_at - timedelta(milliseconds=1))
        now = due_at

    assert delays == [10 * 2**number for number in range(MAX_TRIES - 1)]
    # docs/alerts.md and the alert OUTBOX_GIVEN_UP say "almost a day".
    assert timedelta(seconds=sum(delays)) == timedelta(hours=22, minutes=45, seconds=10)
    last = database.in_transaction(outbox.record_failure, event_id=event_id, error="Last", now=now)
    assert last == outbox.FailedAttempt("test", MAX_TRIES, None)
    found = row(database, event_id)
    assert (found["attempts"], found["failed_at"], found["last_error"]) == (MAX_TRIES, now, "Last")
    assert not run(database, event_id, lambda *_: None, later(days=30))


def test_concurrent_failures_of_same_attempt_count_once(database: Database, wakeups_sent: Wakeups) -> None:
    with database.transaction() as session:
        event_id = enqueue(session)

    first = database.in_transaction(outbox.record_failure, event_id=event_id, error="One", now=NOW)
    second = database.in_transaction(outbox.record_failure, event_id=event_id, error="Two", now=NOW)

    assert first is not None
    assert second is None
    assert row(database, event_id)["attempts"] == 1


def test_failure_of_done_event_is_not_recorded(database: Database, wakeups_sent: Wakeups) -> None:
    with database.transaction() as session:
        event_id = enqueue(session)
    run(database, event_id, lambda *_: None)

    assert database.in_transaction(outbox.record_failure, event_id=event_id, error="Late", now=NOW) is None
    assert row(database, event_id)["last_error"] is None


def test_failing_after_commit_action_does_not_affect_commit_or_next_action(database: Database) -> None:
    ran = []

    def fail() -> None:
        raise RuntimeError("of the test")

    with database.transaction() as session:
        outbox.after_commit(session, fail)
        outbox.after_commit(session, lambda: ran.append(True))

    assert ran == [True]


def fail_times(database: Database, event_id: UUID, times: int) -> datetime:
    """Record several failures of an event and return the next due time."""
    now = NOW
    for _ in range(times):
        failure = database.in_transaction(outbox.record_failure, event_id=event_id, error="away", now=now)
        assert failure is not None
        assert failure.due_at is not None
        now = failure.due_at
    return now
