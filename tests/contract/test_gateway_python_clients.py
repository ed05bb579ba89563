"""Client libraries of the real gateway for Python work against the sandbox gateway, unchanged.

Each client calls every method whose endpoint the sandbox has. Left out: ``paystackapi``'s verification of transfers
and ``pypaystack2``'s model of settlements, which do not match the real gateway either.
"""

import json
import logging
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import paystack
import paystack.configuration
import paystack.rest
import paystackapi
import paystackapi.base
import pypaystack2
import pytest
from paystackapi.paystack import Paystack as PaystackApi
from pypaystack2.base_clients import AbstractAPIClient
from pypaystack2.enums import Channel, Country, Currency, RecipientType, TransactionStatus
from pypaystack2.models import Customer, Recipient, TransferInstruction

from tests.contract.sandbox_client import SECRET_KEY, Client, Receiver, providers, wait_until

ACCOUNT = {"account_number": "2234567890", "bank_code": "058"}
TOP_UP = 10_000_000


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """Serve the sandbox gateway with a balance, for all tests of this module."""
    receiver = Receiver()
    with providers(receiver, tmp_path_factory.mktemp("gateway")) as server:
        client = Client(server.gateway_url)
        client.ok("POST", "/sandbox/balance", json={"amountMinor": TOP_UP})
        yield client
    receiver.close()


def today() -> str:
    return datetime.now(UTC).date().isoformat()


class TestPypaystack2:
    """pypaystack2 validates the data of each answer with a Pydantic model, or logs a warning and drops the data."""

    @pytest.fixture
    def client(
        self, gateway: Client, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> Iterator[pypaystack2.PaystackClient]:
        monkeypatch.setattr(AbstractAPIClient, "_BASE_URL", gateway.url)
        with caplog.at_level(logging.WARNING, logger="pypaystack2"):
            yield pypaystack2.PaystackClient(SECRET_KEY)
        assert [record.getMessage() for record in caplog.records if "pypaystack2" in record.name] == []

    def test_transactions(self, client: pypaystack2.PaystackClient, gateway: Client) -> None:
        transactions = client.transactions
        started = transactions.initialize(
            450_000,
            "pypaystack2@example.com",
            Currency.NGN,
            reference="pypaystack2-1",
            callback_url="https://shop.example.com/paid",
            metadata={"order": "o"},
            channels=[Channel.CARD],
        )
        assert started.data.authorization_url.startswith(gateway.url)
        gateway.ok("POST", "/sandbox/pay/pypaystack2-1")
        verified = transactions.verify("pypaystack2-1")
        paid = verified.data
        assert (paid.status, paid.amount, paid.metadata) == ("success", 450_000, {"order": "o"})
        assert (paid.source.entry_point, paid.log.success) == ("transaction_initialize", True)
        listed = transactions.get_transactions(
            customer=Customer.model_validate(paid.customer).id,
            start_date=today(),
            end_date=today(),
            status=TransactionStatus.SUCCESS,
            page=1,
            amount=450_000,
        )
        assert listed.data == [paid]
        assert (listed.meta["total"], listed.meta["perPage"]) == (1, 50)
        assert transactions.get_transaction(paid.id).data == paid
        assert transactions.get_timeline("pypaystack2-1").data == paid.log
        totals = transactions.totals(start_date=today(), end_date=today()).data
        assert totals.total_volume >= 450_000
        assert [money.currency for money in totals.total_volume_by_currency] == [Currency.NGN]

    def test_customers_and_dedicated_accounts(self, client: pypaystack2.PaystackClient) -> None:
        customers = client.customers
        created = customers.create("nuban@example.com", "Ada", "Obi", "+2347000000099", {"a": 1}).data
        assert created in customers.get_customers(start_date=today(), end_date=today()).data
        assert customers.get_customer(created.email).data == created
        updated = customers.update(created.customer_code, last_name="Eze").data
        assert (updated.id, updated.last_name, updated.metadata) == (created.id, "Eze", {"a": 1})

        accounts = client.dedicated_accounts
        account = accounts.create(created.customer_code, "test-bank").data
        assert accounts.get_dedicated_accounts(customer=created.customer_code).data == [account]
        assert accounts.get_dedicated_account(account.id).data == account
        assigned = accounts.assign("assigned@example.com", "B", "C", "+2347000000098", "test-bank")
        assert (assigned.status, assigned.status_code) == (True, 200)
        assert accounts.get_providers().data[0].provider_slug == "test-bank"

    def test_recipients_and_transfers(self, client: pypaystack2.PaystackClient) -> None:
        recipients = client.transfer_recipients
        created = recipients.create(RecipientType.NUBAN, "Ngozi", "2100000001", "058", metadata={"a": 1})
        assert created.status_code == 201
        recipient = created.data
        assert recipient.metadata == {"a": 1}
        item = Recipient(type=RecipientType.NUBAN, name="Bola", account_number="2100000002", bank_code="057")
        batch = recipients.bulk_create([item]).data
        assert [one.name for one in batch.success] == ["Bola"]
        assert recipient in recipients.get_transfer_recipients(start_date=today(), end_date=today()).data
        assert recipients.get_transfer_recipient(recipient.recipient_code).data == recipient
        assert recipients.update(recipient.id, "Ngozi A.", "ngozi@example.com").status is True

        transfers = client.transfers
        reference = "pypaystack2-payout-1"
        transfer = transfers.initiate(1_000, recipient.recipient_code, reference=reference).data
        assert transfer.session.id is None
        bulk = transfers.bulk_transfer(
            [
                TransferInstruction(
                    amount=2_000,
                    recipient=recipient.recipient_code,
                    reference="pypaystack2-payout-2",
                    reason="Payout",
                )
            ]
        )
        assert bulk.data[0].amount == 2_000
        listed = transfers.get_transfers(recipient=recipient.id, start_date=today(), end_date=today()).data
        assert [one.amount for one in listed] == [2_000, 1_000]
        assert transfers.get_transfer(transfer.transfer_code).data.reference == reference
        assert transfers.verify(reference).data.recipient.recipient_code == recipient.recipient_code

        control = client.transfer_control
        assert [balance.currency for balance in control.check_balance().data] == [Currency.NGN]
        entries = control.get_balance_ledger().data
        assert {-1_000, -2_000, TOP_UP} <= {entry.difference for entry in entries}

    def test_refunds(self, client: pypaystack2.PaystackClient, gateway: Client) -> None:
        paid = gateway.paid("pypaystack2-refunded")
        refund = client.refunds.create(paid["reference"], 1_000, Currency.NGN, "Sorry", "Damaged").data
        assert (refund.amount, refund.transaction.id) == (1_000, paid["id"])
        listed = client.refunds.get_refunds(transaction=paid["reference"], currency=Currency.NGN).data
        assert [one.id for one in listed] == [refund.id]
        assert client.refunds.get_refund(str(refund.id)).data.merchant_note == "Damaged"

    def test_banks(self, client: pypaystack2.PaystackClient) -> None:
        first = client.miscellaneous.get_banks(Country.NIGERIA, use_cursor=True, pagination=10)
        assert len(first.data) == 10
        assert all(bank.supports_transfer for bank in first.data)
        rest = client.miscellaneous.get_banks(
            Country.NIGERIA, use_cursor=True, next_=first.meta["next"], currency=Currency.NGN
        )
        assert first.data + rest.data == client.miscellaneous.get_banks(Country.NIGERIA).data
        resolved = client.verification.resolve_account_number("9876543210", "057").data
        assert resolved.account_number == "9876543210"

    def test_charge_by_bank_transfer(self, client: pypaystack2.PaystackClient, gateway: Client) -> None:
        body = {"email": "a@b.co", "amount": 100, "reference": "pypaystack2-charge", "bank_transfer": {}}
        gateway.ok("POST", "/charge", json=body)
        assert client.charge.check_pending_charge("pypaystack2-charge").data.status == "pending"

    def test_refused_call(self, client: pypaystack2.PaystackClient) -> None:
        refused = client.verification.resolve_account_number("0009876543", "057")
        assert (refused.status_code, refused.status, refused.code) == (422, False, "invalid_params")


class TestPaystackapi:
    """paystackapi returns the parsed JSON of each answer."""

    @pytest.fixture
    def client(self, gateway: Client, monkeypatch: pytest.MonkeyPatch) -> PaystackApi:
        monkeypatch.setattr(paystackapi, "API_URL", f"{gateway.url}/")
        monkeypatch.setattr(paystackapi.base.Borg, "_shared_state", {})
        return PaystackApi(secret_key=SECRET_KEY)

    def test_transactions(self, client: PaystackApi, gateway: Client) -> None:
        body = {"reference": "paystackapi-1", "email": "paystackapi@example.com", "amount": "300000"}
        assert client.transaction.initialize(**body)["data"]["reference"] == "paystackapi-1"
        gateway.ok("POST", "/sandbox/pay/paystackapi-1")
        paid = client.transaction.verify("paystackapi-1")["data"]
        assert (paid["status"], paid["amount"]) == ("success", 300_000)
        listed = client.transaction.list(customer=paid["customer"]["id"], status="success", perPage=5, page=1)
        assert listed["data"] == [paid]
        assert client.transaction.get(paid["id"])["data"] == paid
        assert client.transaction.totals()["data"]["total_volume"] >= 300_000
        charge = {
            "email": "a@b.co", "amount": "100", "reference": "paystackapi-2", "bank_transfer": {},
        }  # fmt: skip
        assert client.charge.start_charge(**charge)["data"]["status"] == "pending_bank_transfer"
        assert client.charge.check_pending("paystackapi-2")["data"]["status"] == "pending"

    def test_customers(self, client: PaystackApi) -> None:
        created = client.customer.create(
            first_name="Ada", email="ada.api@example.com", phone="+2347000000097"
        )
        customer = created["data"]
        assert (
            customer in client.customer.list(perPage=100, page=1, **{"from": today(), "to": today()})["data"]
        )
        for name in (customer["id"], customer["customer_code"]):
            assert client.customer.get(name)["data"] == customer
        updated = client.customer.update(customer["id"], last_name="Obi")["data"]
        assert (updated["first_name"], updated["last_name"]) == ("Ada", "Obi")

    def test_recipients_and_transfers(self, client: PaystackApi) -> None:
        created = client.transferRecipient.create(type="nuban", name="Ngozi", **ACCOUNT)
        recipient = created["data"]
        assert recipient in client.transferRecipient.list(perPage=10, page=1)["data"]
        code = recipient["recipient_code"]
        sent = client.transfer.initiate(source="balance", amount="1000", recipient=code, reason="Payout")
        transfer = sent["data"]
        assert client.transfer.fetch(transfer["transfer_code"])["data"]["reason"] == "Payout"
        bulk = client.transfer.initiate_bulk_transfer(
            currency="NGN", source="balance", transfers=[{"amount": 500, "recipient": code}]
        )
        assert bulk["data"][0]["amount"] == 500
        listed = [one["reference"] for one in client.transfer.list(perPage=100, page=1)["data"]]
        assert {transfer["reference"], bulk["data"][0]["reference"]} <= set(listed)
        assert client.transferControl.check_balance()["data"][0]["currency"] == "NGN"

    def test_refunds_settlements_and_banks(self, client: PaystackApi, gateway: Client) -> None:
        paid = gateway.paid("paystackapi-refunded")
        refund = client.refund.create(transaction=paid["id"], amount="1000")["data"]
        assert refund["id"] in [one["id"] for one in client.refund.list(currency="NGN")["data"]]
        assert client.refund.fetch(refund["id"])["data"]["amount"] == 1_000
        settled = gateway.ok("POST", "/sandbox/settlements", json={"amountMinor": 1})
        assert settled in client.settlement.fetch(**{"from": today(), "to": today()})["data"]
        assert len(client.misc.list_banks(country="nigeria", currency="NGN")["data"]) > 20
        assert client.verification.verify_account(**ACCOUNT)["data"]["account_name"]
        assert client.verification.verify_account(account_number="1", bank_code="058")["status"] is False


class TestPaystackSdk:
    """The gateway's own SDK, which drops the body of an answer with an undocumented status."""

    @pytest.fixture(autouse=True)
    def sandbox(self, gateway: Client, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
        """Direct the SDK to the sandbox, and replace two methods that urllib3 2.6 removed."""
        # The SDK sets the level of urllib3's logger for the whole process.
        levels = {name: logging.getLogger(name).level for name in ("urllib3", "client")}
        monkeypatch.setattr(paystack, "api_key", SECRET_KEY)
        configuration = paystack.configuration.Configuration()
        configuration.host = gateway.url
        monkeypatch.setattr(paystack.configuration.Configuration, "_default", configuration)
        answer = paystack.rest.RESTResponse
        monkeypatch.setattr(answer, "getheaders", lambda self: self.urllib3_response.headers)
        monkeypatch.setattr(
            answer,
            "getheader",
            lambda self, name, default=None: self.urllib3_response.headers.get(name, default),
        )
        yield
        for name, level in levels.items():
            logging.getLogger(name).setLevel(level)

    @pytest.fixture
    def dates(self) -> dict[str, datetime]:
        now = datetime.now(UTC)
        return {"_from": now - timedelta(days=1), "to": now + timedelta(days=1)}

    def test_transactions(self, gateway: Client, dates: dict[str, datetime]) -> None:
        started = paystack.Transaction.initialize(
            email="sdk@example.com", amount=300_000, reference="sdk-1", metadata=json.dumps({"orderId": "o"})
        )
        assert started.data["reference"] == "sdk-1"
        gateway.ok("POST", "/sandbox/pay/sdk-1")
        paid = paystack.Transaction.verify("sdk-1").data
        assert (paid["status"], paid["amount"]) == ("success", 300_000)
        assert paid in paystack.Transaction.list(per_page=100, page=1, **dates).data
        assert paystack.Transaction.fetch(str(paid["id"])).data == paid
        assert paystack.Transaction.timeline("sdk-1").data == paid["log"]
        assert paystack.Transaction.totals(**dates).data["total_volume"] >= 300_000
        assert paystack.Charge.check("sdk-1").data == paid

    def test_customers_and_dedicated_accounts(self) -> None:
        customer = paystack.Customer.create(email="sdk.customer@example.com", first_name="Ada").data
        page = paystack.Customer.list(use_cursor=True, per_page=1)
        assert page.data == [customer]
        assert paystack.Customer.fetch(customer["customer_code"]).data == customer
        updated = paystack.Customer.update(customer["customer_code"], last_name="Obi").data
        assert (updated["first_name"], updated["last_name"]) == ("Ada", "Obi")
        account = paystack.DedicatedVirtualAccount.create(customer=customer["customer_code"]).data
        listed = paystack.DedicatedVirtualAccount.list(customer=customer["id"], active=True, currency="NGN")
        assert listed.data == [account]
        assert paystack.DedicatedVirtualAccount.fetch(str(account["id"])).data == account
        assert paystack.DedicatedVirtualAccount.available_providers().data

    def test_recipients_and_transfers(self, dates: dict[str, datetime]) -> None:
        recipient = paystack.TransferRecipient.create("nuban", "Ngozi", "2300000001", "058").data
        batch = [{"type": "nuban", "name": "B", "account_number": "2300000002", "bank_code": "058"}]
        assert len(paystack.TransferRecipient.bulk(batch).data["success"]) == 1
        assert recipient in paystack.TransferRecipient.list(per_page=100, **dates).data
        code = recipient["recipient_code"]
        assert paystack.TransferRecipient.fetch(code).data == recipient
        updated = paystack.TransferRecipient.transferrecipient_code_put(code, name="Ngozi A.").data
        assert updated["name"] == "Ngozi A."
        transfer = paystack.Transfer.initiate("balance", "1000", code, reference="sdk-payout-of-test-1").data
        assert paystack.Transfer.fetch(transfer["transfer_code"]).data["amount"] == 1_000
        assert paystack.Transfer.verify("sdk-payout-of-test-1").data["id"] == transfer["id"]
        item = {"amount": 500, "recipient": code, "reference": "sdk-payout-of-test-2"}
        assert paystack.Transfer.bulk(source="balance", transfers=[item]).data[0]["amount"] == 500
        wait_until(lambda: paystack.Transfer.verify(item["reference"]).data["status"] == "success")
        listed = paystack.Transfer.list(per_page=100, status="success", **dates).data
        assert item["reference"] in [one["reference"] for one in listed]
        assert paystack.Balance.fetch().data[0]["currency"] == "NGN"
        assert paystack.Balance.ledger(per_page=1, **dates).data[0]["model_responsible"] == "Transfer"

    def test_refunds_settlements_and_banks(self, gateway: Client, dates: dict[str, datetime]) -> None:
        paid = gateway.paid("sdk-refunded")
        refund = paystack.Refund.create(transaction=paid["reference"], amount=1_000).data
        assert refund["id"] in [one["id"] for one in paystack.Refund.list(per_page=100, **dates).data]
        assert paystack.Refund.fetch(str(refund["id"])).data["amount"] == 1_000
        settled = gateway.ok("POST", "/sandbox/settlements", json={"amountMinor": 2})
        assert settled in paystack.Settlement.fetch(per_page=100).data
        banks = paystack.Verification.fetch_banks(country="nigeria", use_cursor=True, per_page=5)
        assert len(banks.data) == 5
        resolved = paystack.Verification.resolve_account_number(**ACCOUNT).data
        assert resolved["account_number"] == ACCOUNT["account_number"]

    def test_refused_call(self) -> None:
        with pytest.raises(paystack.exceptions.ApiException) as refused:
            paystack.Verification.resolve_account_number(account_number="0001234567", bank_code="058")
        failure: dict[str, Any] = json.loads(refused.value.body)
        assert (refused.value.status, failure["status"]) == (422, False)
