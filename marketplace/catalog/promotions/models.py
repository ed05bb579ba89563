"""Tables of promotions: flash sales, banners, vibes and featured products.

``over_at`` is the effective end: the planned end or the early end, whichever comes first. A promotion that was ended
before its start was cancelled and never ran.
"""

from datetime import datetime
from uuid import UUID

from sqlalchemy import CheckConstraint, Computed, ForeignKey, Index, UniqueConstraint, text
from sqlalchemy.dialects.postgresql import ExcludeConstraint
from sqlalchemy.orm import Mapped, mapped_column

from marketplace.infra.db import Base, Id, Timestamped

# Only promotions that ran or will run. A cancelled promotion ends at or before its start, which leaves no range.
_NOT_CANCELLED_BEFORE_START = text("over_at IS NULL OR over_at > starts_at")
_IMAGE_COUNT_SQL = "num_nonnulls(image_id, image_url)"


def _exclude_overlaps(table: str) -> ExcludeConstraint:
    return ExcludeConstraint(
        ("product_id", "="),
        (text("tstzrange(starts_at, over_at)"), "&&"),
        where=_NOT_CANCELLED_BEFORE_START,
        using="gist",
        name=f"ex_{table}_product",
    )


class Promotion(Timestamped):
    """Common columns of promotions: period, early end and author."""

    id: Mapped[Id]
    starts_at: Mapped[datetime]
    ends_at: Mapped[datetime | None]
    over_at: Mapped[datetime | None] = mapped_column(Computed("least(ends_at, ended_at)", persisted=True))
    created_by: Mapped[UUID] = mapped_column(ForeignKey("profiles.id"))
    ended_at: Mapped[datetime | None]
    ended_by: Mapped[UUID | None] = mapped_column(ForeignKey("profiles.id"))
    revision: Mapped[int] = mapped_column(server_default=text("1"))


class FlashSale(Promotion, Base):
    """A product at a lower price for a limited period. Orders, paid or unpaid, hold ``sold`` units.

    A row is changed only under the row lock of the product. Products repeat the columns of the running or next sale
    that a card needs.
    """

    __tablename__ = "flash_sales"
    __table_args__ = (
        CheckConstraint("sale_price_minor BETWEEN 1 AND 10000000000", name="price"),
        CheckConstraint("percent_off BETWEEN 1 AND 90", name="percent_off"),
        CheckConstraint("ends_at > starts_at", name="window"),
        CheckConstraint("ends_at - starts_at <= interval '30 days'", name="length"),
        CheckConstraint("quantity BETWEEN 1 AND 100000", name="quantity"),
        CheckConstraint("sold >= 0 AND sold <= coalesce(quantity, sold)", name="sold"),
        _exclude_overlaps("flash_sales"),
        Index("ix_flash_sales_over", "over_at", "id"),
        Index("ix_flash_sales_starts", "starts_at", "id"),
        Index("ix_flash_sales_product", "product_id", "over_at"),
    )

    product_id: Mapped[UUID] = mapped_column(ForeignKey("products.id"))
    sale_price_minor: Mapped[int]
    percent_off: Mapped[int | None] = mapped_column(
        comment="Percentage that the sale price was computed from; null for a fixed price"
    )
    ends_at: Mapped[datetime] = mapped_column()
    over_at: Mapped[datetime] = mapped_column(Computed("least(ends_at, ended_at)", persisted=True))
    quantity: Mapped[int | None]
    sold: Mapped[int] = mapped_column(server_default=text("0"))


class PicturedPromotion(Promotion):
    """Common columns of promotions with an image and a position, on a single campus or on all campuses."""

    image_id: Mapped[UUID | None] = mapped_column(ForeignKey("images.id"), index=True)
    image_url: Mapped[str | None]
    campus_id: Mapped[UUID | None] = mapped_column(ForeignKey("campuses.id"))
    position: Mapped[int] = mapped_column(server_default=text("0"))


class Banner(PicturedPromotion, Base):
    """An image with a title on the pages of a campus or of all campuses."""

    __tablename__ = "banners"
    __table_args__ = (
        CheckConstraint("placement IN ('hero', 'card')", name="placement"),
        CheckConstraint("ends_at > starts_at", name="window"),
        CheckConstraint(f"{_IMAGE_COUNT_SQL} = 1", name="picture"),
        CheckConstraint("position BETWEEN 0 AND 1000", name="position"),
        Index("ix_banners_shown", "position", "id", postgresql_where=text("ended_at IS NULL")),
    )

    title: Mapped[str]
    subtitle: Mapped[str | None]
    link: Mapped[str | None]
    placement: Mapped[str]


class Vibe(PicturedPromotion, Base):
    """A themed feed of products in an order chosen by staff."""

    __tablename__ = "vibes"
    __table_args__ = (
        CheckConstraint("ends_at > starts_at", name="window"),
        CheckConstraint(f"{_IMAGE_COUNT_SQL} <= 1", name="picture"),
        CheckConstraint("position BETWEEN 0 AND 1000", name="position"),
        Index("uq_vibes_slug", "slug", unique=True, postgresql_where=text("ended_at IS NULL")),
        Index("ix_vibes_shown", "position", "id", postgresql_where=text("ended_at IS NULL")),
    )

    slug: Mapped[str]
    title: Mapped[str]
    description: Mapped[str] = mapped_column(server_default="")


class VibeProduct(Base):
    """The position of a product in a vibe."""

    __tablename__ = "vibe_products"
    __table_args__ = (
        UniqueConstraint("vibe_id", "product_id", name="uq_vibe_products_product"),
        CheckConstraint("position BETWEEN 0 AND 49", name="position"),
    )

    vibe_id: Mapped[UUID] = mapped_column(ForeignKey("vibes.id"), primary_key=True)
    position: Mapped[int] = mapped_column(primary_key=True)
    product_id: Mapped[UUID] = mapped_column(ForeignKey("products.id"), index=True)


class FeaturedProduct(Promotion, Base):
    """A product that staff feature on the product's campus."""

    __tablename__ = "featured_products"
    __table_args__ = (
        CheckConstraint("ends_at > starts_at", name="window"),
        CheckConstraint("position BETWEEN 0 AND 1000", name="position"),
        _exclude_overlaps("featured_products"),
        Index(
            "ix_featured_products_shown",
            "position",
            "id",
            postgresql_where=text("ended_at IS NULL"),
        ),
    )

    product_id: Mapped[UUID] = mapped_column(ForeignKey("products.id"))
    campus_id: Mapped[UUID] = mapped_column(ForeignKey("campuses.id"), comment="Campus of the product")
    position: Mapped[int] = mapped_column(server_default=text("0"))
