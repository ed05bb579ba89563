"""Query plans of public promotion lists: past promotions cost nothing, in any number."""

import json
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.catalog.promotions import featured, flash_sale_listing
from marketplace.infra.db import Database
from marketplace.infra.sessions import driver_cursor
from tests.support.market import Market
from tests.support.query_plans import bulk_load

PAST, RUNNING = 10_000, 100
MAX_BUFFERS = PAST // 5  # reading all past promotions with products touches many times as many

_PRODUCTS = text(
    """
    INSERT INTO products (vendor_id, campus_id, category_id, title, price_minor, condition, quantity, status,
        published_at)
    SELECT CAST(:vendor AS uuid), CAST(:campus AS uuid), CAST(:category AS uuid), 'Listing ' || n, 10000, 'good', 9,
        'published', now() FROM generate_series(1, :products) AS n
    """
)
_SALES = text(
    """
    INSERT INTO flash_sales (product_id, sale_price_minor, starts_at, ends_at, created_by)
    SELECT p.id, 5000, now() - (2 + :length * n) * interval '1 hour', now() - (1 + :length * n) * interval '1 hour',
        :officer
    FROM products p, generate_series(:first, :last) n WHERE p.vendor_id = :vendor
    """
)
_FEATURED = text(
    """
    INSERT INTO featured_products (product_id, campus_id, starts_at, ends_at, created_by)
    SELECT p.id, p.campus_id, now() - (2 + 2 * n) * interval '1 hour', now() - (1 + 2 * n) * interval '1 hour',
        :officer
    FROM products p, generate_series(0, :last) n WHERE p.vendor_id = :vendor
    """
)


@pytest.fixture(scope="module")
def session(own_database: Database) -> Iterator[Session]:
    market = Market(own_database)
    store, officer = market.store(), market.staff("moderator")
    with own_database.engine.connect() as connection, Session(connection) as opened:
        values: dict[str, Any] = {"vendor": store.id, "officer": officer}
        each = PAST // RUNNING
        with bulk_load(opened):
            opened.execute(
                _PRODUCTS,
                values | {"campus": store.campus_id, "category": market.category_id, "products": RUNNING},
            )
            opened.execute(_SALES, values | {"length": 24, "first": 0, "last": each - 1})
            opened.execute(
                text(
                    "INSERT INTO flash_sales (product_id, sale_price_minor, starts_at, ends_at, created_by)"
                    " SELECT id, 5000, now() - interval '30 minutes', now() + interval '30 minutes', :officer"
                    " FROM products WHERE vendor_id = :vendor"
                ),
                values,
            )
            opened.execute(_FEATURED, values | {"last": each - 1})
        opened.execute(text("ANALYZE products, vendor_profiles, flash_sales, featured_products"))
        yield opened
        opened.rollback()


def explain(session: Session, sql: str, parameters: dict[str, Any]) -> tuple[list[str], int]:
    """Run a statement and return the plan's nodes, by index name if any, and the number of buffers touched."""
    with driver_cursor(session) as cursor:
        cursor.execute(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {sql}", parameters)
        (found,) = cursor.fetchone()
    plan = (json.loads(found) if isinstance(found, str) else found)[0]["Plan"]

    def nodes(node: dict[str, Any]) -> Iterator[str]:
        yield node.get("Index Name") or f"{node['Node Type']} {node.get('Relation Name', '')}".strip()
        for inner in node.get("Plans", ()):
            yield from nodes(inner)

    return list(nodes(plan)), plan["Shared Hit Blocks"] + plan["Shared Read Blocks"]


@pytest.mark.parametrize(
    ("state", "index"), [("running", "ix_flash_sales_over"), (None, "ix_flash_sales_starts")]
)
@pytest.mark.parametrize("continued", [False, True])
def test_ended_flash_sales_add_no_cost(
    session: Session, state: str | None, index: str, *, continued: bool
) -> None:
    statement = flash_sale_listing._public_statement(state=state, campus=None, has_cursor=continued)
    now = session.execute(text("SELECT now()")).scalar_one()
    values = statement._constants | {
        "now": now,
        "oldest": now - flash_sale_listing.MAX_SALE_DURATION,
        "media_base_url": "",
        "limit": 21,
        "last_position": (now - timedelta(minutes=31)).isoformat(),
        "last_id": "00000000-0000-7000-8000-000000000000",
    }

    nodes, buffers = explain(session, statement.sql, values)

    assert not any(node.startswith("Seq Scan flash_sales") for node in nodes), nodes
    assert index in nodes or "ix_flash_sales_over" in nodes, nodes
    assert buffers <= MAX_BUFFERS, (buffers, nodes)


def test_past_featured_products_add_little_cost(session: Session) -> None:
    statement = featured._cards_statement(campus=None, has_cursor=False)
    now = session.execute(text("SELECT now()")).scalar_one()

    nodes, buffers = explain(
        session, statement.sql, statement._constants | {"now": now, "media_base_url": "", "limit": 21}
    )

    assert buffers <= MAX_BUFFERS, (buffers, nodes)
