"""Pages during concurrent writes: no listing that existed before is skipped or repeated."""

import random
import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from flask import Flask
from sqlalchemy import text

from marketplace.catalog.models import Product
from marketplace.catalog.promotions.models import FeaturedProduct, FlashSale
from marketplace.infra.db import Database
from tests.support.depth import case_count, sample
from tests.support.market import Bearer, Market, Store

BEFORE = case_count(20, deep=40)
LEAST_WRITTEN = case_count(20, deep=100)
SORTS = ("newest", "price_asc", "price_desc", "popular", "rating")
OWN_SORTS = ("updatedAt", "createdAt", "title", "priceMinor", "available", "popularity")
LISTINGS = (
    *(("/api/products", {"sort": sort}) for sort in SORTS),
    *(("/api/products/vendor/{store}", {"sort": sort}) for sort in SORTS),
    ("/api/products/trending", {}),
    ("/api/products/new-arrivals", {}),
    ("/api/products/exclusives", {}),
    ("/api/products/featured", {}),
    ("/api/products/search", {"q": "thing"}),
    ("/api/flash-sales", {}),
    ("/api/flash-sales/active", {}),
    *sample(
        [
            ("/api/products/vendor/paginated", {"sort": sort, "order": order})
            for sort in OWN_SORTS
            for order in ("asc", "desc")
        ],
        every=3,
    ),
)


class Shelf:
    """A store with products, to which more products are added at random positions."""

    def __init__(self, database: Database, *, promoted: bool) -> None:
        self._promoted = promoted
        self.database = database
        self.market = Market(database)
        self.store: Store = self.market.store(verified=True)
        self._draw = random.Random(7)  # noqa: S311 - the same in every run
        self.before = [self.add() for _ in range(BEFORE)]
        with database.transaction() as session:
            session.execute(
                text(
                    "INSERT INTO product_counts (product_id, trending)"
                    " SELECT id, popularity + 1000 FROM products"
                    " WHERE vendor_id = :vendor_id AND popularity % 2 = 0"
                ),
                {"vendor_id": self.store.id},
            )
        self.written = 0

    def add(self) -> UUID:
        """Add a product with random sort values."""
        draw, now = self._draw, self.market.now
        product_id = self.market.product(
            self.store,
            title=f"Thing {draw.randrange(9)}",
            price_minor=1_000 + draw.randrange(9),
            popularity=draw.randrange(9),
            quantity=draw.randrange(9),
            rating_sum=draw.randrange(9),
            rating_count=2,
            exclusive=True,
            published_at=now - timedelta(minutes=draw.randrange(9)),
            created_at=now - timedelta(minutes=draw.randrange(9)),
            updated_at=now - timedelta(minutes=draw.randrange(9)),
        )
        if self._promoted:
            self._promote(product_id)
        return product_id

    def _promote(self, product_id: UUID) -> None:
        """Promote a product at a random position."""
        draw, now = self._draw, self.market.now
        window = {
            "product_id": product_id,
            "starts_at": now - timedelta(minutes=1),
            "ends_at": now + timedelta(hours=1 + draw.randrange(3)),
            "created_by": self.store.user_id,
        }
        with self.database.transaction() as session:
            session.add(FlashSale(sale_price_minor=500, **window))
            session.add(FeaturedProduct(campus_id=self.store.campus_id, position=draw.randrange(5), **window))

    def write(self, ended: threading.Event) -> None:
        """Add and hide products until the reader is done."""
        added = []
        while not ended.is_set() or self.written < LEAST_WRITTEN:
            added.append(self.add())
            self.written += 1
            if len(added) % 3 == 0:
                self.market.change(Product, self._draw.choice(added), status="paused")
            if self.written >= 2_000:
                return


@pytest.mark.parametrize(
    ("path", "query"), LISTINGS, ids=[f"{path} {' '.join(query.values())}" for path, query in LISTINGS]
)
def test_pages_during_writes_skip_and_repeat_nothing(
    database: Database, crowded_app: Flask, bearer: Bearer, path: str, query: dict[str, Any]
) -> None:
    shelf = Shelf(database, promoted="featured" in path or "flash" in path)
    ended = threading.Event()
    writer = threading.Thread(target=shelf.write, args=(ended,))
    headers = bearer(shelf.store.user_id)
    parameters = {"limit": 3} | query
    if "vendor" not in path:
        parameters["campus"] = str(shelf.market.campus_id)
    path = path.format(store=shelf.store.id)
    writer.start()
    try:
        seen = _read_all(crowded_app, path, parameters, headers, between=shelf.add)
    finally:
        ended.set()
        writer.join(60)

    assert not writer.is_alive()
    assert shelf.written >= LEAST_WRITTEN
    assert len(seen) == len(set(seen))
    assert set(shelf.before) <= set(seen)


def _read_all(
    app: Flask,
    path: str,
    query: dict[str, Any],
    headers: dict[str, str],
    *,
    between: Callable[[], Any],
) -> list[UUID]:
    """Read pages to the end of the initial listing, and add a product after each page."""
    client, seen = app.test_client(), []
    parameters = dict(query)
    for _ in range(3_000):
        response = client.get(path, query_string=parameters, headers=headers)
        assert response.status_code == 200, response.text
        body: Any = response.json
        found = body["data"]["products"] if "q" in query else body["data"]
        seen += [UUID(item.get("product", item)["id"]) for item in found]
        if not body["meta"]["has_more"]:
            return seen
        parameters = query | {"cursor": body["meta"]["next_cursor"]}
        if len(seen) < 3 * BEFORE:
            between()
    raise AssertionError("the listing does not end")
