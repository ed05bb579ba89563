"""The index of unread notifications."""

import sqlalchemy as sa
from alembic import op

from migrations.operations import build_index

revision = "1042"
down_revision = "1041"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Build the index."""
    build_index(
        "ix_notifications_unread",
        "notifications",
        ["user_id", sa.text("id DESC")],
        postgresql_where=sa.text("read_at IS NULL AND former_contact_id IS NULL"),
    )


def downgrade() -> None:
    """Drop the index."""
    op.drop_index("ix_notifications_unread", "notifications")
