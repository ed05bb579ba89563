"""Product detail for the public, owners and staff, and the category tree, over HTTP."""

from datetime import timedelta
from uuid import UUID, uuid4

import pytest
from flask.testing import FlaskClient

from blueprints.catalog.products.schemas import CategoryNode, ProductCard, ProductDetail
from marketplace.infra.db import Database
from tests.support.market import Bearer, Market, Store
from tests.support.product_api import faults_of
from tests.support.resource_usage import counted_statements


def test_category_tree_counts_products_of_subcategories(
    client: FlaskClient, market: Market, store: Store, bearer: Bearer
) -> None:
    root = market.category(name="Root")
    child = market.category(below=root, name="Child")
    leaf = market.category(below=child, name="Leaf")
    market.product(store, category_id=root)
    product_id = market.product(store, category_id=leaf)
    market.product(store, category_id=leaf, status="paused")
    market.product(market.store(status="closed"), category_id=leaf)

    def counts() -> tuple[int, int, int]:
        response = client.get("/api/products/categories")
        assert response.status_code == 200
        assert response.headers["Cache-Control"] == "public, max-age=3600"
        assert not CategoryNode(many=True).validate(response.json["data"])
        (top,) = [node for node in response.json["data"] if node["id"] == str(root)]
        (middle,) = top["children"]
        (bottom,) = middle["children"]
        assert bottom["children"] == []
        return top["listingCount"], middle["listingCount"], bottom["listingCount"]

    # Only changes through the API clear the cache. Direct writes of a test do not.
    mine = market.product(store)
    assert (
        client.put(
            f"/api/products/{mine}", json={"status": "paused"}, headers=bearer(store.user_id)
        ).status_code
        == 200
    )
    assert counts() == (2, 1, 1)
    client.put(f"/api/products/{product_id}", json={"status": "paused"}, headers=bearer(store.user_id))
    assert counts() == (1, 0, 0)


def test_category_tree_refuses_parameters(client: FlaskClient) -> None:
    response = client.get("/api/products/categories?depth=2")
    assert response.status_code == 422
    assert faults_of(response) == ["depth"]


def test_public_detail_omits_private_fields(client: FlaskClient, market: Market) -> None:
    store = market.store(
        rating_sum=9,
        rating_count=2,
        rating_counts=[0, 0, 0, 1, 1],
        completed_orders=7,
        response_seconds_sum=301,
        response_count=2,
    )
    image_ids = market.image(store.user_id), market.image(store.user_id)
    product_id = market.product(store, images=image_ids, quantity=5, reserved=2, tags=["lamp"])

    response = client.get(f"/api/products/{product_id}")

    assert response.status_code == 200
    assert response.headers["Cache-Control"] == "no-store"
    data = response.json["data"]
    assert not ProductDetail().validate(data)
    assert [UUID(image["id"]) for image in data["images"]] == list(image_ids)
    assert data["available"] == 3
    assert data["orderable"] is True
    assert data["vendor"]["rating"] == 4.5
    assert data["vendor"]["completedOrders"] == 7
    assert data["vendor"]["responseMinutes"] == 3
    assert data["category"]["id"] == data["categoryId"] == str(market.category_id)
    assert not data.keys() & {"status", "statusReason", "quantity", "reserved", "revision", "createdAt"}


def test_owner_and_product_staff_see_private_fields(
    client: FlaskClient, market: Market, store: Store, bearer: Bearer
) -> None:
    product_id = market.product(store, quantity=5, reserved=2, status="rejected", status_reason="Why.")

    for user_id in (store.user_id, market.staff("moderator"), market.staff("admin")):
        data = client.get(f"/api/products/{product_id}", headers=bearer(user_id)).json["data"]
        assert not ProductDetail().validate(data)
        private = {
            name: data[name] for name in ("status", "statusReason", "quantity", "reserved", "revision")
        }
        assert private == {
            "status": "rejected",
            "statusReason": "Why.",
            "quantity": 5,
            "reserved": 2,
            "revision": 1,
        }
        assert data["orderable"] is False


@pytest.mark.parametrize("status", ["draft", "in_review", "rejected", "paused", "removed", "deleted"])
def test_unpublished_product_is_not_found_by_others(
    client: FlaskClient, market: Market, store: Store, bearer: Bearer, status: str
) -> None:
    product_id = market.product(store, status=status)
    others = (market.person(), market.store().user_id, market.staff("support"))

    assert client.get(f"/api/products/{product_id}").status_code == 404
    for user_id in others:
        response = client.get(f"/api/products/{product_id}", headers=bearer(user_id))
        assert response.status_code == 404
        assert response.json["code"] == "RESOURCE_NOT_FOUND"
    own = client.get(f"/api/products/{product_id}", headers=bearer(store.user_id))
    assert own.status_code == (404 if status == "deleted" else 200)


def test_closed_store_hides_products_and_vacation_blocks_orders(client: FlaskClient, market: Market) -> None:
    until = market.now + timedelta(days=3)
    away = market.store(on_vacation=True, vacation_until=until, vacation_note="Exams")

    for status in ("closed", "suspended"):
        hidden = market.product(market.store(status=status))
        assert client.get(f"/api/products/{hidden}").status_code == 404
    data = client.get(f"/api/products/{market.product(away)}").json["data"]
    assert data["orderable"] is False
    assert data["vendor"]["vacation"]["note"] == "Exams"


def test_unknown_or_malformed_id_is_not_found(client: FlaskClient) -> None:
    for path in (f"/api/products/{uuid4()}", "/api/products/42", "/api/products/not-a-uuid"):
        assert client.get(path).status_code == 404


def test_invalid_optional_token_is_refused(client: FlaskClient, market: Market, store: Store) -> None:
    product_id = market.product(store)
    response = client.get(f"/api/products/{product_id}", headers={"Authorization": "Bearer nonsense"})
    assert response.status_code == 401


def test_related_items_share_category_and_campus_nearest_price_first(
    client: FlaskClient, market: Market, store: Store
) -> None:
    market.category_id = market.category()
    product_id = market.product(store, price_minor=10_000, title="Lamp")
    near = [
        market.product(market.store(), price_minor=price, title="Lamp")
        for price in (10_000, 9_900, 10_200, 9_700)
    ]
    far = [market.product(store, price_minor=20_000 + number * 1_000, title="Lamp") for number in range(6)]
    market.product(store, price_minor=10_000, category_id=market.category())
    market.product(market.store(campus_id=market.campus()), price_minor=10_000)
    market.product(store, price_minor=10_000, status="paused")
    market.product(market.store(status="closed"), price_minor=10_000)

    related = client.get(f"/api/products/{product_id}").json["data"]["relatedItems"]

    assert not ProductCard(many=True).validate(related)
    assert [UUID(card["id"]) for card in related] == near + far[:4]


def test_related_items_with_similar_titles_come_first(
    client: FlaskClient, market: Market, store: Store
) -> None:
    market.category_id = market.category()
    product_id = market.product(store, price_minor=10_000, title="Casio fx-991 calculator")
    other = market.product(store, price_minor=10_000, title="Bunsen burner")
    alike = market.product(store, price_minor=10_500, title="Casio fx-991ES Plus calculator")
    kind = market.product(store, price_minor=9_000, title="Sharp calculator")
    far = market.product(store, price_minor=900_000, title="Casio fx-991 calculator")

    related = client.get(f"/api/products/{product_id}").json["data"]["relatedItems"]

    assert [UUID(card["id"]) for card in related] == [alike, kind, far, other]


def test_detail_takes_two_statements_for_any_number_of_related_items(
    client: FlaskClient, market: Market, store: Store, database: Database
) -> None:
    image_ids = tuple(market.image(store.user_id) for _ in range(8))
    product_id = market.product(store, images=image_ids)
    for _ in range(2):  # the first run prepares statements on the connection
        for _ in range(5):
            market.product(store)
        with counted_statements(database) as seen:
            assert client.get(f"/api/products/{product_id}").status_code == 200

    assert len(seen) == 2
