"""Schemas of orders and checkouts."""

from typing import Any

from marshmallow import ValidationError, fields, validate, validates_schema

from blueprints.http.field_docs import ACCEPTED_AT, DELIVERED_AT, OTHER_ID, PAID_AT, REFERENCE, doc
from blueprints.http.fields import (
    AddressFields,
    Choice,
    Created,
    CursorQuery,
    DistinctItems,
    FullMatch,
    Identified,
    MinorAmount,
    Schema,
    SingleLineText,
    StoreName,
    StrictBoolean,
    StrictInteger,
    Text,
    Timestamp,
    Uuid,
)
from marketplace.cart.operations import MAX_LINES
from marketplace.kernel import demo_ids
from marketplace.orders import states, transitions
from marketplace.payments.states import CHANNELS, INTENT, PAYMENT_STATUSES, REFUND

_STATUSES = sorted(states.ORDER.states)
_ESCROW_STATUSES = sorted(states.ESCROW.states)


class RequestedOrderItem(Schema):
    """A product with a quantity."""

    product_id = Uuid(required=True)
    quantity = StrictInteger(minimum=1, maximum=1000, required=True)


class ShippingAddress(AddressFields):
    """An address for this order only."""

    hostel = SingleLineText(max_length=120, required=True)


class PlaceOrder(DistinctItems):
    """The items to order, by default the cart, and at most one destination."""

    example_omits = frozenset({"shipping_address", "hub_id", "use_wallet"})

    items = fields.List(
        fields.Nested(RequestedOrderItem),
        validate=validate.Length(min=1, max=MAX_LINES),
        metadata=doc("Products and quantities, without duplicates; the whole cart by default."),
    )
    address_id = Uuid(
        metadata=doc(
            "A saved address of the buyer; the default address without a destination.", demo_ids.ADDRESS
        )
    )
    shipping_address = fields.Nested(
        ShippingAddress, metadata=doc("An address for this order only, which is not saved.")
    )
    hub_id = Uuid(metadata=doc("Hub on the vendor's campus, for a pickup.", demo_ids.HUB))
    delivery_method = Choice("delivery", "pickup")
    note = Text(max_length=500, metadata=doc("Note for the vendor.", "Please bring change"))
    expected_total_minor = MinorAmount(
        metadata=doc("The total that the client showed. For a checkout, the sum over all orders.", 775_000)
    )
    wallet_minor = MinorAmount(metadata=doc("The amount that the buyer's wallet pays at once.", 0))
    use_wallet = StrictBoolean(metadata=doc("Pay as much as possible from the wallet.", False))

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


class DeliveryPin(Schema):
    """The buyer's delivery PIN."""

    pin = fields.String(
        required=True,
        validate=FullMatch("[0-9]{6}", error="Must be 6 digits."),
        metadata=doc("The 6 digits that the buyer tells the vendor at the handover.", "482913"),
    )


class FulfilmentUpdate(Schema):
    """The progress of the order, from the vendor."""

    status = Choice("shipped", required=True, metadata=doc("Always `shipped`.", "shipped"))
    tracking_note = Text(max_length=500)


class CancelOrder(Schema):
    """The reason for a cancellation."""

    reason = Text(max_length=500, metadata=doc("Reason for the other party.", "Found it in my hall"))


class OrderQuery(CursorQuery):
    """Filters of the list of orders."""

    status = Choice(*_STATUSES, load_default=None, metadata=doc("Only orders with this status.", "delivered"))


class BuyerSummary(Identified):
    """The id and name of a buyer."""

    example_id = demo_ids.BUYER

    name = fields.String(
        required=True, allow_none=True, metadata=doc("Full name; null without one.", "Amara Okafor")
    )


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
        metadata=doc("The refunded units. Do not ship them.", 0),
    )


class PaymentSummary(Schema):
    """The payment of an order."""

    reference = fields.String(
        required=True,
        allow_none=True,
        metadata=doc("Payment reference, the same at the gateway. Null for the vendor.", REFERENCE),
    )
    status = Choice(
        *PAYMENT_STATUSES, required=True, metadata=doc("Status of the payment or of the refund.", "succeeded")
    )
    channel = Choice(
        *CHANNELS,
        required=True,
        allow_none=True,
        metadata=doc("Way of payment that the gateway reported. Null for the vendor.", "card"),
    )
    paid_at = Timestamp(required=True, allow_none=True)


class RefundView(Created):
    """A refund of an order, pending or completed."""

    destination = Choice(
        "gateway",
        "wallet",
        required=True,
        allow_none=True,
        metadata=doc(
            "Recipient: the card or bank by the gateway, or the buyer's wallet. Null for the vendor.",
            "wallet",
        ),
    )
    amount_minor = MinorAmount(minimum=1, required=True)
    status = Choice(*sorted(REFUND.states), required=True, metadata=doc("Status of the refund.", "processed"))
    settled_at = Timestamp(required=True, allow_none=True)


class CancellationView(Schema):
    """The cancellation of an order: role, reason and time."""

    by = Choice(
        *transitions.ACTOR_ROLES, required=True, metadata=doc("Role of the person who cancelled.", "buyer")
    )
    reason = fields.String(
        required=True, allow_none=True, metadata=doc("Reason; null without a reason.", "Found it in my hall")
    )
    at = Timestamp(required=True, metadata=doc("Time of the cancellation.", PAID_AT))


class OrderSummary(Identified):
    """The common fields of all order views."""

    example_id = demo_ids.ORDER

    number = fields.String(required=True)
    status = Choice(*_STATUSES, required=True, metadata=doc("Status of the order.", "delivered"))
    buyer = fields.Nested(BuyerSummary, required=True, metadata=doc("Buyer of the order."))
    vendor = fields.Nested(VendorSummary, required=True, metadata=doc("Store of the order."))


class DeliveredOrder(OrderSummary):
    """The common fields of all delivery views."""

    delivery_method = Choice("delivery", "pickup", required=True)
    delivery_status = Choice(*sorted(states.DELIVERY_STATUSES), required=True)
    accepted_at = Timestamp(required=True, allow_none=True)
    shipped_at = Timestamp(required=True, allow_none=True)
    delivered_at = Timestamp(required=True, allow_none=True)


class OrderDestination(Schema):
    """The destination of an order, as given at placing: the fields of an address, or a hub for a pickup."""

    label = fields.String()
    hostel = fields.String()
    hall = fields.String()
    room_number = fields.String(attribute="roomNumber")
    latitude = fields.Float()
    longitude = fields.Float()
    instructions = fields.String()
    phone = fields.String()
    hub_id = Uuid(attribute="hubId", metadata=doc("Id of the hub, for a pickup.", OTHER_ID))
    hub = fields.String(metadata=doc("Name of the hub.", "Main Gate"))
    address = fields.String(metadata=doc("Address of the hub.", "Opposite the main gate"))


class OrderView(DeliveredOrder):
    """An order. Only the buyer sees `deliveryPin`. `nextActions` lists the caller's possible actions."""

    escrow_status = Choice(*_ESCROW_STATUSES, required=True)
    campus_id = Uuid(required=True)
    checkout_id = Uuid(
        required=True,
        allow_none=True,
        metadata=doc("Id of the checkout that the order belongs to; null for a single order.", None),
    )
    items = fields.List(
        fields.Nested(OrderItemView), required=True, metadata=doc("Lines of the order, as placed.")
    )
    subtotal_minor = MinorAmount(required=True)
    delivery_fee_minor = MinorAmount(required=True, metadata=doc("Delivery fee in kobo.", 50_000))
    service_fee_minor = MinorAmount(required=True, metadata=doc("Service fee in kobo.", 10_000))
    discount_minor = MinorAmount(required=True, metadata=doc("Discount in kobo.", 0))
    total = fields.Float(required=True, metadata=doc("Total of the order with all fees, in naira.", 7750.0))
    total_minor = MinorAmount(required=True, data_key="total_amount")
    wallet_minor = MinorAmount(
        required=True,
        allow_none=True,
        metadata=doc("The part that the buyer's wallet paid; null for the vendor.", 0),
    )
    accepted_minor = MinorAmount(
        required=True,
        allow_none=True,
        metadata=doc("The accepted part of quarantined payments; null for the vendor.", 0),
    )
    due_minor = MinorAmount(required=True, metadata=doc("The amount left to pay; 0 after payment.", 0))
    currency = fields.String(required=True)
    shipping_address = fields.Nested(
        OrderDestination, required=True, metadata=doc("Destination as of the order: an address, or a hub.")
    )
    delivery_pin = fields.String(
        required=True,
        allow_none=True,
        metadata=doc("PIN for the handover, only for the buyer of a paid order. Null otherwise.", "482913"),
    )
    payment = fields.Nested(
        PaymentSummary,
        required=True,
        allow_none=True,
        metadata=doc("Payment of the order; null before the first payment."),
    )
    note = fields.String(
        required=True,
        allow_none=True,
        metadata=doc("The buyer's note for the vendor; null without a note.", "Please bring change"),
    )
    tracking_note = fields.String(required=True, allow_none=True)
    expires_at = Timestamp(required=True, metadata=doc("End of the time for the payment.", ACCEPTED_AT))
    created_at = Timestamp(required=True)
    paid_at = Timestamp(required=True, allow_none=True)
    cancelled_at = Timestamp(
        required=True, allow_none=True, metadata=doc("Time of the cancellation; null without one.", None)
    )
    expired_at = Timestamp(required=True, allow_none=True)
    disputed_at = Timestamp(
        required=True, allow_none=True, metadata=doc("Start of a dispute; null without one.", None)
    )
    refunded_at = Timestamp(
        required=True, allow_none=True, metadata=doc("Time of the full refund; null without one.", None)
    )
    cancellation = fields.Nested(
        CancellationView,
        required=True,
        allow_none=True,
        metadata=doc("Cancellation; null without one.", None),
    )
    refunds = fields.List(
        fields.Nested(RefundView),
        required=True,
        metadata=doc("Refunds of the order, pending or completed.", []),
    )
    revision = StrictInteger(minimum=1, required=True)
    next_actions = fields.List(
        Choice(*states.ACTIONS), required=True, metadata=doc("Actions that the caller may take now.", [])
    )


class CheckoutPayment(Schema):
    """The payment for all unpaid orders of a checkout. `POST /api/payments/initialize` opens the payment page."""

    reference = fields.String(required=True)
    amount_minor = MinorAmount(required=True)
    status = Choice(
        *sorted(INTENT.states), required=True, metadata=doc("Status of the payment.", "initialized")
    )


class CheckoutView(Schema):
    """A placed checkout: an order for each vendor, with separate delivery and fees."""

    checkout_id = Uuid(required=True, metadata=doc("Id of the checkout.", OTHER_ID))
    orders = fields.List(
        fields.Nested(OrderView), required=True, metadata=doc("Orders of the checkout, by store.")
    )
    payment = fields.Nested(
        CheckoutPayment,
        required=True,
        allow_none=True,
        metadata={"description": "Null if the wallet paid everything."},
    )


class VendorOrderCounts(Schema):
    """The number of a store's orders by status. Pending orders are paid and wait for acceptance."""

    pending = StrictInteger(
        minimum=0, required=True, metadata=doc("Paid orders that the vendor has not accepted.", 1)
    )
    processing = StrictInteger(minimum=0, required=True, metadata=doc("Accepted orders.", 1))
    shipped = StrictInteger(
        minimum=0, required=True, metadata=doc("Shipped orders that are not delivered.", 1)
    )
    delivered = StrictInteger(minimum=0, required=True, metadata=doc("Delivered orders.", 12))


class OrderEventView(Schema):
    """An event of an order."""

    order_id = Uuid(required=True)
    from_status = Choice(
        *_STATUSES,
        required=True,
        allow_none=True,
        data_key="from",
        metadata=doc("Status before; null for the first event.", "shipped"),
    )
    to_status = Choice(*_STATUSES, required=True, data_key="to", metadata=doc("Status after.", "delivered"))
    trigger = Choice(
        *states.TRIGGERS, required=True, metadata=doc("Action that caused the event.", "verify-code")
    )
    actor = Choice(
        *transitions.ACTOR_ROLES,
        required=True,
        metadata=doc("Role of the acting person, or `system`.", "vendor"),
    )
    at = Timestamp(required=True, metadata=doc("Time of the event.", DELIVERED_AT))
    note = fields.String(
        required=True, allow_none=True, metadata=doc("Note of the acting person; null without a note.", None)
    )
