"""Search over HTTP: matches, ranking, hidden products, filters and pages."""

from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from flask.testing import FlaskClient

from blueprints.catalog.search.schemas import SearchResults
from marketplace.catalog.models import Category, Product
from marketplace.catalog.search import ranking_sql
from marketplace.catalog.search.models import SearchSynonyms
from marketplace.infra.db import Database
from marketplace.platform.models import Campus
from marketplace.vendors.models import VendorProfile
from tests.support.market import Market, Store
from tests.support.product_api import faults_of
from tests.support.resource_usage import counted_statements
from tests.support.search_api import search_product_ids, search_products, unique_word


def test_response_has_the_documented_fields(client: FlaskClient, market: Market, word: str) -> None:
    store = market.store(
        display_name=f"House of {word}",
        verified=True,
        rating_sum=9,
        rating_count=2,
        rating_counts=[0, 0, 0, 1, 1],
    )
    product_id = market.product(store, title=f"A {word} in blue")

    answer = search_products(client, word)

    assert not SearchResults().validate(answer["data"])
    assert [UUID(card["id"]) for card in answer["data"]["products"]] == [product_id]
    assert answer["data"]["merchants"] == [
        {
            "id": str(store.id),
            "displayName": f"House of {word}",
            "slug": answer["data"]["merchants"][0]["slug"],
            "verified": True,
            "rating": 4.5,
            "ratingCount": 2,
            "completedOrders": 0,
            "campusId": str(store.campus_id),
        }
    ]
    meta = answer["meta"]
    assert (meta["limit"], meta["has_more"], meta["next_cursor"], meta["suggestion"]) == (
        20,
        False,
        None,
        None,
    )


def test_title_matches_rank_before_tags_stores_and_descriptions(
    client: FlaskClient, market: Market, store: Store, word: str
) -> None:
    described = market.product(store, description=f"It goes with a {word}.", popularity=900)
    sold_by = market.product(market.store(display_name=f"{word} Stores"), popularity=90)
    tagged = market.product(store, tags=[word], popularity=9)
    titled = market.product(store, title=f"Green {word}")

    assert search_product_ids(client, word) == [titled, tagged, sold_by, described]


def test_popular_product_ranks_first_among_equal_matches(
    client: FlaskClient, market: Market, store: Store, word: str
) -> None:
    little = market.product(store, title=word, popularity=3)
    much = market.product(store, title=word, popularity=300)
    liked = market.product(store, title=word, popularity=3, rating_sum=50, rating_count=10)

    assert search_product_ids(client, word) == [much, liked, little]


def test_case_accents_and_punctuation_are_ignored(
    client: FlaskClient, market: Market, store: Store, word: str
) -> None:
    product_id = market.product(store, title=f"Crème Brûlée {word.upper()}, Ọ̀ṣun's best")

    for typed in (
        f"creme {word}",
        f"CRÈME brulee {word}",
        f"osuns, {word}!",
        f"“{word}” — ọṣun's",
        f"{word} 🍮",
    ):
        assert search_product_ids(client, typed) == [product_id], typed


def test_inflections_and_prefix_of_last_word_match(
    client: FlaskClient, market: Market, store: Store, word: str
) -> None:
    product_id = market.product(store, title=f"Batteries {word}")

    for typed in (f"{word} battery", f"{word} batteries", f"{word} batter", f"battery {word[:-3]}"):
        assert search_product_ids(client, typed) == [product_id], typed


@pytest.mark.parametrize("typed", ["fx991", "fx-991es", "FX 991 ES", "fx991es plus", "991es", "fx-991"])
def test_model_number_matches_in_any_spelling(
    client: FlaskClient, market: Market, store: Store, word: str, typed: str
) -> None:
    product_id = market.product(store, title=f"Casio fx-991ES Plus {word}")

    assert search_product_ids(client, f"{word} {typed}") == [product_id]


def test_misspelling_is_corrected_and_reported(
    client: FlaskClient, market: Market, store: Store, word: str
) -> None:
    product_id = market.product(store, title=f"Good {word}")

    for typed in (word[1] + word[0] + word[2:], word[:4] + word[5:], f"{word[:3]}y{word[3:]}"):
        answer = search_products(client, f"good {typed} for sale")
        assert [UUID(card["id"]) for card in answer["data"]["products"]] == [product_id], typed
        assert answer["meta"]["suggestion"] == f"good {word} for sale"


def test_word_found_only_in_descriptions_is_not_corrected(
    client: FlaskClient, market: Market, store: Store, word: str
) -> None:
    market.product(store, title=f"Good {word}")
    described = market.product(store, description=f"With {word}u.")

    answer = search_products(client, f"{word}u")

    assert [UUID(card["id"]) for card in answer["data"]["products"]] == [described]
    assert answer["meta"]["suggestion"] is None


def test_joined_and_split_words_match_each_other(
    client: FlaskClient, market: Market, store: Store, word: str
) -> None:
    other = unique_word(5)
    apart = market.product(store, title=f"{word} {other}")
    assert search_product_ids(client, word + other) == [apart]

    glued = market.product(store, title=word + other)
    assert search_product_ids(client, f"{word} {other}") == [apart, glued]


def test_unmatched_word_is_dropped_rather_than_finding_nothing(
    client: FlaskClient, market: Market, store: Store, word: str
) -> None:
    product_id = market.product(store, title=f"Blue {word}")

    assert search_product_ids(client, f"{word} {unique_word()}") == [product_id]
    assert search_product_ids(client, f"{word} for my {word}") == [product_id]


@pytest.mark.parametrize(
    "typed",
    [
        "the",
        "it",
        "a an the",
        "!!",
        "''",
        '""',
        "&|!",
        "<->",
        "':*",
        "\\'",
        "%_",
        "🍮🍮",
        "日本語 電卓",
        "ßß",
        "--",
        "x" * 100,
    ],
)
def test_search_accepts_any_characters(client: FlaskClient, typed: str) -> None:
    assert search_products(client, typed)["success"]


def test_query_of_stop_words_only_is_searched(client: FlaskClient, market: Market, store: Store) -> None:
    product_id = market.product(store, title="It", campus_id=market.campus_id)

    assert search_product_ids(client, "it", campus=market.campus_id) == [product_id]


def test_only_published_products_of_open_stores_are_found(
    client: FlaskClient, market: Market, word: str
) -> None:
    shown = market.product(market.store(), title=word)
    back = market.product(
        market.store(on_vacation=True, vacation_until=market.now - timedelta(days=1)), title=word
    )
    for columns in (
        {"on_vacation": True, "vacation_until": market.now + timedelta(days=1)},
        {"on_vacation": True},
        {"status": "suspended"},
        {"status": "closed"},
    ):
        closed = market.store(display_name=f"{word} closed", **columns)
        market.product(closed, title=word)
    for status in ("draft", "in_review", "rejected", "paused", "removed", "deleted"):
        market.product(market.store(), title=word, status=status)

    answer = search_products(client, word)

    assert {UUID(card["id"]) for card in answer["data"]["products"]} == {shown, back}
    assert answer["data"]["merchants"] == []


@pytest.mark.parametrize("status", ["draft", "in_review", "rejected", "paused", "removed", "deleted"])
def test_product_is_found_only_while_published(
    client: FlaskClient, market: Market, store: Store, word: str, status: str
) -> None:
    product_id = market.product(store, title=word)
    assert search_product_ids(client, word) == [product_id]

    market.change(Product, product_id, status=status)
    assert search_product_ids(client, word) == []

    market.change(Product, product_id, status="published")
    assert search_product_ids(client, word) == [product_id]


def test_search_index_follows_each_change(client: FlaskClient, market: Market, word: str) -> None:
    category = market.category(name="Things")
    store = market.store(display_name="Somebody's")
    product_id = market.product(store, title="Something", category_id=category)

    for model, row_id, columns in (
        (Product, product_id, {"title": f"{word}a thing"}),
        (Product, product_id, {"tags": [f"{word}b"]}),
        (Product, product_id, {"description": f"{word}c"}),
        (VendorProfile, store.id, {"display_name": f"{word}d"}),
        (Category, category, {"name": f"{word}e"}),
    ):
        typed = next(iter(columns.values()))
        typed = (typed[0] if isinstance(typed, list) else typed).split()[0]
        market.change(model, row_id, **columns)
        assert search_product_ids(client, typed) == [product_id], typed
        previous = f"{word}{chr(ord(typed[-1]) - 1)}"
        assert product_id in search_product_ids(client, previous) or typed.endswith("a"), previous
    market.change(Product, product_id, title="Nothing")
    assert search_products(client, f"{word}a")["meta"]["suggestion"] is not None or not search_product_ids(
        client, f"{word}a"
    )


def test_filters_narrow_the_search(client: FlaskClient, market: Market, word: str) -> None:
    parent = market.category()
    child = market.category(below=parent)
    store, other = market.store(), market.store()
    cheap = market.product(store, title=word, price_minor=1_000, condition="new", category_id=child)
    dear = market.product(other, title=word, price_minor=9_000, condition="fair", category_id=parent)
    sold = market.product(other, description=word, price_minor=5_000, quantity=2, reserved=2)
    elsewhere = market.product(market.store(campus_id=market.campus()), tags=[word], price_minor=5_000)
    campus = market.row(Campus, market.campus_id)

    def narrowed(**query: Any) -> set[UUID]:
        return set(search_product_ids(client, word, **query))

    assert narrowed() == {cheap, dear, sold, elsewhere}
    assert narrowed(campus=market.campus_id) == {cheap, dear, sold}
    assert narrowed(campus=campus.slug) == {cheap, dear, sold}
    assert narrowed(campus="no-such-campus") == set()
    assert narrowed(campus=uuid4()) == set()
    assert narrowed(category=parent) == {cheap, dear}
    assert narrowed(category=child) == {cheap}
    assert narrowed(category=uuid4()) == set()
    assert narrowed(minPrice=5_000) == {dear, sold, elsewhere}
    assert narrowed(maxPrice=5_000) == {cheap, sold, elsewhere}
    assert narrowed(condition="new") == {cheap}
    assert narrowed(vendor=other.id) == {dear, sold}
    assert narrowed(inStock="true") == {cheap, dear, elsewhere}
    assert narrowed(inStock="false") == {sold}
    assert narrowed(category=parent, condition="fair", inStock="true", maxPrice=9_000) == {dear}


def test_merchants_appear_on_first_page_only(client: FlaskClient, market: Market, word: str) -> None:
    stores = [market.store(display_name=f"{word} number {number}") for number in range(7)]
    for store in stores[:3]:
        market.product(store, title=word)

    first = search_products(client, word, limit=2)
    second = search_products(client, word, limit=2, cursor=first["meta"]["next_cursor"])

    assert len(first["data"]["merchants"]) == 5
    assert {UUID(store["id"]) for store in first["data"]["merchants"]} <= {store.id for store in stores}
    assert len(second["data"]["products"]) == 1
    assert second["data"]["merchants"] == []
    assert search_products(client, word, campus=market.campus())["data"]["merchants"] == []


def all_pages(client: FlaskClient, words: str, limit: int, **query: Any) -> list[UUID]:
    seen: list[UUID] = []
    for _ in range(60):
        answer = search_products(client, words, limit=limit, **query)
        page = [UUID(card["id"]) for card in answer["data"]["products"]]
        seen += page
        query["cursor"] = answer["meta"]["next_cursor"]
        assert answer["meta"]["has_more"] is (query["cursor"] is not None)
        if query["cursor"] is None:
            return seen
        assert len(page) == limit
    raise AssertionError("the search does not end")


@pytest.mark.parametrize("limit", [1, 3, 20])
def test_order_holds_across_pages(
    client: FlaskClient, market: Market, store: Store, word: str, limit: int
) -> None:
    for number in range(9):
        market.product(
            store,
            title=word if number % 3 else f"Number {number}",
            description="" if number % 3 else word,
            popularity=number % 2,
        )

    seen = all_pages(client, word, limit)

    assert len(set(seen)) == len(seen) == 9
    assert seen == search_product_ids(client, word, limit=100)


def test_paging_reaches_every_match(
    client: FlaskClient, market: Market, store: Store, word: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = {
        market.product(store, title=f"{word}ing" if number % 2 else word, popularity=number % 4)
        for number in range(40)
    } | {market.product(store, description=word) for _ in range(15)}
    monkeypatch.setattr("marketplace.catalog.search.find.CANDIDATES_PER_STEP", 8)

    seen = all_pages(client, word, 4)

    assert len(seen) == len(made)
    assert set(seen) == made


def test_products_added_between_pages_shift_no_page(
    client: FlaskClient, market: Market, store: Store, word: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = [market.product(store, title=word, popularity=50 - 5 * number) for number in range(9)]
    monkeypatch.setattr("marketplace.catalog.search.find.CANDIDATES_PER_STEP", 6)
    first = search_products(client, word, limit=2)
    seen = [UUID(card["id"]) for card in first["data"]["products"]]
    cursor = first["meta"]["next_cursor"]

    while cursor:
        for popularity in (900, 20):
            market.product(store, title=word, popularity=popularity)
        answer = search_products(client, word, limit=2, cursor=cursor)
        seen += [UUID(card["id"]) for card in answer["data"]["products"]]
        cursor = answer["meta"]["next_cursor"]
        assert len(seen) < 60

    assert len(set(seen)) == len(seen)
    assert [product_id for product_id in seen if product_id in set(made)] == made


def test_later_pages_keep_the_spelling_correction(
    client: FlaskClient, market: Market, store: Store, word: str
) -> None:
    made = {market.product(store, title=word) for _ in range(3)}
    typed = word[:4] + word[5:]
    first = search_products(client, typed, limit=2)
    market.product(store, title=typed)

    second = search_products(client, typed, limit=2, cursor=first["meta"]["next_cursor"])

    assert {UUID(card["id"]) for answer in (first, second) for card in answer["data"]["products"]} >= made


def test_popularity_scan_of_common_words_keeps_the_order(
    client: FlaskClient, market: Market, store: Store, word: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = [market.product(store, title=word, popularity=1_000 // (number + 1)) for number in range(6)]
    usual = search_product_ids(client, word)
    monkeypatch.setattr("marketplace.catalog.search.find.POPULARITY_SCAN_THRESHOLD", -1)
    ranking_sql.search_statement.cache_clear()

    scanned = search_product_ids(client, word, limit=19)

    assert scanned == usual == made


def test_cursor_of_another_search_or_truncated_cursor_is_refused(
    client: FlaskClient, market: Market, store: Store, word: str
) -> None:
    for _ in range(3):
        market.product(store, title=word)
    cursor = search_products(client, word, limit=1)["meta"]["next_cursor"]

    for query in (
        {"q": "other", "cursor": cursor},
        {"q": word, "cursor": cursor, "inStock": "true"},
        {"q": word, "cursor": cursor[:-3]},
    ):
        response = client.get("/api/products/search", query_string=query)
        assert response.status_code == 422, query
        assert faults_of(response) == ["cursor"]


@pytest.mark.parametrize(
    ("query", "fault"),
    [
        ("", "q"),
        ("q=", "q"),
        ("q=a", "q"),
        ("q=%20a%20", "q"),
        (f"q={'a' * 101}", "q"),
        ("q=lamp%00", "q"),
        ("q=lamp&limit=0", "limit"),
        ("q=lamp&sort=newest", "sort"),
        ("q=lamp&minPrice=9&maxPrice=8", "minPrice"),
        ("q=lamp&colour=red", "colour"),
        ("q=lamp&q=fan", "q"),
    ],
)
def test_invalid_parameter_is_named(client: FlaskClient, query: str, fault: str) -> None:
    response = client.get(f"/api/products/search?{query}")
    assert response.status_code == 422
    assert faults_of(response) == [fault]


def test_search_takes_a_fixed_number_of_statements(
    client: FlaskClient, market: Market, store: Store, word: str, database: Database
) -> None:
    def statements(words: str, **query: Any) -> int:
        with counted_statements(database) as seen:
            search_products(client, words, **query)
        return len(seen)

    for number in (1, 30):
        for _ in range(number):
            market.product(store, title=f"Good {word}")
        # Statements: words, products, merchants, and the category with all descendants.
        assert statements(word) <= 4  # a rare word also needs a lookup of spellings
        assert statements(word, category=market.category_id) <= 5
    cursor = search_products(client, word, limit=5)["meta"]["next_cursor"]
    assert statements(word, limit=5, cursor=cursor) <= 3
    assert statements(f"{word[:4]}{word[5:]}") <= 7
    assert statements(f"{unique_word()} {unique_word()}") <= 10


def test_search_is_not_cached(client: FlaskClient, word: str) -> None:
    response = client.get("/api/products/search", query_string={"q": word})

    assert response.headers["Cache-Control"] == "no-store"
    assert client.head("/api/products/search", query_string={"q": word}).status_code == 200


def add_synonyms(market: Market, *terms: str) -> None:
    with market.database.transaction() as session:
        session.add(SearchSynonyms(terms=list(terms)))


def test_misspelled_synonym_is_corrected(
    client: FlaskClient, market: Market, store: Store, word: str
) -> None:
    product_id = market.product(store, title=f"Thing {word}")
    nickname = f"okri{unique_word()}"
    add_synonyms(market, nickname, word)
    for typed in (nickname, f"{nickname[:6]}{nickname[7:]}"):
        answer = search_products(client, typed)
        assert [card["id"] for card in answer["data"]["products"]] == [str(product_id)], typed
    assert answer["meta"]["suggestion"] == nickname


def test_phrase_with_synonyms_matches_product_with_part_of_the_words(
    client: FlaskClient, market: Market, store: Store, word: str
) -> None:
    other = unique_word()
    product_id = market.product(store, title=f"Thing {word}")
    add_synonyms(market, f"{other} {word}", unique_word())

    answer = search_products(client, f"{other} {word}")

    assert [card["id"] for card in answer["data"]["products"]] == [str(product_id)]


def test_word_with_exact_match_gets_no_spelling_suggestion(
    client: FlaskClient, market: Market, store: Store, word: str
) -> None:
    market.product(store, title=f"{word}er")
    for _ in range(30):
        market.product(store, title=f"{word}ed")

    answer = search_products(client, f"{word}er")

    assert answer["data"]["products"]
    assert answer["meta"]["suggestion"] is None
