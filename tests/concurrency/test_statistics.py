"""Concurrent product counts with flushes and an unavailable cache: totals are exact."""

import threading
from uuid import UUID

from flask import Flask

from marketplace.catalog.statistics import counters
from marketplace.infra.cache import Cache
from marketplace.infra.db import Database
from marketplace.services import Services
from tests.support.market import Market
from tests.support.purchases import NOW
from tests.support.threads import at_once, unexpected_errors

THREADS = 8
EACH = 120


def totals(database: Database, product_id: UUID) -> tuple[int, int, int]:
    with database.reading() as session:
        found = counters.fetch_totals(session, product_id=product_id)
    return found["views"], found["cart_adds"], found["shares"]


def test_counts_are_exact_with_concurrent_writers_and_flushes(
    database: Database, services: Services, crowded_app: Flask
) -> None:
    market = Market(database)
    store = market.store()
    hot, other = market.product(store), market.product(store)
    writing = threading.Semaphore(0)

    def write() -> None:
        client = crowded_app.test_client()
        for number in range(EACH):
            product_id = other if number % 6 == 0 else hot
            kind = "view" if number % 3 else "cart_add"
            answer = client.post(f"/api/products/{product_id}/stats/{kind}")
            assert answer.status_code == 200, answer.text

    def work(thread: int) -> None:
        if thread < THREADS:
            try:
                write()
            finally:
                writing.release()
            return
        for _ in range(200):
            counters.flush_counts(database, services.cache, now=NOW)
            if writing._value >= THREADS:
                return

    assert unexpected_errors(at_once(work, range(THREADS + 3))) == []
    counters.flush_counts(database, services.cache, now=NOW)

    assert totals(database, hot) == (THREADS * EACH * 4 // 6, THREADS * EACH // 6, 0)
    assert totals(database, other) == (0, THREADS * EACH // 6, 0)


def test_counts_with_and_without_cache_neither_deadlock_nor_get_lost(
    database: Database, services: Services
) -> None:
    market = Market(database)
    store = market.store()
    ids = [market.product(store) for _ in range(5)]
    down = Cache("redis://127.0.0.1:1/0")

    def work(thread: int) -> None:
        for number in range(60):
            cache = down if thread % 2 else services.cache
            with database.reading() as session:
                counters.count_product_event(
                    session,
                    cache=cache,
                    product_id=ids[(thread + number) % 5],
                    kind=counters.SHARE,
                    now=NOW,
                )
            if thread < 2 and number % 5 == 0:
                counters.flush_counts(database, services.cache, now=NOW)

    assert unexpected_errors(at_once(work, range(8))) == []
    counters.flush_counts(database, services.cache, now=NOW)

    assert [totals(database, product_id)[2] for product_id in ids] == [8 * 60 // 5] * 5


def test_batch_taken_by_many_workers_is_counted_once(database: Database, services: Services) -> None:
    market = Market(database)
    product_id = market.product(market.store())
    for _ in range(10):
        with database.reading() as session:
            counters.count_product_event(
                session, cache=services.cache, product_id=product_id, kind=counters.VIEW, now=NOW
            )

    at_once(lambda _: counters.flush_counts(database, services.cache, now=NOW), range(8))

    assert totals(database, product_id) == (10, 0, 0)
