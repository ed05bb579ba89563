"""Tables of orders and escrow."""

from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import BigInteger, CheckConstraint, ForeignKey, Identity, Index, Sequence, text
from sqlalchemy.orm import Mapped, mapped_column

from marketplace.identity.models import CONTACT
from marketplace.infra.db import Base, Entity, Timestamped
from marketplace.infra.encryption import ENCRYPTED_VALUE_PATTERN

order_number = Sequence("order_number", start=100001, metadata=Base.metadata)

_STATUSES = (
    "'pending_payment', 'paid_escrow', 'processing', 'shipped', 'delivered', 'disputed', 'cancelled',"
    " 'expired', 'refunded'"
)


class Order(Timestamped, Entity):
    """An order of a buyer with a single vendor.

    The payments area writes the payment's reference, status and channel. The delivery PIN is not stored, but derived
    from a key, the order's id and ``pin_counter``.
    """

    __tablename__ = "orders"
    __table_args__ = (
        CheckConstraint(f"status IN ({_STATUSES})", name="status"),
        CheckConstraint("delivery_method IN ('delivery', 'pickup')", name="delivery_method"),
        CheckConstraint(
            "total_minor = subtotal_minor + delivery_fee_minor + service_fee_minor - discount_minor"
            " AND total_minor > 0",
            name="total",
        ),
        CheckConstraint(
            "least(subtotal_minor, delivery_fee_minor, service_fee_minor, discount_minor) >= 0",
            name="amounts_not_negative",
        ),
        CheckConstraint(
            "least(wallet_minor, accepted_minor) >= 0 AND wallet_minor + accepted_minor <= total_minor",
            name="parts_within_total",
        ),
        Index("ix_orders_buyer", "buyer_id", text("id DESC")),
        Index("ix_orders_vendor", "vendor_id", text("id DESC")),
        Index("ix_orders_vendor_paid", "vendor_id", "paid_at", postgresql_where=text("paid_at IS NOT NULL")),
        # The escrow balance of a vendor is queried often, and covers few of the vendor's orders.
        Index(
            "ix_orders_vendor_in_escrow",
            "status",
            "vendor_id",
            postgresql_where=text("status IN ('paid_escrow', 'processing', 'shipped', 'disputed')"),
        ),
        # For the limit of a buyer, and for the sweep, which reads all unpaid orders: those of the last hour. With the
        # deadline in the index, each request for a payment page would write to all indexes.
        Index("ix_orders_unpaid", "buyer_id", postgresql_where=text("status = 'pending_payment'")),
        CheckConstraint(f"delivery_phone ~ '{ENCRYPTED_VALUE_PATTERN}'", name="delivery_phone"),
        Index("ix_orders_created", "created_at", "id"),
        Index("ix_orders_campus", "campus_id", text("id DESC")),
        Index("ix_orders_status", "status", "created_at", "id"),
        Index("ix_orders_disputed", "disputed_at", postgresql_where=text("disputed_at IS NOT NULL")),
        Index("ix_orders_total", "total_minor", "id"),
        Index("ix_orders_paid", text("paid_at NULLS FIRST"), "id"),
        Index("ix_orders_checkout", "checkout_id", postgresql_where=text("checkout_id IS NOT NULL")),
        Index(
            "ix_orders_open_pickups",
            text("(shipping_address ->> 'hubId')"),
            postgresql_where=text(
                "delivery_method = 'pickup' AND status IN ('paid_escrow', 'processing', 'shipped')"
            ),
        ),
    )

    number: Mapped[str] = mapped_column(
        unique=True, server_default=text("'CM-' || nextval('order_number')::text")
    )
    buyer_id: Mapped[UUID] = mapped_column(ForeignKey("profiles.id"))
    vendor_id: Mapped[UUID] = mapped_column(ForeignKey("vendor_profiles.id"))
    campus_id: Mapped[UUID] = mapped_column(ForeignKey("campuses.id"))
    checkout_id: Mapped[UUID | None]
    status: Mapped[str]
    subtotal_minor: Mapped[int]
    delivery_fee_minor: Mapped[int]
    service_fee_minor: Mapped[int]
    discount_minor: Mapped[int]
    total_minor: Mapped[int]
    wallet_minor: Mapped[int] = mapped_column(
        server_default=text("0"), comment="The part of the total that the wallet paid at placing"
    )
    accepted_minor: Mapped[int] = mapped_column(
        server_default=text("0"),
        comment="The accepted part of quarantined charges, before the remainder was paid",
    )
    currency: Mapped[str] = mapped_column(server_default="NGN")
    delivery_method: Mapped[str]
    shipping_address: Mapped[dict[str, Any]] = mapped_column(info={"personal": "address"})
    delivery_phone: Mapped[str | None] = mapped_column(
        CONTACT, comment="The phone number of the shipping address", info={"personal": "phone"}
    )
    note: Mapped[str | None] = mapped_column(info={"personal": "message"})
    tracking_note: Mapped[str | None] = mapped_column(info={"personal": "message"})
    payment_reference: Mapped[str | None]
    payment_status: Mapped[str | None]
    payment_channel: Mapped[str | None]
    pin_counter: Mapped[int] = mapped_column(server_default=text("0"))
    pin_failures: Mapped[int] = mapped_column(server_default=text("0"))
    pin_locked_until: Mapped[datetime | None]
    expires_at: Mapped[datetime]
    paid_at: Mapped[datetime | None]
    accepted_at: Mapped[datetime | None]
    shipped_at: Mapped[datetime | None]
    delivered_at: Mapped[datetime | None]
    cancelled_at: Mapped[datetime | None]
    expired_at: Mapped[datetime | None]
    disputed_at: Mapped[datetime | None]
    refunded_at: Mapped[datetime | None]
    cancelled_by: Mapped[str | None]
    cancellation_reason: Mapped[str | None] = mapped_column(info={"personal": "message"})
    revision: Mapped[int] = mapped_column(server_default=text("1"))


class OrderItem(Base):
    """A line of an order, with the title, price and commission at the time of placing."""

    __tablename__ = "order_items"
    __table_args__ = (
        CheckConstraint("quantity BETWEEN 1 AND 1000", name="quantity"),
        CheckConstraint(
            "line_total_minor = unit_price_minor * quantity AND unit_price_minor > 0", name="line_total"
        ),
        CheckConstraint("commission_bps BETWEEN 0 AND 10000", name="commission_bps"),
        CheckConstraint("refunded_quantity BETWEEN 0 AND quantity", name="refunded_quantity"),
        Index("ix_order_items_images", "image_ids", postgresql_using="gin"),
    )

    order_id: Mapped[UUID] = mapped_column(ForeignKey("orders.id"), primary_key=True)
    position: Mapped[int] = mapped_column(primary_key=True)
    product_id: Mapped[UUID] = mapped_column(ForeignKey("products.id"), index=True)
    title: Mapped[str]
    image_key: Mapped[str | None] = mapped_column(index=True)
    product_revision: Mapped[int | None] = mapped_column(
        comment="Revision of the listing at the time of placing"
    )
    image_ids: Mapped[list[UUID]] = mapped_column(
        server_default=text("'{}'"), comment="Images of the listing at the time of placing"
    )
    unit_price_minor: Mapped[int]
    quantity: Mapped[int]
    line_total_minor: Mapped[int]
    commission_bps: Mapped[int]
    refunded_quantity: Mapped[int] = mapped_column(
        server_default=text("0"), comment="Refunded units; each unit is refunded once"
    )
    flash_sale_id: Mapped[UUID | None] = mapped_column(
        ForeignKey("flash_sales.id"), comment="The flash sale whose price and units the line uses"
    )


class OrderEvent(Base):
    """An event of an order: a transition, or a partial refund or clawback, which keeps the status."""

    __tablename__ = "order_events"
    __table_args__ = (Index("ix_order_events_order", "order_id", "id"),)

    id: Mapped[int] = mapped_column(BigInteger, Identity(always=True), primary_key=True)
    order_id: Mapped[UUID] = mapped_column(ForeignKey("orders.id"))
    from_status: Mapped[str | None]
    to_status: Mapped[str]
    trigger: Mapped[str]
    actor: Mapped[str]
    actor_id: Mapped[UUID | None]
    note: Mapped[str | None] = mapped_column(info={"personal": "message"})
    at: Mapped[datetime]


class Escrow(Timestamped, Base):
    """The escrow of an order. Released and refunded amounts never exceed the escrow's amount."""

    __tablename__ = "escrows"
    __table_args__ = (
        CheckConstraint(
            "status IN ('pending', 'held', 'frozen', 'released', 'refunded', 'partially_refunded')",
            name="status",
        ),
        CheckConstraint("amount_minor > 0", name="amount_positive"),
        CheckConstraint(
            "released_minor >= 0 AND refunded_minor >= 0 AND released_minor + refunded_minor <= amount_minor",
            name="within_amount",
        ),
        CheckConstraint("clawed_back_minor BETWEEN 0 AND released_minor", name="clawed_back"),
        Index("ix_escrows_status", "status"),
    )

    order_id: Mapped[UUID] = mapped_column(ForeignKey("orders.id"), primary_key=True)
    status: Mapped[str]
    amount_minor: Mapped[int]
    released_minor: Mapped[int] = mapped_column(server_default=text("0"))
    refunded_minor: Mapped[int] = mapped_column(server_default=text("0"))
    clawed_back_minor: Mapped[int] = mapped_column(
        server_default=text("0"), comment="The released amount that was taken back for the buyer"
    )
