"""Validation of the constraints of profiles and images, and the index of uploaded avatars."""

from alembic import op

from migrations.operations import build_index, validate_constraint

revision = "1025"
down_revision = "1024"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Validate the constraints and build the index."""
    validate_constraint("images", "ck_images_purpose")
    validate_constraint("profiles", "fk_profiles_avatar_image_id")
    validate_constraint("profiles", "ck_profiles_avatar")
    build_index("ix_profiles_avatar_image_id", "profiles", ["avatar_image_id"])


def downgrade() -> None:
    """Drop the index."""
    op.drop_index("ix_profiles_avatar_image_id", "profiles")
