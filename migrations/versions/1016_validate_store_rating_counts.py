"""Validation of the counts of ratings by stars."""

from alembic import op

from migrations.operations import validate_constraint

revision = "1016"
down_revision = "1015"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Validate the constraint."""
    validate_constraint("vendor_profiles", "ck_vendor_profiles_rating_counts")


def downgrade() -> None:
    """Return the constraint to its state before the validation."""
    op.execute("""
    ALTER TABLE vendor_profiles DROP CONSTRAINT ck_vendor_profiles_rating_counts;
    ALTER TABLE vendor_profiles ADD CONSTRAINT ck_vendor_profiles_rating_counts CHECK (
        cardinality(rating_counts) = 5 AND 0 <= ALL (rating_counts)
        AND rating_count = rating_counts[1] + rating_counts[2] + rating_counts[3] + rating_counts[4] + rating_counts[5]
        AND rating_sum = rating_counts[1] + 2 * rating_counts[2] + 3 * rating_counts[3] + 4 * rating_counts[4]
            + 5 * rating_counts[5]
    ) NOT VALID;
    """)
