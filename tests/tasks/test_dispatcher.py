"""The dispatcher: wake-ups, single processing of rows, and sweeps for missed rows."""

import socket
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from sqlalchemy.orm import Session

from marketplace.background.workers import WorkerActivity
from marketplace.infra import outbox, wakeups
from marketplace.infra.db import Database
from marketplace.kernel import queues
from marketplace.services import Services
from marketplace.webhooks import inbox as webhooks
from tasks import dispatcher as relay_module
from tasks.dispatcher import SWEEP_GRACE, Dispatcher, connect_wakeups
from tests.support.gateway import MovableClock, charge_data, event_of
from tests.support.probes import changed, closed_port, counted_connections
from tests.support.purchases import (
    NOW,
    later,
    make_intent,
    make_product,
    make_shop,
    place,
    row_of,
    status_of,
)
from tests.support.threads import at_once, unexpected_errors

TOPIC = "test.topic"
# Earlier than all other due rows, so that a sweep takes these rows first.
EARLY = datetime(2001, 1, 1, tzinfo=UTC)


@pytest.fixture
def done(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """The payloads that the test handler received. A payload with ``fail`` raises an error."""
    seen: list[dict[str, Any]] = []

    def handler(_session: Session, payload: dict[str, Any], _now: datetime) -> None:
        seen.append(payload)
        if payload.get("fail"):
            raise ZeroDivisionError("a secret")

    monkeypatch.setattr(relay_module, "HANDLERS", {**relay_module.HANDLERS, TOPIC: handler})
    return seen


@pytest.fixture
def connected(relay: Dispatcher) -> Iterator[Dispatcher]:
    """A dispatcher that receives the wake-ups of this process's commits."""
    before = list(wakeups._wakeup_senders)
    connect_wakeups(relay)
    yield relay
    wakeups._wakeup_senders[:] = before


def enqueue(
    database: Database, payload: dict[str, Any], topic: str = TOPIC, due_at: datetime = EARLY
) -> UUID:
    return database.in_transaction(
        outbox.enqueue, queue=queues.NOTIFICATIONS, topic=topic, payload=payload, due_at=due_at
    )


def outbox_row(database: Database, event_id: UUID) -> dict[str, Any]:
    with database.reading() as session:
        return row_of(session, "outbox_events", id=event_id)


def run_pending(relay: Dispatcher, queue: str) -> int:
    """Execute all pending messages of a queue as a worker does."""
    count = 0
    while (task := relay.queues[queue].dequeue()) is not None:
        relay.queues[queue].execute(task)
        count += 1
    return count


def scheduled(relay: Dispatcher, queue: str, row_id: UUID) -> list[Any]:
    """List the scheduled messages of a row after a worker has handled the pending messages."""
    run_pending(relay, queue)
    return [task for task in relay.queues[queue].scheduled() if str(row_id) in task.args]


class TestWakeups:
    @pytest.fixture
    def long_backoff(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Make the pause after a failure longer than the test."""
        monkeypatch.setattr(relay_module, "_REDIS_BACKOFF_SECONDS", 3600.0)

    @pytest.mark.usefixtures("long_backoff")
    def test_wakeups_try_an_unreachable_queue_server_only_once(self, paying_services: Services) -> None:
        relay = Dispatcher(changed(paying_services, redis_url=f"redis://127.0.0.1:{closed_port()}/0"))

        with counted_connections() as connections:
            for _ in range(50):
                relay.send_wakeup(queues.WEBHOOKS, "inbox", uuid4())
                relay.send_wakeup(queues.WEBHOOKS, "inbox", uuid4(), delay_seconds=5)

        assert len(connections) == 1

    @pytest.mark.usefixtures("long_backoff")
    def test_wakeups_try_an_unresponsive_queue_server_only_once(self, paying_services: Services) -> None:
        with socket.socket() as silent:
            silent.bind(("127.0.0.1", 0))
            silent.listen(64)
            address = silent.getsockname()
            url = f"redis://127.0.0.1:{address[1]}/0"
            relay = Dispatcher(changed(paying_services, redis_url=url))
            with counted_connections() as connections:
                for _ in range(50):
                    relay.send_wakeup(queues.WEBHOOKS, "inbox", uuid4())

        # Threads of other tests may connect to other servers.
        assert connections.count(address) == 1

    def test_commit_sends_wakeup_that_runs_event(
        self, connected: Dispatcher, database: Database, done: list[Any]
    ) -> None:
        event_id = enqueue(database, {"n": 1})

        assert run_pending(connected, queues.NOTIFICATIONS) == 1

        assert done == [{"n": 1}]
        assert outbox_row(database, event_id)["done_at"] == NOW

    def test_future_event_runs_when_due(
        self, connected: Dispatcher, database: Database, clock: MovableClock, done: list[Any]
    ) -> None:
        event_id = enqueue(database, {"n": 5}, due_at=later(seconds=90))

        [task] = scheduled(connected, queues.NOTIFICATIONS, event_id)

        assert done == []
        wait = task.eta.replace(tzinfo=UTC) - datetime.now(UTC)
        assert timedelta(seconds=80) < wait <= timedelta(seconds=90.05)
        clock.now = later(seconds=90)
        connected.run_row(*task.args)
        assert done == [{"n": 5}]


class TestRunningOutboxRows:
    def test_row_with_repeated_wakeups_runs_once(
        self, relay: Dispatcher, database: Database, clock: MovableClock, done: list[Any]
    ) -> None:
        event_id = enqueue(database, {"n": 2})
        for _ in range(3):
            relay.send_wakeup(queues.NOTIFICATIONS, "outbox", event_id)

        assert run_pending(relay, queues.NOTIFICATIONS) == 3
        assert done == [{"n": 2}]

    def test_failure_is_recorded_on_row_and_retried(
        self, relay: Dispatcher, database: Database, clock: MovableClock, done: list[Any]
    ) -> None:
        event_id = enqueue(database, {"fail": True})

        relay.run_row(queues.NOTIFICATIONS, "outbox", str(event_id))

        row = outbox_row(database, event_id)
        assert (row["attempts"], row["last_error"], row["done_at"]) == (1, "ZeroDivisionError", None)
        assert row["due_at"] > NOW
        assert len(scheduled(relay, queues.NOTIFICATIONS, event_id)) == 1
        relay.run_row(queues.NOTIFICATIONS, "outbox", str(event_id))
        assert len(done) == 1
        clock.now = row["due_at"]
        relay.run_row(queues.NOTIFICATIONS, "outbox", str(event_id))
        assert outbox_row(database, event_id)["attempts"] == 2

    def test_unknown_topic_is_recorded_as_failure(
        self, relay: Dispatcher, database: Database, clock: MovableClock
    ) -> None:
        event_id = enqueue(database, {}, topic="test.unknown")

        relay.run_row(queues.NOTIFICATIONS, "outbox", str(event_id))

        assert outbox_row(database, event_id)["last_error"] == "KeyError"

    def test_missing_row_is_ignored(self, relay: Dispatcher) -> None:
        for table in ("outbox", "inbox"):
            relay.run_row(queues.WEBHOOKS, table, str(uuid4()))


class TestRunningInboxRows:
    def store(self, database: Database, body: bytes) -> UUID:
        return database.in_transaction(webhooks.receive_event, provider="gateway", body=body, now=EARLY)

    def test_payment_webhook_marks_order_as_paid(
        self, relay: Dispatcher, database: Database, clock: MovableClock
    ) -> None:
        with database.transaction() as session:
            shop = make_shop(session)
            order_id = place(session, shop, make_product(session, shop))
            intent = make_intent(session, shop, order_id)
        inbox_id = self.store(database, event_of(charge_data(intent.reference, intent.amount_minor)))

        relay.run_row(queues.WEBHOOKS, "inbox", str(inbox_id))

        with database.reading() as session:
            assert status_of(session, order_id) == "paid_escrow"
        assert scheduled(relay, queues.WEBHOOKS, inbox_id) == []

    def test_webhook_to_retry_is_scheduled(
        self, relay: Dispatcher, database: Database, clock: MovableClock
    ) -> None:
        inbox_id = self.store(database, event_of(charge_data(f"checkout-{uuid4().hex}", 100)))

        relay.run_row(queues.WEBHOOKS, "inbox", str(inbox_id))

        [task] = scheduled(relay, queues.WEBHOOKS, inbox_id)
        with database.reading() as session:
            due_at = row_of(session, "webhook_inbox", id=inbox_id)["due_at"]
        # The retry delay is one second with a jitter of 20 %.
        assert timedelta(seconds=0.8) <= due_at - NOW <= timedelta(seconds=1.2)
        assert task.eta.replace(tzinfo=UTC) > datetime.now(UTC) - timedelta(seconds=5)


class TestSweeping:
    def test_sweep_enqueues_due_rows_without_message(
        self, relay: Dispatcher, database: Database, clock: MovableClock, done: list[Any]
    ) -> None:
        event_id = enqueue(database, {"n": 3})
        late = enqueue(database, {"n": 4}, due_at=later(days=1000))
        inbox_id = database.in_transaction(webhooks.receive_event, provider="gateway", body=b"{", now=EARLY)

        assert relay.sweep_outbox(EARLY + SWEEP_GRACE).enqueued >= 1
        assert relay.sweep_inbox(EARLY + SWEEP_GRACE).enqueued >= 1

        assert outbox_row(database, event_id)["done_at"] is None
        run_pending(relay, queues.NOTIFICATIONS)
        run_pending(relay, queues.WEBHOOKS)
        assert {"n": 3} in done
        assert {"n": 4} not in done
        assert outbox_row(database, event_id)["done_at"] is not None
        assert outbox_row(database, late)["done_at"] is None
        with database.reading() as session:
            assert row_of(session, "webhook_inbox", id=inbox_id)["status"] == "dead"

    def test_concurrent_dispatchers_process_each_event_once(
        self, paying_services: Services, database: Database, clock: MovableClock
    ) -> None:
        """The queue server is down, so each dispatcher processes the same rows inline. Each event is stored twice."""
        inbox, orders = [], []
        for _ in range(6):
            with database.transaction() as session:
                shop = make_shop(session)
                orders.append(place(session, shop, make_product(session, shop)))
                intent = make_intent(session, shop, orders[-1])
                body = event_of(charge_data(intent.reference, intent.amount_minor))
                inbox += [
                    webhooks.receive_event(session, provider="gateway", body=body, now=EARLY)
                    for _ in range(2)
                ]
        away = changed(paying_services, redis_url=f"redis://127.0.0.1:{closed_port()}/0")

        swept = at_once(lambda relay: relay.sweep_inbox(later()), [Dispatcher(away) for _ in range(4)])

        assert unexpected_errors(swept) == []
        with database.reading() as session:
            rows = [row_of(session, "webhook_inbox", id=row_id) for row_id in inbox]
            assert Counter(row["status"] for row in rows) == {"processed": 6, "duplicate": 6}
            assert {row["attempts"] for row in rows} == {1}
            for order_id in orders:
                row_of(session, "order_events", order_id=order_id, trigger="pay")

    def test_row_with_unrecorded_failure_does_not_block_next_rows(
        self,
        relay: Dispatcher,
        paying_services: Services,
        database: Database,
        clock: MovableClock,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        """The sweep processes both rows inline, one after another."""
        poison, good = (
            database.in_transaction(webhooks.receive_event, provider="gateway", body=b"{", now=at)
            for at in (EARLY, EARLY + timedelta(seconds=1))
        )
        process = webhooks.process_event

        def fail(database: Database, *, inbox_id: UUID, **more: Any) -> Any:
            if inbox_id == poison:
                raise ZeroDivisionError
            return process(database, inbox_id=inbox_id, **more)

        monkeypatch.setattr(webhooks, "process_event", fail)
        cut_off = Dispatcher(changed(paying_services, redis_url=f"redis://127.0.0.1:{closed_port()}/0"))
        cut_off.sweep_inbox(later())
        monkeypatch.undo()

        with database.reading() as session:
            assert row_of(session, "webhook_inbox", id=poison)["status"] == "received"
            assert row_of(session, "webhook_inbox", id=good)["status"] == "dead"
        relay.run_row(queues.WEBHOOKS, "inbox", str(poison))

    def test_every_queue_is_swept(self, relay: Dispatcher, database: Database, done: list[Any]) -> None:
        for queue in queues.NAMES:
            database.in_transaction(
                outbox.enqueue, queue=queue, topic=TOPIC, payload={"queue": queue}, due_at=EARLY
            )

        relay.sweep_outbox(EARLY + SWEEP_GRACE)

        for queue in queues.NAMES:
            run_pending(relay, queue)
            assert {"queue": queue} in done

    def test_sweep_skips_rows_due_within_grace_period(
        self, relay: Dispatcher, database: Database, done: list[Any]
    ) -> None:
        enqueue(database, {"n": 6}, due_at=EARLY + timedelta(seconds=1))

        relay.sweep_outbox(EARLY + SWEEP_GRACE)

        run_pending(relay, queues.NOTIFICATIONS)
        assert {"n": 6} not in done

    def test_sweep_enqueues_large_backlog_in_parts(
        self, relay: Dispatcher, database: Database, monkeypatch: pytest.MonkeyPatch, done: list[Any]
    ) -> None:
        """The oldest rows come first, and the queue never exceeds its maximum length."""
        monkeypatch.setattr(relay_module, "MAX_QUEUE_LENGTH", 5)
        early = EARLY - timedelta(days=1)
        with database.transaction() as session:
            for number in range(12):
                outbox.enqueue(
                    session,
                    queue=queues.NOTIFICATIONS,
                    topic=TOPIC,
                    payload={"part": number},
                    due_at=early + timedelta(seconds=number),
                )
        for parts in ([0, 1, 2, 3, 4], [5, 6, 7, 8, 9], [10, 11]):
            done.clear()
            for _ in range(3):
                relay.sweep_outbox(early + SWEEP_GRACE + timedelta(minutes=1))
            assert relay.queues[queues.NOTIFICATIONS].pending_count() <= 5
            run_pending(relay, queues.NOTIFICATIONS)
            assert [one["part"] for one in done if "part" in one] == parts

    def test_sweep_enqueues_nothing_while_queue_is_full(
        self, relay: Dispatcher, database: Database, monkeypatch: pytest.MonkeyPatch, done: list[Any]
    ) -> None:
        monkeypatch.setattr(relay_module, "MAX_QUEUE_LENGTH", 1)
        enqueue(database, {"n": 7})
        relay.send_wakeup(queues.NOTIFICATIONS, "outbox", uuid4())

        assert relay.sweep_outbox(EARLY + SWEEP_GRACE).processed_inline == 0
        assert relay.queues[queues.NOTIFICATIONS].pending_count() == 1

    def test_sweep_processes_rows_inline_without_queue_server(
        self, paying_services: Services, database: Database, clock: MovableClock, done: list[Any]
    ) -> None:
        cut_off = Dispatcher(changed(paying_services, redis_url=f"redis://127.0.0.1:{closed_port()}/0"))
        event_id = enqueue(database, {"n": 8})
        failing = enqueue(database, {"fail": True})
        inbox_id = database.in_transaction(webhooks.receive_event, provider="gateway", body=b"{", now=EARLY)

        swept = cut_off.sweep_outbox(EARLY + SWEEP_GRACE)
        assert (swept.enqueued, swept.processed_inline >= 2) == (0, True)
        assert cut_off.sweep_inbox(EARLY + SWEEP_GRACE).processed_inline >= 1

        assert outbox_row(database, event_id)["done_at"] == NOW
        assert outbox_row(database, failing)["attempts"] == 1
        with database.reading() as session:
            assert row_of(session, "webhook_inbox", id=inbox_id)["status"] == "dead"

    def test_inline_processing_is_limited_in_rows_and_seconds(
        self,
        paying_services: Services,
        database: Database,
        clock: MovableClock,
        done: list[Any],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        cut_off = Dispatcher(changed(paying_services, redis_url=f"redis://127.0.0.1:{closed_port()}/0"))
        early = EARLY - timedelta(days=2)
        for number in range(6):
            enqueue(database, {"bounded": number}, due_at=early + timedelta(seconds=number))
        as_of = early + SWEEP_GRACE + timedelta(minutes=1)

        monkeypatch.setattr(relay_module, "_MAX_INLINE_ROWS", 2)
        assert cut_off.sweep_outbox(as_of).processed_inline == 2
        monkeypatch.setattr(relay_module, "_MAX_INLINE_SECONDS", 0.0)
        assert cut_off.sweep_outbox(as_of).processed_inline == 1
        assert [one["bounded"] for one in done if "bounded" in one] == [0, 1, 2]


class TestStopping:
    def test_running_rows_are_requeued_and_periodic_tasks_are_not(
        self, relay: Dispatcher, database: Database
    ) -> None:
        event_id, inbox_id = enqueue(database, {"n": 9}), uuid4()
        going_on = [(queues.NOTIFICATIONS, "outbox", event_id), (queues.WEBHOOKS, "inbox", inbox_id)]
        with ExitStack() as stack:
            for queue, table, row_id in going_on:
                stack.enter_context(
                    relay.activity.track(f"{table} {row_id}", now=NOW, queue=queue, row_id=str(row_id))
                )
            stack.enter_context(relay.activity.track("periodic relay-inbox", now=NOW))

            assert relay.requeue_running_rows() == 2

        assert relay.requeue_running_rows() == 0
        for queue, table, row_id in going_on:
            [task] = scheduled(relay, queue, row_id)
            assert list(task.args) == [queue, table, str(row_id)]


class TestActivity:
    def test_activity_is_reported_while_row_runs(
        self, relay: Dispatcher, database: Database, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        seen: list[Any] = []

        def handler(_session: Session, _payload: dict[str, Any], _now: datetime) -> None:
            seen.extend(relay.activity.current())
            raise ZeroDivisionError

        monkeypatch.setattr(relay_module, "HANDLERS", {TOPIC: handler})
        event_id = enqueue(database, {})

        relay.run_row(queues.NOTIFICATIONS, "outbox", str(event_id))

        assert seen == [WorkerActivity(f"outbox {event_id}", NOW, queues.NOTIFICATIONS, str(event_id))]
        assert relay.activity.current() == ()
