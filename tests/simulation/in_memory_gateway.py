"""In-memory gateway of the simulation: responses can be lost, and the scenario delivers the events."""

from dataclasses import dataclass, field
from itertools import count
from random import Random
from typing import Any

from marketplace.kernel.errors import ProviderUnavailableError
from marketplace.providers.client import ProviderRefusedError
from marketplace.providers.gateway.payloads import Charge, GatewayRefund
from marketplace.providers.gateway.payments import PaymentPage
from tests.support.gateway import event_of
from tests.support.gateway_events import dispute_data


@dataclass
class InMemoryGateway:
    """Hosted pages, charges, refunds and events. ``fault`` is ``down``, ``lost`` or empty."""

    pages: dict[str, int] = field(default_factory=dict)
    charges: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    refunds: list[dict[str, Any]] = field(default_factory=list)
    events: list[bytes] = field(default_factory=list)
    reported: dict[int, set[str]] = field(default_factory=dict)
    chargebacks: dict[int, dict[str, Any]] = field(default_factory=dict)
    fault: str = ""
    _ids: "count[int]" = field(default_factory=lambda: count(10**9))

    def initialize_payment(
        self, *, reference: str, amount_minor: int, email: str, callback_url: str | None, metadata: Any
    ) -> PaymentPage:
        """Open a hosted page, or refuse a known reference like the gateway."""
        self._may_be_down()
        if reference in self.pages:
            raise ProviderRefusedError("till", 400, "Duplicate Transaction Reference")
        self.pages[reference] = amount_minor
        self._may_lose()
        return PaymentPage(f"https://till.example/{reference}", reference)

    def fetch_charge(self, reference: str) -> Charge | None:
        """Return the first charge of a reference, an unpaid charge for a page, or None."""
        self._may_be_down()
        self._may_lose()
        if reference not in self.pages:
            return None
        made = self.charges.get(reference)
        return Charge.from_wire(made[0] if made else self._charge(reference, 0, "abandoned"))

    def pay(self, reference: str, difference: int) -> None:
        """Pay on a hosted page: the requested amount plus a difference."""
        data = self._charge(reference, max(self.pages[reference] + difference, 1), "success")
        self.charges.setdefault(reference, []).append(data)
        self.events.append(event_of(data))

    def create_refund(self, *, charge_reference: str, amount_minor: int, merchant_note: str) -> GatewayRefund:
        """Create a refund. A repeated call creates a second refund, like at the gateway."""
        self._may_be_down()
        data = {
            "id": next(self._ids),
            "status": "pending",
            "amount": amount_minor,
            "merchant_note": merchant_note,
            "transaction_reference": charge_reference,
        }
        self.refunds.append(data)
        self._may_lose()
        return GatewayRefund.from_wire(data)

    def list_refunds(self, reference: str) -> list[GatewayRefund]:
        """List the refunds of a reference."""
        self._may_be_down()
        self._may_lose()
        return [
            GatewayRefund.from_wire(data)
            for data in self.refunds
            if data["transaction_reference"] == reference
        ]

    def decide(self, data: dict[str, Any], status: str) -> None:
        """Change the status of a refund and emit an event. A final status stays and is emitted again.

        ``late success`` sends a refund that failed or needed attention. ``returned`` fails a refund that was sent, for
        good.
        """
        reported = self.reported.setdefault(data["id"], set())
        if status == "late success":
            status = "processed" if data["status"] != "pending" else data["status"]
            data["status"] = data["status"] if {"processed", "failed"} <= reported else status
        elif status == "returned":
            if data["status"] == "processed" and "failed" not in reported:
                data["status"] = "failed"
        elif data["status"] not in ("processed", "failed"):
            data["status"] = status
        reported.add(data["status"])
        self.events.append(event_of(dict(data), f"refund.{data['status']}"))

    def charge_back(self, draw: Random) -> None:
        """Dispute a charge at the bank, or end a dispute in any way. Repeats are emitted again."""
        made = [data for charges in self.charges.values() for data in charges]
        if not made:
            return
        data = draw.choice(made)
        dispute = self.chargebacks.get(data["id"])
        if dispute is None:
            dispute = dispute_data(
                data["reference"],
                data["id"],
                id=next(self._ids),
                refund_amount=draw.choice([data["amount"], data["amount"], 50_000]),
            )
            dispute["refund_amount"] = min(dispute["refund_amount"], data["amount"])
            self.chargebacks[data["id"]] = dispute
            self.events.append(event_of(dict(dispute), "charge.dispute.create"))
        else:
            self.end_chargeback(dispute, draw.choice(["declined", "merchant-accepted"]))

    def end_chargeback(self, dispute: dict[str, Any], resolution: str) -> None:
        """End a dispute. The first outcome stays, and is emitted again."""
        dispute["resolution"] = dispute["resolution"] or resolution
        dispute["status"] = "resolved"
        self.events.append(event_of(dict(dispute), "charge.dispute.resolve"))

    def _may_be_down(self) -> None:
        if self.fault == "down":
            raise ProviderUnavailableError

    def _may_lose(self) -> None:
        if self.fault == "lost":
            raise ProviderUnavailableError

    def _charge(self, reference: str, amount_minor: int, status: str) -> dict[str, Any]:
        return {
            "id": next(self._ids),
            "reference": reference,
            "status": status,
            "amount": amount_minor,
            "fees": min(100, amount_minor),
            "currency": "NGN",
            "channel": "card",
            "paid_at": None,
        }
