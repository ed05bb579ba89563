"""The screening of listings: publishes or rejects once, however often and late it is asked."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from uuid import UUID, uuid4

import pytest

from marketplace.catalog import operations
from marketplace.catalog.models import Product
from marketplace.infra.db import Database
from tests.support.market import Market, Store


@pytest.fixture
def market(database: Database) -> Market:
    return Market(database)


@pytest.fixture
def store(market: Market) -> Store:
    return market.store()


def screen(market: Market, product_id: UUID, *, minutes: int = 1) -> str | None:
    return market.database.in_transaction(
        operations.screen_product, product_id=product_id, now=market.now + timedelta(minutes=minutes)
    )


def test_a_fit_listing_is_published(market: Market, store: Store) -> None:
    product_id = market.product(store, status="in_review", status_reason="Before.")

    assert screen(market, product_id) == "published"

    row = market.row(Product, product_id)
    assert (row.status, row.status_reason) == ("published", None)
    assert row.published_at == row.screened_at == market.now + timedelta(minutes=1)
    assert row.revision == 1


def test_one_that_is_not_is_rejected_with_the_reasons(market: Market, store: Store) -> None:
    product_id = market.product(store, status="in_review", title="12345")

    assert screen(market, product_id) == "rejected"

    row = market.row(Product, product_id)
    assert (row.status, row.published_at, row.screened_at) == ("rejected", None, None)
    assert row.status_reason == "The title must say in words what is sold."


def test_a_second_asking_changes_nothing(market: Market, store: Store) -> None:
    product_id = market.product(store, status="in_review")
    screen(market, product_id)

    assert screen(market, product_id, minutes=9) is None

    assert market.row(Product, product_id).published_at == market.now + timedelta(minutes=1)


@pytest.mark.parametrize("status", ["draft", "published", "rejected", "paused", "removed", "deleted"])
def test_a_late_asking_leaves_any_other_state(market: Market, store: Store, status: str) -> None:
    product_id = market.product(store, status=status)
    before = market.row(Product, product_id).updated_at

    assert screen(market, product_id) is None

    row = market.row(Product, product_id)
    assert (row.status, row.updated_at) == (status, before)


def test_a_listing_that_is_gone_is_none_to_screen(market: Market) -> None:
    assert screen(market, uuid4()) is None


def test_a_changed_listing_keeps_its_place_among_what_is_new(market: Market, store: Store) -> None:
    first = market.now - timedelta(days=3)
    product_id = market.product(store, status="in_review", published_at=first)

    assert screen(market, product_id) == "published"

    row = market.row(Product, product_id)
    assert row.published_at == first
    assert row.screened_at == market.now + timedelta(minutes=1)


def test_of_many_at_once_one_publishes(market: Market, store: Store) -> None:
    product_id = market.product(store, status="in_review")

    with ThreadPoolExecutor(max_workers=4) as pool:
        states = list(pool.map(lambda _: screen(market, product_id), range(4)))

    assert sorted(states, key=str) == [None, None, None, "published"]
