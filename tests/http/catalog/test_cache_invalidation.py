"""Cached listings after a change: no listing shows a stale product."""

from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from flask.testing import FlaskClient

from marketplace.catalog.statistics import counters
from marketplace.services import Services
from tests.support.market import Bearer, Market, Store
from tests.support.moderation import screen_by_rules_alone

ROUTES = (
    "/api/products",
    "/api/products/trending",
    "/api/products/new-arrivals",
    "/api/products/exclusives",
    "/api/products/vendor/{store}",
)


class Shop:
    """A store with a single product on a cached public listing."""

    def __init__(self, client: FlaskClient, market: Market, bearer: Bearer, route: str) -> None:
        self.client, self.market, self._bearer = client, market, bearer
        self.store: Store = market.store(verified=True)
        self.product_id: UUID = market.product(self.store, exclusive=True, quantity=2, title="Reading lamp")
        self._path = route.format(store=self.store.id)
        self._query = {} if "vendor/" in route else {"campus": str(market.campus_id)}

    def shown(self) -> dict[str, Any] | None:
        """Return the product's card, or ``None`` if the listing omits the product."""
        response = self.client.get(self._path, query_string=self._query)
        assert response.status_code == 200
        cards: list[dict[str, Any]] = response.json["data"]  # type: ignore[index]
        assert len(cards) <= 1
        return cards[0] if cards else None

    def send(self, method: str, path: str = "", *, by: UUID | None = None, **body: Any) -> None:
        """Send a request as the vendor or as another user."""
        headers = self._bearer(by or self.store.user_id)
        target = path or f"/api/products/{self.product_id}"
        response = self.client.open(target, method=method, json=body or None, headers=headers)
        assert response.status_code in (200, 201), response.json


@pytest.fixture(params=ROUTES)
def shop(request: pytest.FixtureRequest, client: FlaskClient, market: Market, bearer: Bearer) -> Shop:
    made = Shop(client, market, bearer, request.param)
    assert made.shown() is not None
    return made


def pause(shop: Shop) -> None:
    shop.send("PUT", status="paused")


def delete(shop: Shop) -> None:
    shop.send("DELETE")


@pytest.mark.parametrize("change", [pause, delete])
def test_hidden_product_leaves_cached_listing_at_once(shop: Shop, change: Callable[[Shop], None]) -> None:
    change(shop)

    assert shop.shown() is None


def test_resumed_product_returns_to_cached_listing_at_once(shop: Shop) -> None:
    shop.send("PUT", status="paused")
    assert shop.shown() is None

    shop.send("PUT", status="published")

    assert shop.shown() is not None


def test_cached_listing_shows_the_new_price_after_screening(shop: Shop) -> None:
    shown = shop.shown()
    assert shown is not None
    price = shown["priceMinor"] + 500

    shop.send("PUT", priceMinor=price)
    assert shop.shown() is None  # hidden until screened
    with shop.market.database.transaction() as session:
        assert screen_by_rules_alone(session, product_id=shop.product_id, now=shop.market.now) == "published"

    again = shop.shown()
    assert again is not None
    assert again["priceMinor"] == price


def test_sold_out_product_is_marked_at_once(shop: Shop) -> None:
    shop.send("PUT", quantity=0)

    shown = shop.shown()
    assert shown is not None
    assert shown["inStock"] is False
    shop.send("PUT", quantity=1)
    again = shop.shown()
    assert again is not None
    assert again["inStock"] is True


def test_product_sold_out_by_an_order_is_marked_at_once(shop: Shop) -> None:
    items = [{"productId": str(shop.product_id), "quantity": 2}]
    buyer = shop.market.person()
    shop.send("POST", "/api/orders", by=buyer, items=items, shippingAddress={"hostel": "Moremi"})

    shown = shop.shown()
    assert shown is not None
    assert shown["inStock"] is False


def test_trending_order_changes_at_once_after_flush(
    client: FlaskClient, market: Market, services: Services, store: Store
) -> None:
    first = market.product(store, popularity=9)
    second = market.product(store, popularity=1)
    query = {"campus": str(market.campus_id)}

    def order() -> list[UUID]:
        response = client.get("/api/products/trending", query_string=query)
        return [UUID(card["id"]) for card in response.json["data"]]  # type: ignore[index]

    assert order() == [first, second]
    assert client.post(f"/api/products/{second}/stats/cart_add").status_code == 200
    assert order() == [first, second]

    counters.flush_counts(services.database, services.cache, now=market.now)

    assert order() == [second, first]
