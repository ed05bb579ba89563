"""The monitored alerts: each is provoked, fires once, repeats at intervals, and resolves by itself."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest
from sqlalchemy import text, update

from marketplace.alerts.models import AlertDelivery
from marketplace.health import monitors, signal_counts
from marketplace.health.monitors import REPEAT_AFTER
from marketplace.infra import outbox
from marketplace.infra.cache import Cache
from marketplace.infra.db import Database
from marketplace.infra.signals.sending import send_counts, signal_counters
from marketplace.kernel import queues
from marketplace.kernel.errors import ProviderUnavailableError
from marketplace.kernel.signals import RECORDER, Recorder
from marketplace.providers.scale_hook import ScaleHook
from marketplace.services import Services
from tasks.dispatcher import Dispatcher
from tasks.maintenance import check_signals
from tests.support.probes import changed, closed_port

NOW = datetime(2026, 11, 20, 9, 30, 20, tzinfo=UTC)


class RecordedHook(ScaleHook):
    """A hook that records requests."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, int]] = []
        self.fails = False

    def request_workers(self, queue: str, *, workers: int) -> bool:
        """Record a request."""
        self.requests.append((queue, workers))
        if self.fails:
            raise ProviderUnavailableError("The scale hook does not respond.")
        return True


class Site:
    """Counts of processes, and the alerts that the rules raise."""

    def __init__(self, database: Database, cache: Cache) -> None:
        self.database, self.cache, self.hook = database, cache, RecordedHook()

    def record(self, at: datetime, **counts: int) -> None:
        """Record requests (``ok``, ``failed``), pool samples (``used``, ``maximum``) or wrong signatures."""
        recorder = Recorder()
        for status, number in (("2xx", counts.get("ok", 0)), ("5xx", counts.get("failed", 0))):
            for _ in range(number):
                recorder.observe("http", f"GET /api/orders {status}", 0.01)
        for name in ("used", "maximum", "timeouts"):
            if name in counts:
                recorder.count("pool", name, counts[name])
        for _ in range(counts.get("waits", 0)):
            recorder.observe("pool_wait", "", 0.2)
            recorder.observe("pool_wait", "", 0.04)
        if "rejected" in counts:
            recorder.count("webhook_rejected", "gateway", counts["rejected"])
        send_counts(self.cache, minute=int(at.timestamp()) // 60, recorder=recorder)
        signal_counts.store_counts(self.database, self.cache, now=at)

    def check(self, now: datetime) -> None:
        self.database.in_transaction(monitors.check_signals, now=now)

    def check_queues(self, now: datetime) -> int:
        return monitors.check_queues(
            self.database, self.cache, self.hook, queues=(queues.AI_MODERATION, queues.WEBHOOKS), now=now
        )

    def open(self) -> list[str]:
        with self.database.reading() as session:
            found = session.scalars(
                text("SELECT identifier FROM alerts WHERE resolved_at IS NULL ORDER BY 1")
            )
            return list(found)

    def sent(self) -> int:
        """Count the requested messages about raised alerts."""
        with self.database.reading() as session:
            return int(
                session.scalar(
                    text(
                        "SELECT count(*) FROM outbox_events WHERE topic = 'alert.send'"
                        " AND payload ->> 'event' = 'raised' AND payload ->> 'channel' = 'chat'"
                    )
                )
            )


@pytest.fixture
def site(services: Services, empty_database: Callable[[], None]) -> Iterator[Site]:
    empty_database()
    source = signal_counters(services.cache)
    for batch_id in source.close_batch(limit=1_000):
        source.discard_batch(batch_id)
    yield Site(services.database, services.cache)
    empty_database()


class TestErrorSpike:
    def test_error_rate_above_two_percent_raises_an_alert(self, site: Site) -> None:
        site.record(NOW - timedelta(minutes=1), ok=195, failed=5)
        site.check(NOW)
        assert site.open() == ["ERR_API_SPIKE"]

        site.check(NOW + timedelta(minutes=2))
        assert site.sent() == 1

        site.record(NOW + timedelta(minutes=3), ok=100)
        site.check(NOW + timedelta(minutes=3))
        assert site.open() == []

    @pytest.mark.parametrize(("ok", "failed"), [(98, 2), (245, 5), (10, 0), (0, 0)])
    def test_two_percent_or_single_failures_are_no_spike(self, site: Site, ok: int, failed: int) -> None:
        site.record(NOW - timedelta(minutes=1), ok=ok, failed=failed)
        site.check(NOW)
        assert site.open() == []

    def test_earlier_errors_do_not_count(self, site: Site) -> None:
        site.record(NOW - timedelta(minutes=6), failed=50)
        site.check(NOW)
        assert site.open() == []

    def test_outage_of_the_cache_resolves_no_alert(self, site: Site, services: Services) -> None:
        site.record(NOW - timedelta(minutes=1), failed=5)
        site.check(NOW)
        no_cache = changed(services, cache=Cache(f"redis://127.0.0.1:{closed_port()}/0"))
        check_signals(no_cache, Dispatcher(no_cache), NOW + timedelta(minutes=20))
        assert site.open() == ["ERR_API_SPIKE"]
        check_signals(services, Dispatcher(services), NOW + timedelta(minutes=20))
        assert "ERR_API_SPIKE" not in site.open()

    def test_messages_are_repeated_while_the_condition_holds(self, site: Site) -> None:
        for minutes in range(0, 60, 4):
            site.record(NOW + timedelta(minutes=minutes), failed=10)
            site.check(NOW + timedelta(minutes=minutes))
            with site.database.transaction() as session:
                session.execute(update(AlertDelivery).values(sent_at=NOW))
        assert site.open() == ["ERR_API_SPIKE"]
        assert site.sent() == 1 + timedelta(minutes=56) // REPEAT_AFTER


class TestSaturatedPool:
    def test_pool_use_above_85_percent_for_three_minutes_raises_an_alert(self, site: Site) -> None:
        for back in (3, 2):
            site.record(NOW - timedelta(minutes=back), used=90, maximum=100)
        site.check(NOW)
        assert site.open() == []
        site.record(NOW - timedelta(minutes=1), used=90, maximum=100, timeouts=2, waits=3)

        site.check(NOW)

        assert site.open() == ["DB_POOL_SATURATED"]
        with site.database.reading() as session:
            facts = session.scalar(text("SELECT facts FROM alerts"))
        assert facts["percentPerMinute"] == [90, 90, 90]
        assert (facts["waits"], facts["timeouts"]) == (3, 2)

        site.record(NOW + timedelta(minutes=1), used=10, maximum=100)
        site.check(NOW + timedelta(minutes=2))
        assert site.open() == []

    def test_time_outs_of_three_minutes_raise_an_alert(self, site: Site) -> None:
        """The pool of a busy process is exhausted while other processes are idle."""
        for back in (3, 2):
            site.record(NOW - timedelta(minutes=back), used=10, maximum=100, timeouts=1)
        site.check(NOW)
        assert site.open() == []
        site.record(NOW - timedelta(minutes=1), used=10, maximum=100, timeouts=1)
        site.check(NOW)
        assert site.open() == ["DB_POOL_SATURATED"]

    def test_quiet_minute_is_no_saturation(self, site: Site) -> None:
        for back, used in ((3, 95), (2, 85), (1, 95)):
            site.record(NOW - timedelta(minutes=back), used=used, maximum=100)
        site.check(NOW)
        assert site.open() == []

    def test_pool_in_use_is_sampled(self, services: Services) -> None:
        with services.database.reading() as first, services.database.reading() as second:
            first.execute(text("SELECT 1"))
            second.execute(text("SELECT 1"))
            RECORDER.take()
            services.database.sample_pool()
        found = {key.label: number for key, number in RECORDER.take().items() if key.signal == "pool"}
        assert found["used"] >= 2
        assert found["maximum"] == 2 * services.settings.database_pool_size

    def test_slowest_statements_have_placeholders(self, own_database: Database) -> None:
        with own_database.transaction() as session:
            session.execute(text("DROP EXTENSION IF EXISTS pg_stat_statements"))
            assert monitors.list_slow_statements(session) == []
            session.execute(text("CREATE EXTENSION pg_stat_statements"))
            session.execute(text("SELECT pg_sleep(0.05), '+2348031234567'"))
        with own_database.transaction() as session:
            listed = monitors.list_slow_statements(session)
        assert any("pg_sleep($1)" in line for line in listed)
        assert not any("2348031234567" in line for line in listed)


class TestRejectedWebhooks:
    def test_more_than_five_wrong_signatures_raise_an_alert(self, site: Site) -> None:
        site.record(NOW - timedelta(minutes=2), rejected=5)
        site.check(NOW)
        assert site.open() == []
        site.record(NOW, rejected=1)

        site.check(NOW)

        assert site.open() == ["PAYMENT_WEBHOOK_FAIL"]
        site.check(NOW + timedelta(minutes=6))
        assert site.open() == []


class TestStalledQueue:
    def enqueue(self, site: Site, *, due_at: datetime, created_at: datetime | None = None) -> None:
        site.database.in_transaction(
            outbox.enqueue,
            queue=queues.AI_MODERATION,
            topic="x.y",
            payload={"id": str(uuid4())},
            due_at=due_at,
        )
        with site.database.transaction() as session:
            session.execute(
                text("UPDATE outbox_events SET created_at = :at WHERE due_at = :due"),
                {"at": created_at or due_at, "due": due_at},
            )

    def test_second_worker_is_requested_until_the_queue_moves(self, site: Site) -> None:
        self.enqueue(site, due_at=NOW - timedelta(seconds=121))

        assert site.check_queues(NOW) == 1

        assert site.open() == ["QUEUE_STALL"]
        assert site.hook.requests == [(queues.AI_MODERATION, 2)]
        site.hook.fails = True
        assert site.check_queues(NOW + timedelta(seconds=30)) == 1
        with site.database.transaction() as session:
            session.execute(text("UPDATE outbox_events SET done_at = now() WHERE topic = 'x.y'"))
        site.hook.fails = False
        assert site.check_queues(NOW + timedelta(seconds=60)) == 0
        assert site.open() == []
        assert site.hook.requests[1:] == [(queues.AI_MODERATION, 2), (queues.AI_MODERATION, 1)]
        site.check_queues(NOW + timedelta(seconds=90))
        assert len(site.hook.requests) == 3

    def test_job_for_an_earlier_time_waits_since_the_creation(self, site: Site) -> None:
        self.enqueue(site, due_at=NOW - timedelta(hours=1), created_at=NOW - timedelta(seconds=30))
        assert site.check_queues(NOW) == 0

    def test_job_that_waits_for_two_minutes_is_no_stall(self, site: Site) -> None:
        self.enqueue(site, due_at=NOW - timedelta(seconds=119))
        self.enqueue(site, due_at=NOW + timedelta(hours=1))
        assert site.check_queues(NOW) == 0
        assert site.open() == []
        assert site.hook.requests == []
