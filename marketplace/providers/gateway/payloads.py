"""Charges, refunds, disputes and transfers as the gateway writes them, in events and in responses."""

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from marketplace.providers.gateway.errors import MalformedGatewayDataError

_MAX_WORD_LENGTH = 100
_MAX_NAME_LENGTH = 255
_MAX_AMOUNT_MINOR = 10**15
# The merchant declined the claim, and the bank went along; of an accepted one the money is gone.
DISPUTE_WON = "declined"
DISPUTE_LOST = "merchant-accepted"


_PLAUSIBLE_YEARS = (2000, 2999)


_DIGITS = re.compile("[0-9]{1,15}")


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
        if not isinstance(data, dict):
            raise MalformedGatewayDataError("data is not an object")
        return cls(
            # The reference stands in where the gateway sent no id.
            id=_require_field(data, "reference", str)
            if data.get("id") is None
            else str(_require_field(data, "id", int)),
            reference=_require_field(data, "reference", str),
            status=_require_field(data, "status", str),
            amount_minor=_require_amount(data, "amount"),
            fees_minor=0 if data.get("fees") is None else _require_amount(data, "fees"),
            currency=_require_field(data, "currency", str),
            channel=data["channel"] if isinstance(data.get("channel"), str) else "unknown",
            paid_at=_parse_plausible_time(data.get("paid_at")),
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
        if not isinstance(data, dict):
            raise MalformedGatewayDataError("data is not an object")
        note, reference, amount = (data.get(n) for n in ("merchant_note", "transaction_reference", "amount"))
        # Its events write the amount as digits, its answers as a number.
        amount_minor = int(amount) if isinstance(amount, str) and _DIGITS.fullmatch(amount) else amount
        return cls(
            id="" if data.get("id") is None else str(_require_field(data, "id", int)),
            status=_require_field(data, "status", str),
            amount_minor=_require_amount({"amount": amount_minor}, "amount"),
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
        charge = _read_object(data, "transaction")
        return cls(
            id=_require_identifier(data, "id"),
            reference=_parse_identifier(charge.get("reference"))
            or _require_identifier(data, "transaction_reference"),
            charge_id=_parse_identifier(charge.get("id")),
            status=_parse_short_text(_read_object(data).get("status")),
            resolution=_parse_short_text(_read_object(data).get("resolution")),
            category=_parse_short_text(_read_object(data).get("category")),
            amount_minor=_parse_amount(_read_object(data).get("refund_amount")),
            due_at=_parse_time(_read_object(data).get("dueAt")),
        )


# The gateway's words for a transfer that never reached its account, beside its own "failed".
_FAILED_STATUSES = frozenset({"failed", "blocked", "rejected", "abandoned"})


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
        """Tell whether it is over, and the money never left."""
        return self.status in _FAILED_STATUSES

    @property
    def reversed(self) -> bool:
        """Tell whether the money came back to the gateway."""
        return self.status == "reversed"

    @property
    def awaits_otp(self) -> bool:
        """Tell whether it waits for somebody to enter a one-time password at the gateway."""
        return self.status == "otp"

    @classmethod
    def from_wire(cls, data: Any) -> "GatewayTransfer":
        """Read a transfer from the gateway's JSON.

        :param data: the ``data`` object of an event, or a transfer of an answer
        :raises MalformedGatewayDataError: a field is missing or of another type; amounts must be integers
        """
        return cls._read(data, _require_identifier(data, "id"))

    @classmethod
    def from_send_response(cls, data: Any) -> "GatewayTransfer":
        """Read a transfer that was just sent: the answer may leave its id out.

        :raises MalformedGatewayDataError: another field is missing or of another type; amounts must be integers
        """
        return cls._read(data, _parse_identifier(_read_object(data).get("id")))

    @classmethod
    def _read(cls, data: Any, transfer_id: str) -> "GatewayTransfer":
        fields = _read_object(data)
        amount = _parse_amount(fields.get("amount"))
        if amount is None:
            raise MalformedGatewayDataError("data.amount is no amount")
        return cls(
            id=transfer_id,
            reference=_require_identifier(data, "reference"),
            amount_minor=amount,
            currency=_require_given(_parse_short_text(fields.get("currency")), "currency"),
            status=_parse_short_text(fields.get("status")),
            transfer_code=_parse_identifier(fields.get("transfer_code")),
            fee_minor=_parse_amount(fields.get("fee_charged")) or 0,
            created_at=_parse_time(fields.get("createdAt")),
        )


def _read_object(data: Any, name: str | None = None) -> dict[str, Any]:
    value = data if name is None else _read_object(data).get(name)
    return value if isinstance(value, dict) else {}


def _parse_amount(value: Any) -> int | None:
    whole = isinstance(value, int) and not isinstance(value, bool)
    return value if whole and 0 <= value <= _MAX_AMOUNT_MINOR else None


def _parse_short_text(value: Any) -> str:
    """Give a word or a number as text, empty where it is neither."""
    wordy = isinstance(value, str | int) and not isinstance(value, bool)
    return str(value)[:_MAX_WORD_LENGTH] if wordy else ""


def _parse_identifier(value: Any) -> str:
    """Give what names something, whole: cut short, it would name something else."""
    name = str(value) if isinstance(value, str | int) and not isinstance(value, bool) else ""
    if len(name) > _MAX_NAME_LENGTH:
        raise MalformedGatewayDataError("an id or a reference is too long to be one")
    return name


def _require_identifier(data: Any, name: str) -> str:
    return _require_given(_parse_identifier(_read_object(data).get(name)), name)


def _require_given(text: str, name: str) -> str:
    if not text:
        raise MalformedGatewayDataError(f"data.{name} is missing")
    return text


def _parse_time(value: Any) -> datetime | None:
    try:
        moment = datetime.fromisoformat(value) if isinstance(value, str) else None
        return moment.astimezone(UTC) if moment and moment.tzinfo else None
    except (ValueError, OverflowError):
        return None


def _require_field(data: dict[str, Any], name: str, kind: type) -> Any:
    value = data.get(name)
    if not isinstance(value, kind) or isinstance(value, bool):
        raise MalformedGatewayDataError(f"data.{name} is not {'an integer' if kind is int else 'a string'}")
    return value


def _require_amount(data: dict[str, Any], name: str) -> int:
    value: int = _require_field(data, name, int)
    if not 0 <= value <= _MAX_AMOUNT_MINOR:
        raise MalformedGatewayDataError(f"data.{name} is out of range")
    return value


def _parse_plausible_time(value: Any) -> datetime | None:
    """Give a time in UTC; what is no time of this service's life is none, since it must not cost a payment."""
    moment = _parse_time(value)
    return moment if moment and _PLAUSIBLE_YEARS[0] <= moment.year <= _PLAUSIBLE_YEARS[1] else None
