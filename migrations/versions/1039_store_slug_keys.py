"""The unique index of slugs of stores that look alike."""

import sqlalchemy as sa
from alembic import op

from migrations.operations import build_index, validate_constraint

revision = "1039"
down_revision = "1038"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Validate the format of slugs and build the index."""
    validate_constraint("vendor_profiles", "ck_vendor_profiles_slug")
    build_index(
        "uq_vendor_profiles_slug_key", "vendor_profiles", [sa.text("store_slug_key(slug)")], unique=True
    )


def downgrade() -> None:
    """Drop the index, and return the constraint to its state before the validation."""
    op.drop_index("uq_vendor_profiles_slug_key", "vendor_profiles")
    op.execute(
        """
        ALTER TABLE vendor_profiles DROP CONSTRAINT ck_vendor_profiles_slug,
            ADD CONSTRAINT ck_vendor_profiles_slug CHECK (
                slug ~ '^[a-z0-9][a-z0-9-]{1,58}[a-z0-9]$') NOT VALID
        """
    )
