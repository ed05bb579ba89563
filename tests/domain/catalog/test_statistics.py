"""Product counters: exactly-once totals despite crashes, hourly counts, and the trending order."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from sqlalchemy import text

from marketplace.catalog.browse import collections
from marketplace.catalog.browse.listing import ProductFilters
from marketplace.catalog.models import Product
from marketplace.catalog.statistics import counters
from marketplace.infra.cache import Cache, Script
from marketplace.infra.db import Database
from marketplace.kernel.errors import NotFoundError
from marketplace.kernel.paging import PageRequest
from marketplace.services import Services
from tests.support.market import Market, Store

NOW = datetime(2026, 11, 20, 9, 30, tzinfo=UTC)
HOUR = timedelta(hours=1)


@pytest.fixture
def market(database: Database) -> Market:
    return Market(database, now=NOW)


@pytest.fixture
def store(market: Market) -> Store:
    return market.store()


@pytest.fixture
def cache(services: Services) -> Cache:
    return services.cache


class KilledError(BaseException):
    """The simulated death of the process."""


class CrashingBackend:
    """A database and cache of a process that dies right before or right after a given step."""

    def __init__(self, database: Database, cache: Cache, *, step: int, after: bool) -> None:
        self._database, self._cache, self._left, self._after = database, cache, step, after

    def run(self, script: Script, *arguments: Any) -> Any:
        """Stand in for ``Cache.run``."""
        return self._step(lambda: self._cache.run(script, *arguments))

    def in_transaction(self, work: Any, **values: Any) -> Any:
        """Stand in for ``Database.in_transaction``."""
        return self._step(lambda: self._database.in_transaction(work, **values))

    def _step(self, work: Any) -> Any:
        self._left -= 1
        if self._left == 0 and not self._after:
            raise KilledError
        result = work()
        if self._left == 0:
            raise KilledError
        return result


def count(
    database: Database, cache: Cache, product_id: UUID, *kinds: str, now: datetime = NOW, times: int = 1
) -> None:
    for kind in kinds or (counters.VIEW,):
        for _ in range(times):
            with database.reading() as session:
                counters.count_product_event(session, cache=cache, product_id=product_id, kind=kind, now=now)


def totals(database: Database, product_id: UUID) -> tuple[int, int, int]:
    with database.reading() as session:
        found = counters.fetch_totals(session, product_id=product_id)
    return found["views"], found["cart_adds"], found["shares"]


def hours(database: Database, product_id: UUID) -> list[tuple[Any, ...]]:
    with database.reading() as session:
        rows = session.execute(
            text(
                "SELECT hour, views, cart_adds, shares FROM product_statistics"
                " WHERE product_id = :id ORDER BY hour"
            ),
            {"id": product_id},
        )
        return [tuple(row) for row in rows]


def test_flush_adds_counts_to_hours_and_totals(
    database: Database, cache: Cache, market: Market, store: Store
) -> None:
    product_id = market.product(store)
    count(database, cache, product_id, "view", "view", "share")
    count(database, cache, product_id, "view", "cart_add", now=NOW + HOUR)
    assert totals(database, product_id) == (0, 0, 0)

    counters.flush_counts(database, cache, now=NOW + HOUR)
    count(database, cache, product_id, "cart_add", now=NOW + HOUR)
    counters.flush_counts(database, cache, now=NOW + HOUR)

    begun = NOW.replace(minute=0)
    assert hours(database, product_id) == [(begun, 2, 0, 1), (begun + HOUR, 1, 2, 0)]
    assert totals(database, product_id) == (3, 2, 1)


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("step", [1, 2, 3, 4])
def test_flush_killed_at_any_step_adds_counts_once(
    database: Database, cache: Cache, market: Market, store: Store, *, step: int, after: bool
) -> None:
    """The steps of a flush are take, read, add and discard."""
    counters.flush_counts(database, cache, now=NOW)
    product_id = market.product(store)
    count(database, cache, product_id, times=7)
    crashing = CrashingBackend(database, cache, step=step, after=after)

    with pytest.raises(KilledError):
        counters.flush_counts(crashing, crashing, now=NOW)  # type: ignore[arg-type]
    count(database, cache, product_id, "share")
    for _ in range(2):
        counters.flush_counts(database, cache, now=NOW)

    assert totals(database, product_id) == (7, 0, 1)
    assert counters.product_counters(cache).close_batch(limit=10) == []


def test_failed_transaction_keeps_the_batch(
    database: Database, cache: Cache, market: Market, store: Store
) -> None:
    product_id = market.product(store)
    count(database, cache, product_id, times=3)

    class Failing:
        def in_transaction(self, work: Any, **values: Any) -> Any:
            with database.transaction() as session:
                work(session, **values)
                raise RuntimeError

    with pytest.raises(RuntimeError):
        counters.flush_counts(Failing(), cache, now=NOW)  # type: ignore[arg-type]
    assert totals(database, product_id) == (0, 0, 0)
    counters.flush_counts(database, cache, now=NOW)

    assert totals(database, product_id) == (3, 0, 0)


def test_counts_of_unknown_products_are_ignored(
    database: Database, cache: Cache, market: Market, store: Store
) -> None:
    product_id, stray = market.product(store), uuid4()
    counters.product_counters(cache).increment(f"{int(NOW.timestamp()) // 3600}:view:{stray.hex}")
    count(database, cache, product_id)

    assert counters.flush_counts(database, cache, now=NOW) == 1

    assert totals(database, product_id) == (1, 0, 0)
    assert hours(database, stray) == []


def test_hidden_product_is_not_counted(
    database: Database, cache: Cache, market: Market, store: Store
) -> None:
    hidden = [market.product(store, status=status) for status in ("draft", "paused", "deleted")]
    hidden += [market.product(market.store(status=status)) for status in ("suspended", "closed")]
    for product_id in (*hidden, uuid4()):
        with pytest.raises(NotFoundError):
            count(database, cache, product_id)
    away = market.product(market.store(on_vacation=True))
    count(database, cache, away)

    counters.flush_counts(database, cache, now=NOW)
    assert totals(database, away) == (1, 0, 0)


def test_counts_are_written_to_the_table_directly_without_cache(
    database: Database, cache: Cache, market: Market, store: Store
) -> None:
    product_id, down = market.product(store), Cache("redis://127.0.0.1:1/0")
    count(database, down, product_id, "view", "cart_add", times=3)

    assert totals(database, product_id) == (3, 3, 0)
    assert counters.flush_counts(database, down, now=NOW) == 0
    count(database, cache, product_id)
    counters.flush_counts(database, cache, now=NOW)

    assert totals(database, product_id) == (4, 3, 0)
    assert list_trending(database, market, now=NOW) == [product_id]


def test_hourly_counts_are_deleted_after_ninety_days_and_totals_stay(
    database: Database, cache: Cache, market: Market, store: Store
) -> None:
    product_id = market.product(store)
    count(database, cache, product_id)
    count(database, cache, product_id, now=NOW + timedelta(days=89))
    [batch_id] = counters.product_counters(cache).close_batch(limit=10)
    counters.flush_counts(database, cache, now=NOW + timedelta(days=89))

    database.in_transaction(counters.purge_old_counts, now=NOW + timedelta(days=91))

    assert len(hours(database, product_id)) == 1
    assert totals(database, product_id) == (2, 0, 0)

    def batches() -> int:
        with database.reading() as session:
            found = session.execute(
                text("SELECT count(*) FROM statistics_batches WHERE id = :id"), {"id": batch_id}
            )
            return int(found.scalar_one())

    assert batches() == 1
    database.in_transaction(counters.purge_old_counts, now=NOW + timedelta(days=180))
    assert batches() == 0
    assert hours(database, product_id) == []


def test_batch_surviving_the_purge_of_batch_ids_is_not_added_twice(
    database: Database, cache: Cache, market: Market, store: Store
) -> None:
    product_id = market.product(store)
    count(database, cache, product_id)
    crashing = CrashingBackend(database, cache, step=4, after=False)
    counters.flush_counts(database, cache, now=NOW)
    count(database, cache, product_id)
    with pytest.raises(KilledError):
        counters.flush_counts(crashing, crashing, now=NOW)  # type: ignore[arg-type]
    much_later = NOW + timedelta(days=92)
    database.in_transaction(counters.purge_old_counts, now=much_later)

    counters.flush_counts(database, cache, now=much_later)

    assert totals(database, product_id) == (2, 0, 0)


def list_trending(database: Database, market: Market, *, now: datetime, limit: int = 100) -> list[UUID]:
    """Return the ids of the trending list, read page by page."""
    found: list[UUID] = []
    position: list[Any] | None = None
    with database.reading() as session:
        for _ in range(50):
            page = collections.list_trending(
                session,
                filters=ProductFilters(campus=str(market.campus_id)),
                page=PageRequest(limit, position),
                now=now,
                media_base_url="",
            )
            found += [UUID(card.id) for card in page.items]
            position = page.next_position
            if position is None:
                return found
    raise AssertionError("the listing does not end")


def test_cart_adds_outweigh_views_and_shares_do_not_count(
    database: Database, cache: Cache, market: Market, store: Store
) -> None:
    viewed, wanted, shared = (market.product(store, popularity=0) for _ in range(3))
    count(database, cache, viewed, times=4)
    count(database, cache, wanted, "cart_add")
    count(database, cache, shared, "share", times=50)
    counters.flush_counts(database, cache, now=NOW)

    assert list_trending(database, market, now=NOW) == [wanted, viewed, shared]


def test_recent_hours_outweigh_older_hours_and_scores_expire_after_a_day(
    database: Database, cache: Cache, market: Market, store: Store
) -> None:
    old = market.product(store, popularity=1)
    new = market.product(store, popularity=2)
    count(database, cache, old, times=5, now=NOW - 7 * HOUR)
    count(database, cache, new, times=3, now=NOW)
    counters.flush_counts(database, cache, now=NOW)
    assert list_trending(database, market, now=NOW) == [new, old]

    counters.flush_counts(database, cache, now=NOW + 17 * HOUR)
    count(database, cache, old, now=NOW + 17 * HOUR)
    counters.flush_counts(database, cache, now=NOW + 17 * HOUR)
    # The oldest hour has left the window: 1 view now against 3 views of 17 hours ago.
    assert list_trending(database, market, now=NOW + 17 * HOUR) == [old, new]

    with database.reading() as session:
        trends = text("SELECT count(*) FROM product_counts WHERE product_id = :id AND trending IS NOT NULL")
        assert session.execute(trends, {"id": new}).scalar_one() == 1
        counters.flush_counts(database, cache, now=NOW + 24 * HOUR)
        assert session.execute(trends, {"id": new}).scalar_one() == 0
        assert session.execute(trends, {"id": old}).scalar_one() == 1


def test_passing_time_alone_does_not_change_the_trending_order(
    database: Database, cache: Cache, market: Market, store: Store
) -> None:
    ids = [market.product(store) for _ in range(8)]
    for number, product_id in enumerate(ids):
        count(database, cache, product_id, times=number + 1, now=NOW - (number * 5 % 8) * HOUR)
    counters.flush_counts(database, cache, now=NOW)
    first = list_trending(database, market, now=NOW)

    for hour in range(1, 16):
        counters.flush_counts(database, cache, now=NOW + hour * HOUR)
        assert list_trending(database, market, now=NOW + hour * HOUR, limit=3) == first


def test_trending_order_matches_a_reference_model(
    database: Database, cache: Cache, market: Market, store: Store
) -> None:
    counted = {
        market.product(store): [(age, 1 + age * 3 % 7, age % 3) for age in range(n, 24, n)]
        for n in range(1, 9)
    }
    for product_id, rows in counted.items():
        for age, views, cart_adds in rows:
            count(database, cache, product_id, "view", times=views, now=NOW - age * HOUR)
            count(database, cache, product_id, "cart_add", times=cart_adds, now=NOW - age * HOUR)
    counters.flush_counts(database, cache, now=NOW)

    def score(product_id: UUID) -> float:
        return sum((views + 5 * adds) * 0.5 ** (age / 6) for age, views, adds in counted[product_id])

    assert list_trending(database, market, now=NOW) == sorted(counted, key=score, reverse=True)


def test_products_without_views_follow_by_popularity_across_pages(
    database: Database, cache: Cache, market: Market, store: Store
) -> None:
    seen = [market.product(store, popularity=0) for _ in range(5)]
    unseen = [market.product(store, popularity=number // 2) for number in range(9)]
    for number, product_id in enumerate(seen):
        count(database, cache, product_id, times=2**number)
    counters.flush_counts(database, cache, now=NOW)
    tail = sorted(unseen, key=lambda product_id: (market.row(Product, product_id).popularity, product_id))

    for limit in (1, 2, 3, 4, 5, 6, 14, 20):
        assert list_trending(database, market, now=NOW, limit=limit) == [*reversed(seen), *reversed(tail)]


def test_flush_as_of_a_past_time_defers_later_counts(
    database: Database, cache: Cache, market: Market, store: Store
) -> None:
    """An operator may run the task as of a past time. Later counts apply when due."""
    product_id = market.product(store)
    count(database, cache, product_id)
    counters.flush_counts(database, cache, now=NOW - timedelta(days=3650))
    assert totals(database, product_id) == (1, 0, 0)
    with database.reading() as session:
        due = text("SELECT trending, recount_at FROM product_counts WHERE product_id = :id")
        assert tuple(session.execute(due, {"id": product_id}).one()) == (None, NOW.replace(minute=0))

    counters.flush_counts(database, cache, now=NOW)
    with database.reading() as session:
        assert session.execute(due, {"id": product_id}).one()[0] is not None
