"""Real worker processes: heartbeats, work, and recovery after a kill or stop."""

import re
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest
import requests

from marketplace.background import queues as figures, workers
from marketplace.background.queues import QueueStats
from marketplace.background.workers import Worker
from marketplace.catalog.moderation import automated_review
from marketplace.catalog.promotions import common as promotions
from marketplace.infra import wakeups
from marketplace.infra.cache import Cache
from marketplace.kernel import queues
from sandbox.process import wait_until
from tests.support.depth import sample
from tests.support.forked_processes import Forked
from tests.support.installation import marketplace
from tests.support.purchases import Shop, make_product
from tests.support.service_processes import Blocker, ServiceProcesses, kill

# Limit for taking over the work of a killed worker.
TAKEN_UP_SECONDS = 60.0


@pytest.fixture(scope="module")
def whole_site(whole_site: ServiceProcesses) -> ServiceProcesses:
    whole_site.environment |= {"AI_URL": whole_site.providers.ai_url, "AI_TIMEOUT_SECONDS": "30"}
    return whole_site


@pytest.fixture
def site(site: ServiceProcesses) -> Iterator[ServiceProcesses]:
    """The site without running workers, schedules or waiting work."""
    yield site
    site.stop_processes()
    site.restart_servers()
    site.query("DELETE FROM periodic_tasks")
    site.query("UPDATE outbox_events SET done_at = now() WHERE done_at IS NULL")


@pytest.fixture
def blocked(site: ServiceProcesses) -> Iterator[Blocker]:
    """Lock on a row that stops a worker in the middle of a transaction."""
    with Blocker(site) as blocker:
        yield blocker


@pytest.fixture
def cache(site: ServiceProcesses) -> Cache:
    return Cache(site.valkey.url)


def product(site: ServiceProcesses, shop: Shop) -> UUID:
    with site.database.transaction() as session:
        return make_product(session, shop)


def store(
    site: ServiceProcesses, queue: str, product_id: UUID, topic: str = promotions.BOUNDARY_TOPIC
) -> UUID:
    """Insert overdue outbox work that locks a product, without sending a wake-up."""
    [[row_id]] = site.query(
        "INSERT INTO outbox_events (queue, topic, payload, due_at)"
        " VALUES (%s, %s, json_build_object('productId', %s, 'tags', '[]'::json), now() - interval '1 minute')"
        " RETURNING id",
        queue,
        topic,
        str(product_id),
    )
    return UUID(str(row_id))


def is_done(site: ServiceProcesses, row_id: UUID) -> bool:
    return site.query("SELECT done_at IS NOT NULL FROM outbox_events WHERE id = %s", str(row_id)) == [(True,)]


def names(cache: Cache) -> list[str]:
    return [re.sub(r"@.*", "", one.name) for one in workers.fetch_live_workers(cache).workers]


def busy(cache: Cache, row_id: UUID) -> list[Worker]:
    """List the workers that report an in-flight marker for a row."""
    found = workers.fetch_live_workers(cache).workers
    return [one for one in found if str(row_id) in {doing.row_id for doing in one.doing}]


def figures_of(site: ServiceProcesses, cache: Cache, queue: str) -> QueueStats:
    with site.database.reading() as session:
        return figures.fetch_queue_report(session, cache, now=datetime.now(UTC)).queues[queue]


def task(site: ServiceProcesses, name: str) -> dict[str, Any]:
    rows = site.query("SELECT to_jsonb(t) FROM periodic_tasks t WHERE name = %s", name)
    found: dict[str, Any] = rows[0][0] if rows else {"runs": 0, "outcome": None, "run_id": None}
    return found


def until(site: ServiceProcesses, look: Any, *processes: Forked, seconds: float = TAKEN_UP_SECONDS) -> None:
    assert wait_until(lambda: bool(look()), timeout_seconds=seconds), site.logs()
    assert all(process.running for process in processes), site.logs()


class TestHeartbeats:
    def test_workers_report_heartbeats_and_current_work(
        self, site: ServiceProcesses, shop: Shop, blocked: Blocker, cache: Cache
    ) -> None:
        first, second = site.worker(), site.worker()
        other = site.worker(queues.NOTIFICATIONS)
        site.wait_until(lambda: names(cache) == ["notifications", "webhooks", "webhooks"])
        product_id = product(site, shop)
        blocked.lock("products", id=product_id)
        row_id = store(site, queues.WEBHOOKS, product_id)
        before = figures_of(site, cache, queues.WEBHOOKS)
        site.enqueue(queues.WEBHOOKS, wakeups.OUTBOX, row_id)

        [busy_worker] = site.wait_until(lambda: busy(cache, row_id))
        now = figures_of(site, cache, queues.WEBHOOKS)
        assert (now.active, now.waiting) == (1, before.waiting - 1)
        shown = marketplace("workers", environment=site.environment).stdout
        assert f"{busy_worker.process_id}\t" in shown
        assert f"outbox {row_id}" in shown
        assert busy_worker.process_id in {first.process_id, second.process_id}

        blocked.release()
        site.wait_until(lambda: is_done(site, row_id))
        site.wait_until(lambda: figures_of(site, cache, queues.WEBHOOKS).active == 0)
        now = figures_of(site, cache, queues.WEBHOOKS)
        assert now.completed == before.completed + 1

        kill(first)
        site.wait_until(lambda: names(cache) == ["notifications", "webhooks"])
        second.request_stop()
        site.wait_until(lambda: not second.running)
        # A worker that stops normally removes the heartbeat at once.
        assert names(cache) == ["notifications"]
        assert other.running

    def test_heartbeats_return_with_the_cache(self, site: ServiceProcesses, cache: Cache) -> None:
        worker = site.worker(queues.AI_MODERATION)
        site.wait_until(lambda: names(cache) == ["ai-moderation"], worker)

        site.valkey.stop()
        site.restart_servers()

        site.wait_until(lambda: names(Cache(site.valkey.url)) == ["ai-moderation"], worker)


class TestKilled:
    @pytest.mark.parametrize("queue", sample(queues.NAMES, every=2))
    def test_row_of_a_killed_worker_is_taken_over_within_a_minute(
        self, site: ServiceProcesses, shop: Shop, blocked: Blocker, queue: str
    ) -> None:
        """The message is lost with the worker. Any worker's sweep may take over the row."""
        product_id = product(site, shop)
        blocked.lock("products", id=product_id)
        victim = site.worker(queue)
        row_id = store(site, queue, product_id)
        site.enqueue(queue, wakeups.OUTBOX, row_id)
        until(site, lambda: site.connections(f"worker {queue}", waiting=True), victim)

        kill(victim)
        killed_at = time.monotonic()
        blocked.release()
        heir = site.worker(queue)
        until(site, lambda: is_done(site, row_id), heir)

        assert time.monotonic() - killed_at < TAKEN_UP_SECONDS
        print(f"taken up after {time.monotonic() - killed_at:.1f} s")

    def test_interrupted_periodic_run_is_detected_and_runs_again(
        self, site: ServiceProcesses, shop: Shop, blocked: Blocker
    ) -> None:
        """The outbox sweep dies with the worker, while processing a row without the queue server."""
        product_id = product(site, shop)
        blocked.lock("products", id=product_id)
        row_id = store(site, queues.NOTIFICATIONS, product_id)
        site.valkey.stop()
        victim = site.worker(queues.NOTIFICATIONS)
        until(site, lambda: site.connections("worker notifications", waiting=True), victim)
        assert task(site, "relay-outbox")["run_id"] is not None

        kill(victim)
        killed_at = time.monotonic()
        blocked.release()
        site.restart_servers()
        heir = site.worker(queues.NOTIFICATIONS)

        until(site, lambda: is_done(site, row_id), heir)
        assert time.monotonic() - killed_at < TAKEN_UP_SECONDS
        print(f"taken up after {time.monotonic() - killed_at:.1f} s")
        # The next run may end before anyone sees the lost run's outcome.
        assert "periodic task lost with its worker" in site.logs()
        site.wait_until(lambda: task(site, "relay-outbox")["outcome"] == "succeeded")


class TestStopped:
    def test_unfinished_row_is_requeued_on_stop(self, site: ServiceProcesses, shop: Shop) -> None:
        """The provider takes longer than a stop may take. Sweeps are paused, so only the requeued message can run."""
        product_id = product(site, shop)
        site.query(
            "UPDATE products SET status = 'in_review', published_at = NULL WHERE id = %s", str(product_id)
        )
        requests.post(f"{site.providers.ai_url}/sandbox/next", json={"outcome": "timeout"}, timeout=20)
        worker = site.worker(queues.AI_MODERATION)
        site.wait_until(lambda: task(site, "relay-outbox")["runs"] > 0, worker)
        site.query("UPDATE periodic_tasks SET paused_at = now()")
        row_id = store(site, queues.AI_MODERATION, product_id, automated_review.SCREENING_TOPIC)
        site.enqueue(queues.AI_MODERATION, wakeups.OUTBOX, row_id)
        site.wait_until(lambda: site.providers.ai.asked()[0] == 1, worker)

        worker.request_stop()
        until(site, lambda: not worker.running)
        assert worker.exit_status == 0, worker.log_tail()
        assert not is_done(site, row_id)
        runs = task(site, "relay-outbox")["runs"]
        heir = site.worker(queues.AI_MODERATION)

        site.wait_until(lambda: is_done(site, row_id), heir)
        assert task(site, "relay-outbox")["runs"] == runs
        # A stop is not a crash, which would have cost a try.
        assert site.query("SELECT attempts FROM outbox_events WHERE id = %s", str(row_id)) == [(1,)]


class TestIndependence:
    def test_stuck_rows_do_not_block_other_rows(
        self, site: ServiceProcesses, shop: Shop, blocked: Blocker
    ) -> None:
        """Three rows are stuck, and later rows still run."""
        slow, quick = product(site, shop), product(site, shop)
        blocked.lock("products", id=slow)
        stuck = [store(site, queues.WEBHOOKS, slow) for _ in range(3)]
        worker = site.worker()
        for row_id in stuck:
            site.enqueue(queues.WEBHOOKS, wakeups.OUTBOX, row_id)
        site.wait_until(lambda: site.connections("worker webhooks", waiting=True) >= 3, worker)

        row_ids = [store(site, queues.WEBHOOKS, quick) for _ in range(5)]
        for row_id in row_ids:
            site.enqueue(queues.WEBHOOKS, wakeups.OUTBOX, row_id)

        site.wait_until(lambda: all(is_done(site, row_id) for row_id in row_ids), worker)
        assert not any(is_done(site, row_id) for row_id in stuck)

    def test_poison_rows_do_not_block_other_rows(self, site: ServiceProcesses, shop: Shop) -> None:
        quick = product(site, shop)
        worker = site.worker(queues.AI_MODERATION)
        poison = [
            site.query(
                "INSERT INTO outbox_events (queue, topic, payload, due_at) VALUES"
                " ('ai-moderation', 'nobody.knows', '{}', now() - interval '1 hour') RETURNING id"
            )[0][0]
            for _ in range(8)
        ]
        for row_id in poison:
            site.enqueue(queues.AI_MODERATION, wakeups.OUTBOX, UUID(str(row_id)))
        good = store(site, queues.AI_MODERATION, quick)
        site.enqueue(queues.AI_MODERATION, wakeups.OUTBOX, good)

        site.wait_until(lambda: is_done(site, good), worker)
        tries = "SELECT count(*) FROM outbox_events WHERE topic = 'nobody.knows' AND attempts >= 1"
        site.wait_until(lambda: site.query(tries) == [(8,)], worker)

    def test_work_continues_without_the_queue_server(self, site: ServiceProcesses, shop: Shop) -> None:
        """Sweeps process the rows more slowly, because the schedule needs only the database."""
        site.valkey.stop()
        row_ids = [store(site, queue, product(site, shop)) for queue in queues.NAMES]

        worker = site.worker(queues.NOTIFICATIONS)

        site.wait_until(lambda: all(is_done(site, row_id) for row_id in row_ids), worker)


class TestSchedule:
    def test_each_tick_runs_once_with_several_workers(self, site: ServiceProcesses) -> None:
        running = [site.worker(), site.worker(), site.worker(queues.NOTIFICATIONS), site.worker()]
        site.wait_until(lambda: task(site, "relay-inbox")["runs"] > 0, *running[:1])
        done = marketplace(
            *("periodic", "schedule", "relay-inbox", "every", "5s"), environment=site.environment
        )
        assert done.returncode == 0, done.stderr
        counted = (
            "SELECT runs, extract(epoch FROM now())::float FROM periodic_tasks WHERE name = 'relay-inbox'"
        )
        [[before, began]] = site.query(counted)

        until(site, lambda: task(site, "relay-inbox")["runs"] >= before + 4, *running)

        [[after, ended]] = site.query(counted)
        ticks = int(ended // 5) - int(began // 5)
        assert after - before <= ticks + 1
        started = [name for name in ("relay-inbox", "relay-outbox") if task(site, name)["outcome"]]
        assert started == ["relay-inbox", "relay-outbox"]

    def test_periodic_task_is_paused_resumed_and_run_by_hand_beside_workers(
        self, site: ServiceProcesses
    ) -> None:
        worker = site.worker()
        site.wait_until(lambda: task(site, "relay-inbox")["runs"] > 0, worker)

        def call(*arguments: str) -> str:
            done = marketplace("periodic", *arguments, environment=site.environment)
            assert done.returncode == 0, done.stderr
            return done.stdout

        call("pause", "relay-inbox")
        before = task(site, "relay-inbox")["runs"]
        assert "relay-inbox ran in" in call("run", "relay-inbox")
        assert task(site, "relay-inbox")["runs"] == before + 1
        call("schedule", "relay-inbox", "every 5s")
        call("resume", "relay-inbox")
        site.wait_until(lambda: task(site, "relay-inbox")["runs"] > before + 1, worker)
