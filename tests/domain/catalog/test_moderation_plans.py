"""Query plans of the screening and the review queue: bounded by the result, not by the table."""

import json
from collections.abc import Iterator
from typing import Any
from uuid import UUID, uuid4

import pytest
from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.catalog.moderation import automated_review, queries, rules
from marketplace.infra.db import Database
from marketplace.infra.sessions import driver_cursor
from marketplace.infra.sql.statements import Statement
from tests.support.market import Market
from tests.support.query_plans import bulk_load

ROWS = 20_000
IN_MODERATION = 2_000

_FILL = text(
    """
    INSERT INTO products (vendor_id, campus_id, category_id, title, description, price_minor, condition,
        quantity, status, held, moderated_at, published_at)
    SELECT CAST(:vendor AS uuid), CAST(:campus AS uuid), (CAST(:categories AS uuid[]))[1 + n % 4],
        'Listing ' || n, repeat('word ', 60), 1000 + n * 104729 % 900000, 'good', 3,
        CASE WHEN n > :waiting THEN 'published' ELSE 'in_review' END, n <= :waiting,
        now() - n * 7919 % 100000 * interval '1 second', now() - n * interval '1 minute'
    FROM generate_series(1, :rows) AS n
    """
)


@pytest.fixture(scope="module")
def filled(own_database: Database) -> Iterator[tuple[Session, UUID]]:
    """A session with many products, some in review, and a category with a quarter of the products."""
    market = Market(own_database)
    store, categories = market.store(), [market.category() for _ in range(4)]
    with own_database.engine.connect() as connection, Session(connection) as session:
        given = {"vendor": store.id, "campus": market.campus_id, "categories": categories}
        with bulk_load(session):
            session.execute(_FILL, given | {"rows": ROWS, "waiting": IN_MODERATION})
        session.execute(text("ANALYZE products, vendor_profiles, categories, campuses"))
        yield session, categories[0]
        session.rollback()


def explained(session: Session, statement: Statement, **parameters: Any) -> tuple[set[str], int]:
    """Run a statement and return the indexes of the plan and the number of buffers touched."""
    with driver_cursor(session) as cursor:
        cursor.execute(
            f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {statement.sql}", statement._constants | parameters
        )
        (found,) = cursor.fetchone()
    plan = (json.loads(found) if isinstance(found, str) else found)[0]["Plan"]

    def indexes(node: dict[str, Any]) -> Iterator[str]:
        if "Index Name" in node:
            yield node["Index Name"]
        for inner in node.get("Plans", ()):
            yield from indexes(inner)

    return set(indexes(plan)), plan["Shared Hit Blocks"] + plan["Shared Read Blocks"]


def test_category_prices_are_read_by_the_newest_index(filled: tuple[Session, UUID]) -> None:
    session, category_id = filled

    statement = Statement(automated_review._select_newest_prices(category_id, uuid4()))

    indexes, buffers = explained(session, statement)

    assert "ix_products_category_newest" in indexes
    assert buffers < 3 * rules.MAX_COMPARABLE_PRICES


def test_subtree_prices_are_read_by_the_newest_index(filled: tuple[Session, UUID]) -> None:
    session, category_id = filled

    indexes, buffers = explained(
        session,
        automated_review._SELECT_PRICES_IN_SUBTREE,
        category_id=category_id,
        product_id=uuid4(),
        each=automated_review._MAX_PRICES_PER_CATEGORY,
        limit=rules.MAX_COMPARABLE_PRICES,
    )

    assert "ix_products_category_newest" in indexes
    assert buffers < 3 * automated_review._MAX_PRICES_PER_CATEGORY + 100


@pytest.mark.parametrize("continued", [False, True])
def test_review_queue_is_read_by_the_moderation_index(filled: tuple[Session, UUID], continued: bool) -> None:
    session, _ = filled
    position: dict[str, Any] = {"last_at": None, "last_id": None}
    if continued:
        position = dict(
            session.execute(
                text(
                    "SELECT moderated_at AS last_at, id AS last_id FROM products WHERE held"
                    " ORDER BY moderated_at, id OFFSET 1000 LIMIT 1"
                )
            )
            .mappings()
            .one()
        )

    indexes, buffers = explained(
        session,
        queries._SELECT_QUEUE[None],
        status="in_review",
        held=True,
        limit=21,
        media_base_url="",
        **position,
    )

    assert "ix_products_moderation" in indexes
    assert buffers < 400  # the cost of a page at any depth
