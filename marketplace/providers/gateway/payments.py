"""The payment gateway's interface for the domain, and the adapter of the gateway's HTTP API."""

from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, Protocol
from uuid import UUID

from marketplace.infra.settings import Settings
from marketplace.kernel.clock import iso
from marketplace.kernel.errors import ProviderUnavailableError
from marketplace.providers import texts
from marketplace.providers.gateway.client import GatewayClient, translating_malformed_data
from marketplace.providers.gateway.fields import require_field
from marketplace.providers.gateway.payloads import (
    Bank,
    Charge,
    GatewayRefund,
    GatewayTransferAccount,
    parse_account_name,
)

_MAX_PAGES = 20


@dataclass(frozen=True)
class PaymentPage:
    """The hosted payment page for a buyer."""

    authorization_url: str
    access_code: str

    @classmethod
    def from_wire(cls, data: Any) -> "PaymentPage":
        """Parse the response to an initialization.

        :raises MalformedGatewayDataError: a field is missing or has another type
        """
        return cls(require_field(data, "authorization_url", str), require_field(data, "access_code", str))


class PaymentGateway(Protocol):
    """The payment gateway's operations on payments, refunds and bank accounts."""

    def initialize_payment(
        self,
        *,
        reference: str,
        amount_minor: int,
        email: str,
        callback_url: str | None,
        metadata: dict[str, Any],
    ) -> PaymentPage:
        """Create a hosted payment page. The gateway refuses a reference that already exists."""

    def fetch_charge(self, reference: str) -> Charge | None:
        """Fetch the charge of a reference, or none if the gateway has no such charge."""

    def create_refund(self, *, charge_reference: str, amount_minor: int, merchant_note: str) -> GatewayRefund:
        """Create a full or partial refund of a charge to the original payment method."""

    def list_refunds(self, reference: str) -> list[GatewayRefund]:
        """List the refunds of a charge."""

    def list_banks(self) -> list[Bank]:
        """List the supported banks."""

    def resolve_account_name(self, *, account_number: str, bank_code: str) -> str | None:
        """Fetch the holder's name of a bank account, or none if the account does not exist."""

    def create_transfer_account(
        self, *, reference: str, amount_minor: int, email: str, expires_at: datetime, metadata: dict[str, Any]
    ) -> GatewayTransferAccount:
        """Create a temporary bank account for one payment. A transfer to the account creates the charge."""


class HttpPaymentGateway:
    """The adapter of the gateway's HTTP API."""

    def __init__(self, settings: Settings) -> None:
        self._client = GatewayClient(settings)

    def initialize_payment(
        self,
        *,
        reference: str,
        amount_minor: int,
        email: str,
        callback_url: str | None,
        metadata: dict[str, Any],
    ) -> PaymentPage:
        """Create a hosted payment page.

        :param reference: our reference, ``checkout-<32 hex digits>``
        :param amount_minor: kobo
        :param email: the customer's address, required by the gateway
        :param callback_url: the redirect target after the payment
        :param metadata: returned with the charge
        :raises ProviderRefusedError: the gateway refused the request, for example because the reference exists
        :raises ProviderUnavailableError: no valid response in time
        """
        body: dict[str, Any] = {
            "reference": reference,
            "amount": amount_minor,
            "email": email,
            "currency": "NGN",
            "metadata": metadata,
        }
        if callback_url:
            body["callback_url"] = callback_url
        return self._client.post("/transaction/initialize", body, PaymentPage.from_wire)

    def fetch_charge(self, reference: str) -> Charge | None:
        """Fetch the charge of a reference.

        :return: none if the gateway has no such charge
        :raises ProviderUnavailableError: no valid response in time
        """
        charge = self._client.fetch(
            f"/transaction/verify/{reference}", Charge.from_wire, unknown_statuses=(400, 404)
        )
        if charge is not None and charge.reference != reference:
            raise ProviderUnavailableError(texts.GATEWAY_OTHER_PAYMENT)
        return charge

    def create_refund(self, *, charge_reference: str, amount_minor: int, merchant_note: str) -> GatewayRefund:
        """Create a full or partial refund of a charge to the original payment method.

        The gateway has no idempotency key for refunds: a repeated call creates a second refund. After a lost response,
        search for the note in ``list_refunds`` before a retry.

        :param charge_reference: our reference of the charge
        :param amount_minor: kobo
        :param merchant_note: identifies our refund and is returned with the gateway's refund
        :raises ProviderRefusedError: the gateway refused the request and sent nothing
        :raises ProviderUnavailableError: no valid response in time; the outcome is unknown
        """
        body = {
            "transaction": charge_reference,
            "amount": amount_minor,
            "merchant_note": merchant_note,
            "customer_note": "Refund of your order",
        }
        return self._client.post("/refund", body, GatewayRefund.from_wire)

    def list_refunds(self, reference: str) -> list[GatewayRefund]:
        """List the refunds of a charge.

        All pages are read, because a gateway that ignores the filter returns refunds of other charges too. The list
        must be complete: callers conclude that a refund missing from the list was never sent.

        :raises ProviderUnavailableError: no valid response in time, or too many pages
        """
        pages = self._client.list_pages(
            "/refund",
            {"transaction": reference},
            GatewayRefund.from_wire,
            max_pages=_MAX_PAGES,
            too_many=texts.GATEWAY_TOO_MANY_REFUNDS,
        )
        return [refund for page in pages for refund in page]

    def list_banks(self) -> list[Bank]:
        """List the supported banks, sorted by name.

        :raises ProviderUnavailableError: no valid response in time
        """
        banks: dict[str, Bank] = {}
        params = {"country": "nigeria", "use_cursor": "true", "perPage": "100"}
        for _ in range(_MAX_PAGES):
            answer = self._client.get("/bank", params) or {}
            with translating_malformed_data():
                banks |= {bank.code: bank for bank in Bank.list_from_wire(answer.get("data"))}
            following = (answer.get("meta") or {}).get("next")
            if not isinstance(following, str) or not following:
                break
            params["next"] = following
        return sorted(banks.values(), key=lambda bank: (bank.name.casefold(), bank.code))

    def resolve_account_name(self, *, account_number: str, bank_code: str) -> str | None:
        """Fetch the holder's name of a bank account.

        :return: none if the account does not exist
        :raises ProviderUnavailableError: no valid response in time
        """
        return self._client.fetch(
            "/bank/resolve",
            partial(parse_account_name, account_number=account_number),
            {"account_number": account_number, "bank_code": bank_code},
            unknown_statuses=(400, 404, 422),
        )

    def create_transfer_account(
        self, *, reference: str, amount_minor: int, email: str, expires_at: datetime, metadata: dict[str, Any]
    ) -> GatewayTransferAccount:
        """Create a temporary bank account for one payment. A transfer to the account creates the charge.

        :param reference: our reference, which the charge will have
        :param amount_minor: kobo
        :param email: the customer's address, required by the gateway
        :param expires_at: the requested expiry of the account; the gateway may choose another time
        :param metadata: returned with the charge
        :raises ProviderRefusedError: the gateway refused the request, for example because the reference exists
        :raises ProviderUnavailableError: no valid response in time
        """
        body = {
            "reference": reference,
            "amount": amount_minor,
            "email": email,
            "currency": "NGN",
            "metadata": metadata,
            "bank_transfer": {"account_expires_at": iso(expires_at)},
        }
        return self._client.post(
            "/charge", body, partial(GatewayTransferAccount.from_wire, reference=reference)
        )


def customer_email(email: str | None, user_id: UUID) -> str:
    """Return a user's e-mail address, or a placeholder for providers that require an address."""
    return email or f"{user_id}@users.invalid"
