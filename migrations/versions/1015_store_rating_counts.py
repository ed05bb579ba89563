"""The number of ratings of a store by stars."""

from alembic import op

revision = "1015"
down_revision = "1014"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the counts. No review exists yet, so all counts are zero. A later migration validates the constraint."""
    op.execute("""
    ALTER TABLE vendor_profiles ADD COLUMN rating_counts bigint[] NOT NULL DEFAULT '{0,0,0,0,0}';
    ALTER TABLE vendor_profiles ADD CONSTRAINT ck_vendor_profiles_rating_counts CHECK (
        cardinality(rating_counts) = 5 AND 0 <= ALL (rating_counts)
        AND rating_count = rating_counts[1] + rating_counts[2] + rating_counts[3] + rating_counts[4] + rating_counts[5]
        AND rating_sum = rating_counts[1] + 2 * rating_counts[2] + 3 * rating_counts[3] + 4 * rating_counts[4]
            + 5 * rating_counts[5]
    ) NOT VALID;
    COMMENT ON COLUMN vendor_profiles.rating_counts IS 'The numbers of ratings with 1, 2, 3, 4 and 5 stars';
    """)


def downgrade() -> None:
    """Drop the counts."""
    op.execute("ALTER TABLE vendor_profiles DROP COLUMN rating_counts")
