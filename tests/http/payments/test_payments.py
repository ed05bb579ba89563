"""Payments over HTTP: payment intents, hosted pages and verification."""

from typing import Any
from uuid import UUID, uuid4

import pytest

from blueprints.areas import AREAS
from marketplace.infra.db import Database
from tests.support.checked_client import checked_app
from tests.support.gateway import MovableClock, TestGateway
from tests.support.probes import assert_problem, changed, faults
from tests.support.purchases import (
    DELIVERY_FEE_MINOR,
    PRICE_MINOR,
    SERVICE_FEE_MINOR,
    assert_ledger_is_consistent,
    later,
    row_of,
    status_of,
)
from tests.support.shop_client import ShopClient, new_key

INTENT, INITIALIZE, VERIFY = (f"/api/payments/{name}" for name in ("intent", "initialize", "verify"))
TOTAL = PRICE_MINOR + DELIVERY_FEE_MINOR + SERVICE_FEE_MINOR
UNKNOWN_REFERENCE = f"checkout-{'0' * 32}"
OWN_CALLBACK_URL = "http://127.0.0.1:8000/paid"


def status(database: Database, order_id: UUID) -> str:
    with database.reading() as session:
        return status_of(session, order_id)


def initialize(shop_client: ShopClient, order_id: UUID, **more: Any) -> dict[str, Any]:
    answer = shop_client.post(INITIALIZE, shop_client.buyer, {"orderId": str(order_id)} | more, key=new_key())
    assert answer.status_code == 200, answer.text
    page: dict[str, Any] = answer.json["data"]
    return page


class TestIntent:
    def test_payment_intent_is_created_without_the_gateway_and_reused(
        self, shop_client: ShopClient, gateway: TestGateway
    ) -> None:
        order_id = shop_client.unpaid()

        first, second = (
            shop_client.post(INTENT, shop_client.buyer, {"orderId": str(order_id)}, key=new_key())
            for _ in range(2)
        )

        assert (first.status_code, second.status_code) == (201, 201)
        intent = first.json["data"]
        assert intent == second.json["data"]
        assert (intent["status"], intent["amountMinor"], intent["currency"]) == ("initialized", TOTAL, "NGN")
        assert intent["orderIds"] == [str(order_id)]
        assert gateway.proxy.calls == []
        order = shop_client.get(f"/api/orders/{order_id}", shop_client.buyer).json["data"]
        assert order["payment"]["reference"] == intent["reference"]

    @pytest.mark.parametrize(
        ("body", "named"),
        [
            ({}, ["orderId"]),
            ({"orderId": str(UUID(int=1)), "checkoutId": str(UUID(int=2))}, ["orderId"]),
            ({"orderId": "17"}, ["orderId"]),
            ({"reference": UNKNOWN_REFERENCE}, ["reference"]),
            ({"orderId": str(UUID(int=1)), "amountMinor": 1}, ["amountMinor"]),
        ],
        ids=repr,
    )
    def test_invalid_intent_target_is_reported(
        self, shop_client: ShopClient, body: dict[str, Any], named: list[str]
    ) -> None:
        assert set(named) <= set(faults(shop_client.post(INTENT, shop_client.buyer, body, key=new_key())))


class TestInitialize:
    def test_hosted_page_is_opened_once_and_reused(
        self, shop_client: ShopClient, gateway: TestGateway
    ) -> None:
        order_id = shop_client.unpaid()

        page = initialize(shop_client, order_id, callbackUrl=OWN_CALLBACK_URL)

        assert page["amountMinor"] == TOTAL
        assert page["authorizationUrl"].endswith(f"/pay/{page['accessCode']}")
        assert initialize(shop_client, order_id) == page
        by_reference = shop_client.post(
            INITIALIZE, shop_client.buyer, {"reference": page["reference"]}, key=new_key()
        )
        assert by_reference.json["data"] == page
        assert gateway.calls(page["reference"]) == {"POST /transaction/initialize": 1}
        charge = gateway.call("GET", f"/transaction/verify/{page['reference']}")
        assert charge["amount"] == TOTAL
        assert charge["customer"]["email"] == f"{shop_client.shop.buyer.id}@users.invalid"
        assert charge["metadata"] == {
            "userId": str(shop_client.shop.buyer.id),
            "orderId": str(order_id),
            "checkoutId": None,
            "settlement": "platform_escrow",
        }

    def test_repeated_idempotency_key_returns_stored_response(self, shop_client: ShopClient) -> None:
        order_id, key = shop_client.unpaid(), new_key()
        body = {"orderId": str(order_id)}

        first = shop_client.post(INITIALIZE, shop_client.buyer, body, key=key)
        again = shop_client.post(INITIALIZE, shop_client.buyer, body, key=key)

        assert again.data == first.data
        assert again.headers["X-Cache-Lookup"] == "HIT"
        assert faults(
            shop_client.post(INITIALIZE, shop_client.buyer, body | {"callbackUrl": OWN_CALLBACK_URL}, key=key)
        ) == ["Idempotency-Key"]

    def test_unavailable_gateway_is_reported_and_idempotency_key_stays_usable(
        self, shop_client: ShopClient, gateway: TestGateway
    ) -> None:
        order_id, key = shop_client.unpaid(), new_key()
        gateway.proxy.fault = "refuse"

        refused = shop_client.post(INITIALIZE, shop_client.buyer, {"orderId": str(order_id)}, key=key)
        assert "try later" not in str(assert_problem(refused, 502, "PROVIDER_UNAVAILABLE"))

        gateway.proxy.fault = None
        answer = shop_client.post(INITIALIZE, shop_client.buyer, {"orderId": str(order_id)}, key=key)
        assert (answer.status_code, answer.headers.get("X-Cache-Lookup")) == (200, None)
        assert gateway.calls(answer.json["data"]["reference"]) == {"POST /transaction/initialize": 1}

    def test_failed_payment_gets_a_new_page(self, shop_client: ShopClient, gateway: TestGateway) -> None:
        order_id = shop_client.unpaid()
        page = initialize(shop_client, order_id)
        gateway.pay(page["reference"], outcome="failed")
        shop_client.post(VERIFY, shop_client.buyer, {"reference": page["reference"]})

        fresh = initialize(shop_client, order_id)

        assert fresh["reference"] != page["reference"]
        assert gateway.calls(fresh["reference"]) == {"POST /transaction/initialize": 1}

    @pytest.mark.parametrize(
        "address",
        [
            "https://evil.example/paid",
            "http://127.0.0.1:8001/paid",
            "https://127.0.0.1:8000/paid",
            "http://127.0.0.1:8000@evil.example/",
            "http://127.0.0.1:8000.evil.example/",
            "http://user:pw@127.0.0.1:8000/",
            "//127.0.0.1:8000/paid",
            "javascript:alert(1)",
            "ftp://127.0.0.1:8000/",
            "/paid",
            "",
            "http://127.0.0.1:8000\\@evil.example/",
            "http://127.0.0.1:8000\n.evil.example/",
            f"{OWN_CALLBACK_URL}?{'x' * 2000}",
            7,
        ],
    )
    def test_foreign_callback_url_is_refused(
        self, shop_client: ShopClient, gateway: TestGateway, address: Any
    ) -> None:
        order_id = shop_client.unpaid()
        for path in (INTENT, INITIALIZE):
            body = {"orderId": str(order_id), "callbackUrl": address}
            assert faults(shop_client.post(path, shop_client.buyer, body, key=new_key())) == ["callbackUrl"]
        assert gateway.proxy.calls == []

    def test_callback_url_may_be_on_a_configured_origin(
        self, shop_client: ShopClient, gateway: TestGateway
    ) -> None:
        app = shop_client.client.application
        origins = ("https://shop.example", "http://localhost:*")
        shared = checked_app(changed(app.extensions["marketplace"], cors_origins=origins), AREAS)
        other = ShopClient(shop_client.shop, shop_client.database, shared.test_client(), shop_client.bearer)
        order_id = other.unpaid()
        for address in ("https://shop.example/paid", "http://localhost:5173/paid?a=b", "http://localhost/"):
            initialize(other, order_id, callbackUrl=address)
        for address in ("https://shop.example:8443/", "http://localhost:5173@evil.example/"):
            body = {"orderId": str(order_id), "callbackUrl": address}
            refused = other.post(INITIALIZE, other.buyer, body, key=new_key())
            assert faults(refused) == ["callbackUrl"]

    def test_overdue_paid_or_cancelled_order_opens_no_page(
        self, shop_client: ShopClient, clock: MovableClock, gateway: TestGateway
    ) -> None:
        late, paid, cancelled = shop_client.unpaid(), shop_client.paid(), shop_client.unpaid()
        shop_client.post(f"/api/orders/{cancelled}/cancel", shop_client.buyer)
        clock.now = later(minutes=30)

        for order_id, state in ((late, "time to pay"), (paid, "paid_escrow"), (cancelled, "cancelled")):
            answer = shop_client.post(
                INITIALIZE, shop_client.buyer, {"orderId": str(order_id)}, key=new_key()
            )
            assert state in assert_problem(answer, 409, "CONCURRENCY_CONFLICT")["detail"]
        assert gateway.proxy.calls == []


class TestVerify:
    def test_verify_applies_payment_without_webhook(
        self, shop_client: ShopClient, gateway: TestGateway, database: Database
    ) -> None:
        order_id = shop_client.unpaid()
        page = initialize(shop_client, order_id)
        gateway.pay(page["reference"], channel="bank_transfer")

        answers = [
            shop_client.post(VERIFY, shop_client.buyer, {"reference": page["reference"]}) for _ in range(3)
        ]

        for answer in answers:
            payment = answer.json["data"]
            assert (payment["status"], payment["channel"]) == ("succeeded", "bank_transfer")
            assert payment["amountMinor"] == TOTAL
            assert [(order["id"], order["status"]) for order in payment["orders"]] == [
                (str(order_id), "paid_escrow")
            ]
        with database.reading() as session:
            assert_ledger_is_consistent(session)
        again = shop_client.post(
            INITIALIZE, shop_client.buyer, {"reference": page["reference"]}, key=new_key()
        )
        assert_problem(again, 409, "CONCURRENCY_CONFLICT")

    def test_verify_of_unpaid_page_is_pending(self, shop_client: ShopClient, database: Database) -> None:
        order_id = shop_client.unpaid()
        page = initialize(shop_client, order_id)

        payment = shop_client.post(VERIFY, shop_client.buyer, {"reference": page["reference"]}).json["data"]

        assert (payment["status"], payment["paidAt"]) == ("pending", None)
        assert status(database, order_id) == "pending_payment"

    def test_verify_of_payment_without_page_stays_initialized(self, shop_client: ShopClient) -> None:
        order_id = shop_client.unpaid()
        intent = shop_client.post(INTENT, shop_client.buyer, {"orderId": str(order_id)}, key=new_key()).json[
            "data"
        ]

        payment = shop_client.post(VERIFY, shop_client.buyer, {"reference": intent["reference"]}).json["data"]

        assert payment["status"] == "initialized"

    @pytest.mark.parametrize(
        ("paid", "reason"),
        [({"amountMinor": 100}, "amount_below_total"), ({"currency": "USD"}, "currency")],
        ids=repr,
    )
    def test_verify_quarantines_mismatched_charge_and_keeps_the_order(
        self,
        shop_client: ShopClient,
        gateway: TestGateway,
        database: Database,
        paid: dict[str, Any],
        reason: str,
    ) -> None:
        order_id = shop_client.unpaid()
        page = initialize(shop_client, order_id)
        charge = gateway.pay(page["reference"], **paid)

        payment = shop_client.post(VERIFY, shop_client.buyer, {"reference": page["reference"]}).json["data"]

        assert payment["status"] == "quarantined"
        assert status(database, order_id) == "pending_payment"
        with database.reading() as session:
            held = row_of(session, "quarantined_charges", gateway_charge_id=str(charge["id"]))
            assert held["reason"] == reason
            assert_ledger_is_consistent(session)
        again = shop_client.post(INITIALIZE, shop_client.buyer, {"orderId": str(order_id)}, key=new_key())
        assert "under review" in assert_problem(again, 409, "CONCURRENCY_CONFLICT")["detail"]

    @pytest.mark.parametrize("fault", ["refuse", "lose", "garble"])
    def test_verify_reports_unavailable_gateway(
        self, shop_client: ShopClient, gateway: TestGateway, fault: str
    ) -> None:
        page = initialize(shop_client, shop_client.unpaid())
        gateway.proxy.fault = fault

        answer = shop_client.post(VERIFY, shop_client.buyer, {"reference": page["reference"]})

        assert_problem(answer, 502, "PROVIDER_UNAVAILABLE")

    @pytest.mark.parametrize(
        "reference",
        ["", "x", UNKNOWN_REFERENCE.upper(), f"{UNKNOWN_REFERENCE}\n", None, 7, f"{UNKNOWN_REFERENCE}/../.."],
    )
    def test_malformed_reference_is_refused(self, shop_client: ShopClient, reference: Any) -> None:
        assert faults(shop_client.post(VERIFY, shop_client.buyer, {"reference": reference})) == ["reference"]
        body = {"reference": reference}
        # Without a reference, the target of the payment is missing.
        named = "orderId" if reference is None else "reference"
        assert faults(shop_client.post(INITIALIZE, shop_client.buyer, body, key=new_key())) == [named]


class TestAccess:
    @pytest.mark.parametrize("path", [INTENT, INITIALIZE, VERIFY])
    def test_payment_endpoints_require_a_token(self, shop_client: ShopClient, path: str) -> None:
        assert_problem(shop_client.client.post(path, json={}), 401, "AUTH_UNAUTHORIZED")

    @pytest.mark.parametrize("path", [INTENT, INITIALIZE])
    def test_idempotency_key_is_required(self, shop_client: ShopClient, path: str) -> None:
        answer = shop_client.post(path, shop_client.buyer, {"orderId": str(uuid4())})
        assert faults(answer) == ["Idempotency-Key"]

    def test_payment_of_another_buyer_is_not_found(
        self, shop_client: ShopClient, gateway: TestGateway
    ) -> None:
        order_id = shop_client.unpaid()
        reference = initialize(shop_client, order_id)["reference"]
        gateway.proxy.calls.clear()

        for headers in (shop_client.stranger, shop_client.vendor, shop_client.officer("finance")):
            for path, body in (
                (INTENT, {"orderId": str(order_id)}),
                (INITIALIZE, {"orderId": str(order_id)}),
                (INITIALIZE, {"reference": reference}),
                (INITIALIZE, {"checkoutId": str(uuid4())}),
                (VERIFY, {"reference": reference}),
                (VERIFY, {"reference": UNKNOWN_REFERENCE}),
            ):
                answer = shop_client.post(path, headers, body, key=new_key())
                assert_problem(answer, 404, "RESOURCE_NOT_FOUND")
        assert gateway.proxy.calls == []
