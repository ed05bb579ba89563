"""Request and person of acts in the audit trail."""

from alembic import op

revision = "1066"
down_revision = "1065"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the columns."""
    op.execute(
        """
        ALTER TABLE audit_logs ADD COLUMN request_id uuid, ADD COLUMN on_behalf_of_id uuid;
        COMMENT ON COLUMN audit_logs.request_id IS 'Request of the act';
        COMMENT ON COLUMN audit_logs.on_behalf_of_id IS 'Person for whom the actor acted';
        """
    )


def downgrade() -> None:
    """Drop the columns. The chain of rows with these columns no longer verifies."""
    op.execute("ALTER TABLE audit_logs DROP COLUMN request_id, DROP COLUMN on_behalf_of_id")
