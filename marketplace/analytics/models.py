"""Roll-up tables of stores. Days are dates in Nigeria, and sales belong to the day of the payment."""

from datetime import date, datetime
from uuid import UUID

from sqlalchemy import CheckConstraint, ForeignKey, text
from sqlalchemy.orm import Mapped, mapped_column

from marketplace.infra.db import Base


class StoreDay(Base):
    """The figures of a store on a day. Amounts are kobo.

    Refunds and disputes count on the day of the order's payment, whenever they happen.
    """

    __tablename__ = "store_days"
    __table_args__ = (
        CheckConstraint(
            "least(orders, units, revenue_minor, refunded_orders, refunded_minor, disputed_orders, lost_disputes,"
            " views, cart_adds) >= 0",
            name="not_negative",
        ),
    )

    vendor_id: Mapped[UUID] = mapped_column(ForeignKey("vendor_profiles.id"), primary_key=True)
    day: Mapped[date] = mapped_column(primary_key=True)
    orders: Mapped[int] = mapped_column(server_default=text("0"))
    units: Mapped[int] = mapped_column(server_default=text("0"))
    revenue_minor: Mapped[int] = mapped_column(
        server_default=text("0"), comment="Totals of the paid orders, without the platform's service fee"
    )
    refunded_orders: Mapped[int] = mapped_column(server_default=text("0"))
    refunded_minor: Mapped[int] = mapped_column(server_default=text("0"))
    disputed_orders: Mapped[int] = mapped_column(server_default=text("0"))
    lost_disputes: Mapped[int] = mapped_column(server_default=text("0"))
    views: Mapped[int] = mapped_column(server_default=text("0"))
    cart_adds: Mapped[int] = mapped_column(server_default=text("0"))


class StoreProductDay(Base):
    """The figures of a product on a day."""

    __tablename__ = "store_product_days"

    vendor_id: Mapped[UUID] = mapped_column(ForeignKey("vendor_profiles.id"), primary_key=True)
    day: Mapped[date] = mapped_column(primary_key=True)
    product_id: Mapped[UUID] = mapped_column(ForeignKey("products.id"), primary_key=True)
    units: Mapped[int] = mapped_column(server_default=text("0"))
    revenue_minor: Mapped[int] = mapped_column(server_default=text("0"))
    views: Mapped[int] = mapped_column(server_default=text("0"))
    cart_adds: Mapped[int] = mapped_column(server_default=text("0"))


class StoreDayBuyer(Base):
    """A buyer of a store on a day."""

    __tablename__ = "store_day_buyers"

    vendor_id: Mapped[UUID] = mapped_column(ForeignKey("vendor_profiles.id"), primary_key=True)
    day: Mapped[date] = mapped_column(primary_key=True)
    buyer_id: Mapped[UUID] = mapped_column(ForeignKey("profiles.id"), primary_key=True)
    orders: Mapped[int]
    had_bought: Mapped[bool] = mapped_column(
        comment="Whether the buyer had paid an order of the store before"
    )


class AnalyticsProgress(Base):
    """The single row with the last order event that the roll-up has passed."""

    __tablename__ = "analytics_progress"
    __table_args__ = (CheckConstraint("id = 1", name="single"),)

    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    event_id: Mapped[int]
    updated_at: Mapped[datetime]
