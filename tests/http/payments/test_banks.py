"""Bank list, account name resolution and payment by transfer to a virtual account."""

from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest

from marketplace.cart.operations import RequestedItem
from marketplace.infra.settings import Settings
from marketplace.kernel.errors import ProviderUnavailableError
from marketplace.orders.deadlines import BANK_TRANSFER_GRACE_PERIOD
from marketplace.payments.intents.expiry import sweep_abandoned_checkouts
from marketplace.providers.client import ProviderRefusedError
from marketplace.providers.gateway.fields import MalformedGatewayDataError
from marketplace.providers.gateway.payloads import Bank, GatewayTransferAccount
from marketplace.services import Services
from tests.support.gateway import MovableClock, TestGateway
from tests.support.probes import assert_problem, faults
from tests.support.purchases import (
    NOW,
    assert_ledger_is_consistent,
    check_out,
    later,
    make_product,
    neighbours,
    row_of,
    status_of,
)
from tests.support.shop_client import ShopClient, new_key

BANKS, RESOLVE, ACCOUNT = (f"/api/payments/{name}" for name in ("banks", "bank/resolve", "virtual-account"))
GTB = {"accountNumber": "2234567890", "bankCode": "058"}
FAULTS = ["refuse", "lose", "garble"]


pytestmark = pytest.mark.usefixtures("forgotten_banks")


class TestBanks:
    def test_bank_list_is_fetched_once_and_cached(
        self, shop_client: ShopClient, gateway: TestGateway
    ) -> None:
        first = shop_client.get(BANKS, shop_client.buyer).json["data"]

        assert {"code": "058", "name": "Guaranty Trust Bank"} in first
        assert [bank["name"] for bank in first] == sorted((bank["name"] for bank in first), key=str.casefold)
        gateway.proxy.fault = "refuse"
        assert shop_client.get(BANKS, shop_client.vendor).json["data"] == first
        assert len(gateway.proxy.calls) == 1

    @pytest.mark.parametrize("fault", FAULTS)
    def test_bank_list_without_gateway_fails_and_failure_is_not_cached(
        self, shop_client: ShopClient, gateway: TestGateway, fault: str
    ) -> None:
        gateway.proxy.fault = fault
        assert_problem(shop_client.get(BANKS, shop_client.buyer), 502, "PROVIDER_UNAVAILABLE")

        gateway.proxy.fault = None
        assert shop_client.get(BANKS, shop_client.buyer).status_code == 200

    def test_bank_list_requires_a_token(self, shop_client: ShopClient) -> None:
        assert_problem(shop_client.client.get(BANKS), 401, "AUTH_UNAUTHORIZED")


class TestResolve:
    def test_account_resolution_returns_the_name(self, shop_client: ShopClient) -> None:
        answer = shop_client.post(RESOLVE, shop_client.vendor, GTB)

        assert answer.status_code == 200
        found = answer.json["data"]
        assert found == GTB | {"bankName": "Guaranty Trust Bank", "accountName": found["accountName"]}
        assert found["accountName"].isupper()

    @pytest.mark.parametrize(
        ("body", "named"),
        [
            (GTB | {"accountNumber": "0001234567"}, ["accountNumber"]),
            (GTB | {"bankCode": "99999"}, ["bankCode"]),
            (GTB | {"accountNumber": "123456789"}, ["accountNumber"]),
            (GTB | {"accountNumber": "12345678901"}, ["accountNumber"]),
            (GTB | {"accountNumber": 1234567890}, ["accountNumber"]),
            (GTB | {"bankCode": "../x"}, ["bankCode"]),
            (GTB | {"bvn": "1"}, ["bvn"]),
            ({}, ["accountNumber", "bankCode"]),
        ],
        ids=repr,
    )
    def test_invalid_bank_account_fields_are_reported(
        self, shop_client: ShopClient, body: dict[str, Any], named: list[str]
    ) -> None:
        assert sorted(faults(shop_client.post(RESOLVE, shop_client.buyer, body))) == named

    def test_unknown_account_has_a_reason(self, shop_client: ShopClient) -> None:
        answer = shop_client.post(RESOLVE, shop_client.buyer, GTB | {"accountNumber": "0001234567"})

        assert answer.json["reason"] == "unknown-bank-account"

    @pytest.mark.parametrize("fault", FAULTS)
    def test_account_resolution_without_gateway_is_unavailable(
        self, shop_client: ShopClient, gateway: TestGateway, fault: str
    ) -> None:
        assert shop_client.get(BANKS, shop_client.buyer).status_code == 200
        gateway.proxy.fault = fault

        assert_problem(shop_client.post(RESOLVE, shop_client.buyer, GTB), 502, "PROVIDER_UNAVAILABLE")


def account_for(shop_client: ShopClient, order_id: UUID | str, name: str = "orderId") -> dict[str, Any]:
    answer = shop_client.post(ACCOUNT, shop_client.buyer, {name: str(order_id)})
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json["data"]
    return found


def verify(shop_client: ShopClient, reference: str) -> dict[str, Any]:
    answer = shop_client.post("/api/payments/verify", shop_client.buyer, {"reference": reference})
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json["data"]
    return found


class TestVirtualAccount:
    def test_transfer_to_virtual_account_pays_the_order(
        self, shop_client: ShopClient, gateway: TestGateway
    ) -> None:
        order_id = shop_client.unpaid()

        account = account_for(shop_client, order_id)
        again = account_for(shop_client, order_id)

        assert again == account
        assert len(account["accountNumber"]) == 10
        assert account["expiresAt"] == later(minutes=30).isoformat().replace("+00:00", "Z")
        assert gateway.proxy.calls == ["POST /gateway/charge"]
        gateway.pay(account["reference"], channel="bank_transfer")
        assert verify(shop_client, account["reference"])["status"] == "succeeded"
        with shop_client.database.reading() as session:
            assert status_of(session, order_id) == "paid_escrow"
            assert row_of(session, "orders", id=order_id)["payment_channel"] == "bank_transfer"
            assert row_of(session, "orders", id=order_id)["total_minor"] == account["amountMinor"]
            assert_ledger_is_consistent(session)
        assert_problem(
            shop_client.post(ACCOUNT, shop_client.buyer, {"orderId": str(order_id)}),
            409,
            "CONCURRENCY_CONFLICT",
        )

    def test_checkout_shares_a_virtual_account_for_all_orders(
        self, shop_client: ShopClient, gateway: TestGateway
    ) -> None:
        with shop_client.database.transaction() as session:
            shops = neighbours(session, shop_client.shop, 2)
            made = check_out(
                session, shop_client.shop, [RequestedItem(make_product(session, shop), 1) for shop in shops]
            )

        account = account_for(shop_client, made.checkout_id, "checkoutId")

        gateway.pay(account["reference"], channel="bank_transfer")
        paid = verify(shop_client, account["reference"])
        assert {order["status"] for order in paid["orders"]} == {"paid_escrow"}
        assert len(paid["orders"]) == 2

    def test_transfer_below_total_is_quarantined(self, shop_client: ShopClient, gateway: TestGateway) -> None:
        order_id = shop_client.unpaid()
        account = account_for(shop_client, order_id)

        gateway.pay(account["reference"], channel="bank_transfer", amountMinor=account["amountMinor"] - 1)

        assert verify(shop_client, account["reference"])["status"] == "quarantined"

    def test_payment_on_hosted_page_after_transfer_is_refunded(
        self, shop_client: ShopClient, gateway: TestGateway
    ) -> None:
        order_id = shop_client.unpaid()
        first = account_for(shop_client, order_id)

        page = shop_client.post(
            "/api/payments/initialize", shop_client.buyer, {"orderId": str(order_id)}, key=new_key()
        ).json["data"]
        assert page["reference"] != first["reference"]
        later_account = account_for(shop_client, order_id)
        assert later_account["reference"] == page["reference"]

        gateway.pay(first["reference"], channel="bank_transfer")
        verify(shop_client, first["reference"])
        with shop_client.database.reading() as session:
            assert status_of(session, order_id) == "paid_escrow"
        # The second payment is refunded in full.
        gateway.pay(page["reference"])
        verify(shop_client, page["reference"])
        [refund] = shop_client.get(f"/api/orders/{order_id}", shop_client.buyer).json["data"]["refunds"]
        assert (refund["destination"], refund["amountMinor"]) == ("gateway", first["amountMinor"])

    def test_expired_virtual_account_is_replaced(self, shop_client: ShopClient, clock: MovableClock) -> None:
        order_id = shop_client.unpaid()
        first = account_for(shop_client, order_id)
        with shop_client.database.transaction() as session:
            session.connection().exec_driver_sql(
                "UPDATE transfer_accounts SET expires_at = %s", (NOW + timedelta(minutes=1),)
            )

        clock.now = later(minutes=2)
        second = account_for(shop_client, order_id)

        assert second["reference"] != first["reference"]
        assert second["accountNumber"] != first["accountNumber"]

    @pytest.mark.parametrize("fault", FAULTS)
    def test_virtual_account_request_succeeds_after_gateway_recovers(
        self, shop_client: ShopClient, gateway: TestGateway, fault: str
    ) -> None:
        order_id = shop_client.unpaid()
        gateway.proxy.fault = fault
        assert_problem(
            shop_client.post(ACCOUNT, shop_client.buyer, {"orderId": str(order_id)}),
            502,
            "PROVIDER_UNAVAILABLE",
        )

        gateway.proxy.fault = None
        account = account_for(shop_client, order_id)

        assert gateway.charge(account["reference"]).status == "pending"

    def test_order_expires_after_bank_transfer_grace_period(
        self, shop_client: ShopClient, gateway: TestGateway, paying_services: Services
    ) -> None:
        order_id = shop_client.unpaid()
        account = account_for(shop_client, order_id)
        until = later(minutes=30)

        def sweep(minutes: float) -> str:
            sweep_abandoned_checkouts(
                shop_client.database,
                paying_services.gateway,
                fee_bearer="platform",
                now=until + timedelta(minutes=minutes),
            )
            with shop_client.database.reading() as session:
                return status_of(session, order_id)

        grace = BANK_TRANSFER_GRACE_PERIOD.total_seconds() / 60
        assert sweep(grace - 1) == "pending_payment"
        assert sweep(grace) == "expired"
        gateway.pay(account["reference"], channel="bank_transfer")
        verify(shop_client, account["reference"])
        with shop_client.database.reading() as session:
            assert row_of(session, "refunds", order_id=order_id)["amount_minor"] == account["amountMinor"]
            assert_ledger_is_consistent(session)

    def test_sweep_finds_transfer_without_webhook(
        self, shop_client: ShopClient, gateway: TestGateway, paying_services: Services
    ) -> None:
        order_id = shop_client.unpaid()
        gateway.pay(account_for(shop_client, order_id)["reference"], channel="bank_transfer")

        sweep_abandoned_checkouts(
            shop_client.database, paying_services.gateway, fee_bearer="platform", now=later(hours=2)
        )

        with shop_client.database.reading() as session:
            assert status_of(session, order_id) == "paid_escrow"

    def test_virtual_account_is_shown_to_the_buyer_only(self, shop_client: ShopClient) -> None:
        order_id = str(shop_client.unpaid())
        for headers in (shop_client.vendor, shop_client.stranger, shop_client.officer()):
            assert_problem(
                shop_client.post(ACCOUNT, headers, {"orderId": order_id}), 404, "RESOURCE_NOT_FOUND"
            )
        both = {"orderId": order_id, "checkoutId": str(uuid4())}
        assert faults(shop_client.post(ACCOUNT, shop_client.buyer, both)) == ["orderId"]
        assert faults(shop_client.post(ACCOUNT, shop_client.buyer, {})) == ["orderId"]
        assert_problem(shop_client.client.post(ACCOUNT, json={"orderId": order_id}), 401, "AUTH_UNAUTHORIZED")


class TestAdapter:
    def test_malformed_transfer_account_is_refused(self) -> None:
        data = {
            "reference": "a",
            "bank": {"name": "Test Bank"},
            "account_number": "1234567890",
            "account_name": "CHECKOUT",
            "account_expires_at": "2026-11-20T10:00:00",
        }
        assert GatewayTransferAccount.from_wire(data, reference="a").expires_at == later(minutes=30)
        for wrong in (
            {"reference": "b"},
            {"bank": None},
            {"account_number": 1234567890},
            {"account_name": ""},
            {"account_expires_at": "soon"},
        ):
            with pytest.raises(MalformedGatewayDataError):
                GatewayTransferAccount.from_wire(data | wrong, reference="a")

    def test_inactive_banks_are_omitted_and_malformed_list_is_refused(self) -> None:
        row = {"code": "1", "name": "One"}
        listed = [row, row | {"active": False}, row | {"is_deleted": True}, "x"]
        assert Bank.list_from_wire(listed) == [Bank("1", "One")]
        for wrong in ({}, [{"code": 1, "name": "One"}], None):
            with pytest.raises(MalformedGatewayDataError):
                Bank.list_from_wire(wrong)

    def test_transfer_account_for_paid_reference_is_refused(
        self, gateway: TestGateway, settings: Settings
    ) -> None:
        reference = f"checkout-{uuid4().hex}"
        gateway.open(reference, 5_000)
        gateway.pay(reference)

        with pytest.raises(ProviderRefusedError):
            gateway.adapter(settings).create_transfer_account(
                reference=reference, amount_minor=5_000, email="ada@example.com", expires_at=NOW, metadata={}
            )

    def test_hanging_gateway_is_unavailable_after_timeout(
        self, gateway: TestGateway, settings: Settings
    ) -> None:
        gateway.proxy.fault = "hang"
        with pytest.raises(ProviderUnavailableError):
            gateway.adapter(settings).resolve_account_name(account_number="2234567890", bank_code="058")
        gateway.proxy.release()
