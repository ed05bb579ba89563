"""The cache: leases for missing content, invalidation by tags, and outages."""

from uuid import uuid4

import pytest

from marketplace.infra import cache as cache_module
from marketplace.infra.cache import Cache, CacheDownError, RateLimitWindow
from marketplace.services import Services
from tests.support.probes import counted_connections


@pytest.fixture
def cache(services: Services) -> Cache:
    return services.cache


@pytest.fixture
def key() -> str:
    return f"content-{uuid4()}"


def test_missing_content_is_leased_to_a_single_caller(cache: Cache, key: str) -> None:
    first = cache.look_up(window=None, content_key=key)
    second = cache.look_up(window=None, content_key=key)

    assert (first.content, first.must_compute) == (None, True)
    assert (second.content, second.must_compute) == (None, False)
    assert cache.poll(content_key=key, version=first.version) == (None, True)


def test_stored_content_is_found_without_lease(cache: Cache, key: str) -> None:
    missed = cache.look_up(window=None, content_key=key)
    cache.store(content_key=key, version=missed.version, content=b"content", ttl_seconds=60)

    found = cache.look_up(window=None, content_key=key)

    assert (found.content, found.must_compute) == (b"content", False)
    assert cache.poll(content_key=key, version=missed.version)[0] == b"content"


def test_released_lease_is_acquired_by_next_caller(cache: Cache, key: str) -> None:
    missed = cache.look_up(window=None, content_key=key)

    cache.release_compute_lease(content_key=key, version=missed.version)

    assert cache.poll(content_key=key, version=missed.version) == (None, False)
    assert cache.look_up(window=None, content_key=key).must_compute is True


def test_content_computed_before_tag_drop_is_hidden(cache: Cache, key: str) -> None:
    tags = [f"tag-{uuid4()}", f"tag-{uuid4()}"]
    before = cache.look_up(window=None, content_key=key, tags=tags)

    cache.drop(tags[1])
    cache.store(content_key=key, version=before.version, content=b"stale", ttl_seconds=60)

    after = cache.look_up(window=None, content_key=key, tags=tags)
    assert (after.content, after.must_compute) == (None, True)
    assert after.version != before.version


def test_rate_limited_request_acquires_no_lease(cache: Cache, key: str) -> None:
    window = RateLimitWindow(key=f"window-{uuid4()}", limit=1, period_seconds=60)
    assert cache.look_up(window=window).allowed is True

    refused = cache.look_up(window=window, content_key=key)

    assert (refused.allowed, refused.must_compute) == (False, False)
    assert cache.look_up(window=None, content_key=key).must_compute is True


def test_unreachable_cache_is_not_contacted_during_the_cool_down(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache_module, "_COOL_DOWN_SECONDS", 3600.0)
    down = Cache("redis://127.0.0.1:1/0")
    with pytest.raises(CacheDownError):
        down.ping()

    with counted_connections() as connections:
        for _ in range(100):
            with pytest.raises(CacheDownError):
                down.look_up(window=None, content_key="any")
        down.drop_after_commit(["products"])

    assert connections == []


def test_tags_dropped_during_cache_outage_are_dropped_afterwards(cache: Cache, key: str) -> None:
    tag = f"tag-{key}"
    missed = cache.look_up(window=None, content_key=key, tags=[tag])
    cache.store(content_key=key, version=missed.version, content=b"old", ttl_seconds=60)

    cache.record_failure(ConnectionError())
    cache.drop_after_commit([tag])
    cache._down_until = 0.0

    assert cache.look_up(window=None, content_key=key, tags=[tag]).content is None
