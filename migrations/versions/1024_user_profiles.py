"""Profiles: uploaded avatars, notification preferences and revisions; purposes of images."""

from alembic import op

revision = "1024"
down_revision = "1023"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the columns. The next migration validates the constraints."""
    op.execute("ALTER TABLE images ADD COLUMN purpose text NOT NULL DEFAULT 'product'")
    op.execute(
        """
        ALTER TABLE images ADD CONSTRAINT ck_images_purpose
            CHECK (purpose IN ('product', 'avatar', 'review', 'chat')) NOT VALID
        """
    )
    op.execute("ALTER TABLE profiles ADD COLUMN avatar_image_id uuid")
    op.execute("ALTER TABLE profiles ADD COLUMN avatar_key text")
    op.execute("ALTER TABLE profiles ADD COLUMN notification_preferences jsonb NOT NULL DEFAULT '{}'")
    op.execute("ALTER TABLE profiles ADD COLUMN revision bigint NOT NULL DEFAULT 1")
    op.execute(
        "COMMENT ON COLUMN profiles.avatar_key IS 'Object key of the rendition for cards of the uploaded avatar'"
    )
    op.execute(
        "COMMENT ON COLUMN profiles.notification_preferences IS"
        " 'Channels on or off by kind of message, where they differ from the defaults'"
    )
    op.execute(
        """
        ALTER TABLE profiles
            ADD CONSTRAINT fk_profiles_avatar_image_id FOREIGN KEY (avatar_image_id) REFERENCES images NOT VALID,
            ADD CONSTRAINT ck_profiles_avatar CHECK ((avatar_image_id IS NULL) = (avatar_key IS NULL)
                AND (avatar_image_id IS NULL OR avatar_url IS NULL)) NOT VALID
        """
    )


def downgrade() -> None:
    """Drop the columns."""
    op.execute("ALTER TABLE profiles DROP COLUMN revision, DROP COLUMN notification_preferences")
    op.execute("ALTER TABLE profiles DROP COLUMN avatar_key, DROP COLUMN avatar_image_id")
    op.execute("ALTER TABLE images DROP COLUMN purpose")
