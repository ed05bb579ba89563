"""In-memory transfers of the gateway, for the many payout histories that Hypothesis generates."""

from collections.abc import Sequence
from itertools import count
from typing import Any

from marketplace.kernel.errors import ProviderUnavailableError
from marketplace.providers.gateway.payloads import GatewayTransfer
from marketplace.providers.gateway.transfers import (
    InsufficientGatewayBalanceError,
    TransferInstruction,
    TransferRefusedError,
)
from tests.support.gateway import event_of

# Event names contain the ids, so ids must be unique across generated histories.
_transfer_ids = count(10**9)


class InMemoryTransfers:
    """The gateway's transfers in memory. Responses can be lost on demand, and tests deliver the events."""

    def __init__(self) -> None:
        self.transfers: dict[str, dict[str, Any]] = {}
        self.events: list[bytes] = []
        self.fault = ""
        # The recipients that may be paid at the moment. Other transfers are faults.
        self.recipients: set[str] = set()
        # Transfers to other recipients. A sweep continues after exceptions, so faults are collected.
        self.wrong: list[TransferInstruction] = []

    def create_recipient(self, *, name: str, account_number: str, bank_code: str) -> str | None:
        self._may_be_down()
        return f"RCP_{account_number}"

    def send(self, instruction: TransferInstruction) -> GatewayTransfer:
        self._may_refuse()
        made = self._make(instruction)
        self._may_lose()
        return GatewayTransfer.from_wire(made)

    def send_bulk(self, instructions: Sequence[TransferInstruction]) -> list[GatewayTransfer]:
        self._may_refuse()
        if any(order.reference in self.transfers for order in instructions):
            raise TransferRefusedError(404)
        made = [self._make(order) for order in instructions]
        self._may_lose()
        return [GatewayTransfer.from_wire(data) for data in made]

    def fetch_transfer(self, reference: str) -> GatewayTransfer | None:
        self._may_be_down()
        self._may_lose()
        data = self.transfers.get(reference)
        return GatewayTransfer.from_wire(data) if data else None

    def decide(self, data: dict[str, Any], status: str) -> None:
        """Settle or reverse a transfer and queue an event."""
        follows = {"pending": ("success", "failed", "reversed"), "success": ("reversed",)}
        if status in follows.get(data["status"], ()):
            data["status"] = status
            self.events.append(event_of(dict(data), f"transfer.{status}"))

    @property
    def left_minor(self) -> int:
        """The total of successful transfers, in kobo."""
        return sum(data["amount"] for data in self.transfers.values() if data["status"] == "success")

    def _make(self, order: TransferInstruction) -> dict[str, Any]:
        if order.reference not in self.transfers and order.recipient_code not in self.recipients:
            self.wrong.append(order)
        data = self.transfers.setdefault(
            order.reference,
            {
                "id": next(_transfer_ids),
                "reference": order.reference,
                "amount": order.amount_minor,
                "currency": "NGN",
                "status": "pending",
                "transfer_code": f"TRF_{order.reference}",
                "recipient_code": order.recipient_code,
            },
        )
        if (data["amount"], data["recipient_code"]) != (order.amount_minor, order.recipient_code):
            self.wrong.append(order)
        return data

    def _may_be_down(self) -> None:
        if self.fault == "down":
            raise ProviderUnavailableError

    def _may_refuse(self) -> None:
        self._may_be_down()
        if self.fault == "short":
            raise InsufficientGatewayBalanceError
        if self.fault in ("unwilling", "closed"):
            raise TransferRefusedError(400, is_permanent=self.fault == "closed")

    def _may_lose(self) -> None:
        if self.fault == "lost":
            raise ProviderUnavailableError
