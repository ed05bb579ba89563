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
    """Drop the index, and return the constraints to their state before the validation."""
    op.drop_index("ix_profiles_avatar_image_id", "profiles")
    op.execute(
        """
        ALTER TABLE images DROP CONSTRAINT ck_images_purpose,
            ADD CONSTRAINT ck_images_purpose CHECK (purpose IN ('product', 'avatar', 'review', 'chat')) NOT VALID
        """
    )
    op.execute(
        """
        ALTER TABLE profiles
            DROP CONSTRAINT fk_profiles_avatar_image_id,
            DROP CONSTRAINT ck_profiles_avatar,
            ADD CONSTRAINT fk_profiles_avatar_image_id FOREIGN KEY (avatar_image_id) REFERENCES images NOT VALID,
            ADD CONSTRAINT ck_profiles_avatar CHECK ((avatar_image_id IS NULL) = (avatar_key IS NULL)
                AND (avatar_image_id IS NULL OR avatar_url IS NULL)) NOT VALID
        """
    )
