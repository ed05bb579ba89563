"""The relay: nudges that never hurt, rows that are run once, sweeps for what was missed."""

import socket
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from sqlalchemy.orm import Session

from marketplace.infra import nudges, outbox
from marketplace.infra.db import Database
from marketplace.kernel import queues
from marketplace.services import Services
from marketplace.webhooks import operations as webhooks
from tasks import relay as relay_module
from tasks.relay import Relay, connect_nudges
from tests.support.gateway import MovableClock, charge_data, event_of
from tests.support.probes import changed, closed_port
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

TOPIC = "test.topic"
# Before all else that waits, so that a sweep of a busy database comes to it at once.
EARLY = datetime(2001, 1, 1, tzinfo=UTC)


@pytest.fixture
def done(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What the handler of a topic of these tests was given; a payload with ``fail`` fails."""
    seen: list[dict[str, Any]] = []

    def handler(_session: Session, payload: dict[str, Any], _now: datetime) -> None:
        seen.append(payload)
        if payload.get("fail"):
            raise ZeroDivisionError("a secret")

    monkeypatch.setattr(relay_module, "HANDLERS", {**relay_module.HANDLERS, TOPIC: handler})
    return seen


@pytest.fixture
def connected(relay: Relay) -> Iterator[Relay]:
    """The relay, told of this process's commits."""
    before = list(nudges._nudge)
    connect_nudges(relay)
    yield relay
    nudges._nudge[:] = before


def enqueue(
    database: Database, payload: dict[str, Any], topic: str = TOPIC, due_at: datetime = EARLY
) -> UUID:
    return database.in_transaction(
        outbox.enqueue, queue=queues.NOTIFICATIONS, topic=topic, payload=payload, due_at=due_at
    )


def outbox_row(database: Database, event_id: UUID) -> dict[str, Any]:
    with database.reading() as session:
        return row_of(session, "outbox_events", id=event_id)


def run_pending(relay: Relay, queue: str) -> int:
    """Do what a worker does with the messages that wait."""
    count = 0
    while (task := relay.queues[queue].dequeue()) is not None:
        relay.queues[queue].execute(task)
        count += 1
    return count


def scheduled(relay: Relay, queue: str, row_id: UUID) -> list[Any]:
    """Give the messages about a row that wait for their time, after a worker has put them aside."""
    run_pending(relay, queue)
    return [task for task in relay.queues[queue].scheduled() if str(row_id) in task.args]


class TestNudging:
    def test_a_queue_that_is_gone_costs_no_more_than_a_moment(self, paying_services: Services) -> None:
        relay = Relay(changed(paying_services, redis_url=f"redis://127.0.0.1:{closed_port()}/0"))

        started = time.monotonic()
        for _ in range(50):
            relay.nudge(queues.WEBHOOKS, "inbox", uuid4())
            relay.nudge(queues.WEBHOOKS, "inbox", uuid4(), delay_seconds=5)

        assert time.monotonic() - started < 1

    def test_a_server_that_does_not_answer_is_asked_once(self, paying_services: Services) -> None:
        """Its address takes connections and says nothing: the first nudge waits, the next ones do not."""
        with socket.socket() as silent:
            silent.bind(("127.0.0.1", 0))
            silent.listen(64)
            url = f"redis://127.0.0.1:{silent.getsockname()[1]}/0"
            relay = Relay(changed(paying_services, redis_url=url))
            started = time.monotonic()
            relay.nudge(queues.WEBHOOKS, "inbox", uuid4())
            first = time.monotonic() - started
            for _ in range(50):
                relay.nudge(queues.WEBHOOKS, "inbox", uuid4())

        assert first < 8
        assert time.monotonic() - started - first < 0.5

    def test_it_is_told_of_commits(self, connected: Relay, database: Database, done: list[Any]) -> None:
        event_id = enqueue(database, {"n": 1})

        assert run_pending(connected, queues.NOTIFICATIONS) == 1

        assert done == [{"n": 1}]
        assert outbox_row(database, event_id)["done_at"] == NOW

    def test_what_is_due_later_is_taken_up_when_it_is_due(
        self, connected: Relay, database: Database, clock: MovableClock, done: list[Any]
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
    def test_a_row_is_run_once_however_often_it_is_nudged(
        self, relay: Relay, database: Database, clock: MovableClock, done: list[Any]
    ) -> None:
        event_id = enqueue(database, {"n": 2})
        for _ in range(3):
            relay.nudge(queues.NOTIFICATIONS, "outbox", event_id)

        assert run_pending(relay, queues.NOTIFICATIONS) == 3
        assert done == [{"n": 2}]

    def test_a_failure_is_kept_on_the_row_and_tried_again(
        self, relay: Relay, database: Database, clock: MovableClock, done: list[Any]
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

    def test_a_topic_nobody_knows_is_a_failure(
        self, relay: Relay, database: Database, clock: MovableClock
    ) -> None:
        event_id = enqueue(database, {}, topic="test.unknown")

        relay.run_row(queues.NOTIFICATIONS, "outbox", str(event_id))

        assert outbox_row(database, event_id)["last_error"] == "KeyError"

    def test_a_row_that_is_not_there_is_nothing_to_do(self, relay: Relay) -> None:
        for table in ("outbox", "inbox"):
            relay.run_row(queues.WEBHOOKS, table, str(uuid4()))


class TestRunningInboxRows:
    def store(self, database: Database, body: bytes) -> UUID:
        return database.in_transaction(webhooks.receive, provider="gateway", body=body, now=EARLY)

    def test_a_payment(self, relay: Relay, database: Database, clock: MovableClock) -> None:
        with database.transaction() as session:
            shop = make_shop(session)
            order_id = place(session, shop, make_product(session, shop))
            intent = make_intent(session, shop, order_id)
        inbox_id = self.store(database, event_of(charge_data(intent.reference, intent.amount_minor)))

        relay.run_row(queues.WEBHOOKS, "inbox", str(inbox_id))

        with database.reading() as session:
            assert status_of(session, order_id) == "paid_escrow"
        assert scheduled(relay, queues.WEBHOOKS, inbox_id) == []

    def test_one_that_must_wait_is_scheduled(
        self, relay: Relay, database: Database, clock: MovableClock
    ) -> None:
        inbox_id = self.store(database, event_of(charge_data(f"checkout-{uuid4().hex}", 100)))

        relay.run_row(queues.WEBHOOKS, "inbox", str(inbox_id))

        [task] = scheduled(relay, queues.WEBHOOKS, inbox_id)
        with database.reading() as session:
            due_at = row_of(session, "webhook_inbox", id=inbox_id)["due_at"]
        # One second, give or take a fifth.
        assert timedelta(seconds=0.8) <= due_at - NOW <= timedelta(seconds=1.2)
        assert task.eta.replace(tzinfo=UTC) > datetime.now(UTC) - timedelta(seconds=5)


class TestSweeping:
    def test_what_a_lost_message_left_behind_is_taken_up(
        self, relay: Relay, database: Database, clock: MovableClock, done: list[Any]
    ) -> None:
        event_id = enqueue(database, {"n": 3})
        late = enqueue(database, {"n": 4}, due_at=later(days=1000))
        inbox_id = database.in_transaction(webhooks.receive, provider="gateway", body=b"{", now=EARLY)

        assert relay.sweep_outbox(EARLY) >= 1
        assert relay.sweep_inbox(EARLY) >= 1

        run_pending(relay, queues.NOTIFICATIONS)
        assert {"n": 3} in done
        assert {"n": 4} not in done
        assert outbox_row(database, event_id)["done_at"] is not None
        assert outbox_row(database, late)["done_at"] is None
        with database.reading() as session:
            assert row_of(session, "webhook_inbox", id=inbox_id)["status"] == "dead"

    def test_a_sweep_does_not_end_with_its_first_batch(
        self, relay: Relay, database: Database, clock: MovableClock, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(relay_module, "SWEEP_BATCH", 2)
        inbox = [
            database.in_transaction(webhooks.receive, provider="gateway", body=b"{", now=EARLY)
            for _ in range(5)
        ]

        assert relay.sweep_inbox(EARLY) >= 5

        with database.reading() as session:
            assert {row_of(session, "webhook_inbox", id=row_id)["status"] for row_id in inbox} == {"dead"}

    def test_a_row_that_fails_beyond_noting_holds_up_nothing_behind_it(
        self, relay: Relay, database: Database, clock: MovableClock, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        poison, good = (
            database.in_transaction(webhooks.receive, provider="gateway", body=b"{", now=at)
            for at in (EARLY, EARLY + timedelta(seconds=1))
        )
        process = webhooks.process

        def fail(database: Database, *, inbox_id: UUID, **more: Any) -> Any:
            if inbox_id == poison:
                raise ZeroDivisionError
            return process(database, inbox_id=inbox_id, **more)

        monkeypatch.setattr(webhooks, "process", fail)
        relay.sweep_inbox(later())
        monkeypatch.undo()

        with database.reading() as session:
            assert row_of(session, "webhook_inbox", id=poison)["status"] == "received"
            assert row_of(session, "webhook_inbox", id=good)["status"] == "dead"
        relay.run_row(queues.WEBHOOKS, "inbox", str(poison))

    def test_a_lost_message_and_a_clock_that_went_back_lose_no_retry(
        self, relay: Relay, database: Database, clock: MovableClock
    ) -> None:
        inbox_id = database.in_transaction(
            webhooks.receive,
            provider="gateway",
            body=event_of(charge_data(f"checkout-{uuid4().hex}", 100)),
            now=NOW,
        )
        relay.run_row(queues.WEBHOOKS, "inbox", str(inbox_id))
        for queue in relay.queues.values():
            queue.flush()

        clock.now = later(hours=-2)
        relay.sweep_inbox(clock.now)
        clock.now = later(hours=-2, seconds=1)
        relay.sweep_inbox(clock.now)

        with database.reading() as session:
            row = row_of(session, "webhook_inbox", id=inbox_id)
        assert (row["status"], row["attempts"]) == ("retrying", 2)
        assert row["due_at"] > clock.now
