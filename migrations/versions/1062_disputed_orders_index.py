"""Index of disputed orders, and the validated constraint of the figures of stores."""

import sqlalchemy as sa
from alembic import op

from migrations.operations import build_index, outside_transaction, validate_constraint

revision = "1062"
down_revision = "1061"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Build the index and validate the constraint."""
    build_index(
        "ix_orders_disputed", "orders", ["disputed_at"], postgresql_where=sa.text("disputed_at IS NOT NULL")
    )
    validate_constraint("store_days", "ck_store_days_not_negative")


def downgrade() -> None:
    """Drop the index, and return the constraint to its state before the validation."""
    with outside_transaction():
        op.execute("DROP INDEX CONCURRENTLY IF EXISTS ix_orders_disputed")
    op.execute(
        """
        ALTER TABLE store_days DROP CONSTRAINT ck_store_days_not_negative,
            ADD CONSTRAINT ck_store_days_not_negative CHECK (least(orders, units, revenue_minor, refunded_orders,
                refunded_minor, disputed_orders, lost_disputes, views, cart_adds) >= 0) NOT VALID
        """
    )
