"""Validation of the opening hours of stores, and the numbers of failed orders."""

from alembic import op

from migrations.operations import backfill, validate_constraint

revision = "1032"
down_revision = "1031"
branch_labels = None
depends_on = None

_FAILED_ORDERS = """
    orders o JOIN order_events e ON e.order_id = o.id AND e.to_status = o.status AND e.from_status <> e.to_status
    WHERE o.vendor_id = vendor_profiles.id AND o.paid_at IS NOT NULL AND o.status IN ('cancelled', 'refunded')
        AND e.actor IN ('vendor', 'staff', 'system')
"""


def upgrade() -> None:
    """Validate the constraint and count the failed orders of earlier versions."""
    validate_constraint("vendor_profiles", "ck_vendor_profiles_weekly_hours")
    backfill(
        f"""
        UPDATE vendor_profiles SET failed_orders = (SELECT count(*) FROM {_FAILED_ORDERS})
        WHERE id IN (
            SELECT id FROM vendor_profiles
            WHERE failed_orders = 0 AND EXISTS (SELECT FROM {_FAILED_ORDERS}) LIMIT 1000)
        """
    )


def downgrade() -> None:
    """Return the constraint to its state before the validation."""
    op.execute(
        """
        ALTER TABLE vendor_profiles DROP CONSTRAINT ck_vendor_profiles_weekly_hours,
            ADD CONSTRAINT ck_vendor_profiles_weekly_hours CHECK (is_weekly_hours(weekly_hours)) NOT VALID
        """
    )
