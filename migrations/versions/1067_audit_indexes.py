"""Indexes of the audit trail for its table."""

import sqlalchemy as sa
from alembic import op

from migrations.operations import build_index, outside_transaction

revision = "1067"
down_revision = "1066"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Build the indexes."""
    build_index("ix_audit_logs_at", "audit_logs", ["at"])
    build_index(
        "ix_audit_logs_actor",
        "audit_logs",
        ["actor_id", "id"],
        postgresql_where=sa.text("actor_id IS NOT NULL"),
    )
    build_index("ix_audit_logs_target", "audit_logs", ["target_id", "id"])


def downgrade() -> None:
    """Drop the indexes."""
    with outside_transaction():
        for name in ("ix_audit_logs_at", "ix_audit_logs_actor", "ix_audit_logs_target"):
            op.execute(f"DROP INDEX CONCURRENTLY IF EXISTS {name}")
