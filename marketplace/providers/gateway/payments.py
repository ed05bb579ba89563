"""The payment gateway: what the domain asks of it, and the adapter of its HTTP API."""

from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, Protocol
from uuid import UUID

from marketplace.infra.settings import Settings
from marketplace.kernel.clock import iso
from marketplace.kernel.errors import ProviderUnavailableError
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
    """Where the buyer pays."""

    authorization_url: str
    access_code: str

    @classmethod
    def from_wire(cls, data: Any) -> "PaymentPage":
        """Read the page that the gateway made.

        :raises MalformedGatewayDataError: a field is missing or of another type
        """
        return cls(require_field(data, "authorization_url", str), require_field(data, "access_code", str))


class PaymentGateway(Protocol):
    """What the domain asks of the payment gateway."""

    def initialize_payment(
        self,
        *,
        reference: str,
        amount_minor: int,
        email: str,
        callback_url: str | None,
        metadata: dict[str, Any],
    ) -> PaymentPage:
        """Open a payment page; the same reference again is refused by the gateway."""

    def fetch_charge(self, reference: str) -> Charge | None:
        """Ask what became of a reference; none if the gateway does not know it."""

    def create_refund(self, *, charge_reference: str, amount_minor: int, merchant_note: str) -> GatewayRefund:
        """Have the gateway send money of a charge back to where it came from."""

    def list_refunds(self, reference: str) -> list[GatewayRefund]:
        """List the refunds of a charge."""

    def list_banks(self) -> list[Bank]:
        """List the banks that accounts can be at."""

    def resolve_account_name(self, *, account_number: str, bank_code: str) -> str | None:
        """Ask whose account it is; none if there is no such account."""

    def create_transfer_account(
        self, *, reference: str, amount_minor: int, email: str, expires_at: datetime, metadata: dict[str, Any]
    ) -> GatewayTransferAccount:
        """Have an account made for one payment; what is transferred to it is its charge."""


class HttpPaymentGateway:
    """The gateway's HTTP API. Every call carries the secret key."""

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
        """Open a payment page.

        :param reference: our own, ``checkout-<32 hex>``
        :param amount_minor: kobo
        :param email: the customer's, which the gateway requires
        :param callback_url: where the page sends the buyer afterwards
        :param metadata: comes back with the charge
        :raises ProviderRefusedError: the gateway refused, for instance because it knows the reference already
        :raises ProviderUnavailableError: no usable answer in time
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
        """Ask what became of a reference.

        :return: the charge, or none if the gateway does not know the reference
        :raises ProviderUnavailableError: no usable answer in time
        """
        charge = self._client.fetch(
            f"/transaction/verify/{reference}", Charge.from_wire, unknown_statuses=(400, 404)
        )
        if charge is not None and charge.reference != reference:
            raise ProviderUnavailableError("The payment gateway answered about another payment. Try again.")
        return charge

    def create_refund(self, *, charge_reference: str, amount_minor: int, merchant_note: str) -> GatewayRefund:
        """Have the gateway send money of a charge back to where it came from.

        The gateway does not know a second call for the first one again: who lost its answer looks for the note
        in ``list_refunds`` before calling again.

        :param charge_reference: the charge's
        :param amount_minor: kobo, all of it or a part
        :param merchant_note: names our refund, and comes back with it
        :raises ProviderRefusedError: the gateway refused: nothing was sent
        :raises ProviderUnavailableError: no usable answer in time: whether it was sent is unknown
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

        A gateway that takes no notice of the filter lists others too, so all pages are read: who does not find a
        refund here concludes that it was never sent.

        :raises ProviderUnavailableError: no usable answer in time, or more pages than there may be
        """
        pages = self._client.list_pages(
            "/refund",
            {"transaction": reference},
            GatewayRefund.from_wire,
            max_pages=_MAX_PAGES,
            too_many="The payment gateway lists too many refunds to look through.",
        )
        return [refund for page in pages for refund in page]

    def list_banks(self) -> list[Bank]:
        """List the banks that accounts can be at, by name.

        :raises ProviderUnavailableError: no usable answer in time
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
        """Ask whose account it is.

        :return: the name that it is kept under, or none if there is no such account
        :raises ProviderUnavailableError: no usable answer in time
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
        """Have an account made for one payment; what is transferred to it is its charge.

        :param reference: our own; its charge comes under it, like one of a payment page
        :param amount_minor: kobo
        :param email: the customer's, which the gateway requires
        :param expires_at: how long the account is wanted; the gateway decides
        :param metadata: comes back with the charge
        :raises ProviderRefusedError: the gateway refused, for instance because it knows the reference already
        :raises ProviderUnavailableError: no usable answer in time
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
    """Give the e-mail that a provider wants of somebody, who may have none."""
    return email or f"{user_id}@users.invalid"
