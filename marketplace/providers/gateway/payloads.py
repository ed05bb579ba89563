"""Charges, refunds, disputes, transfers and banks as the gateway writes them, in events and in responses."""

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

# The merchant declined the claim, and the bank went along; of an accepted one the money is gone.
DISPUTE_WON = "declined"
DISPUTE_LOST = "merchant-accepted"


@dataclass(frozen=True)
class Charge:
    """A charge as the gateway describes it, in webhooks and when asked.

    ``amount_minor`` is what the customer paid and ``fees_minor`` what the gateway keeps of it, in kobo.
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
        """Tell whether the customer's money has arrived."""
        return self.status == "success"

    @property
    def has_failed(self) -> bool:
        """Tell whether the attempt is over without money."""
        return self.status in ("failed", "abandoned", "reversed")

    @classmethod
    def from_wire(cls, data: Any) -> "Charge":
        """Read a charge from the gateway's JSON.

        :param data: the ``data`` object of an event or an answer
        :raises MalformedGatewayDataError: a field is missing or of another type; amounts must be integers
        """
        paid_at = parse_time(require_object(data).get("paid_at"))
        return cls(
            # The reference stands in where the gateway sent no id.
            id=require_field(data, "reference", str)
            if data.get("id") is None
            else str(require_field(data, "id", int)),
            reference=require_field(data, "reference", str),
            status=require_field(data, "status", str),
            amount_minor=require_amount(data.get("amount"), "amount"),
            fees_minor=0 if data.get("fees") is None else require_amount(data["fees"], "fees"),
            currency=require_field(data, "currency", str),
            channel=data["channel"] if isinstance(data.get("channel"), str) else "unknown",
            # A time outside of this service's life must not cost a payment.
            paid_at=paid_at if paid_at and 2000 <= paid_at.year <= 2999 else None,
        )


@dataclass(frozen=True)
class GatewayRefund:
    """A refund as the gateway describes it. ``merchant_note`` is our own: it names the refund that it is of ours.

    ``status`` is the gateway's word: pending, processing, processed, failed, needs-attention. ``id``,
    ``merchant_note`` and ``charge_reference`` (the charge's) are empty where the gateway leaves them out.
    """

    id: str
    status: str
    amount_minor: int
    merchant_note: str
    charge_reference: str = ""

    @classmethod
    def from_wire(cls, data: Any) -> "GatewayRefund":
        """Read a refund from the gateway's JSON.

        :param data: the ``data`` object of an event, or a refund of an answer
        :raises MalformedGatewayDataError: a field is missing or of another type; amounts must be whole
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
    """A dispute that a customer's bank opened over a charge, as the gateway describes it.

    ``resolution`` is the gateway's word for how it ended, empty until then; ``charge_id`` is empty where the gateway
    leaves it out, ``amount_minor`` (kobo) and ``due_at`` are none then.
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
        """Tell whether it ended, and the money stays with us."""
        return self.resolution == DISPUTE_WON

    @property
    def is_lost(self) -> bool:
        """Tell whether it ended, and the money was taken from us."""
        return self.resolution == DISPUTE_LOST

    @property
    def has_known_outcome(self) -> bool:
        """Tell whether it says how it ended."""
        return self.is_won or self.is_lost

    @classmethod
    def from_wire(cls, data: Any) -> "GatewayDispute":
        """Read a dispute from the gateway's JSON.

        What only describes it may be odd: that must not keep an order from being frozen.

        :param data: the ``data`` object of an event
        :raises MalformedGatewayDataError: it lacks its id, or the reference of its charge
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
    """A transfer to a bank account, as the gateway describes it; whose account it is, is not kept.

    ``amount_minor`` and ``fee_minor`` are kobo. ``status`` is the gateway's word: pending, processing, received, otp,
    success, failed, reversed, ... ``id``, ``transfer_code`` and ``status`` are empty where the gateway leaves them
    out, and ``made_at`` is none.
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
        """Tell whether the money has left."""
        return self.status == "success"

    @property
    def failed(self) -> bool:
        """Tell whether the transfer is over and the money never left: the gateway has four words for that."""
        return self.status in ("failed", "blocked", "rejected", "abandoned")

    @property
    def reversed(self) -> bool:
        """Tell whether the money came back to the gateway."""
        return self.status == "reversed"

    @property
    def awaits_otp(self) -> bool:
        """Tell whether it waits for somebody to enter a one-time password at the gateway."""
        return self.status == "otp"

    @classmethod
    def from_wire(cls, data: Any, *, may_lack_id: bool = False) -> "GatewayTransfer":
        """Read a transfer from the gateway's JSON.

        :param data: the ``data`` object of an event, or a transfer of an answer
        :param may_lack_id: whether the id may be missing, as in the answer to sending a transfer
        :raises MalformedGatewayDataError: a field is missing or of another type; amounts must be integers
        """
        fields = read_object(data)
        transfer_id = parse_identifier(fields.get("id")) if may_lack_id else require_identifier(data, "id")
        amount = parse_amount(fields.get("amount"))
        if amount is None:
            raise MalformedGatewayDataError("data.amount is no amount")
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
    """A bank that accounts can be at."""

    code: str
    name: str

    @classmethod
    def list_from_wire(cls, data: Any) -> list["Bank"]:
        """Read a page of the list of banks; those that are closed are left out.

        :raises MalformedGatewayDataError: a field is missing or of another type
        """
        return [
            cls(code=require_text(item, "code"), name=require_text(item, "name"))
            for item in require_list(data)
            if isinstance(item, dict) and item.get("active") is not False and not item.get("is_deleted")
        ]


@dataclass(frozen=True, slots=True)
class GatewayTransferAccount:
    """The account that the transfer for one payment goes to, and how long it is open."""

    bank_name: str
    account_number: str
    account_name: str
    expires_at: datetime

    @classmethod
    def from_wire(cls, data: Any, *, reference: str) -> "GatewayTransferAccount":
        """Read the account that the gateway made for a payment.

        :param reference: of the payment, which the answer must be about
        :raises MalformedGatewayDataError: a field is missing or of another type, or it is another payment's
        """
        if read_object(data).get("reference") != reference:
            raise MalformedGatewayDataError("the answer is about another payment")
        return cls(
            bank_name=require_text(data.get("bank"), "name"),
            account_number=require_text(data, "account_number"),
            account_name=require_text(data, "account_name"),
            expires_at=require_time(data.get("account_expires_at")),
        )


def parse_account_name(data: Any, *, account_number: str) -> str:
    """Read the name that an account is kept under.

    :param account_number: which the answer must be about
    :raises MalformedGatewayDataError: there is no name, or it is another account's
    """
    if read_object(data).get("account_number") != account_number:
        raise MalformedGatewayDataError("the answer is about another account")
    return require_text(data, "account_name")
