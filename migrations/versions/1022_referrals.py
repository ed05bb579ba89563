"""Referrals with their rewards, and tombstones of erased people."""

from alembic import op

revision = "1022"
down_revision = "1021"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the tables and the terms of referrals."""
    op.execute("""
    CREATE TABLE erased_identities (
        subject_index bytea CONSTRAINT pk_erased_identities PRIMARY KEY,
        erased_at timestamptz NOT NULL
    );
    ALTER TABLE profiles ADD COLUMN referral_code_issued_at timestamptz;
    ALTER TABLE profiles ADD COLUMN referral_pending boolean NOT NULL DEFAULT false;
    COMMENT ON COLUMN profiles.referral_code_issued_at IS
        'Time of a later code; null for the code of the profile''s creation';
    COMMENT ON COLUMN profiles.referral_pending IS 'Whether the next delivered order may reward a referrer';
    CREATE TABLE referrals (
        id uuid DEFAULT uuidv7() CONSTRAINT pk_referrals PRIMARY KEY,
        newcomer_id uuid NOT NULL CONSTRAINT fk_referrals_newcomer_id REFERENCES profiles,
        referrer_id uuid CONSTRAINT fk_referrals_referrer_id REFERENCES profiles,
        status text NOT NULL,
        rejection text,
        newcomer_minor bigint NOT NULL,
        referrer_minor bigint NOT NULL,
        accepted_at timestamptz,
        rewarded_at timestamptz,
        order_id uuid CONSTRAINT fk_referrals_order_id REFERENCES orders,
        newcomer_transaction_id uuid CONSTRAINT fk_referrals_newcomer_transaction_id REFERENCES ledger_transactions,
        referrer_transaction_id uuid CONSTRAINT fk_referrals_referrer_transaction_id REFERENCES ledger_transactions,
        created_at timestamptz NOT NULL DEFAULT now(),
        CONSTRAINT uq_referrals_newcomer_id UNIQUE (newcomer_id),
        CONSTRAINT uq_referrals_order_id UNIQUE (order_id),
        CONSTRAINT uq_referrals_newcomer_transaction_id UNIQUE (newcomer_transaction_id),
        CONSTRAINT uq_referrals_referrer_transaction_id UNIQUE (referrer_transaction_id),
        CONSTRAINT ck_referrals_status CHECK (status IN ('pending', 'rewarded', 'rejected')),
        CONSTRAINT ck_referrals_rejection CHECK ((status = 'rejected') = (rejection IS NOT NULL)),
        CONSTRAINT ck_referrals_rejection_known CHECK (rejection IN ('unknown_code', 'code_expired', 'same_person',
            'loop', 'referrer_not_active', 'newcomer_not_active', 'cap_reached', 'budget_spent', 'no_order_in_time')),
        CONSTRAINT ck_referrals_referrer CHECK ((rejection = 'unknown_code') IS TRUE = (referrer_id IS NULL)),
        CONSTRAINT ck_referrals_not_self CHECK (accepted_at IS NULL OR referrer_id <> newcomer_id),
        CONSTRAINT ck_referrals_accepted CHECK (status = 'rejected' OR accepted_at IS NOT NULL),
        CONSTRAINT ck_referrals_rewarded CHECK ((status = 'rewarded') = (rewarded_at IS NOT NULL)),
        CONSTRAINT ck_referrals_amounts CHECK (least(newcomer_minor, referrer_minor) >= 0),
        CONSTRAINT ck_referrals_newcomer_booked CHECK (
            (newcomer_transaction_id IS NOT NULL) = (accepted_at IS NOT NULL AND newcomer_minor > 0)),
        CONSTRAINT ck_referrals_referrer_booked CHECK (
            (referrer_transaction_id IS NOT NULL) = (rewarded_at IS NOT NULL AND referrer_minor > 0))
    );
    COMMENT ON COLUMN referrals.newcomer_minor IS 'The newcomer''s reward in kobo, fixed at the sign-up';
    COMMENT ON COLUMN referrals.referrer_minor IS 'The referrer''s reward in kobo, fixed at the sign-up';
    COMMENT ON COLUMN referrals.accepted_at IS 'Time of the newcomer''s reward; null if the sign-up earned nothing';
    COMMENT ON COLUMN referrals.rewarded_at IS 'Time of the referrer''s reward';
    COMMENT ON COLUMN referrals.order_id IS 'The delivered order that rewarded the referrer';
    CREATE INDEX ix_referrals_referrer ON referrals (referrer_id, accepted_at);
    CREATE INDEX ix_referrals_accepted ON referrals (accepted_at) WHERE accepted_at IS NOT NULL;
    CREATE INDEX ix_referrals_rewarded ON referrals (rewarded_at) WHERE rewarded_at IS NOT NULL;
    CREATE INDEX ix_referrals_pending ON referrals (accepted_at) WHERE status = 'pending';
    INSERT INTO platform_settings (key, value, description) VALUES
        ('referral_newcomer_minor', '50000', 'The reward for signing up with a referral code, in kobo'),
        ('referral_referrer_minor', '100000',
            'The reward of the referrer for the newcomer''s first delivered order, in kobo'),
        ('referral_monthly_cap', '10',
            'The maximum number of newcomers, and of own rewards, of a referrer in 30 days'),
        ('referral_monthly_budget_minor', '50000000',
            'The maximum of all referral rewards together in 30 days, in kobo');
    """)


def downgrade() -> None:
    """Drop the tables and the terms of referrals."""
    op.execute("""
    DELETE FROM platform_settings WHERE key IN ('referral_newcomer_minor', 'referral_referrer_minor',
        'referral_monthly_cap', 'referral_monthly_budget_minor');
    DROP TABLE referrals, erased_identities;
    ALTER TABLE profiles DROP COLUMN referral_code_issued_at;
    ALTER TABLE profiles DROP COLUMN referral_pending;
    """)
