"""Transfers and refunds at the sandbox gateway: default outcomes, planned outcomes, and lost responses."""

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import requests

from tests.contract.sandbox_client import (
    BOUND_SECONDS,
    VENDOR_ACCOUNT,
    Client,
    Receiver,
    providers,
    wait_until,
)


def test_transfer_succeeds_and_is_deducted_from_the_balance(gateway: Client, receiver: Receiver) -> None:
    gateway.paid("checkout-funds")
    sent = gateway.transfer("payout-0123456789abcdef", 100_000)
    assert (sent["status"], sent["amount"]) == ("pending", 100_000)
    assert gateway.balance() == 382_500
    event = wait_until(lambda: receiver.events("transfer.success"))[0]["data"]
    assert event["reference"] == "payout-0123456789abcdef"
    assert event["recipient"]["details"]["account_number"] == VENDOR_ACCOUNT["account_number"]
    verified = gateway.ok("GET", "/transfer/verify/payout-0123456789abcdef")
    assert verified == event
    assert verified["status"] == "success"
    assert [one["id"] for one in gateway.ok("GET", "/transfer?status=success")] == [verified["id"]]
    assert gateway.ok("GET", f"/transfer/{verified['transfer_code']}") == verified
    assert gateway.call("GET", "/transfer/verify/payout-none").status_code == 404


def test_same_reference_creates_a_single_transfer(gateway: Client) -> None:
    gateway.paid("checkout-funds")
    with ThreadPoolExecutor(10) as pool:
        sent = list(pool.map(lambda _: gateway.transfer("payout-same-reference")["id"], range(10)))
    assert len(set(sent)) == 1
    assert gateway.balance() == 472_500
    counted = gateway.ok("GET", "/sandbox/calls?reference=payout-same-reference")
    assert counted["operations"] == {"POST /transfer": 10}
    other = {
        "source": "balance",
        "amount": 1,
        "recipient": gateway.recipient(),
        "reference": "payout-same-reference",
    }
    assert gateway.call("POST", "/transfer", json=other).status_code == 400


def test_transfer_beyond_the_balance_is_refused(gateway: Client) -> None:
    body = {
        "source": "balance",
        "amount": 1,
        "recipient": gateway.recipient(),
        "reference": "payout-too-much-xx",
    }
    refused = gateway.call("POST", "/transfer", json=body)
    assert (refused.status_code, refused.json()["code"]) == (400, "insufficient_balance")
    assert gateway.call("GET", "/transfer/verify/payout-too-much-xx").status_code == 404


@pytest.mark.parametrize("outcome", ["failed", "reversed"])
def test_next_transfer_has_the_planned_outcome_and_returns_the_money(
    gateway: Client, receiver: Receiver, outcome: str
) -> None:
    gateway.paid("checkout-funds")
    gateway.ok("POST", "/sandbox/transfers/next", json={"outcome": outcome})
    gateway.transfer("payout-goes-wrong-1")
    gateway.transfer("payout-goes-right-1")
    event = wait_until(lambda: receiver.events(f"transfer.{outcome}"))[0]
    assert event["data"]["reference"] == "payout-goes-wrong-1"
    assert wait_until(lambda: receiver.events("transfer.success"))[0]["data"]["reference"].endswith("right-1")
    assert gateway.balance() == 472_500


def test_transfer_with_timed_out_response_still_takes_effect(gateway: Client, receiver: Receiver) -> None:
    gateway.paid("checkout-funds")
    recipient = gateway.recipient()
    gateway.ok("POST", "/sandbox/transfers/next", json={"outcome": "timeout"})
    body = {"source": "balance", "amount": 5_000, "recipient": recipient, "reference": "payout-unheard-of-1"}
    with pytest.raises(requests.ReadTimeout):
        requests.post(f"{gateway.url}/transfer", json=body, headers=gateway.headers, timeout=0.5)
    event = wait_until(lambda: receiver.events("transfer.success"))[0]
    assert event["data"]["reference"] == "payout-unheard-of-1"
    assert gateway.ok("POST", "/transfer", json=body)["status"] == "success"
    assert gateway.balance() == 477_500


def test_hanging_call_does_not_delay_the_shutdown(receiver: Receiver, tmp_path: Path) -> None:
    server = providers(receiver, tmp_path, hang_seconds=120.0)
    server.start()
    client = Client(server.gateway_url)
    client.paid("checkout-funds")
    client.ok("POST", "/sandbox/transfers/next", json={"outcome": "timeout"})
    with ThreadPoolExecutor(1) as pool:
        hanging = pool.submit(client.transfer, "payout-hangs-for-long")
        wait_until(lambda: client.ok("GET", "/transfer"))
        started = time.monotonic()
        server.stop()
        assert hanging.result(timeout=BOUND_SECONDS)["reference"] == "payout-hangs-for-long"
    assert time.monotonic() - started < 10


def test_bulk_transfer_sends_all_or_none(gateway: Client, receiver: Receiver) -> None:
    gateway.paid("checkout-funds")
    recipient = gateway.recipient()
    items = [
        {"amount": 1_000, "recipient": recipient, "reference": f"payout-bulk-number-{number:03d}"}
        for number in range(101)
    ]
    too_many = gateway.call("POST", "/transfer/bulk", json={"source": "balance", "transfers": items})
    assert too_many.status_code == 400
    assert "at most 100" in too_many.json()["message"]
    sent = gateway.ok("POST", "/transfer/bulk", json={"source": "balance", "transfers": items[:100]})
    wanted = {one["reference"] for one in items[:100]}
    assert [one["reference"] for one in sent] == [one["reference"] for one in items[:100]]
    assert gateway.balance() == 382_500
    # Delivery is at least once: on a busy machine a response may be late, and the event is repeated.
    wait_until(lambda: {one["data"]["reference"] for one in receiver.events("transfer.success")} >= wanted)
    again = gateway.call("POST", "/transfer/bulk", json={"source": "balance", "transfers": items[99:]})
    assert again.status_code == 404
    assert items[99]["reference"] in again.json()["message"]
    assert gateway.call("GET", f"/transfer/verify/{items[100]['reference']}").status_code == 404
    wrong = [{**items[100], "amount": 1.0}]
    assert gateway.call("POST", "/transfer/bulk", json={"transfers": wrong}).status_code == 400


def test_refund_goes_from_pending_to_processed(gateway: Client, receiver: Receiver) -> None:
    gateway.paid("checkout-back")
    body = {"transaction": "checkout-back", "amount": 200_000, "merchant_note": "ours-1"}
    made = gateway.ok("POST", "/refund", json=body)
    assert (made["status"], made["amount"]) == ("pending", 200_000)
    assert made["transaction"]["reference"] == "checkout-back"
    pending = wait_until(lambda: receiver.events("refund.pending"))[0]["data"]
    processed = wait_until(lambda: receiver.events("refund.processed"))[0]["data"]
    assert pending["transaction_reference"] == processed["transaction_reference"] == "checkout-back"
    assert (processed["id"], processed["amount"]) == (made["id"], 200_000)
    fetched = gateway.ok("GET", f"/refund/{made['id']}")
    assert (fetched["status"], fetched["merchant_note"]) == ("processed", "ours-1")
    assert [one["id"] for one in gateway.ok("GET", "/refund?transaction=checkout-back")] == [made["id"]]
    assert gateway.balance() == 282_500


def test_refunds_never_exceed_the_paid_amount(gateway: Client, receiver: Receiver) -> None:
    gateway.paid("checkout-limit")
    body = {"transaction": "checkout-limit", "amount": 300_000}
    with ThreadPoolExecutor(5) as pool:
        answers = list(pool.map(lambda _: gateway.call("POST", "/refund", json=body).status_code, range(5)))
    assert sorted(answers) == [200, 400, 400, 400, 400]
    assert gateway.ok("POST", "/refund", json={"transaction": "checkout-limit"})["amount"] == 200_000
    whole = gateway.call("POST", "/refund", json={"transaction": "checkout-limit"})
    assert whole.json()["message"] == "Transaction has been fully reversed"
    wait_until(lambda: len(receiver.events("refund.processed")) == 2)
    assert gateway.ok("GET", "/transaction/verify/checkout-limit")["status"] == "reversed"
    assert gateway.balance() == -17_500
    gateway.initialize("checkout-unpaid")
    assert gateway.call("POST", "/refund", json={"transaction": "checkout-unpaid"}).status_code == 400
    assert gateway.call("POST", "/refund", json={"transaction": "checkout-none"}).status_code == 404


@pytest.mark.parametrize(
    ("outcome", "status", "balance"),
    [
        ("failed", "failed", 482_500),
        ("reversed", "failed", 482_500),
        ("needs-attention", "needs-attention", -17_500),
    ],
)
def test_next_refund_ends_as_planned(
    gateway: Client, receiver: Receiver, outcome: str, status: str, balance: int
) -> None:
    gateway.paid("checkout-odd")
    gateway.ok("POST", "/sandbox/refunds/next", json={"outcome": outcome})
    made = gateway.ok("POST", "/refund", json={"transaction": "checkout-odd"})
    wait_until(lambda: receiver.events(f"refund.{status}"))
    assert gateway.ok("GET", f"/refund/{made['id']}")["status"] == status
    assert gateway.balance() == balance
