"""Requests and response readers for tests of products."""

from typing import Any
from uuid import UUID

from flask.testing import FlaskClient
from sqlalchemy import select

from marketplace.infra.db import Database
from marketplace.infra.outbox import OutboxEvent
from marketplace.infra.sql.statements import Statement
from tests.support.market import Market


def list_products(client: FlaskClient, **query: Any) -> Any:
    response = client.get("/api/products", query_string=query)
    assert response.status_code == 200, response.json
    return response.json


def ids_of(answer: Any) -> list[UUID]:
    return [UUID(card["id"]) for card in answer["data"]]


def faults_of(response: Any) -> list[str]:
    return [fault["name"] for fault in response.json["invalid_params"]]


def listing_body(market: Market, **changes: Any) -> dict[str, Any]:
    return {
        "title": "Reading lamp",
        "priceMinor": 50_000,
        "categoryId": str(market.category_id),
        "condition": "like_new",
        "quantity": 3,
    } | changes


def count_screenings(database: Database, product_id: str) -> int:
    statement = Statement(
        select(OutboxEvent.id).where(
            OutboxEvent.queue == "ai-moderation",
            OutboxEvent.topic == "product.screen",
            OutboxEvent.payload["productId"].astext == product_id,
        )
    )
    with database.reading() as session:
        return len(statement.all(session))
