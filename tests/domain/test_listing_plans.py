"""The plans of the public listing: an index gives the order, however deep the page; nothing is sorted whole."""

import json
from collections.abc import Iterator
from typing import Any
from uuid import UUID, uuid4

import pytest
from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.catalog import listings
from marketplace.catalog.listings import Filters
from marketplace.infra.db import Database, driver_cursor
from marketplace.kernel.paging import PageRequest
from tests.support.market import Market

ROWS = 20_000
LIMIT = 19  # not the usual length, so that the values stand in the statement and EXPLAIN shows its plan
MOST_BUFFERS = 3_000  # of a table of ROWS rows; a scan of all of it touches several times as many

_FILL = text(
    """
    INSERT INTO products (vendor_id, campus_id, category_id, title, description, price_minor, condition,
        quantity, status, popularity, rating_sum, rating_count, published_at)
    SELECT CAST(:vendor AS uuid), (CAST(:campuses AS uuid[]))[1 + n % 2],
        (CAST(:categories AS uuid[]))[1 + n / 2 * 7919 % 20], 'Listing ' || n, repeat('word ', 60),
        1000 + n * 104729 % 900000, 'good', n % 9, 'published', n * 31 % 997, n * 17 % 41, 10,
        now() - n * interval '1 minute'
    FROM generate_series(1, :rows) AS n
    """
)


class Shelves:
    """Many products, in two campuses and twenty categories below one."""

    def __init__(self, session: Session, campus_id: UUID, parent_id: UUID, leaf_id: UUID) -> None:
        self.session = session
        self.filters = {
            "none": Filters(),
            "campus": Filters(campus=str(campus_id)),
            "category with those below": Filters(category=str(parent_id)),
            "campus and category": Filters(campus=str(campus_id), category=str(leaf_id)),
            "price": Filters(min_price_minor=100_000, max_price_minor=300_000),
            "stock": Filters(condition="good", in_stock=True),
        }


@pytest.fixture(scope="module")
def shelves(services: Any) -> Iterator[Shelves]:
    database: Database = services.database
    market = Market(database)
    other_campus, store, parent = market.campus(), market.store(), market.category()
    leaves = [market.category(below=parent) for _ in range(20)]
    with database.engine.connect() as connection, Session(connection) as session:
        campuses = [market.campus_id, other_campus]
        values = {"vendor": store.id, "campuses": campuses, "categories": leaves, "rows": ROWS}
        session.execute(_FILL, values)
        session.execute(text("ANALYZE products, vendor_profiles, categories, campuses"))
        yield Shelves(session, market.campus_id, parent, leaves[3])
        session.rollback()


def explain(session: Session, sql: str, parameters: dict[str, Any]) -> tuple[list[str], int]:
    """Run a statement, and give its plan's nodes, by index where they have one, and the buffers it touched."""
    with driver_cursor(session) as cursor:
        cursor.execute(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {sql}", parameters)
        (found,) = cursor.fetchone()
    plan = (json.loads(found) if isinstance(found, str) else found)[0]["Plan"]

    def nodes(node: dict[str, Any]) -> Iterator[str]:
        yield node.get("Index Name") or f"{node['Node Type']} {node.get('Relation Name', '')}".strip()
        for inner in node.get("Plans", ()):
            yield from nodes(inner)

    return list(nodes(plan)), plan["Shared Hit Blocks"] + plan["Shared Read Blocks"]


@pytest.mark.parametrize("sort", listings.SORTS)
@pytest.mark.parametrize("deep", [False, True], ids=["first page", "page deep inside"])
@pytest.mark.parametrize(
    "filtered", ["none", "campus", "category with those below", "campus and category", "price", "stock"]
)
def test_no_page_reads_the_whole_table(shelves: Shelves, sort: str, *, deep: bool, filtered: str) -> None:
    session, filters = shelves.session, shelves.filters[filtered]
    given = listings.conditions_of(session, filters)
    assert given is not None
    statement = listings._listing(sort, tuple(given), continued=deep, usual=False)
    values = statement._constants | given | {"now": "now", "media_base_url": "", "limit": LIMIT + 1}
    if deep:
        values |= dict(zip(("last_position", "last_id"), middle(session, filters, sort), strict=True))

    nodes, buffers = explain(session, statement.sql, values)

    assert "Seq Scan products" not in nodes
    assert any(node.startswith("ix_products_") for node in nodes), nodes
    assert buffers <= MOST_BUFFERS, (buffers, nodes)
    if filtered in ("none", "campus", "stock"):
        assert "Sort" not in nodes


def middle(session: Session, filters: Filters, sort: str) -> list[Any]:
    """Give the position after some pages, found by paging."""
    position = None
    for _ in range(4):
        page = listings.list_products(
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


def test_an_unknown_category_asks_no_further(shelves: Shelves) -> None:
    assert listings.conditions_of(shelves.session, Filters(category=str(uuid4()))) is None
