"""Schemas of the staff's listings: the table of orders, and the paid orders of a campus."""

from marshmallow import fields

from blueprints.http.csv_export import FORMATS
from blueprints.http.field_docs import PERIOD_END, PERIOD_START, doc
from blueprints.http.fields import (
    BooleanParameter,
    Choice,
    CursorQuery,
    DateRangeBound,
    DateRangeQuery,
    Identified,
    IntegerParameter,
    MinorAmount,
    NamedResource,
    OffsetQuery,
    Text,
    Timestamp,
    Uuid,
    sort_choice,
)
from blueprints.orders.schemas import DeliveredOrder, OrderSummary
from marketplace.kernel import demo_ids
from marketplace.orders import admin_table, states
from marketplace.payments.states import PAYMENT_STATUSES

_STATUSES = sorted(states.ORDER.states)
_ESCROW_STATUSES = sorted(states.ESCROW.states)
_MAX_TOTAL_MINOR = 10**15


class OrderAuditQuery(DateRangeQuery, OffsetQuery):
    """Filters and order of the table of orders. `to` is exclusive. Amounts are kobo."""

    sort = sort_choice(admin_table.SORTS, default="created_at")
    status = Choice(*_STATUSES, metadata=doc("Only orders with this status.", "delivered"))
    escrow_status = Choice(
        *_ESCROW_STATUSES, metadata=doc("Only orders whose escrow is in this state.", "released")
    )
    campus = Text(max_length=80, metadata=doc("The campus's id or slug.", "north"))
    vendor = Uuid(metadata=doc("The store's id.", demo_ids.STORE))
    buyer = Uuid(metadata=doc("The buyer's user id.", demo_ids.BUYER))
    min_total = IntegerParameter(
        minimum=0, maximum=_MAX_TOTAL_MINOR, metadata=doc("Lowest total, in kobo.", 100_000)
    )
    max_total = IntegerParameter(
        minimum=0, maximum=_MAX_TOTAL_MINOR, metadata=doc("Highest total, in kobo.", 2_000_000)
    )
    from_ = DateRangeBound(data_key="from", metadata=doc("The earliest time of placing.", PERIOD_START))
    to = DateRangeBound(metadata=doc("The end of the period, exclusive.", PERIOD_END))
    older_than_hours = IntegerParameter(
        minimum=1, maximum=10 * 365 * 24, metadata=doc("Lowest age of the present status, in hours.", 24)
    )
    stuck = BooleanParameter(
        metadata=doc(
            "True for orders that are stuck: not accepted for 24 hours after payment, not delivered for"
            " 14 days after shipping, with a quarantined payment, or with a failed refund. False for all others.",
            False,
        )
    )
    format = Choice(*FORMATS)


class OrderCampus(NamedResource):
    """The campus of an order."""


class OrderAuditRow(OrderSummary):
    """An order in the table. `escrowMinor` is the escrow balance in the ledger. Ages are whole hours."""

    escrow_status = Choice(*_ESCROW_STATUSES, required=True)
    campus = fields.Nested(OrderCampus, required=True, metadata=doc("Campus of the store."))
    total_minor = MinorAmount(required=True, data_key="total_amount")
    escrow_minor = fields.Integer(
        required=True, strict=True, metadata=doc("Balance of the order's escrow, in kobo.", 0)
    )
    currency = fields.String(required=True)
    payment_status = Choice(
        *PAYMENT_STATUSES,
        required=True,
        allow_none=True,
        metadata=doc("Status of the payment; null before the first payment.", "succeeded"),
    )
    created_at = Timestamp(required=True)
    paid_at = Timestamp(required=True, allow_none=True)
    age_hours = fields.Integer(
        required=True, strict=True, metadata=doc("Hours since the order was placed.", 480)
    )
    status_age_hours = fields.Integer(
        required=True, strict=True, metadata=doc("Hours since the last change of status.", 456)
    )
    stuck = fields.List(
        Choice(*admin_table.STUCK_REASONS),
        required=True,
        metadata=doc("Reasons why the order is stuck; empty for other orders.", []),
    )


class CampusOrderQuery(CursorQuery):
    """Filters of the list of paid orders of a campus."""

    campus = Text(max_length=80, load_default=None, metadata=doc("The campus's id or slug.", "north"))
    status = Choice(*_STATUSES, load_default=None, metadata=doc("Only orders with this status.", "delivered"))
    delivery_method = Choice(
        "delivery", "pickup", load_default=None, metadata=doc("Only deliveries, or only pickups.", "pickup")
    )


class PickupHub(Identified):
    """The hub of a pickup order."""

    example_id = demo_ids.HUB

    name = fields.String(required=True, metadata=doc("Name of the hub.", "Library Hub"))


class CampusOrder(DeliveredOrder):
    """A paid order, for staff of a campus."""

    hub = fields.Nested(
        PickupHub, required=True, allow_none=True, metadata=doc("Hub of a pickup; null for a delivery.")
    )
    campus = fields.Nested(OrderCampus, required=True, metadata=doc("Campus of the store."))
    paid_at = Timestamp(required=True)
