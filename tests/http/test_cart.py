"""The cart over HTTP."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import UUID, uuid4

import pytest
from flask import Flask
from flask.testing import FlaskClient

from blueprints.cart.schemas import CartView
from blueprints.http.fields import Deleted
from marketplace.cart import operations, queries
from marketplace.catalog.models import Product
from marketplace.identity.models import Profile
from marketplace.infra.db import Database
from marketplace.vendors.models import VendorProfile
from tests.support.market import Bearer, Market, Store
from tests.support.product_api import faults_of
from tests.support.resource_usage import counted_statements

UNKNOWN_PRODUCT = "00000000-0000-4000-8000-000000000000"  # an unknown product


@pytest.fixture
def buyer(market: Market) -> UUID:
    return market.person()


@pytest.fixture
def headers(buyer: UUID, bearer: Bearer) -> dict[str, str]:
    return bearer(buyer)


def fill(client: FlaskClient, headers: dict[str, str], *lines: tuple[UUID, int]) -> Any:
    items = [{"productId": str(product_id), "quantity": quantity} for product_id, quantity in lines]
    return client.post("/api/cart", json={"items": items}, headers=headers)


def cart(client: FlaskClient, headers: dict[str, str]) -> Any:
    response = client.get("/api/cart", headers=headers)
    assert response.status_code == 200
    assert response.headers["Cache-Control"] == "no-store"
    assert not CartView().validate(response.json["data"])
    return response.json["data"]


def test_new_cart_is_empty(client: FlaskClient, headers: dict[str, str]) -> None:
    assert cart(client, headers) == {
        "items": [],
        "vendors": [],
        "campusId": None,
        "itemCount": 0,
        "subtotalMinor": 0,
        "currency": "NGN",
        "valid": True,
    }


def test_cart_contains_synchronised_items_with_totals(
    client: FlaskClient, market: Market, store: Store, headers: dict[str, str]
) -> None:
    other = market.store()
    lamp, shop_client = market.product(store, price_minor=1_000), market.product(other, price_minor=7_000)
    chair = market.product(store, price_minor=3_000, cover_key="products/chair.webp")

    response = fill(client, headers, (chair, 2), (shop_client, 1), (lamp, 3))

    assert response.status_code == 200
    data = response.json["data"]
    assert data == cart(client, headers)
    assert [(UUID(line["productId"]), line["quantity"]) for line in data["items"]] == [
        (chair, 2),
        (shop_client, 1),
        (lamp, 3),
    ]
    first = data["items"][0]
    assert (first["unitPriceMinor"], first["lineTotalMinor"]) == (3_000, 6_000)
    assert (first["available"], first["inStock"], first["orderable"]) == (5, True, True)
    assert (first["problem"], first["previousPriceMinor"]) == (None, None)
    assert first["imageUrl"].endswith("/products/chair.webp")
    totals = {UUID(each["id"]): (each["itemCount"], each["subtotalMinor"]) for each in data["vendors"]}
    assert totals == {store.id: (2, 9_000), other.id: (1, 7_000)}
    assert (data["subtotalMinor"], data["itemCount"], data["valid"]) == (16_000, 3, True)
    assert UUID(data["campusId"]) == market.campus_id


def test_synchronising_replaces_all_items(
    client: FlaskClient, market: Market, store: Store, headers: dict[str, str]
) -> None:
    kept, dropped, added = (market.product(store) for _ in range(3))
    fill(client, headers, (kept, 1), (dropped, 1))

    data = fill(client, headers, (added, 2), (kept, 4)).json["data"]

    assert [(UUID(line["productId"]), line["quantity"]) for line in data["items"]] == [(added, 2), (kept, 4)]
    assert fill(client, headers).json["data"]["items"] == []


def test_cart_is_cleared(
    client: FlaskClient, market: Market, store: Store, buyer: UUID, headers: dict[str, str]
) -> None:
    fill(client, headers, (market.product(store), 1))

    for _ in range(2):  # an empty cart can be cleared too
        response = client.delete("/api/cart", headers=headers)
        assert response.status_code == 200
        assert not Deleted().validate(response.json["data"])
        assert response.json["data"] == {"deleted": True, "id": str(buyer)}
        assert cart(client, headers)["items"] == []


def test_carts_of_different_buyers_are_separate(
    client: FlaskClient, market: Market, store: Store, bearer: Bearer
) -> None:
    first, second = bearer(market.person()), bearer(market.person())
    product_id = market.product(store)
    fill(client, first, (product_id, 1))
    fill(client, second, (product_id, 2))

    client.delete("/api/cart", headers=first)

    assert cart(client, first)["items"] == []
    assert cart(client, second)["items"][0]["quantity"] == 2


def test_cart_lines_are_compared_with_current_offers(
    client: FlaskClient, market: Market, store: Store, headers: dict[str, str]
) -> None:
    away = market.store()
    fine, sold, short, hidden, dearer = (
        market.product(store, price_minor=1_000, quantity=4) for _ in range(5)
    )
    gone = market.product(away, price_minor=1_000)
    fill(client, headers, *((each, 2) for each in (fine, sold, short, hidden, gone, dearer)))

    market.change(Product, sold, reserved=4)
    market.change(Product, short, reserved=3)
    market.change(Product, hidden, status="paused")
    market.change(Product, dearer, price_minor=1_500)
    market.change(VendorProfile, away.id, on_vacation=True)
    data = cart(client, headers)

    assert [line["problem"] for line in data["items"]] == [
        None,
        "out_of_stock",
        "insufficient_stock",
        "not_available",
        "not_available",
        "price_changed",
    ]
    assert [line["available"] for line in data["items"]] == [4, 0, 1, 0, 0, 4]
    assert [line["inStock"] for line in data["items"]] == [True, False, True, False, False, True]
    assert [line["orderable"] for line in data["items"]] == [True, False, False, False, False, True]
    assert data["items"][5]["previousPriceMinor"] == 1_000
    assert data["items"][5]["unitPriceMinor"] == 1_500
    assert data["subtotalMinor"] == 2_000 + 3_000
    assert data["valid"] is False


def test_quantity_above_stock_is_saved_and_flagged(
    client: FlaskClient, market: Market, store: Store, headers: dict[str, str]
) -> None:
    data = fill(client, headers, (market.product(store, quantity=1), 2)).json["data"]
    assert data["items"][0]["problem"] == "insufficient_stock"
    assert data["valid"] is False


def test_unavailable_and_repeated_cart_items_are_named_by_line(
    client: FlaskClient, market: Market, store: Store, headers: dict[str, str]
) -> None:
    fine = market.product(store)
    before = fill(client, headers, (fine, 1)).json["data"]
    elsewhere = market.product(market.store(campus_id=market.campus()))
    closed = market.product(market.store(status="closed"))
    paused = market.product(store, status="paused")

    response = fill(
        client, headers, (fine, 1), (elsewhere, 1), (closed, 1), (fine, 2), (paused, 1), (uuid4(), 1)
    )

    assert (response.status_code, response.json["code"]) == (422, "VALIDATION_FAILED")
    assert faults_of(response) == [f"items[{index}].productId" for index in range(1, 6)]
    assert cart(client, headers) == before


def test_vendor_cannot_buy_from_own_store(
    client: FlaskClient, market: Market, store: Store, bearer: Bearer
) -> None:
    own, other = market.product(store), market.product(market.store())
    response = fill(client, bearer(store.user_id), (other, 1), (own, 1))
    assert response.status_code == 422
    assert faults_of(response) == ["items[1].productId"]
    assert "own store" in response.json["invalid_params"][0]["reason"]


def test_cart_items_must_be_of_same_campus_as_buyer(
    client: FlaskClient, market: Market, bearer: Bearer
) -> None:
    second = market.campus()
    here, there = market.product(market.store()), market.product(market.store(campus_id=second))
    nomad = market.person(campus_id=None)

    assert fill(client, bearer(nomad), (there, 1)).status_code == 200
    mixed = fill(client, bearer(nomad), (there, 1), (here, 1))
    assert faults_of(mixed) == ["items[1].productId"]
    foreign = fill(client, bearer(market.person()), (there, 1))
    assert faults_of(foreign) == ["items[0].productId"]
    market.change(Profile, nomad, campus_id=second)
    assert fill(client, bearer(nomad), (there, 1)).status_code == 200


@pytest.mark.parametrize(
    ("body", "faults"),
    [
        ({}, ["items"]),
        ({"items": None}, ["items"]),
        ({"items": {}}, ["items"]),
        ({"items": [{"quantity": 1}]}, ["items[0].productId"]),
        ({"items": [{"productId": "lamp", "quantity": 1}]}, ["items[0].productId"]),
        ({"items": [{"productId": UNKNOWN_PRODUCT}]}, ["items[0].quantity"]),
        ({"items": [{"productId": UNKNOWN_PRODUCT, "quantity": 0}]}, ["items[0].quantity"]),
        ({"items": [{"productId": UNKNOWN_PRODUCT, "quantity": 1_001}]}, ["items[0].quantity"]),
        ({"items": [{"productId": UNKNOWN_PRODUCT, "quantity": 1.0}]}, ["items[0].quantity"]),
        ({"items": [{"productId": UNKNOWN_PRODUCT, "quantity": True}]}, ["items[0].quantity"]),
        ({"items": [{"productId": UNKNOWN_PRODUCT, "quantity": 1, "price": 1}]}, ["items[0].price"]),
        ({"items": [{"productId": UNKNOWN_PRODUCT, "quantity": 1}] * 51}, ["items"]),
        ({"items": [], "note": "x"}, ["note"]),
    ],
)
def test_invalid_cart_fields_are_named(
    client: FlaskClient, headers: dict[str, str], body: dict[str, Any], faults: list[str]
) -> None:
    response = client.post("/api/cart", json=body, headers=headers)
    assert response.status_code == 422
    assert faults_of(response) == faults


def test_cart_requires_token_and_active_account(client: FlaskClient, market: Market, bearer: Bearer) -> None:
    restricted = bearer(market.person(account_status="restricted"))
    for method in ("get", "post", "delete"):
        assert getattr(client, method)("/api/cart").status_code == 401
        refused = getattr(client, method)("/api/cart", headers=restricted)
        assert (refused.status_code, refused.json["code"]) == (403, "AUTH_FORBIDDEN")


def test_reading_cart_takes_constant_number_of_statements(
    client: FlaskClient, market: Market, store: Store, headers: dict[str, str], database: Database
) -> None:
    counts = []
    for size in (1, 20):
        fill(client, headers, *((market.product(store), 1) for _ in range(size)))
        with counted_statements(database) as seen:
            cart(client, headers)
        counts.append(len(seen))

    assert counts == [2, 2]  # the caller and the cart


def test_concurrent_synchronisation_keeps_a_single_complete_cart(
    app: Flask, client: FlaskClient, market: Market, store: Store, headers: dict[str, str]
) -> None:
    carts = [[(market.product(store), 1) for _ in range(3)] for _ in range(4)]

    with ThreadPoolExecutor(max_workers=4) as pool:
        answers = list(pool.map(lambda lines: fill(app.test_client(), headers, *lines), carts))

    assert [answer.status_code for answer in answers] == [200] * 4
    left = [(UUID(line["productId"]), line["quantity"]) for line in cart(client, headers)["items"]]
    assert left in carts


def test_cart_items_are_listed_for_order_and_then_cleared(
    client: FlaskClient, store: Store, market: Market, buyer: UUID, bearer: Bearer
) -> None:
    lines = [(market.product(store), number) for number in (3, 1, 2)]
    headers = bearer(buyer)
    fill(client, headers, *lines)

    with market.database.transaction() as session:
        found = queries.list_cart_items(session, user_id=buyer)
        assert [(line.product_id, line.quantity) for line in found] == lines
        operations.clear_cart(session, user_id=buyer)
        assert queries.list_cart_items(session, user_id=buyer) == []
    assert cart(client, headers)["items"] == []
