"""Counts of a store's orders by status."""

from blueprints.orders.schemas import VendorOrderCounts
from tests.support.probes import assert_problem
from tests.support.purchases import make_shop, paid_order, release, shipped_order
from tests.support.shop_client import ShopClient

COUNTS = "/api/orders/vendor/counts"


def test_paid_orders_of_store_are_counted_by_status(desk: ShopClient) -> None:
    with desk.database.transaction() as session:
        paid_order(session, desk.shop)
        shipped_order(session, desk.shop)
        shipped_order(session, desk.shop)
        release(session, desk.shop, shipped_order(session, desk.shop))
        paid_order(session, make_shop(session))
    desk.unpaid()
    desk.post(f"/api/orders/{desk.paid()}/cancel", desk.buyer)
    desk.post(f"/api/orders/{desk.paid()}/accept", desk.vendor)

    answer = desk.get(COUNTS, desk.vendor)

    assert answer.status_code == 200
    assert not VendorOrderCounts().validate(answer.json["data"])
    assert answer.json["data"] == {"pending": 1, "processing": 1, "shipped": 2, "delivered": 1}


def test_counts_of_new_store_are_zero(desk: ShopClient) -> None:
    assert set(desk.get(COUNTS, desk.vendor).json["data"].values()) == {0}


def test_buyers_and_staff_are_refused(desk: ShopClient) -> None:
    for headers in (desk.buyer, desk.officer("admin")):
        assert_problem(desk.get(COUNTS, headers), 403, "AUTH_FORBIDDEN")
