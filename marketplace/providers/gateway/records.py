"""Records of the payment gateway for reconciliation: the balance, balance movements, and lists of records."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, Literal, Protocol, TypeVar

from marketplace.infra.settings import Settings
from marketplace.kernel.clock import iso
from marketplace.kernel.errors import ProviderUnavailableError
from marketplace.kernel.money import CURRENCY
from marketplace.providers import texts
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
# One million records. A longer list means that the gateway ignores the requested period.
_MAX_PAGES = 10_000
_AMOUNTS = range(-(10**15), 10**15 + 1)
_Item = TypeVar("_Item")
_parse_short_text = partial(parse_short_text, max_length=200)


@dataclass(frozen=True, slots=True)
class BalanceMovement:
    """A movement of the gateway's balance.

    ``model`` is the type of the cause (Transaction, Transfer, Refund, Settlement, ...), and ``row_id`` is the id of
    the cause. ``difference_minor`` is the change, and ``balance_minor`` is the balance after the change, in kobo.
    """

    id: int
    model: str
    row_id: str
    difference_minor: int
    balance_minor: int
    happened_at: datetime

    @classmethod
    def from_wire(cls, data: dict[str, Any]) -> "BalanceMovement":
        """Parse a movement.

        :raises MalformedGatewayDataError: a field is missing or has another type
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
    """A charge, transfer, refund or settlement from a list of the gateway, without personal data.

    Amounts are in kobo, or in the minor unit of another currency. The gateway deducts ``fee_minor`` from a charge and
    adds ``fee_minor`` to a transfer. Only refunds have ``note``, ``charge_id`` and ``dispute_id``. These fields are
    empty otherwise.
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
        """Parse a record.

        :raises MalformedGatewayDataError: a field is missing or has another type
        """
        created_at = require_time(data.get("createdAt") or data.get("created_at"))
        changed = data.get("paid_at") or data.get("updatedAt") or data.get("updated_at")
        amount = data.get("amount")
        if kind == "settlement":
            # The effective amount is paid to the bank. The total is the amount before deductions.
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
    """The gateway's records for comparison with the ledger."""

    def fetch_balance(self) -> int:
        """Fetch the gateway's balance in kobo."""

    def list_movements(self) -> Iterator[list[BalanceMovement]]:
        """List balance movements in pages, latest first."""

    def list_records(
        self, kind: RecordKind, *, since: datetime, until: datetime
    ) -> Iterator[list[GatewayRecord]]:
        """List records that were created in a period, in pages, latest first."""

    def fetch_record(self, kind: RecordKind, gateway_id: str) -> GatewayRecord | None:
        """Fetch a record by the gateway's id, or none if the gateway has no such record."""


class HttpGatewayRecords:
    """The adapter of the gateway's HTTP API for records. Lists keep only one page in memory."""

    def __init__(self, settings: Settings) -> None:
        self._client = GatewayClient(settings, tells_refused_key=True)

    def fetch_balance(self) -> int:
        """Fetch the gateway's balance in kobo. A negative balance is owed to the gateway.

        :raises ProviderUnavailableError: no valid response in time, or only balances in other currencies
        """
        items = self._client.list_items("/balance", {})
        balances = [item for item in items if item.get("currency") == CURRENCY]
        if items and not balances:
            raise ProviderUnavailableError(texts.GATEWAY_UNEXPECTED_RESPONSE)
        with translating_malformed_data():
            return _require_integer(balances[0].get("balance"), "balance", _AMOUNTS) if balances else 0

    def list_movements(self) -> Iterator[list[BalanceMovement]]:
        """List movements of the naira balance in pages, latest first.

        New movements during the listing shift older movements to the next page. A movement can therefore appear twice,
        but no movement is missing.

        :raises ProviderUnavailableError: no valid response in time, or too many pages
        """
        return self._list_pages(
            "/balance/ledger",
            {},
            lambda item: BalanceMovement.from_wire(item) if item.get("currency") == CURRENCY else None,
        )

    def list_records(
        self, kind: RecordKind, *, since: datetime, until: datetime
    ) -> Iterator[list[GatewayRecord]]:
        """List records that were created in a period, in pages, latest first.

        Unpaid charges are left out. Paid charges are included after a reversal, too.

        :param since: the start of the period, inclusive
        :param until: the end of the period, inclusive
        :raises ProviderUnavailableError: no valid response in time, or too many pages
        """

        def read(item: dict[str, Any]) -> GatewayRecord | None:
            record = _parse_paid_record(kind, item)
            # A gateway that ignores the period returns all records.
            return record if record and since <= record.created_at <= until else None

        return self._list_pages(_PATHS[kind], {"from": iso(since), "to": iso(until)}, read)

    def fetch_record(self, kind: RecordKind, gateway_id: str) -> GatewayRecord | None:
        """Fetch a charge, a transfer or a refund by the gateway's id.

        :return: none if the gateway has no such record, or the record is an unpaid charge
        :raises ProviderUnavailableError: no valid response in time
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
            too_many=texts.GATEWAY_TOO_MANY_RECORDS,
        )


def _parse_paid_record(kind: RecordKind, data: dict[str, Any]) -> GatewayRecord | None:
    """Parse a record, or return none for an unpaid charge."""
    if kind == "charge" and data.get("status") not in ("success", "reversed"):
        return None
    return GatewayRecord.from_wire(kind, data)


def _require_integer(value: Any, name: str, span: range) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value not in span:
        raise MalformedGatewayDataError(f"{name} is not an integer in range")
    return value
