"""Validation of the kinds of proposals."""

from alembic import op

from migrations.operations import validate_constraint

revision = "1018"
down_revision = "1017"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Validate the constraint."""
    validate_constraint("platform_proposals", "ck_platform_proposals_kind")


def downgrade() -> None:
    """Return the constraint to its state before the validation."""
    op.execute(
        """
        ALTER TABLE platform_proposals DROP CONSTRAINT ck_platform_proposals_kind,
            ADD CONSTRAINT ck_platform_proposals_kind CHECK (kind IN ('fee', 'category_commission', 'payout_resume',
                'feature_flag', 'maintenance', 'wallet_adjustment')) NOT VALID
        """
    )
