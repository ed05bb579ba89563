"""Next actions of an order, compared with the routes' behaviour, and receipt confirmation."""

from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from werkzeug.test import TestResponse

from marketplace.orders import operations as orders
from tests.support.gateway import MovableClock
from tests.support.probes import assert_problem
from tests.support.purchases import (
    NOW,
    assert_ledger_is_consistent,
    later,
    pay,
    pin_of,
    release,
    row_of,
    status_of,
)
from tests.support.shop_client import ShopClient, new_key

ORDERS = "/api/orders"


def unpaid(shop_client: ShopClient) -> UUID:
    return shop_client.unpaid()


def quarantined(shop_client: ShopClient) -> UUID:
    order_id = shop_client.unpaid()
    shop_client.database.in_transaction(pay, shop_client.shop, order_id, amount_minor=100)
    return order_id


def paid(shop_client: ShopClient) -> UUID:
    return shop_client.paid()


def processing(shop_client: ShopClient) -> UUID:
    order_id = shop_client.paid()
    shop_client.database.in_transaction(
        orders.accept_order, order_id=order_id, caller=shop_client.shop.vendor, now=NOW
    )
    return order_id


def shipped(shop_client: ShopClient) -> UUID:
    return shop_client.shipped()


def delivered(shop_client: ShopClient) -> UUID:
    order_id = shop_client.shipped()
    shop_client.database.in_transaction(release, shop_client.shop, order_id)
    return order_id


def cancelled(shop_client: ShopClient) -> UUID:
    order_id = shop_client.paid()
    assert shop_client.post(f"{ORDERS}/{order_id}/cancel", shop_client.vendor).status_code == 200
    return order_id


STATES: dict[str, Callable[[ShopClient], UUID]] = {
    made.__name__: made for made in (unpaid, quarantined, paid, processing, shipped, delivered, cancelled)
}
BUYER_ACTIONS = {
    "unpaid": ["pay", "cancel"],
    "quarantined": ["cancel"],
    "paid": ["cancel"],
    "processing": ["cancel"],
}
BUYER_ACTIONS |= {"shipped": ["confirm"]}
VENDOR_ACTIONS = {"paid": ["cancel", "accept"], "processing": ["cancel", "ship"], "shipped": ["verify-code"]}


def perform(shop_client: ShopClient, headers: dict[str, str], order_id: UUID, action: str) -> TestResponse:
    bodies: dict[str, tuple[str, Any]] = {
        "pay": ("/api/payments/initialize", {"orderId": str(order_id)}),
        "ship": (f"{ORDERS}/{order_id}/status", {"status": "shipped"}),
        "verify-code": (f"{ORDERS}/{order_id}/verify-code", {"pin": pin_of(order_id)}),
    }
    path, body = bodies.get(action, (f"{ORDERS}/{order_id}/{action}", None))
    return shop_client.post(path, headers, body, key=new_key())


@pytest.mark.parametrize("action", ["pay", "cancel", "accept", "ship", "verify-code", "confirm"])
@pytest.mark.parametrize("state", STATES)
def test_offered_actions_succeed_and_all_others_are_refused(
    shop_client: ShopClient, state: str, action: str
) -> None:
    for headers, expected_actions in (
        (shop_client.buyer, BUYER_ACTIONS),
        (shop_client.vendor, VENDOR_ACTIONS),
    ):
        order_id = STATES[state](shop_client)
        seen = shop_client.get(f"{ORDERS}/{order_id}", headers)
        offered = seen.json["data"]["nextActions"] if seen.status_code == 200 else []
        assert offered == expected_actions.get(state, [])

        answer = perform(shop_client, headers, order_id, action)

        # A vendor may cancel an unpaid order although the order is not shown to vendors.
        if action in offered or (action, state) in {("cancel", "unpaid"), ("cancel", "quarantined")}:
            assert answer.status_code == 200, answer.text
        else:
            assert answer.status_code in (403, 404, 409), answer.text
    with shop_client.database.reading() as session:
        assert_ledger_is_consistent(session)


def test_staff_are_offered_no_actions(shop_client: ShopClient) -> None:
    for made in STATES.values():
        seen = shop_client.get(f"{ORDERS}/{made(shop_client)}", shop_client.officer()).json["data"]
        assert seen["nextActions"] == []


def test_expired_order_does_not_offer_payment(shop_client: ShopClient, clock: MovableClock) -> None:
    order_id = shop_client.unpaid()
    clock.now = later(minutes=30)

    assert shop_client.get(f"{ORDERS}/{order_id}", shop_client.buyer).json["data"]["nextActions"] == [
        "cancel"
    ]
    assert_problem(perform(shop_client, shop_client.buyer, order_id, "pay"), 409, "CONCURRENCY_CONFLICT")
    [listed] = shop_client.get(ORDERS, shop_client.buyer).json["data"]
    assert listed["nextActions"] == ["cancel"]


def test_locked_pin_does_not_offer_verification(shop_client: ShopClient, clock: MovableClock) -> None:
    order_id = shop_client.shipped()
    path = f"{ORDERS}/{order_id}"
    wrong = "000000" if pin_of(order_id) != "000000" else "111111"
    for _ in range(5):
        assert shop_client.post(f"{path}/verify-code", shop_client.vendor, {"pin": wrong}).status_code == 400

    assert shop_client.get(path, shop_client.vendor).json["data"]["nextActions"] == []
    assert perform(shop_client, shop_client.vendor, order_id, "verify-code").status_code == 429
    assert shop_client.get(path, shop_client.buyer).json["data"]["nextActions"] == ["confirm"]
    clock.now = later(minutes=16)
    assert shop_client.get(path, shop_client.vendor).json["data"]["nextActions"] == ["verify-code"]


def test_refused_cancellation_of_shipped_order_mentions_dispute(shop_client: ShopClient) -> None:
    problem = assert_problem(
        perform(shop_client, shop_client.buyer, shop_client.shipped(), "cancel"), 409, "CONCURRENCY_CONFLICT"
    )
    assert problem["detail"] == (
        "The order is shipped, but cancel requires pending_payment or paid_escrow or processing."
        " For a problem with a shipped or delivered order, contact support."
    )


class TestConfirming:
    def confirm(
        self, shop_client: ShopClient, headers: dict[str, str], order_id: UUID, key: str | None = None
    ) -> TestResponse:
        return shop_client.post(f"{ORDERS}/{order_id}/confirm", headers, key=key)

    def test_buyer_confirmation_releases_escrow(self, shop_client: ShopClient) -> None:
        order_id, key = shop_client.shipped(), new_key()

        answer = self.confirm(shop_client, shop_client.buyer, order_id, key)

        order = answer.json["data"]
        assert (order["status"], order["escrowStatus"]) == ("delivered", "released")
        assert (order["nextActions"], order["deliveryPin"]) == ([], None)
        again = self.confirm(shop_client, shop_client.buyer, order_id, key)
        assert (again.status_code, again.headers["X-Cache-Lookup"]) == (200, "HIT")
        assert_problem(self.confirm(shop_client, shop_client.buyer, order_id), 409, "CONCURRENCY_CONFLICT")
        with shop_client.database.reading() as session:
            vendor = row_of(
                session, "ledger_accounts", kind="vendor_payable", owner_id=shop_client.shop.store_id
            )
            assert vendor["balance_minor"] > 0
            assert_ledger_is_consistent(session)

    @pytest.mark.parametrize("state", ["unpaid", "paid", "processing", "delivered", "cancelled"])
    def test_order_that_is_not_shipped_cannot_be_confirmed(self, shop_client: ShopClient, state: str) -> None:
        order_id = STATES[state](shop_client)

        answer = self.confirm(shop_client, shop_client.buyer, order_id)

        assert "confirm requires shipped" in assert_problem(answer, 409, "CONCURRENCY_CONFLICT")["detail"]

    def test_only_buyer_may_confirm_receipt(self, shop_client: ShopClient) -> None:
        order_id = shop_client.shipped()

        for headers in (
            shop_client.vendor,
            shop_client.stranger,
            shop_client.officer(),
            shop_client.officer("admin"),
        ):
            assert_problem(self.confirm(shop_client, headers, order_id), 404, "RESOURCE_NOT_FOUND")
        assert_problem(shop_client.client.post(f"{ORDERS}/{order_id}/confirm"), 401, "AUTH_UNAUTHORIZED")
        with shop_client.database.reading() as session:
            assert status_of(session, order_id) == "shipped"
