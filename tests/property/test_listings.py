"""Filters and sorts of all listings, alone and combined, against a plain Python model."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from hypothesis import HealthCheck, given, settings as hypothesis_settings, strategies as st

from blueprints.areas import AREAS
from marketplace.infra.settings import Settings
from marketplace.services import Services
from tests.support.catalog_model import (
    CONDITIONS,
    PRICES,
    PRODUCTS,
    STATUSES,
    CatalogModel,
    Item,
    fill_catalog,
)
from tests.support.checked_client import checked_app
from tests.support.depth import case_count
from tests.support.market import Bearer
from tests.support.servers import Addresses, create_database, drop_database

_MAX_PAGES = PRODUCTS + 2
EXAMPLES = hypothesis_settings(max_examples=case_count(25, deep=300), suppress_health_check=list(HealthCheck))

SORTS: dict[str, tuple[str, bool]] = {
    "newest": ("published_at", True),
    "price_asc": ("price_minor", False),
    "price_desc": ("price_minor", True),
    "popular": ("popularity", True),
    "rating": ("rating", True),
}
INVENTORY_SORTS = {
    "updatedAt": "updated_at",
    "createdAt": "created_at",
    "title": "title",
    "priceMinor": "price_minor",
    "available": "available",
    "popularity": "popularity",
}


@pytest.fixture(scope="module")
def model(
    addresses: Addresses, settings: Settings, worker_number: int, bearer: Bearer
) -> Iterator[CatalogModel]:
    name = f"listings_{uuid4().hex[:8]}"
    url = create_database(addresses, name)
    own = replace(settings, database_url=url, redis_url=addresses.redis(15 - worker_number % 7))
    services = Services.from_settings(own, application_name="tests")
    try:
        yield fill_catalog(services, checked_app(services, AREAS).test_client(), bearer)
    finally:
        services.database.close()
        drop_database(addresses, name)


def pages(
    model: CatalogModel, path: str, query: dict[str, Any], headers: dict[str, str] | None = None
) -> list[UUID]:
    """Fetch all pages by cursor."""
    found: list[UUID] = []
    page_query = dict(query)
    for _ in range(_MAX_PAGES):
        response = model.client.get(path, query_string=page_query, headers=headers)
        assert response.status_code == 200, response.json
        body: Any = response.json
        cards = body["data"]["products"] if path.endswith("/search") else body["data"]
        found += [UUID(card["id"]) for card in cards]
        if not body["meta"]["has_more"]:
            return found
        assert len(cards) == body["meta"]["limit"]
        page_query = {name: value for name, value in query.items() if name != "page"}
        page_query["cursor"] = body["meta"]["next_cursor"]
    raise AssertionError("the listing does not end")


def ordered(items: list[Item], column: str, *, descending: bool) -> list[UUID]:
    return [
        item.id
        for item in sorted(items, key=lambda item: (getattr(item, column), item.id), reverse=descending)
    ]


def matches_place(model: CatalogModel, item: Item, query: dict[str, Any]) -> bool:
    """Return whether a product matches the requested campus and category, given by id or slug."""
    for name, column, known in (
        ("campus", item.campus_id, model.campuses),
        ("category", item.category_id, model.categories),
    ):
        wanted = query.get(name)
        if wanted is None:
            continue
        target = known.get(wanted) or next((one for one in known.values() if str(one) == wanted), None)
        if target is None or column not in model.below.get(target, {target}):
            return False
    return True


def matches(model: CatalogModel, item: Item, query: dict[str, Any]) -> bool:
    return (
        item.public
        and matches_place(model, item, query)
        and query.get("minPrice", 0) <= item.price_minor <= query.get("maxPrice", 10**10)
        and query.get("condition") in (None, item.condition)
        and query.get("vendor") in (None, str(item.vendor_id))
        and ("inStock" not in query or (query["inStock"] == "true") == (item.available > 0))
    )


def queries(**fields: Any) -> Any:
    return st.fixed_dictionaries({}, optional={"limit": st.sampled_from([1, 3, 7, 20, 100]), **fields})


def places(model: CatalogModel) -> dict[str, Any]:
    known = {
        name: st.sampled_from([*table, *map(str, table.values()), "no-such-place", str(uuid4())])
        for name, table in (("campus", model.campuses), ("category", model.categories))
    }
    return dict(known)


def prices() -> dict[str, Any]:
    return {name: st.sampled_from([*PRICES, 0, 300, 9_999]) for name in ("minPrice", "maxPrice")}


def of_stores(model: CatalogModel) -> dict[str, Any]:
    return {
        **places(model),
        **prices(),
        "condition": st.sampled_from(CONDITIONS),
        "inStock": st.sampled_from(["true", "false"]),
        "sort": st.sampled_from(sorted(SORTS)),
    }


def assert_sort(found: list[UUID], items: list[Item], query: dict[str, Any]) -> None:
    column, descending = SORTS[query.get("sort", "newest")]
    assert found == ordered(items, column, descending=descending)


def contradicts(query: dict[str, Any]) -> bool:
    return bool(query.get("minPrice", 0) > query.get("maxPrice", 10**10))


def test_listing_filters_and_sorts_match_the_model(model: CatalogModel) -> None:
    vendors = st.sampled_from([*map(str, model.stores), str(uuid4())])

    @EXAMPLES
    @given(queries(**of_stores(model), vendor=vendors))
    def check(query: dict[str, Any]) -> None:
        if contradicts(query):
            assert model.client.get("/api/products", query_string=query).status_code == 422
            return
        items = [item for item in model.items if matches(model, item, query)]
        assert_sort(pages(model, "/api/products", query), items, query)

    check()


def test_search_filters_match_the_model(model: CatalogModel) -> None:
    vendors = st.sampled_from([*map(str, model.stores), str(uuid4())])
    fields = {name: field for name, field in of_stores(model).items() if name != "sort"}

    @EXAMPLES
    @given(st.sampled_from(["lamp", "desk", "old desk"]), queries(**fields, vendor=vendors))
    def check(words: str, query: dict[str, Any]) -> None:
        if contradicts(query):
            return
        found = pages(model, "/api/products/search", query | {"q": words})
        shown = {item.id: item for item in model.items if matches(model, item, query)}
        items = {one for one, item in shown.items() if set(words.split()) <= set(item.title.lower().split())}
        assert len(found) == len(set(found))
        # Without a full match, the search returns partial matches within the same filters.
        assert set(found) == items if items else set(found) <= set(shown)

    check()


def test_model_has_products_for_each_filter_and_sort(model: CatalogModel) -> None:
    """Guard against comparing empty listings only."""
    shown = [item for item in model.items if item.public]
    assert len(shown) > 30
    for column in ("campus_id", "category_id", "condition", "price_minor", "vendor_id"):
        assert len({getattr(item, column) for item in shown}) > 1
    assert {item.available > 0 for item in shown} == {True, False}
    assert len({item.published_at for item in shown}) < len(shown)


def test_store_listing_filters_and_sorts_match_the_model(model: CatalogModel) -> None:
    @EXAMPLES
    @given(st.sampled_from(model.stores), queries(**of_stores(model)))
    def check(vendor_id: UUID, query: dict[str, Any]) -> None:
        path = f"/api/products/vendor/{vendor_id}"
        if contradicts(query) or vendor_id in model.stores[-2:]:
            expected = {422} if contradicts(query) else {404}
            assert {model.client.get(path, query_string=query).status_code} == expected
            return
        own = query | {"vendor": str(vendor_id)}
        items = [item for item in model.items if matches(model, item, own)]
        assert_sort(pages(model, path, query), items, query)

    check()


@pytest.mark.parametrize("route", ["new-arrivals", "exclusives", "trending"])
def test_special_listing_filters_and_sorts_match_the_model(model: CatalogModel, route: str) -> None:
    def belongs(item: Item) -> bool:
        if route == "exclusives":
            return item.exclusive and item.store_verified
        assert item.published_at is not None
        return route == "trending" or item.published_at > model.now - timedelta(days=14)

    @EXAMPLES
    @given(queries(**places(model)))
    def check(query: dict[str, Any]) -> None:
        items = [item for item in model.items if matches(model, item, query) and belongs(item)]
        # Without counted views, the trending order is the order by popularity.
        sort = {"sort": "popular" if route == "trending" else "newest"}
        assert_sort(pages(model, f"/api/products/{route}", query), items, sort)

    check()


def test_bulk_lookup_keeps_the_requested_order(model: CatalogModel) -> None:
    by_id = {item.id: item for item in model.items}

    @EXAMPLES
    @given(st.lists(st.sampled_from([*by_id, uuid4()]), min_size=1, max_size=100))
    def check(ids: list[UUID]) -> None:
        response = model.client.post("/api/products/bulk", json=[str(one) for one in ids])
        distinct = list(dict.fromkeys(ids))
        shown = [one for one in distinct if one in by_id and by_id[one].public]
        body: Any = response.json
        assert [UUID(card["id"]) for card in body["data"]] == shown
        assert [UUID(one) for one in body["meta"]["missing"]] == [one for one in distinct if one not in shown]

    check()


def test_own_inventory_filters_and_sorts_match_the_model(model: CatalogModel) -> None:
    own = [item for item in model.items if item.vendor_id == model.owned and item.status != "deleted"]
    fields = {
        "category": places(model)["category"],
        "status": st.sampled_from([one for one in STATUSES if one != "deleted"] + ["published"]),
        "lowStock": st.sampled_from(["true", "false"]),
        "lowStockAt": st.integers(0, 5),
        "q": st.sampled_from(["lamp", "LAMP", "desk", "100%", "_", "d"]),
        "sort": st.sampled_from(sorted(INVENTORY_SORTS)),
        "order": st.sampled_from(["asc", "desc"]),
    }

    @EXAMPLES
    @given(queries(**fields))
    def check(query: dict[str, Any]) -> None:
        few = query.get("lowStockAt", 3)
        items = [
            item
            for item in own
            if matches_place(model, item, {name: query[name] for name in ("category",) if name in query})
            and query.get("status") in (None, item.status)
            and ("lowStock" not in query or (query["lowStock"] == "true") == (item.available <= few))
            and query.get("q", "").lower() in item.title.lower()
        ]
        sort = query.get("sort", "updatedAt")
        descending = query.get("order", "desc") == "desc"
        path = "/api/products/vendor/paginated"
        expected = ordered(items, INVENTORY_SORTS[sort], descending=descending)
        assert pages(model, path, query, model.owner) == expected
        limit = query.get("limit", 50)
        number = len(expected) // limit + 1
        response = model.client.get(path, query_string=query | {"page": number}, headers=model.owner)
        body: Any = response.json
        assert [UUID(item["id"]) for item in body["data"]] == expected[(number - 1) * limit :]
        meta = body["meta"]
        assert (meta["total"], meta["total_pages"]) == (len(expected), -(-len(expected) // limit))
        counts = meta["counts"]
        assert counts.pop("lowStock") == sum(item.available <= few for item in own)
        assert counts.pop("outOfStock") == sum(item.available == 0 for item in own)
        assert counts == {status: sum(item.status == status for item in own) for status in counts}

    check()
