"""Query plans: bulk data and the server's execution statistics."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.catalog.browse.listing import ProductFilters
from marketplace.infra.db import Database
from marketplace.infra.sessions import driver_cursor
from marketplace.infra.sql.statements import Statement
from tests.support.market import Market

ROWS = 20_000
LIMIT = 19  # an unusual length keeps the values in the statement, so that EXPLAIN shows the real plan

_FILL = text(
    """
    INSERT INTO products (vendor_id, campus_id, category_id, title, description, price_minor, condition,
        quantity, status, popularity, rating_sum, rating_count, published_at, updated_at, exclusive)
    SELECT CAST(:vendor AS uuid), (CAST(:campuses AS uuid[]))[1 + n % 2],
        (CAST(:categories AS uuid[]))[1 + n / 2 * 7919 % 20], 'Listing ' || n, repeat('word ', 60),
        1000 + n * 104729 % 900000, 'good', n % 9, 'published', n * 31 % 997, n * 17 % 41, 10,
        now() - n * interval '1 minute', now() - n * interval '1 second', n % 20 = 0
    FROM generate_series(1, :rows) AS n
    """
)
# A tenth of the products has views today.
_COUNT = text(
    """
    INSERT INTO product_counts (product_id, trending)
    SELECT id, popularity FROM products WHERE vendor_id = :vendor AND price_minor % 10 = 0
    """
)


class ManyProducts:
    """Many products of a single store, in two campuses and in twenty categories of a single parent."""

    def __init__(
        self, session: Session, store_id: UUID, campus_id: UUID, parent_id: UUID, leaf_id: UUID
    ) -> None:
        self.session = session
        self.store_id = store_id
        self.filters = {
            "none": ProductFilters(),
            "campus": ProductFilters(campus=str(campus_id)),
            "category with those below": ProductFilters(category=str(parent_id)),
            "campus and category": ProductFilters(campus=str(campus_id), category=str(leaf_id)),
            "price": ProductFilters(min_price_minor=100_000, max_price_minor=300_000),
            "stock": ProductFilters(condition="good", in_stock=True),
        }


@contextmanager
def bulk_load(session: Session, *, triggers: bool = False) -> Iterator[None]:
    """Lift the statement timeout while a fixture writes many rows, and disable triggers and foreign keys.

    :param triggers: keep triggers and foreign keys enabled
    """
    session.execute(text("SET LOCAL statement_timeout = 0"))
    if not triggers:
        session.execute(text("SET LOCAL session_replication_role = replica"))
    yield
    session.execute(text("SET LOCAL session_replication_role = DEFAULT"))
    session.execute(text("SET LOCAL statement_timeout = '30s'"))


@pytest.fixture(scope="module")
def many_products(own_database: Database) -> Iterator[ManyProducts]:
    market = Market(own_database)
    other_campus, store, parent = market.campus(), market.store(verified=True), market.category()
    leaves = [market.category(below=parent) for _ in range(20)]
    with own_database.engine.connect() as connection, Session(connection) as session:
        campuses = [market.campus_id, other_campus]
        values = {"vendor": store.id, "campuses": campuses, "categories": leaves, "rows": ROWS}
        with bulk_load(session):
            session.execute(_FILL, values)
            session.execute(_COUNT, values)
        session.execute(text("ANALYZE product_counts, products, vendor_profiles, categories, campuses"))
        yield ManyProducts(session, store.id, market.campus_id, parent, leaves[3])
        session.rollback()


@dataclass(frozen=True)
class StatementStatistics:
    """The statistics of a statement: scanned rows of a table, buffers, result rows, nodes and plan."""

    scanned_rows: int
    buffers: int
    rows: int
    nodes: list[str]
    plan: str


def run_and_explain(
    session: Session, statement: Statement, values: dict[str, Any], *, table: str
) -> StatementStatistics:
    """Run a statement and return the statistics."""
    plan = _plan(session, statement.sql, statement._constants | values)

    def scanned_rows(node: dict[str, Any]) -> Iterator[int]:
        if node.get("Relation Name") == table:
            removed = node.get("Rows Removed by Filter", 0) + node.get("Rows Removed by Index Recheck", 0)
            yield round((node["Actual Rows"] + removed) * node["Actual Loops"])
        for inner in node.get("Plans", ()):
            yield from scanned_rows(inner)

    return StatementStatistics(
        sum(scanned_rows(plan)),
        _buffers(plan),
        round(plan["Actual Rows"]),
        list(_nodes(plan)),
        json.dumps(plan, indent=1),
    )


def explain(session: Session, sql: str, parameters: dict[str, Any]) -> tuple[list[str], int]:
    """Run a statement and return the plan's nodes, by index where used, and the number of buffers."""
    plan = _plan(session, sql, parameters)
    return list(_nodes(plan)), _buffers(plan)


def buffers_on(session: Session, sql: str, parameters: dict[str, Any], relation: str) -> int:
    """Run a statement and return the number of buffers used to look up rows of a table."""

    def found(node: dict[str, Any]) -> int:
        own = _buffers(node) if node.get("Relation Name") == relation else 0
        return own + sum(found(inner) for inner in node.get("Plans", ()))

    return found(_plan(session, sql, parameters))


def _plan(session: Session, sql: str, parameters: dict[str, Any]) -> dict[str, Any]:
    with driver_cursor(session) as cursor:
        cursor.execute(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {sql}", parameters)
        (found,) = cursor.fetchone()
    plan: dict[str, Any] = (json.loads(found) if isinstance(found, str) else found)[0]["Plan"]
    return plan


def _nodes(node: dict[str, Any]) -> Iterator[str]:
    yield node.get("Index Name") or f"{node['Node Type']} {node.get('Relation Name', '')}".strip()
    for inner in node.get("Plans", ()):
        yield from _nodes(inner)


def _buffers(plan: dict[str, Any]) -> int:
    buffers: int = plan["Shared Hit Blocks"] + plan["Shared Read Blocks"]
    return buffers
