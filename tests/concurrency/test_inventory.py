"""Concurrent stock reductions and orders: stock never falls below the reserved quantity, and no deadlock."""

import random
from collections import Counter
from uuid import UUID

from flask import Flask
from werkzeug.test import TestResponse

from marketplace.infra.db import Database
from tests.support.depth import case_count
from tests.support.market import Bearer, Market
from tests.support.threads import at_once, unexpected_errors

BUYERS = 12
SELLERS = 4
ROUNDS = case_count(8, deep=60)
STOCK = 40


def test_parallel_orders_and_reductions_keep_reserved_stock(
    database: Database, crowded_app: Flask, bearer: Bearer
) -> None:
    market = Market(database)
    store = market.store()
    products = [market.product(store, quantity=STOCK) for _ in range(2)]
    buyers = [market.person() for _ in range(BUYERS)]

    def buy(number: int) -> Counter[int]:
        draw, done = random.Random(number), Counter[int]()  # noqa: S311 - the same in every run
        client, headers = crowded_app.test_client(), bearer(buyers[number])
        for _ in range(ROUNDS):
            wanted = draw.sample(products, draw.choice((1, 2)))
            items = [{"productId": str(one), "quantity": draw.randint(1, 4)} for one in wanted]
            answer = client.post(
                "/api/orders", json={"items": items, "shippingAddress": {"hostel": "Moremi"}}, headers=headers
            )
            done[answer.status_code] += 1
            if answer.status_code == 201 and draw.random() < 0.6:
                order_id = answer.json["data"]["id"]  # type: ignore[index]
                cancelled = client.post(f"/api/orders/{order_id}/cancel", json={}, headers=headers)
                assert cancelled.status_code == 200, cancelled.text
        return done

    def restock(number: int) -> Counter[int]:
        draw, done = random.Random(number), Counter[int]()  # noqa: S311 - the same in every run
        client, headers = crowded_app.test_client(), bearer(store.user_id)
        for _ in range(ROUNDS * 3):
            answer: TestResponse = client.put(
                f"/api/products/{draw.choice(products)}",
                json={"quantity": draw.choice((0, 1, 2, 5, STOCK))},
                headers=headers,
            )
            done[answer.status_code] += 1
            if answer.status_code == 409:
                assert answer.json["invalid_params"][0]["name"] == "quantity"  # type: ignore[index]
            else:
                data = answer.json["data"]  # type: ignore[index]
                assert data["quantity"] >= data["reserved"] >= 0
        return done

    def work(number: int) -> Counter[int]:
        return buy(number) if number < BUYERS else restock(number)

    results = at_once(work, range(BUYERS + SELLERS))

    assert unexpected_errors(results) == []
    ordered: Counter[int] = sum(results[:BUYERS], Counter())  # type: ignore[arg-type]
    restocked: Counter[int] = sum(results[BUYERS:], Counter())  # type: ignore[arg-type]
    assert set(ordered) <= {201, 409}
    assert set(restocked) == {200, 409}
    assert ordered[201] > 0
    for product_id in products:
        assert _reserved(database, product_id) == _ordered(database, product_id)


def _reserved(database: Database, product_id: UUID) -> int:
    return _number(
        database, "SELECT reserved FROM products WHERE id = %(id)s AND reserved <= quantity", product_id
    )


def _ordered(database: Database, product_id: UUID) -> int:
    return _number(
        database,
        "SELECT coalesce(sum(i.quantity), 0) FROM order_items i JOIN orders o ON o.id = i.order_id"
        " WHERE i.product_id = %(id)s AND o.status = 'pending_payment'",
        product_id,
    )


def _number(database: Database, sql: str, product_id: UUID) -> int:
    with database.transaction() as session:
        return int(session.connection().exec_driver_sql(sql, {"id": str(product_id)}).scalar_one())
