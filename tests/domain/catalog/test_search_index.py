"""Search index maintenance: triggers, the periodic refresh, and bounded reads."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import pytest
from sqlalchemy import text

from marketplace.catalog.search import index_maintenance, lexicon as search_lexicon
from marketplace.catalog.search.find import (
    _block_parameters,
    _match_strategies,
    _SearchContext,
    _SearchPosition,
)
from marketplace.catalog.search.models import SearchDocument, SearchLexeme, SearchTerm
from marketplace.catalog.search.ranking_sql import search_statement
from marketplace.infra.db import Database
from marketplace.infra.sessions import driver_cursor
from tests.support.market import Market
from tests.support.query_plans import bulk_load
from tests.support.search_api import unique_word
from tests.support.servers import Addresses, create_database, drop_database

ROWS = 20_000
MAX_BUFFERS = (
    9_000  # a scan of 5,000 rows touches about 6,000 buffers; reading all rows touches several times as many
)

_FILL = text(
    """
    INSERT INTO products (vendor_id, campus_id, category_id, title, description, price_minor, condition,
        quantity, status, popularity, published_at)
    SELECT CAST(:vendor AS uuid), CAST(:campus AS uuid), CAST(:category AS uuid),
        'Common ' || CASE WHEN n % 500 = 0 THEN 'seldom ' ELSE '' END || n, 'Brand new, works well.',
        1000 + n, 'good', 1, 'published', n * 31 % 997, now()
    FROM generate_series(1, :rows) AS n
    """
)


@pytest.fixture(scope="module")
def large_database(addresses: Addresses) -> Iterator[Database]:
    name = f"search_{uuid4().hex[:8]}"
    database = Database(create_database(addresses, name), pool_size=2, application_name="tests")
    market = Market(database)
    store = market.store()
    with database.transaction() as session:
        values = {"vendor": store.id, "campus": store.campus_id, "category": market.category_id}
        with bulk_load(session, triggers=True):
            session.execute(_FILL, values | {"rows": ROWS})
            index_maintenance.refresh_search_index(session, now=market.now)
    with database.reading() as session:
        session.execute(text("VACUUM ANALYZE"))
    yield database
    database.close()
    drop_database(addresses, name)


@pytest.mark.parametrize(
    "words", [["common"], ["new"], ["brand", "new"], ["common", "new"], ["c"], ["seldom"]]
)
def test_search_for_common_words_reads_a_bounded_number_of_buffers(
    large_database: Database, words: list[str]
) -> None:
    plan, scans = plan_of_first_page(large_database, words, {})

    assert plan["Actual Rows"] == 21
    assert scans is (words != ["seldom"])
    assert buffers_of(plan) <= MAX_BUFFERS


def test_filtered_search_for_common_word_reads_only_rows_that_pass_the_filters(
    large_database: Database,
) -> None:
    one_in_a_hundred = {"max_price": 1_000 + ROWS // 100}

    plan, scans = plan_of_first_page(large_database, ["common"], one_in_a_hundred)

    assert plan["Actual Rows"] == 21
    assert scans
    assert buffers_of(plan) <= MAX_BUFFERS / 5


def plan_of_first_page(
    database: Database, words: list[str], conditions: dict[str, Any]
) -> tuple[dict[str, Any], bool]:
    """Run a search, and return its plan and whether it scans rows by popularity."""
    with database.reading() as session:
        lexicon = search_lexicon.load_lexicon(session, words=words)
        context = _SearchContext(session, words, conditions, datetime.now(UTC), "")
        strategy = next(_match_strategies(context, lexicon))
        statement = search_statement(strategy.steps, campus=None, filtered=bool(conditions))
        values = statement._constants | _block_parameters(
            context, strategy, _SearchPosition(strategy.kind), limit=21
        )
        with driver_cursor(session) as cursor:
            cursor.execute(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {statement.sql}", values)
            (found,) = cursor.fetchone()
    plan = (json.loads(found) if isinstance(found, str) else found)[0]["Plan"]
    return plan, any(step.scans_by_popularity for step in strategy.steps)


def buffers_of(plan: dict[str, Any]) -> int:
    return int(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"])


def row_of(database: Database, model: type[Any], key: Any) -> Any:
    with database.transaction() as session:
        return session.get(model, key)


def test_stock_and_counter_changes_leave_search_document_unchanged(database: Database) -> None:
    market = Market(database)
    product_id = market.product(market.store())
    with database.transaction() as session:
        before = session.execute(
            text("SELECT xmin::text, prior FROM search_documents WHERE product_id = :id"), {"id": product_id}
        ).one()
        session.execute(
            text("UPDATE products SET quantity = 9, reserved = 1, popularity = 500 WHERE id = :id"),
            {"id": product_id},
        )
        after = session.execute(
            text("SELECT xmin::text, prior FROM search_documents WHERE product_id = :id"), {"id": product_id}
        ).one()
    assert after == before


def test_refresh_counts_words_copies_popularity_and_repairs_documents(database: Database) -> None:
    market, word = Market(database), unique_word()
    store = market.store(display_name=f"{word}shop")
    liked, lost, left_over = (market.product(store, title=f"{word} {number}") for number in range(3))
    assert row_of(database, SearchTerm, word).documents == 1
    with database.transaction() as session:
        session.execute(text("UPDATE products SET popularity = 500 WHERE id = :id"), {"id": liked})
        session.execute(text("DELETE FROM search_documents WHERE product_id = :id"), {"id": lost})
        session.execute(text("ALTER TABLE products DISABLE TRIGGER search_updated"))
        session.execute(text("UPDATE products SET status = 'removed' WHERE id = :id"), {"id": left_over})
        session.execute(text("ALTER TABLE products ENABLE TRIGGER search_updated"))

    with database.transaction() as session:
        done = index_maintenance.refresh_search_index(session, now=market.now)

    assert done["priors"] >= 1
    assert row_of(database, SearchDocument, liked).prior > row_of(database, SearchDocument, lost).prior
    assert row_of(database, SearchDocument, left_over) is None
    assert (row_of(database, SearchTerm, word).documents, row_of(database, SearchTerm, word).in_title) == (
        2,
        2,
    )
    of_store = row_of(database, SearchTerm, f"{word}shop")
    assert (of_store.documents, of_store.in_title) == (2, 0)


def test_only_frequent_lexemes_are_counted_in_titles_and_overall(large_database: Database) -> None:
    common, new = row_of(large_database, SearchLexeme, "common"), row_of(large_database, SearchLexeme, "new")
    assert (common.in_title, common.anywhere) == (ROWS, ROWS)
    assert (new.in_title, new.anywhere) == (0, ROWS)
    assert row_of(large_database, SearchLexeme, "seldom") is None
