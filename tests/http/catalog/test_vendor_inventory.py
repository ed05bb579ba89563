"""The vendor's own inventory over HTTP: pages, cursors, filters, sorts and counts."""

import re
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from flask.testing import FlaskClient

from blueprints.catalog.browse.schemas import InventoryItem
from marketplace.catalog.models import Product
from marketplace.catalog.statistics import counters
from marketplace.infra.db import Database
from marketplace.services import Services
from tests.support.market import Bearer, Market, Store
from tests.support.product_api import faults_of, ids_of
from tests.support.resource_usage import counted_statements

PATH = "/api/products/vendor/paginated"
STATUSES = ("draft", "in_review", "published", "rejected", "paused", "removed")


@pytest.fixture
def headers(store: Store, bearer: Bearer) -> dict[str, str]:
    return bearer(store.user_id)


def fetch(client: FlaskClient, headers: dict[str, str], **query: Any) -> Any:
    response = client.get(PATH, query_string=query, headers=headers)
    assert response.status_code == 200, response.json
    assert response.headers["Cache-Control"] == "no-store"
    assert not InventoryItem(many=True).validate(response.json["data"])
    return response.json


def test_item_contains_owner_only_fields(
    client: FlaskClient, market: Market, store: Store, headers: dict[str, str], services: Services
) -> None:
    product_id = market.product(store, quantity=9, reserved=2, revision=4, exclusive=True)
    for kind in ("view", "view", "share"):
        assert client.post(f"/api/products/{product_id}/stats/{kind}").status_code == 200
    counters.flush_counts(services.database, services.cache, now=market.now)
    rejected = market.product(store, status="rejected", status_reason="The title says nothing.", quantity=0)

    items = {item["id"]: item for item in fetch(client, headers)["data"]}

    item = items[str(product_id)]
    private = ("status", "statusReason", "quantity", "reserved", "available", "revision", "exclusive")
    assert [item[name] for name in private] == ["published", None, 9, 2, 7, 4, True]
    assert [item[name] for name in ("views", "cartAdds", "shares")] == [2, 0, 1]
    assert items[str(rejected)]["statusReason"] == "The title says nothing."
    assert items[str(rejected)]["publishedAt"] is None


def test_inventory_contains_own_products_in_all_states_but_deleted(
    client: FlaskClient, market: Market, store: Store, headers: dict[str, str]
) -> None:
    made = {status: market.product(store, status=status) for status in STATUSES}
    market.product(store, status="published", quantity=3, reserved=1)
    market.product(store, status="paused", quantity=0)
    market.product(store, status="deleted", quantity=0)
    market.product(market.store())

    answer = fetch(client, headers)

    assert answer["meta"]["total"] == len(answer["data"]) == 8
    assert answer["meta"]["counts"] == dict.fromkeys(STATUSES, 1) | {
        "published": 2,
        "paused": 2,
        "lowStock": 2,
        "outOfStock": 1,
    }
    for status, product_id in made.items():
        found = fetch(client, headers, status=status)
        assert product_id in ids_of(found)
        assert {item["status"] for item in found["data"]} == {status}
        assert found["meta"]["counts"] == answer["meta"]["counts"]


def test_filters_narrow_the_inventory(
    client: FlaskClient, market: Market, store: Store, headers: dict[str, str]
) -> None:
    child = market.category(below=market.category())
    lamp = market.product(store, title="Reading LAMP 100%", quantity=3, category_id=child)
    shop_client = market.product(store, title="Desk_lamp", quantity=4)
    bed = market.product(store, title="Bed", quantity=10, reserved=10)

    def found(**query: Any) -> set[UUID]:
        return set(ids_of(fetch(client, headers, **query)))

    assert found(q="lamp") == {lamp, shop_client}
    assert found(q="100%") == {lamp}
    assert found(q="k_l") == {shop_client}
    assert found(q="%") == {lamp}
    assert found(lowStock="true") == {lamp, bed}
    assert found(lowStock="false") == {shop_client}
    assert found(lowStock="true", lowStockAt=0) == {bed}
    assert found(lowStock="true", lowStockAt=4, q="lamp") == {lamp, shop_client}
    assert found(category=child) == {lamp}
    assert found(category="no-such-category") == set()
    assert fetch(client, headers, lowStockAt=4)["meta"]["counts"]["lowStock"] == 3


@pytest.mark.parametrize("sort", ["updatedAt", "createdAt", "title", "priceMinor", "available", "popularity"])
@pytest.mark.parametrize("order", ["asc", "desc", None])
def test_sort_order_holds_across_pages_and_cursors(
    *,
    client: FlaskClient,
    market: Market,
    store: Store,
    headers: dict[str, str],
    sort: str,
    order: str | None,
) -> None:
    for number in range(9):
        tied = number * 5 % 9 // 2
        market.product(
            store,
            title=f"Item {tied}",
            price_minor=1_000 + tied,
            quantity=tied,
            popularity=tied,
            updated_at=market.now - timedelta(hours=tied),
            created_at=market.now - timedelta(days=tied),
        )
    query = {"sort": sort, "limit": 2} | ({"order": order} if order else {})
    column = re.sub("[A-Z]", lambda found: f"_{found[0].lower()}", sort)

    by_page = [found for page in range(1, 6) for found in ids_of(fetch(client, headers, page=page, **query))]
    answer = fetch(client, headers, **query)
    by_cursor = ids_of(answer)
    while answer["meta"]["has_more"]:
        answer = fetch(client, headers, cursor=answer["meta"]["next_cursor"], **query)
        by_cursor += ids_of(answer)

    rows = [market.row(Product, product_id) for product_id in by_page]
    ordered = sorted(rows, key=lambda row: (getattr(row, column), row.id), reverse=order != "asc")
    assert len(set(by_page)) == 9
    assert by_page == by_cursor == [row.id for row in ordered]


def test_page_metadata_has_position_and_totals(
    client: FlaskClient, market: Market, store: Store, headers: dict[str, str]
) -> None:
    for _ in range(5):
        market.product(store)
    meta = fetch(client, headers, page=2, limit=2)["meta"]
    assert (meta["page"], meta["limit"], meta["total"], meta["total_pages"]) == (2, 2, 5, 3)
    assert meta["has_more"] is True
    default = fetch(client, headers)["meta"]
    assert (default["page"], default["limit"], default["has_more"]) == (1, 50, False)
    assert fetch(client, headers, page=9)["data"] == []


def test_statement_count_is_independent_of_row_count(
    client: FlaskClient, market: Market, store: Store, headers: dict[str, str], database: Database
) -> None:
    numbers = []
    for more in (1, 20):
        for _ in range(more):
            market.product(store)
        with counted_statements(database) as seen:
            fetch(client, headers, q="l", status="published")
        numbers.append(len(seen))
    assert numbers[0] == numbers[1] <= 5  # caller, store, counts, total, rows


@pytest.mark.parametrize(
    ("query", "fault"),
    [
        ({"page": 1, "cursor": "x"}, "cursor"),
        ({"cursor": "x"}, "cursor"),
        ({"page": 0}, "page"),
        ({"limit": 101}, "limit"),
        ({"sort": "reserved"}, "sort"),
        ({"order": "down"}, "order"),
        ({"status": "deleted"}, "status"),
        ({"lowStock": "yes"}, "lowStock"),
        ({"lowStockAt": -1}, "lowStockAt"),
        ({"q": ""}, "q"),
        ({"vendor": "x"}, "vendor"),
    ],
)
def test_invalid_parameter_is_named(
    client: FlaskClient, headers: dict[str, str], query: dict[str, Any], fault: str
) -> None:
    response = client.get(PATH, query_string=query, headers=headers)
    assert response.status_code == 422
    assert faults_of(response) == [fault]


def test_inventory_requires_a_vendor_with_a_store(
    client: FlaskClient, market: Market, bearer: Bearer
) -> None:
    assert client.get(PATH).status_code == 401
    for person in (market.person(), market.staff("admin"), market.person(role="vendor")):
        response = client.get(PATH, headers=bearer(person))
        assert response.status_code == 403
        assert response.json["code"] == "AUTH_FORBIDDEN"


def test_cursor_of_another_vendor_is_refused(
    client: FlaskClient, market: Market, store: Store, headers: dict[str, str], bearer: Bearer
) -> None:
    other = market.store()
    for _ in range(3):
        market.product(store)
        market.product(other)
    cursor = fetch(client, headers, limit=1)["meta"]["next_cursor"]
    response = client.get(PATH, query_string={"cursor": cursor}, headers=bearer(other.user_id))
    assert faults_of(response) == ["cursor"]


def test_item_revision_allows_a_single_update(
    client: FlaskClient, market: Market, store: Store, headers: dict[str, str]
) -> None:
    product_id = market.product(store)
    [item] = fetch(client, headers)["data"]
    body = {"quantity": 8, "revision": item["revision"]}
    assert client.put(f"/api/products/{product_id}", json=body, headers=headers).status_code == 200
    stale = client.put(f"/api/products/{product_id}", json=body | {"quantity": 7}, headers=headers)
    assert stale.status_code == 409
    assert fetch(client, headers)["data"][0]["available"] == 8
