"""Counters in the cache: each count is in exactly one batch, also under concurrency."""

from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest

from marketplace.infra.cache import Cache, CacheDownError
from marketplace.infra.settings import Settings
from marketplace.infra.signals import counters as module
from marketplace.infra.signals.counters import Counters
from marketplace.services import Services
from tests.support.threads import at_once, unexpected_errors


@pytest.fixture
def counters(services: Services) -> Counters:
    return Counters(services.cache, f"test-{uuid4().hex}")


def test_counts_are_closed_as_a_single_batch(counters: Counters) -> None:
    for field in ("a", "b", "a"):
        counters.increment(field)

    [batch_id] = counters.close_batch(limit=10)

    assert counters.read_batch(batch_id) == {"a": 2, "b": 1}


def test_batch_is_listed_until_discarded(counters: Counters) -> None:
    counters.increment("a")
    [first] = counters.close_batch(limit=10)
    counters.increment("a")
    assert counters.close_batch(limit=1) == [first]
    [_, second] = counters.close_batch(limit=10)

    counters.discard_batch(first)
    counters.discard_batch(first)

    assert counters.read_batch(first) == {}
    assert counters.close_batch(limit=10) == [second]
    counters.discard_batch(second)
    assert counters.close_batch(limit=10) == []


def test_full_buffer_becomes_a_separate_batch(counters: Counters, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_BATCH_FIELDS", 3)
    for number in range(7):
        counters.increment(f"field-{number}")
        counters.increment("field-0")

    batches = [counters.read_batch(batch_id) for batch_id in counters.close_batch(limit=10)]

    assert all(len(batch) <= 3 for batch in batches)
    assert len(batches) > 1
    assert sum(sum(batch.values()) for batch in batches) == 14


def test_concurrent_counting_and_closing_loses_no_count(counters: Counters) -> None:
    taken: dict[str, int] = {}

    def take() -> None:
        for batch_id in counters.close_batch(limit=100):
            for field, number in counters.read_batch(batch_id).items():
                taken[field] = taken.get(field, 0) + number
            counters.discard_batch(batch_id)

    def work(thread: int) -> None:
        if thread == 8:
            for _ in range(60):
                take()
        else:
            for number in range(500):
                counters.increment(f"field-{number % 3}")

    assert unexpected_errors(at_once(work, range(9))) == []
    take()

    assert taken == {"field-0": 8 * 167, "field-1": 8 * 167, "field-2": 8 * 166}


def test_unreachable_cache_raises_error() -> None:
    counters = Counters(Cache("redis://127.0.0.1:1/0"), "none")
    with pytest.raises(CacheDownError):
        counters.increment("a")
    with pytest.raises(CacheDownError):
        counters.close_batch(limit=1)


class RepeatingCache(Cache):
    """A cache whose client repeats each command, as after a lost response."""

    between: Callable[[], None] | None = None

    def run(self, *arguments: Any, **named: Any) -> Any:
        super().run(*arguments, **named)
        if self.between is not None:
            self.between()
        return super().run(*arguments, **named)


def test_repeated_commands_count_once_and_lose_nothing(settings: Settings) -> None:
    cache, name = RepeatingCache(settings.redis_url), uuid4().hex
    repeating, counters = Counters(cache, name), Counters(Cache(settings.redis_url), name)
    repeating.add({"a": 2}, batch_prefix="1|", to_totals=True)
    assert counters.read_totals() == {"a": 2}

    cache.between = lambda: counters.increment("2|b")
    [first] = repeating.close_batch(limit=1)
    assert counters.read_batch(first) == {"1|a": 2}
    [_, second] = counters.close_batch(limit=10)
    assert counters.read_batch(second) == {"2|b": 1}
