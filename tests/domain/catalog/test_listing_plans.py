"""Query plans of the public listing: an index provides the order at any page depth."""

from typing import Any
from uuid import uuid4

import pytest
from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.catalog.browse import listing
from marketplace.catalog.browse.listing import ProductFilters
from marketplace.kernel.paging import PageRequest
from tests.support.query_plans import LIMIT, ManyProducts, explain, many_products

__all__ = ["many_products"]

MAX_BUFFERS = 3_000  # a full scan of the table touches several times as many


@pytest.mark.parametrize("sort", listing.SORTS)
@pytest.mark.parametrize("deep", [False, True], ids=["first page", "deep page"])
@pytest.mark.parametrize(
    "filtered", ["none", "campus", "category with those below", "campus and category", "price", "stock"]
)
def test_listing_page_never_reads_the_whole_table(
    many_products: ManyProducts, sort: str, *, deep: bool, filtered: str
) -> None:
    session, filters = many_products.session, many_products.filters[filtered]
    given = listing.build_conditions(session, filters)
    assert given is not None
    statement = listing._listing_statement(sort, tuple(given), has_cursor=deep, is_default_page=False)
    values = statement._constants | given | {"now": "now", "media_base_url": "", "limit": LIMIT + 1}
    if deep:
        values |= dict(zip(("last_position", "last_id"), deep_position(session, filters, sort), strict=True))

    nodes, buffers = explain(session, statement.sql, values)

    assert "Seq Scan products" not in nodes
    assert any(node.startswith("ix_products_") for node in nodes), nodes
    assert buffers <= MAX_BUFFERS, (buffers, nodes)
    if filtered in ("none", "campus", "stock"):
        assert "Sort" not in nodes


def deep_position(session: Session, filters: ProductFilters, sort: str) -> list[Any]:
    """Return the position of the listing after several pages."""
    position = None
    for _ in range(4):
        page = listing.list_products(
            session,
            filters=filters,
            sort=sort,
            page=PageRequest(100, position),
            now=session.execute(text("SELECT now()")).scalar_one(),
            media_base_url="",
        )
        if page.next_position is None:
            break
        position = page.next_position
    assert position is not None
    return position


def test_filter_by_unknown_category_has_no_conditions(many_products: ManyProducts) -> None:
    assert listing.build_conditions(many_products.session, ProductFilters(category=str(uuid4()))) is None
