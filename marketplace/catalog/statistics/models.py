"""Tables of product counters."""

from datetime import datetime
from uuid import UUID

from sqlalchemy import ForeignKey, Index, text
from sqlalchemy.orm import Mapped, mapped_column

from marketplace.infra.db import Base


class CountedEvents:
    """Counter columns of a product, a column per event type."""

    views: Mapped[int] = mapped_column(server_default=text("0"))
    cart_adds: Mapped[int] = mapped_column(server_default=text("0"))
    shares: Mapped[int] = mapped_column(server_default=text("0"))


class ProductStatistic(CountedEvents, Base):
    """Counters of a product in an hour; ``hour`` is the start of the hour."""

    __tablename__ = "product_statistics"

    product_id: Mapped[UUID] = mapped_column(ForeignKey("products.id"), primary_key=True)
    hour: Mapped[datetime] = mapped_column(primary_key=True, index=True)


class ProductCount(CountedEvents, Base):
    """Total counters of a product.

    The table is separate from products, so that orders and counters do not wait for each other's row locks.
    """

    __tablename__ = "product_counts"
    __table_args__ = (
        Index(
            "ix_product_counts_trending",
            text("trending DESC"),
            text("product_id DESC"),
            postgresql_where=text("trending IS NOT NULL"),
        ),
        Index("ix_product_counts_recount_at", "recount_at", postgresql_where=text("recount_at IS NOT NULL")),
    )

    product_id: Mapped[UUID] = mapped_column(ForeignKey("products.id"), primary_key=True)
    trending: Mapped[int | None] = mapped_column(
        comment="Rank key of trending products: logarithm of the decayed score, independent of the current time"
    )
    recount_at: Mapped[datetime | None] = mapped_column(
        comment="When trending must be recomputed: after a counted event, or when an hour leaves the window"
    )


class StatisticsBatch(Base):
    """A batch of counts that was added. The row prevents adding the batch twice."""

    __tablename__ = "statistics_batches"

    id: Mapped[UUID] = mapped_column(primary_key=True)
    applied_at: Mapped[datetime]
