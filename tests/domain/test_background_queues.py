"""Queue statistics: correct counts without a scan of the history."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.background import queues as figures, workers
from marketplace.background.queues import QueueStats
from marketplace.background.workers import Worker, WorkerActivity
from marketplace.infra import outbox
from marketplace.infra.batches import BATCH_SIZE, run_in_batches
from marketplace.infra.cache import Cache, CacheDownError
from marketplace.infra.db import Database
from marketplace.infra.sql.statements import Statement
from marketplace.kernel import queues
from marketplace.kernel.errors import ServiceUnavailableError
from marketplace.services import Services
from marketplace.webhooks import inbox as webhooks
from tests.support.gateway import event_of
from tests.support.probes import closed_port
from tests.support.purchases import NOW, later
from tests.support.query_plans import bulk_load, explain
from tests.support.threads import at_once, unexpected_errors

QUEUE = queues.AI_MODERATION
HISTORY = 40_000


@pytest.fixture
def cache(services: Services) -> Iterator[Cache]:
    """The cache without heartbeats of workers."""
    for worker in workers.fetch_live_workers(services.cache).workers:
        workers.remove_worker(services.cache, worker.name)
    yield services.cache
    for worker in workers.fetch_live_workers(services.cache).workers:
        workers.remove_worker(services.cache, worker.name)


def count(session: Session, cache: Cache, queue: str = QUEUE, now: datetime = NOW) -> QueueStats:
    return figures.fetch_queue_report(session, cache, now=now).queues[queue]


def enqueue(session: Session, **given: Any) -> UUID:
    values: dict[str, Any] = {"queue": QUEUE, "topic": "t", "payload": {}, "due_at": NOW} | given
    return outbox.enqueue(session, **values)


def worker(*doing: WorkerActivity, queue: str = QUEUE, name: str | None = None) -> Worker:
    made = name or f"{queue}@host:{uuid4().hex[:8]}"
    return Worker(made, queue, "host", 7, NOW, NOW, doing)


def do_nothing(_session: Session, _payload: dict[str, Any], _now: datetime) -> None:
    return None


class TestOutbox:
    def test_outbox_rows_are_counted_by_state(self, session: Session, cache: Cache) -> None:
        before = count(session, cache)
        done, given_up, retried, waiting = (enqueue(session) for _ in range(4))
        enqueue(session, due_at=later(days=3))
        enqueue(session, queue=queues.NOTIFICATIONS)
        assert count(session, cache).waiting == before.waiting + 4
        assert count(session, cache).scheduled == before.scheduled + 1

        outbox.run_event(session, event_id=done, handlers={"t": do_nothing}, now=NOW)
        outbox.record_failure(session, event_id=retried, error="x", now=NOW)
        session.execute(text("UPDATE outbox_events SET attempts = 13 WHERE id = :id"), {"id": given_up})
        outbox.record_failure(session, event_id=given_up, error="x", now=NOW)

        now = count(session, cache)
        assert (now.waiting, now.failed, now.completed, now.active) == (
            before.waiting + 2,
            before.failed + 1,
            before.completed + 1,
            0,
        )
        assert now.oldest_due_at is not None
        # A row for an earlier time waits since it was written.
        assert now.oldest_due_at > NOW
        assert waiting

    def test_rolled_back_run_is_not_counted_as_completed(self, database: Database, cache: Cache) -> None:
        with database.reading() as session:
            before = count(session, cache)
        event_id = database.in_transaction(enqueue)
        with database.transaction() as session:
            outbox.run_event(session, event_id=event_id, handlers={"t": do_nothing}, now=NOW)
            session.rollback()
        with database.reading() as session:
            assert count(session, cache).completed == before.completed

        for _ in range(2):
            database.in_transaction(outbox.run_event, event_id=event_id, handlers={"t": do_nothing}, now=NOW)
        with database.reading() as session:
            assert count(session, cache).completed == before.completed + 1

    def test_concurrent_completions_are_all_counted(self, committed_database: Database, cache: Cache) -> None:
        database = committed_database
        with database.reading() as session:
            before = count(session, cache)
        with database.transaction() as session:
            event_ids = [enqueue(session) for _ in range(160)]

        def run(share: list[UUID]) -> int:
            return sum(
                database.in_transaction(
                    outbox.run_event, event_id=event_id, handlers={"t": do_nothing}, now=NOW
                )
                for event_id in share
            )

        done = at_once(run, [event_ids[number::8] for number in range(8)])

        assert unexpected_errors(done) == []
        with database.reading() as session:
            now = count(session, cache)
        assert now.completed - before.completed == 160
        assert now.waiting == before.waiting


class TestInbox:
    def test_webhook_deliveries_are_counted_by_state(self, database: Database, cache: Cache) -> None:
        def now() -> QueueStats:
            with database.reading() as session:
                return count(session, cache, queues.WEBHOOKS)

        def process(inbox_id: UUID) -> None:
            webhooks.process_event(
                database, inbox_id=inbox_id, fee_bearer="platform", now=NOW, random=lambda: 0.5
            )

        before = now()
        ignored = event_of({"id": uuid4().int % 10**12}, "subscription.create")
        unknown = event_of({"id": uuid4().int % 10**12, "reference": f"checkout-{uuid4().hex}"})
        stored = [
            database.in_transaction(webhooks.receive_event, provider="gateway", body=body, now=NOW)
            for body in (ignored, ignored, b"{", unknown)
        ]
        assert now().waiting == before.waiting + 4
        for inbox_id in stored:
            process(inbox_id)

        after = now()
        # The last event has no known charge, so the event is a dead letter or waits for a retry.
        assert after.completed == before.completed + 2
        assert after.waiting + after.failed == before.waiting + before.failed + 2
        assert after.failed >= before.failed + 1


class TestWorkers:
    def test_rows_in_flight_count_as_active_and_not_as_waiting(self, session: Session, cache: Cache) -> None:
        before = count(session, cache)
        row_ids = [str(enqueue(session)) for _ in range(3)]
        doing = [WorkerActivity(f"outbox {row_id}", NOW, QUEUE, row_id) for row_id in row_ids]
        workers.record_heartbeat(
            cache, worker(doing[0], doing[1], WorkerActivity("periodic relay-inbox", NOW))
        )
        # Two workers may report the same row for a moment.
        workers.record_heartbeat(cache, worker(doing[1]))

        found = figures.fetch_queue_report(session, cache, now=NOW)

        assert (found.queues[QUEUE].active, found.queues[QUEUE].waiting) == (2, before.waiting + 1)
        assert found.workers is not None
        assert len(found.workers.workers) == 2
        assert found.workers.memory_used_bytes > 100_000

    def test_worker_is_listed_with_last_heartbeat_until_removed(self, cache: Cache) -> None:
        first = worker(name="a")
        workers.record_heartbeat(cache, first)
        workers.record_heartbeat(cache, worker(WorkerActivity("x", NOW), name="a"))
        workers.record_heartbeat(cache, worker(name="b"))
        assert [(one.name, len(one.doing)) for one in workers.fetch_live_workers(cache).workers] == [
            ("a", 1),
            ("b", 0),
        ]

        workers.remove_worker(cache, "a")

        assert [one.name for one in workers.fetch_live_workers(cache).workers] == ["b"]

    @pytest.mark.parametrize("seconds", [-(workers.STALE_SECONDS + 1), workers.STALE_SECONDS + 60])
    def test_stale_worker_is_removed_also_after_server_clock_moved_back(
        self, cache: Cache, seconds: int
    ) -> None:
        workers.record_heartbeat(cache, worker(name="stale"))
        workers.record_heartbeat(cache, worker(name="alive"))
        client = cache._client
        client.zincrby(workers._LAST_SEEN_KEY, seconds * 1000, "stale")

        assert [one.name for one in workers.fetch_live_workers(cache).workers] == ["alive"]
        assert client.hkeys(workers._DETAILS_KEY) == [b"alive"]

    def test_worker_state_expires_without_heartbeats(self, cache: Cache) -> None:
        workers.record_heartbeat(cache, worker())
        for key in (workers._LAST_SEEN_KEY, workers._DETAILS_KEY):
            assert 0 < cache._client.ttl(key) <= workers.STALE_SECONDS

    def test_rows_are_counted_without_cache(self, session: Session) -> None:
        away = Cache(f"redis://127.0.0.1:{closed_port()}/0")
        with pytest.raises(CacheDownError):
            workers.fetch_live_workers(away)

        found = figures.fetch_queue_report(session, away, now=NOW)

        assert found.workers is None
        assert found.queues.keys() == set(queues.NAMES)
        with pytest.raises(ServiceUnavailableError, match="state of the workers is unknown"):
            figures.fetch_complete_queue_report(session, away, now=NOW)


def fill(session: Session, *, part_open: int, part_failed: int) -> None:
    """Add a history. The parts are open and failed rows per hundred; the other rows are completed."""
    parts = {"rows": HISTORY, "open": part_open, "failed": part_failed}
    with bulk_load(session, triggers=True):
        session.execute(
            text(
                """
                INSERT INTO outbox_events (queue, topic, payload, due_at, attempts, done_at, failed_at)
                SELECT (ARRAY['notifications', 'webhooks', 'ai-moderation'])[1 + n % 3], 't', '{}', now(), 1,
                    CASE WHEN n % 100 >= :open + :failed THEN now() END,
                    CASE WHEN n % 100 >= :open AND n % 100 < :open + :failed THEN now() END
                FROM generate_series(1, :rows) n
                """
            ),
            parts,
        )
        session.execute(
            text(
                """
                INSERT INTO webhook_inbox (provider, body, status, due_at, finished_at)
                SELECT 'gateway', repeat('x', 300)::bytea, CASE WHEN n % 100 < :open THEN 'received'
                    WHEN n % 100 < :open + :failed THEN 'dead' ELSE 'processed' END, now(),
                    CASE WHEN n % 100 >= :open THEN now() END
                FROM generate_series(1, :rows) n
                """
            ),
            parts,
        )
    session.execute(text("ANALYZE outbox_events, webhook_inbox, queue_counts"))


class TestCost:
    def test_queue_report_does_not_scan_long_history(self, session: Session) -> None:
        """A single statement reads the indexes of open and failed rows and the few rows of counts."""
        parameters = {"now": datetime.now(UTC), "webhooks": queues.WEBHOOKS}
        fill(session, part_open=1, part_failed=1)
        plan, buffers = explain(session, figures._COUNT_QUEUES.sql, parameters)

        assert not {"Seq Scan outbox_events", "Seq Scan webhook_inbox"} & set(plan)
        read = {node for node in plan if node.startswith("ix_")}
        assert len(read) == 4, plan
        assert {"ix_outbox_events_due", "ix_outbox_events_failed"} <= read

        fill(session, part_open=0, part_failed=0)
        _, longer = explain(session, figures._COUNT_QUEUES.sql, parameters)
        print(f"{buffers} buffers, {longer} of a history that is twice as long")
        assert longer < buffers * 1.1 + 10

    def test_sweep_finds_rows_of_a_queue_by_index(self, session: Session) -> None:
        queue = f"test-{uuid4().hex}"
        insert = """
            INSERT INTO outbox_events (queue, topic, payload, due_at)
            SELECT CASE WHEN n % 1000 = 0 THEN :queue ELSE 'webhooks' END, 't', '{}',
                now() - n * interval '1 second' FROM generate_series(1, :rows) n
        """
        session.execute(text(insert), {"rows": HISTORY, "queue": queue})
        session.execute(text("ANALYZE outbox_events"))

        statement = Statement(outbox._select_due_event_ids(queue, datetime.now(UTC), 100))

        plan, buffers = explain(session, statement.sql, statement._constants)

        assert "ix_outbox_events_due" in plan
        assert buffers < HISTORY / 1000 + 20


class TestRetention:
    def test_old_outbox_rows_are_purged(self, session: Session, cache: Cache) -> None:
        made = {
            "done": (later(days=-31), None),
            "done lately": (later(days=-29), None),
            "failed": (None, later(days=-366)),
            "failed lately": (None, later(days=-364)),
            "open": (None, None),
        }
        row_ids = {}
        for name, (done_at, failed_at) in made.items():
            row_ids[name] = enqueue(session, due_at=later(days=-400))
            session.execute(
                text("UPDATE outbox_events SET done_at = :done, failed_at = :failed WHERE id = :id"),
                {"done": done_at, "failed": failed_at, "id": row_ids[name]},
            )
        completed = count(session, cache).completed

        assert outbox.purge_events(session, now=NOW, limit=10_000) >= 2

        kept = set(session.scalars(text("SELECT id FROM outbox_events")))
        assert {name for name, row_id in row_ids.items() if row_id in kept} == {
            "done lately",
            "failed lately",
            "open",
        }
        # Purged rows stay in the count of completed rows.
        assert count(session, cache).completed == completed

    def test_old_webhooks_are_purged_and_event_ids_are_kept(self, database: Database) -> None:
        old = NOW - timedelta(days=5_000)
        bodies = [event_of({"id": uuid4().int % 10**12}, "subscription.create"), b"{", b"["]
        stored = [
            database.in_transaction(webhooks.receive_event, provider="gateway", body=body, now=old)
            for body in bodies
        ]
        for inbox_id, at in zip(stored, (old, old, old + timedelta(days=300)), strict=True):
            webhooks.process_event(
                database, inbox_id=inbox_id, fee_bearer="platform", now=at, random=lambda: 0.5
            )

        def kept(sql: str) -> list[bool]:
            with database.reading() as session:
                return [
                    bool(session.execute(text(sql), {"id": inbox_id}).scalar_one()) for inbox_id in stored
                ]

        inbox = "SELECT count(*) FROM webhook_inbox WHERE id = :id"
        letters = "SELECT count(*) FROM dead_letter_webhooks WHERE inbox_id = :id"
        assert run_in_batches(database, webhooks.purge_events, now=old + timedelta(days=89)) == 0
        assert run_in_batches(database, webhooks.purge_events, now=old + timedelta(days=90)) == 1
        assert kept(inbox) == [False, True, True]
        assert run_in_batches(database, webhooks.purge_events, now=old + timedelta(days=365)) == 1
        assert kept(inbox) == [False, False, True]
        assert kept(letters) == [False, False, True]
        again = database.in_transaction(webhooks.receive_event, provider="gateway", body=bodies[0], now=NOW)
        result = webhooks.process_event(
            database, inbox_id=again, fee_bearer="platform", now=NOW, random=lambda: 0.5
        )
        assert result is not None
        assert result.status == "duplicate"

    def test_purge_runs_in_batches(self, database: Database) -> None:
        took: list[int] = []

        def work(session: Session, *, now: datetime, limit: int) -> int:
            assert now == NOW
            took.append(limit)
            return limit if len(took) < 3 else 7

        assert run_in_batches(database, work, now=NOW) == 2 * BATCH_SIZE + 7
        assert took == [BATCH_SIZE] * 3
