"""Anchors and archives of the audit trail."""

from alembic import op

revision = "1073"
down_revision = "1072"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the tables."""
    op.execute(
        """
        CREATE TABLE audit_anchors (
            day date NOT NULL,
            last_id bigint NOT NULL,
            last_hash text NOT NULL,
            written_at timestamptz NOT NULL,
            CONSTRAINT pk_audit_anchors PRIMARY KEY (day)
        );
        CREATE TABLE audit_archives (
            month date NOT NULL,
            last_id bigint NOT NULL,
            last_hash text NOT NULL,
            row_count bigint NOT NULL,
            sha256 text NOT NULL,
            archived_at timestamptz NOT NULL,
            CONSTRAINT pk_audit_archives PRIMARY KEY (month)
        );
        COMMENT ON COLUMN audit_archives.month IS 'First day of the month';
        COMMENT ON COLUMN audit_archives.sha256 IS 'SHA-256 of the file, in hex';
        """
    )


def downgrade() -> None:
    """Drop the tables. The objects stay in the storage."""
    op.execute("DROP TABLE audit_anchors, audit_archives")
