"""Product creation over HTTP."""

from typing import Any
from uuid import uuid4

import pytest
from flask.testing import FlaskClient

from blueprints.catalog.products.schemas import ProductDetail
from marketplace.infra.db import Database
from tests.support.market import Bearer, Market, Store
from tests.support.product_api import count_screenings, faults_of, listing_body


def test_new_product_is_queued_for_screening(
    client: FlaskClient, market: Market, store: Store, database: Database, bearer: Bearer
) -> None:
    image_ids = [str(market.image(store.user_id)) for _ in range(2)]

    response = client.post(
        "/api/products",
        json=listing_body(
            market,
            title="  Reading \n lamp ",
            imageIds=image_ids,
            tags=["Lamp", " Desk  light "],
            description="Mine.",
        ),
        headers=bearer(store.user_id),
    )

    assert response.status_code == 201
    data = response.json["data"]
    assert not ProductDetail().validate(data)
    assert data["title"] == "Reading lamp"
    assert data["status"] == "in_review"
    assert data["tags"] == ["lamp", "desk light"]
    assert data["campusId"] == str(store.campus_id)
    assert [image["id"] for image in data["images"]] == image_ids
    assert data["imageUrl"] == data["images"][0]["url"]
    assert data["publishedAt"] is None
    assert count_screenings(database, data["id"]) == 1
    assert client.get(f"/api/products/{data['id']}").status_code == 404


def test_new_draft_is_not_screened(
    client: FlaskClient, market: Market, store: Store, database: Database, bearer: Bearer
) -> None:
    response = client.post(
        "/api/products", json=listing_body(market, status="draft"), headers=bearer(store.user_id)
    )

    assert response.status_code == 201
    assert response.json["data"]["status"] == "draft"
    assert count_screenings(database, response.json["data"]["id"]) == 0


def test_product_staff_may_list_for_a_vendor(
    client: FlaskClient, market: Market, store: Store, bearer: Bearer
) -> None:
    moderator = market.staff("moderator")
    image_id = str(market.image(moderator))
    body = listing_body(market, vendorId=str(store.id), imageIds=[image_id])

    made = client.post("/api/products", json=body, headers=bearer(moderator))
    assert made.status_code == 201
    assert made.json["data"]["vendor"]["id"] == str(store.id)

    unnamed = client.post("/api/products", json=listing_body(market), headers=bearer(moderator))
    assert (unnamed.status_code, faults_of(unnamed)) == (422, ["vendorId"])
    unknown = client.post(
        "/api/products", json=listing_body(market, vendorId=str(uuid4())), headers=bearer(moderator)
    )
    assert (unknown.status_code, faults_of(unknown)) == (422, ["vendorId"])
    without = client.post("/api/products", json=body, headers=bearer(market.staff("finance")))
    assert (without.status_code, without.json["code"]) == (403, "AUTH_FORBIDDEN")


def test_listing_without_own_active_store_is_refused(
    client: FlaskClient, market: Market, store: Store, bearer: Bearer
) -> None:
    assert client.post("/api/products", json=listing_body(market)).status_code == 401
    storeless = market.person(role="vendor")
    suspended = market.store(status="suspended")
    for user_id in (market.person(), storeless, suspended.user_id):
        response = client.post("/api/products", json=listing_body(market), headers=bearer(user_id))
        assert (response.status_code, response.json["code"]) == (403, "AUTH_FORBIDDEN")
    other = client.post(
        "/api/products",
        json=listing_body(market, vendorId=str(market.store().id)),
        headers=bearer(store.user_id),
    )
    assert other.status_code == 403


@pytest.mark.parametrize(
    ("change", "faults"),
    [
        ({"title": "ab"}, ["title"]),
        ({"title": "   ab   "}, ["title"]),
        ({"title": "x" * 141}, ["title"]),
        ({"title": "a\x00bc"}, ["title"]),
        ({"title": None}, ["title"]),
        ({"description": "x" * 5_001}, ["description"]),
        ({"priceMinor": 99}, ["priceMinor"]),
        ({"priceMinor": 10_000_000_001}, ["priceMinor"]),
        ({"priceMinor": 100.5}, ["priceMinor"]),
        ({"priceMinor": "50000"}, ["priceMinor"]),
        ({"priceMinor": True}, ["priceMinor"]),
        ({"quantity": -1}, ["quantity"]),
        ({"quantity": 100_001}, ["quantity"]),
        ({"condition": "mint"}, ["condition"]),
        ({"categoryId": "lamps"}, ["categoryId"]),
        ({"categoryId": "00000000-0000-4000-8000-000000000000"}, ["categoryId"]),
        ({"imageIds": ["00000000-0000-4000-8000-000000000000"]}, ["imageIds[0]"]),
        ({"imageIds": [f"00000000-0000-4000-8000-00000000000{n}" for n in range(9)]}, ["imageIds"]),
        ({"imageIds": ["00000000-0000-4000-8000-000000000000"] * 2}, ["imageIds[1]"]),
        ({"tags": ["Lamp", "lamp"]}, ["tags[1]"]),
        ({"tags": [""]}, ["tags[0]"]),
        ({"tags": ["t" * 31]}, ["tags[0]"]),
        ({"tags": [f"t{n}" for n in range(11)]}, ["tags"]),
        ({"status": "paused"}, ["status"]),
        ({"reserved": 1}, ["reserved"]),
        ({"campusId": "00000000-0000-4000-8000-000000000000"}, ["campusId"]),
    ],
)
def test_invalid_field_is_named(
    *,
    client: FlaskClient,
    market: Market,
    store: Store,
    bearer: Bearer,
    change: dict[str, Any],
    faults: list[str],
) -> None:
    response = client.post(
        "/api/products", json=listing_body(market, **change), headers=bearer(store.user_id)
    )
    assert response.status_code == 422
    assert faults_of(response) == faults


def test_missing_fields_are_all_named(client: FlaskClient, store: Store, bearer: Bearer) -> None:
    response = client.post("/api/products", json={}, headers=bearer(store.user_id))
    assert response.status_code == 422
    assert set(faults_of(response)) == {"title", "priceMinor", "categoryId", "condition"}


def test_image_of_another_user_is_refused(
    client: FlaskClient, market: Market, store: Store, bearer: Bearer
) -> None:
    image_ids = [str(market.image(store.user_id)), str(market.image(market.person()))]
    response = client.post(
        "/api/products", json=listing_body(market, imageIds=image_ids), headers=bearer(store.user_id)
    )
    assert response.status_code == 422
    assert faults_of(response) == ["imageIds[1]"]
