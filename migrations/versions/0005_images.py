"""Pictures in several sizes."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

_LIVE = sa.text("status IN ('pending', 'ready')")


def upgrade() -> None:
    """Change the schema."""
    for column in (
        sa.Column(
            "content_hash",
            sa.Text(),
            comment="Of the uploaded file and of the recipe that its renditions were made by",
        ),
        sa.Column("content_type", sa.Text(), comment="Of the uploaded file, by its content"),
        sa.Column("width", sa.BigInteger(), comment="Of the uploaded picture, upright, in pixels"),
        sa.Column("height", sa.BigInteger()),
        sa.Column("renditions", postgresql.JSONB(), server_default="[]", nullable=False),
        sa.Column("status", sa.Text(), server_default="ready", nullable=False),
        sa.Column(
            "unused_since",
            sa.TIMESTAMP(timezone=True),
            server_default=sa.text("now()"),
            comment="Since when no listing shows it, at the earliest; none while one does",
        ),
    ):
        op.add_column("images", column)
    op.alter_column("images", "key", comment="Of the rendition that cards show")
    op.execute("UPDATE images i SET unused_since = NULL FROM product_images n WHERE n.image_id = i.id")
    op.create_check_constraint("status", "images", "status IN ('pending', 'ready', 'deleting', 'deleted')")
    op.create_check_constraint("size", "images", "width > 0 AND height > 0")
    op.create_index(
        "uq_images_owner_content", "images", ["owner_id", "content_hash"], unique=True, postgresql_where=_LIVE
    )
    op.create_index("ix_images_content", "images", ["content_hash"])
    op.create_index("ix_images_key", "images", ["key"])
    op.create_index(
        "ix_images_unused", "images", ["unused_since"], postgresql_where=sa.text("unused_since IS NOT NULL")
    )
    op.create_index("ix_order_items_image_key", "order_items", ["image_key"])


def downgrade() -> None:
    """Take the change back: pictures that were condemned or half stored are forgotten."""
    op.drop_index("ix_order_items_image_key", "order_items")
    for name in ("ix_images_unused", "ix_images_key", "ix_images_content", "uq_images_owner_content"):
        op.drop_index(name, "images")
    op.execute("DELETE FROM images WHERE status <> 'ready'")
    op.alter_column("images", "key", comment=None)
    for constraint in ("size", "status"):
        op.drop_constraint(op.f(f"ck_images_{constraint}"), "images")
    for column in (
        *("unused_since", "status", "renditions", "height", "width", "content_type", "content_hash"),
    ):
        op.drop_column("images", column)
