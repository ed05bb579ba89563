"""Validation of the constraint of verified phone numbers, and the index that gives a number to one profile."""

import sqlalchemy as sa
from alembic import op

from migrations.operations import build_index, validate_constraint

revision = "1027"
down_revision = "1026"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Validate the constraint and build the index."""
    validate_constraint("profiles", "ck_profiles_phone_verified_at")
    build_index(
        "uq_profiles_verified_phone",
        "profiles",
        ["phone"],
        unique=True,
        postgresql_where=sa.text("phone_verified_at IS NOT NULL"),
    )


def downgrade() -> None:
    """Drop the index, and return the constraint to its state before the validation."""
    op.drop_index("uq_profiles_verified_phone", "profiles")
    op.execute(
        """
        ALTER TABLE profiles DROP CONSTRAINT ck_profiles_phone_verified_at,
            ADD CONSTRAINT ck_profiles_phone_verified_at
                CHECK (phone_verified_at IS NULL OR phone IS NOT NULL) NOT VALID
        """
    )
