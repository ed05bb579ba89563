"""Query plans of deep pages: as cheap as the first page, on all paged listings."""

from datetime import UTC, datetime
from typing import Any

import pytest
from sqlalchemy import text

from marketplace.catalog.browse import listing as browse_listing, vendor_inventory
from marketplace.catalog.browse.listing import ProductFilters
from marketplace.kernel.clock import iso
from tests.support.query_plans import LIMIT, ManyProducts, buffers_on, explain, many_products

__all__ = ["many_products"]

MAX_BUFFERS = 400  # for a page of products with store rows; the whole table has thousands
PAGE = 500

_PUBLISHED = "products p JOIN vendor_profiles v ON v.id = p.vendor_id WHERE p.status = 'published'"
ORDERS = {
    "newest": "p.published_at DESC",
    "price_asc": "p.price_minor",
    "price_desc": "p.price_minor DESC",
    "popular": "p.popularity DESC",
    "rating": "p.rating_bayes DESC",
}
LONG_AGO = datetime(2000, 1, 1, tzinfo=UTC)


def position_at(many_products: ManyProducts, source: str, order: str, rows: int) -> list[Any]:
    """Return the position of the row at an offset, found by a full sort."""
    column = order.removesuffix(" DESC")
    down = " DESC" if order.endswith("DESC") else ""
    found = many_products.session.execute(
        text(f"SELECT {column}, p.id FROM {source} ORDER BY {order}, p.id{down} OFFSET :rows LIMIT 1"),
        {"rows": rows},
    ).one()
    return [iso(found[0]) if isinstance(found[0], datetime) else found[0], str(found[1])]


def compare(
    many_products: ManyProducts, pages: tuple[str, str], values: dict[str, Any], position: list[Any]
) -> tuple[list[str], int]:
    """Assert that a deep page costs about as little as the first page, and return the deep page's plan."""
    common = values | {"now": datetime.now(UTC), "media_base_url": "", "limit": LIMIT + 1, "offset": 0}
    _, first = explain(many_products.session, pages[0], common)
    deep = common | dict(zip(("last_position", "last_id"), position, strict=True))
    nodes, buffers = explain(many_products.session, pages[1], deep)
    assert first <= MAX_BUFFERS
    assert buffers <= MAX_BUFFERS, nodes
    # Rows of other modules belong to many stores, so exclude the lookups of stores from the comparison.
    of_stores = [
        buffers_on(many_products.session, sql, given, "vendor_profiles")
        for sql, given in zip(pages, (common, deep), strict=True)
    ]
    assert buffers - of_stores[1] <= (first - of_stores[0]) * 1.5 + 50
    assert "Sort" not in nodes
    assert "Seq Scan products" not in nodes
    return nodes, buffers


def compare_listing_pages(
    many_products: ManyProducts, sort: str, given: dict[str, Any], position: list[Any]
) -> tuple[list[str], int]:
    statements = [
        browse_listing._listing_statement(sort, tuple(given), has_cursor=deep, is_default_page=False)
        for deep in (False, True)
    ]
    first, deep = (one.sql for one in statements)
    constants = statements[0]._constants | statements[1]._constants
    return compare(many_products, (first, deep), constants | given, position)


@pytest.mark.parametrize("sort", browse_listing.SORTS)
def test_page_500_of_listing_costs_as_little_as_page_1(many_products: ManyProducts, sort: str) -> None:
    position = position_at(many_products, _PUBLISHED, ORDERS[sort], PAGE * 20)

    nodes, _ = compare_listing_pages(many_products, sort, {}, position)

    assert any(node.startswith("ix_products_") for node in nodes)


@pytest.mark.parametrize(
    ("filters", "index"),
    [
        (ProductFilters(published_after=LONG_AGO), "ix_products_newest"),
        (ProductFilters(exclusive=True), "ix_products_exclusive"),
    ],
    ids=["new arrivals", "exclusives"],
)
def test_new_arrivals_and_exclusives_are_read_by_an_index(
    many_products: ManyProducts, filters: ProductFilters, index: str
) -> None:
    given = browse_listing.build_conditions(many_products.session, filters)
    assert given is not None
    source = _PUBLISHED + (" AND p.exclusive" if filters.exclusive else "")
    position = position_at(many_products, source, ORDERS["newest"], 300)

    nodes, _ = compare_listing_pages(many_products, "newest", given, position)

    assert index in nodes


def test_trending_list_is_read_by_the_trending_index(many_products: ManyProducts) -> None:
    source = (
        "product_counts c JOIN products p ON p.id = c.product_id"
        " JOIN vendor_profiles v ON v.id = p.vendor_id WHERE p.status = 'published'"
    )
    position = position_at(many_products, source, "c.trending DESC", 1_000)

    nodes, _ = compare_listing_pages(many_products, "trending", {"trends": True}, position)

    assert "ix_product_counts_trending" in nodes


def test_popular_products_after_trending_are_read_by_the_popularity_index(
    many_products: ManyProducts,
) -> None:
    position = position_at(many_products, _PUBLISHED, ORDERS["popular"], 10_000)

    nodes, _ = compare_listing_pages(many_products, "popular", {"trends_not": True}, position)

    assert "ix_products_popular" in nodes


def test_store_listing_is_read_by_an_index(many_products: ManyProducts) -> None:
    given = {"vendor_id": many_products.store_id}
    position = position_at(many_products, _PUBLISHED, ORDERS["newest"], 10_000)

    nodes, _ = compare_listing_pages(many_products, "newest", given, position)

    assert any(node.startswith("ix_products_") for node in nodes)


def test_inventory_in_default_order_is_read_by_the_inventory_index(many_products: ManyProducts) -> None:
    statements = [
        vendor_inventory._page_statement("updated_at", (), descending=True, has_cursor=deep)
        for deep in (False, True)
    ]
    values = statements[0]._constants | {"vendor_id": many_products.store_id}
    position = position_at(
        many_products, "products p WHERE p.status <> 'deleted'", "p.updated_at DESC", 10_000
    )

    nodes, _ = compare(many_products, (statements[0].sql, statements[1].sql), values, position)

    assert "ix_products_inventory" in nodes
