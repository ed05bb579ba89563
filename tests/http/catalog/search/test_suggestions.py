"""Search suggestions over HTTP: prefix matches by popularity, without duplicates or hidden products."""

import pytest
from flask.testing import FlaskClient

from marketplace.catalog.models import Product
from marketplace.catalog.search.models import SearchTerm
from marketplace.infra.db import Database
from tests.support.market import Bearer, Market, Store
from tests.support.product_api import faults_of
from tests.support.resource_usage import counted_statements
from tests.support.search_api import fetch_suggestions


def test_titles_are_suggested_by_any_word_most_popular_first(
    client: FlaskClient, market: Market, store: Store, word: str
) -> None:
    for title, popularity in ((f"Blue {word}", 3), (f"{word} fan", 300), (f"Red {word}", 30)):
        market.product(store, title=title, popularity=popularity)
    market.product(store, title="Something else", tags=[word], popularity=900)

    expected = [(f"{word} fan", "product"), (f"Red {word}", "product"), (f"Blue {word}", "product")]
    assert fetch_suggestions(client, word[:-2]) == expected
    assert fetch_suggestions(client, word, limit=2) == expected[:2]
    assert fetch_suggestions(client, f"blue {word[:4]}") == expected[2:]
    assert fetch_suggestions(client, f"{word} blu") == expected[2:]
    assert fetch_suggestions(client, f"green {word}") == []


def test_titles_equal_but_for_case_and_accents_are_suggested_once(
    client: FlaskClient, market: Market, store: Store, word: str
) -> None:
    for title, popularity in ((f"Crème {word}", 90), (f"CREME  {word.upper()}", 9), (f"creme {word}", 900)):
        market.product(store, title=title, popularity=popularity)

    assert fetch_suggestions(client, word) == [(f"creme {word}", "product")]


def test_categories_and_stores_are_suggested_after_titles(
    client: FlaskClient, market: Market, word: str
) -> None:
    category = market.category(name=f"{word} things")
    store = market.store(display_name=f"House of {word}")
    market.store(display_name=f"{word} gone", status="closed")
    for number in range(12):
        market.product(store, title=f"{word} {number}", category_id=category, popularity=number)

    found = fetch_suggestions(client, word)

    assert len(found) == 10
    assert [kind for _, kind in found] == ["product"] * 8 + ["category", "store"]
    assert found[-2:] == [(f"{word} things", "category"), (f"House of {word}", "store")]


def test_campus_filter_narrows_titles_and_stores(client: FlaskClient, market: Market, word: str) -> None:
    market.product(market.store(display_name=f"{word} here"), title=f"{word} one")
    elsewhere = market.store(campus_id=market.campus(), display_name=f"{word} there")
    market.product(elsewhere, title=f"{word} two")

    assert fetch_suggestions(client, word, campus=market.campus_id) == [
        (f"{word} one", "product"),
        (f"{word} here", "store"),
    ]
    assert fetch_suggestions(client, word, campus="no-such-campus") == []


@pytest.mark.parametrize("status", ["draft", "in_review", "rejected", "paused", "removed", "deleted"])
def test_hidden_product_is_not_suggested(
    client: FlaskClient, market: Market, store: Store, word: str, status: str
) -> None:
    product_id = market.product(store, title=word)
    market.product(market.store(on_vacation=True), title=f"{word} away")
    market.product(market.store(status="suspended"), title=f"{word} suspended")
    assert fetch_suggestions(client, word) == [(word, "product")]

    market.change(Product, product_id, status=status)

    assert fetch_suggestions(client, f" {word}", limit=9) == []  # a different query bypasses the cache


def test_suggestions_are_cached_until_a_product_appears_or_disappears(
    client: FlaskClient, market: Market, store: Store, word: str, database: Database, bearer: Bearer
) -> None:
    product_id = market.product(store, title=word)
    other = market.product(store, title=f"{word} other")
    query = {"q": word}
    first = client.get("/api/products/suggestions", query_string=query)
    assert first.headers["Cache-Control"] == "public, max-age=900"
    assert len(first.json["data"]) == 2

    changed = client.put(f"/api/products/{other}", json={"quantity": 4}, headers=bearer(store.user_id))
    assert changed.status_code == 200
    with counted_statements(database) as seen:
        assert client.get("/api/products/suggestions", query_string=query).json["data"] == first.json["data"]
    assert seen == []

    paused = client.put(
        f"/api/products/{product_id}", json={"status": "paused"}, headers=bearer(store.user_id)
    )
    assert paused.status_code == 200
    assert fetch_suggestions(client, word) == [(f"{word} other", "product")]

    resumed = client.put(
        f"/api/products/{product_id}", json={"status": "published"}, headers=bearer(store.user_id)
    )
    assert resumed.json["data"]["status"] == "published"
    assert {text for text, _ in fetch_suggestions(client, word)} == {word, f"{word} other"}


def test_suggestions_take_a_single_statement(
    client: FlaskClient, market: Market, store: Store, word: str, database: Database
) -> None:
    for number in range(20):
        market.product(store, title=f"{word} {number}")
    with counted_statements(database) as seen:
        fetch_suggestions(client, word, limit=7)
    assert len(seen) == 1


def test_other_titles_are_suggested_after_many_with_the_same_title(
    client: FlaskClient, market: Market, store: Store, word: str
) -> None:
    for number in range(31):
        market.product(store, title=word, popularity=900 + number)
    market.product(store, title=f"Rare {word}", popularity=1)

    assert fetch_suggestions(client, word) == [(word, "product"), (f"Rare {word}", "product")]


@pytest.mark.parametrize("documents", [900, 901, 1_700, 1_701])
def test_frequency_of_a_word_does_not_change_its_suggestions(
    client: FlaskClient, market: Market, store: Store, word: str, database: Database, documents: int
) -> None:
    for number in range(3):
        market.product(store, title=f"{word} {number}", popularity=number)
    with database.transaction() as session:
        term = session.get_one(SearchTerm, word)
        term.documents = term.in_title = documents

    assert fetch_suggestions(client, word) == [(f"{word} {number}", "product") for number in (2, 1, 0)]
    assert fetch_suggestions(client, f"{word} 1") == [(f"{word} 1", "product")]


@pytest.mark.parametrize("typed", ["a", "!", "'", "é", "🍮", "a'b", "&", "x" * 100])
def test_suggestions_accept_any_characters(client: FlaskClient, typed: str) -> None:
    fetch_suggestions(client, typed)


@pytest.mark.parametrize(
    ("query", "fault"),
    [
        ("", "q"),
        ("q=", "q"),
        ("q=%20", "q"),
        (f"q={'a' * 101}", "q"),
        ("q=a&limit=11", "limit"),
        ("q=a&kind=x", "kind"),
    ],
)
def test_invalid_parameter_is_named(client: FlaskClient, query: str, fault: str) -> None:
    response = client.get(f"/api/products/suggestions?{query}")
    assert response.status_code == 422
    assert faults_of(response) == [fault]
