"""Indexes and validated constraints of tickets."""

import sqlalchemy as sa
from alembic import op

from migrations.operations import build_index, outside_transaction, validate_constraint

revision = "1052"
down_revision = "1051"
branch_labels = None
depends_on = None

_MESSAGES = "support_ticket_messages"


def upgrade() -> None:
    """Build the indexes and validate the constraints."""
    build_index(
        "uq_support_ticket_messages_contact_message",
        _MESSAGES,
        ["contact_message_id"],
        unique=True,
        postgresql_where=sa.text("contact_message_id IS NOT NULL"),
    )
    build_index("ix_support_tickets_created", "support_tickets", ["created_at"])
    validate_constraint(_MESSAGES, "ck_support_ticket_messages_delivery_status")
    validate_constraint(_MESSAGES, "fk_support_ticket_messages_contact_message_id")


def downgrade() -> None:
    """Drop the indexes, and return the constraints to their state before the validation."""
    with outside_transaction():
        op.execute("DROP INDEX CONCURRENTLY IF EXISTS ix_support_tickets_created")
        op.execute("DROP INDEX CONCURRENTLY IF EXISTS uq_support_ticket_messages_contact_message")
    op.execute(
        f"""
        ALTER TABLE {_MESSAGES}
            DROP CONSTRAINT ck_support_ticket_messages_delivery_status,
            DROP CONSTRAINT fk_support_ticket_messages_contact_message_id,
            ADD CONSTRAINT ck_support_ticket_messages_delivery_status CHECK (
                delivery_status IN ('queued', 'sent', 'delivered', 'read', 'failed')) NOT VALID,
            ADD CONSTRAINT fk_support_ticket_messages_contact_message_id
                FOREIGN KEY (contact_message_id) REFERENCES support_contact_messages (id) NOT VALID
        """
    )
