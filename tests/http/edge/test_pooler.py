"""The application behind PgBouncer in transaction mode, where no session state outlives a transaction."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest
import structlog
from sqlalchemy import text

from blueprints.areas import AREAS
from marketplace.infra.db import SESSION_SETTINGS, Database
from marketplace.infra.settings import Settings
from marketplace.platform.cache_tags import STATUS
from marketplace.services import Services
from tests.support.checked_client import checked_app
from tests.support.gateway import MovableClock, TestGateway
from tests.support.installation import query
from tests.support.market import Bearer
from tests.support.pgbouncer import POOL_SIZE, bare_database, pgbouncer, pooled_url, role_settings
from tests.support.purchases import assert_ledger_is_consistent, make_product, make_shop, with_buyer
from tests.support.shop_client import ShopClient, new_key
from tests.support.threads import at_once

__all__ = ["bare_database", "pgbouncer", "pooled_url", "role_settings"]

CLIENTS = 4 * POOL_SIZE


@pytest.fixture(scope="module")
def pooled_services(pooled_url: str, settings: Settings, gateway_server: TestGateway) -> Iterator[Services]:
    """Application services with a database behind the pooler."""
    pooled = replace(
        settings, database_url=pooled_url, database_prepared_statements="off", **gateway_server.settings()
    )
    made = Services.from_settings(pooled, application_name="pooled")
    yield replace(made, clock=MovableClock())
    made.database.close()


@pytest.fixture
def pooled_shop(pooled_services: Services, bearer: Bearer, gateway: TestGateway) -> ShopClient:
    """A shop with clients of the application behind the pooler."""
    database = pooled_services.database
    client = checked_app(pooled_services, AREAS).test_client()
    return ShopClient(database.in_transaction(make_shop), database, client, bearer)


def order_body(product_id: UUID) -> dict[str, Any]:
    return {
        "items": [{"productId": str(product_id), "quantity": 1}],
        "shippingAddress": {"hostel": "Moremi Hall"},
    }


def test_order_is_placed_paid_and_listed(pooled_shop: ShopClient, gateway: TestGateway) -> None:
    shop_client = pooled_shop
    placed = shop_client.post("/api/orders", shop_client.buyer, order_body(shop_client.product()))
    assert placed.status_code == 201
    order_id = placed.json["data"]["id"]

    page = shop_client.post(
        "/api/payments/initialize", shop_client.buyer, {"orderId": order_id}, key=new_key()
    )
    reference = page.json["data"]["reference"]
    gateway.pay(reference)
    assert (
        shop_client.post("/api/payments/verify", shop_client.buyer, {"reference": reference}).status_code
        == 200
    )

    [listed] = shop_client.get("/api/orders", shop_client.buyer).json["data"]
    assert (listed["id"], listed["status"]) == (order_id, "paid_escrow")
    assert [
        order["id"] for order in shop_client.get("/api/orders/vendor", shop_client.vendor).json["data"]
    ] == [order_id]
    assert shop_client.get("/api/products", {}, limit=100).status_code == 200
    with shop_client.database.transaction() as session:
        assert_ledger_is_consistent(session)


def test_session_settings_apply_behind_pooler(pooled_services: Services) -> None:
    database = pooled_services.database
    for session_of in (database.reading, database.transaction):
        with session_of() as session:
            actual = {
                name: session.execute(text("SELECT current_setting(:name)"), {"name": name}).scalar()
                for name in SESSION_SETTINGS
            }
        assert actual == SESSION_SETTINGS


def test_more_transactions_than_server_connections_all_commit(pooled_services: Services) -> None:
    database = pooled_services.database
    shop = database.in_transaction(make_shop)

    def add(_number: int) -> tuple[int, UUID]:
        with database.transaction() as session:
            server: int = session.execute(text("SELECT pg_backend_pid() FROM pg_sleep(0.05)")).scalar_one()
            return server, make_product(session, shop)

    added = at_once(add, range(CLIENTS))

    assert len({server for server, _ in added}) <= POOL_SIZE
    assert count_products(database, shop.store_id) == CLIENTS


def test_concurrent_buyers_all_place_orders(pooled_shop: ShopClient) -> None:
    shop_client = pooled_shop
    product_id = shop_client.product(quantity=CLIENTS)
    buyers = [
        shop_client.bearer(shop_client.database.in_transaction(with_buyer, shop_client.shop).buyer.id)
        for _ in range(CLIENTS)
    ]

    def buy(buyer: dict[str, str]) -> int:
        client = shop_client.client.application.test_client()
        return client.post("/api/orders", json=order_body(product_id), headers=buyer).status_code

    assert at_once(buy, buyers) == [201] * CLIENTS


def test_requests_leave_no_state_on_server_connections(pooled_shop: ShopClient, database_url: str) -> None:
    shop_client = pooled_shop
    order = shop_client.post("/api/orders", shop_client.buyer, order_body(shop_client.product()))
    shop_client.get(f"/api/orders/{order.json['data']['id']}", shop_client.buyer)

    # Each connection lists only the prepared statements created there.
    with shop_client.database.reading() as session:
        assert session.execute(text("SELECT count(*) FROM pg_prepared_statements")).scalar() == 0
    locks = "SELECT count(*) FROM pg_locks l JOIN pg_stat_activity a USING (pid) WHERE locktype = 'advisory'"
    assert query(database_url, f"{locks} AND a.application_name = 'pooled'") == [(0,)]
    assert query(database_url, "SELECT count(*) FROM pg_class WHERE relpersistence = 't'") == [(0,)]


def test_role_without_session_settings_is_not_ready(bare_database: str, settings: Settings) -> None:
    bare = replace(settings, database_url=bare_database, database_prepared_statements="off")
    services = Services.from_settings(bare, application_name="bare")
    client = checked_app(services, AREAS).test_client()

    with structlog.testing.capture_logs() as logs:
        ready = client.get("/health/ready")

    assert (ready.status_code, ready.json["checks"]) == (503, {"database": "down", "cache": "up"})
    assert [line["error"][:23] for line in logs if line["event"] == "database role refused"] == [
        "The database role lacks"
    ]
    # Another test may have read the status a moment before.
    services.cache.drop(STATUS)
    status = client.get("/api/status").json["data"]
    assert {"name": "database", "status": "down"} in status["components"]


def count_products(database: Database, store_id: UUID) -> int:
    with database.reading() as session:
        found: int = session.execute(
            text("SELECT count(*) FROM products WHERE vendor_id = :store_id"), {"store_id": store_id}
        ).scalar_one()
    return found
