"""What the payment gateway has on record: its balance, each movement of it, and the lists behind them, page by page."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, Literal, Protocol, TypeVar

from marketplace.infra.settings import Settings
from marketplace.kernel.clock import iso
from marketplace.kernel.money import CURRENCY
from marketplace.providers.gateway.client import GatewayClient, translating_malformed_data
from marketplace.providers.gateway.fields import (
    MalformedGatewayDataError,
    parse_digits,
    parse_short_text,
    require_amount,
    require_object,
    require_time,
)

RecordKind = Literal["charge", "transfer", "refund", "settlement"]

_PATHS: dict[RecordKind, str] = {
    "charge": "/transaction",
    "transfer": "/transfer",
    "refund": "/refund",
    "settlement": "/settlement",
}
# A million records: more is no window that somebody asked for, but a gateway that takes no notice of it.
_MAX_PAGES = 10_000
_AMOUNTS = range(-(10**15), 10**15 + 1)
_Item = TypeVar("_Item")
_parse_short_text = partial(parse_short_text, max_length=200)


@dataclass(frozen=True, slots=True)
class BalanceMovement:
    """A movement of the balance: what moved it (Transaction, Transfer, Refund, Settlement, ...), and by how many kobo.

    ``balance_minor`` is what the gateway held after it, ``row_id`` the id of what moved it.
    """

    id: int
    model: str
    row_id: str
    difference_minor: int
    balance_minor: int
    happened_at: datetime

    @classmethod
    def from_wire(cls, data: dict[str, Any]) -> "BalanceMovement":
        """Read a movement.

        :raises MalformedGatewayDataError: a field is missing or of another type
        """
        return cls(
            id=_require_integer(data.get("id"), "id", range(2**63)),
            model=_parse_short_text(data.get("model_responsible")),
            row_id=_parse_short_text(data.get("model_row")),
            difference_minor=_require_integer(data.get("difference"), "difference", _AMOUNTS),
            balance_minor=_require_integer(data.get("balance"), "balance", _AMOUNTS),
            happened_at=require_time(data.get("createdAt") or data.get("created_at")),
        )


@dataclass(frozen=True, slots=True)
class GatewayRecord:
    """A charge, transfer, refund or settlement as a list of the gateway has it, without whose it is.

    Amounts are kobo, or what is so of the currency. ``fee_minor`` of a charge is what the gateway kept of it, of a
    transfer what it took on top. ``note`` is a refund's, ``charge_id`` what a refund is of, ``dispute_id`` the dispute
    that a refund comes of; empty otherwise.
    """

    kind: RecordKind
    id: str
    reference: str
    status: str
    amount_minor: int
    fee_minor: int
    currency: str
    note: str
    charge_id: str
    dispute_id: str
    created_at: datetime
    changed_at: datetime

    @classmethod
    def from_wire(cls, kind: RecordKind, data: dict[str, Any]) -> "GatewayRecord":
        """Read a record of a list.

        :raises MalformedGatewayDataError: a field is missing or of another type
        """
        created_at = require_time(data.get("createdAt") or data.get("created_at"))
        changed = data.get("paid_at") or data.get("updatedAt") or data.get("updated_at")
        amount = data.get("amount")
        if kind == "settlement":
            # The effective amount reaches the bank; the total includes deductions.
            amount = (
                data.get("total_amount") if data.get("effective_amount") is None else data["effective_amount"]
            )
        fee = data.get({"charge": "fees", "transfer": "fee_charged"}.get(kind, ""))
        charge = data.get("transaction")
        return cls(
            kind=kind,
            id=str(_require_integer(data.get("id"), "id", range(2**63))),
            reference=_parse_short_text(data.get("reference")),
            status=_parse_short_text(data.get("status")),
            amount_minor=require_amount(parse_digits(amount), "amount"),
            fee_minor=0 if fee is None else require_amount(parse_digits(fee), "fee"),
            currency=_parse_short_text(data.get("currency")),
            note=_parse_short_text(data.get("merchant_note")),
            charge_id=_parse_short_text(charge.get("id") if isinstance(charge, dict) else charge),
            dispute_id=_parse_short_text(data.get("dispute")),
            created_at=created_at,
            changed_at=require_time(changed) if changed else created_at,
        )


class GatewayRecords(Protocol):
    """What the domain asks of the gateway to compare its books with."""

    def fetch_balance(self) -> int:
        """Ask what the gateway holds, in kobo."""

    def list_movements(self) -> Iterator[list[BalanceMovement]]:
        """List the movements of the balance in pages, the latest first."""

    def list_records(
        self, kind: RecordKind, *, since: datetime, until: datetime
    ) -> Iterator[list[GatewayRecord]]:
        """List what was made in a period in pages, the latest first."""

    def fetch_record(self, kind: RecordKind, gateway_id: str) -> GatewayRecord | None:
        """Ask about one of them by the gateway's id; none if it does not know it."""


class HttpGatewayRecords:
    """The gateway's HTTP API of lists. A page at a time is held, however many there are."""

    def __init__(self, settings: Settings) -> None:
        self._client = GatewayClient(settings)

    def fetch_balance(self) -> int:
        """Ask what the gateway holds, in kobo; below zero where it is owed something.

        :raises ProviderUnavailableError: no usable answer in time
        """
        balances = [
            item for item in self._client.list_items("/balance", {}) if item.get("currency") == CURRENCY
        ]
        with translating_malformed_data():
            return _require_integer(balances[0].get("balance"), "balance", _AMOUNTS) if balances else 0

    def list_movements(self) -> Iterator[list[BalanceMovement]]:
        """List the movements of the balance in naira, in pages, the latest first.

        Movements that come while it lists push others onto the next page, which then come once more; none is left out.

        :raises ProviderUnavailableError: no usable answer in time, or more pages than there may be
        """
        return self._list_pages(
            "/balance/ledger",
            {},
            lambda item: BalanceMovement.from_wire(item) if item.get("currency") == CURRENCY else None,
        )

    def list_records(
        self, kind: RecordKind, *, since: datetime, until: datetime
    ) -> Iterator[list[GatewayRecord]]:
        """List what was made in a period in pages, the latest first.

        Of charges only those that were paid are given, whether or not they were given back since.

        :param kind: what is listed
        :param since: the first moment of the period
        :param until: its last one
        :raises ProviderUnavailableError: no usable answer in time, or more pages than there may be
        """

        def read(item: dict[str, Any]) -> GatewayRecord | None:
            record = _parse_paid_record(kind, item)
            # A gateway that takes no notice of the period lists all that there is.
            return record if record and since <= record.created_at <= until else None

        return self._list_pages(_PATHS[kind], {"from": iso(since), "to": iso(until)}, read)

    def fetch_record(self, kind: RecordKind, gateway_id: str) -> GatewayRecord | None:
        """Ask about a charge, a transfer or a refund by the gateway's id.

        :return: none if the gateway does not know it, or it is a charge that was never paid
        :raises ProviderUnavailableError: no usable answer in time
        """
        return self._client.fetch(
            f"{_PATHS[kind]}/{gateway_id}",
            lambda data: _parse_paid_record(kind, require_object(data)),
            unknown_statuses=(400, 404),
        )

    def _list_pages(
        self, path: str, params: dict[str, str], read: Callable[[dict[str, Any]], _Item | None]
    ) -> Iterator[list[_Item]]:
        return self._client.list_pages(
            path,
            params,
            read,
            max_pages=_MAX_PAGES,
            too_many="The payment gateway lists more than can be looked through.",
        )


def _parse_paid_record(kind: RecordKind, data: dict[str, Any]) -> GatewayRecord | None:
    """Read a record; a charge that was never paid is none."""
    if kind == "charge" and data.get("status") not in ("success", "reversed"):
        return None
    return GatewayRecord.from_wire(kind, data)


def _require_integer(value: Any, name: str, span: range) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value not in span:
        raise MalformedGatewayDataError(f"{name} is no integer in range")
    return value
