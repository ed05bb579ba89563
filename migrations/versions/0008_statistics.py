"""Views, cart adds and shares of products, by the hour; exclusives; the order of the own inventory."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Bring the schema to this revision."""
    op.create_table(
        "product_statistics",
        sa.Column("product_id", sa.Uuid(), nullable=False),
        sa.Column("hour", sa.TIMESTAMP(timezone=True), nullable=False),
        sa.Column("views", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("cart_adds", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("shares", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.ForeignKeyConstraint(
            ["product_id"], ["products.id"], name=op.f("fk_product_statistics_product_id")
        ),
        sa.PrimaryKeyConstraint("product_id", "hour", name=op.f("pk_product_statistics")),
    )
    op.create_index(op.f("ix_product_statistics_hour"), "product_statistics", ["hour"], unique=False)
    op.create_table(
        "product_counts",
        sa.Column("product_id", sa.Uuid(), nullable=False),
        sa.Column("views", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("cart_adds", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("shares", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column(
            "trending",
            sa.BigInteger(),
            nullable=True,
            comment="Its place among what trends: the decayed score's logarithm, which time alone does not change",
        ),
        sa.Column(
            "recount_at",
            sa.TIMESTAMP(timezone=True),
            nullable=True,
            comment="When trending must be reckoned anew: it was counted, or an hour leaves the window",
        ),
        sa.ForeignKeyConstraint(["product_id"], ["products.id"], name=op.f("fk_product_counts_product_id")),
        sa.PrimaryKeyConstraint("product_id", name=op.f("pk_product_counts")),
    )
    op.create_index(
        "ix_product_counts_trending",
        "product_counts",
        [sa.text("trending DESC"), sa.text("product_id DESC")],
        unique=False,
        postgresql_where=sa.text("trending IS NOT NULL"),
    )
    op.create_index(
        "ix_product_counts_recount_at",
        "product_counts",
        ["recount_at"],
        unique=False,
        postgresql_where=sa.text("recount_at IS NOT NULL"),
    )
    op.create_table(
        "statistics_batches",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("applied_at", sa.TIMESTAMP(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_statistics_batches")),
    )
    op.add_column(
        "products", sa.Column("exclusive", sa.Boolean(), server_default=sa.text("false"), nullable=False)
    )
    op.create_index(
        "ix_products_exclusive",
        "products",
        [sa.text("published_at DESC"), sa.text("id DESC")],
        unique=False,
        postgresql_where=sa.text("status = 'published' AND exclusive"),
    )
    op.create_index(
        "ix_products_inventory",
        "products",
        ["vendor_id", sa.text("updated_at DESC"), sa.text("id DESC")],
        unique=False,
        postgresql_where=sa.text("status <> 'deleted'"),
    )


def downgrade() -> None:
    """Take the revision back."""
    op.drop_index("ix_products_inventory", table_name="products")
    op.drop_index("ix_products_exclusive", table_name="products")
    op.drop_column("products", "exclusive")
    op.drop_table("statistics_batches")
    op.drop_table("product_counts")
    op.drop_table("product_statistics")
