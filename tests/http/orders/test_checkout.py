"""Checkout over HTTP: a cart of several vendors, a single payment, the wallet share and refusals."""

from typing import Any
from uuid import UUID, uuid4

import pytest

from marketplace.platform.models import Hub
from tests.support.gateway import MovableClock, TestGateway, event_of, sign
from tests.support.probes import assert_problem, faults
from tests.support.purchases import (
    DELIVERY_FEE_MINOR,
    PRICE_MINOR,
    SERVICE_FEE_MINOR,
    Shop,
    assert_ledger_is_consistent,
    cart_of,
    fill_wallet,
    later,
    make_product,
    neighbours,
    pin_of,
    put_into_cart,
    row_of,
    stock_of,
    wallet_of,
)
from tests.support.shop_client import ShopClient, new_key

CHECKOUT, ORDERS, WALLET = "/api/orders/checkout", "/api/orders", "/api/wallet"
INITIALIZE, VERIFY = "/api/payments/initialize", "/api/payments/verify"
ADDRESS = {"hostel": "Moremi Hall", "roomNumber": "B12"}
TOTAL = PRICE_MINOR + DELIVERY_FEE_MINOR + SERVICE_FEE_MINOR


@pytest.fixture
def products(shop_client: ShopClient) -> list[UUID]:
    """A product of each of three stores."""
    with shop_client.database.transaction() as session:
        return [make_product(session, shop) for shop in neighbours(session, shop_client.shop, 3)]


def items(products: list[UUID], quantity: int = 1) -> list[dict[str, Any]]:
    return [{"productId": str(product_id), "quantity": quantity} for product_id in products]


def check_out(shop_client: ShopClient, products: list[UUID] | None, **more: Any) -> dict[str, Any]:
    body = {"shippingAddress": ADDRESS} | ({"items": items(products)} if products else {}) | more
    answer = shop_client.post(CHECKOUT, shop_client.buyer, body, key=new_key())
    assert answer.status_code == 201, answer.text
    made: dict[str, Any] = answer.json["data"]
    return made


def initialize(shop_client: ShopClient, **target: Any) -> dict[str, Any]:
    answer = shop_client.post(INITIALIZE, shop_client.buyer, target, key=new_key())
    assert answer.status_code == 200, answer.text
    page: dict[str, Any] = answer.json["data"]
    return page


def credit_wallet(shop_client: ShopClient, amount_minor: int) -> None:
    shop_client.database.in_transaction(fill_wallet, shop_client.shop.buyer.id, amount_minor)


def orders_of(shop_client: ShopClient, made: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        shop_client.get(f"{ORDERS}/{order['id']}", shop_client.buyer).json["data"] for order in made["orders"]
    ]


def assert_shop_ledger_is_consistent(shop_client: ShopClient) -> None:
    with shop_client.database.reading() as session:
        assert_ledger_is_consistent(session)


class TestCart:
    def test_cart_becomes_order_per_vendor_with_single_payment(
        self, shop_client: ShopClient, products: list[UUID]
    ) -> None:
        shop_client.database.in_transaction(
            put_into_cart, shop_client.shop.buyer.id, *((product_id, 2) for product_id in products)
        )

        made = check_out(shop_client, None, note="Ring twice")

        total = 2 * PRICE_MINOR + DELIVERY_FEE_MINOR + SERVICE_FEE_MINOR
        assert [order["total_amount"] for order in made["orders"]] == [total] * 3
        assert {order["checkoutId"] for order in made["orders"]} == {made["checkoutId"]}
        assert {order["deliveryFeeMinor"] for order in made["orders"]} == {DELIVERY_FEE_MINOR}
        assert len({order["vendor"]["id"] for order in made["orders"]}) == 3
        assert {order["note"] for order in made["orders"]} == {"Ring twice"}
        for order in made["orders"]:
            assert (order["status"], order["dueMinor"], order["walletMinor"]) == (
                "pending_payment",
                total,
                0,
            )
            assert order["nextActions"] == ["pay", "cancel"]
            assert order["payment"]["reference"] == made["payment"]["reference"]
        assert made["payment"]["amountMinor"] == 3 * total
        assert made["payment"]["status"] == "initialized"
        with shop_client.database.reading() as session:
            assert cart_of(session, shop_client.shop.buyer.id) == {}
        assert faults(
            shop_client.post(CHECKOUT, shop_client.buyer, {"shippingAddress": ADDRESS}, key=new_key())
        ) == ["items"]

    def test_checkout_with_same_key_is_replayed(self, shop_client: ShopClient, products: list[UUID]) -> None:
        key, body = new_key(), {"items": items(products), "shippingAddress": ADDRESS}

        first, second = (shop_client.post(CHECKOUT, shop_client.buyer, body, key=key) for _ in range(2))

        assert second.data == first.data
        assert second.headers["X-Cache-Lookup"] == "HIT"
        assert len(shop_client.get(ORDERS, shop_client.buyer).json["data"]) == 3
        body["items"] = items(products[:1])
        assert faults(shop_client.post(CHECKOUT, shop_client.buyer, body, key=key)) == ["Idempotency-Key"]

    def test_hub_makes_all_orders_pickups(self, shop_client: ShopClient, products: list[UUID]) -> None:
        with shop_client.database.transaction() as session:
            hub = Hub(
                campus_id=shop_client.shop.campus_id, name="Gate", address="Gate 1", opening_hours="8-18"
            )
            session.add(hub)
            session.flush()

        answer = shop_client.post(
            CHECKOUT, shop_client.buyer, {"items": items(products), "hubId": str(hub.id)}, key=new_key()
        )

        made = answer.json["data"]
        assert {order["deliveryMethod"] for order in made["orders"]} == {"pickup"}
        assert made["payment"]["amountMinor"] == 3 * (PRICE_MINOR + SERVICE_FEE_MINOR)

    def test_checkout_of_single_vendor_creates_single_order(
        self, shop_client: ShopClient, products: list[UUID]
    ) -> None:
        made = check_out(shop_client, products[:1], expectedTotalMinor=TOTAL)

        assert [order["checkoutId"] for order in made["orders"]] == [made["checkoutId"]]


class TestPaying:
    def test_payment_page_pays_all_orders_of_checkout(
        self, shop_client: ShopClient, products: list[UUID], gateway: TestGateway
    ) -> None:
        made = check_out(shop_client, products)

        page = initialize(
            shop_client, checkoutId=made["checkoutId"], callbackUrl="http://127.0.0.1:8000/paid"
        )

        assert (page["reference"], page["amountMinor"]) == (made["payment"]["reference"], 3 * TOTAL)
        charge = gateway.call("GET", f"/transaction/verify/{page['reference']}")
        assert charge["amount"] == 3 * TOTAL
        assert charge["metadata"]["checkoutId"] == made["checkoutId"]
        assert charge["metadata"]["orderId"] == made["orders"][0]["id"]
        gateway.pay(page["reference"])
        payment = shop_client.post(VERIFY, shop_client.buyer, {"reference": page["reference"]}).json["data"]
        assert payment["status"] == "succeeded"
        assert [order["status"] for order in payment["orders"]] == ["paid_escrow"] * 3
        for order in orders_of(shop_client, made):
            assert (order["dueMinor"], order["nextActions"]) == (0, ["cancel"])
            assert order["deliveryPin"] == pin_of(UUID(order["id"]))
        assert_shop_ledger_is_consistent(shop_client)

    def test_new_payment_page_after_cancellation_covers_remaining_orders(
        self, shop_client: ShopClient, products: list[UUID], gateway: TestGateway
    ) -> None:
        made = check_out(shop_client, products)
        first_page = initialize(shop_client, checkoutId=made["checkoutId"])
        shop_client.post(f"{ORDERS}/{made['orders'][1]['id']}/cancel", shop_client.buyer)

        second_page = initialize(shop_client, checkoutId=made["checkoutId"])

        assert (second_page["amountMinor"], second_page["reference"] == first_page["reference"]) == (
            2 * TOTAL,
            False,
        )
        # The buyer pays on the old payment page, which is still open.
        charge = gateway.pay(first_page["reference"])
        body = event_of(charge)
        stored = shop_client.client.post(
            "/api/payments/webhook", data=body, headers={"x-gateway-signature": sign(body)}
        )
        assert stored.status_code == 200
        shop_client.post(VERIFY, shop_client.buyer, {"reference": first_page["reference"]})
        assert [order["status"] for order in orders_of(shop_client, made)] == [
            "paid_escrow",
            "cancelled",
            "paid_escrow",
        ]
        with shop_client.database.reading() as session:
            refund = row_of(session, "refunds", buyer_id=shop_client.shop.buyer.id)
        assert (refund["amount_minor"], refund["destination"]) == (TOTAL, "gateway")
        again = shop_client.post(
            INITIALIZE, shop_client.buyer, {"checkoutId": made["checkoutId"]}, key=new_key()
        )
        assert_problem(again, 409, "CONCURRENCY_CONFLICT")
        assert_shop_ledger_is_consistent(shop_client)

    def test_opening_payment_page_extends_expiry_up_to_an_hour(
        self, shop_client: ShopClient, products: list[UUID], clock: MovableClock
    ) -> None:
        made = check_out(shop_client, products)

        for minutes, until in ((20, 50), (25, 55), (45, 60)):
            clock.now = later(minutes=minutes)
            initialize(shop_client, checkoutId=made["checkoutId"])
            assert {order["expiresAt"][11:16] for order in orders_of(shop_client, made)} == {
                later(minutes=until).strftime("%H:%M")
            }

        clock.now = later(minutes=60)
        for order in orders_of(shop_client, made):
            assert order["nextActions"] == ["cancel"]
        late = shop_client.post(
            INITIALIZE, shop_client.buyer, {"checkoutId": made["checkoutId"]}, key=new_key()
        )
        assert_problem(late, 409, "CONCURRENCY_CONFLICT")

    def test_payment_can_be_initialized_after_gateway_outage(
        self, shop_client: ShopClient, products: list[UUID], gateway: TestGateway
    ) -> None:
        made = check_out(shop_client, products)
        gateway.proxy.fault = "refuse"
        down = shop_client.post(
            INITIALIZE, shop_client.buyer, {"checkoutId": made["checkoutId"]}, key=new_key()
        )
        assert_problem(down, 502, "PROVIDER_UNAVAILABLE")
        gateway.proxy.fault = None

        assert initialize(shop_client, checkoutId=made["checkoutId"])["amountMinor"] == 3 * TOTAL


class TestWallet:
    def test_wallet_shows_balance_of_caller(self, shop_client: ShopClient) -> None:
        for minor in (0, 1_234):
            if minor:
                credit_wallet(shop_client, minor)
            shown = shop_client.get(WALLET, shop_client.buyer).json["data"]
            assert (shown["balanceMinor"], shown["cashableMinor"], shown["currency"]) == (minor, minor, "NGN")
        assert shop_client.get(WALLET, shop_client.stranger).json["data"]["balanceMinor"] == 0
        assert_problem(shop_client.client.get(WALLET), 401, "AUTH_UNAUTHORIZED")

    def test_wallet_pays_first_order_fully_and_next_partially(
        self, shop_client: ShopClient, products: list[UUID], gateway: TestGateway
    ) -> None:
        credit_wallet(shop_client, TOTAL + 5_000)

        made = check_out(shop_client, products, useWallet=True)

        shown = [(order["status"], order["walletMinor"], order["dueMinor"]) for order in made["orders"]]
        assert shown == [
            ("paid_escrow", TOTAL, 0),
            ("pending_payment", 5_000, TOTAL - 5_000),
            ("pending_payment", 0, TOTAL),
        ]
        paid = made["orders"][0]
        assert (paid["payment"]["channel"], paid["payment"]["status"]) == ("wallet", "succeeded")
        assert (paid["escrowStatus"], paid["nextActions"]) == ("held", ["cancel"])
        assert made["payment"]["amountMinor"] == 2 * TOTAL - 5_000
        page = initialize(shop_client, checkoutId=made["checkoutId"])
        gateway.pay(page["reference"])
        shop_client.post(VERIFY, shop_client.buyer, {"reference": page["reference"]})
        assert {order["status"] for order in orders_of(shop_client, made)} == {"paid_escrow"}
        kinds = [
            entry["kind"] for entry in shop_client.get("/api/transactions", shop_client.buyer).json["data"]
        ]
        assert kinds.count("wallet_payment") == 2
        assert_shop_ledger_is_consistent(shop_client)

    def test_wallet_share_is_shown_only_to_buyer(self, shop_client: ShopClient) -> None:
        credit_wallet(shop_client, TOTAL)
        [order] = check_out(shop_client, [shop_client.product()], useWallet=True)["orders"]
        path = f"{ORDERS}/{order['id']}"
        assert (
            shop_client.post(f"{path}/cancel", shop_client.vendor, {"reason": "Sold out"}).status_code == 200
        )

        by_vendor, by_buyer = (
            shop_client.get(path, headers).json["data"] for headers in (shop_client.vendor, shop_client.buyer)
        )
        [listed] = shop_client.get(f"{ORDERS}/vendor", shop_client.vendor).json["data"]

        assert by_buyer["walletMinor"] == TOTAL
        assert by_buyer["payment"]["channel"] == "wallet"
        assert [refund["destination"] for refund in by_buyer["refunds"]] == ["wallet"]
        for seen in (by_vendor, listed):
            assert (seen["walletMinor"], seen["payment"]["reference"], seen["payment"]["channel"]) == (
                None,
            ) * 3
            assert [(refund["destination"], refund["amountMinor"]) for refund in seen["refunds"]] == [
                (None, TOTAL)
            ]
            assert "wallet-" not in str(seen)

    def test_checkout_paid_fully_by_wallet_has_no_gateway_payment(
        self, shop_client: ShopClient, products: list[UUID], gateway: TestGateway
    ) -> None:
        credit_wallet(shop_client, 3 * TOTAL)

        made = check_out(shop_client, products, walletMinor=3 * TOTAL)

        assert made["payment"] is None
        assert {order["status"] for order in made["orders"]} == {"paid_escrow"}
        refused = shop_client.post(
            INITIALIZE, shop_client.buyer, {"checkoutId": made["checkoutId"]}, key=new_key()
        )
        assert_problem(refused, 409, "CONCURRENCY_CONFLICT")
        assert gateway.proxy.calls == []

    @pytest.mark.parametrize("path", [ORDERS, CHECKOUT])
    def test_response_stored_for_replay_contains_no_pin(self, shop_client: ShopClient, path: str) -> None:
        credit_wallet(shop_client, TOTAL)
        body = {"items": items([shop_client.product()]), "shippingAddress": ADDRESS, "useWallet": True}

        answer = shop_client.post(path, shop_client.buyer, body, key=new_key())

        made = answer.json["data"]
        [order] = made["orders"] if path == CHECKOUT else [made]
        assert (order["status"], order["deliveryPin"]) == ("paid_escrow", None)
        assert pin_of(UUID(order["id"])) not in answer.text
        detail = shop_client.get(f"{ORDERS}/{order['id']}", shop_client.buyer).json["data"]
        assert detail["deliveryPin"] == pin_of(UUID(order["id"]))

    @pytest.mark.parametrize("path", [ORDERS, CHECKOUT])
    def test_overdrawing_the_wallet_places_no_order(self, shop_client: ShopClient, path: str) -> None:
        credit_wallet(shop_client, 999)
        product_id = shop_client.product()
        body = {"items": items([product_id]), "shippingAddress": ADDRESS}

        short = shop_client.post(path, shop_client.buyer, body | {"walletMinor": 1_000}, key=new_key())

        problem = assert_problem(short, 409, "CONCURRENCY_CONFLICT")
        assert problem["invalid_params"] == [
            {"name": "walletMinor", "reason": "Exceeds the wallet balance (999)."}
        ]
        above = shop_client.post(path, shop_client.buyer, body | {"walletMinor": TOTAL + 1}, key=new_key())
        assert faults(above) == ["walletMinor"]
        with shop_client.database.reading() as session:
            assert stock_of(session, product_id) == (5, 0)
            assert wallet_of(session, shop_client.shop.buyer.id) == 999
        assert shop_client.get(ORDERS, shop_client.buyer).json["data"] == []

    @pytest.mark.parametrize("path", [ORDERS, CHECKOUT])
    @pytest.mark.parametrize(
        ("given", "named"),
        [
            ({"walletMinor": -1}, "walletMinor"),
            ({"walletMinor": 1.5}, "walletMinor"),
            ({"walletMinor": "5"}, "walletMinor"),
            ({"walletMinor": 10**16}, "walletMinor"),
            ({"useWallet": 1}, "useWallet"),
            ({"useWallet": "true"}, "useWallet"),
            ({"useWallet": True, "walletMinor": 5}, "walletMinor"),
        ],
        ids=repr,
    )
    def test_invalid_wallet_amount_is_named(
        self, shop_client: ShopClient, path: str, given: dict[str, Any], named: str
    ) -> None:
        body = {"items": items([shop_client.product()]), "shippingAddress": ADDRESS} | given
        assert faults(shop_client.post(path, shop_client.buyer, body, key=new_key())) == [named]


class TestRefusals:
    def test_failing_item_places_no_order(self, shop_client: ShopClient, products: list[UUID]) -> None:
        scarce = shop_client.product(quantity=1)
        wanted = [*items(products[:2]), *items([scarce], 2)]

        short = shop_client.post(
            CHECKOUT, shop_client.buyer, {"items": wanted, "shippingAddress": ADDRESS}, key=new_key()
        )

        problem = assert_problem(short, 409, "CONCURRENCY_CONFLICT")
        assert problem["invalid_params"] == [
            {"name": "items[2].quantity", "reason": "Exceeds the available stock (1)."}
        ]
        no_address = shop_client.post(CHECKOUT, shop_client.buyer, {"items": items(products)}, key=new_key())
        assert faults(no_address) == ["addressId"]
        assert shop_client.get(ORDERS, shop_client.buyer).json["data"] == []
        with shop_client.database.reading() as session:
            assert [stock_of(session, product_id) for product_id in products] == [(5, 0)] * 3

    def test_each_invalid_item_is_named(self, shop_client: ShopClient, products: list[UUID]) -> None:
        wanted = [*items(products[:1]), *items([uuid4()]), *items([shop_client.product(status="paused")])]

        answer = shop_client.post(
            CHECKOUT, shop_client.vendor, {"items": wanted, "shippingAddress": ADDRESS}, key=new_key()
        )

        assert faults(answer) == [f"items[{number}].productId" for number in range(3)]
        assert answer.json["reason"] == "own-store-order"

    def test_unexpected_total_is_refused_with_actual_total(
        self, shop_client: ShopClient, products: list[UUID]
    ) -> None:
        body = {"items": items(products), "shippingAddress": ADDRESS, "expectedTotalMinor": 3 * TOTAL - 1}

        answer = shop_client.post(CHECKOUT, shop_client.buyer, body, key=new_key())

        assert str(3 * TOTAL) in assert_problem(answer, 409, "CONCURRENCY_CONFLICT")["detail"]

    def test_more_than_five_unpaid_orders_are_refused(
        self, shop_client: ShopClient, products: list[UUID]
    ) -> None:
        check_out(shop_client, products)

        answer = shop_client.post(
            CHECKOUT, shop_client.buyer, {"items": items(products), "shippingAddress": ADDRESS}, key=new_key()
        )

        assert "6 unpaid orders" in assert_problem(answer, 409, "CONCURRENCY_CONFLICT")["detail"]

    def test_checkout_requires_token_and_idempotency_key(
        self, shop_client: ShopClient, products: list[UUID]
    ) -> None:
        body = {"items": items(products), "shippingAddress": ADDRESS}
        assert_problem(shop_client.client.post(CHECKOUT, json=body), 401, "AUTH_UNAUTHORIZED")
        assert faults(shop_client.post(CHECKOUT, shop_client.buyer, body)) == ["Idempotency-Key"]

    def test_buyer_cannot_pay_another_buyers_checkout(
        self, shop_client: ShopClient, products: list[UUID]
    ) -> None:
        made = check_out(shop_client, products)

        for headers in (shop_client.stranger, shop_client.vendor, shop_client.officer("finance")):
            answer = shop_client.post(INITIALIZE, headers, {"checkoutId": made["checkoutId"]}, key=new_key())
            assert_problem(answer, 404, "RESOURCE_NOT_FOUND")


def test_vendor_sees_only_own_order_of_checkout(shop_client: ShopClient) -> None:
    with shop_client.database.transaction() as session:
        shops: list[Shop] = neighbours(session, shop_client.shop, 2)
        products = [make_product(session, shop) for shop in shops]
    credit_wallet(shop_client, 2 * TOTAL)
    made = check_out(shop_client, products, useWallet=True)

    other = shop_client.bearer(shops[1].vendor.id)
    assert [order["id"] for order in shop_client.get(f"{ORDERS}/vendor", other).json["data"]] == [
        made["orders"][1]["id"]
    ]
    assert_problem(shop_client.get(f"{ORDERS}/{made['orders'][0]['id']}", other), 404, "RESOURCE_NOT_FOUND")
