"""View, cart and share counters of products over HTTP, and the trending list."""

from typing import Any
from uuid import UUID, uuid4

import pytest
from flask.testing import FlaskClient

from blueprints.catalog.browse.schemas import CountedProductEvent
from marketplace.catalog.models import Product
from marketplace.catalog.statistics import counters
from marketplace.infra.db import Database
from marketplace.services import Services
from tests.support.market import Bearer, Market, Store
from tests.support.product_api import faults_of, ids_of
from tests.support.resource_usage import counted_statements


def count(client: FlaskClient, product_id: object, kind: str = "view", **more: Any) -> Any:
    return client.post(f"/api/products/{product_id}/stats/{kind}", **more)


def trending(client: FlaskClient, market: Market, **query: Any) -> list[UUID]:
    response = client.get("/api/products/trending", query_string={"campus": market.campus_id, **query})
    assert response.status_code == 200, response.json
    return ids_of(response.json)


@pytest.mark.parametrize("kind", ["view", "cart_add", "share"])
def test_each_event_type_is_counted(client: FlaskClient, market: Market, store: Store, kind: str) -> None:
    product_id = market.product(store)

    response = count(client, product_id, kind)

    assert response.status_code == 200
    assert response.headers["RateLimit-Limit"] == "12000000"  # 120, scaled for tests
    assert not CountedProductEvent().validate(response.json["data"])
    assert response.json["data"] == {"counted": True, "type": kind, "productId": str(product_id)}


def test_unknown_event_type_is_refused(client: FlaskClient, market: Market, store: Store) -> None:
    product_id = market.product(store)
    for kind in ("views", "VIEW", "purchase", "%20"):
        response = count(client, product_id, kind)
        assert response.status_code == 422, kind
        assert faults_of(response) == ["type"]


def test_event_of_missing_or_hidden_product_is_not_found(
    client: FlaskClient, market: Market, store: Store
) -> None:
    for product_id in (uuid4(), "me", market.product(store, status="draft")):
        response = count(client, product_id)
        assert response.status_code == 404
        assert response.json["code"] == "RESOURCE_NOT_FOUND"


def test_counting_takes_a_single_statement(
    client: FlaskClient, market: Market, store: Store, database: Database
) -> None:
    product_id = market.product(store)
    with counted_statements(database) as seen:
        count(client, product_id)
    assert len(seen) == 1


def test_counting_ignores_missing_and_invalid_tokens(
    client: FlaskClient, market: Market, store: Store, bearer: Bearer
) -> None:
    product_id = market.product(store)
    for headers in ({}, bearer(uuid4()), {"Authorization": "Bearer nonsense"}):
        assert count(client, product_id, headers=headers).status_code == 200


def test_counted_products_trend_after_flush(
    client: FlaskClient, market: Market, store: Store, services: Services
) -> None:
    quiet, viewed, wanted = (market.product(store, popularity=0) for _ in range(3))
    market.change(Product, quiet, popularity=900)
    assert trending(client, market)[0] == quiet
    for _ in range(3):
        count(client, viewed)
    count(client, wanted, "cart_add")

    counters.flush_counts(services.database, services.cache, now=market.now)

    assert trending(client, market) == [wanted, viewed, quiet]
    assert trending(client, market, category=market.category_id) == [wanted, viewed, quiet]
    assert trending(client, market, category=market.category()) == []


def test_counters_are_visible_to_owner_only(
    client: FlaskClient, market: Market, store: Store, services: Services, bearer: Bearer
) -> None:
    product_id = market.product(store)
    for kind in ("view", "view", "cart_add", "share", "share", "share"):
        count(client, product_id, kind)
    counters.flush_counts(services.database, services.cache, now=market.now)

    own = client.get(f"/api/products/{product_id}", headers=bearer(store.user_id)).json["data"]
    assert (own["views"], own["cartAdds"], own["shares"]) == (2, 1, 3)
    other = client.get(f"/api/products/{product_id}", headers=bearer(market.store().user_id)).json["data"]
    assert not {"views", "cartAdds", "shares"} & set(other)


def test_cart_update_alone_counts_no_cart_add(
    client: FlaskClient, market: Market, store: Store, services: Services, bearer: Bearer
) -> None:
    """Clients report cart adds. Counting carts as well would count each synchronisation again."""
    product_id = market.product(store)
    body = {"items": [{"productId": str(product_id), "quantity": 1}]}
    assert client.post("/api/cart", json=body, headers=bearer(market.person())).status_code == 200

    counters.flush_counts(services.database, services.cache, now=market.now)

    with services.database.reading() as session:
        assert counters.fetch_totals(session, product_id=product_id)["cart_adds"] == 0


def test_trending_takes_at_most_three_statements(
    client: FlaskClient, market: Market, store: Store, services: Services
) -> None:
    for number in range(6):
        product_id = market.product(store)
        if number % 2:
            count(client, product_id)
    counters.flush_counts(services.database, services.cache, now=market.now)
    for limit in (2, 3, 5, 20):
        with counted_statements(services.database) as seen:
            trending(client, market, category=market.category_id, limit=limit)
        assert len(seen) <= 3
