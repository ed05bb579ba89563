"""Tables of the catalog."""

from datetime import datetime
from uuid import UUID

from sqlalchemy import CheckConstraint, Computed, ForeignKey, Index, UniqueConstraint, text
from sqlalchemy.orm import Mapped, mapped_column

from marketplace.infra.db import Base, CreatedAt, Entity, Timestamped

_PUBLISHED = text("status = 'published'")
_IN_MODERATION = text("status IN ('in_review', 'rejected', 'removed')")


class Category(Entity):
    """A node of the category tree. ``lineage`` holds the ids from the root to the category itself."""

    __tablename__ = "categories"
    __table_args__ = (Index("ix_categories_lineage", "lineage", postgresql_using="gin"),)

    parent_id: Mapped[UUID | None] = mapped_column(ForeignKey("categories.id"), index=True)
    name: Mapped[str]
    slug: Mapped[str] = mapped_column(unique=True)
    position: Mapped[int] = mapped_column(server_default=text("0"))
    lineage: Mapped[list[UUID]]
    commission_bps: Mapped[int | None]


class Product(Timestamped, Entity):
    """A listing. ``reserved`` units of ``quantity`` belong to unpaid orders.

    ``cover_key`` repeats the key of the first image, so that listings need no join. Other areas write the rating and
    the popularity. The sale columns repeat the running or next flash sale, so that listings and orders need no
    lookup.
    """

    __tablename__ = "products"
    __table_args__ = (
        CheckConstraint(
            "status IN ('draft', 'in_review', 'published', 'rejected', 'paused', 'removed', 'deleted')",
            name="status",
        ),
        CheckConstraint("condition IN ('new', 'like_new', 'good', 'fair')", name="condition"),
        CheckConstraint("price_minor BETWEEN 100 AND 10000000000", name="price"),
        CheckConstraint("quantity BETWEEN 0 AND 100000", name="quantity"),
        CheckConstraint("reserved BETWEEN 0 AND quantity", name="reserved"),
        CheckConstraint(
            "num_nonnulls(sale_id, sale_price_minor, sale_starts_at, sale_ends_at) IN (0, 4)"
            " AND (sale_left IS NULL OR (sale_id IS NOT NULL AND sale_left >= 0))",
            name="sale",
        ),
        Index("ix_products_newest", text("published_at DESC"), text("id DESC"), postgresql_where=_PUBLISHED),
        Index("ix_products_price", "price_minor", "id", postgresql_where=_PUBLISHED),
        Index("ix_products_popular", text("popularity DESC"), text("id DESC"), postgresql_where=_PUBLISHED),
        Index("ix_products_rating", text("rating_bayes DESC"), text("id DESC"), postgresql_where=_PUBLISHED),
        Index(
            "ix_products_campus_newest",
            "campus_id",
            text("published_at DESC"),
            text("id DESC"),
            postgresql_where=_PUBLISHED,
        ),
        Index(
            "ix_products_category_newest",
            "category_id",
            text("published_at DESC"),
            text("id DESC"),
            postgresql_where=_PUBLISHED,
        ),
        Index(
            "ix_products_category_price",
            "category_id",
            "campus_id",
            "price_minor",
            "id",
            postgresql_where=_PUBLISHED,
        ),
        Index("ix_products_vendor", "vendor_id", text("created_at DESC")),
        Index(
            "ix_products_exclusive",
            text("published_at DESC"),
            text("id DESC"),
            postgresql_where=text("status = 'published' AND exclusive"),
        ),
        Index(
            "ix_products_inventory",
            "vendor_id",
            text("updated_at DESC"),
            text("id DESC"),
            postgresql_where=text("status <> 'deleted'"),
        ),
        CheckConstraint("NOT held OR status = 'in_review'", name="held"),
        Index(
            "ix_products_moderation", "status", "held", "moderated_at", "id", postgresql_where=_IN_MODERATION
        ),
    )

    vendor_id: Mapped[UUID] = mapped_column(ForeignKey("vendor_profiles.id"))
    campus_id: Mapped[UUID] = mapped_column(ForeignKey("campuses.id"))
    category_id: Mapped[UUID] = mapped_column(ForeignKey("categories.id"))
    title: Mapped[str]
    description: Mapped[str] = mapped_column(server_default="")
    price_minor: Mapped[int]
    condition: Mapped[str]
    quantity: Mapped[int]
    reserved: Mapped[int] = mapped_column(server_default=text("0"))
    available: Mapped[int] = mapped_column(Computed("quantity - reserved", persisted=True))
    tags: Mapped[list[str]] = mapped_column(server_default="{}")
    cover_key: Mapped[str | None]
    status: Mapped[str]
    status_reason: Mapped[str | None] = mapped_column(info={"personal": "message"})
    popularity: Mapped[int] = mapped_column(server_default=text("0"))
    sale_id: Mapped[UUID | None] = mapped_column(
        ForeignKey("flash_sales.id", name="fk_products_sale_id", use_alter=True)
    )
    sale_price_minor: Mapped[int | None]
    sale_starts_at: Mapped[datetime | None]
    sale_ends_at: Mapped[datetime | None]
    sale_left: Mapped[int | None] = mapped_column(comment="Units left in the sale; null without a limit")
    rating_sum: Mapped[int] = mapped_column(server_default=text("0"))
    rating_count: Mapped[int] = mapped_column(server_default=text("0"))
    rating_bayes: Mapped[int] = mapped_column(
        Computed("(rating_sum * 1000 + 15000) / (rating_count + 5)", persisted=True),
        comment="Bayesian average in thousandths of a star, with five assumed ratings of 3 to temper few ratings",
    )
    exclusive: Mapped[bool] = mapped_column(server_default=text("false"))
    screened_at: Mapped[datetime | None] = mapped_column(
        comment="When the current content passed the review; null after a change that must be screened"
    )
    review_round: Mapped[int] = mapped_column(
        server_default=text("0"),
        comment="Incremented with each submission for screening; results of earlier rounds are dropped",
    )
    held: Mapped[bool] = mapped_column(
        server_default=text("false"),
        comment="In review: true while the listing waits for staff after the screening",
    )
    needs_staff: Mapped[bool] = mapped_column(
        server_default=text("false"),
        comment="Staff rejected or removed the listing, so the screening alone cannot publish it again",
    )
    review_reasons: Mapped[list[str]] = mapped_column(server_default="{}")
    moderated_at: Mapped[CreatedAt] = mapped_column(
        comment="Start of the current moderation state: submitted, held, rejected, removed or approved"
    )
    published_at: Mapped[datetime | None]
    revision: Mapped[int] = mapped_column(server_default=text("1"))
    deleted_at: Mapped[datetime | None]
    restocked_at: Mapped[datetime | None] = mapped_column(
        comment="When the sold-out product last had units again; null if never"
    )


class ProductImage(Base):
    """An image of a product at a position."""

    __tablename__ = "product_images"
    __table_args__ = (CheckConstraint("position BETWEEN 0 AND 7", name="position"),)

    product_id: Mapped[UUID] = mapped_column(ForeignKey("products.id"), primary_key=True)
    position: Mapped[int] = mapped_column(primary_key=True)
    image_id: Mapped[UUID] = mapped_column(ForeignKey("images.id"), index=True)


class Favorite(Entity):
    """A product among the favourites of a person, with the last announcements to the person."""

    __tablename__ = "favorites"
    __table_args__ = (
        UniqueConstraint("product_id", "user_id"),
        Index("ix_favorites_user", "user_id", text("created_at DESC"), text("id DESC")),
        CheckConstraint("known_price_minor > 0", name="known_price"),
    )

    user_id: Mapped[UUID] = mapped_column(ForeignKey("profiles.id"))
    product_id: Mapped[UUID] = mapped_column(ForeignKey("products.id"))
    known_price_minor: Mapped[int] = mapped_column(
        comment="The price in kobo at the time of the favourite, or of the last announced price drop"
    )
    announced_restock_at: Mapped[datetime | None] = mapped_column(comment="The last restock announced")
    created_at: Mapped[CreatedAt]


class BannedTerm(Entity):
    """A term for goods that may not be sold, stored as the screening folds words.

    Within a phrase of ``exceptions`` the term is harmless.
    """

    __tablename__ = "banned_terms"
    __table_args__ = (
        CheckConstraint(
            "category IN ('weapon', 'drug', 'medicine', 'exam_malpractice', 'forgery', 'adult',"
            " 'alcohol_tobacco', 'wildlife', 'other')",
            name="category",
        ),
    )

    term: Mapped[str] = mapped_column(unique=True)
    category: Mapped[str]
    exceptions: Mapped[list[str]] = mapped_column(server_default="{}")
    note: Mapped[str | None]
    created_by: Mapped[UUID | None] = mapped_column(ForeignKey("profiles.id"))
    created_at: Mapped[CreatedAt]
