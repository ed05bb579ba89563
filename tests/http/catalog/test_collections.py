"""New arrivals, exclusives, store listings and bulk lookup by id, over HTTP."""

from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from flask.testing import FlaskClient

from blueprints.catalog.products.schemas import ProductCard
from marketplace.catalog.models import Product
from marketplace.infra.db import Database
from marketplace.vendors.models import VendorProfile
from tests.support.market import Bearer, Market, Store
from tests.support.product_api import faults_of, ids_of, listing_body
from tests.support.resource_usage import counted_statements

ROUTES = ("trending", "new-arrivals", "exclusives")


def fetch(client: FlaskClient, route: str, **query: Any) -> Any:
    response = client.get(f"/api/products/{route}", query_string=query)
    assert response.status_code == 200, response.json
    assert response.headers["Cache-Control"] == "public, max-age=60"
    assert not ProductCard(many=True).validate(response.json["data"])
    return response.json


def test_new_arrivals_cover_fourteen_days_newest_first(
    client: FlaskClient, market: Market, store: Store
) -> None:
    ages = {
        days: market.product(store, published_at=market.now - timedelta(days=days)) for days in (13, 1, 5)
    }
    market.product(store, published_at=market.now - timedelta(days=15))

    assert ids_of(fetch(client, "new-arrivals", campus=market.campus_id)) == [ages[1], ages[5], ages[13]]


def test_exclusives_require_a_verified_store(client: FlaskClient, market: Market) -> None:
    verified, other = market.store(verified=True), market.store()
    shown = market.product(verified, exclusive=True)
    market.product(verified)
    market.product(other, exclusive=True)

    assert ids_of(fetch(client, "exclusives", campus=market.campus_id)) == [shown]
    market.change(VendorProfile, verified.id, verified=False)
    assert ids_of(fetch(client, "exclusives", campus=market.campus_id, limit=19)) == []


@pytest.mark.parametrize("route", ROUTES)
def test_collections_accept_campus_and_category_filters_only(
    client: FlaskClient, market: Market, route: str
) -> None:
    child = market.category(below=market.category_id)
    here = market.product(market.store(verified=True), exclusive=True, category_id=child)
    elsewhere = market.store(verified=True, campus_id=market.campus())
    market.product(elsewhere, exclusive=True, category_id=child)

    found = fetch(client, route, campus=market.campus_id, category=market.category_id)
    assert ids_of(found) == [here]
    assert found["meta"]["limit"] == 20
    assert ids_of(fetch(client, route, campus=market.campus_id, category="no-such-category")) == []
    for name, value in (("minPrice", "1"), ("sort", "newest"), ("limit", "101"), ("cursor", "x")):
        response = client.get(f"/api/products/{route}", query_string={name: value})
        assert response.status_code == 422
        assert faults_of(response) == [name]


class TestStoreListing:
    def test_store_listing_supports_the_listing_filters_and_sorts(
        self, client: FlaskClient, market: Market, store: Store
    ) -> None:
        ids = [market.product(store, price_minor=price) for price in (300, 100, 200)]
        market.product(market.store())

        path = f"vendor/{store.id}"
        assert ids_of(fetch(client, path)) == ids
        assert ids_of(fetch(client, path, sort="price_asc")) == [ids[1], ids[2], ids[0]]
        assert ids_of(fetch(client, path, minPrice=150, maxPrice=250)) == [ids[2]]
        response = client.get(f"/api/products/{path}", query_string={"vendor": str(store.id)})
        assert faults_of(response) == ["vendor"]

    def test_store_listing_is_the_same_for_all_callers(
        self, client: FlaskClient, market: Market, store: Store, bearer: Bearer
    ) -> None:
        market.product(store, status="draft")
        shown = market.product(store)
        path = f"/api/products/vendor/{store.id}"
        for headers in (bearer(store.user_id), {}, bearer(market.staff("moderator"))):
            response = client.get(path, headers=headers)
            assert ids_of(response.json) == [shown]
        assert client.get(path, headers={"Authorization": "Bearer nonsense"}).status_code == 401

    def test_listing_of_missing_or_closed_store_is_not_found(
        self, client: FlaskClient, market: Market
    ) -> None:
        gone = [market.store(status=status).id for status in ("suspended", "closed")]
        for vendor_id in (*gone, uuid4(), "me"):
            for _ in range(2):
                response = client.get(f"/api/products/vendor/{vendor_id}")
                assert response.status_code == 404
                assert response.json["code"] == "RESOURCE_NOT_FOUND"

    def test_store_listing_takes_at_most_three_statements(
        self, client: FlaskClient, market: Market, store: Store, database: Database
    ) -> None:
        market.product(store)
        with counted_statements(database) as seen:
            fetch(client, f"vendor/{store.id}", category=market.category_id, minPrice=1)
        assert len(seen) <= 3

    def test_listing_of_vacationing_store_is_empty(self, client: FlaskClient, market: Market) -> None:
        away = market.store(on_vacation=True)
        market.product(away)
        assert ids_of(fetch(client, f"vendor/{away.id}")) == []


class TestBulkLookup:
    def fetch(self, client: FlaskClient, body: Any) -> Any:
        response = client.post("/api/products/bulk", json=body)
        assert response.status_code == 200, response.json
        assert response.headers["Cache-Control"] == "no-store"
        return response.json

    @pytest.mark.parametrize("bare", [False, True], ids=["object", "bare array"])
    def test_products_come_in_the_requested_order(
        self, *, client: FlaskClient, market: Market, store: Store, bare: bool
    ) -> None:
        ids = [market.product(store) for _ in range(5)]
        hidden, stray = market.product(store, status="paused"), uuid4()
        away = market.product(market.store(on_vacation=True))
        wanted = [str(one) for one in (ids[3], stray, ids[0], hidden, ids[3], ids[4], away, stray)]

        answer = self.fetch(client, wanted if bare else {"ids": wanted})

        assert ids_of(answer) == [ids[3], ids[0], ids[4]]
        assert answer["meta"]["missing"] == [str(stray), str(hidden), str(away)]

    def test_lookup_of_hundred_ids_takes_a_single_statement(
        self, client: FlaskClient, market: Market, store: Store, database: Database
    ) -> None:
        ids = [market.product(store) for _ in range(3)]
        wanted = [str(one) for one in ids] + [str(uuid4()) for _ in range(97)]
        with counted_statements(database) as seen:
            answer = self.fetch(client, wanted)
        assert len(seen) == 1
        assert (len(answer["data"]), len(answer["meta"]["missing"])) == (3, 97)

    @pytest.mark.parametrize(
        ("body", "fault"),
        [
            ({}, "ids"),
            ([], "ids"),
            ({"ids": []}, "ids"),
            ([str(uuid4())] * 101, "ids"),
            (["x"], "ids[0]"),
            ({"ids": [str(uuid4()), 7]}, "ids[1]"),
            ({"ids": "x"}, "ids"),
            ({"ids": [str(uuid4())], "more": 1}, "more"),
            ("x", "body"),
        ],
    )
    def test_invalid_id_list_is_refused(self, client: FlaskClient, body: Any, fault: str) -> None:
        response = client.post("/api/products/bulk", json=body)
        assert response.status_code == 422
        assert faults_of(response) == [fault]


class TestExclusiveFlag:
    def test_verified_store_may_mark_product_exclusive(
        self, client: FlaskClient, market: Market, bearer: Bearer
    ) -> None:
        store = market.store(verified=True)
        made = client.post(
            "/api/products", json=listing_body(market, exclusive=True), headers=bearer(store.user_id)
        )
        assert made.status_code == 201
        assert made.json["data"]["exclusive"] is True
        product_id = UUID(made.json["data"]["id"])
        market.change(
            Product, product_id, status="published", published_at=market.now, screened_at=market.now
        )
        assert ids_of(fetch(client, "exclusives", campus=market.campus_id)) == [product_id]

        # The exclusive flag needs no screening, so the product stays published.
        changed = client.put(
            f"/api/products/{product_id}", json={"exclusive": False}, headers=bearer(store.user_id)
        )
        assert changed.json["data"]["status"] == "published"
        assert ids_of(fetch(client, "exclusives", campus=market.campus_id)) == []

    def test_unverified_store_cannot_mark_product_exclusive(
        self, client: FlaskClient, market: Market, store: Store, bearer: Bearer
    ) -> None:
        headers = bearer(store.user_id)
        product_id = market.product(store)
        for response in (
            client.post("/api/products", json=listing_body(market, exclusive=True), headers=headers),
            client.put(f"/api/products/{product_id}", json={"exclusive": True}, headers=headers),
        ):
            assert response.status_code == 422
            assert faults_of(response) == ["exclusive"]
            assert response.json["reason"] == "verified-store-required"
        assert market.row(Product, product_id).exclusive is False
        assert (
            client.put(f"/api/products/{product_id}", json={"exclusive": False}, headers=headers).status_code
            == 200
        )

    def test_exclusive_flag_set_by_staff_is_hidden_for_unverified_store(
        self, client: FlaskClient, market: Market, store: Store, bearer: Bearer
    ) -> None:
        made = client.post(
            "/api/products",
            json=listing_body(market, exclusive=True, vendorId=str(store.id)),
            headers=bearer(market.staff("moderator")),
        )
        assert made.status_code == 201
        assert made.json["data"]["exclusive"] is False
        assert market.row(Product, UUID(made.json["data"]["id"])).exclusive is True
