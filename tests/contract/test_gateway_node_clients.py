"""Client libraries of the real gateway for Node.js work against the sandbox gateway, unchanged.

``make test`` installs the libraries if Node.js is at hand. Each client calls every method whose endpoint the sandbox
has.
"""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.contract.sandbox_client import (
    BOUND_SECONDS,
    SECRET_KEY,
    Client,
    Receiver,
    providers,
    wait_until,
)

FOLDER = Path(__file__).parent / "node_clients"
NODE = shutil.which("node")
IS_INSTALLED = NODE is not None and (FOLDER / "node_modules").is_dir()
# A machine without Node.js skips these tests. A CI that cannot run them must not pass.
pytestmark = pytest.mark.skipif(
    not IS_INSTALLED and not (NODE and os.environ.get("CI")),
    reason="Node.js or its packages are missing; with Node.js and npm: make gateway-clients",
)

NOW = datetime.now(UTC)
DATES = {
    "from": {"$date": (NOW - timedelta(days=1)).isoformat()},
    "to": {"$date": (NOW + timedelta(days=1)).isoformat()},
}


class RefusedError(Exception):
    """The client library threw an error."""


class NodeClient:
    """A client library in a process of Node.js."""

    def __init__(self, library: str, gateway: Client) -> None:
        assert IS_INSTALLED, "the packages are missing; run make gateway-clients"
        self._process = subprocess.Popen(
            [str(NODE), str(FOLDER / "driver.cjs"), library, gateway.url, SECRET_KEY],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __call__(self, method: str, **params: Any) -> Any:
        """Call a method of the client.

        :return: the answer's body
        :raises RefusedError: the client threw an error
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"method": method, "params": params}) + "\n")
        self._process.stdin.flush()
        result = json.loads(self._process.stdout.readline())
        if "error" in result:
            raise RefusedError(result["error"])
        return result["answer"]

    def close(self) -> None:
        self._process.communicate(timeout=BOUND_SECONDS)


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """Serve the sandbox gateway with a balance, for all tests of this module."""
    receiver = Receiver()
    with providers(receiver, tmp_path_factory.mktemp("gateway")) as server:
        client = Client(server.gateway_url)
        client.ok("POST", "/sandbox/balance", json={"amountMinor": 10_000_000})
        yield client
    receiver.close()


def ids(answer: Any) -> list[int]:
    return [one["id"] for one in answer["data"]]


class TestPaystackNode:
    """paystack-node sends numbers and lists as text, and escapes filters twice."""

    @pytest.fixture(scope="class")
    @classmethod
    def client(cls, gateway: Client) -> Iterator[NodeClient]:
        one = NodeClient("paystack-node", gateway)
        yield one
        one.close()

    def test_transactions(self, client: NodeClient, gateway: Client) -> None:
        reference = "paystack-node-1"
        started = client(
            "initializeTransaction",
            reference=reference,
            amount=300_000,
            email="node@example.com",
            channels=["card"],
            metadata='{"orderId":"o"}',
        )
        assert started["data"]["reference"] == reference
        gateway.ok("POST", f"/sandbox/pay/{reference}")
        paid = client("verifyTransaction", reference=reference)["data"]
        assert (paid["status"], paid["amount"]) == ("success", 300_000)
        filters = {"customer": paid["customer"]["id"], "amount": 300_000, "status": "success", **DATES}
        assert client("listTransaction", perPage=10, page=1, **filters)["data"] == [paid]
        assert client("getTransaction", id=str(paid["id"]))["data"] == paid
        assert client("viewTransactionTimeline", id=reference)["data"] == paid["log"]
        assert client("transactionTotals", **DATES)["data"]["total_volume"] >= 300_000

    def test_customers_and_dedicated_accounts(self, client: NodeClient) -> None:
        created = client("createCustomer", email="ada.node@example.com", first_name="Ada", metadata={"a": 1})
        customer = created["data"]
        assert customer["metadata"] == {"a": 1}
        code = customer["customer_code"]
        assert client("getCustomer", customer_id=code)["data"] == customer
        assert customer in client("listCustomers", perPage=10, page=1)["data"]
        updated = client("updateCustomer", customer_id=code, email=customer["email"], last_name="Obi")["data"]
        assert (updated["first_name"], updated["last_name"]) == ("Ada", "Obi")
        account = client("createDedicatedNuban", customer=code, preferred_bank="test-bank")["data"]
        filters = {"customer": code, "provider_slug": "test-bank", "active": True, "currency": "NGN"}
        assert client("listDedicatedNubans", **filters)["data"] == [account]
        assert client("fetchDedicatedNuban", dedicated_account_id=str(account["id"]))["data"] == account

    def test_recipients_and_transfers(self, client: NodeClient) -> None:
        recipient = client(
            "createTransferRecipient", type="nuban", name="N", account_number="2400000001", bank_code="058"
        )["data"]
        code = recipient["recipient_code"]
        assert recipient["id"] in ids(client("listTransferRecipients", page=0))
        renamed = client("updateTransferRecipient", recipient_code_or_id=code, name="Ngozi A.")["data"]
        assert renamed["name"] == "Ngozi A."
        transfer = client("initiateTransfer", source="balance", amount=1_000, recipient=code)["data"]
        assert client("fetchTransfer", id_or_code=transfer["transfer_code"])["data"]["amount"] == 1_000
        items = [{"amount": 500, "recipient": code, "reference": "paystack-node-bulk"}]
        bulk = client("initiateBulkTransfer", source="balance", transfers=json.dumps(items))
        assert bulk["data"][0]["amount"] == 500
        assert transfer["id"] in ids(client("listTransfers", page=0))
        history = client("getBalanceHistory", **DATES)["data"]
        assert [entry["difference"] for entry in history[:2]] == [-500, -1_000]

    def test_refunds_settlements_and_banks(self, client: NodeClient, gateway: Client) -> None:
        paid = gateway.paid("paystack-node-refunded")
        refund = client("createRefund", transaction=paid["reference"], amount=1_000)["data"]
        assert ids(client("listRefund", reference=paid["reference"])) == [refund["id"]]
        assert client("getRefund", reference=str(refund["id"]))["data"]["amount"] == 1_000
        settled = gateway.ok("POST", "/sandbox/settlements", json={"amountMinor": 1})
        assert settled in client("getSettlements", **DATES)["data"]
        banks = client("listBanks", perPage=5, country="Nigeria", use_cursor=True)
        assert (len(banks["data"]), banks["meta"]["perPage"]) == (5, 5)
        assert client("listProviders", pay_with_bank_transfer=True)["data"]
        resolved = client("resolveAccountNumber", account_number="9876543210", bank_code="057")["data"]
        assert resolved["account_number"] == "9876543210"

    def test_refused_call(self, client: NodeClient) -> None:
        with pytest.raises(RefusedError, match=r"Bad Request \(400\)"):
            client("verifyTransaction", reference="paystack-node-none")


class TestPaystackSdk:
    """The gateway's own SDK sends JSON without a content type."""

    @pytest.fixture(scope="class")
    @classmethod
    def client(cls, gateway: Client) -> Iterator[NodeClient]:
        one = NodeClient("@paystack/paystack-sdk", gateway)
        yield one
        one.close()

    def test_transactions(self, client: NodeClient, gateway: Client) -> None:
        started = client("transaction.initialize", email="sdk@example.com", amount=300_000, reference="sdk-1")
        assert started["data"]["reference"] == "sdk-1"
        gateway.ok("POST", "/sandbox/pay/sdk-1")
        paid = client("transaction.verify", reference="sdk-1")["data"]
        assert (paid["status"], paid["amount"]) == ("success", 300_000)
        assert paid in client("transaction.list", perPage=100, page=1, **DATES)["data"]
        assert client("transaction.fetch", id=paid["id"])["data"] == paid
        assert client("transaction.timeline", id_or_reference="sdk-1")["data"] == paid["log"]
        assert client("transaction.totals", **DATES)["data"]["total_volume"] >= 300_000
        assert client("charge.check", reference="sdk-1")["data"] == paid

    def test_customers_and_dedicated_accounts(self, client: NodeClient) -> None:
        customer = client("customer.create", email="ada.sdk@example.com", first_name="Ada")["data"]
        code = customer["customer_code"]
        assert client("customer.list", use_cursor=True, perPage=1)["data"] == [customer]
        assert client("customer.fetch", code=code)["data"] == customer
        updated = client("customer.update", code=code, last_name="Obi")["data"]
        assert (updated["first_name"], updated["last_name"]) == ("Ada", "Obi")
        account = client("dedicatedvirtualaccount.create", customer=code)["data"]
        listed = client("dedicatedvirtualaccount.list", customer=code, active=True, currency="NGN")
        assert listed["data"] == [account]
        assert client("dedicatedvirtualaccount.fetch", account_id=account["id"])["data"] == account
        assert client("dedicatedvirtualaccount.availableProviders")["data"]

    def test_recipients_and_transfers(self, client: NodeClient) -> None:
        account = {"type": "nuban", "name": "N", "account_number": "2500000001", "bank_code": "058"}
        recipient = client("transferrecipient.create", **account)["data"]
        code = recipient["recipient_code"]
        batch = [{**account, "account_number": "2500000002"}]
        assert len(client("transferrecipient.bulk", batch=batch)["data"]["success"]) == 1
        assert recipient in client("transferrecipient.list", perPage=100, **DATES)["data"]
        assert client("transferrecipient.fetch", code=code)["data"] == recipient
        renamed = client("transferrecipient.transferrecipientCodePut", code=code, name="Ngozi A.")["data"]
        assert renamed["name"] == "Ngozi A."
        reference = "sdk-payout-of-test-1"
        transfer = client(
            "transfer.initiate", source="balance", amount="1000", recipient=code, reference=reference
        )["data"]
        assert client("transfer.fetch", code=transfer["transfer_code"])["data"]["amount"] == 1_000
        assert client("transfer.verify", reference=reference)["data"]["id"] == transfer["id"]
        item = {"amount": 500, "recipient": code, "reference": "sdk-payout-of-test-2"}
        assert client("transfer.bulk", source="balance", transfers=[item])["data"][0]["amount"] == 500
        wait_until(lambda: client("transfer.verify", reference=reference)["data"]["status"] == "success")
        assert transfer["id"] in ids(client("transfer.list", perPage=100, status="success", **DATES))
        assert client("balance.fetch")["data"][0]["currency"] == "NGN"
        assert client("balance.ledger", perPage=1, **DATES)["data"][0]["difference"] == -500

    def test_refunds_settlements_and_banks(self, client: NodeClient, gateway: Client) -> None:
        paid = gateway.paid("sdk-refunded")
        refund = client("refund.create", transaction=paid["reference"], amount=1_000)["data"]
        assert refund["id"] in ids(client("refund.list", perPage=100, **DATES))
        assert client("refund.fetch", id=refund["id"])["data"]["amount"] == 1_000
        settled = gateway.ok("POST", "/sandbox/settlements", json={"amountMinor": 2})
        assert settled in client("settlement.fetch", perPage=100)["data"]
        assert (
            len(client("verification.fetchBanks", country="nigeria", use_cursor=True, perPage=5)["data"]) == 5
        )
        account = {"account_number": "9876543210", "bank_code": "057"}
        assert client("verification.resolveAccountNumber", **account)["data"]["account_name"]

    def test_refused_call(self, client: NodeClient) -> None:
        answer = client("transaction.verify", reference="sdk-none")
        assert (answer["status"], answer["message"]) == (False, "Transaction reference not found.")
