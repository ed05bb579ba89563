"""Product updates over HTTP."""

from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from flask.testing import FlaskClient

from blueprints.catalog.products.schemas import ProductDetail
from marketplace.catalog.models import Product
from marketplace.infra.db import Database
from tests.support.market import Bearer, Market, Store
from tests.support.moderation import screen_by_rules_alone
from tests.support.product_api import count_screenings, faults_of, ids_of, list_products, listing_body


def put(client: FlaskClient, product_id: Any, bearer: dict[str, str], **body: Any) -> Any:
    return client.put(f"/api/products/{product_id}", json=body, headers=bearer)


def test_new_stock_stays_published_and_new_price_returns_to_review(
    client: FlaskClient, market: Market, store: Store, bearer: Bearer
) -> None:
    product_id = market.product(store, quantity=5)

    stock = put(client, product_id, bearer(store.user_id), quantity=8)
    assert stock.status_code == 200
    assert (stock.json["data"]["status"], stock.json["data"]["quantity"]) == ("published", 8)
    assert stock.json["data"]["revision"] == 2

    price = put(client, product_id, bearer(store.user_id), priceMinor=77_000)
    assert not ProductDetail().validate(price.json["data"])
    assert (price.json["data"]["status"], price.json["data"]["priceMinor"]) == ("in_review", 77_000)
    assert client.get(f"/api/products/{product_id}").status_code == 404


def test_update_with_same_values_changes_nothing(
    client: FlaskClient, market: Market, store: Store, database: Database, bearer: Bearer
) -> None:
    image_id = market.image(store.user_id)
    product_id = market.product(store, images=(image_id,), tags=["lamp"])
    row = market.row(Product, product_id)

    same = put(
        client,
        product_id,
        bearer(store.user_id),
        title=row.title,
        priceMinor=row.price_minor,
        tags=["lamp"],
        imageIds=[str(image_id)],
        status="published",
    )

    assert same.status_code == 200
    assert (same.json["data"]["status"], same.json["data"]["revision"]) == ("published", 1)
    assert count_screenings(database, str(product_id)) == 0


@pytest.mark.parametrize(
    "change",
    [
        {"title": "Another lamp"},
        {"description": "Another text."},
        {"priceMinor": 77_777},
        {"condition": "fair"},
        {"tags": ["other"]},
        {"imageIds": []},
        {"categoryId": "another"},
    ],
    ids=lambda change: next(iter(change)),
)
def test_material_change_is_screened_again(
    *,
    client: FlaskClient,
    market: Market,
    store: Store,
    database: Database,
    bearer: Bearer,
    change: dict[str, Any],
) -> None:
    product_id = market.product(store, images=(market.image(store.user_id),))
    if "categoryId" in change:
        change = {"categoryId": str(market.category())}

    response = put(client, product_id, bearer(store.user_id), **change)

    assert response.status_code == 200
    assert response.json["data"]["status"] == "in_review"
    assert count_screenings(database, str(product_id)) == 1


def test_resumed_product_is_screened_only_after_content_change(
    client: FlaskClient, market: Market, store: Store, database: Database, bearer: Bearer
) -> None:
    product_id = market.product(store)
    headers = bearer(store.user_id)

    assert put(client, product_id, headers, status="paused").json["data"]["status"] == "paused"
    assert client.get(f"/api/products/{product_id}").status_code == 404
    assert put(client, product_id, headers, status="published").json["data"]["status"] == "published"
    assert count_screenings(database, str(product_id)) == 0

    hidden = put(client, product_id, headers, status="paused", title="Something else")
    assert hidden.json["data"]["status"] == "paused"
    assert put(client, product_id, headers, quantity=6).json["data"]["status"] == "paused"
    assert put(client, product_id, headers, status="published").json["data"]["status"] == "in_review"
    assert count_screenings(database, str(product_id)) == 1


@pytest.mark.parametrize(
    ("status", "wanted"),
    [
        ("draft", "paused"),
        ("in_review", "paused"),
        ("rejected", "paused"),
        ("published", "draft"),
        ("paused", "draft"),
        ("in_review", "draft"),
        ("removed", "published"),
    ],
)
def test_illegal_status_change_is_a_conflict_naming_the_current_status(
    *, client: FlaskClient, market: Market, store: Store, bearer: Bearer, status: str, wanted: str
) -> None:
    product_id = market.product(store, status=status)

    response = put(client, product_id, bearer(store.user_id), status=wanted, title="New title")

    assert (response.status_code, response.json["code"]) == (409, "CONCURRENCY_CONFLICT")
    assert status in response.json["detail"] or status == "removed"
    assert market.row(Product, product_id).title != "New title"


def test_stale_revision_is_refused(client: FlaskClient, market: Market, store: Store, bearer: Bearer) -> None:
    product_id = market.product(store, revision=3)
    headers = bearer(store.user_id)

    def answer(body: dict[str, Any], if_match: str | None = None) -> int:
        extra = {"If-Match": if_match} if if_match else {}
        path = f"/api/products/{product_id}"
        return client.put(path, json=body, headers=headers | extra).status_code

    assert answer({"quantity": 7, "revision": 2}) == 409
    assert answer({"quantity": 7}, '"2"') == 409
    assert answer({"quantity": 7}, 'W/"4"') == 409
    assert answer({"quantity": 7}, "three") == 422
    assert answer({"quantity": 7, "revision": 3}, "4") == 422
    assert answer({"quantity": 7, "revision": 0}) == 422
    assert market.row(Product, product_id).quantity == 5
    assert answer({"quantity": 7, "revision": 3}, '"3"') == 200
    assert answer({"quantity": 8}, 'W/"4"') == 200
    assert answer({"quantity": 9}, "*") == 200
    assert market.row(Product, product_id).revision == 6


def test_quantity_below_reserved_units_is_refused(
    client: FlaskClient, market: Market, store: Store, bearer: Bearer
) -> None:
    product_id = market.product(store, quantity=5, reserved=3)

    refused = put(client, product_id, bearer(store.user_id), quantity=2)

    assert refused.status_code == 409
    assert faults_of(refused) == ["quantity"]
    assert "3" in refused.json["detail"]
    assert put(client, product_id, bearer(store.user_id), quantity=3).status_code == 200


def test_only_owner_updates_product(
    client: FlaskClient, market: Market, store: Store, bearer: Bearer
) -> None:
    product_id = market.product(store)

    assert client.put(f"/api/products/{product_id}", json={"quantity": 1}).status_code == 401
    for user_id, status in (
        (market.store().user_id, 404),
        (market.person(role="vendor"), 404),
        (market.person(), 403),
        (market.staff("moderator"), 403),
    ):
        assert put(client, product_id, bearer(user_id), quantity=1).status_code == status
    assert put(client, uuid4(), bearer(store.user_id), quantity=1).status_code == 404
    gone = market.product(store, status="deleted")
    assert put(client, gone, bearer(store.user_id), quantity=1).status_code == 404
    suspended = market.store(status="suspended")
    assert put(client, market.product(suspended), bearer(suspended.user_id), quantity=1).status_code == 403
    assert market.row(Product, product_id).quantity == 5


def test_vendor_may_keep_image_uploaded_by_staff(
    client: FlaskClient, market: Market, store: Store, bearer: Bearer
) -> None:
    given, own = market.image(market.staff("moderator")), market.image(store.user_id)
    product_id = market.product(store, images=(given,))

    response = put(client, product_id, bearer(store.user_id), imageIds=[str(own), str(given)])

    assert response.status_code == 200
    assert [image["id"] for image in response.json["data"]["images"]] == [str(own), str(given)]
    assert response.json["data"]["imageUrl"] == response.json["data"]["images"][0]["url"]


def test_new_product_is_public_after_screening(
    client: FlaskClient, market: Market, store: Store, database: Database, bearer: Bearer
) -> None:
    assert ids_of(list_products(client, vendor=store.id)) == []
    made = client.post("/api/products", json=listing_body(market), headers=bearer(store.user_id)).json["data"]

    state = database.in_transaction(
        screen_by_rules_alone,
        product_id=UUID(made["id"]),
        now=market.now + timedelta(minutes=1),
    )

    assert state == "published"
    assert ids_of(list_products(client, vendor=store.id)) == [UUID(made["id"])]
    assert client.get(f"/api/v1/products/{made['id']}").status_code == 200
