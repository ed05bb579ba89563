"""Replies to support by e-mail, each stored once."""

from alembic import op

revision = "1053"
down_revision = "1052"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column. A later migration builds the unique index."""
    op.execute("ALTER TABLE support_ticket_messages ADD COLUMN email_message_id text")
    op.execute(
        """
        COMMENT ON COLUMN support_ticket_messages.email_message_id IS
            'Message-ID of the e-mail that the user wrote'
        """
    )


def downgrade() -> None:
    """Drop the column."""
    op.execute("ALTER TABLE support_ticket_messages DROP COLUMN email_message_id")
