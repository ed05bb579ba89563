"""Unique index of replies by e-mail."""

import sqlalchemy as sa
from alembic import op

from migrations.operations import build_index, outside_transaction

revision = "1054"
down_revision = "1053"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Build the index."""
    build_index(
        "uq_support_ticket_messages_email_message",
        "support_ticket_messages",
        ["email_message_id"],
        unique=True,
        postgresql_where=sa.text("email_message_id IS NOT NULL"),
    )


def downgrade() -> None:
    """Drop the index."""
    with outside_transaction():
        op.execute("DROP INDEX CONCURRENTLY IF EXISTS uq_support_ticket_messages_email_message")
