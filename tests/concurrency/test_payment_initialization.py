"""Concurrent requests for a payment method over HTTP: the gateway is called once for an order."""

from typing import Any
from uuid import UUID, uuid4

import pytest
from flask import Flask
from sqlalchemy import select, text
from werkzeug.test import TestResponse

from marketplace.cart.operations import RequestedItem
from marketplace.infra.db import Database
from marketplace.kernel.clock import system_clock
from marketplace.payments.models import PaymentAllocation, PaymentTransferAccount
from tests.support.gateway import TestGateway
from tests.support.market import Bearer
from tests.support.purchases import Shop, check_out, make_product, make_shop, neighbours, place
from tests.support.threads import at_once

ACCOUNT, PAGE = "/api/payments/virtual-account", "/api/payments/initialize"
GATEWAY_CALLS = {ACCOUNT: "POST /gateway/charge", PAGE: "POST /gateway/transaction/initialize"}
MANY = 6


@pytest.fixture
def shop(database: Database) -> Shop:
    return database.in_transaction(make_shop)


def post_concurrently(
    app: Flask, headers: dict[str, str], path: str, target: dict[str, str]
) -> list[TestResponse | Exception]:
    """Send concurrent requests with different idempotency keys, like several browser tabs."""
    keyed = [headers | {"Idempotency-Key": str(uuid4())} for _ in range(MANY)]
    return at_once(lambda given: app.test_client().post(path, json=target, headers=given), keyed)


def successful_data(answers: list[TestResponse | Exception]) -> list[dict[str, Any]]:
    """Return the data of all responses, which must have status 200."""
    found = []
    for answer in answers:
        assert isinstance(answer, TestResponse), answer
        assert answer.status_code == 200, answer.text
        found.append(answer.json["data"])
    return found


def intents_of(database: Database, order_id: UUID) -> list[tuple[str, bool]]:
    """Return the reference of each payment intent of an order, and whether the intent is live."""
    query = text(
        "SELECT i.reference, a.live FROM payment_intents i JOIN payment_allocations a ON a.intent_id = i.id"
        " WHERE a.order_id = :id"
    )
    with database.reading() as session:
        return [(row.reference, row.live) for row in session.execute(query, {"id": order_id})]


@pytest.mark.parametrize("path", [ACCOUNT, PAGE])
def test_concurrent_requests_for_an_order_open_a_single_payment_method(
    database: Database, crowded_app: Flask, gateway: TestGateway, shop: Shop, bearer: Bearer, path: str
) -> None:
    with database.transaction() as session:
        order_id = place(session, shop, make_product(session, shop), now=system_clock())

    opened = successful_data(
        post_concurrently(crowded_app, bearer(shop.buyer.id), path, {"orderId": str(order_id)})
    )

    assert gateway.proxy.calls == [GATEWAY_CALLS[path]]
    shown = (
        {"reference", "accountNumber", "bankName"} if path == ACCOUNT else {"reference", "authorizationUrl"}
    )
    assert len({tuple(one[name] for name in sorted(shown)) for one in opened}) == 1
    assert intents_of(database, order_id) == [(opened[0]["reference"], True)]


@pytest.mark.parametrize("path", [ACCOUNT, PAGE])
def test_concurrent_requests_for_a_checkout_open_a_single_payment_method(
    database: Database, crowded_app: Flask, gateway: TestGateway, shop: Shop, bearer: Bearer, path: str
) -> None:
    with database.transaction() as session:
        wishes = [RequestedItem(make_product(session, one), 1) for one in neighbours(session, shop, 3)]
        made = check_out(session, shop, wishes, now=system_clock())

    opened = successful_data(
        post_concurrently(crowded_app, bearer(shop.buyer.id), path, {"checkoutId": str(made.checkout_id)})
    )

    assert gateway.proxy.calls == [GATEWAY_CALLS[path]]
    for order_id in made.order_ids:
        assert intents_of(database, order_id) == [(opened[0]["reference"], True)]
    assert len({one["reference"] for one in opened}) == 1


def test_concurrent_requests_store_a_single_transfer_account(
    database: Database, crowded_app: Flask, gateway: TestGateway, shop: Shop, bearer: Bearer
) -> None:
    with database.transaction() as session:
        order_id = place(session, shop, make_product(session, shop), now=system_clock())
    [number] = {
        one["accountNumber"]
        for one in successful_data(
            post_concurrently(crowded_app, bearer(shop.buyer.id), ACCOUNT, {"orderId": str(order_id)})
        )
    }

    stored = (
        select(PaymentTransferAccount.account_number)
        .join(PaymentAllocation, PaymentAllocation.intent_id == PaymentTransferAccount.intent_id)
        .where(PaymentAllocation.order_id == order_id)
    )
    with database.reading() as session:
        assert session.scalars(stored).all() == [number]
    assert len(gateway.proxy.calls) == 1
