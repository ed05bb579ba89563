"""Tables of what staff promote: flash sales, banners, vibes, featured products.

``over_at`` is when a promotion is over: at the end that was planned, or when it was ended early. One that was
ended before it began was called off: it never ran.
"""

from datetime import datetime
from uuid import UUID

from sqlalchemy import CheckConstraint, Computed, ForeignKey, Index, UniqueConstraint, text
from sqlalchemy.dialects.postgresql import ExcludeConstraint
from sqlalchemy.orm import Mapped, mapped_column

from marketplace.infra.db import Base, Id, Timestamped

# Of promotions that ran or will: an empty window can't overlap, and one that ends before it begins is no range.
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
    """The columns of every promotion: its window, its early end, and who wrote it."""

    id: Mapped[Id]
    starts_at: Mapped[datetime]
    ends_at: Mapped[datetime | None]
    over_at: Mapped[datetime | None] = mapped_column(Computed("least(ends_at, ended_at)", persisted=True))
    created_by: Mapped[UUID] = mapped_column(ForeignKey("profiles.id"))
    ended_at: Mapped[datetime | None]
    ended_by: Mapped[UUID | None] = mapped_column(ForeignKey("profiles.id"))
    revision: Mapped[int] = mapped_column(server_default=text("1"))


class FlashSale(Promotion, Base):
    """A product for less, for a while. ``sold`` of its pieces are claimed by orders, paid or waiting.

    A row is changed under the lock of its product's row alone. Products repeat what a card needs of the sale
    that runs or comes next.
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
    percent_off: Mapped[int | None] = mapped_column(comment="What the price was made of, where it was")
    ends_at: Mapped[datetime] = mapped_column()
    over_at: Mapped[datetime] = mapped_column(Computed("least(ends_at, ended_at)", persisted=True))
    quantity: Mapped[int | None]
    sold: Mapped[int] = mapped_column(server_default=text("0"))


class PicturedPromotion(Promotion):
    """The columns of promotions with a picture, in an order that staff chose, on one campus or all."""

    image_id: Mapped[UUID | None] = mapped_column(ForeignKey("images.id"), index=True)
    image_url: Mapped[str | None]
    campus_id: Mapped[UUID | None] = mapped_column(ForeignKey("campuses.id"))
    position: Mapped[int] = mapped_column(server_default=text("0"))


class Banner(PicturedPromotion, Base):
    """A picture with a title on the pages of a campus, or of all."""

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
    """A themed feed of products, in an order that staff chose."""

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
    """A product's place in a vibe."""

    __tablename__ = "vibe_products"
    __table_args__ = (
        UniqueConstraint("vibe_id", "product_id", name="uq_vibe_products_product"),
        CheckConstraint("position BETWEEN 0 AND 49", name="position"),
    )

    vibe_id: Mapped[UUID] = mapped_column(ForeignKey("vibes.id"), primary_key=True)
    position: Mapped[int] = mapped_column(primary_key=True)
    product_id: Mapped[UUID] = mapped_column(ForeignKey("products.id"), index=True)


class FeaturedProduct(Promotion, Base):
    """A product that staff put forward on its campus."""

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
    campus_id: Mapped[UUID] = mapped_column(ForeignKey("campuses.id"), comment="The product's")
    position: Mapped[int] = mapped_column(server_default=text("0"))
