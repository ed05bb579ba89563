"""Validation of the constraint on the types of reported content."""

from alembic import op

from migrations.operations import validate_constraint

revision = "1045"
down_revision = "1044"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Validate the constraint."""
    validate_constraint("report_cases", "ck_report_cases_target_type")


def downgrade() -> None:
    """Return the constraint to its state before the validation."""
    op.execute(
        """
        ALTER TABLE report_cases DROP CONSTRAINT ck_report_cases_target_type,
            ADD CONSTRAINT ck_report_cases_target_type CHECK (
                target_type IN ('product', 'review', 'user', 'message')) NOT VALID
        """
    )
