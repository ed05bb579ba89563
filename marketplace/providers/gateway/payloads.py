"""Charges, refunds, disputes, transfers and banks in the gateway's events and responses."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from marketplace.providers.gateway.fields import (
    MalformedGatewayDataError,
    parse_amount,
    parse_digits,
    parse_identifier,
    parse_short_text,
    parse_time,
    read_object,
    require_amount,
    require_field,
    require_given,
    require_identifier,
    require_list,
    require_object,
    require_text,
    require_time,
)

# The gateway's payment methods. A method that is not in this list is reported as unknown.
CHANNELS = ("card", "bank", "bank_transfer", "ussd", "qr", "mobile_money", "eft", "unknown")
# Declined: the merchant rejected the claim and the bank agreed. Accepted: the bank returned the money.
DISPUTE_WON = "declined"
DISPUTE_LOST = "merchant-accepted"


@dataclass(frozen=True)
class Charge:
    """A charge at the gateway, from a webhook or a response.

    ``amount_minor`` is the amount that the customer paid. ``fees_minor`` is the gateway's part of this amount. Both
    are in kobo.
    """

    id: str
    reference: str
    status: str
    amount_minor: int
    fees_minor: int
    currency: str
    channel: str
    paid_at: datetime | None

    @property
    def is_successful(self) -> bool:
        """Whether the gateway has received the customer's money."""
        return self.status == "success"

    @property
    def has_failed(self) -> bool:
        """Whether the attempt ended without a payment, or the gateway reversed the payment."""
        return self.status in ("failed", "abandoned", "reversed")

    @classmethod
    def from_wire(cls, data: Any) -> "Charge":
        """Parse a charge.

        :param data: the ``data`` object of an event or a response
        :raises MalformedGatewayDataError: a field is missing or has another type; amounts must be integers
        """
        paid_at = parse_time(require_object(data).get("paid_at"))
        return cls(
            # The reference replaces a missing id.
            id=require_field(data, "reference", str)
            if data.get("id") is None
            else str(require_field(data, "id", int)),
            reference=require_field(data, "reference", str),
            status=require_field(data, "status", str),
            amount_minor=require_amount(data.get("amount"), "amount"),
            fees_minor=0 if data.get("fees") is None else require_amount(data["fees"], "fees"),
            currency=require_field(data, "currency", str),
            channel=data["channel"] if data.get("channel") in CHANNELS else "unknown",
            # An implausible time must not make the payment fail.
            paid_at=paid_at if paid_at and 2000 <= paid_at.year <= 2999 else None,
        )


@dataclass(frozen=True)
class GatewayRefund:
    """A refund at the gateway. ``merchant_note`` is the note that this service sent and identifies our refund.

    ``status`` is one of pending, processing, processed, failed and needs-attention. ``id``, ``merchant_note`` and
    ``charge_reference`` are empty if the gateway sends no value.
    """

    id: str
    status: str
    amount_minor: int
    merchant_note: str
    charge_reference: str = ""

    @classmethod
    def from_wire(cls, data: Any) -> "GatewayRefund":
        """Parse a refund.

        :param data: the ``data`` object of an event, or a refund in a response
        :raises MalformedGatewayDataError: a field is missing or has another type; amounts must be integers
        """
        note, reference = (require_object(data).get(n) for n in ("merchant_note", "transaction_reference"))
        return cls(
            id="" if data.get("id") is None else str(require_field(data, "id", int)),
            status=require_field(data, "status", str),
            amount_minor=require_amount(parse_digits(data.get("amount")), "amount"),
            merchant_note=note if isinstance(note, str) else "",
            charge_reference=reference if isinstance(reference, str) else "",
        )


@dataclass(frozen=True)
class GatewayDispute:
    """A dispute that a customer's bank opened about a charge (chargeback).

    ``resolution`` is the gateway's outcome, empty while the dispute is open. If the gateway sends no value,
    ``charge_id`` is empty, and ``amount_minor`` (kobo) and ``due_at`` are none.
    """

    id: str
    reference: str
    charge_id: str
    status: str
    resolution: str
    category: str
    amount_minor: int | None
    due_at: datetime | None

    @property
    def is_won(self) -> bool:
        """Whether the dispute ended and the merchant keeps the money."""
        return self.resolution == DISPUTE_WON

    @property
    def is_lost(self) -> bool:
        """Whether the dispute ended and the bank returned the money to the customer."""
        return self.resolution == DISPUTE_LOST

    @property
    def has_known_outcome(self) -> bool:
        """Whether the resolution is a recognized outcome."""
        return self.is_won or self.is_lost

    @classmethod
    def from_wire(cls, data: Any) -> "GatewayDispute":
        """Parse a dispute.

        Malformed descriptive fields are tolerated, because they must not prevent the freeze of the order.

        :param data: the ``data`` object of an event
        :raises MalformedGatewayDataError: the id or the reference of the charge is missing
        """
        fields, charge = read_object(data), read_object(data, "transaction")
        return cls(
            id=require_identifier(data, "id"),
            reference=parse_identifier(charge.get("reference"))
            or require_identifier(data, "transaction_reference"),
            charge_id=parse_identifier(charge.get("id")),
            status=parse_short_text(fields.get("status")),
            resolution=parse_short_text(fields.get("resolution")),
            category=parse_short_text(fields.get("category")),
            amount_minor=parse_amount(fields.get("refund_amount")),
            due_at=parse_time(fields.get("dueAt")),
        )


@dataclass(frozen=True)
class GatewayTransfer:
    """A transfer to a bank account at the gateway, without data about the account holder.

    ``amount_minor`` and ``fee_minor`` are in kobo. ``status`` is the gateway's value, such as pending, otp, success,
    failed or reversed. If the gateway sends no value, ``id``, ``transfer_code`` and ``status`` are empty, and
    ``created_at`` is none.
    """

    id: str
    reference: str
    amount_minor: int
    currency: str
    status: str = ""
    transfer_code: str = ""
    fee_minor: int = 0
    created_at: datetime | None = None

    @property
    def succeeded(self) -> bool:
        """Whether the money left the gateway's balance."""
        return self.status == "success"

    @property
    def failed(self) -> bool:
        """Whether the transfer ended and the money never left. The gateway has four statuses for this case."""
        return self.status in ("failed", "blocked", "rejected", "abandoned")

    @property
    def reversed(self) -> bool:
        """Whether the money was returned to the gateway's balance."""
        return self.status == "reversed"

    @property
    def awaits_otp(self) -> bool:
        """Whether the transfer waits for a one-time password in the gateway's dashboard."""
        return self.status == "otp"

    @classmethod
    def from_wire(cls, data: Any, *, may_lack_id: bool = False) -> "GatewayTransfer":
        """Parse a transfer.

        :param data: the ``data`` object of an event, or a transfer in a response
        :param may_lack_id: whether the id is optional, as in the response to a new transfer
        :raises MalformedGatewayDataError: a field is missing or has another type; amounts must be integers
        """
        fields = read_object(data)
        transfer_id = parse_identifier(fields.get("id")) if may_lack_id else require_identifier(data, "id")
        amount = parse_amount(fields.get("amount"))
        if amount is None:
            raise MalformedGatewayDataError("data.amount is not an amount")
        return cls(
            id=transfer_id,
            reference=require_identifier(data, "reference"),
            amount_minor=amount,
            currency=require_given(parse_short_text(fields.get("currency")), "currency"),
            status=parse_short_text(fields.get("status")),
            transfer_code=parse_identifier(fields.get("transfer_code")),
            fee_minor=parse_amount(fields.get("fee_charged")) or 0,
            created_at=parse_time(fields.get("createdAt")),
        )


@dataclass(frozen=True, slots=True)
class Bank:
    """A bank in the gateway's list of banks."""

    code: str
    name: str

    @classmethod
    def list_from_wire(cls, data: Any) -> list["Bank"]:
        """Parse a page of the list of banks, without inactive and deleted banks.

        :raises MalformedGatewayDataError: a field is missing or has another type
        """
        return [
            cls(code=require_text(item, "code"), name=require_text(item, "name"))
            for item in require_list(data)
            if isinstance(item, dict) and item.get("active") is not False and not item.get("is_deleted")
        ]


@dataclass(frozen=True, slots=True)
class GatewayTransferAccount:
    """A temporary bank account for one payment by bank transfer, and the account's expiry."""

    bank_name: str
    account_number: str
    account_name: str
    expires_at: datetime

    @classmethod
    def from_wire(cls, data: Any, *, reference: str) -> "GatewayTransferAccount":
        """Parse the account that the gateway created for a payment.

        :param reference: the expected reference of the payment
        :raises MalformedGatewayDataError: a field is missing or has another type, or the reference differs
        """
        if read_object(data).get("reference") != reference:
            raise MalformedGatewayDataError("the response is about another payment")
        return cls(
            bank_name=require_text(data.get("bank"), "name"),
            account_number=require_text(data, "account_number"),
            account_name=require_text(data, "account_name"),
            expires_at=require_time(data.get("account_expires_at")),
        )


def parse_account_name(data: Any, *, account_number: str) -> str:
    """Parse the name of an account's holder.

    :param account_number: the expected account number
    :raises MalformedGatewayDataError: the name is missing, or the account number differs
    """
    if read_object(data).get("account_number") != account_number:
        raise MalformedGatewayDataError("the response is about another account")
    return require_text(data, "account_name")
