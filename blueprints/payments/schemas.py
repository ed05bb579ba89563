"""What payments are asked with, and what they look like."""

from typing import Any

from marshmallow import ValidationError, fields, validate, validates_schema

from blueprints.http.csv_export import FORMATS
from blueprints.http.fields import (
    AccountNumber,
    BankCode,
    Choice,
    Created,
    CursorQuery,
    DateRangeQuery,
    FullMatch,
    HttpUrl,
    Identified,
    IntegerParameter,
    MinorAmount,
    OffsetQuery,
    Schema,
    SingleLineText,
    StrictBoolean,
    StrictInteger,
    Text,
    Timestamp,
    Uuid,
    sort_choice,
)
from marketplace.payments import admin_queries, states

_REFERENCE = FullMatch("checkout-[0-9a-f]{32}", error="Must be checkout- and 32 lowercase hex digits.")


class CreatePaymentIntent(Schema):
    """What is to be paid: an order or a checkout."""

    order_id = Uuid()
    checkout_id = Uuid()
    callback_url = HttpUrl()

    @validates_schema
    def check_target(self, data: dict[str, Any], **_kwargs: Any) -> None:
        """Ask for exactly one thing to be paid."""
        if sum(name in data for name in ("order_id", "checkout_id", "reference")) != 1:
            raise ValidationError(f"Send one of {self._target_names}.", "orderId")

    _target_names = "orderId and checkoutId"


class InitializePayment(CreatePaymentIntent):
    """What is to be paid: an order, a checkout, or an intent by its reference."""

    reference = fields.String(validate=_REFERENCE)
    _target_names = "orderId, checkoutId and reference"


class VerifyPayment(Schema):
    """Which payment is asked about."""

    reference = fields.String(required=True, validate=_REFERENCE)


class PaymentSummary(Schema):
    """A payment and its status."""

    reference = fields.String(required=True)
    status = Choice(*sorted(states.INTENT.states), required=True)
    amount_minor = MinorAmount(required=True)
    currency = fields.String(required=True)


class PaymentIntentView(PaymentSummary):
    """A payment that is not opened at the gateway."""

    order_ids = fields.List(Uuid(), required=True)


class HostedPageView(Schema):
    """Where the buyer pays."""

    reference = fields.String(required=True)
    authorization_url = fields.Url(required=True, require_tld=False)
    access_code = fields.String(required=True)
    amount_minor = MinorAmount(required=True)


class PaymentOrder(Identified):
    """An order that a payment is for."""

    number = fields.String(required=True)
    status = fields.String(required=True)


class PaymentView(PaymentSummary):
    """What became of a payment."""

    channel = fields.String(required=True, allow_none=True)
    paid_at = Timestamp(required=True, allow_none=True)
    orders = fields.List(fields.Nested(PaymentOrder), required=True)


class LedgerEntryQuery(DateRangeQuery, CursorQuery):
    """Which entries of the caller's statement are listed; ``to`` is exclusive."""

    kind = Text(max_length=40, load_default=None)
    direction = Choice("debit", "credit", load_default=None)
    order_id = Uuid(load_default=None)
    format = Choice(*FORMATS, load_default=None)


class LedgerEntryView(Identified):
    """An entry of the caller's statement, in the order of the CSV's columns."""

    transaction_id = Uuid(required=True)
    account = fields.String(required=True)
    kind = fields.String(required=True)
    direction = Choice("debit", "credit", required=True)
    amount_minor = MinorAmount(minimum=1, required=True)
    balance_after_minor = MinorAmount(required=True, allow_none=True)
    order_id = Uuid(required=True, allow_none=True)
    description = fields.String(required=True)
    created_at = Timestamp(required=True)


_REASON_LENGTH = {"min_length": 10, "max_length": 500}
_REFUND_STATUSES = sorted(states.REFUND.states)
# Late and double charges are not held back: they go back at once, and are refunds of the cause ``unneeded_charge``.
_QUARANTINE_REASONS = ("amount_below_total", "currency", "fees_above_amount")


class RefundedItem(Schema):
    """So many of a product of the order."""

    product_id = Uuid(required=True)
    quantity = StrictInteger(minimum=1, maximum=1000, required=True)


class ProcessRefund(Schema):
    """How much of an order goes back, whereto, and why."""

    amount_minor = MinorAmount(
        minimum=1, metadata={"description": "Without it, what the items cost, or all that escrow holds."}
    )
    destination = Choice("wallet", "gateway", required=True)
    reason = Text(
        **_REASON_LENGTH, required=True, metadata={"description": "Both parties can read it in the trail."}
    )
    items = fields.List(fields.Nested(RefundedItem), validate=validate.Length(min=1, max=50))
    clawback = StrictBoolean(
        load_default=False,
        metadata={
            "description": "The money was released: take it back from the vendor, who owes it from then on."
        },
    )

    @validates_schema
    def check_items(self, data: dict[str, Any], **_kwargs: Any) -> None:
        """Refuse a product that is named twice."""
        seen = set()
        for index, item in enumerate(data.get("items", ())):
            if item["product_id"] in seen:
                raise ValidationError({"items": {index: {"productId": ["Was named before."]}}})
            seen.add(item["product_id"])


class RefundState(Identified):
    """A refund's amount and status."""

    amount_minor = MinorAmount(minimum=1, required=True)
    status = Choice(*_REFUND_STATUSES, required=True)


class RefundSummary(RefundState):
    """A refund, as all see it."""

    destination = Choice("gateway", "wallet", required=True)
    created_at = Timestamp(required=True)
    settled_at = Timestamp(required=True, allow_none=True)


class ClawbackView(Schema):
    """Who bears what went back after the release, and what the vendor owes in all by now."""

    vendor_minor = MinorAmount(required=True)
    platform_minor = MinorAmount(required=True)
    vendor_owes_minor = MinorAmount(required=True)


class ProcessedRefund(Schema):
    """What came of a refund: the order, what escrow still holds of it, and the refunds that it takes."""

    order_id = Uuid(required=True, attribute="order.id")
    status = fields.String(required=True, attribute="order.status")
    escrow_status = fields.String(required=True, attribute="order.escrow_status")
    amount_minor = MinorAmount(required=True)
    held_minor = MinorAmount(required=True, attribute="order.escrow_balance_minor")
    refunds = fields.List(fields.Nested(RefundSummary), required=True)
    clawback = fields.Nested(ClawbackView, required=True, allow_none=True)


class RefundQuery(OffsetQuery):
    """Which refunds are listed: ``open`` are those that are not over, ``paid_twice`` what the buyer got twice."""

    sort = sort_choice(admin_queries.REFUND_SORTS, default="created_at")
    status = Choice(
        admin_queries.OPEN_FILTER, admin_queries.PAID_TWICE_FILTER, *_REFUND_STATUSES, load_default=None
    )
    destination = Choice("gateway", "wallet", load_default=None)
    cause = Choice(
        *admin_queries.CAUSE_PREFIXES,
        load_default=None,
        metadata={
            "description": "order: it was cancelled, refunded by an officer, or ended unpaid; unneeded_charge: a charge"
            " came late or once more; held_charge: it was held back, and decided on; clawback: after the release."
        },
    )
    older_than_hours = IntegerParameter(minimum=0, maximum=24 * 366, load_default=None)


class Buyer(Identified):
    """Whose money it is."""

    name = fields.String(required=True, allow_none=True)


class RefundRow(RefundSummary):
    """A refund as finance sees it."""

    reason = fields.String(required=True)
    attempt = StrictInteger(minimum=1, required=True)
    order_id = Uuid(required=True, allow_none=True)
    order_number = fields.String(required=True, allow_none=True)
    buyer = fields.Nested(Buyer, required=True)
    payment_reference = fields.String(required=True, allow_none=True)
    gateway_refund_id = fields.String(required=True, allow_none=True)
    requested_by = Uuid(required=True, allow_none=True)
    dispute = Choice(
        "open",
        "lost",
        required=True,
        allow_none=True,
        metadata={
            "description": "The buyer's bank disputes the charge, so what was not sent waits; or took it back."
        },
    )
    paid_twice_minor = MinorAmount(
        required=True,
        metadata={"description": "What the gateway paid of it although the buyer had the money already."},
    )
    buyer_owes_minor = MinorAmount(
        required=True,
        metadata={"description": "What the buyer owes for money that reached them twice, by now and in all."},
    )
    times_returned = StrictInteger(
        minimum=0,
        required=True,
        metadata={"description": "How often it was sent, and came back to the gateway."},
    )
    age_seconds = StrictInteger(
        minimum=0,
        required=True,
        metadata={"description": "From its making until it was settled, or until now."},
    )


class RecoveredRefund(RefundState):
    """A refund that an officer saw to."""

    attempt = StrictInteger(minimum=1, required=True)


class QuarantinedChargeQuery(OffsetQuery):
    """Which held charges are listed."""

    sort = sort_choice(admin_queries.QUARANTINE_SORTS, default="created_at")
    status = Choice("open", "resolved", load_default=None)
    reason = Choice(*_QUARANTINE_REASONS, load_default=None)


class QuarantinedChargeOrder(PaymentOrder):
    """An order that a held charge was for."""

    due_minor = MinorAmount(required=True, attribute="payable_minor")


class QuarantinedChargeOrderRow(QuarantinedChargeOrder):
    """An order that a held charge was for, with what it costs."""

    total_minor = MinorAmount(required=True)


class QuarantinedChargeRow(Created):
    """A charge that was held back. ``heldMinor`` is the buyer's part of it, as far as it is in the books."""

    status = Choice("open", "resolved", required=True)
    reason = Choice(*_QUARANTINE_REASONS, required=True)
    amount_minor = MinorAmount(required=True)
    fees_minor = MinorAmount(required=True)
    held_minor = MinorAmount(required=True)
    due_minor = MinorAmount(required=True)
    currency = fields.String(required=True)
    payment_reference = fields.String(required=True)
    orders = fields.List(fields.Nested(QuarantinedChargeOrderRow), required=True)
    buyer = fields.Nested(Buyer, required=True)
    resolved_at = Timestamp(required=True, allow_none=True)
    resolution = fields.String(required=True, allow_none=True)
    resolution_note = fields.String(required=True, allow_none=True)
    resolved_by = Uuid(required=True, allow_none=True)


class ResolveQuarantinedCharge(Schema):
    """What becomes of a held charge, and why."""

    action = Choice("accept_rest", "refund", "wallet", required=True)
    note = SingleLineText(**_REASON_LENGTH, required=True)


class ResolvedQuarantinedCharge(Schema):
    """What became of a held charge, and what is left to pay of its orders."""

    id = Uuid(required=True, attribute="row.id")
    status = Choice("resolved", required=True, attribute="row.status")
    resolution = fields.String(required=True, attribute="row.resolution")
    amount_minor = MinorAmount(required=True)
    orders = fields.List(fields.Nested(QuarantinedChargeOrder), required=True)


class BankView(Schema):
    """A bank that accounts can be at."""

    code = fields.String(required=True)
    name = fields.String(required=True)


class ResolveBankAccount(Schema):
    """Which account is asked about."""

    account_number = AccountNumber(required=True)
    bank_code = BankCode(required=True)


class BankAccountView(Schema):
    """A bank account with its holder's name."""

    bank_name = fields.String(required=True)
    account_number = fields.String(required=True)
    account_name = fields.String(required=True)


class ResolvedBankAccount(BankAccountView):
    """A bank account, and the name that it is kept under."""

    bank_code = fields.String(required=True)


class VirtualAccount(BankAccountView):
    """Where the transfer of a payment goes; exactly ``amountMinor`` pays it, until ``expiresAt``."""

    reference = fields.String(required=True)
    amount_minor = MinorAmount(required=True)
    expires_at = Timestamp(required=True)
