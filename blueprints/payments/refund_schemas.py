"""Schemas of refunds and quarantined charges."""

from marshmallow import fields, validate

from blueprints.http.field_docs import doc
from blueprints.http.fields import (
    Choice,
    Created,
    DistinctItems,
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
from blueprints.payments.schemas import PaymentOrder
from marketplace.kernel import demo_ids
from marketplace.orders import states as order_states
from marketplace.payments import admin_queries, states

_ORDER_STATUSES = sorted(order_states.ORDER.states)
_ESCROW_STATUSES = sorted(order_states.ESCROW.states)
_REASON_LENGTH = {"min_length": 10, "max_length": 500}
_REFUND_STATUSES = sorted(states.REFUND.states)
# Late and duplicate charges are not quarantined: they are refunded at once, with the cause ``unneeded_charge``.
_QUARANTINE_RESOLUTIONS = ("accept_rest", "refund", "wallet")
_QUARANTINE_REASONS = ("amount_below_total", "currency", "fees_above_amount")


class RefundedItem(Schema):
    """A product of the order and the number of units to refund."""

    product_id = Uuid(required=True)
    quantity = StrictInteger(minimum=1, maximum=1000, required=True, metadata=doc("Units to refund.", 1))


class ProcessRefund(DistinctItems):
    """A refund of an order: amount or items, destination and reason."""

    example_omits = frozenset({"amount_minor"})

    amount_minor = MinorAmount(
        minimum=1,
        metadata={
            "description": "Kobo. By default the price of `items` or, without items, the full refundable amount."
        },
    )
    destination = Choice("wallet", "gateway", required=True)
    reason = Text(
        **_REASON_LENGTH,
        required=True,
        metadata=doc(
            "Buyer and vendor can read the reason in the order's trail.", "The book has missing pages."
        ),
    )
    items = fields.List(
        fields.Nested(RefundedItem),
        validate=validate.Length(min=1, max=50),
        metadata=doc("Products and units to refund."),
    )
    clawback = StrictBoolean(
        load_default=False,
        metadata=doc(
            "Refund after the release of escrow. The vendor's share becomes a debt of the vendor.", False
        ),
    )


class RefundState(Identified):
    """A refund with amount and status."""

    amount_minor = MinorAmount(minimum=1, required=True)
    status = Choice(*_REFUND_STATUSES, required=True, metadata=doc("Status of the refund.", "processed"))


class RefundSummary(RefundState):
    """A refund with destination and times."""

    destination = Choice("gateway", "wallet", required=True)
    created_at = Timestamp(required=True)
    settled_at = Timestamp(required=True, allow_none=True)


class ClawbackView(Schema):
    """The vendor's and the platform's shares of a clawback, and the vendor's total debt."""

    vendor_minor = MinorAmount(required=True, metadata=doc("The vendor's share in kobo.", 679_250))
    platform_minor = MinorAmount(required=True, metadata=doc("The platform's share in kobo.", 95_750))
    vendor_owes_minor = MinorAmount(required=True, metadata=doc("The vendor's total debt in kobo.", 679_250))


class ProcessedRefund(Schema):
    """A refunded order with the remaining escrow balance and the created refunds."""

    order_id = Uuid(required=True, attribute="order.id")
    status = Choice(
        *_ORDER_STATUSES,
        required=True,
        attribute="order.status",
        metadata=doc("Status of the order.", "refunded"),
    )
    escrow_status = Choice(*_ESCROW_STATUSES, required=True, attribute="order.escrow_status")
    amount_minor = MinorAmount(required=True)
    held_minor = MinorAmount(
        required=True,
        attribute="order.escrow_balance_minor",
        metadata=doc("Remaining balance of the escrow, in kobo.", 0),
    )
    refunds = fields.List(fields.Nested(RefundSummary), required=True, metadata=doc("Created refunds."))
    clawback = fields.Nested(
        ClawbackView,
        required=True,
        allow_none=True,
        metadata=doc("Shares of a clawback; null for a refund from escrow.", None),
    )


class RefundQuery(OffsetQuery):
    """Filters of refunds.

    The status ``open`` selects refunds without a final status, ``paid_twice`` refunds that the buyer received twice.
    """

    sort = sort_choice(admin_queries.REFUND_SORTS, default="created_at")
    status = Choice(
        admin_queries.OPEN_FILTER,
        admin_queries.PAID_TWICE_FILTER,
        *_REFUND_STATUSES,
        load_default=None,
        metadata=doc("Only refunds with this status.", "processed"),
    )
    destination = Choice(
        "gateway",
        "wallet",
        load_default=None,
        metadata=doc("Only refunds to the gateway, or only to the wallet.", "wallet"),
    )
    cause = Choice(
        *admin_queries.CAUSE_PREFIXES,
        load_default=None,
        metadata=doc(
            "`order`: the order was cancelled, refunded by an officer or ended unpaid."
            " `unneeded_charge`: a late or duplicate charge. `held_charge`: a resolved quarantined charge."
            " `clawback`: a refund after the release.",
            "order",
        ),
    )
    older_than_hours = IntegerParameter(
        minimum=0, maximum=24 * 366, load_default=None, metadata=doc("Lowest age, in hours.", 1)
    )


class Buyer(Identified):
    """The buyer who receives the refund or made the payment."""

    example_id = demo_ids.BUYER

    name = fields.String(
        required=True, allow_none=True, metadata=doc("Full name; null without one.", "Amara Okafor")
    )


class RefundRow(RefundSummary):
    """A refund in the table for finance officers."""

    reason = fields.String(
        required=True, metadata=doc("Reason of the refund.", "The book has missing pages.")
    )
    attempt = StrictInteger(minimum=1, required=True)
    order_id = Uuid(required=True, allow_none=True)
    order_number = fields.String(required=True, allow_none=True)
    buyer = fields.Nested(Buyer, required=True, metadata=doc("Recipient of the refund."))
    payment_reference = fields.String(required=True, allow_none=True)
    gateway_refund_id = fields.String(
        required=True,
        allow_none=True,
        metadata=doc("The gateway's id of the refund; null before the dispatch.", "3018284"),
    )
    requested_by = Uuid(
        required=True,
        allow_none=True,
        metadata=doc("User id of the officer; null for an automatic refund.", demo_ids.FINANCE),
    )
    dispute = Choice(
        "open",
        "lost",
        required=True,
        allow_none=True,
        metadata=doc(
            "`open`: the buyer's bank disputes the charge, so the unsent refund waits. `lost`: the bank"
            " took the charge back.",
            None,
        ),
    )
    paid_twice_minor = MinorAmount(
        required=True,
        metadata=doc("Kobo that the gateway paid although the buyer already had the money.", 0),
    )
    buyer_owes_minor = MinorAmount(
        required=True,
        metadata=doc("The buyer's current total debt for money received twice, in kobo.", 0),
    )
    times_returned = StrictInteger(
        minimum=0,
        required=True,
        metadata=doc("Number of times that the refund was sent and then returned to the gateway.", 0),
    )
    age_seconds = StrictInteger(
        minimum=0,
        required=True,
        metadata={"description": "Seconds from creation to settlement, or until now."},
    )


class RecoveredRefund(RefundState):
    """A refund that an officer retried or credited."""

    attempt = StrictInteger(minimum=1, required=True)


class QuarantinedChargeQuery(OffsetQuery):
    """Filters of quarantined charges."""

    sort = sort_choice(admin_queries.QUARANTINE_SORTS, default="created_at")
    status = Choice(
        "open", "resolved", load_default=None, metadata=doc("Only open, or only resolved charges.", "open")
    )
    reason = Choice(
        *_QUARANTINE_REASONS,
        load_default=None,
        metadata=doc("Only charges with this reason.", "amount_below_total"),
    )


class QuarantinedChargeOrder(PaymentOrder):
    """An order of a quarantined charge with the amount still due."""

    due_minor = MinorAmount(
        required=True, attribute="payable_minor", metadata=doc("Amount still due, in kobo.", 75_000)
    )


class QuarantinedChargeOrderRow(QuarantinedChargeOrder):
    """An order of a quarantined charge with the total and the amount still due."""

    total_minor = MinorAmount(required=True)


class QuarantinedChargeRow(Created):
    """A quarantined charge.

    ``heldMinor`` is the buyer's money that the ledger holds for the charge, 0 for another currency.
    """

    status = Choice(
        "open", "resolved", required=True, metadata=doc("Whether an officer has resolved the charge.", "open")
    )
    reason = Choice(
        *_QUARANTINE_REASONS,
        required=True,
        metadata=doc("Difference between the charge and the payment.", "amount_below_total"),
    )
    amount_minor = MinorAmount(
        required=True, metadata=doc("Charged amount in the smallest unit of the currency.", 700_000)
    )
    fees_minor = MinorAmount(
        required=True, metadata=doc("Fees of the gateway, in the smallest unit of the currency.", 10_500)
    )
    held_minor = MinorAmount(
        required=True, metadata=doc("The buyer's money that the ledger holds, in kobo.", 700_000)
    )
    due_minor = MinorAmount(required=True, metadata=doc("Amount of the payment, in kobo.", 775_000))
    currency = fields.String(required=True)
    payment_reference = fields.String(required=True)
    orders = fields.List(
        fields.Nested(QuarantinedChargeOrderRow),
        required=True,
        metadata=doc("Orders that the charge was for."),
    )
    buyer = fields.Nested(Buyer, required=True, metadata=doc("Buyer who was charged."))
    resolved_at = Timestamp(
        required=True, allow_none=True, metadata=doc("Time of the resolution; null while open.", None)
    )
    resolution = Choice(
        *_QUARANTINE_RESOLUTIONS,
        required=True,
        allow_none=True,
        metadata=doc("Resolution; null while open.", None),
    )
    resolution_note = fields.String(
        required=True, allow_none=True, metadata=doc("The officer's reason; null while open.", None)
    )
    resolved_by = Uuid(
        required=True, allow_none=True, metadata=doc("User id of the officer; null while open.", None)
    )


class ResolveQuarantinedCharge(Schema):
    """The resolution of a quarantined charge and the officer's reason."""

    action = Choice(
        *_QUARANTINE_RESOLUTIONS,
        required=True,
        metadata=doc(
            "`accept_rest` accepts the amount and leaves the rest due, `refund` returns the "
            "charge, `wallet` credits the buyer.",
            "accept_rest",
        ),
    )
    note = SingleLineText(
        **_REASON_LENGTH,
        required=True,
        metadata=doc("Reason, for the audit trail.", "The buyer agreed to pay the rest."),
    )


class ResolvedQuarantinedCharge(Schema):
    """A resolved quarantined charge with the amounts still due for its orders."""

    id = Uuid(required=True, attribute="row.id")
    status = Choice(
        "open",
        "resolved",
        required=True,
        attribute="row.status",
        metadata=doc("Always `resolved`.", "resolved"),
    )
    resolution = Choice(
        *_QUARANTINE_RESOLUTIONS,
        required=True,
        attribute="row.resolution",
        metadata=doc("Resolution that the officer chose.", "accept_rest"),
    )
    amount_minor = MinorAmount(required=True)
    orders = fields.List(
        fields.Nested(QuarantinedChargeOrder),
        required=True,
        metadata=doc("Orders with the amounts still due."),
    )
