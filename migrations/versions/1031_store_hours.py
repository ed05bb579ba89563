"""Opening hours and failed orders of stores."""

from alembic import op

revision = "1031"
down_revision = "1030"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the columns. A later migration validates the constraint and counts the failed orders."""
    op.execute("""
    ALTER TABLE vendor_profiles ADD COLUMN weekly_hours jsonb;
    ALTER TABLE vendor_profiles ADD COLUMN failed_orders bigint NOT NULL DEFAULT 0;
    ALTER TABLE vendor_profiles ADD CONSTRAINT ck_vendor_profiles_weekly_hours
        CHECK (is_weekly_hours(weekly_hours)) NOT VALID;
    COMMENT ON COLUMN vendor_profiles.weekly_hours IS
        'Intervals of WeeklyHours; null while the hours are unknown';
    COMMENT ON COLUMN vendor_profiles.failed_orders IS
        'Paid orders that the store, staff or the service ended without delivery';
    """)


def downgrade() -> None:
    """Drop the columns."""
    op.execute("ALTER TABLE vendor_profiles DROP COLUMN weekly_hours, DROP COLUMN failed_orders")
