"""Validation of the constraints of account statuses."""

from alembic import op

from migrations.operations import validate_constraint

revision = "1034"
down_revision = "1033"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Validate the constraints."""
    validate_constraint("profiles", "ck_profiles_status_code")
    validate_constraint("profiles", "ck_profiles_status_until")
    validate_constraint("vendor_profiles", "ck_vendor_profiles_suspended_with_owner")


def downgrade() -> None:
    """Return the constraints to their state before the validation."""
    op.execute(
        """
        ALTER TABLE profiles DROP CONSTRAINT ck_profiles_status_code, DROP CONSTRAINT ck_profiles_status_until,
            ADD CONSTRAINT ck_profiles_status_code CHECK (
                status_code IS NULL OR (status_code = 'deletion_pending' AND account_status = 'restricted')) NOT VALID,
            ADD CONSTRAINT ck_profiles_status_until CHECK (
                status_until IS NULL OR account_status <> 'active') NOT VALID
        """
    )
    op.execute(
        """
        ALTER TABLE vendor_profiles DROP CONSTRAINT ck_vendor_profiles_suspended_with_owner,
            ADD CONSTRAINT ck_vendor_profiles_suspended_with_owner CHECK (
                NOT suspended_with_owner OR status = 'suspended') NOT VALID
        """
    )
