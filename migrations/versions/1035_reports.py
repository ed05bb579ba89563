"""Reports of products, reviews and people: cases, reports and clearances."""

from alembic import op

revision = "1035"
down_revision = "1034"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the tables."""
    op.execute("""
    CREATE TABLE report_cases (
        id uuid DEFAULT uuidv7() CONSTRAINT pk_report_cases PRIMARY KEY,
        target_type text NOT NULL,
        target_id uuid NOT NULL,
        owner_id uuid NOT NULL CONSTRAINT fk_report_cases_owner_id REFERENCES profiles,
        status text NOT NULL DEFAULT 'open',
        reports bigint NOT NULL,
        counted_reports bigint NOT NULL,
        hidden_at timestamptz,
        opened_at timestamptz NOT NULL,
        last_reported_at timestamptz NOT NULL,
        decided_by uuid CONSTRAINT fk_report_cases_decided_by REFERENCES profiles,
        decided_at timestamptz,
        decision_reason text,
        CONSTRAINT ck_report_cases_target_type CHECK (target_type IN ('product', 'review', 'user')),
        CONSTRAINT ck_report_cases_status CHECK (status IN ('open', 'upheld', 'dismissed')),
        CONSTRAINT ck_report_cases_reports CHECK (
            0 <= counted_reports AND counted_reports <= reports AND reports > 0),
        CONSTRAINT ck_report_cases_decided CHECK (
            (status = 'open') = (decided_at IS NULL) AND (decided_at IS NULL) = (decided_by IS NULL)
            AND (decided_at IS NULL) = (decision_reason IS NULL))
    );
    CREATE UNIQUE INDEX uq_report_cases_open ON report_cases (target_type, target_id) WHERE status = 'open';
    CREATE INDEX ix_report_cases_queue ON report_cases (status, target_type, id);
    CREATE INDEX ix_report_cases_owner ON report_cases (owner_id, id DESC);
    COMMENT ON COLUMN report_cases.owner_id IS
        'Author of the review, owner of the product''s store, or the person';
    COMMENT ON COLUMN report_cases.counted_reports IS
        'Reports of accounts and for reasons that count towards the automatic hiding';
    COMMENT ON COLUMN report_cases.hidden_at IS 'Time of the automatic hiding';
    CREATE TABLE content_reports (
        id uuid DEFAULT uuidv7() CONSTRAINT pk_content_reports PRIMARY KEY,
        case_id uuid NOT NULL CONSTRAINT fk_content_reports_case_id REFERENCES report_cases,
        reporter_id uuid NOT NULL CONSTRAINT fk_content_reports_reporter_id REFERENCES profiles,
        reason text NOT NULL,
        text text,
        counted boolean NOT NULL,
        created_at timestamptz NOT NULL,
        CONSTRAINT uq_content_reports_case_id_reporter_id UNIQUE (case_id, reporter_id),
        CONSTRAINT ck_content_reports_reason CHECK (
            reason IN ('scam', 'counterfeit', 'prohibited', 'offensive', 'spam', 'other'))
    );
    CREATE INDEX ix_content_reports_reporter ON content_reports (reporter_id, id DESC);
    CREATE TABLE report_clearances (
        target_type text NOT NULL,
        target_id uuid NOT NULL,
        reason text NOT NULL,
        until timestamptz NOT NULL,
        CONSTRAINT pk_report_clearances PRIMARY KEY (target_type, target_id, reason)
    );
    """)


def downgrade() -> None:
    """Drop the tables."""
    op.execute("DROP TABLE report_clearances, content_reports, report_cases")
