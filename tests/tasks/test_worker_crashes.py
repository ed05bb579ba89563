"""Worker crashes: each crash counts as one failed attempt of the row in flight."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from redis import Redis
from sqlalchemy.orm import Session

from marketplace.background import workers
from marketplace.background.workers import WORKER_CRASHED, InFlightMarkers, Worker
from marketplace.infra import outbox
from marketplace.infra.cache import Cache
from marketplace.infra.db import Database
from marketplace.kernel import queues
from marketplace.services import Services
from marketplace.webhooks import inbox as webhooks
from tasks import dispatcher as relay_module
from tasks.dispatcher import Dispatcher
from tests.support.alerts import alerts_about
from tests.support.gateway import MovableClock
from tests.support.probes import changed, closed_port
from tests.support.purchases import NOW, later, row_of


def make_worker() -> Worker:
    """Describe a worker that has sent no heartbeat."""
    return Worker(f"notifications@host:{uuid4().hex}", queues.NOTIFICATIONS, "host", 1, NOW, NOW)


class Case:
    """A unique topic with a handler that the test controls, and a worker that runs the handler."""

    def __init__(self, services: Services, clock: MovableClock) -> None:
        self.services, self.clock, self.database = services, clock, services.database
        self.topic = f"test.{uuid4().hex}"
        self.tries = 0
        self.fails = False
        self.relay = Dispatcher(services, worker=make_worker())

    def handle(self, _session: Session, _payload: dict[str, Any], _now: Any) -> None:
        self.tries += 1
        if self.fails:
            raise ZeroDivisionError

    def enqueue(self) -> UUID:
        return self.database.in_transaction(
            outbox.enqueue, queue=queues.NOTIFICATIONS, topic=self.topic, payload={}, due_at=self.clock.now
        )

    def receive(self) -> UUID:
        """Store an unreadable event, which becomes a dead letter when processed."""
        return self.database.in_transaction(
            webhooks.receive_event, provider="gateway", body=b"{", now=self.clock.now
        )

    def in_flight_at(self, worker: Worker, row: str) -> Any:
        """Write the in-flight marker of a worker at a row."""
        return InFlightMarkers(self.services.cache, worker).track(row)

    def run(self, event_id: UUID) -> None:
        self.relay.run_row(queues.NOTIFICATIONS, "outbox", str(event_id))

    def row(self, event_id: UUID, table: str = "outbox_events") -> dict[str, Any]:
        with self.database.reading() as session:
            return row_of(session, table, id=event_id)

    @contextmanager
    def alive(self, worker: Worker) -> Iterator[None]:
        workers.record_heartbeat(self.services.cache, worker)
        try:
            yield
        finally:
            workers.remove_worker(self.services.cache, worker.name)


@pytest.fixture
def case(paying_services: Services, clock: MovableClock, monkeypatch: pytest.MonkeyPatch) -> Case:
    made = Case(paying_services, clock)
    monkeypatch.setattr(relay_module, "HANDLERS", {made.topic: made.handle})
    return made


def in_flight_markers(services: Services) -> list[bytes]:
    """List the in-flight markers in the cache."""
    with Redis.from_url(services.settings.redis_url) as server:
        return sorted(server.scan_iter("h1:begun:*"))


def test_worker_crash_counts_as_failed_attempt_and_next_attempt_runs_handler(case: Case) -> None:
    event_id = case.enqueue()
    with case.in_flight_at(make_worker(), f"outbox {event_id}"):
        case.run(event_id)

        row = case.row(event_id)
        assert (case.tries, row["attempts"], row["last_error"]) == (0, 1, WORKER_CRASHED)
        # The due time has jitter, so that rows of one crashed worker are not all retried at once.
        assert timedelta(seconds=5) <= row["due_at"] - NOW <= timedelta(seconds=10)

        case.clock.now = row["due_at"]
        case.run(event_id)
    assert (case.tries, case.row(event_id)["done_at"]) == (1, row["due_at"])


def test_worker_crash_at_webhook_is_recorded_without_processing_event(case: Case) -> None:
    inbox_id = case.receive()
    with case.in_flight_at(make_worker(), f"inbox {inbox_id}"):
        case.relay.run_row(queues.WEBHOOKS, "inbox", str(inbox_id))

        row = case.row(inbox_id, "webhook_inbox")
        assert (row["status"], row["attempts"], row["last_error"]) == ("retrying", 1, WORKER_CRASHED)
        assert timedelta(seconds=0.8) <= row["due_at"] - NOW <= timedelta(seconds=1.2)

        case.clock.now = row["due_at"]
        case.relay.run_row(queues.WEBHOOKS, "inbox", str(inbox_id))
    row = case.row(inbox_id, "webhook_inbox")
    assert (row["status"], row["attempts"], row["last_error"]) == ("dead", 2, "the body is not JSON")


def test_outbox_event_is_given_up_after_maximum_worker_crashes(case: Case) -> None:
    event_id = case.enqueue()
    for tries in range(1, outbox.MAX_TRIES + 1):
        with case.in_flight_at(make_worker(), f"outbox {event_id}"):
            case.run(event_id)
        row = case.row(event_id)
        assert (row["attempts"], row["failed_at"] is not None) == (tries, tries == outbox.MAX_TRIES)
        case.clock.now = max(row["due_at"], case.clock.now)

    assert case.tries == 0
    with case.database.reading() as session:
        [alert] = alerts_about(session, case.topic)
    assert alert["identifier"] == "OUTBOX_GIVEN_UP"
    assert alert["latest_facts"] == {
        "eventId": str(event_id),
        "tries": outbox.MAX_TRIES,
        "error": WORKER_CRASHED,
    }


def test_webhook_becomes_dead_letter_after_maximum_worker_crashes(case: Case) -> None:
    inbox_id = case.receive()
    for _ in range(len(webhooks.RETRY_DELAYS_SECONDS) + 1):
        assert case.row(inbox_id, "webhook_inbox")["status"] in {"received", "retrying"}
        with case.in_flight_at(make_worker(), f"inbox {inbox_id}"):
            case.relay.run_row(queues.WEBHOOKS, "inbox", str(inbox_id))
        case.clock.now += timedelta(seconds=webhooks.RETRY_DELAYS_SECONDS[-1] * (1 + webhooks.RETRY_JITTER))

    with case.database.reading() as session:
        letter = row_of(session, "dead_letter_webhooks", inbox_id=inbox_id)
        [alert] = [
            one
            for one in alerts_about(session, "gateway:unreadable")
            if one["latest_facts"].get("inboxId") == str(inbox_id)
        ]
    assert (letter["attempts"], letter["error"]) == (6, WORKER_CRASHED)
    assert (alert["identifier"], alert["latest_facts"]["error"]) == ("WEBHOOK_DEAD", WORKER_CRASHED)


def test_duplicate_message_is_not_counted_as_crash_of_living_worker(case: Case) -> None:
    """A living worker's marker stays in place and reveals a later crash of the worker."""
    event_id, other = case.enqueue(), make_worker()
    case.fails = True
    with case.in_flight_at(other, f"outbox {event_id}"):
        with case.alive(other):
            case.run(event_id)
            row = case.row(event_id)
            assert (case.tries, row["attempts"], row["last_error"]) == (1, 1, "ZeroDivisionError")

        case.clock.now = row["due_at"]
        case.run(event_id)
        row = case.row(event_id)
        assert (case.tries, row["attempts"], row["last_error"]) == (1, 2, WORKER_CRASHED)


def test_restarted_worker_of_same_name_does_not_hide_crash(case: Case) -> None:
    """A restarted container keeps host name and process id."""
    event_id, first = case.enqueue(), make_worker()
    with (
        case.in_flight_at(first, f"outbox {event_id}"),
        case.alive(replace(first, started_at=later(seconds=1))),
    ):
        case.run(event_id)
    assert (case.tries, case.row(event_id)["last_error"]) == (0, WORKER_CRASHED)


@pytest.mark.parametrize("fails", [False, True])
def test_finished_row_leaves_no_in_flight_marker(
    case: Case, monkeypatch: pytest.MonkeyPatch, *, fails: bool
) -> None:
    event_id = case.enqueue()
    marker = f"h1:begun:outbox {event_id}".encode()
    case.fails = fails
    seen: list[list[bytes]] = []

    def handle(*arguments: Any) -> None:
        seen.append(in_flight_markers(case.services))
        case.handle(*arguments)

    monkeypatch.setattr(relay_module, "HANDLERS", {case.topic: handle})
    case.run(event_id)

    assert [marker in markers for markers in seen] == [True]
    assert marker not in in_flight_markers(case.services)


def test_requeued_row_leaves_no_in_flight_marker(
    case: Case, relay: Dispatcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stopping worker requeues the row while the handler still runs."""
    event_id = case.enqueue()
    left: list[bytes] = []

    def handle(*_: Any) -> None:
        assert case.relay.requeue_running_rows() == 1
        left.extend(in_flight_markers(case.services))
        raise ZeroDivisionError

    monkeypatch.setattr(relay_module, "HANDLERS", {case.topic: handle})
    case.run(event_id)

    assert case.row(event_id)["last_error"] == "ZeroDivisionError"
    assert f"h1:begun:outbox {event_id}".encode() not in left


def test_crash_is_not_counted_and_row_is_processed_without_cache(case: Case, database: Database) -> None:
    event_id = case.enqueue()
    away = changed(case.services, cache=Cache(f"redis://127.0.0.1:{closed_port()}/0"))

    with case.in_flight_at(make_worker(), f"outbox {event_id}"):
        Dispatcher(away, worker=make_worker()).run_row(queues.NOTIFICATIONS, "outbox", str(event_id))

    assert (case.tries, case.row(event_id)["done_at"]) == (1, NOW)


def test_process_without_heartbeat_writes_no_in_flight_marker(
    case: Case, relay: Dispatcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process without heartbeat could not be detected as crashed."""
    event_id = case.enqueue()
    seen: list[bytes] = []
    monkeypatch.setattr(
        relay_module, "HANDLERS", {case.topic: lambda *_: seen.extend(in_flight_markers(case.services))}
    )
    relay.run_row(queues.NOTIFICATIONS, "outbox", str(event_id))

    assert case.row(event_id)["done_at"] == NOW
    assert f"h1:begun:outbox {event_id}".encode() not in seen
