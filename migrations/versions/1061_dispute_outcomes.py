"""Lost disputes in the figures of stores. The next migration builds the index of disputed orders."""

from alembic import op

revision = "1061"
down_revision = "1060"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column."""
    op.execute(
        """
        ALTER TABLE store_days ADD COLUMN lost_disputes bigint DEFAULT 0 NOT NULL,
            DROP CONSTRAINT ck_store_days_not_negative,
            ADD CONSTRAINT ck_store_days_not_negative CHECK (least(orders, units, revenue_minor, refunded_orders,
                refunded_minor, disputed_orders, lost_disputes, views, cart_adds) >= 0) NOT VALID
        """
    )


def downgrade() -> None:
    """Drop the column."""
    op.execute(
        """
        ALTER TABLE store_days DROP CONSTRAINT ck_store_days_not_negative, DROP COLUMN lost_disputes,
            ADD CONSTRAINT ck_store_days_not_negative CHECK (least(orders, units, revenue_minor, refunded_orders,
                refunded_minor, disputed_orders, views, cart_adds) >= 0)
        """
    )
