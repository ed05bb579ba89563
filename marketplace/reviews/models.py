"""Tables of reviews."""

from datetime import datetime
from uuid import UUID

from sqlalchemy import Boolean, CheckConstraint, Computed, ForeignKey, Index, UniqueConstraint, text as sql
from sqlalchemy.orm import Mapped, mapped_column

from marketplace.infra.db import Base, Entity, Timestamped


class Review(Timestamped, Entity):
    """A buyer's review of a store for a delivered order, and the store's reply.

    A deleted review keeps its row without texts, so that its order cannot be reviewed again.
    """

    __tablename__ = "reviews"
    __table_args__ = (
        UniqueConstraint("order_id"),
        CheckConstraint("rating BETWEEN 1 AND 5", name="rating"),
        CheckConstraint("status IN ('visible', 'hidden', 'deleted')", name="status"),
        CheckConstraint("(status = 'deleted') = (text IS NULL)", name="deleted_without_text"),
        CheckConstraint("status <> 'deleted' OR reply_text IS NULL", name="deleted_without_reply"),
        CheckConstraint("(reply_text IS NULL) = (replied_at IS NULL)", name="replied"),
        CheckConstraint("reply_edited_at IS NULL OR replied_at IS NOT NULL", name="reply_edited"),
        Index(
            "ix_reviews_vendor_newest",
            "vendor_id",
            sql("created_at DESC"),
            sql("id DESC"),
            postgresql_where=sql("status = 'visible'"),
        ),
        Index(
            "ix_reviews_vendor_highest",
            "vendor_id",
            sql("rating DESC"),
            sql("created_at DESC"),
            sql("id DESC"),
            postgresql_where=sql("status = 'visible'"),
        ),
        Index(
            "ix_reviews_vendor_lowest",
            "vendor_id",
            "rating",
            sql("created_at DESC"),
            sql("id DESC"),
            postgresql_where=sql("status = 'visible'"),
        ),
        Index("ix_reviews_author", "author_id", sql("created_at DESC"), sql("id DESC")),
    )

    order_id: Mapped[UUID] = mapped_column(ForeignKey("orders.id"))
    vendor_id: Mapped[UUID] = mapped_column(ForeignKey("vendor_profiles.id"))
    author_id: Mapped[UUID] = mapped_column(ForeignKey("profiles.id"))
    rating: Mapped[int] = mapped_column(comment="Stars, from 1 to 5")
    text: Mapped[str | None] = mapped_column(info={"personal": "message"})
    status: Mapped[str]
    refunded: Mapped[bool] = mapped_column(
        server_default=sql("false"), comment="The order was refunded in full, so the rating does not count"
    )
    counted: Mapped[bool] = mapped_column(
        Boolean,
        Computed("status = 'visible' AND NOT refunded", persisted=True),
        comment="Whether the store's rating includes this review",
    )
    edited_at: Mapped[datetime | None]
    reply_text: Mapped[str | None] = mapped_column(info={"personal": "message"})
    replied_at: Mapped[datetime | None]
    reply_edited_at: Mapped[datetime | None]
    revision: Mapped[int] = mapped_column(server_default=sql("1"))


class ReviewImage(Base):
    """A picture of a review, in the author's order. An image belongs to one review."""

    __tablename__ = "review_images"
    __table_args__ = (
        UniqueConstraint("image_id"),
        CheckConstraint("position BETWEEN 0 AND 3", name="position"),
    )

    review_id: Mapped[UUID] = mapped_column(ForeignKey("reviews.id"), primary_key=True)
    position: Mapped[int] = mapped_column(primary_key=True)
    image_id: Mapped[UUID] = mapped_column(ForeignKey("images.id"))


class ReviewProduct(Base):
    """A product of a review's order, whose page shows the review."""

    __tablename__ = "review_products"
    __table_args__ = (
        Index("ix_review_products_newest", "product_id", sql("reviewed_at DESC"), sql("review_id DESC")),
    )

    review_id: Mapped[UUID] = mapped_column(ForeignKey("reviews.id"), primary_key=True)
    product_id: Mapped[UUID] = mapped_column(ForeignKey("products.id"), primary_key=True)
    reviewed_at: Mapped[datetime] = mapped_column(comment="Creation of the review, repeated for the index")
