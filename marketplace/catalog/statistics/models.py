"""Tables of what is counted of products."""

from datetime import datetime
from uuid import UUID

from sqlalchemy import ForeignKey, Index, text
from sqlalchemy.orm import Mapped, mapped_column

from marketplace.infra.db import Base


class CountedEvents:
    """The columns of a product's counts, one for each type of event."""

    views: Mapped[int] = mapped_column(server_default=text("0"))
    cart_adds: Mapped[int] = mapped_column(server_default=text("0"))
    shares: Mapped[int] = mapped_column(server_default=text("0"))


class ProductStatistic(CountedEvents, Base):
    """What was counted of a product in one hour, which its beginning names."""

    __tablename__ = "product_statistics"

    product_id: Mapped[UUID] = mapped_column(ForeignKey("products.id"), primary_key=True)
    hour: Mapped[datetime] = mapped_column(primary_key=True, index=True)


class ProductCount(CountedEvents, Base):
    """What was counted of a product in all.

    It stands beside the product, not in it: an order must not wait for a count, nor a count for an order.
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
        comment="Its place among what trends: the decayed score's logarithm, which time alone does not change"
    )
    recount_at: Mapped[datetime | None] = mapped_column(
        comment="When trending must be reckoned anew: it was counted, or an hour leaves the window"
    )


class StatisticsBatch(Base):
    """A batch of counts that was added up, so that none is added twice."""

    __tablename__ = "statistics_batches"

    id: Mapped[UUID] = mapped_column(primary_key=True)
    applied_at: Mapped[datetime]
