"""Figures of a store over HTTP: series, previous period, products, searches, CSV and rights."""

from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import pytest
from sqlalchemy import text

from blueprints.analytics.schemas import StoreAnalytics
from marketplace.infra.db import Database
from tests.support.gateway import MovableClock
from tests.support.probes import assert_problem, faults
from tests.support.purchases import with_buyer
from tests.support.shop_client import ShopClient


@pytest.fixture
def shop(shop_client: ShopClient, clock: MovableClock) -> ShopClient:
    clock.now = datetime(2026, 3, 31, 22, 30, tzinfo=UTC)  # 23:30 in Lagos
    return shop_client


def random_word() -> str:
    # Numbers would be masked.
    return "".join("bcdfghjklmnpqrst"[int(digit, 16)] for digit in uuid4().hex[:16])


def path(shop: ShopClient) -> str:
    return f"/api/vendors/{shop.shop.store_id}/analytics"


def fetch(shop: ShopClient, **query: Any) -> Any:
    answer = shop.get(path(shop), shop.vendor, **query)
    assert answer.status_code == 200, answer.json
    data = answer.json["data"]
    assert not StoreAnalytics().validate(data)
    return data


def add_day(shop: ShopClient, day: str, **figures: int) -> None:
    names = ", ".join(figures)
    values = ", ".join(f":{name}" for name in figures)
    with shop.database.transaction() as session:
        session.execute(
            text(f"INSERT INTO store_days (vendor_id, day, {names}) VALUES (:vendor_id, :day, {values})"),
            {"vendor_id": shop.shop.store_id, "day": day, **figures},
        )


def add_buyer(shop: ShopClient, day: str, orders: int, *, had_bought: bool, buyer_id: Any = None) -> Any:
    buyer_id = buyer_id or shop.database.in_transaction(with_buyer, shop.shop).buyer.id
    with shop.database.transaction() as session:
        session.execute(
            text("INSERT INTO store_day_buyers VALUES (:vendor_id, :day, :buyer_id, :orders, :had_bought)"),
            {
                "vendor_id": shop.shop.store_id,
                "day": day,
                "buyer_id": buyer_id,
                "orders": orders,
                "had_bought": had_bought,
            },
        )
    return buyer_id


def test_report_has_totals_previous_period_and_a_filled_series(shop: ShopClient) -> None:
    add_day(shop, "2026-02-28", orders=1, units=1, revenue_minor=100, views=10)
    add_day(shop, "2026-03-01", orders=2, units=3, revenue_minor=201, views=7, cart_adds=4)
    add_day(shop, "2026-03-03", orders=1, units=1, revenue_minor=100, refunded_orders=1, refunded_minor=50)
    add_day(shop, "2026-03-04", orders=9, units=9, revenue_minor=900)

    data = fetch(shop, **{"from": "2026-03-01", "to": "2026-03-03"})
    assert (data["previousFrom"], data["previousTo"]) == ("2026-02-26", "2026-02-28")
    totals = data["totals"]
    assert (totals["orders"], totals["revenueMinor"], totals["averageOrderMinor"]) == (3, 301, 100)
    assert (totals["conversion"], totals["refundedMinor"]) == (0.4286, 50)
    assert (data["previous"]["orders"], data["previous"]["conversion"]) == (1, 0.1)
    assert [(point["from"], point["orders"]) for point in data["series"]] == [
        ("2026-03-01", 2),
        ("2026-03-02", 0),
        ("2026-03-03", 1),
    ]
    assert data["series"][1]["averageOrderMinor"] is None
    assert data["series"][1]["conversion"] is None


@pytest.mark.parametrize(
    ("interval", "starts", "expected"),
    [
        ("week", "2026-02-25", [("2026-02-25", "2026-03-01", 1), ("2026-03-02", "2026-03-05", 2)]),
        ("month", "2026-02-25", [("2026-02-25", "2026-02-28", 0), ("2026-03-01", "2026-03-05", 3)]),
    ],
)
def test_weeks_and_months_are_cut_at_the_period(
    shop: ShopClient, interval: str, starts: str, expected: list[tuple[str, str, int]]
) -> None:
    for day, orders in (("2026-03-01", 1), ("2026-03-02", 1), ("2026-03-05", 1)):
        add_day(shop, day, orders=orders)
    data = fetch(shop, interval=interval, **{"from": starts, "to": "2026-03-05"})
    assert [(point["from"], point["to"], point["orders"]) for point in data["series"]] == expected


def test_default_period_is_thirty_days_up_to_today_in_nigeria(shop: ShopClient, clock: MovableClock) -> None:
    data = fetch(shop)
    assert (data["from"], data["to"], len(data["series"])) == ("2026-03-02", "2026-03-31", 30)
    clock.now = datetime(2026, 3, 31, 23, 0, tzinfo=UTC)
    assert fetch(shop)["to"] == "2026-04-01"


def test_repeat_buyers_paid_twice_up_to_the_end_of_the_period(shop: ShopClient) -> None:
    returning = add_buyer(shop, "2026-02-27", 1, had_bought=False)
    add_buyer(shop, "2026-03-01", 1, had_bought=True, buyer_id=returning)
    add_buyer(shop, "2026-03-02", 2, had_bought=False)
    add_buyer(shop, "2026-03-03", 1, had_bought=False)
    data = fetch(shop, **{"from": "2026-03-01", "to": "2026-03-03"})
    assert (data["totals"]["buyers"], data["totals"]["repeatBuyers"]) == (3, 2)
    assert (data["previous"]["buyers"], data["previous"]["repeatBuyers"]) == (1, 0)


def test_top_products_are_sorted_by_revenue(shop: ShopClient) -> None:
    products = [shop.product() for _ in range(12)]
    with shop.database.transaction() as session:
        for number, product_id in enumerate(products):
            session.execute(
                text(
                    "INSERT INTO store_product_days (vendor_id, day, product_id, units, revenue_minor, views)"
                    " VALUES (:vendor_id, '2026-03-02', :product_id, :units, :revenue, 5)"
                ),
                {
                    "vendor_id": shop.shop.store_id,
                    "product_id": product_id,
                    "units": min(number, 1),
                    "revenue": number * 100,
                },
            )
    top = fetch(shop, **{"from": "2026-03-01", "to": "2026-03-03"})["topProducts"]
    assert [product["productId"] for product in top] == [str(one) for one in reversed(products[2:])]
    assert (top[0]["units"], top[0]["revenueMinor"], top[0]["views"]) == (1, 1100, 5)


def test_searches_in_the_categories_of_the_store_are_shown_from_three_on(
    shop: ShopClient, database: Database
) -> None:
    shop.product()
    category_id = shop.shop.category_id
    words = {name: random_word() for name in ("rare", "frequent", "elsewhere")}
    for word, count in (("rare", 2), ("frequent", 3)):
        for _ in range(count):
            found = shop.client.get(
                "/api/products/search", query_string={"q": words[word], "category": str(category_id)}
            )
            assert found.status_code == 200
            assert found.json["data"]["products"] == []
    # A search with another filter says nothing about the category.
    for _ in range(3):
        query = {"q": words["elsewhere"], "category": str(category_id), "condition": "new"}
        shop.client.get("/api/products/search", query_string=query)
    data = fetch(shop)
    assert {"query": words["frequent"], "count": 3} in data["unmetSearches"]
    shown = {search["query"] for search in data["unmetSearches"]}
    assert not shown & {words["rare"], words["elsewhere"]}


def test_series_is_exported_as_csv(shop: ShopClient) -> None:
    add_day(shop, "2026-03-02", orders=2, units=3, revenue_minor=201, views=8)
    answer = shop.get(path(shop), shop.vendor, format="csv", **{"from": "2026-03-01", "to": "2026-03-02"})
    assert answer.content_type.startswith("text/csv")
    assert answer.text.splitlines()[1:] == [
        "2026-03-01,2026-03-01,0,0,0,,0,0,,0,0,0,0",
        "2026-03-02,2026-03-02,2,3,201,101,8,0,0.25,0,0,0,0",
    ]


def test_other_people_do_not_see_the_figures(shop: ShopClient) -> None:
    assert shop.get(path(shop), {}).status_code == 401
    assert_problem(shop.get(path(shop), shop.buyer), 403, "AUTH_FORBIDDEN")
    assert_problem(shop.get(path(shop), shop.officer("finance")), 403, "AUTH_FORBIDDEN")
    foreign = shop.get(f"/api/vendors/{uuid4()}/analytics", shop.vendor)
    assert_problem(foreign, 404, "RESOURCE_NOT_FOUND")


@pytest.mark.parametrize(
    ("query", "name"),
    [
        ({"from": "2026-03-05", "to": "2026-03-04"}, "from"),
        ({"from": "2025-03-03", "to": "2026-03-04"}, "from"),
        ({"from": "yesterday"}, "from"),
        ({"to": "2026-02-30"}, "to"),
        ({"interval": "year"}, "interval"),
        ({"vendor": "x"}, "vendor"),
    ],
)
def test_faulty_period_is_refused(shop: ShopClient, query: dict[str, str], name: str) -> None:
    assert faults(shop.get(path(shop), shop.vendor, **query)) == [name]
