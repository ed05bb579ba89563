"""Schemas of orders, checkouts and money trails."""

from typing import Any

from marshmallow import ValidationError, fields, validate, validates_schema

from blueprints.http.csv_export import FORMATS
from blueprints.http.fields import (
    AddressFields,
    BooleanParameter,
    Choice,
    Created,
    CursorQuery,
    DateRangeBound,
    DateRangeQuery,
    FullMatch,
    Identified,
    IntegerParameter,
    MinorAmount,
    NamedResource,
    OffsetQuery,
    Schema,
    SingleLineText,
    StoreName,
    StrictBoolean,
    StrictInteger,
    Text,
    Timestamp,
    Uuid,
    sort_choice,
)
from marketplace.cart.operations import MAX_LINES
from marketplace.orders import admin_table, states
from marketplace.payments.money_trail.build import HOLDERS
from marketplace.payments.states import INTENT, REFUND

_STATUSES = sorted(states.ORDER.states)
_ESCROW_STATUSES = sorted(states.ESCROW.states)
_NULL_FOR_VENDOR_METADATA = {"description": "Null for the vendor."}


class RequestedOrderItem(Schema):
    """A product with a quantity."""

    product_id = Uuid(required=True)
    quantity = StrictInteger(minimum=1, maximum=1000, required=True)


class ShippingAddress(AddressFields):
    """An address for this order only."""

    hostel = SingleLineText(max_length=120, required=True)


class PlaceOrder(Schema):
    """The items to order, by default the cart, and at most one destination."""

    items = fields.List(fields.Nested(RequestedOrderItem), validate=validate.Length(min=1, max=MAX_LINES))
    address_id = Uuid()
    shipping_address = fields.Nested(ShippingAddress)
    hub_id = Uuid()
    delivery_method = Choice("delivery", "pickup")
    note = Text(max_length=500)
    expected_total_minor = MinorAmount(
        metadata={"description": "The total that the client showed. For a checkout, the sum over all orders."}
    )
    wallet_minor = MinorAmount(metadata={"description": "The amount that the buyer's wallet pays at once."})
    use_wallet = StrictBoolean(metadata={"description": "Pay as much as possible from the wallet."})

    @validates_schema
    def check_wallet(self, data: dict[str, Any], **_kwargs: Any) -> None:
        """Refuse `walletMinor` together with `useWallet`."""
        if data.get("use_wallet") and "wallet_minor" in data:
            raise ValidationError("Send either `walletMinor` or `useWallet`.", "walletMinor")

    @validates_schema
    def check_delivery(self, data: dict[str, Any], **_kwargs: Any) -> None:
        """Check that the destination matches the delivery method."""
        if len({"address_id", "shipping_address", "hub_id"} & data.keys()) > 1:
            raise ValidationError("Send only one of `addressId`, `shippingAddress` and `hubId`.", "addressId")
        method = data.get("delivery_method") or ("pickup" if "hub_id" in data else "delivery")
        if method == "pickup" and "hub_id" not in data:
            raise ValidationError("Required for a pickup.", "hubId")
        if method == "delivery" and "hub_id" in data:
            raise ValidationError("Not allowed for a delivery.", "hubId")

    @validates_schema
    def check_items(self, data: dict[str, Any], **_kwargs: Any) -> None:
        """Refuse duplicate products."""
        seen = set()
        for index, item in enumerate(data.get("items", ())):
            if item["product_id"] in seen:
                raise ValidationError({"items": {index: {"productId": ["This product is listed twice."]}}})
            seen.add(item["product_id"])


class DeliveryPin(Schema):
    """The buyer's delivery PIN."""

    pin = fields.String(required=True, validate=FullMatch("[0-9]{6}", error="Must be 6 digits."))


class FulfilmentUpdate(Schema):
    """The progress of the order, from the vendor."""

    status = Choice("shipped", required=True)
    tracking_note = Text(max_length=500)


class CancelOrder(Schema):
    """The reason for a cancellation."""

    reason = Text(max_length=500)


class OrderQuery(CursorQuery):
    """Filters of the list of orders."""

    status = Choice(*_STATUSES, load_default=None)


class BuyerSummary(Identified):
    """The id and name of a buyer."""

    name = fields.String(required=True, allow_none=True)


class VendorSummary(StoreName):
    """The id and names of a store."""


class OrderItemView(Schema):
    """A line of an order, as placed."""

    product_id = Uuid(required=True)
    title = fields.String(required=True)
    image_url = fields.String(required=True, allow_none=True)
    unit_price_minor = MinorAmount(required=True)
    quantity = StrictInteger(minimum=1, required=True)
    line_total_minor = MinorAmount(required=True)
    commission_bps = StrictInteger(minimum=0, maximum=10_000, required=True)
    refunded_quantity = StrictInteger(
        minimum=0,
        required=True,
        metadata={"description": "The refunded units. Do not ship them."},
    )


class PaymentSummary(Schema):
    """The payment of an order."""

    reference = fields.String(required=True, allow_none=True, metadata=_NULL_FOR_VENDOR_METADATA)
    status = fields.String(required=True)
    channel = fields.String(required=True, allow_none=True, metadata=_NULL_FOR_VENDOR_METADATA)
    paid_at = Timestamp(required=True, allow_none=True)


class RefundView(Created):
    """A refund of an order, pending or completed."""

    destination = Choice(
        "gateway", "wallet", required=True, allow_none=True, metadata=_NULL_FOR_VENDOR_METADATA
    )
    amount_minor = MinorAmount(minimum=1, required=True)
    status = Choice(*sorted(REFUND.states), required=True)
    settled_at = Timestamp(required=True, allow_none=True)


class CancellationView(Schema):
    """The cancellation of an order: role, reason and time."""

    by = fields.String(required=True)
    reason = fields.String(required=True, allow_none=True)
    at = Timestamp(required=True)


class OrderSummary(Identified):
    """The common fields of all order views."""

    number = fields.String(required=True)
    status = Choice(*_STATUSES, required=True)
    buyer = fields.Nested(BuyerSummary, required=True)
    vendor = fields.Nested(VendorSummary, required=True)


class DeliveredOrder(OrderSummary):
    """The common fields of all delivery views."""

    delivery_method = Choice("delivery", "pickup", required=True)
    delivery_status = Choice(*sorted(states.DELIVERY_STATUSES), required=True)
    accepted_at = Timestamp(required=True, allow_none=True)
    shipped_at = Timestamp(required=True, allow_none=True)
    delivered_at = Timestamp(required=True, allow_none=True)


class OrderView(DeliveredOrder):
    """An order. Only the buyer sees `deliveryPin`. `nextActions` lists the caller's possible actions."""

    escrow_status = Choice(*_ESCROW_STATUSES, required=True)
    campus_id = Uuid(required=True)
    checkout_id = Uuid(required=True, allow_none=True)
    items = fields.List(fields.Nested(OrderItemView), required=True)
    subtotal_minor = MinorAmount(required=True)
    delivery_fee_minor = MinorAmount(required=True)
    service_fee_minor = MinorAmount(required=True)
    discount_minor = MinorAmount(required=True)
    total = fields.Float(required=True)
    total_minor = MinorAmount(required=True, data_key="total_amount")
    wallet_minor = MinorAmount(
        required=True,
        allow_none=True,
        metadata={"description": "The part that the buyer's wallet paid; null for the vendor."},
    )
    accepted_minor = MinorAmount(
        required=True,
        allow_none=True,
        metadata={"description": "The accepted part of quarantined payments; null for the vendor."},
    )
    due_minor = MinorAmount(
        required=True, metadata={"description": "The amount left to pay; 0 after payment."}
    )
    currency = fields.String(required=True)
    shipping_address = fields.Dict(required=True)
    delivery_pin = fields.String(required=True, allow_none=True)
    payment = fields.Nested(PaymentSummary, required=True, allow_none=True)
    note = fields.String(required=True, allow_none=True)
    tracking_note = fields.String(required=True, allow_none=True)
    expires_at = Timestamp(required=True)
    created_at = Timestamp(required=True)
    paid_at = Timestamp(required=True, allow_none=True)
    cancelled_at = Timestamp(required=True, allow_none=True)
    expired_at = Timestamp(required=True, allow_none=True)
    disputed_at = Timestamp(required=True, allow_none=True)
    refunded_at = Timestamp(required=True, allow_none=True)
    cancellation = fields.Nested(CancellationView, required=True, allow_none=True)
    refunds = fields.List(fields.Nested(RefundView), required=True)
    revision = StrictInteger(minimum=1, required=True)
    next_actions = fields.List(fields.String(), required=True)


class CheckoutPayment(Schema):
    """The payment for all unpaid orders of a checkout. `POST /api/payments/initialize` opens the payment page."""

    reference = fields.String(required=True)
    amount_minor = MinorAmount(required=True)
    status = Choice(*sorted(INTENT.states), required=True)


class CheckoutView(Schema):
    """A placed checkout: an order for each vendor, with separate delivery and fees."""

    checkout_id = Uuid(required=True)
    orders = fields.List(fields.Nested(OrderView), required=True)
    payment = fields.Nested(
        CheckoutPayment,
        required=True,
        allow_none=True,
        metadata={"description": "Null if the wallet paid everything."},
    )


class VendorOrderCounts(Schema):
    """The number of a store's orders by status. Pending orders are paid and wait for acceptance."""

    pending = StrictInteger(minimum=0, required=True)
    processing = StrictInteger(minimum=0, required=True)
    shipped = StrictInteger(minimum=0, required=True)
    delivered = StrictInteger(minimum=0, required=True)


class OrderEventView(Schema):
    """An event of an order."""

    order_id = Uuid(required=True)
    from_status = fields.String(required=True, allow_none=True, data_key="from")
    to_status = fields.String(required=True, data_key="to")
    trigger = fields.String(required=True)
    actor = fields.String(required=True)
    at = Timestamp(required=True)
    note = fields.String(required=True, allow_none=True)


class MoneyHolderView(Schema):
    """A holder of a part of the order's money, with the reason, the next step and the deadline.

    `transactionId` is the ledger transaction that moved the money there. The field is null for unpaid amounts and
    for money in another currency. For the latter, `amountMinor` is 0 and `why` states the amount.
    """

    holder = Choice(*HOLDERS, required=True)
    is_you = fields.Boolean(required=True)
    amount_minor = MinorAmount(required=True)
    why = fields.String(required=True)
    next = fields.String(required=True)
    by = Timestamp(required=True, allow_none=True)
    transaction_id = Uuid(required=True, allow_none=True)


class MoneyMovementView(Schema):
    """A movement of the order's money, with the ledger transaction and a description.

    Money in another currency is not in the ledger: `transactionId` is null and `amountMinor` is 0.
    """

    transaction_id = Uuid(required=True, allow_none=True)
    kind = fields.String(required=True)
    amount_minor = MinorAmount(required=True)
    at = Timestamp(required=True)
    from_ = Choice(*HOLDERS, required=True, data_key="from")
    to = Choice(*HOLDERS, required=True)
    what = fields.String(required=True)


class MoneyTrailView(Schema):
    """The money trail of an order: current holders, and movements with the earliest first."""

    order_id = Uuid(required=True, attribute="order.id")
    number = fields.String(required=True, attribute="order.number")
    status = Choice(*_STATUSES, required=True, attribute="order.status")
    escrow_status = Choice(*_ESCROW_STATUSES, required=True, attribute="order.escrow_status")
    total_amount = MinorAmount(required=True, attribute="order.total_minor", data_key="total_amount")
    currency = fields.String(required=True)
    holders = fields.List(fields.Nested(MoneyHolderView), required=True)
    entries = fields.List(fields.Nested(MoneyMovementView), required=True)


_MAX_TOTAL_MINOR = 10**15


class OrderAuditQuery(DateRangeQuery, OffsetQuery):
    """Filters and order of the table of orders. `to` is exclusive. Amounts are kobo."""

    sort = sort_choice(admin_table.SORTS, default="created_at")
    status = Choice(*_STATUSES)
    escrow_status = Choice(*_ESCROW_STATUSES)
    campus = Text(max_length=80, metadata={"description": "The campus's id or slug."})
    vendor = Uuid(metadata={"description": "The store's id."})
    buyer = Uuid()
    min_total = IntegerParameter(minimum=0, maximum=_MAX_TOTAL_MINOR)
    max_total = IntegerParameter(minimum=0, maximum=_MAX_TOTAL_MINOR)
    from_ = DateRangeBound(data_key="from", metadata={"description": "The earliest time of placing."})
    to = DateRangeBound(metadata={"description": "The end of the period, exclusive."})
    older_than_hours = IntegerParameter(minimum=1, maximum=10 * 365 * 24)
    stuck = BooleanParameter(
        metadata={
            "description": "True for orders that are stuck: not accepted for 24 hours after payment, not delivered for"
            " 14 days after shipping, with a quarantined payment, or with a failed refund. False for all others."
        }
    )
    format = Choice(*FORMATS)


class OrderCampus(NamedResource):
    """The campus of an order."""


class OrderAuditRow(OrderSummary):
    """An order in the table. `escrowMinor` is the escrow balance in the ledger. Ages are whole hours."""

    escrow_status = Choice(*_ESCROW_STATUSES, required=True)
    campus = fields.Nested(OrderCampus, required=True)
    total_minor = MinorAmount(required=True, data_key="total_amount")
    escrow_minor = fields.Integer(required=True, strict=True)
    currency = fields.String(required=True)
    payment_status = fields.String(required=True, allow_none=True)
    created_at = Timestamp(required=True)
    paid_at = Timestamp(required=True, allow_none=True)
    age_hours = fields.Integer(required=True, strict=True)
    status_age_hours = fields.Integer(required=True, strict=True)
    stuck = fields.List(Choice(*admin_table.STUCK_REASONS), required=True)


class CampusOrderQuery(CursorQuery):
    """Filters of the list of paid orders of a campus."""

    campus = Text(max_length=80, load_default=None, metadata={"description": "The campus's id or slug."})
    status = Choice(*_STATUSES, load_default=None)
    delivery_method = Choice("delivery", "pickup", load_default=None)


class PickupHub(Identified):
    """The hub of a pickup order."""

    name = fields.String(required=True)


class CampusOrder(DeliveredOrder):
    """A paid order, for staff of a campus."""

    hub = fields.Nested(PickupHub, required=True, allow_none=True)
    campus = fields.Nested(OrderCampus, required=True)
    paid_at = Timestamp(required=True)
