"""Proposals of platform changes, and halts of payouts that such a proposal ends."""

from alembic import op

revision = "1009"
down_revision = "1008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the tables."""
    op.execute("""
    CREATE TABLE platform_proposals (
        id uuid DEFAULT uuidv7() CONSTRAINT pk_platform_proposals PRIMARY KEY,
        kind text NOT NULL,
        target text NOT NULL,
        payload jsonb NOT NULL,
        reason text NOT NULL,
        status text NOT NULL,
        before jsonb NOT NULL,
        after jsonb NOT NULL,
        effect jsonb NOT NULL,
        proposed_by uuid NOT NULL CONSTRAINT fk_platform_proposals_proposed_by REFERENCES profiles,
        effective_at timestamptz,
        expires_at timestamptz NOT NULL,
        approved_by uuid CONSTRAINT fk_platform_proposals_approved_by REFERENCES profiles,
        approved_at timestamptz,
        activated_at timestamptz,
        rejected_by uuid CONSTRAINT fk_platform_proposals_rejected_by REFERENCES profiles,
        rejected_at timestamptz,
        rejection_reason text,
        expired_at timestamptz,
        created_at timestamptz NOT NULL DEFAULT now(),
        updated_at timestamptz NOT NULL DEFAULT now(),
        CONSTRAINT ck_platform_proposals_kind
            CHECK (kind IN ('fee', 'category_commission', 'payout_resume', 'feature_flag', 'maintenance')),
        CONSTRAINT ck_platform_proposals_activated CHECK ((status = 'active') = (activated_at IS NOT NULL)),
        CONSTRAINT ck_platform_proposals_approved_first
            CHECK (status NOT IN ('approved', 'active') OR approved_by IS NOT NULL),
        CONSTRAINT ck_platform_proposals_expired CHECK ((status = 'expired') = (expired_at IS NOT NULL)),
        CONSTRAINT ck_platform_proposals_rejected CHECK ((status = 'rejected') = (rejected_at IS NOT NULL)),
        CONSTRAINT ck_platform_proposals_status
            CHECK (status IN ('pending', 'approved', 'active', 'rejected', 'expired')),
        CONSTRAINT ck_platform_proposals_four_eyes CHECK (approved_by <> proposed_by),
        CONSTRAINT ck_platform_proposals_approved CHECK ((approved_by IS NULL) = (approved_at IS NULL))
    );
    COMMENT ON COLUMN platform_proposals.target IS 'Target of the change, such as a setting''s key or a category''s id';
    COMMENT ON COLUMN platform_proposals.payload IS 'Proposed change';
    COMMENT ON COLUMN platform_proposals.before IS 'State of the target when the proposal was filed';
    COMMENT ON COLUMN platform_proposals.effect IS 'Effect of the change, such as the price of a sample order';
    COMMENT ON COLUMN platform_proposals.effective_at IS 'Time when the change takes effect; null means on approval';
    COMMENT ON COLUMN platform_proposals.expires_at IS 'Deadline for the approval';
    COMMENT ON COLUMN platform_proposals.rejected_by IS 'Null if the schedule rejected a stale proposal';
    CREATE INDEX ix_platform_proposals_approved_by ON platform_proposals (approved_by);
    CREATE INDEX ix_platform_proposals_due ON platform_proposals (effective_at) WHERE status = 'approved';
    CREATE INDEX ix_platform_proposals_expiring ON platform_proposals (expires_at) WHERE status = 'pending';
    CREATE INDEX ix_platform_proposals_kind ON platform_proposals (kind, id DESC);
    CREATE INDEX ix_platform_proposals_proposed_by ON platform_proposals (proposed_by);
    CREATE INDEX ix_platform_proposals_rejected_by ON platform_proposals (rejected_by);
    CREATE INDEX ix_platform_proposals_status ON platform_proposals (status, id DESC);
    """)
    op.execute("""
    CREATE TABLE payout_halts (
        id uuid DEFAULT uuidv7() CONSTRAINT pk_payout_halts PRIMARY KEY,
        reason text NOT NULL,
        findings text[] NOT NULL,
        found jsonb NOT NULL,
        halted_at timestamptz NOT NULL,
        resumed_at timestamptz,
        proposal_id uuid CONSTRAINT fk_payout_halts_proposal_id REFERENCES platform_proposals,
        CONSTRAINT uq_payout_halts_proposal_id UNIQUE (proposal_id),
        CONSTRAINT ck_payout_halts_resumed_by_proposal CHECK ((resumed_at IS NULL) = (proposal_id IS NULL))
    );
    COMMENT ON COLUMN payout_halts.findings IS
        'Findings of the halt; a finding known at the resumption does not halt again';
    COMMENT ON COLUMN payout_halts.found IS 'The latest finding of each reason: facts and time';
    COMMENT ON COLUMN payout_halts.proposal_id IS 'The proposal that resumed payouts';
    CREATE UNIQUE INDEX uq_payout_halts_open ON payout_halts (resumed_at) NULLS NOT DISTINCT
        WHERE resumed_at IS NULL;
    """)


def downgrade() -> None:
    """Drop the tables."""
    op.execute("DROP TABLE payout_halts, platform_proposals")
