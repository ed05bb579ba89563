"""All events that the gateway can send, in the gateway's format."""

from itertools import count
from typing import Any
from uuid import uuid4

from tests.support.gateway import charge_data

_ids = count(uuid4().int % 10**9 * 10**4)

OTHERS = (
    *("charge.failed", "customeridentification.success", "customeridentification.failed"),
    *("dedicatedaccount.assign.success", "dedicatedaccount.assign.failed"),
    *("invoice.create", "invoice.update", "invoice.payment_failed", "paymentrequest.pending"),
    *("paymentrequest.success", "subscription.create", "subscription.disable", "subscription.not_renew"),
    *("subscription.expiring_cards", "bank.transfer.rejected", "direct_debit.authorization.active"),
)
REFUNDS = {
    "refund.pending": "pending",
    "refund.processing": "processing",
    "refund.processed": "processed",
    "refund.failed": "failed",
    "refund.needs-attention": "needs-attention",
}
TRANSFERS = {
    "transfer.success": "success",
    "transfer.failed": "failed",
    "transfer.reversed": "reversed",
}
DISPUTES = ("charge.dispute.create", "charge.dispute.remind", "charge.dispute.resolve")
ALL = ("charge.success", *REFUNDS, *TRANSFERS, *DISPUTES, *OTHERS)


def new_id() -> int:
    """Return a unique event id."""
    return next(_ids)


def dispute_data(reference: str, charge_id: int | None, **values: Any) -> dict[str, Any]:
    """Build an open dispute of a full charge."""
    return {
        "id": new_id(),
        "refund_amount": 310_050,
        "currency": "NGN",
        "status": "awaiting-merchant-feedback",
        "resolution": None,
        "domain": "test",
        "transaction": {"id": charge_id, "status": "success", "reference": reference, "amount": 310_050},
        "transaction_reference": None,
        "category": "chargeback",
        "customer": {"email": "ada@example.edu", "phone": "+2348031234567"},
        "bin": "408408",
        "last4": "4081",
        "dueAt": "2026-11-25T18:00:00.000Z",
        "resolvedAt": None,
        "evidence": None,
        "history": [{"status": "pending", "by": "ada@example.edu"}],
    } | values


def transfer_data(status: str, **values: Any) -> dict[str, Any]:
    """Build a transfer to a unique account."""
    return {
        "amount": 500_000,
        "currency": "NGN",
        "domain": "test",
        "id": new_id(),
        "integration": 100_073,
        "reason": "Payout",
        "reference": f"payout-{uuid4().hex}",
        "source": "balance",
        "status": status,
        "transfer_code": f"TRF_{uuid4().hex[:12]}",
        "recipient": {
            "recipient_code": "RCP_x",
            "details": {"account_number": "0123456789", "bank_code": "058", "bank_name": "A Bank"},
        },
    } | values


def refund_data(status: str, reference: str, **values: Any) -> dict[str, Any]:
    """Build an unrecognized refund in the format of the gateway's events."""
    return {
        "status": status,
        "transaction_reference": reference,
        "refund_reference": None,
        "amount": "310050",
        "currency": "NGN",
        "processor": "instant-transfer",
        "customer": {"first_name": "Ada", "email": "ada@example.edu"},
        "integration": 100_073,
        "domain": "test",
    } | values


def data_of(event: str, *, reference: str, charge_id: int, amount_minor: int) -> dict[str, Any]:
    """Build the data of an event of any type about a payment."""
    if event == "charge.success":
        return charge_data(reference, amount_minor, id=charge_id)
    if event in REFUNDS:
        return refund_data(REFUNDS[event], reference)
    if event in TRANSFERS:
        return transfer_data(TRANSFERS[event])
    if event in DISPUTES:
        over = event == "charge.dispute.resolve"
        ended = {"status": "resolved", "resolution": "merchant-accepted"} if over else {}
        return dispute_data(reference, charge_id, **ended)
    return {"id": new_id(), "customer": {"email": "ada@example.edu"}, "reference": reference}
