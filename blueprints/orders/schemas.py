"""What orders are placed and moved with, and what they look like."""

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
    """A product and how many of it."""

    product_id = Uuid(required=True)
    quantity = StrictInteger(minimum=1, maximum=1000, required=True)


class ShippingAddress(AddressFields):
    """An address that is used once."""

    hostel = SingleLineText(max_length=120, required=True)


class PlaceOrder(Schema):
    """What is ordered: named items or the cart, to one of a saved address, an address, or a hub."""

    items = fields.List(fields.Nested(RequestedOrderItem), validate=validate.Length(min=1, max=MAX_LINES))
    address_id = Uuid()
    shipping_address = fields.Nested(ShippingAddress)
    hub_id = Uuid()
    delivery_method = Choice("delivery", "pickup")
    note = Text(max_length=500)
    expected_total_minor = MinorAmount(
        metadata={"description": "What the client showed; of a checkout, the sum over its orders."}
    )
    wallet_minor = MinorAmount(metadata={"description": "What the buyer's wallet pays of it at once."})
    use_wallet = StrictBoolean(metadata={"description": "Have the wallet pay as much as it can."})

    @validates_schema
    def check_wallet(self, data: dict[str, Any], **_kwargs: Any) -> None:
        """Refuse an amount beside as much as possible."""
        if data.get("use_wallet") and "wallet_minor" in data:
            raise ValidationError("Send one of walletMinor and useWallet.", "walletMinor")

    @validates_schema
    def check_delivery(self, data: dict[str, Any], **_kwargs: Any) -> None:
        """Hold the delivery method and the place together."""
        if len({"address_id", "shipping_address", "hub_id"} & data.keys()) > 1:
            raise ValidationError("Send one of addressId, shippingAddress and hubId.", "addressId")
        method = data.get("delivery_method") or ("pickup" if "hub_id" in data else "delivery")
        if method == "pickup" and "hub_id" not in data:
            raise ValidationError("A pickup needs the hub that it is picked up at.", "hubId")
        if method == "delivery" and "hub_id" in data:
            raise ValidationError("A delivery goes to an address; a hub is for pickup.", "hubId")

    @validates_schema
    def check_items(self, data: dict[str, Any], **_kwargs: Any) -> None:
        """Refuse a product that is named twice."""
        seen = set()
        for index, item in enumerate(data.get("items", ())):
            if item["product_id"] in seen:
                raise ValidationError({"items": {index: {"productId": ["Was named before."]}}})
            seen.add(item["product_id"])


class DeliveryPin(Schema):
    """The buyer's PIN."""

    pin = fields.String(required=True, validate=FullMatch("[0-9]{6}", error="Must be 6 digits."))


class FulfilmentUpdate(Schema):
    """How far the vendor has come."""

    status = Choice("shipped", required=True)
    tracking_note = Text(max_length=500)


class CancelOrder(Schema):
    """Why an order is cancelled."""

    reason = Text(max_length=500)


class OrderQuery(CursorQuery):
    """Which orders are listed."""

    status = Choice(*_STATUSES, load_default=None)


class BuyerSummary(Identified):
    """A buyer, in short."""

    name = fields.String(required=True, allow_none=True)


class VendorSummary(StoreName):
    """A vendor, in short."""


class OrderItemView(Schema):
    """A line of an order, as it was when it was placed."""

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
        metadata={"description": "How many of its pieces were paid back: not to be shipped."},
    )


class PaymentSummary(Schema):
    """How an order is paid."""

    reference = fields.String(required=True, allow_none=True, metadata=_NULL_FOR_VENDOR_METADATA)
    status = fields.String(required=True)
    channel = fields.String(required=True, allow_none=True, metadata=_NULL_FOR_VENDOR_METADATA)
    paid_at = Timestamp(required=True, allow_none=True)


class RefundView(Created):
    """Money of an order that goes back to its buyer, or did."""

    destination = Choice(
        "gateway", "wallet", required=True, allow_none=True, metadata=_NULL_FOR_VENDOR_METADATA
    )
    amount_minor = MinorAmount(minimum=1, required=True)
    status = Choice(*sorted(REFUND.states), required=True)
    settled_at = Timestamp(required=True, allow_none=True)


class CancellationView(Schema):
    """Who cancelled an order, why and when."""

    by = fields.String(required=True)
    reason = fields.String(required=True, allow_none=True)
    at = Timestamp(required=True)


class OrderSummary(Identified):
    """The fields that all views of an order have."""

    number = fields.String(required=True)
    status = Choice(*_STATUSES, required=True)
    buyer = fields.Nested(BuyerSummary, required=True)
    vendor = fields.Nested(VendorSummary, required=True)


class DeliveredOrder(OrderSummary):
    """The fields that all views of a delivery have."""

    delivery_method = Choice("delivery", "pickup", required=True)
    delivery_status = Choice(*sorted(states.DELIVERY_STATUSES), required=True)
    accepted_at = Timestamp(required=True, allow_none=True)
    shipped_at = Timestamp(required=True, allow_none=True)
    delivered_at = Timestamp(required=True, allow_none=True)


class OrderView(DeliveredOrder):
    """An order. ``deliveryPin`` is shown to its buyer alone; ``nextActions`` is what the caller may do now."""

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
        metadata={"description": "What of the total the buyer's wallet paid; null for the vendor."},
    )
    accepted_minor = MinorAmount(
        required=True,
        allow_none=True,
        metadata={
            "description": "What of payments that were held back was accepted for it before the rest was paid;"
            " null for the vendor."
        },
    )
    due_minor = MinorAmount(
        required=True, metadata={"description": "What is still to be paid; 0 once it is."}
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
    """The one payment for all orders of a checkout that wait for it; ``payments/initialize`` opens its page."""

    reference = fields.String(required=True)
    amount_minor = MinorAmount(required=True)
    status = Choice(*sorted(INTENT.states), required=True)


class CheckoutView(Schema):
    """What came of a checkout: an order per vendor, each with its own delivery and fees."""

    checkout_id = Uuid(required=True)
    orders = fields.List(fields.Nested(OrderView), required=True)
    payment = fields.Nested(
        CheckoutPayment,
        required=True,
        allow_none=True,
        metadata={"description": "None where the wallet paid everything."},
    )


class VendorOrderCounts(Schema):
    """How many orders a store has in each state; pending ones are paid and wait to be accepted."""

    pending = StrictInteger(minimum=0, required=True)
    processing = StrictInteger(minimum=0, required=True)
    shipped = StrictInteger(minimum=0, required=True)
    delivered = StrictInteger(minimum=0, required=True)


class OrderEventView(Schema):
    """One step of an order's trail."""

    order_id = Uuid(required=True)
    from_status = fields.String(required=True, allow_none=True, data_key="from")
    to_status = fields.String(required=True, data_key="to")
    trigger = fields.String(required=True)
    actor = fields.String(required=True)
    at = Timestamp(required=True)
    note = fields.String(required=True, allow_none=True)


class MoneyHolderView(Schema):
    """Who holds a part of the money now, why, what happens next, and by when at the latest.

    ``transactionId`` is the ledger transaction that brought it there; none of what was never paid, and of money in
    another currency, whose ``amountMinor`` is 0: ``why`` names it.
    """

    holder = Choice(*HOLDERS, required=True)
    is_you = fields.Boolean(required=True)
    amount_minor = MinorAmount(required=True)
    why = fields.String(required=True)
    next = fields.String(required=True)
    by = Timestamp(required=True, allow_none=True)
    transaction_id = Uuid(required=True, allow_none=True)


class MoneyMovementView(Schema):
    """A movement of the money: the ledger's transaction, and what it was in plain words.

    Money in another currency is in no ledger: it has no ``transactionId``, and an ``amountMinor`` of 0.
    """

    transaction_id = Uuid(required=True, allow_none=True)
    kind = fields.String(required=True)
    amount_minor = MinorAmount(required=True)
    at = Timestamp(required=True)
    from_ = Choice(*HOLDERS, required=True, data_key="from")
    to = Choice(*HOLDERS, required=True)
    what = fields.String(required=True)


class MoneyTrailView(Schema):
    """Where an order's money is, and how it came there, the earliest movement first."""

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
    """Which orders the table shows, sorted by what; ``to`` is exclusive, amounts are kobo."""

    sort = sort_choice(admin_table.SORTS, default="created_at")
    status = Choice(*_STATUSES)
    escrow_status = Choice(*_ESCROW_STATUSES)
    campus = Text(max_length=80, metadata={"description": "A campus by its id or slug."})
    vendor = Uuid(metadata={"description": "The store's id."})
    buyer = Uuid()
    min_total = IntegerParameter(minimum=0, maximum=_MAX_TOTAL_MINOR)
    max_total = IntegerParameter(minimum=0, maximum=_MAX_TOTAL_MINOR)
    from_ = DateRangeBound(data_key="from", metadata={"description": "Placed from then on."})
    to = DateRangeBound(metadata={"description": "Placed before then."})
    older_than_hours = IntegerParameter(minimum=1, maximum=10 * 365 * 24)
    stuck = BooleanParameter(
        metadata={
            "description": "Paid and not accepted for 24 hours, shipped and not delivered for 14 days, with a"
            " payment that is held back or a refund that failed; false for all others."
        }
    )
    format = Choice(*FORMATS)


class OrderCampus(NamedResource):
    """The campus of an order."""


class OrderAuditRow(OrderSummary):
    """An order in the table. ``escrowMinor`` is what the books hold for it now; ages are whole hours."""

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
    """Which of the paid orders of a campus, or of all, are listed."""

    campus = Text(max_length=80, load_default=None, metadata={"description": "A campus by its id or slug."})
    status = Choice(*_STATUSES, load_default=None)
    delivery_method = Choice("delivery", "pickup", load_default=None)


class PickupHub(Identified):
    """Where an order is picked up."""

    name = fields.String(required=True)


class CampusOrder(DeliveredOrder):
    """A paid order, as those who hand it over see it."""

    hub = fields.Nested(PickupHub, required=True, allow_none=True)
    campus = fields.Nested(OrderCampus, required=True)
    paid_at = Timestamp(required=True)
