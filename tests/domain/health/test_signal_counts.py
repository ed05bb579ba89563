"""Counts of all processes: recorded, sent to the cache, and stored for the objectives and the days."""

import threading
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest

from marketplace.health import signal_counts
from marketplace.health.objectives import BAD, GOOD, OBJECTIVES
from marketplace.infra.cache import Cache, CacheDownError
from marketplace.infra.db import Database
from marketplace.infra.settings import Settings
from marketplace.infra.signals import sending
from marketplace.infra.signals.sending import SignalSender, read_totals, send_counts, signal_counters
from marketplace.kernel.signals import (
    BUCKETS_MS,
    COUNT,
    CSP_VIOLATION,
    DEPRECATED_CALL,
    DURATION_SUM,
    RECORDER,
    Key,
    Recorder,
)
from marketplace.services import Services

NOW = datetime(2026, 11, 20, 9, 30, tzinfo=UTC)
MINUTE = int(NOW.timestamp()) // 60


@pytest.fixture
def cache(services: Services) -> Cache:
    return services.cache


@pytest.fixture(autouse=True)
def _begin_without_counts(empty_database: Callable[[], None], cache: Cache) -> None:
    empty_database()
    source = signal_counters(cache)
    for batch_id in source.close_batch(limit=1_000):
        source.discard_batch(batch_id)


def send(cache: Cache, recorder: Recorder, minute: int = MINUTE) -> int:
    return send_counts(cache, minute=minute, recorder=recorder)


def sums(database: Database, objective: str, *, minutes: int = 1, hours: int = 1) -> dict[int, int]:
    with database.reading() as session:
        return dict(
            signal_counts.sum_counts(
                session,
                signal=objective,
                minutes=minutes,
                since=NOW - timedelta(hours=hours),
                until=NOW + timedelta(hours=hours),
            )
        )


def test_counts_of_processes_add_up(database: Database, cache: Cache) -> None:
    first, second = Recorder(), Recorder()
    for _ in range(3):
        first.observe("http", "GET /api/products 2xx", 0.004)
    second.observe("http", "GET /api/products 2xx", 0.3)
    second.observe("http", "GET /api/products 5xx", 0.05)
    assert send(cache, first) == 2
    assert send(cache, second) == 4
    assert send(cache, first) == 0

    assert signal_counts.store_counts(database, cache, now=NOW) == 1

    assert sums(database, "error_rate") == {GOOD: 4, BAD: 1}
    assert sums(database, "availability", minutes=60) == {GOOD: 4, BAD: 1}
    latency = sums(database, "product_query_latency")
    assert latency == {0: 3, BUCKETS_MS.index(50): 1, BUCKETS_MS.index(400): 1}
    objective = OBJECTIVES["product_query_latency"]
    assert {bucket for bucket in latency if objective.is_good(bucket)} == {0, BUCKETS_MS.index(50)}


def test_batch_is_stored_once_although_a_flush_repeats(database: Database, cache: Cache) -> None:
    recorder = Recorder()
    recorder.count("escrow", number=7)
    recorder.count("deadlock")
    send(cache, recorder)
    [batch_id] = signal_counters(cache).close_batch(limit=1)
    counted = signal_counters(cache).read_batch(batch_id)
    for _ in range(2):
        database.in_transaction(signal_counts._apply_batch, batch_id=batch_id, counted=counted, now=NOW)

    assert sums(database, "escrow_transitions") == {GOOD: 7, BAD: 1}


def test_totals_survive_the_storing(database: Database, cache: Cache) -> None:
    label = f"provider {uuid4().hex} ok"
    for seconds in (0.01, 0.02):
        recorder = Recorder()
        recorder.observe("provider", label, seconds)
        send(cache, recorder)
        signal_counts.store_counts(database, cache, now=NOW)
    found = {key: number for key, number in read_totals(cache).items() if key.label == label}
    assert found == {
        Key("provider", label, BUCKETS_MS.index(10)): 1,
        Key("provider", label, BUCKETS_MS.index(20)): 1,
        Key("provider", label, DURATION_SUM): 30_000,
    }


def test_counts_are_kept_while_the_cache_is_down(cache: Cache) -> None:
    recorder = Recorder()
    recorder.count("escrow", number=2)
    recorder.observe("first_token", "", 0.3)
    assert send(Cache("redis://127.0.0.1:9/0"), recorder) == 0
    assert recorder.take() == {
        Key("escrow", "", COUNT): 2,
        Key("first_token", "", BUCKETS_MS.index(400)): 1,
        Key("first_token", "", DURATION_SUM): 300_000,
    }


class LosingCache(Cache):
    """A cache that goes down after a number of commands."""

    left = 1

    def run(self, *arguments: Any, **named: Any) -> Any:
        self.left -= 1
        if self.left < 0:
            raise CacheDownError
        return super().run(*arguments, **named)


def test_parts_sent_before_an_outage_are_not_sent_again(settings: Settings) -> None:
    cache, recorder, name = LosingCache(settings.redis_url), Recorder(), uuid4().hex
    for number in range(1_500):
        recorder.count(name, str(number))
    assert send(cache, recorder) == 1_000
    cache.left = 10
    assert send(cache, recorder) == 500
    assert send(cache, recorder) == 0
    totals = {key: number for key, number in read_totals(cache).items() if key.signal == name}
    assert len(totals) == 1_500
    assert set(totals.values()) == {1}


def test_zero_counts_are_not_stored(database: Database, cache: Cache) -> None:
    recorder = Recorder()
    recorder.count("pool", "used", 0)
    recorder.count("pool", "maximum", 20)
    assert send(cache, recorder) == 1
    signal_counters(cache).add({"pool|-1|used": 0}, batch_prefix=f"{MINUTE}|", to_totals=True)

    assert signal_counts.store_counts(database, cache, now=NOW) == 1

    assert sums(database, signal_counts.POOL_USED) == {}
    assert sums(database, signal_counts.POOL_MAXIMUM) == {COUNT: 20}


def test_labels_with_words_of_clients_have_no_totals(cache: Cache) -> None:
    """The totals live as long as the cache, so clients must not add keys."""
    recorder, word = Recorder(), uuid4().hex
    recorder.count(CSP_VIOLATION, f"script-src https://{word}.example")
    recorder.count(DEPRECATED_CALL, f"GET /api/old {word}")
    recorder.count("cache", word)
    assert send(cache, recorder) == 3
    assert [key for key in read_totals(cache) if word in key.label] == [Key("cache", word, COUNT)]


def test_daily_labels_are_limited(database: Database, cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signal_counts, "MAX_LABELS_PER_DAY", 3)
    recorder = Recorder()
    for number in range(6):
        recorder.count(CSP_VIOLATION, f"script-src https://{number}.example", 10 - number)
    recorder.count(DEPRECATED_CALL, "GET /api/old okhttp/4.9")
    send(cache, recorder)
    signal_counts.store_counts(database, cache, now=NOW)

    with database.reading() as session:
        rows = signal_counts.list_daily_counts(session, kind=CSP_VIOLATION, since=date(2026, 11, 1))
        [call] = signal_counts.list_daily_counts(session, kind=DEPRECATED_CALL, since=date(2026, 11, 1))
    assert [(row.label[-9:], row.count) for row in rows] == [
        ("other", 18),
        ("0.example", 10),
        ("1.example", 9),
        ("2.example", 8),
    ]
    assert (call.day, call.count) == (NOW.date(), 1)


def test_old_counts_are_deleted(database: Database, cache: Cache) -> None:
    for age in (timedelta(), timedelta(days=5), timedelta(days=41)):
        recorder = Recorder()
        recorder.count("escrow")
        send(cache, recorder, minute=int((NOW - age).timestamp()) // 60)
    signal_counts.store_counts(database, cache, now=NOW)

    signal_counts.purge_counts(database, now=NOW)

    assert sums(database, "escrow_transitions", minutes=1, hours=24 * 50) == {GOOD: 1}
    assert sums(database, "escrow_transitions", minutes=60, hours=24 * 50) == {GOOD: 2}


def test_sender_sends_the_last_counts_at_its_end(cache: Cache) -> None:
    sender = SignalSender(cache)
    sender.start()
    sender.start()
    label = uuid4().hex
    RECORDER.count("test", label)

    sender.stop()

    assert read_totals(cache)[Key("test", label, COUNT)] == 1


def test_counts_are_dated_by_the_shared_clock(database: Database, cache: Cache) -> None:
    """A host with a wrong time must not hide its errors from the windows of the alerts."""
    RECORDER.take()
    sender = SignalSender(cache, clock=lambda: NOW)
    sender.start()
    RECORDER.count("deadlock")
    sender.stop()
    signal_counts.store_counts(database, cache, now=NOW)
    assert sums(database, "escrow_transitions", minutes=1)[BAD] == 1


def test_failed_sample_does_not_end_the_sending(cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sending, "INTERVAL_SECONDS", 0.01)
    sampled = threading.Semaphore(0)

    def fail() -> None:
        sampled.release()
        raise RuntimeError("no pool")

    sender, label = SignalSender(cache, samples=(fail,)), uuid4().hex
    sender.start()
    assert sampled.acquire(timeout=60)
    RECORDER.count("test", label)
    # The second later sample begins after the counts before the first were sent.
    assert all(sampled.acquire(timeout=60) for _ in range(2))

    assert read_totals(cache)[Key("test", label, COUNT)] == 1
    sender.stop()


def test_thresholds_of_the_objectives_are_bounds_of_the_histogram() -> None:
    for objective in OBJECTIVES.values():
        assert objective.threshold_ms is None or objective.threshold_ms in BUCKETS_MS
