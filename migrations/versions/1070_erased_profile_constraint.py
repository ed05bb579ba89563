"""Validated constraint of erased profiles."""

from alembic import op

from migrations.operations import validate_constraint

revision = "1070"
down_revision = "1069"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Validate the constraint."""
    validate_constraint("profiles", "ck_profiles_erased")


def downgrade() -> None:
    """Return the constraint to its state before the validation."""
    op.execute(
        """
        ALTER TABLE profiles DROP CONSTRAINT ck_profiles_erased,
            ADD CONSTRAINT ck_profiles_erased CHECK (
                erased_at IS NULL OR (account_status = 'suspended' AND role = 'buyer'
                    AND num_nonnulls(email, name, phone, avatar_url, avatar_key, status_reason) = 0)) NOT VALID
        """
    )
