"""Flash sales, banners, vibes and featured products."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

_SALE_COLUMNS = ("sale_id", "sale_price_minor", "sale_starts_at", "sale_ends_at", "sale_left")
_MOMENT = sa.TIMESTAMP(timezone=True)


def upgrade() -> None:
    """Make the tables, and the columns in which products and order lines refer to sales."""
    # Exclusion constraints compare ids beside time ranges.
    op.execute("CREATE EXTENSION IF NOT EXISTS btree_gist")
    _create_flash_sales()
    _create_banners()
    _create_vibes()
    _create_featured_products()
    op.add_column("products", sa.Column("sale_id", sa.Uuid(), nullable=True))
    op.add_column("products", sa.Column("sale_price_minor", sa.BigInteger(), nullable=True))
    op.add_column("products", sa.Column("sale_starts_at", _MOMENT, nullable=True))
    op.add_column("products", sa.Column("sale_ends_at", _MOMENT, nullable=True))
    op.add_column(
        "products",
        sa.Column("sale_left", sa.BigInteger(), nullable=True, comment="None where the sale has no limit"),
    )
    op.create_foreign_key("fk_products_sale_id", "products", "flash_sales", ["sale_id"], ["id"])
    op.create_check_constraint(
        op.f("ck_products_sale"),
        "products",
        "num_nonnulls(sale_id, sale_price_minor, sale_starts_at, sale_ends_at) IN (0, 4)"
        " AND (sale_left IS NULL OR (sale_id IS NOT NULL AND sale_left >= 0))",
    )
    op.add_column(
        "order_items",
        sa.Column(
            "flash_sale_id",
            sa.Uuid(),
            nullable=True,
            comment="Whose price it has, and whose pieces it claimed",
        ),
    )
    op.create_foreign_key(
        "fk_order_items_flash_sale_id", "order_items", "flash_sales", ["flash_sale_id"], ["id"]
    )


def _id() -> sa.Column[object]:
    return sa.Column("id", sa.Uuid(), server_default=sa.text("uuidv7()"), nullable=False)


def _lasting(*, for_ever: bool) -> tuple[sa.Column[object], ...]:
    """Give the columns of a window; ``for_ever`` lets it stay open."""
    return (
        sa.Column("starts_at", _MOMENT, nullable=False),
        sa.Column("ends_at", _MOMENT, nullable=for_ever),
        sa.Column(
            "over_at", _MOMENT, sa.Computed("least(ends_at, ended_at)", persisted=True), nullable=for_ever
        ),
        sa.Column("created_by", sa.Uuid(), nullable=False),
        sa.Column("ended_at", _MOMENT, nullable=True),
        sa.Column("ended_by", sa.Uuid(), nullable=True),
        sa.Column("revision", sa.BigInteger(), server_default=sa.text("1"), nullable=False),
        sa.Column("created_at", _MOMENT, server_default=sa.text("now()"), nullable=False),
        sa.Column("updated_at", _MOMENT, server_default=sa.text("now()"), nullable=False),
    )


def _rules(table: str, **referred: str) -> tuple[sa.Constraint, ...]:
    """Give the constraints that all of these tables have, and the references of one."""
    return (
        sa.CheckConstraint("ends_at > starts_at", name=op.f(f"ck_{table}_window")),
        sa.ForeignKeyConstraint(["created_by"], ["profiles.id"], name=op.f(f"fk_{table}_created_by")),
        sa.ForeignKeyConstraint(["ended_by"], ["profiles.id"], name=op.f(f"fk_{table}_ended_by")),
        *(
            sa.ForeignKeyConstraint([column], [f"{target}.id"], name=op.f(f"fk_{table}_{column}"))
            for column, target in referred.items()
        ),
        sa.PrimaryKeyConstraint("id", name=op.f(f"pk_{table}")),
    )


def _no_two_at_once(table: str) -> postgresql.ExcludeConstraint:
    return postgresql.ExcludeConstraint(
        (sa.column("product_id"), "="),
        (sa.text("tstzrange(starts_at, over_at)"), "&&"),
        where=sa.text("over_at IS NULL OR over_at > starts_at"),
        using="gist",
        name=op.f(f"ex_{table}_product"),
    )


def _position(table: str) -> tuple[sa.Column[object], sa.CheckConstraint]:
    return (
        sa.Column("position", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.CheckConstraint("position BETWEEN 0 AND 1000", name=op.f(f"ck_{table}_position")),
    )


def _shown(table: str) -> None:
    op.create_index(
        f"ix_{table}_shown", table, ["position", "id"], postgresql_where=sa.text("ended_at IS NULL")
    )


def _create_flash_sales() -> None:
    op.create_table(
        "flash_sales",
        _id(),
        sa.Column("product_id", sa.Uuid(), nullable=False),
        sa.Column("sale_price_minor", sa.BigInteger(), nullable=False),
        sa.Column(
            "percent_off",
            sa.BigInteger(),
            nullable=True,
            comment="What the price was made of, where it was",
        ),
        sa.Column("quantity", sa.BigInteger(), nullable=True),
        sa.Column("sold", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        *_lasting(for_ever=False),
        sa.CheckConstraint("sale_price_minor BETWEEN 1 AND 10000000000", name=op.f("ck_flash_sales_price")),
        sa.CheckConstraint("percent_off BETWEEN 1 AND 90", name=op.f("ck_flash_sales_percent_off")),
        sa.CheckConstraint("ends_at - starts_at <= interval '30 days'", name=op.f("ck_flash_sales_length")),
        sa.CheckConstraint("quantity BETWEEN 1 AND 100000", name=op.f("ck_flash_sales_quantity")),
        sa.CheckConstraint(
            "sold >= 0 AND sold <= coalesce(quantity, sold)", name=op.f("ck_flash_sales_sold")
        ),
        _no_two_at_once("flash_sales"),
        *_rules("flash_sales", product_id="products"),
    )
    op.create_index("ix_flash_sales_over", "flash_sales", ["over_at", "id"])
    op.create_index("ix_flash_sales_starts", "flash_sales", ["starts_at", "id"])
    op.create_index("ix_flash_sales_product", "flash_sales", ["product_id", "over_at"])


def _create_banners() -> None:
    op.create_table(
        "banners",
        _id(),
        sa.Column("title", sa.Text(), nullable=False),
        sa.Column("subtitle", sa.Text(), nullable=True),
        sa.Column("image_id", sa.Uuid(), nullable=True),
        sa.Column("image_url", sa.Text(), nullable=True),
        sa.Column("link", sa.Text(), nullable=True),
        sa.Column("placement", sa.Text(), nullable=False),
        sa.Column("campus_id", sa.Uuid(), nullable=True),
        *_position("banners"),
        *_lasting(for_ever=True),
        sa.CheckConstraint("placement IN ('hero', 'card')", name=op.f("ck_banners_placement")),
        sa.CheckConstraint("num_nonnulls(image_id, image_url) = 1", name=op.f("ck_banners_picture")),
        *_rules("banners", image_id="images", campus_id="campuses"),
    )
    op.create_index(op.f("ix_banners_image_id"), "banners", ["image_id"])
    _shown("banners")


def _create_vibes() -> None:
    op.create_table(
        "vibes",
        _id(),
        sa.Column("slug", sa.Text(), nullable=False),
        sa.Column("title", sa.Text(), nullable=False),
        sa.Column("description", sa.Text(), server_default="", nullable=False),
        sa.Column("image_id", sa.Uuid(), nullable=True),
        sa.Column("image_url", sa.Text(), nullable=True),
        sa.Column("campus_id", sa.Uuid(), nullable=True),
        *_position("vibes"),
        *_lasting(for_ever=True),
        sa.CheckConstraint("num_nonnulls(image_id, image_url) <= 1", name=op.f("ck_vibes_picture")),
        *_rules("vibes", image_id="images", campus_id="campuses"),
    )
    op.create_index(op.f("ix_vibes_image_id"), "vibes", ["image_id"])
    op.create_index(
        "uq_vibes_slug", "vibes", ["slug"], unique=True, postgresql_where=sa.text("ended_at IS NULL")
    )
    _shown("vibes")
    op.create_table(
        "vibe_products",
        sa.Column("vibe_id", sa.Uuid(), nullable=False),
        sa.Column("position", sa.BigInteger(), nullable=False),
        sa.Column("product_id", sa.Uuid(), nullable=False),
        sa.CheckConstraint("position BETWEEN 0 AND 49", name=op.f("ck_vibe_products_position")),
        sa.ForeignKeyConstraint(["vibe_id"], ["vibes.id"], name=op.f("fk_vibe_products_vibe_id")),
        sa.ForeignKeyConstraint(["product_id"], ["products.id"], name=op.f("fk_vibe_products_product_id")),
        sa.PrimaryKeyConstraint("vibe_id", "position", name=op.f("pk_vibe_products")),
        sa.UniqueConstraint("vibe_id", "product_id", name=op.f("uq_vibe_products_product")),
    )
    op.create_index(op.f("ix_vibe_products_product_id"), "vibe_products", ["product_id"])


def _create_featured_products() -> None:
    op.create_table(
        "featured_products",
        _id(),
        sa.Column("product_id", sa.Uuid(), nullable=False),
        sa.Column("campus_id", sa.Uuid(), nullable=False, comment="The product's"),
        *_position("featured_products"),
        *_lasting(for_ever=True),
        _no_two_at_once("featured_products"),
        *_rules("featured_products", product_id="products", campus_id="campuses"),
    )
    _shown("featured_products")


def downgrade() -> None:
    """Drop the tables, and what refers to them."""
    op.drop_constraint("fk_order_items_flash_sale_id", "order_items")
    op.drop_column("order_items", "flash_sale_id")
    op.drop_constraint("ck_products_sale", "products")
    op.drop_constraint("fk_products_sale_id", "products")
    for column in reversed(_SALE_COLUMNS):
        op.drop_column("products", column)
    for table in ("featured_products", "vibe_products", "vibes", "banners", "flash_sales"):
        op.drop_table(table)
    op.execute("DROP EXTENSION btree_gist")
