"""Counts of searches without results, free of personal data, for vendors and staff."""

from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from flask.testing import FlaskClient
from sqlalchemy import delete, select, update

from marketplace.catalog.search import index_maintenance
from marketplace.catalog.search.models import SearchMiss
from marketplace.catalog.search.tokenizer import mask_personal_data
from marketplace.infra.db import Database
from marketplace.platform.models import Campus
from tests.support.market import Bearer, Market, Store
from tests.support.search_api import search_products
from tests.support.threads import at_once


def misses(client: FlaskClient, headers: dict[str, str], **query: Any) -> dict[str, int]:
    response = client.get("/api/products/search/misses", query_string=query, headers=headers)
    assert response.status_code == 200, response.json
    return {miss["query"]: miss["count"] for miss in response.json["data"]}


def counted(database: Database, query: str) -> dict[UUID | None, int]:
    with database.transaction() as session:
        rows = session.scalars(select(SearchMiss).where(SearchMiss.query == query))
        return {row.campus_id: row.count for row in rows}


def test_search_without_results_is_counted_by_campus(
    client: FlaskClient, market: Market, database: Database, word: str
) -> None:
    campus = market.row(Campus, market.campus_id)
    for query in ({}, {}, {"campus": market.campus_id}, {"campus": campus.slug}, {"campus": "no-such"}):
        answer = search_products(client, f"  {word.upper()}   É{word} ", **query)
        assert answer["data"] == {"products": [], "merchants": []}

    assert counted(database, f"{word} e{word}") == {None: 2, market.campus_id: 2}


def test_search_with_matches_before_filters_is_not_counted(
    client: FlaskClient, market: Market, store: Store, database: Database, word: str
) -> None:
    market.product(store, title=word, price_minor=5_000)
    market.store(display_name=f"{word}shop")
    search_products(client, word)
    search_products(client, f"{word}shop")
    search_products(client, word, maxPrice=100)
    search_products(client, word, condition="new")
    search_products(client, f"{word[:4]}{word[5:]}")

    for typed in (word, f"{word}shop", f"{word[:4]}{word[5:]}"):
        assert counted(database, typed) == {}
    # A search that matches only part of the words still counts as a miss.
    assert search_products(client, f"{word} zzyzx")["data"]["products"]
    assert counted(database, f"{word} zzyzx") == {None: 1}


def test_concurrent_searches_are_all_counted(client: FlaskClient, database: Database, word: str) -> None:
    results = at_once(lambda number: search_products(client.application.test_client(), word), range(6))
    assert not [result for result in results if isinstance(result, Exception)]

    assert counted(database, word) == {None: 6}


@pytest.mark.parametrize(
    ("typed", "kept"),
    [
        ("Ada@Example.edu lamp", "# lamp"),
        ("call 0803 123 4567", "call #"),
        ("+234(803)1234567", "#"),
        ("lamp @ada_sells", "lamp #"),
        ("https://example.edu/ada lamp", "# lamp"),
        ("20000mah, 128gb, fx 99123", "20000mah, 128gb, fx 99123"),
        ("Crème BRÛLÉE", "creme brulee"),
    ],
)
def test_personal_data_is_masked(typed: str, kept: str) -> None:
    assert mask_personal_data(typed) == kept


def test_counts_default_to_own_campus_for_vendors_and_all_for_staff(
    client: FlaskClient, market: Market, store: Store, bearer: Bearer, word: str
) -> None:
    other = market.campus()
    for query, times in (({}, 1), ({"campus": market.campus_id}, 3), ({"campus": other}, 2)):
        for _ in range(times):
            search_products(client, f"{word} {query.get('campus') == other}", **query)
    here, there = f"{word} false", f"{word} true"

    def seen(headers: dict[str, str], **query: Any) -> dict[str, int]:
        found = misses(client, headers, limit=100, sort="lastAt", **query)
        return {name: count for name, count in found.items() if name.startswith(word)}

    vendor, staff = bearer(store.user_id), bearer(market.staff("support"))
    assert seen(vendor) == {here: 4}
    assert seen(vendor, campus=other) == {here: 1, there: 2}
    assert seen(vendor, campus="no-such") == {}
    assert seen(staff) == {here: 4, there: 2}
    assert seen(staff, campus=market.campus_id) == {here: 4}


def test_misses_are_listed_by_frequency_over_pages(
    client: FlaskClient, market: Market, bearer: Bearer, word: str, database: Database
) -> None:
    campus = market.campus()
    with database.transaction() as session:
        session.execute(delete(SearchMiss).where(SearchMiss.campus_id.is_(None)))
    for number in (1, 3, 2):
        for _ in range(number):
            search_products(client, f"{word}{number}", campus=campus)
    query = {"campus": campus, "limit": 2}
    headers = bearer(market.staff("support"))

    first = client.get("/api/products/search/misses", query_string=query, headers=headers).json
    second = client.get("/api/products/search/misses", query_string=query | {"page": 2}, headers=headers).json
    third = client.get("/api/products/search/misses", query_string=query | {"page": 3}, headers=headers).json

    pages = (first, second, third)
    assert [[miss["count"] for miss in page["data"]] for page in pages] == [[3, 2], [1], []]
    assert [page["meta"]["total"] for page in pages] == [3, 3, 3]
    assert first["meta"]["total_pages"] == 2


def test_misses_are_shown_for_thirty_days_and_kept_for_ninety(
    client: FlaskClient, market: Market, bearer: Bearer, word: str, database: Database
) -> None:
    for age in (0, 29, 31, 89, 91):
        search_products(client, f"{word}{age}")
        with database.transaction() as session:
            session.execute(
                update(SearchMiss)
                .where(SearchMiss.query == f"{word}{age}")
                .values(day=SearchMiss.day - age, last_at=SearchMiss.last_at - timedelta(days=age))
            )
    headers = bearer(market.staff("support"))

    shown = misses(client, headers, limit=100, sort="lastAt")
    assert {query for query in shown if query.startswith(word)} == {f"{word}0", f"{word}29"}

    with database.transaction() as session:
        index_maintenance.refresh_search_index(session, now=market.now)
    kept = {age for age in (0, 29, 31, 89, 91) if counted(database, f"{word}{age}")}
    assert kept == {0, 29, 31, 89}


def test_buyers_and_anonymous_callers_are_refused(
    client: FlaskClient, market: Market, bearer: Bearer
) -> None:
    assert client.get("/api/products/search/misses").status_code == 401
    refused = client.get("/api/products/search/misses", headers=bearer(market.person()))
    assert refused.status_code == 403
