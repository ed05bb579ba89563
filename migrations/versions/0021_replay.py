"""Deliveries, found by state and type as operators look for them."""

import sqlalchemy as sa
from alembic import op

revision = "0021"
down_revision = "0020"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the indexes; what is over is counted by the one on when it came."""
    op.drop_index("ix_webhook_inbox_received", table_name="webhook_inbox")
    op.create_index(
        "ix_webhook_inbox_received",
        "webhook_inbox",
        [sa.text("received_at DESC"), sa.text("id DESC")],
        postgresql_include=["status"],
    )
    op.create_index(
        "ix_webhook_inbox_type",
        "webhook_inbox",
        ["event_type", sa.text("received_at DESC"), sa.text("id DESC")],
        postgresql_where=sa.text("event_type IS NOT NULL"),
    )
    op.create_index(
        "ix_webhook_inbox_open",
        "webhook_inbox",
        ["status", sa.text("received_at DESC"), sa.text("id DESC")],
        postgresql_where=sa.text("status IN ('received', 'retrying', 'dead')"),
    )


def downgrade() -> None:
    """Drop the indexes."""
    op.drop_index("ix_webhook_inbox_open", table_name="webhook_inbox")
    op.drop_index("ix_webhook_inbox_type", table_name="webhook_inbox")
    op.drop_index("ix_webhook_inbox_received", table_name="webhook_inbox")
    op.create_index(
        "ix_webhook_inbox_received", "webhook_inbox", [sa.text("received_at DESC"), sa.text("id DESC")]
    )
