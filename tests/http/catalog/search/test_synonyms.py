"""Search synonyms: matches in both directions, management by staff, and audit."""

from typing import Any
from uuid import UUID, uuid4

import pytest
from flask.testing import FlaskClient
from sqlalchemy import select

from marketplace.audit.models import AuditLog
from marketplace.infra.db import Database
from tests.support.market import Bearer, Market, Store
from tests.support.product_api import faults_of
from tests.support.search_api import search_product_ids, unique_word

PATH = "/api/products/search/synonyms"


@pytest.fixture
def staff(market: Market, bearer: Bearer) -> dict[str, str]:
    return bearer(market.staff("moderator"))


def create_group(client: FlaskClient, staff: dict[str, str], *terms: str) -> Any:
    response = client.post(PATH, json={"terms": list(terms)}, headers=staff)
    assert response.status_code == 201, response.json
    return response.json["data"]


def audited(database: Database, synonyms_id: str) -> list[tuple[str, Any, Any]]:
    with database.transaction() as session:
        rows = session.scalars(
            select(AuditLog).where(AuditLog.target_id == synonyms_id).order_by(AuditLog.id)
        )
        return [(row.action, row.before, row.after) for row in rows]


def test_synonyms_match_in_both_directions(
    client: FlaskClient, market: Market, store: Store, staff: dict[str, str], word: str
) -> None:
    other, third = unique_word(), unique_word()
    single = market.product(store, title=f"Good {word}", popularity=5)
    phrase = market.product(store, title=f"New {other} {third}", popularity=1)
    market.product(store, title=f"{third} and {other}")
    assert search_product_ids(client, word) == [single]

    create_group(client, staff, word.upper(), f"{other}  {third}")

    assert search_product_ids(client, word) == [single, phrase]
    assert search_product_ids(client, f"{other} {third}")[0] == phrase
    assert single in search_product_ids(client, f"{other} {third}")
    assert search_product_ids(client, f"{word}s") == [single, phrase]
    assert search_product_ids(client, f"new {word}") == [phrase]
    assert search_product_ids(client, f"good {other} {third}") == [single]


def test_seeded_campus_synonyms_match(client: FlaskClient, market: Market, store: Store, word: str) -> None:
    titles = {
        "keke": f"Tricycle spare tyre {word}",
        "hall": f"Hostel room lock {word}",
        "iphone charger": f"Lightning cable, one metre, {word}",
        "lightning cable": f"iPhone charger, original, {word}",
        "generator": f"Small gen, I better pass my neighbour, {word}",
    }
    product_ids = {typed: market.product(store, title=title) for typed, title in titles.items()}

    for typed, product_id in product_ids.items():
        assert product_id in search_product_ids(client, f"{typed} {word}"), typed


def test_creating_changing_and_deleting_a_group_is_audited(
    client: FlaskClient, market: Market, store: Store, staff: dict[str, str], word: str, database: Database
) -> None:
    product_id = market.product(store, title=word)
    group = create_group(client, staff, f"{word} a", "Çà")
    assert group["terms"] == [f"{word} a", "ca"]
    assert group["revision"] == 1

    path = f"{PATH}/{group['id']}"
    changed = client.put(path, json={"terms": [word, f"{word}zz"], "revision": 1}, headers=staff)
    assert changed.status_code == 200
    assert (changed.json["data"]["terms"], changed.json["data"]["revision"]) == ([word, f"{word}zz"], 2)
    assert search_product_ids(client, f"{word}zz") == [product_id]

    deleted = client.delete(path, headers=staff)
    assert deleted.json["data"] == {"deleted": True, "id": group["id"]}
    assert client.delete(path, headers=staff).status_code == 404
    assert client.put(path, json={"terms": ["a", "b"]}, headers=staff).status_code == 404
    first, second = {"terms": [f"{word} a", "ca"]}, {"terms": [word, f"{word}zz"]}
    assert audited(database, group["id"]) == [
        ("search_synonyms.create", None, first),
        ("search_synonyms.change", first, second),
        ("search_synonyms.delete", second, None),
    ]


def test_stale_revision_is_refused(
    client: FlaskClient, staff: dict[str, str], word: str, database: Database
) -> None:
    group = create_group(client, staff, word, f"{word}a")
    path = f"{PATH}/{group['id']}"
    assert client.put(path, json={"terms": [word, "b"], "revision": 1}, headers=staff).status_code == 200

    stale = client.put(path, json={"terms": [word, "c"], "revision": 1}, headers=staff)
    by_header = client.put(path, json={"terms": [word, "c"]}, headers=staff | {"If-Match": '"1"'})
    same = client.put(path, json={"terms": [word, "b"], "revision": 2}, headers=staff)

    assert stale.status_code == by_header.status_code == 409
    assert stale.json["code"] == "CONCURRENCY_CONFLICT"
    assert faults_of(stale) == ["revision"]
    assert same.json["data"]["revision"] == 2
    assert len(audited(database, group["id"])) == 2


def test_groups_are_listed_by_page(client: FlaskClient, staff: dict[str, str], word: str) -> None:
    groups = [create_group(client, staff, word, f"{word}{letter}")["id"] for letter in "abc"]
    seen: list[str] = []
    query: dict[str, Any] = {"limit": 50}
    for _ in range(20):
        answer = client.get(PATH, query_string=query, headers=staff).json
        seen += [group["id"] for group in answer["data"]]
        if not answer["meta"]["has_more"]:
            break
        query["cursor"] = answer["meta"]["next_cursor"]

    assert seen[-3:] == groups
    assert len(set(seen)) == len(seen)


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        ({}, "terms"),
        ({"terms": []}, "terms"),
        ({"terms": ["lamp"]}, "terms"),
        ({"terms": ["Lamp", "lámp"]}, "terms"),
        ({"terms": ["lamp", "lamp"]}, "terms[1]"),
        ({"terms": ["lamp", "!!"]}, "terms[1]"),
        ({"terms": ["lamp", "one two three four five"]}, "terms[1]"),
        ({"terms": ["lamp", "a" * 61]}, "terms[1]"),
        ({"terms": ["lamp", 3]}, "terms[1]"),
        ({"terms": [f"lamp {number}" for number in range(13)]}, "terms"),
        ({"terms": ["lamp", "light"], "id": str(uuid4())}, "id"),
    ],
)
def test_invalid_group_is_refused(
    client: FlaskClient, staff: dict[str, str], body: dict[str, Any], fault: str
) -> None:
    response = client.post(PATH, json=body, headers=staff)
    assert response.status_code == 422
    assert faults_of(response) == [fault]


def test_synonyms_require_the_permission(
    client: FlaskClient, market: Market, store: Store, bearer: Bearer
) -> None:
    path = f"{PATH}/{UUID(int=1)}"
    body = {"terms": ["lamp", "light"]}
    for headers, status in (
        ({}, 401),
        (bearer(store.user_id), 403),
        (bearer(market.person()), 403),
        (bearer(market.staff("finance")), 403),
    ):
        assert client.get(PATH, headers=headers).status_code == status
        assert client.post(PATH, json=body, headers=headers).status_code == status
        assert client.put(path, json=body, headers=headers).status_code == status
        assert client.delete(path, headers=headers).status_code == status
