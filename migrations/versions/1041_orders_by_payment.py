"""The index of a store's orders by time of payment."""

import sqlalchemy as sa
from alembic import op

from migrations.operations import build_index

revision = "1041"
down_revision = "1040"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Build the index."""
    build_index(
        "ix_orders_vendor_paid",
        "orders",
        ["vendor_id", "paid_at"],
        postgresql_where=sa.text("paid_at IS NOT NULL"),
    )


def downgrade() -> None:
    """Drop the index."""
    op.drop_index("ix_orders_vendor_paid", "orders")
