"""Requests and response readers for tests of the search."""

import random
from typing import Any
from uuid import UUID

from flask.testing import FlaskClient

_CONSONANTS = "bcdfghjklmnpqrstvwxz"
_VOWELS = "aeiou"


def unique_word(length: int = 9) -> str:
    """Make a unique word without similar words, because tests share a database."""
    chance = random.SystemRandom()
    return "".join(chance.choice(_VOWELS if place % 2 else _CONSONANTS) for place in range(length)) + "q"


def search_products(client: FlaskClient, words: str, **query: Any) -> Any:
    response = client.get("/api/products/search", query_string={"q": words} | query)
    assert response.status_code == 200, response.json
    return response.json


def search_product_ids(client: FlaskClient, words: str, **query: Any) -> list[UUID]:
    return [UUID(card["id"]) for card in search_products(client, words, **query)["data"]["products"]]


def fetch_suggestions(client: FlaskClient, beginning: str, **query: Any) -> list[tuple[str, str]]:
    response = client.get("/api/products/suggestions", query_string={"q": beginning} | query)
    assert response.status_code == 200, response.json
    return [(item["text"], item["kind"]) for item in response.json["data"]]
