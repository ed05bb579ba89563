"""Reports of messages, and reports by the service."""

from alembic import op

revision = "1044"
down_revision = "1043"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Widen the constraints. A later migration validates the new constraint."""
    op.execute(
        """
        ALTER TABLE report_cases DROP CONSTRAINT ck_report_cases_target_type,
            ADD CONSTRAINT ck_report_cases_target_type CHECK (
                target_type IN ('product', 'review', 'user', 'message')) NOT VALID
        """
    )
    op.execute("ALTER TABLE content_reports ALTER COLUMN reporter_id DROP NOT NULL")
    op.execute(
        """
        COMMENT ON COLUMN report_cases.owner_id IS
            'Author of the review, owner of the product''s store, sender, or the person'
        """
    )
    op.execute("COMMENT ON COLUMN content_reports.reporter_id IS 'Null for a report by the service'")


def downgrade() -> None:
    """Restore the constraints. Reports of messages and reports by the service are deleted."""
    op.execute(
        """
        DELETE FROM content_reports WHERE reporter_id IS NULL
            OR case_id IN (SELECT id FROM report_cases WHERE target_type = 'message');
        DELETE FROM report_cases c WHERE NOT EXISTS (SELECT FROM content_reports r WHERE r.case_id = c.id);
        ALTER TABLE content_reports ALTER COLUMN reporter_id SET NOT NULL;
        COMMENT ON COLUMN content_reports.reporter_id IS NULL;
        ALTER TABLE report_cases DROP CONSTRAINT ck_report_cases_target_type,
            ADD CONSTRAINT ck_report_cases_target_type CHECK (target_type IN ('product', 'review', 'user'));
        COMMENT ON COLUMN report_cases.owner_id IS
            'Author of the review, owner of the product''s store, or the person'
        """
    )
