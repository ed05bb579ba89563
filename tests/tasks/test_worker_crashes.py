"""Workers that die at a row: each death is one try of it, and nobody else's tries, pauses or ends are deaths."""

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


def a_worker() -> Worker:
    """Describe a worker; nobody has heard of it until it is announced."""
    return Worker(f"notifications@host:{uuid4().hex}", queues.NOTIFICATIONS, "host", 1, NOW, NOW)


class Case:
    """A topic of its own, whose handler does as the test wants, and a worker that is at it."""

    def __init__(self, services: Services, clock: MovableClock) -> None:
        self.services, self.clock, self.database = services, clock, services.database
        self.topic = f"test.{uuid4().hex}"
        self.tries = 0
        self.fails = False
        self.relay = Dispatcher(services, worker=a_worker())

    def handle(self, _session: Session, _payload: dict[str, Any], _now: Any) -> None:
        self.tries += 1
        if self.fails:
            raise ZeroDivisionError

    def enqueue(self) -> UUID:
        return self.database.in_transaction(
            outbox.enqueue, queue=queues.NOTIFICATIONS, topic=self.topic, payload={}, due_at=self.clock.now
        )

    def receive(self) -> UUID:
        """Store an event that nobody can read: who tries it buries it."""
        return self.database.in_transaction(
            webhooks.receive_event, provider="gateway", body=b"{", now=self.clock.now
        )

    def begun_by(self, worker: Worker, what: str) -> Any:
        """Have a worker be at a row, as far as the others can tell."""
        return InFlightMarkers(self.services.cache, worker).track(what)

    def run(self, event_id: UUID) -> None:
        self.relay.run_row(queues.NOTIFICATIONS, "outbox", str(event_id))

    def row(self, event_id: UUID, table: str = "outbox_events") -> dict[str, Any]:
        with self.database.reading() as session:
            return row_of(session, table, id=event_id)

    @contextmanager
    def living(self, worker: Worker) -> Iterator[None]:
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


def words(services: Services) -> list[bytes]:
    """Give the rows of which word is left."""
    with Redis.from_url(services.settings.redis_url) as server:
        return sorted(server.scan_iter("h1:begun:*"))


def test_a_death_is_a_failed_try_and_the_next_one_is_real(case: Case) -> None:
    event_id = case.enqueue()
    with case.begun_by(a_worker(), f"outbox {event_id}"):
        case.run(event_id)

        row = case.row(event_id)
        assert (case.tries, row["attempts"], row["last_error"]) == (0, 1, WORKER_CRASHED)
        # What died together is not tried together: it waits for another share of the delay.
        assert timedelta(seconds=5) <= row["due_at"] - NOW <= timedelta(seconds=10)

        case.clock.now = row["due_at"]
        case.run(event_id)
    assert (case.tries, case.row(event_id)["done_at"]) == (1, row["due_at"])


def test_a_death_at_a_webhook_is_noted_without_looking_at_it_again(case: Case) -> None:
    inbox_id = case.receive()
    with case.begun_by(a_worker(), f"inbox {inbox_id}"):
        case.relay.run_row(queues.WEBHOOKS, "inbox", str(inbox_id))

        row = case.row(inbox_id, "webhook_inbox")
        assert (row["status"], row["attempts"], row["last_error"]) == ("retrying", 1, WORKER_CRASHED)
        assert timedelta(seconds=0.8) <= row["due_at"] - NOW <= timedelta(seconds=1.2)

        case.clock.now = row["due_at"]
        case.relay.run_row(queues.WEBHOOKS, "inbox", str(inbox_id))
    row = case.row(inbox_id, "webhook_inbox")
    assert (row["status"], row["attempts"], row["last_error"]) == ("dead", 2, "the body is not JSON")


def test_as_many_deaths_as_there_are_tries_give_work_up(case: Case) -> None:
    event_id = case.enqueue()
    for tries in range(1, outbox.MAX_TRIES + 1):
        with case.begun_by(a_worker(), f"outbox {event_id}"):
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


def test_as_many_deaths_as_there_are_tries_bury_a_webhook(case: Case) -> None:
    inbox_id = case.receive()
    for _ in range(len(webhooks.RETRY_DELAYS_SECONDS) + 1):
        assert case.row(inbox_id, "webhook_inbox")["status"] in {"received", "retrying"}
        with case.begun_by(a_worker(), f"inbox {inbox_id}"):
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


def test_a_message_that_came_twice_is_no_death(case: Case) -> None:
    """The other worker lives. Its word stays, and tells of its death when it dies."""
    event_id, other = case.enqueue(), a_worker()
    case.fails = True
    with case.begun_by(other, f"outbox {event_id}"):
        with case.living(other):
            case.run(event_id)
            row = case.row(event_id)
            assert (case.tries, row["attempts"], row["last_error"]) == (1, 1, "ZeroDivisionError")

        case.clock.now = row["due_at"]
        case.run(event_id)
        row = case.row(event_id)
        assert (case.tries, row["attempts"], row["last_error"]) == (1, 2, WORKER_CRASHED)


def test_one_that_was_started_anew_under_its_name_is_not_the_one_that_died(case: Case) -> None:
    """A container that is restarted has the host's name and the process's number of before."""
    event_id, first = case.enqueue(), a_worker()
    with (
        case.begun_by(first, f"outbox {event_id}"),
        case.living(replace(first, started_at=later(seconds=1))),
    ):
        case.run(event_id)
    assert (case.tries, case.row(event_id)["last_error"]) == (0, WORKER_CRASHED)


@pytest.mark.parametrize("fails", [False, True])
def test_a_row_that_ends_leaves_no_word(case: Case, monkeypatch: pytest.MonkeyPatch, *, fails: bool) -> None:
    event_id = case.enqueue()
    word = f"h1:begun:outbox {event_id}".encode()
    case.fails = fails
    seen: list[list[bytes]] = []

    def handle(*arguments: Any) -> None:
        seen.append(words(case.services))
        case.handle(*arguments)

    monkeypatch.setattr(relay_module, "HANDLERS", {case.topic: handle})
    case.run(event_id)

    assert [word in one for one in seen] == [True]
    assert word not in words(case.services)


def test_what_is_put_back_leaves_no_word(
    case: Case, relay: Dispatcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker that must stop is at it still; its process ends before the row does."""
    event_id = case.enqueue()
    left: list[bytes] = []

    def handle(*_: Any) -> None:
        assert case.relay.requeue_running_rows() == 1
        left.extend(words(case.services))
        raise ZeroDivisionError

    monkeypatch.setattr(relay_module, "HANDLERS", {case.topic: handle})
    case.run(event_id)

    assert case.row(event_id)["last_error"] == "ZeroDivisionError"
    assert f"h1:begun:outbox {event_id}".encode() not in left


def test_without_the_cache_nothing_is_counted_and_all_is_done(case: Case, database: Database) -> None:
    event_id = case.enqueue()
    away = changed(case.services, cache=Cache(f"redis://127.0.0.1:{closed_port()}/0"))

    with case.begun_by(a_worker(), f"outbox {event_id}"):
        Dispatcher(away, worker=a_worker()).run_row(queues.NOTIFICATIONS, "outbox", str(event_id))

    assert (case.tries, case.row(event_id)["done_at"]) == (1, NOW)


def test_a_process_that_is_no_worker_leaves_no_word(
    case: Case, relay: Dispatcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody could tell that it died: it has no heartbeat."""
    event_id = case.enqueue()
    seen: list[bytes] = []
    monkeypatch.setattr(relay_module, "HANDLERS", {case.topic: lambda *_: seen.extend(words(case.services))})
    relay.run_row(queues.NOTIFICATIONS, "outbox", str(event_id))

    assert case.row(event_id)["done_at"] == NOW
    assert f"h1:begun:outbox {event_id}".encode() not in seen
