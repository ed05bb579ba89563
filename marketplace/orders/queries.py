"""Queries of orders for buyers, vendors and staff."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from uuid import UUID

import orjson
from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.identity.models import CONTACT
from marketplace.identity.queries import Caller
from marketplace.infra.sql.statements import Prepared, Statement
from marketplace.kernel.errors import AccountNotActiveError, NotFoundError
from marketplace.kernel.money import format_decimal
from marketplace.kernel.paging import Page, PageRequest, page_of
from marketplace.orders import states, texts
from marketplace.orders.pin import delivery_pin
from marketplace.orders.trail import TrailEntry, list_trail


@dataclass(frozen=True)
class BuyerSummary:
    """A buyer in an order's view."""

    id: UUID
    name: str | None


@dataclass(frozen=True)
class VendorSummary:
    """A store in an order's view."""

    id: UUID
    display_name: str
    slug: str


@dataclass(frozen=True)
class BuyerColumns:
    """The columns of a buyer."""

    buyer_id: UUID
    buyer_name: str | None

    @property
    def buyer(self) -> BuyerSummary:
        """The buyer's id and name."""
        return BuyerSummary(self.buyer_id, self.buyer_name)


@dataclass(frozen=True)
class OrderParties(BuyerColumns):
    """The columns of ``PARTIES_SQL``: an order's buyer and store."""

    vendor_id: UUID
    vendor_name: str
    vendor_slug: str

    @property
    def vendor(self) -> VendorSummary:
        """The store with its public names."""
        return VendorSummary(self.vendor_id, self.vendor_name, self.vendor_slug)


@dataclass(frozen=True)
class OrderColumns:
    """The columns of ``ORDER_COLUMNS_SQL``, and the store's owner. Amounts are kobo."""

    id: UUID
    number: str
    status: str
    escrow_status: str
    checkout_id: UUID | None
    subtotal_minor: int
    delivery_fee_minor: int
    service_fee_minor: int
    discount_minor: int
    total_minor: int
    payment_status: str | None
    pin_counter: int
    pin_locked_until: datetime | None
    expires_at: datetime
    shipped_at: datetime | None
    vendor_user_id: UUID


@dataclass(frozen=True)
class Cancellation:
    """The cancellation of an order: the role that cancelled, the reason and the time."""

    by: str
    reason: str | None
    at: datetime | None


@dataclass(frozen=True)
class OrderRow(OrderParties, OrderColumns):
    """An order with escrow and parties. Amounts are kobo."""

    campus_id: UUID
    wallet_part_minor: int
    accepted_part_minor: int
    currency: str
    stored_address: dict[str, Any]
    delivery_phone: str | None
    delivery_method: str
    note: str | None
    tracking_note: str | None
    payment_reference: str | None
    payment_channel: str | None
    created_at: datetime
    paid_at: datetime | None
    accepted_at: datetime | None
    delivered_at: datetime | None
    cancelled_at: datetime | None
    expired_at: datetime | None
    disputed_at: datetime | None
    refunded_at: datetime | None
    cancelled_by: str | None
    cancellation_reason: str | None
    revision: int
    has_refunds: bool
    _lines: list[tuple[str, str, str | None, int, int, int, int, int]]

    @property
    def shipping_address(self) -> dict[str, Any]:
        """The destination: an address with its phone number, or a hub."""
        if self.delivery_phone is None:
            return self.stored_address
        return self.stored_address | {"phone": self.delivery_phone}

    @property
    def due_minor(self) -> int:
        """The amount to pay while the order waits for payment, in kobo; 0 in any other status."""
        if self.status != states.PENDING_PAYMENT:
            return 0
        return self.total_minor - self.wallet_part_minor - self.accepted_part_minor

    def build_lines(self, media_base_url: str) -> list["OrderLineView"]:
        """Build the views of the order's lines.

        :param media_base_url: the address of images
        """
        return [
            OrderLineView(
                self.id, UUID(product_id), title, image_key and f"{media_base_url}/{image_key}", *quantities
            )
            for product_id, title, image_key, *quantities in self._lines
        ]

    @property
    def total(self) -> orjson.Fragment:
        """The total in naira as a JSON number, formatted from kobo without floats."""
        return orjson.Fragment(format_decimal(self.total_minor))

    @property
    def delivery_status(self) -> str:
        """The progress of the goods."""
        return states.delivery_status(self.status, was_shipped=self.shipped_at is not None)

    @property
    def cancellation(self) -> Cancellation | None:
        """The cancellation, if the order was cancelled."""
        if self.cancelled_by is None:
            return None
        return Cancellation(self.cancelled_by, self.cancellation_reason, self.cancelled_at)


@dataclass(frozen=True)
class OrderLineView:
    """A line of an order, as placed."""

    order_id: UUID
    product_id: UUID
    title: str
    image_url: str | None
    unit_price_minor: int
    quantity: int
    line_total_minor: int
    commission_bps: int
    refunded_quantity: int


@dataclass(frozen=True)
class OrderPayment:
    """The payment of an order. Reference and channel are hidden from the vendor."""

    reference: str | None
    status: str | None
    channel: str | None
    paid_at: datetime | None


@dataclass(frozen=True)
class RefundView:
    """The public fields of a refund. ``destination`` is none for vendors."""

    id: UUID
    destination: str | None
    amount_minor: int
    status: str
    created_at: datetime
    settled_at: datetime | None


@dataclass(frozen=True)
class RefundSummary:
    """The refunds of an order, and the payment status that results from the refunds."""

    payment_status: str | None
    refunds: Sequence[RefundView]


@dataclass(frozen=True)
class OrderViewContext:
    """The inputs of an order's view from other areas.

    :param media_base_url: the address of images
    :param pin_key: the key of delivery PINs. Without a key no PIN is shown: a response stored for replays must not
        contain a PIN.
    :param summarize_refunds: returns the refunds by order; takes the session, the orders, and whether the viewer
        is the vendor
    """

    media_base_url: str
    pin_key: str | None
    summarize_refunds: Callable[[Session, Sequence[OrderRow], bool], Mapping[UUID, RefundSummary]]
    now: datetime


class OrderView(OrderRow):
    """An order as the caller may see it.

    The wallet's part, the accepted part and the payment method are hidden from the vendor.
    """

    items: Sequence[OrderLineView]
    refunds: Sequence[RefundView]
    wallet_minor: int | None
    accepted_minor: int | None
    payment: OrderPayment | None
    delivery_pin: str | None
    next_actions: Sequence[str]

    def __init__(
        self,
        order: OrderRow,
        *,
        items: Sequence[OrderLineView],
        summary: RefundSummary,
        roles: Sequence[str],
        context: OrderViewContext,
    ) -> None:
        """Copy the order's columns and add the fields that depend on the caller."""
        hidden = roles == ["vendor"]
        payment = OrderPayment(
            None if hidden else order.payment_reference,
            summary.payment_status,
            None if hidden else order.payment_channel,
            order.paid_at,
        )
        barred = {
            # Finance decides about a quarantined payment before the buyer pays more. An order past its payment
            # window is about to expire.
            states.PAY: not order.due_minor
            or order.payment_status == "quarantined"
            or order.expires_at <= context.now,
            states.VERIFY_CODE: order.pin_locked_until is not None and order.pin_locked_until > context.now,
        }
        shows_pin = "buyer" in roles and order.status in states.PIN_VISIBLE_STATES
        # One update: setting attributes of a frozen dataclass one by one is slow, and lists of orders are hot.
        vars(self).update(
            vars(order),
            items=items,
            refunds=summary.refunds,
            wallet_minor=None if hidden else order.wallet_part_minor,
            accepted_minor=None if hidden else order.accepted_part_minor,
            payment=payment if order.payment_reference else None,
            delivery_pin=delivery_pin(key=context.pin_key, order_id=order.id, counter=order.pin_counter)
            if shows_pin and context.pin_key
            else None,
            next_actions=[
                action for action in states.ORDER.triggers_for(order.status, roles) if not barred.get(action)
            ],
        )


PARTIES_SQL = (
    "o.buyer_id, b.name AS buyer_name, o.vendor_id, v.display_name AS vendor_name, v.slug AS vendor_slug"
)
ORDER_COLUMNS_SQL = """o.id, o.number, o.status, s.status AS escrow_status, o.checkout_id, o.subtotal_minor,
    o.delivery_fee_minor, o.service_fee_minor, o.discount_minor, o.total_minor, o.payment_status, o.pin_counter,
    o.pin_locked_until, o.expires_at, o.shipped_at"""
_SELECT_ORDER_SQL = f"""
    SELECT {ORDER_COLUMNS_SQL}, v.user_id AS vendor_user_id, {PARTIES_SQL}, o.campus_id,
        o.wallet_minor AS wallet_part_minor, o.accepted_minor AS accepted_part_minor, o.currency,
        o.shipping_address AS stored_address, o.delivery_phone, o.delivery_method, o.note, o.tracking_note,
        o.payment_reference, o.payment_channel,
        o.created_at, o.paid_at, o.accepted_at, o.delivered_at, o.cancelled_at, o.expired_at, o.disputed_at,
        o.refunded_at, o.cancelled_by, o.cancellation_reason, o.revision,
        EXISTS (SELECT FROM refunds r WHERE r.order_id = o.id) AS has_refunds,
        (SELECT json_agg(json_build_array(i.product_id, i.title, i.image_key, i.unit_price_minor, i.quantity,
                i.line_total_minor, i.commission_bps, i.refunded_quantity) ORDER BY i.position)
            FROM order_items i WHERE i.order_id = o.id) AS _lines
    FROM orders o
    JOIN escrows s ON s.order_id = o.id
    JOIN profiles b ON b.id = o.buyer_id
    JOIN vendor_profiles v ON v.id = o.vendor_id
"""


def fetch_order_view(
    session: Session, *, order_id: UUID, caller: Caller, context: OrderViewContext
) -> OrderView:
    """Fetch an order as the caller may see it.

    :param caller: the buyer, the vendor of a paid order, or staff (a campus rep: of the order's campus)
    :raises NotFoundError: the order does not exist, or is hidden from the caller
    """
    order, roles = fetch_order_with_roles(session, order_id=order_id, caller=caller)
    return _build_views(session, [order], roles=roles, context=context)[0]


# Unpaid orders are not shown to the vendor.
_SELECT_ORDERS = {
    role: Statement(
        text(
            f"""{_SELECT_ORDER_SQL} WHERE {condition} AND (CAST(:status AS text) IS NULL OR o.status = :status)
            AND (o.paid_at IS NOT NULL OR NOT :paid_only)
            AND (CAST(:after AS uuid) IS NULL OR o.id < :after) ORDER BY o.id DESC LIMIT :limit"""
        ),
        row=OrderRow,
        encrypted={"delivery_phone": CONTACT},
    )
    for role, condition in (
        ("buyer", "o.buyer_id = :owner_id"),
        ("vendor", "o.vendor_id = :owner_id AND o.paid_at IS NOT NULL"),
    )
}


def list_orders(
    session: Session,
    *,
    role: str,
    owner_id: UUID,
    status: str | None,
    paid_only: bool = False,
    page: PageRequest,
    context: OrderViewContext,
) -> Page:
    """List the orders of a buyer, or the paid orders of a store, the latest first.

    :param role: ``buyer`` or ``vendor``
    :param owner_id: the buyer's id, or the store's
    :param status: none for every status
    :param paid_only: leave out orders that were never paid
    """
    rows = _SELECT_ORDERS[role].all(
        session,
        owner_id=owner_id,
        status=status,
        paid_only=paid_only,
        after=page.after("id")[0],
        limit=page.limit + 1,
    )
    orders = page_of(rows, request=page, position_of=lambda row: [str(row.id)])
    return replace(orders, items=_build_views(session, orders.items, roles=[role], context=context))


_SELECT_ORDERS_OF_CHECKOUT = Statement(
    text(
        f"{_SELECT_ORDER_SQL} WHERE o.checkout_id = :checkout_id AND o.buyer_id = :user_id ORDER BY o.id LIMIT 100"
    ),
    row=OrderRow,
    encrypted={"delivery_phone": CONTACT},
)


def list_orders_of_checkout(
    session: Session, *, checkout_id: UUID, caller: Caller, context: OrderViewContext
) -> list[OrderView]:
    """List the orders of a checkout, for the buyer."""
    orders = _SELECT_ORDERS_OF_CHECKOUT.all(session, checkout_id=checkout_id, user_id=caller.id)
    return _build_views(session, orders, roles=["buyer"], context=context)


@dataclass(frozen=True)
class VendorOrderCounts:
    """The numbers of a store's paid orders by status. Pending orders wait for acceptance."""

    pending: int
    processing: int
    shipped: int
    delivered: int


_COUNT_ORDERS_BY_STATUS = Statement(
    text(
        """
        SELECT count(*) FILTER (WHERE status = 'paid_escrow') AS pending,
            count(*) FILTER (WHERE status = 'processing') AS processing,
            count(*) FILTER (WHERE status = 'shipped') AS shipped,
            count(*) FILTER (WHERE status = 'delivered') AS delivered
        FROM orders WHERE vendor_id = :vendor_id AND paid_at IS NOT NULL
        """
    ),
    row=VendorOrderCounts,
)


def count_orders_of_vendor(session: Session, *, vendor_id: UUID) -> VendorOrderCounts:
    """Count a store's paid orders by status."""
    return _COUNT_ORDERS_BY_STATUS.one(session, vendor_id=vendor_id)


def list_order_items(
    session: Session, *, order_id: UUID, caller: Caller, media_base_url: str
) -> list[OrderLineView]:
    """List an order's items.

    :raises NotFoundError: the order does not exist, or is hidden from the caller
    """
    order, _ = fetch_order_with_roles(session, order_id=order_id, caller=caller)
    return order.build_lines(media_base_url)


def list_order_events(session: Session, *, order_id: UUID, caller: Caller) -> list[TrailEntry]:
    """List an order's events, the earliest first.

    :raises NotFoundError: the order does not exist, or is hidden from the caller
    """
    fetch_order_with_roles(session, order_id=order_id, caller=caller)
    return list_trail(session, order_id=order_id)


_SELECT_ORDER = Prepared(
    text(f"{_SELECT_ORDER_SQL} WHERE o.id = :order_id"), row=OrderRow, encrypted={"delivery_phone": CONTACT}
)


def fetch_order_with_roles(session: Session, *, order_id: UUID, caller: Caller) -> tuple[OrderRow, list[str]]:
    """Fetch an order and the caller's roles in it.

    :return: the order with all fields, and one or more of ``buyer``, ``vendor`` and ``staff``
    :raises NotFoundError: the order does not exist, or is hidden from the caller
    :raises AccountNotActiveError: see ``ensure_open_to``
    """
    order = _SELECT_ORDER.first(session, order_id=order_id)
    roles = _caller_roles(order, caller) if order else []
    if order is None or not roles:
        raise NotFoundError("Order not found.")
    ensure_open_to(caller, is_paid=order.paid_at is not None)
    return order, roles


def ensure_open_to(caller: Caller, *, is_paid: bool) -> None:
    """Refuse an unpaid order to a restricted or suspended party. Such a party may only complete paid orders.

    :raises AccountNotActiveError: the account is not active, and the order was never paid
    """
    if caller.account_status != "active" and not is_paid:
        raise AccountNotActiveError(texts.ONLY_PAID_ORDERS.format(status=caller.account_status))


def _caller_roles(order: OrderRow, caller: Caller) -> list[str]:
    # Unpaid orders are hidden from the vendor, except orders that the vendor cancelled.
    shown_to_vendor = order.paid_at is not None or order.cancelled_by == "vendor"
    roles = {
        "buyer": order.buyer_id == caller.id,
        "vendor": order.vendor_user_id == caller.id and shown_to_vendor,
        "staff": caller.is_staff
        and caller.account_status == "active"
        and (caller.staff_role != "campus_rep" or caller.campus_id == order.campus_id),
    }
    return [role for role, applies in roles.items() if applies]


def _build_views(
    session: Session, orders: Sequence[OrderRow], *, roles: list[str], context: OrderViewContext
) -> list[OrderView]:
    summaries = context.summarize_refunds(session, orders, roles == ["vendor"])
    return [
        OrderView(
            order,
            items=order.build_lines(context.media_base_url),
            summary=summaries[order.id],
            roles=roles,
            context=context,
        )
        for order in orders
    ]


_IS_IMAGE_USED = Statement(
    text(
        """
        SELECT EXISTS (SELECT FROM order_items WHERE image_key = :key)
            OR EXISTS (SELECT FROM order_items WHERE image_ids @> ARRAY[CAST(:image_id AS uuid)])
        """
    )
)


def is_image_used_by_orders(session: Session, image_id: UUID, key: str) -> bool:
    """Return whether an order keeps an image of the product as it was at placing.

    :param key: the image's object key
    """
    return bool(_IS_IMAGE_USED.scalar(session, image_id=image_id, key=key))
