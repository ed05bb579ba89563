"""Index of the images that orders keep."""

from alembic import op

from migrations.operations import build_index, outside_transaction

revision = "1059"
down_revision = "1058"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Build the index."""
    build_index("ix_order_items_images", "order_items", ["image_ids"], postgresql_using="gin")


def downgrade() -> None:
    """Drop the index."""
    with outside_transaction():
        op.execute("DROP INDEX CONCURRENTLY IF EXISTS ix_order_items_images")
