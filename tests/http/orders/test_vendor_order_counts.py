"""Counts of a store's orders by status."""

from blueprints.orders.schemas import VendorOrderCounts
from tests.support.probes import assert_problem
from tests.support.purchases import make_shop, paid_order, release, shipped_order
from tests.support.shop_client import ShopClient

COUNTS = "/api/orders/vendor/counts"


def test_paid_orders_of_store_are_counted_by_status(shop_client: ShopClient) -> None:
    with shop_client.database.transaction() as session:
        paid_order(session, shop_client.shop)
        shipped_order(session, shop_client.shop)
        shipped_order(session, shop_client.shop)
        release(session, shop_client.shop, shipped_order(session, shop_client.shop))
        paid_order(session, make_shop(session))
    shop_client.unpaid()
    shop_client.post(f"/api/orders/{shop_client.paid()}/cancel", shop_client.buyer)
    shop_client.post(f"/api/orders/{shop_client.paid()}/accept", shop_client.vendor)

    answer = shop_client.get(COUNTS, shop_client.vendor)

    assert answer.status_code == 200
    assert not VendorOrderCounts().validate(answer.json["data"])
    assert answer.json["data"] == {"pending": 1, "processing": 1, "shipped": 2, "delivered": 1}


def test_counts_of_new_store_are_zero(shop_client: ShopClient) -> None:
    assert set(shop_client.get(COUNTS, shop_client.vendor).json["data"].values()) == {0}


def test_buyers_and_staff_are_refused(shop_client: ShopClient) -> None:
    for headers in (shop_client.buyer, shop_client.officer("admin")):
        assert_problem(shop_client.get(COUNTS, headers), 403, "AUTH_FORBIDDEN")
