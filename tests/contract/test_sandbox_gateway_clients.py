"""The sandbox gateway tolerates the request formats of the gateway's client libraries, and filters lists."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from sandbox.providers.gateway.answers import GatewayFailure
from sandbox.providers.gateway.banks import BANKS, UNKNOWN_ACCOUNT_PREFIX, account_holder
from tests.contract.sandbox_client import VENDOR_ACCOUNT, Client


def names(data: list[dict[str, Any]], field: str = "reference") -> list[Any]:
    return [one[field] for one in data]


@pytest.mark.parametrize(
    "path", ["/transaction", "/transaction/totals", "/customer", "/transfer", "/transferrecipient", "/bank"]
)
def test_path_may_end_with_a_slash(gateway: Client, path: str) -> None:
    assert gateway.ok("GET", f"{path}/") == gateway.ok("GET", path)


def test_amounts_may_be_text(gateway: Client) -> None:
    started = gateway.initialize("checkout-text-amount", amount="500000")  # type: ignore[arg-type]
    paid = gateway.ok("POST", f"/sandbox/pay/{started['reference']}")
    assert paid["amount"] == 500_000
    transfer = gateway.transfer("payout-text-amount", amount="10000")  # type: ignore[arg-type]
    assert transfer["amount"] == 10_000
    refund = gateway.ok("POST", "/refund", json={"transaction": paid["reference"], "amount": "2500"})
    assert refund["amount"] == 2_500


def test_form_is_read_like_json(gateway: Client) -> None:
    form = {
        "email": "ada@example.com",
        "amount": "500000",
        "reference": "checkout-form",
        "channels[]": ["card", "ussd"],
        "metadata[orderId]": "o",
    }
    gateway.ok("POST", "/transaction/initialize", data=form)
    paid = gateway.ok("POST", "/sandbox/pay/checkout-form")
    assert (paid["amount"], paid["metadata"]) == (500_000, {"orderId": "o"})
    recipient = gateway.ok(
        "POST", "/transferrecipient", data={"type": "nuban", "name": "N", **VENDOR_ACCOUNT}
    )
    transfers = {
        "source": "balance",
        **{
            f"transfers[{number}][{name}]": value
            for number in (0, 1)
            for name, value in (
                ("amount", "1000"),
                ("recipient", recipient["recipient_code"]),
                ("reference", f"payout-of-a-form-{number}"),
            )
        },
    }
    assert len(gateway.ok("POST", "/transfer/bulk", data=transfers)) == 2
    bank_transfer = {
        "email": "a@b.co",
        "amount": "100",
        "reference": "checkout-form-2",
        "bank_transfer": "{}",
    }
    assert gateway.ok("POST", "/charge", data=bank_transfer)["status"] == "pending_bank_transfer"


def test_json_labelled_as_form_is_read_as_json(gateway: Client) -> None:
    body = '{"email": "a@b.co", "amount": 100, "reference": "checkout-curl"}'
    headers = {**gateway.headers, "Content-Type": "application/x-www-form-urlencoded"}
    gateway.headers = headers
    assert gateway.ok("POST", "/transaction/initialize", data=body)["reference"] == "checkout-curl"


@pytest.mark.parametrize("form", ["amount=1&amount[x]=2&email=a@b.co", "email[a][b][c][d][e][f]=x", "=", "x"])
def test_malformed_form_is_refused(gateway: Client, form: str) -> None:
    gateway.headers = {**gateway.headers, "Content-Type": "application/x-www-form-urlencoded"}
    assert gateway.call("POST", "/transaction/initialize", data=form).status_code == 400


def test_new_recipient_is_answered_with_201_and_an_existing_one_with_200(gateway: Client) -> None:
    body = {"type": "nuban", "name": "Ngozi", "metadata": '{"store": "s"}', **VENDOR_ACCOUNT}
    first = gateway.call("POST", "/transferrecipient", json=body)
    again = gateway.call("POST", "/transferrecipient", json=body)
    assert (first.status_code, again.status_code) == (201, 200)
    recipient = first.json()["data"]
    assert recipient["metadata"] == {"store": "s"}
    assert again.json()["data"]["recipient_code"] == recipient["recipient_code"]


def test_recipients_are_listed_fetched_and_updated(gateway: Client) -> None:
    numbers = ("2234567890", "2234567891", "0001234567")
    batch = [
        {"type": "nuban", "name": number, "account_number": number, "bank_code": "058"} for number in numbers
    ]
    created = gateway.ok("POST", "/transferrecipient/bulk", json={"batch": batch})
    assert names(created["success"], "name") == list(numbers[:2])
    assert [error["payload"] for error in created["errors"]] == batch[2:]
    first, second = created["success"]
    assert gateway.ok("GET", "/transferrecipient") == [second, first]
    for name in (first["id"], first["recipient_code"]):
        assert gateway.ok("GET", f"/transferrecipient/{name}") == first
    updated = gateway.ok("PUT", f"/transferrecipient/{first['id']}", json={"name": "Renamed"})
    assert updated == {**first, "name": "Renamed"}
    for method in ("GET", "PUT"):
        assert gateway.call(method, "/transferrecipient/RCP_none", json={}).status_code == 404


def test_customers_are_listed_fetched_and_updated(gateway: Client) -> None:
    body = {"email": "ada@example.com", "first_name": "Ada", "metadata": {"a": 1}}
    ada = gateway.ok("POST", "/customer", json=body)
    bola = gateway.ok("POST", "/customer", json={"email": "bola@example.com"})
    assert gateway.ok("GET", "/customer") == [bola, ada]
    for name in (ada["id"], ada["customer_code"], ada["email"]):
        assert gateway.ok("GET", f"/customer/{name}") == ada
    path = f"/customer/{ada['customer_code']}"
    updated = gateway.ok("PUT", path, json={"last_name": "Obi", "email": "other@example.com"})
    assert (updated["email"], updated["first_name"], updated["last_name"]) == (
        "ada@example.com",
        "Ada",
        "Obi",
    )
    assert updated["metadata"] == {"a": 1}
    for method in ("GET", "PUT"):
        assert gateway.call(method, "/customer/CUS_none", json={}).status_code == 404


def test_dedicated_accounts_are_listed_filtered_and_fetched(gateway: Client) -> None:
    accounts = []
    for email in ("ada@example.com", "bola@example.com"):
        customer = gateway.ok("POST", "/customer", json={"email": email})
        accounts.append(gateway.ok("POST", "/dedicated_account", json={"customer": customer["id"]}))
    first, second = accounts
    assert gateway.ok("GET", "/dedicated_account") == [second, first]
    assert gateway.ok("GET", f"/dedicated_account/{first['id']}") == first
    assert gateway.call("GET", "/dedicated_account/999").status_code == 404
    code = first["customer"]["customer_code"]
    for query, expected in (
        (f"customer={code}", [first]),
        (f"customer={first['customer']['id']}", [first]),
        (f"account_number={second['account_number']}", [second]),
        ("active=True&currency=NGN&provider_slug=test-bank", [second, first]),
        ("active=false", []),
        ("currency=GHS", []),
        ("provider_slug=wema-bank", []),
    ):
        assert gateway.ok("GET", f"/dedicated_account?{query}") == expected, query


def test_transactions_are_filtered_by_customer_and_amount(gateway: Client) -> None:
    gateway.initialize("checkout-a", 1_000)
    gateway.initialize("checkout-b", 2_000)
    gateway.initialize("checkout-c", 1_000, email="bola@example.com")
    customer = gateway.ok("GET", "/customer/bola@example.com")
    for name in (customer["id"], customer["customer_code"], customer["email"]):
        assert names(gateway.ok("GET", f"/transaction?customer={name}")) == ["checkout-c"]
    assert names(gateway.ok("GET", "/transaction?amount=1000")) == ["checkout-c", "checkout-a"]
    assert names(gateway.ok("GET", f"/transaction?amount=2000&customer={customer['id']}")) == []
    assert gateway.call("GET", "/transaction?amount=many").status_code == 400
    gateway.ok("POST", "/sandbox/pay/checkout-b")
    for query, volume in (("", 2_000), (f"?customer={customer['id']}", 0)):
        assert gateway.call("GET", f"/transaction{query}").json()["meta"]["total_volume"] == volume


def test_transfers_are_filtered_by_recipient_and_amount(gateway: Client) -> None:
    gateway.ok("POST", "/sandbox/balance", json={"amountMinor": 100_000})
    transfer = gateway.transfer("payout-filter-one", 1_000)
    gateway.transfer("payout-filter-two", 2_000)
    code = gateway.recipient()
    for recipient in (code, transfer["recipient"]):
        assert len(gateway.ok("GET", f"/transfer?recipient={recipient}")) == 2
    assert names(gateway.ok("GET", f"/transfer?recipient={code}&amount=1000")) == ["payout-filter-one"]
    assert gateway.ok("GET", "/transfer?recipient=RCP_none") == []


def test_both_dates_of_a_range_are_inclusive(gateway: Client) -> None:
    gateway.initialize("checkout-dated")
    created_at = gateway.ok("GET", "/transaction/verify/checkout-dated")["created_at"]
    day = created_at[:10]
    for query in (
        f"from={day}&to={day}",
        f"from={created_at}&to={created_at}",
        f"to={created_at.replace(':', '%253A')}",  # escaped twice
    ):
        assert names(gateway.ok("GET", f"/transaction?{query}")) == ["checkout-dated"], query
    assert gateway.ok("GET", "/transaction?to=2020-01-01") == []
    assert gateway.call("GET", "/transaction?to=9999-12-31").status_code == 200


@pytest.mark.parametrize("path", ["/transaction", "/customer", "/balance/ledger"])
def test_lists_are_paginated_by_cursor(gateway: Client, path: str) -> None:
    for number in range(5):
        gateway.initialize(f"checkout-{number}", email=f"buyer-{number}@example.com")
        gateway.ok("POST", "/sandbox/balance", json={"amountMinor": 1})
    everything = gateway.ok("GET", path)
    pages = []
    query = f"{path}?use_cursor=true&perPage=2"
    cursor = ""
    while not pages or cursor:
        pages.append(gateway.call("GET", f"{query}&next={cursor}").json())
        cursor = pages[-1]["meta"]["next"]
    assert [one for page in pages for one in page["data"]] == everything
    assert [len(page["data"]) for page in pages] == [2, 2, 1]
    assert [page["meta"]["perPage"] for page in pages] == [2, 2, 2]
    assert pages[0]["meta"]["previous"] is None
    back = gateway.call("GET", f"{query}&previous={pages[2]['meta']['previous']}").json()
    assert back["data"] == pages[1]["data"]
    first = gateway.call("GET", f"{query}&previous={back['meta']['previous']}").json()
    assert (first["data"], first["meta"]["previous"]) == (pages[0]["data"], None)
    assert gateway.call("GET", f"{query}&next=odd").status_code == 400


def test_zero_means_the_default_page(gateway: Client) -> None:
    meta = gateway.call("GET", "/transfer?perPage=0&page=0").json()["meta"]
    assert (meta["perPage"], meta["page"]) == (50, 1)


def test_timeline_shows_the_attempt_to_pay(gateway: Client) -> None:
    gateway.initialize("checkout-timeline")
    before = gateway.ok("GET", "/transaction/timeline/checkout-timeline")
    assert (before["attempts"], before["success"], before["history"]) == (0, False, [])
    paid = gateway.ok("POST", "/sandbox/pay/checkout-timeline")
    for name in (paid["id"], paid["reference"]):
        assert gateway.ok("GET", f"/transaction/timeline/{name}") == paid["log"]
    assert gateway.call("GET", "/transaction/timeline/checkout-none").status_code == 400


def test_totals_count_paid_transactions_and_pending_transfers(gateway: Client) -> None:
    gateway.paid("checkout-total-1", 300_000)
    gateway.paid("checkout-total-2", 200_000, currency="USD")
    gateway.initialize("checkout-total-3")
    gateway.ok("POST", "/sandbox/transfers/next", json={"outcome": "success", "delaySeconds": 3_600})
    gateway.transfer("payout-of-totals-1", 10_000)
    today = datetime.now(UTC).date()
    assert gateway.ok("GET", f"/transaction/totals?to={today}") == {
        "total_transactions": 2,
        "unique_customers": 1,
        "total_volume": 500_000,
        "total_volume_by_currency": [
            {"currency": "NGN", "amount": 300_000},
            {"currency": "USD", "amount": 200_000},
        ],
        "pending_transfers": 10_000,
        "pending_transfers_by_currency": [{"currency": "NGN", "amount": 10_000}],
    }
    assert gateway.ok("GET", "/transaction/totals?to=2020-01-01")["total_transactions"] == 0


def test_pending_charge_is_checked_by_reference(gateway: Client) -> None:
    body = {"email": "a@b.co", "amount": 90_000, "reference": "checkout-check", "bank_transfer": {}}
    gateway.ok("POST", "/charge", json=body)
    assert gateway.ok("GET", "/charge/checkout-check")["status"] == "pending"
    gateway.ok("POST", "/sandbox/pay/checkout-check")
    checked = gateway.ok("GET", "/charge/checkout-check")
    assert (checked["status"], checked["source"]["entry_point"]) == ("success", "charge")
    paid = gateway.paid("checkout-page")
    assert paid["source"]["entry_point"] == "transaction_initialize"


def test_answers_have_the_fields_that_typed_clients_require(gateway: Client) -> None:
    gateway.ok("POST", "/sandbox/balance", json={"amountMinor": 100_000})
    assert all(bank["supports_transfer"] is True for bank in gateway.ok("GET", "/bank"))
    transfer = gateway.transfer("payout-with-session")
    fetched = gateway.ok("GET", f"/transfer/{transfer['transfer_code']}")
    assert transfer["session"] == fetched["session"] == {"provider": None, "id": None}
    customer = gateway.ok("POST", "/customer", json={"email": "a@b.co", "metadata": '{"a": 1}'})
    assert customer["metadata"] == {"a": 1}
    account = gateway.ok("POST", "/dedicated_account", json={"customer": customer["id"]})
    assert (account["metadata"], account["split_config"]) == ({}, {})


def test_banks_are_filtered_by_country(gateway: Client) -> None:
    everything = gateway.ok("GET", "/bank")
    assert gateway.ok("GET", "/bank?country=Nigeria&currency=NGN&use_cursor=False") == everything
    assert gateway.ok("GET", "/bank?country=ghana") == []
    assert gateway.ok("GET", "/bank?country=ghana&use_cursor=true") == []


@pytest.mark.parametrize("number", ["0010000000", "0100000000", "0123456789", "1000000000", "9999999999"])
def test_account_number_of_ten_digits_resolves_at_each_bank(number: str) -> None:
    for _, code in BANKS:
        assert account_holder(number, code)


def test_documented_account_numbers_are_refused() -> None:
    page = (Path(__file__).parents[2] / "docs" / "sandbox-gateway.md").read_text(encoding="utf-8")
    assert f"A number that starts with `{UNKNOWN_ACCOUNT_PREFIX}` is refused with status 422" in page
    with pytest.raises(GatewayFailure) as refused:
        account_holder(f"{UNKNOWN_ACCOUNT_PREFIX}1234567", "058")
    assert refused.value.status == 422
