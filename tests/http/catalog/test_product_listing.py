"""Product listing over HTTP: filters, sorts, pages and cache."""

from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from flask.testing import FlaskClient

from blueprints.catalog.products.schemas import ProductCard
from marketplace.catalog.models import Product
from marketplace.infra.db import Database
from marketplace.platform.models import Campus
from tests.support.market import Bearer, Market, Store
from tests.support.product_api import faults_of, ids_of, list_products
from tests.support.resource_usage import counted_statements


def test_card_has_the_documented_fields(client: FlaskClient, market: Market) -> None:
    store = market.store(
        display_name="Lamps", verified=True, rating_sum=13, rating_count=3, rating_counts=[0, 0, 0, 2, 1]
    )
    image_id = market.image(store.user_id)
    product_id = market.product(
        store, images=(image_id,), cover_key="products/a.webp", rating_sum=5, rating_count=1
    )

    answer = list_products(client, vendor=store.id)

    assert not ProductCard(many=True).validate(answer["data"])
    (card,) = answer["data"]
    row = market.row(Product, product_id)
    assert card | {"publishedAt": None} == {
        "id": str(product_id),
        "title": row.title,
        "priceMinor": row.price_minor,
        "currency": "NGN",
        "flashSale": None,
        "condition": "good",
        "imageUrl": card["imageUrl"],
        "campusId": str(market.campus_id),
        "categoryId": str(market.category_id),
        "vendor": {
            "id": str(store.id),
            "displayName": "Lamps",
            "slug": card["vendor"]["slug"],
            "verified": True,
            "rating": 4.33,
        },
        "inStock": True,
        "ratingAverage": 5.0,
        "ratingCount": 1,
        "publishedAt": None,
    }
    assert card["imageUrl"].endswith("/products/a.webp")
    assert answer["meta"]["has_more"] is False
    assert answer["meta"]["next_cursor"] is None
    assert answer["meta"]["limit"] == 20


def test_only_published_products_of_open_stores_are_listed(client: FlaskClient, market: Market) -> None:
    shown = market.product(market.store())
    back = market.product(market.store(on_vacation=True, vacation_until=market.now - timedelta(days=1)))
    away = market.store(on_vacation=True, vacation_until=market.now + timedelta(days=1))
    for closed in (away, market.store(on_vacation=True), market.store(status="suspended")):
        market.product(closed)
    market.product(market.store(status="closed"))
    for status in ("draft", "in_review", "rejected", "paused", "removed", "deleted"):
        market.product(market.store(), status=status)

    assert set(ids_of(list_products(client, campus=market.campus_id))) == {shown, back}


def test_each_filter_narrows_the_listing(client: FlaskClient, market: Market) -> None:
    child = market.category(below=market.category())
    grandchild = market.category(below=child)
    store, other = market.store(), market.store()
    cheap = market.product(store, price_minor=1_000, condition="new", category_id=child)
    dear = market.product(other, price_minor=9_000, condition="fair", category_id=grandchild)
    sold = market.product(other, price_minor=5_000, quantity=2, reserved=2)
    elsewhere = market.product(market.store(campus_id=market.campus()), price_minor=5_000)
    campus = market.row(Campus, market.campus_id)

    def found(**query: Any) -> set[UUID]:
        return set(ids_of(list_products(client, **{"campus": market.campus_id} | query)))

    assert found() == {cheap, dear, sold}
    assert found(campus=campus.slug) == {cheap, dear, sold}
    assert elsewhere not in found()
    assert found(campus="no-such-campus") == set()
    assert found(campus=uuid4()) == set()
    assert found(category=child) == {cheap, dear}
    assert found(category=grandchild) == {dear}
    assert found(category=market.category_id) == {sold}
    assert found(category="no-such-category") == set()
    assert found(category=uuid4()) == set()
    assert found(minPrice=5_000) == {dear, sold}
    assert found(maxPrice=5_000) == {cheap, sold}
    assert found(minPrice=5_000, maxPrice=5_000) == {sold}
    assert found(condition="new") == {cheap}
    assert found(vendor=other.id) == {dear, sold}
    assert found(vendor=uuid4()) == set()
    assert found(inStock="true") == {cheap, dear}
    assert found(inStock="false") == found(inStock="False") == {sold}
    assert found(inStock="TRUE") == {cheap, dear}
    assert found(category=child, condition="fair", inStock="true", vendor=other.id, maxPrice=9_000) == {dear}


def test_category_slug_includes_subcategories(client: FlaskClient, market: Market) -> None:
    parent = market.category()
    child = market.category(below=parent)
    product_id = market.product(market.store(), category_id=child)
    slug = f"category-{parent.hex[:12]}"

    assert ids_of(list_products(client, category=slug)) == [product_id]


@pytest.mark.parametrize(
    ("sort", "order"),
    [
        (None, "dcba"),
        ("newest", "dcba"),
        ("price_asc", "cabd"),
        ("price_desc", "dbac"),
        ("popular", "bcda"),
        ("rating", "abdc"),
    ],
)
@pytest.mark.parametrize("limit", [1, 3, 20])
def test_sort_order_holds_across_pages(
    *, client: FlaskClient, market: Market, store: Store, sort: str | None, order: str, limit: int
) -> None:
    names = {}
    for name, price, popularity, stars, age in (
        ("a", 200, 1, 50, 4),
        ("b", 300, 9, 40, 3),
        ("c", 100, 5, 10, 2),
        ("d", 400, 2, 30, 1),
    ):
        product_id = market.product(
            store,
            price_minor=price,
            popularity=popularity,
            rating_sum=stars,
            rating_count=10,
            published_at=market.now - timedelta(hours=age),
        )
        names[product_id] = name
    query = {"vendor": store.id, "limit": limit} | ({"sort": sort} if sort else {})

    seen = "".join(names[product_id] for page in pages(client, **query) for product_id in page)

    assert seen == order


def pages(client: FlaskClient, **query: Any) -> list[list[UUID]]:
    """Fetch all pages by cursor, at most fifty."""
    found = []
    for _ in range(50):
        answer = list_products(client, **query)
        found.append(ids_of(answer))
        cursor = answer["meta"]["next_cursor"]
        assert answer["meta"]["has_more"] is (cursor is not None)
        if cursor is None:
            return found
        query["cursor"] = cursor
    raise AssertionError("the listing does not end")


@pytest.mark.parametrize("sort", ["newest", "price_asc", "price_desc", "popular", "rating"])
def test_products_with_equal_sort_keys_appear_exactly_once(
    client: FlaskClient, market: Market, store: Store, sort: str
) -> None:
    made = {market.product(store, price_minor=500, published_at=market.now) for _ in range(7)}

    seen = [product_id for page in pages(client, vendor=store.id, limit=2, sort=sort) for product_id in page]

    assert len(seen) == 7
    assert set(seen) == made


def test_products_added_between_pages_shift_no_page(
    client: FlaskClient, market: Market, store: Store
) -> None:
    made = [market.product(store) for _ in range(6)]
    first = list_products(client, vendor=store.id, limit=3)

    for minutes in range(4):
        market.product(store, published_at=market.now + timedelta(minutes=minutes))
    market.change(Product, made[0], status="paused")
    second = list_products(client, vendor=store.id, limit=3, cursor=first["meta"]["next_cursor"])

    assert ids_of(first) == made[:3]
    assert ids_of(second) == made[3:]


def test_cursor_of_another_query_or_tampered_cursor_is_refused(
    client: FlaskClient, market: Market, store: Store
) -> None:
    for _ in range(3):
        market.product(store)
    cursor = list_products(client, vendor=store.id, limit=1)["meta"]["next_cursor"]
    flipped = ("B" if cursor[0] == "A" else "A") + cursor[1:]

    for query in (
        {"vendor": store.id, "cursor": flipped},
        {"vendor": store.id, "cursor": cursor[:-4]},
        {"vendor": store.id, "cursor": "not a cursor"},
        {"vendor": store.id, "cursor": cursor, "sort": "price_asc"},
        {"vendor": store.id, "cursor": cursor, "inStock": "true"},
        {"campus": market.campus_id, "cursor": cursor},
    ):
        response = client.get("/api/products", query_string=query)
        assert response.status_code == 422, query
        assert faults_of(response) == ["cursor"]
    assert ids_of(list_products(client, vendor=store.id, limit=2, cursor=cursor))


@pytest.mark.parametrize(
    ("query", "fault"),
    [
        ("limit=0", "limit"),
        ("limit=101", "limit"),
        ("limit=ten", "limit"),
        ("minPrice=-1", "minPrice"),
        ("maxPrice=1.5", "maxPrice"),
        ("minPrice=200&maxPrice=100", "minPrice"),
        ("condition=mint", "condition"),
        ("vendor=me", "vendor"),
        ("inStock=yes", "inStock"),
        ("sort=cheapest", "sort"),
        ("campus=", "campus"),
        ("colour=red", "colour"),
        ("sort=newest&sort=rating", "sort"),
    ],
)
def test_invalid_parameter_is_named(client: FlaskClient, query: str, fault: str) -> None:
    for _ in range(2):  # a repeated request must not wait for cache content that a refusal never writes
        response = client.get(f"/api/products?{query}")
        assert response.status_code == 422
        assert response.json["code"] == "VALIDATION_FAILED"
        assert faults_of(response) == [fault]


def test_listing_takes_a_fixed_number_of_statements(
    client: FlaskClient, market: Market, store: Store, database: Database
) -> None:
    counts = []
    for limit, number in ((18, 1), (19, 15)):  # different limits bypass the cache
        for _ in range(number):
            market.product(store)
        with counted_statements(database) as seen:
            list_products(client, vendor=store.id, category=market.category_id, limit=limit)
        counts.append(len(seen))

    assert counts[0] == counts[1] <= 3


def test_listing_is_cached_until_a_product_changes(
    client: FlaskClient, market: Market, store: Store, database: Database, bearer: Bearer
) -> None:
    product_id = market.product(store, quantity=5)
    query = {"vendor": str(store.id)}
    first = client.get("/api/products", query_string=query)
    etag = first.headers["ETag"]
    assert first.headers["Cache-Control"] == "public, max-age=300"

    with counted_statements(database) as seen:
        second = client.get("/api/products", query_string=query)
    assert seen == []
    assert second.json["data"] == first.json["data"]
    assert second.json["meta"]["requestId"] != first.json["meta"]["requestId"]

    same = client.get("/api/products", query_string=query, headers={"If-None-Match": etag})
    assert (same.status_code, same.data) == (304, b"")
    assert same.headers["ETag"] == etag

    changed = client.put(f"/api/products/{product_id}", json={"quantity": 0}, headers=bearer(store.user_id))
    assert changed.status_code == 200
    third = client.get("/api/products", query_string=query, headers={"If-None-Match": etag})
    assert third.status_code == 200
    assert third.json["data"][0]["inStock"] is False


def test_refused_change_keeps_the_cached_listing(
    client: FlaskClient, market: Market, store: Store, database: Database, bearer: Bearer
) -> None:
    product_id = market.product(store)
    list_products(client, vendor=store.id)

    refused = client.put(
        f"/api/products/{product_id}",
        json={"quantity": 9, "status": "draft"},
        headers=bearer(store.user_id),
    )

    assert refused.status_code == 409
    with counted_statements(database) as seen:
        list_products(client, vendor=store.id)
    assert seen == []
