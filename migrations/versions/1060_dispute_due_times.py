"""Missed responses of disputes, and the gateway's chargeback that a dispute is about."""

from alembic import op

revision = "1060"
down_revision = "1059"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the columns."""
    op.execute(
        """
        ALTER TABLE disputes ADD COLUMN response_missed_at timestamptz,
            ADD COLUMN has_chargeback boolean DEFAULT false NOT NULL;
        COMMENT ON COLUMN disputes.response_missed_at IS
            'Time at which the other side had not responded; this counts against that side';
        """
    )


def downgrade() -> None:
    """Drop the columns."""
    op.execute("ALTER TABLE disputes DROP COLUMN response_missed_at, DROP COLUMN has_chargeback")
