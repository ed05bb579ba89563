"""The sandbox gateway over real HTTP: charge behaviour that clients of the real gateway rely on."""

import hashlib
import hmac
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from sandbox.providers.gateway.charges import fee_of
from tests.contract.sandbox_client import (
    SECRET_KEY,
    VENDOR_ACCOUNT,
    Client,
    Receiver,
    providers,
    wait_until,
)


def test_paid_charge_is_verified_listed_credited_and_sent_as_signed_event(
    gateway: Client, receiver: Receiver
) -> None:
    metadata = {"userId": "u", "orderId": "o", "settlement": "platform_escrow"}
    started = gateway.initialize("checkout-1", 500_000, metadata=metadata)
    assert started["reference"] == "checkout-1"
    assert started["authorization_url"] == f"{gateway.url}/pay/{started['access_code']}"
    before = gateway.ok("GET", "/transaction/verify/checkout-1")
    assert (before["status"], before["paid_at"], before["fees"]) == ("abandoned", None, None)

    gateway.ok("POST", "/sandbox/pay/checkout-1")

    verified = gateway.ok("GET", "/transaction/verify/checkout-1")
    assert (verified["status"], verified["amount"], verified["fees"]) == ("success", 500_000, 17_500)
    assert verified["metadata"] == metadata
    assert verified["customer"]["email"] == "ada@example.com"
    assert isinstance(verified["id"], int)
    assert [one["reference"] for one in gateway.ok("GET", "/transaction")] == ["checkout-1"]
    assert gateway.balance() == 482_500
    wait_until(receiver.events)
    headers, raw = receiver.received[0]
    expected = hmac.new(SECRET_KEY.encode(), raw, hashlib.sha512).hexdigest()
    assert headers["x-gateway-signature"] == expected
    event = json.loads(raw)
    assert event["event"] == "charge.success"
    assert event["data"] == verified
    assert all(isinstance(event["data"]["authorization"][name], str) for name in ("bin", "last4", "exp_year"))


@pytest.mark.parametrize("channel", ["card", "bank_transfer", "ussd"])
def test_charge_is_paid_by_the_requested_channel(gateway: Client, channel: str) -> None:
    paid = gateway.paid("checkout-channel", channel=channel)
    assert (paid["channel"], paid["authorization"]["channel"]) == (channel, channel)


def test_metadata_sent_as_text_is_returned_as_text(gateway: Client) -> None:
    gateway.initialize("checkout-text", metadata='{"orderId":"o"}')
    assert gateway.ok("GET", "/transaction/verify/checkout-text")["metadata"] == '{"orderId":"o"}'


def test_reference_can_be_used_only_once(gateway: Client) -> None:
    gateway.initialize("checkout-once")
    body = {"email": "a@b.co", "amount": 100, "reference": "checkout-once"}
    again = gateway.call("POST", "/transaction/initialize", json=body)
    assert again.status_code == 400
    assert (again.json()["status"], again.json()["message"]) == (False, "Duplicate Transaction Reference")
    assert gateway.ok("GET", "/transaction/verify/checkout-once")["amount"] == 500_000


def test_fifty_concurrent_initializations_create_a_single_charge(gateway: Client) -> None:
    body = {"email": "a@b.co", "amount": 100, "reference": "checkout-race"}
    with ThreadPoolExecutor(50) as pool:
        answers = list(
            pool.map(
                lambda _: gateway.call("POST", "/transaction/initialize", json=body).status_code, range(50)
            )
        )
    assert sorted(answers) == [200] + [400] * 49
    assert gateway.ok("GET", "/sandbox/calls?reference=checkout-race")["total"] == 50


@pytest.mark.parametrize(
    "wrong",
    [
        {"amount": 100.0},
        {"amount": "100.0"},
        {"amount": " 100"},
        {"amount": ""},
        {"amount": True},
        {"amount": 0},
        {"amount": -5},
        {"amount": 10**30},
        {"amount": None},
        {"email": "nobody"},
        {"email": None},
        {"reference": "with space"},
        {"reference": "x" * 101},
        {"callback_url": "javascript:alert(1)"},
        {"currency": "XXX"},
        {"channels": "card"},
        {"channels": ["carrier pigeon"]},
    ],
)
def test_invalid_field_is_refused(gateway: Client, wrong: dict[str, object]) -> None:
    body = {"email": "a@b.co", "amount": 100, "reference": "checkout-wrong", **wrong}
    response = gateway.call("POST", "/transaction/initialize", json=body)
    assert response.status_code == 400
    assert response.json()["status"] is False
    assert response.json()["type"] == "validation_error"
    assert gateway.ok("GET", "/transaction") == []


@pytest.mark.parametrize("raw", [b"", b"{", b"[]", b"null", b"\xff"])
def test_body_that_is_not_an_object_is_refused(gateway: Client, raw: bytes) -> None:
    assert gateway.call("POST", "/transaction/initialize", data=raw).status_code == 400


@pytest.mark.parametrize("key", ["", "sk_test_other", "Ünicode".encode().decode("latin-1")])
def test_wrong_key_is_refused(gateway: Client, key: str) -> None:
    response = Client(gateway.url, key).call("GET", "/balance")
    assert response.status_code == 401
    assert (response.json()["status"], response.json()["message"]) == (False, "Invalid key")


def test_unknown_reference_and_route_are_refused(gateway: Client) -> None:
    missing = gateway.call("GET", "/transaction/verify/checkout-none")
    assert (missing.status_code, missing.json()["message"]) == (400, "Transaction reference not found.")
    assert gateway.call("GET", "/nowhere").json()["status"] is False
    assert gateway.call("GET", "/nowhere").status_code == 404
    assert gateway.call("GET", f"/transaction/{10**22}").status_code == 404
    assert gateway.call("POST", "/transaction/initialize", data="[" * 100_000).status_code == 400
    assert gateway.call("DELETE", "/balance").status_code == 405


def test_charge_by_bank_transfer_gets_a_single_account(gateway: Client, receiver: Receiver) -> None:
    body = {"email": "a@b.co", "amount": 90_000, "reference": "checkout-bank", "bank_transfer": {}}
    first = gateway.ok("POST", "/charge", json=body)
    assert first["status"] == "pending_bank_transfer"
    assert len(first["account_number"]) == 10
    assert gateway.ok("POST", "/charge", json=body)["account_number"] == first["account_number"]
    assert gateway.call("POST", "/charge", json={**body, "amount": 1}).status_code == 400
    assert gateway.ok("GET", "/transaction/verify/checkout-bank")["status"] == "pending"
    gateway.ok("POST", "/sandbox/pay/checkout-bank", json={"channel": "bank_transfer"})
    event = wait_until(receiver.events)[0]
    assert (event["data"]["reference"], event["data"]["channel"]) == ("checkout-bank", "bank_transfer")


def test_lists_are_paginated_and_filtered_by_time(gateway: Client) -> None:
    for number in range(5):
        gateway.initialize(f"checkout-page-{number}")
    seen = []
    for page in (1, 2, 3):
        response = gateway.call("GET", f"/transaction?perPage=2&page={page}").json()
        seen += [one["reference"] for one in response["data"]]
        assert (response["meta"]["total"], response["meta"]["pageCount"]) == (5, 3)
    assert seen == [f"checkout-page-{number}" for number in (4, 3, 2, 1, 0)]
    assert gateway.ok("GET", "/transaction?from=2999-01-01") == []
    assert len(gateway.ok("GET", "/transaction?from=2020-01-01&to=2999-01-01T00:00:00Z")) == 5
    for wrong in ("perPage=-1", "perPage=101", "page=x", "from=yesterday", "status=odd"):
        assert gateway.call("GET", f"/transaction?{wrong}").status_code == 400


@pytest.mark.parametrize(
    ("amount", "fee"),
    [
        (100, 1),
        (249_999, 3_749),
        (250_000, 13_750),
        (12_666_600, 199_999),
        (12_700_000, 200_000),
        (10**12, 200_000),
    ],
)
def test_fee_follows_the_price_list(amount: int, fee: int) -> None:
    assert fee_of(amount) == fee


def test_amount_includes_fees_if_customer_bears_fees(receiver: Receiver, tmp_path: Path) -> None:
    with providers(receiver, tmp_path, fee_bearer="customer") as server:
        paid = Client(server.gateway_url).paid("checkout-bearer", 100_000)
        assert (paid["requested_amount"], paid["fees"], paid["amount"]) == (100_000, 1_500, 101_500)
        assert Client(server.gateway_url).balance() == 100_000


def test_banks_are_listed_and_account_names_are_resolved(gateway: Client) -> None:
    banks = gateway.ok("GET", "/bank")
    assert {"name": "Guaranty Trust Bank", "code": "058"}.items() <= next(
        bank for bank in banks if bank["code"] == "058"
    ).items()
    first = gateway.call("GET", "/bank?use_cursor=true&perPage=10").json()
    second = gateway.call("GET", f"/bank?use_cursor=true&perPage=100&next={first['meta']['next']}").json()
    assert first["data"] + second["data"] == banks
    assert second["meta"]["next"] is None
    resolved = gateway.ok("GET", "/bank/resolve", params=VENDOR_ACCOUNT)
    assert resolved["account_number"] == VENDOR_ACCOUNT["account_number"]
    assert resolved == gateway.ok("GET", "/bank/resolve", params=VENDOR_ACCOUNT)
    for number, code, status in (
        ("0001234567", "058", 422),
        ("12345", "058", 422),
        ("2234567890", "000", 400),
    ):
        wrong = gateway.call("GET", "/bank/resolve", params={"account_number": number, "bank_code": code})
        assert wrong.status_code == status


def test_bank_account_has_a_single_recipient(gateway: Client) -> None:
    assert gateway.recipient() == gateway.recipient()
    body = {"type": "nuban", "name": "X", "account_number": "0000000000", "bank_code": "058"}
    assert gateway.call("POST", "/transferrecipient", json=body).status_code == 422


def test_customer_gets_a_single_dedicated_account(gateway: Client, receiver: Receiver) -> None:
    customer = gateway.ok("POST", "/customer", json={"email": "ada@example.com", "first_name": "Ada"})
    assert gateway.ok("GET", "/customer/ADA@example.com")["id"] == customer["id"]
    body = {"customer": customer["customer_code"]}
    account = gateway.ok("POST", "/dedicated_account", json=body)
    assert gateway.ok("POST", "/dedicated_account", json=body)["account_number"] == account["account_number"]
    path = f"/sandbox/dedicated-accounts/{account['account_number']}/pay"
    paid = gateway.ok("POST", path, json={"amountMinor": 70_000})
    assert (paid["channel"], paid["customer"]["id"]) == ("dedicated_nuban", customer["id"])
    assert wait_until(receiver.events)[0]["data"]["reference"] == paid["reference"]
    assign = {"email": "b@example.com", "first_name": "B", "last_name": "C", "phone": "+2347000000099"}
    gateway.ok("POST", "/dedicated_account/assign", json=assign)
    wait_until(lambda: receiver.events("dedicatedaccount.assign.success"))


def test_settlement_moves_the_balance_to_the_bank(gateway: Client) -> None:
    gateway.paid("checkout-settle")
    assert gateway.call("POST", "/sandbox/settlements", json={"amountMinor": 482_501}).status_code == 400
    settled = gateway.ok("POST", "/sandbox/settlements")
    assert settled["total_amount"] == 482_500
    assert gateway.ok("GET", "/settlement") == [settled]
    assert gateway.balance() == 0
    assert gateway.ok("POST", "/sandbox/balance", json={"amountMinor": 7})["balance"] == 7
    entries = gateway.ok("GET", "/balance/ledger")
    assert [one["difference"] for one in entries] == [7, -482_500, 482_500]
    assert sum(one["difference"] for one in entries) == gateway.balance()
