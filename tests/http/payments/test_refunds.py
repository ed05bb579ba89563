"""Refunds over HTTP: views of buyer and vendor, and endpoints of finance with permissions, tables and errors."""

from typing import Any
from uuid import UUID, uuid4

import pytest
from werkzeug.test import TestResponse

from marketplace.audit.person_keys import unseal
from marketplace.cart.operations import RequestedItem
from marketplace.orders import operations as orders
from marketplace.orders.transitions import SYSTEM, lock_order
from marketplace.payments.charges.apply import ChargeOutcome
from marketplace.payments.intents.lifecycle import record_hosted_page
from marketplace.providers.gateway.payments import PaymentPage
from tests.support.finance import refunds_of, report_refund_status
from tests.support.gateway import TestGateway
from tests.support.purchases import (
    DELIVERY_FEE_MINOR,
    NOW,
    PRICE_MINOR,
    SERVICE_FEE_MINOR,
    Shop,
    apply,
    assert_ledger_is_consistent,
    check_out,
    make_charge,
    make_intent,
    make_person,
    make_product,
    make_shop,
    neighbours,
    paid_order,
    place,
    row_of,
)
from tests.support.resource_usage import counted_statements
from tests.support.shop_client import ShopClient, new_key

TOTAL = PRICE_MINOR + DELIVERY_FEE_MINOR + SERVICE_FEE_MINOR
BODY = {"destination": "gateway", "reason": "The lamp came broken."}
NOTE = {"note": "The buyer's bank took its fee out of it."}


@pytest.fixture
def officer(shop_client: ShopClient) -> dict[str, str]:
    """Headers of a finance officer with two-factor authentication."""
    return officer_of(shop_client)


def officer_of(shop_client: ShopClient, aal: str = "aal2", staff_role: str = "finance") -> dict[str, str]:
    made = shop_client.database.in_transaction(make_person, role="staff", staff_role=staff_role)
    return shop_client.bearer(made.id, aal)


def path_of(order_id: UUID) -> str:
    return f"/api/payments/order/{order_id}/process-refund"


def process(shop_client: ShopClient, order_id: UUID, headers: dict[str, str], **body: Any) -> TestResponse:
    key = body.pop("key", None)
    return shop_client.post(path_of(order_id), headers, BODY | body, key=key)


def problem(answer: TestResponse) -> tuple[int, str]:
    return answer.status_code, answer.json["code"]


def order_of(shop_client: ShopClient, order_id: UUID) -> dict[str, Any]:
    answer = shop_client.get(f"/api/orders/{order_id}", shop_client.buyer)
    assert answer.status_code == 200
    found: dict[str, Any] = answer.json["data"]
    return found


def refund_ids(shop_client: ShopClient, order_id: UUID) -> list[UUID]:
    with shop_client.database.reading() as session:
        return [row["id"] for row in refunds_of(session, order_id)]


def report_status(shop_client: ShopClient, refund_id: UUID, status: str) -> None:
    shop_client.database.in_transaction(report_refund_status, refund_id, status)


def make_failed_refund(shop_client: ShopClient, gateway: TestGateway) -> tuple[UUID, UUID]:
    """Create a cancelled order with a failed refund and return the ids of both."""
    with shop_client.database.transaction() as session:
        order_id = place(session, shop_client.shop, make_product(session, shop_client.shop))
        intent = make_intent(session, shop_client.shop, order_id)
        gateway.open(intent.reference, intent.amount_minor)
        apply(session, gateway.charge_of_paid(intent.reference))
    assert shop_client.post(f"/api/orders/{order_id}/cancel", shop_client.buyer, {}).status_code == 200
    [refund_id] = refund_ids(shop_client, order_id)
    report_status(shop_client, refund_id, "failed")
    return order_id, refund_id


def make_quarantined_charge(shop_client: ShopClient, missing: int = 500) -> tuple[UUID, UUID]:
    """Create an order with a quarantined charge and return the ids of both."""
    with shop_client.database.transaction() as session:
        order_id = place(session, shop_client.shop, make_product(session, shop_client.shop))
        intent = make_intent(session, shop_client.shop, order_id)
        charge = make_charge(intent, amount_minor=intent.amount_minor - missing)
        assert apply(session, charge) is ChargeOutcome.QUARANTINED
        quarantined_id: UUID = row_of(session, "quarantined_charges", gateway_charge_id=charge.id)["id"]
    return order_id, quarantined_id


class TestPartyViews:
    def test_cancelled_order_shows_refund_in_transit_and_then_processed(
        self, shop_client: ShopClient
    ) -> None:
        order_id = shop_client.paid()
        assert order_of(shop_client, order_id)["refunds"] == []

        answer = shop_client.post(
            f"/api/orders/{order_id}/cancel", shop_client.buyer, {"reason": "Changed my mind"}
        )

        order = answer.json["data"]
        assert (answer.status_code, order["status"], order["escrowStatus"]) == (200, "cancelled", "refunded")
        assert order["payment"]["status"] == "refund_pending"
        [refund] = order["refunds"]
        assert refund == {
            "id": refund["id"],
            "destination": "gateway",
            "amountMinor": TOTAL,
            "status": "pending",
            "createdAt": refund["createdAt"],
            "settledAt": None,
        }
        report_status(shop_client, UUID(refund["id"]), "processed")
        order = order_of(shop_client, order_id)
        assert order["payment"]["status"] == "refunded"
        assert order["refunds"][0]["status"] == "processed"
        assert order["refunds"][0]["settledAt"] is not None
        for path, headers in (("", shop_client.buyer), ("/vendor", shop_client.vendor)):
            listed = shop_client.get(f"/api/orders{path}", headers).json["data"]
            # The vendor must not see whether the buyer paid from a wallet.
            shown = order["refunds"][0] | ({"destination": None} if path else {})
            assert listed[0]["refunds"] == [shown]
            assert listed[0]["payment"]["status"] == "refunded"

    def test_partial_wallet_refund_shows_partially_refunded_payment(
        self, shop_client: ShopClient, officer: dict[str, str]
    ) -> None:
        order_id = shop_client.paid()

        assert (
            process(shop_client, order_id, officer, amountMinor=500, destination="wallet").status_code == 200
        )

        order = order_of(shop_client, order_id)
        assert (order["status"], order["payment"]["status"]) == ("paid_escrow", "partially_refunded")
        assert [refund["status"] for refund in order["refunds"]] == ["processed"]

    def test_returned_second_charge_leaves_payment_succeeded(self, shop_client: ShopClient) -> None:
        with shop_client.database.transaction() as session:
            order_id = place(session, shop_client.shop, make_product(session, shop_client.shop))
            intent = make_intent(session, shop_client.shop, order_id)
            assert apply(session, make_charge(intent)) is ChargeOutcome.APPLIED
            assert apply(session, make_charge(intent)) is ChargeOutcome.RETURNED

        order = order_of(shop_client, order_id)

        assert (order["status"], order["payment"]["status"]) == ("paid_escrow", "succeeded")
        assert [refund["amountMinor"] for refund in order["refunds"]] == [TOTAL]

    def test_returned_refund_is_shown_in_transit_again(
        self, shop_client: ShopClient, officer: dict[str, str]
    ) -> None:
        order_id = shop_client.paid()
        shop_client.post(f"/api/orders/{order_id}/cancel", shop_client.buyer, {})
        [refund_id] = refund_ids(shop_client, order_id)
        for status in ("processed", "failed"):
            report_status(shop_client, refund_id, status)

        assert order_of(shop_client, order_id)["payment"]["status"] == "refund_pending"
        money = shop_client.get(f"/api/orders/{order_id}/money", shop_client.buyer).json["data"]
        assert [holder["holder"] for holder in money["holders"]] == ["on_the_way_back"]
        assert [entry["kind"] for entry in money["entries"]][-2:] == ["refund_sent", "refund_returned"]
        rows = shop_client.get("/api/payments/refunds", officer, status="failed", limit=100).json["data"]
        [row] = [row for row in rows if row["id"] == str(refund_id)]
        assert (row["timesReturned"], row["settledAt"]) == (1, None)

    @pytest.mark.parametrize("opened", [False, True])
    def test_payment_of_cancelled_or_expired_unpaid_order_is_abandoned(
        self, shop_client: ShopClient, opened: bool
    ) -> None:
        with shop_client.database.transaction() as session:
            placed = [
                place(session, shop_client.shop, make_product(session, shop_client.shop)) for _ in range(2)
            ]
            for order_id in placed:
                intent = make_intent(session, shop_client.shop, order_id)
                if opened:
                    page = PaymentPage("https://pay.example/1", f"code-{order_id}")
                    record_hosted_page(session, intent=intent, page=page, now=NOW)
            orders.expire_order(session, order=lock_order(session, order_id=placed[1]), actor=SYSTEM, now=NOW)
        shown = order_of(shop_client, placed[0])["payment"]["status"]
        assert shown == ("pending" if opened else "initialized")

        shop_client.post(f"/api/orders/{placed[0]}/cancel", shop_client.buyer, {})

        assert [order_of(shop_client, order_id)["payment"]["status"] for order_id in placed] == [
            "abandoned"
        ] * 2

    @pytest.mark.parametrize("missing", [0, 1_000])
    def test_late_charge_counts_as_payment_refund_only_if_full(
        self, shop_client: ShopClient, missing: int
    ) -> None:
        with shop_client.database.transaction() as session:
            order_id = place(session, shop_client.shop, make_product(session, shop_client.shop))
            intent = make_intent(session, shop_client.shop, order_id)
        shop_client.post(f"/api/orders/{order_id}/cancel", shop_client.buyer, {})

        with shop_client.database.transaction() as session:
            apply(session, make_charge(intent, amount_minor=intent.amount_minor - missing))

        order = order_of(shop_client, order_id)
        assert [refund["amountMinor"] for refund in order["refunds"]] == [TOTAL - missing]
        assert order["payment"]["status"] == ("abandoned" if missing else "refund_pending")
        [refund_id] = refund_ids(shop_client, order_id)
        report_status(shop_client, refund_id, "processed")
        assert order_of(shop_client, order_id)["payment"]["status"] == (
            "abandoned" if missing else "refunded"
        )

    def test_returned_excess_is_not_a_refund_of_unpaid_order(self, shop_client: ShopClient) -> None:
        """The charge pays the remaining order of a checkout and exceeds the due amount by 1,000."""
        with shop_client.database.transaction() as session:
            shops = neighbours(session, shop_client.shop, 2)
            done = check_out(
                session, shop_client.shop, [RequestedItem(make_product(session, one), 1) for one in shops]
            )
        first, second = done.order_ids
        shop_client.post(f"/api/orders/{first}/cancel", shop_client.buyer, {})

        with shop_client.database.transaction() as session:
            assert done.payment is not None
            assert (
                apply(session, make_charge(done.payment, amount_minor=TOTAL + 1_000)) is ChargeOutcome.APPLIED
            )

        order = order_of(shop_client, first)
        assert [refund["amountMinor"] for refund in order["refunds"]] == [1_000]
        assert order["payment"]["status"] == "abandoned"
        assert order_of(shop_client, second)["payment"]["status"] == "succeeded"

    def test_order_list_query_count_is_independent_of_refund_count(self, shop_client: ShopClient) -> None:
        served = shop_client.client.application.extensions["marketplace"].database
        counts = []
        for _ in range(2):
            for _ in range(2):
                shop_client.post(f"/api/orders/{shop_client.paid()}/cancel", shop_client.buyer, {})
            shop_client.get("/api/orders", shop_client.buyer)
            with counted_statements(served) as statements:
                listed = shop_client.get("/api/orders", shop_client.buyer).json["data"]
            counts.append((sum(len(order["refunds"]) for order in listed), len(statements)))

        assert [number for number, _ in counts] == [2, 4]
        assert counts[0][1] == counts[1][1]


class TestProcessRefund:
    def test_full_refund_ends_the_order_and_is_audited(
        self, shop_client: ShopClient, officer: dict[str, str]
    ) -> None:
        order_id = shop_client.shipped()

        answer = process(shop_client, order_id, officer)

        done = answer.json["data"]
        assert (answer.status_code, done["orderId"]) == (200, str(order_id))
        assert (done["status"], done["escrowStatus"], done["heldMinor"]) == ("refunded", "refunded", 0)
        assert done["amountMinor"] == TOTAL
        assert [refund["status"] for refund in done["refunds"]] == ["pending"]
        order = order_of(shop_client, order_id)
        assert (order["status"], order["deliveryStatus"]) == ("refunded", "returned")
        assert order["nextActions"] == []
        events = shop_client.get(f"/api/orders/{order_id}/events", shop_client.vendor).json["data"]
        assert (events[-1]["trigger"], events[-1]["actor"]) == ("refund", "staff")
        with shop_client.database.reading() as session:
            audit = row_of(session, "audit_logs", target_id=str(order_id), action="order.refund")
            assert (unseal(session, audit["ip_address"]), audit["actor"]) == ("127.0.0.1", "finance")
            assert_ledger_is_consistent(session)

    def test_item_refund_covers_item_price(self, shop_client: ShopClient, officer: dict[str, str]) -> None:
        order_id = shop_client.paid()
        product_id = order_of(shop_client, order_id)["items"][0]["productId"]

        answer = process(shop_client, order_id, officer, items=[{"productId": product_id, "quantity": 1}])

        assert answer.json["data"]["amountMinor"] == PRICE_MINOR
        assert answer.json["data"]["heldMinor"] == TOTAL - PRICE_MINOR

    def test_unit_is_refunded_once_and_shown_on_the_order(
        self, shop_client: ShopClient, officer: dict[str, str]
    ) -> None:
        order_id = shop_client.paid()
        product_id = order_of(shop_client, order_id)["items"][0]["productId"]
        items = [{"productId": product_id, "quantity": 1}]
        assert order_of(shop_client, order_id)["items"][0]["refundedQuantity"] == 0

        answer = process(shop_client, order_id, officer, items=items, amountMinor=5)
        assert problem(answer) == (422, "VALIDATION_FAILED")
        assert [param["name"] for param in answer.json["invalid_params"]] == ["amountMinor"]
        assert process(shop_client, order_id, officer, items=items).status_code == 200
        answer = process(shop_client, order_id, officer, items=items)

        assert problem(answer) == (422, "VALIDATION_FAILED")
        assert answer.json["reason"] == "items-not-refundable"
        assert [param["name"] for param in answer.json["invalid_params"]] == ["items[0].quantity"]
        for headers in (shop_client.buyer, shop_client.vendor):
            [item] = shop_client.get(f"/api/orders/{order_id}/items", headers).json["data"]
            assert (item["quantity"], item["refundedQuantity"]) == (1, 1)
        assert len(refund_ids(shop_client, order_id)) == 1

    def test_refund_with_repeated_idempotency_key_is_made_once(
        self, shop_client: ShopClient, officer: dict[str, str]
    ) -> None:
        order_id, key = shop_client.paid(), new_key()

        answers = [process(shop_client, order_id, officer, amountMinor=700, key=key) for _ in range(2)]

        assert [answer.status_code for answer in answers] == [200, 200]
        assert answers[0].data == answers[1].data
        assert answers[1].headers["X-Cache-Lookup"] == "HIT"
        assert len(refund_ids(shop_client, order_id)) == 1

    def test_refund_above_escrow_balance_is_refused(
        self, shop_client: ShopClient, officer: dict[str, str]
    ) -> None:
        answer = process(shop_client, shop_client.paid(), officer, amountMinor=TOTAL + 1)

        assert problem(answer) == (409, "ESCROW_BALANCE_DEFICIT")
        assert [param["name"] for param in answer.json["invalid_params"]] == ["amountMinor"]

    def test_second_full_refund_is_refused(self, shop_client: ShopClient, officer: dict[str, str]) -> None:
        order_id = shop_client.paid()
        process(shop_client, order_id, officer)

        assert problem(process(shop_client, order_id, officer)) == (409, "CONCURRENCY_CONFLICT")
        assert len(refund_ids(shop_client, order_id)) == 1

    def test_clawback_before_release_is_refused(
        self, shop_client: ShopClient, officer: dict[str, str]
    ) -> None:
        answer = process(shop_client, shop_client.paid(), officer, clawback=True)

        assert problem(answer) == (422, "VALIDATION_FAILED")
        assert answer.json["reason"] == "escrow-not-released"

    def test_refund_after_release_is_refused_with_clawback_hint(
        self, shop_client: ShopClient, officer: dict[str, str]
    ) -> None:
        order_id = shop_client.shipped()
        assert shop_client.post(f"/api/orders/{order_id}/confirm", shop_client.buyer).status_code == 200

        answer = process(shop_client, order_id, officer)

        assert problem(answer) == (409, "CONCURRENCY_CONFLICT")
        assert "clawback" in answer.json["detail"]

    def test_clawback_charges_the_vendor_and_is_shown(
        self, shop_client: ShopClient, officer: dict[str, str]
    ) -> None:
        order_id = shop_client.shipped()
        assert shop_client.post(f"/api/orders/{order_id}/confirm", shop_client.buyer).status_code == 200

        answer = process(
            shop_client, order_id, officer, clawback=True, amountMinor=100_000, destination="wallet"
        )

        assert answer.status_code == 200, answer.json
        assert answer.json["data"]["status"] == "delivered"
        assert answer.json["data"]["clawback"] == {
            "vendorMinor": 100_000,
            "platformMinor": 0,
            "vendorOwesMinor": 100_000,
        }
        shown = order_of(shop_client, order_id)
        assert (shown["payment"]["status"], len(shown["refunds"])) == ("partially_refunded", 1)
        assert process(shop_client, order_id, officer, clawback=True).status_code == 200
        assert order_of(shop_client, order_id)["payment"]["status"] == "refund_pending"
        assert problem(process(shop_client, order_id, officer, clawback=True, amountMinor=1)) == (
            409,
            "ESCROW_BALANCE_DEFICIT",
        )
        entries = shop_client.get("/api/transactions", shop_client.vendor).json["data"]
        owed = [row for row in entries if row["account"].startswith("vendor_receivable:")]
        assert {row["direction"] for row in owed} == {"debit"}
        assert owed[-1]["balanceAfterMinor"] == 100_000

    def test_clawback_with_repeated_idempotency_key_is_made_once(
        self, shop_client: ShopClient, officer: dict[str, str]
    ) -> None:
        order_id = shop_client.shipped()
        assert shop_client.post(f"/api/orders/{order_id}/confirm", shop_client.buyer).status_code == 200
        key = new_key()
        answers = [
            process(shop_client, order_id, officer, clawback=True, amountMinor=5, key=key) for _ in range(2)
        ]
        assert [answer.status_code for answer in answers] == [200, 200]
        assert len(refund_ids(shop_client, order_id)) == 1

    def test_refund_of_unknown_order_is_not_found(
        self, shop_client: ShopClient, officer: dict[str, str]
    ) -> None:
        assert problem(process(shop_client, uuid4(), officer)) == (404, "RESOURCE_NOT_FOUND")

    @pytest.mark.parametrize(
        ("body", "name"),
        [
            ({"destination": "cash"}, "destination"),
            ({"destination": None}, "destination"),
            ({"reason": "too short"}, "reason"),
            ({"reason": "x" * 501}, "reason"),
            ({"amountMinor": 0}, "amountMinor"),
            ({"amountMinor": -5}, "amountMinor"),
            ({"amountMinor": 1.5}, "amountMinor"),
            ({"amountMinor": "500"}, "amountMinor"),
            ({"items": []}, "items"),
            ({"items": [{"productId": str(uuid4()), "quantity": 0}]}, "items[0].quantity"),
            ({"items": [{"productId": "x", "quantity": 1}]}, "items[0].productId"),
            ({"items": [{"productId": str(uuid4()), "quantity": 1}]}, "items[0].productId"),
            ({"clawback": True}, "clawback"),
            ({"clawback": "yes"}, "clawback"),
        ],
    )
    def test_invalid_refund_fields_are_reported(
        self, shop_client: ShopClient, officer: dict[str, str], body: dict[str, Any], name: str
    ) -> None:
        order_id = shop_client.paid()

        answer = process(shop_client, order_id, officer, **body)

        assert problem(answer) == (422, "VALIDATION_FAILED")
        assert name in [param["name"] for param in answer.json["invalid_params"]]
        assert refund_ids(shop_client, order_id) == []

    def test_repeated_product_in_items_is_refused(
        self, shop_client: ShopClient, officer: dict[str, str]
    ) -> None:
        order_id = shop_client.paid()
        item = {"productId": order_of(shop_client, order_id)["items"][0]["productId"], "quantity": 1}

        answer = process(shop_client, order_id, officer, items=[item, item])

        assert [param["name"] for param in answer.json["invalid_params"]] == ["items[1].productId"]

    @pytest.mark.parametrize("party", ["buyer", "vendor"])
    def test_officer_cannot_refund_own_order(self, shop_client: ShopClient, party: str) -> None:
        with shop_client.database.transaction() as session:
            made = make_shop(session)
            officer = make_person(session, role="staff", staff_role="finance")
            if party == "buyer":
                order_id = paid_order(session, Shop(**{**vars(made), "buyer": officer}))
            else:
                order_id = paid_order(session, made)
                session.connection().exec_driver_sql(
                    "UPDATE vendor_profiles SET user_id = %s WHERE id = %s",
                    (str(officer.id), str(made.store_id)),
                )

        answer = process(shop_client, order_id, shop_client.bearer(officer.id, "aal2"))

        assert problem(answer) == (403, "AUTH_FORBIDDEN")


class TestPermissions:
    def paths(self) -> list[tuple[str, str, dict[str, Any] | None]]:
        unknown_id = uuid4()
        return [
            ("POST", f"/api/payments/order/{unknown_id}/process-refund", BODY),
            ("POST", f"/api/payments/refunds/{unknown_id}/retry", None),
            ("POST", f"/api/payments/refunds/{unknown_id}/credit", None),
            ("POST", f"/api/payments/quarantine/{unknown_id}/resolve", {"action": "refund"} | NOTE),
            ("GET", "/api/payments/refunds", None),
            ("GET", "/api/payments/quarantine", None),
        ]

    def test_refund_endpoints_require_finance_role(self, shop_client: ShopClient) -> None:
        others = [
            {},
            shop_client.buyer,
            shop_client.vendor,
            officer_of(shop_client, staff_role="support"),
            officer_of(shop_client, staff_role="orders"),
        ]
        for method, path, body in self.paths():
            answers = [
                shop_client.client.open(path, method=method, headers=headers, json=body) for headers in others
            ]
            assert [answer.status_code for answer in answers] == [401, 403, 403, 403, 403], path

    def test_state_changing_endpoints_require_two_factor_authentication(
        self, shop_client: ShopClient
    ) -> None:
        officer = officer_of(shop_client, aal="aal1")
        for method, path, body in self.paths():
            answer = shop_client.client.open(path, method=method, headers=officer, json=body)
            if method == "GET":
                assert answer.status_code == 200
            else:
                assert problem(answer) == (403, "AUTH_AAL2_REQUIRED")

    def test_unknown_resources_are_not_found(self, shop_client: ShopClient, officer: dict[str, str]) -> None:
        for method, path, body in self.paths():
            if method == "POST":
                answer = shop_client.post(path, officer, body)
                assert problem(answer) == (404, "RESOURCE_NOT_FOUND"), path


class TestRefundTable:
    def listed(self, shop_client: ShopClient, officer: dict[str, str], **query: Any) -> list[dict[str, Any]]:
        answer = shop_client.get("/api/payments/refunds", officer, limit=100, **query)
        assert answer.status_code == 200, answer.data
        found: list[dict[str, Any]] = answer.json["data"]
        return found

    def test_refund_table_shows_status_and_age(
        self, shop_client: ShopClient, officer: dict[str, str], gateway: TestGateway
    ) -> None:
        order_id, refund_id = make_failed_refund(shop_client, gateway)

        [row] = [
            row for row in self.listed(shop_client, officer, status="failed") if row["id"] == str(refund_id)
        ]

        assert (row["orderId"], row["buyer"]["id"]) == (str(order_id), str(shop_client.shop.buyer.id))
        assert (row["status"], row["destination"], row["amountMinor"]) == ("failed", "gateway", TOTAL)
        assert (row["attempt"], row["reason"]) == (1, "Cancelled by the buyer.")
        assert row["paymentReference"].startswith("checkout-")
        assert row["requestedBy"] == str(shop_client.shop.buyer.id)
        assert (row["ageSeconds"], row["settledAt"]) == (0, None)

    def test_refund_table_filters_and_sorts(
        self, shop_client: ShopClient, officer: dict[str, str], gateway: TestGateway
    ) -> None:
        _, failing = make_failed_refund(shop_client, gateway)
        order_id = shop_client.paid()
        process(shop_client, order_id, officer, amountMinor=300, destination="wallet")
        [credited] = refund_ids(shop_client, order_id)

        def ids(**query: Any) -> set[str]:
            return {row["id"] for row in self.listed(shop_client, officer, **query)}

        assert str(failing) in ids(status="open")
        assert str(credited) not in ids(status="open")
        assert str(credited) in ids(status="processed", destination="wallet")
        assert str(credited) not in ids(destination="gateway")
        assert str(failing) in ids(olderThanHours=0)
        assert str(failing) not in ids(olderThanHours=1)
        amounts = [
            row["amountMinor"] for row in self.listed(shop_client, officer, sort="amountMinor", order="asc")
        ]
        assert amounts == sorted(amounts)

    def test_refund_table_filters_by_cause(self, shop_client: ShopClient, officer: dict[str, str]) -> None:
        order_id = shop_client.paid()
        process(shop_client, order_id, officer, amountMinor=300)
        [of_order] = refund_ids(shop_client, order_id)
        with shop_client.database.transaction() as session:
            double = place(session, shop_client.shop, make_product(session, shop_client.shop))
            intent = make_intent(session, shop_client.shop, double)
            for _ in range(2):
                apply(session, make_charge(intent))
        [of_charge] = refund_ids(shop_client, double)
        quarantined_order, quarantined_id = make_quarantined_charge(shop_client)
        answer = shop_client.post(
            f"/api/payments/quarantine/{quarantined_id}/resolve",
            officer,
            {"action": "refund", "note": "Of no use here."},
        )
        assert answer.status_code == 200
        [of_quarantined] = refund_ids(shop_client, quarantined_order)

        wanted = {"order": of_order, "unneeded_charge": of_charge, "held_charge": of_quarantined}
        for cause in wanted:
            ids = {row["id"] for row in self.listed(shop_client, officer, cause=cause)}
            assert {name for name, refund_id in wanted.items() if str(refund_id) in ids} == {cause}

    def test_refund_table_is_paginated(self, shop_client: ShopClient, officer: dict[str, str]) -> None:
        for amount in (1, 2, 3):
            process(shop_client, shop_client.paid(), officer, amountMinor=amount)

        first = shop_client.get("/api/payments/refunds", officer, limit=2).json
        second = shop_client.get("/api/payments/refunds", officer, limit=2, page=2).json

        assert (first["meta"]["page"], first["meta"]["limit"]) == (1, 2)
        assert first["meta"]["total"] == second["meta"]["total"] >= 3
        assert first["meta"]["total_pages"] == -(-first["meta"]["total"] // 2)
        seen = [row["id"] for row in first["data"] + second["data"]]
        assert len(set(seen)) == len(seen)

    @pytest.mark.parametrize(
        "query",
        [
            {"status": "lost"},
            {"destination": "cash"},
            {"cause": "whim"},
            {"reason": "already_paid"},
            {"sort": "buyer"},
            {"order": "up"},
            {"page": 0},
            {"limit": 101},
            {"olderThanHours": -1},
            {"colour": "red"},
        ],
    )
    def test_invalid_query_parameters_are_refused(
        self, shop_client: ShopClient, officer: dict[str, str], query: dict[str, Any]
    ) -> None:
        for path in ("refunds", "quarantine"):
            answer = shop_client.get(f"/api/payments/{path}", officer, **query)
            assert problem(answer) == (422, "VALIDATION_FAILED")


class TestRecovery:
    def test_failed_refund_is_retried_once(
        self, shop_client: ShopClient, officer: dict[str, str], gateway: TestGateway
    ) -> None:
        _, refund_id = make_failed_refund(shop_client, gateway)

        answer = shop_client.post(f"/api/payments/refunds/{refund_id}/retry", officer)

        assert answer.status_code == 200
        assert answer.json["data"] == {
            "id": str(refund_id),
            "status": "pending",
            "attempt": 2,
            "amountMinor": TOTAL,
        }
        again = shop_client.post(f"/api/payments/refunds/{refund_id}/retry", officer)
        assert problem(again) == (409, "CONCURRENCY_CONFLICT")

    def test_failed_refund_is_credited_to_the_wallet_once(
        self, shop_client: ShopClient, officer: dict[str, str], gateway: TestGateway
    ) -> None:
        order_id, refund_id = make_failed_refund(shop_client, gateway)
        key = new_key()

        answers = [
            shop_client.post(f"/api/payments/refunds/{refund_id}/credit", officer, key=key) for _ in range(2)
        ]

        assert [answer.status_code for answer in answers] == [200, 200]
        assert answers[0].json["data"]["status"] == "credited"
        assert shop_client.get("/api/wallet", shop_client.buyer).json["data"]["balanceMinor"] == TOTAL
        order = order_of(shop_client, order_id)
        assert (order["payment"]["status"], order["refunds"][0]["status"]) == ("refunded", "credited")
        other = shop_client.post(f"/api/payments/refunds/{refund_id}/credit", officer_of(shop_client))
        assert problem(other) == (409, "CONCURRENCY_CONFLICT")

    def test_credit_is_refused_when_gateway_has_sent_the_refund(
        self, shop_client: ShopClient, officer: dict[str, str], gateway: TestGateway
    ) -> None:
        """The service has the refund as failed, but the gateway has sent the refund."""
        order_id, refund_id = make_failed_refund(shop_client, gateway)
        with shop_client.database.reading() as session:
            reference = row_of(session, "orders", id=order_id)["payment_reference"]
        sent = {"transaction": reference, "merchant_note": f"marketplace refund {refund_id}"}
        gateway.call("POST", "/refund", json=sent)

        answer = shop_client.post(f"/api/payments/refunds/{refund_id}/credit", officer)

        assert problem(answer) == (409, "CONCURRENCY_CONFLICT")
        assert shop_client.get("/api/wallet", shop_client.buyer).json["data"]["balanceMinor"] == 0

    def test_recovery_without_gateway_response_changes_nothing(
        self, shop_client: ShopClient, officer: dict[str, str], gateway: TestGateway
    ) -> None:
        _, refund_id = make_failed_refund(shop_client, gateway)
        gateway.proxy.fault = "refuse"

        for act in ("retry", "credit"):
            answer = shop_client.post(f"/api/payments/refunds/{refund_id}/{act}", officer)
            assert problem(answer) == (502, "PROVIDER_UNAVAILABLE")

        with shop_client.database.reading() as session:
            assert row_of(session, "refunds", id=refund_id)["status"] == "failed"


class TestQuarantine:
    def test_quarantined_charge_is_shown_with_orders_and_amounts(
        self, shop_client: ShopClient, officer: dict[str, str]
    ) -> None:
        order_id, quarantined_id = make_quarantined_charge(shop_client)

        listed = shop_client.get(
            "/api/payments/quarantine", officer, status="open", reason="amount_below_total", limit=100
        ).json["data"]

        [row] = [row for row in listed if row["id"] == str(quarantined_id)]
        assert (row["status"], row["reason"], row["currency"]) == ("open", "amount_below_total", "NGN")
        assert (row["amountMinor"], row["heldMinor"], row["dueMinor"]) == (TOTAL - 500, TOTAL - 500, TOTAL)
        assert row["buyer"]["id"] == str(shop_client.shop.buyer.id)
        [order] = row["orders"]
        assert (order["id"], order["status"]) == (str(order_id), "pending_payment")
        assert (order["totalMinor"], order["dueMinor"]) == (TOTAL, TOTAL)
        assert (row["resolvedAt"], row["resolution"], row["resolvedBy"]) == (None, None, None)

    def test_accepted_charge_lets_the_buyer_pay_the_difference(
        self, shop_client: ShopClient, officer: dict[str, str], gateway: TestGateway
    ) -> None:
        order_id, quarantined_id = make_quarantined_charge(shop_client)
        assert order_of(shop_client, order_id)["nextActions"] == ["cancel"]

        answer = shop_client.post(
            f"/api/payments/quarantine/{quarantined_id}/resolve", officer, {"action": "accept_rest"} | NOTE
        )

        assert answer.status_code == 200, answer.data
        assert answer.json["data"]["orders"][0]["dueMinor"] == 500
        order = order_of(shop_client, order_id)
        assert (order["nextActions"], order["dueMinor"], order["payment"]) == (["pay", "cancel"], 500, None)
        page = shop_client.post(
            "/api/payments/initialize", shop_client.buyer, {"orderId": str(order_id)}, key=new_key()
        ).json["data"]
        assert page["amountMinor"] == 500
        gateway.pay(page["reference"])
        paid = shop_client.post("/api/payments/verify", shop_client.buyer, {"reference": page["reference"]})
        assert paid.json["data"]["orders"][0]["status"] == "paid_escrow"
        with shop_client.database.reading() as session:
            assert_ledger_is_consistent(session)

    @pytest.mark.parametrize("action", ["refund", "wallet"])
    def test_quarantined_charge_is_refunded_or_credited_once(
        self, shop_client: ShopClient, officer: dict[str, str], action: str
    ) -> None:
        order_id, quarantined_id = make_quarantined_charge(shop_client)

        answer = shop_client.post(
            f"/api/payments/quarantine/{quarantined_id}/resolve", officer, {"action": action} | NOTE
        )

        assert answer.json["data"]["amountMinor"] == TOTAL - 500
        [refund] = order_of(shop_client, order_id)["refunds"]
        assert refund["destination"] == ("gateway" if action == "refund" else "wallet")
        again = shop_client.post(
            f"/api/payments/quarantine/{quarantined_id}/resolve", officer, {"action": "wallet"} | NOTE
        )
        assert problem(again) == (409, "CONCURRENCY_CONFLICT")
        resolved = shop_client.get("/api/payments/quarantine", officer, status="resolved", limit=100).json[
            "data"
        ]
        [row] = [row for row in resolved if row["id"] == str(quarantined_id)]
        assert (row["resolution"], row["resolutionNote"]) == (action, NOTE["note"])

    @pytest.mark.parametrize(
        ("body", "name"),
        [
            ({"action": "keep"} | NOTE, "action"),
            (NOTE, "action"),
            ({"action": "refund"}, "note"),
            ({"action": "refund", "note": "short"}, "note"),
            ({"action": "refund", "amountMinor": 5} | NOTE, "amountMinor"),
        ],
    )
    def test_invalid_resolution_fields_are_reported(
        self, shop_client: ShopClient, officer: dict[str, str], body: dict[str, Any], name: str
    ) -> None:
        _, quarantined_id = make_quarantined_charge(shop_client)

        answer = shop_client.post(f"/api/payments/quarantine/{quarantined_id}/resolve", officer, body)

        assert problem(answer) == (422, "VALIDATION_FAILED")
        assert [param["name"] for param in answer.json["invalid_params"]] == [name]
