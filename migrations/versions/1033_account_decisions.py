"""Decisions about accounts, appeals against these decisions, and stores that close with the account."""

from alembic import op

revision = "1033"
down_revision = "1032"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the tables and columns. A later migration validates the constraints."""
    op.execute("""
    ALTER TABLE profiles ADD COLUMN status_code text;
    ALTER TABLE profiles ADD COLUMN status_until timestamptz;
    ALTER TABLE profiles ADD CONSTRAINT ck_profiles_status_code CHECK (
        status_code IS NULL OR (status_code = 'deletion_pending' AND account_status = 'restricted')) NOT VALID;
    ALTER TABLE profiles ADD CONSTRAINT ck_profiles_status_until CHECK (
        status_until IS NULL OR account_status <> 'active') NOT VALID;
    COMMENT ON COLUMN profiles.status_code IS
        'Set by the service, never by staff: deletion_pending; null for a decision of staff';
    COMMENT ON COLUMN profiles.status_until IS 'End of the status; null without a known end';
    ALTER TABLE vendor_profiles ADD COLUMN suspended_with_owner boolean NOT NULL DEFAULT false;
    ALTER TABLE vendor_profiles ADD CONSTRAINT ck_vendor_profiles_suspended_with_owner CHECK (
        NOT suspended_with_owner OR status = 'suspended') NOT VALID;
    COMMENT ON COLUMN vendor_profiles.suspended_with_owner IS
        'Whether the store is suspended only because of the status of the owner''s account';
    """)
    op.execute("""
    CREATE TABLE account_decisions (
        id uuid DEFAULT uuidv7() CONSTRAINT pk_account_decisions PRIMARY KEY,
        user_id uuid NOT NULL CONSTRAINT fk_account_decisions_user_id REFERENCES profiles,
        status text NOT NULL,
        reason text NOT NULL,
        decided_by uuid NOT NULL CONSTRAINT fk_account_decisions_decided_by REFERENCES profiles,
        decided_at timestamptz NOT NULL,
        until timestamptz,
        ended_at timestamptz,
        ended_how text,
        ended_by uuid CONSTRAINT fk_account_decisions_ended_by REFERENCES profiles,
        CONSTRAINT ck_account_decisions_status CHECK (status IN ('restricted', 'suspended')),
        CONSTRAINT ck_account_decisions_until CHECK (until > decided_at),
        CONSTRAINT ck_account_decisions_ended_how CHECK (
            ended_how IN ('expired', 'reinstated', 'appeal', 'replaced')),
        CONSTRAINT ck_account_decisions_ended CHECK (
            (ended_at IS NULL) = (ended_how IS NULL) AND (ended_by IS NULL OR ended_at IS NOT NULL)),
        CONSTRAINT ck_account_decisions_not_own CHECK (decided_by <> user_id)
    );
    CREATE UNIQUE INDEX uq_account_decisions_current ON account_decisions (user_id) WHERE ended_at IS NULL;
    CREATE INDEX ix_account_decisions_user ON account_decisions (user_id, id DESC);
    CREATE INDEX ix_account_decisions_due ON account_decisions (until) WHERE ended_at IS NULL AND until IS NOT NULL;
    CREATE TABLE account_appeals (
        id uuid DEFAULT uuidv7() CONSTRAINT pk_account_appeals PRIMARY KEY,
        decision_id uuid NOT NULL CONSTRAINT fk_account_appeals_decision_id REFERENCES account_decisions,
        text text NOT NULL,
        status text NOT NULL DEFAULT 'pending',
        created_at timestamptz NOT NULL,
        decided_by uuid CONSTRAINT fk_account_appeals_decided_by REFERENCES profiles,
        decided_at timestamptz,
        comment text,
        CONSTRAINT uq_account_appeals_decision_id UNIQUE (decision_id),
        CONSTRAINT ck_account_appeals_status CHECK (status IN ('pending', 'accepted', 'rejected', 'closed')),
        CONSTRAINT ck_account_appeals_decided CHECK (
            (status IN ('accepted', 'rejected')) = (decided_by IS NOT NULL)
            AND (status = 'pending') = (decided_at IS NULL)
            AND (decided_by IS NULL) = (comment IS NULL))
    );
    CREATE INDEX ix_account_appeals_status ON account_appeals (status, id);
    """)


def downgrade() -> None:
    """Drop the tables and columns."""
    op.execute("DROP TABLE account_appeals, account_decisions")
    op.execute("""
    ALTER TABLE vendor_profiles DROP CONSTRAINT ck_vendor_profiles_suspended_with_owner,
        DROP COLUMN suspended_with_owner
    """)
    op.execute("""
    ALTER TABLE profiles DROP CONSTRAINT ck_profiles_status_code, DROP CONSTRAINT ck_profiles_status_until,
        DROP COLUMN status_code, DROP COLUMN status_until
    """)
