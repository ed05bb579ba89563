"""Schemas of orders, checkouts and money trails."""

from typing import Any

from marshmallow import ValidationError, fields, validate, validates_schema

from blueprints.http.csv_export import FORMATS
from blueprints.http.field_docs import (
    ACCEPTED_AT,
    DELIVERED_AT,
    OTHER_ID,
    PAID_AT,
    PERIOD_END,
    PERIOD_START,
    REFERENCE,
    doc,
)
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
from marketplace.kernel import demo_ids
from marketplace.ledger.accounts import TRANSACTION_KINDS
from marketplace.orders import admin_table, states, transitions
from marketplace.payments.money_trail.build import HOLDERS
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


class PlaceOrder(Schema):
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
    note = Text(max_length=500, metadata=doc("Note for the vendor.", "Please bring change."))
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
        metadata=doc("The buyer's note for the vendor; null without a note.", "Please bring change."),
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


class MoneyHolderView(Schema):
    """A holder of a part of the order's money, with the reason, the next step and the deadline.

    `transactionId` is the ledger transaction that moved the money there. The field is null for unpaid amounts and
    for money in another currency. For the latter, `amountMinor` is 0 and `why` states the amount.
    """

    holder = Choice(*HOLDERS, required=True, metadata=doc("Holder of the money.", "vendor"))
    is_you = fields.Boolean(required=True, metadata=doc("Whether the caller is the holder.", False))
    amount_minor = MinorAmount(required=True, metadata=doc("Amount in kobo.", 679_250))
    why = fields.String(
        required=True,
        metadata=doc("Reason, in a sentence.", "The buyer confirmed the delivery with the PIN."),
    )
    next = fields.String(
        required=True,
        metadata=doc(
            "Next step, in a sentence.", "The next payout sends the money to the vendor's bank account."
        ),
    )
    by = Timestamp(
        required=True,
        allow_none=True,
        metadata=doc("Deadline of the next step; null without a deadline.", None),
    )
    transaction_id = Uuid(required=True, allow_none=True)


class MoneyMovementView(Schema):
    """A movement of the order's money, with the ledger transaction and a description.

    Money in another currency is not in the ledger: `transactionId` is null and `amountMinor` is 0.
    """

    transaction_id = Uuid(required=True, allow_none=True)
    kind = Choice(
        *TRANSACTION_KINDS, required=True, metadata=doc("Kind of the ledger transaction.", "payment")
    )
    amount_minor = MinorAmount(required=True, metadata=doc("Amount in kobo.", 775_000))
    at = Timestamp(required=True, metadata=doc("Time of the movement.", PAID_AT))
    from_ = Choice(*HOLDERS, required=True, data_key="from", metadata=doc("Holder before.", "buyer"))
    to = Choice(*HOLDERS, required=True, metadata=doc("Holder after.", "escrow"))
    what = fields.String(required=True, metadata=doc("Description in a sentence.", "The buyer paid by card."))


class MoneyTrailView(Schema):
    """The money trail of an order: current holders, and movements with the earliest first."""

    order_id = Uuid(required=True, attribute="order.id")
    number = fields.String(required=True, attribute="order.number")
    status = Choice(
        *_STATUSES, required=True, attribute="order.status", metadata=doc("Status of the order.", "delivered")
    )
    escrow_status = Choice(*_ESCROW_STATUSES, required=True, attribute="order.escrow_status")
    total_amount = MinorAmount(required=True, attribute="order.total_minor", data_key="total_amount")
    currency = fields.String(required=True)
    holders = fields.List(
        fields.Nested(MoneyHolderView), required=True, metadata=doc("Present holders of the money.")
    )
    entries = fields.List(
        fields.Nested(MoneyMovementView), required=True, metadata=doc("Movements, earliest first.")
    )


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
