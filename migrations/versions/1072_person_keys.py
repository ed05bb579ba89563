"""Keys of sealed values."""

from alembic import op

revision = "1072"
down_revision = "1071"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the table."""
    op.execute(
        """
        CREATE TABLE person_keys (
            owner_id uuid NOT NULL,
            secret text NOT NULL,
            created_at timestamptz NOT NULL,
            CONSTRAINT pk_person_keys PRIMARY KEY (owner_id)
        );
        COMMENT ON COLUMN person_keys.owner_id IS 'A profile, or an id derived from a sender of messages';
        """
    )


def downgrade() -> None:
    """Drop the table. Sealed values cannot be read again."""
    op.execute("DROP TABLE person_keys")
