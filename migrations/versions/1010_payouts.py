"""Tables of payouts: bank accounts, batches, approvals, payouts and transfers."""

from alembic import op

revision = "1010"
down_revision = "1009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the tables."""
    # Bank accounts belong to persons, since not only vendors are paid. The application encrypts account numbers, and a
    # check refuses plain numbers.
    op.execute("""
    CREATE TABLE payout_accounts (
        id uuid DEFAULT uuidv7() CONSTRAINT pk_payout_accounts PRIMARY KEY,
        user_id uuid NOT NULL CONSTRAINT fk_payout_accounts_user_id REFERENCES profiles,
        bank_code text NOT NULL,
        bank_name text,
        account_number text NOT NULL,
        account_number_index bytea NOT NULL,
        account_name text NOT NULL,
        recipient_code text,
        created_at timestamptz NOT NULL DEFAULT now(),
        replaced_at timestamptz,
        CONSTRAINT ck_payout_accounts_account_number CHECK (account_number ~ '^v1:[a-z0-9_-]{1,32}:[A-Za-z0-9_-]{38,}$')
    );
    COMMENT ON COLUMN payout_accounts.account_number_index IS 'Blind index; equal for equal account numbers';
    COMMENT ON COLUMN payout_accounts.account_name IS 'Name of the account holder as reported by the bank';
    COMMENT ON COLUMN payout_accounts.recipient_code IS
        'Recipient code at the gateway; null until the next payout creates the recipient';
    CREATE UNIQUE INDEX uq_payout_accounts_current ON payout_accounts (user_id) WHERE replaced_at IS NULL;
    CREATE INDEX ix_payout_accounts_user ON payout_accounts (user_id, created_at);
    """)
    op.execute("""
    CREATE TABLE payout_batches (
        id uuid DEFAULT uuidv7() CONSTRAINT pk_payout_batches PRIMARY KEY,
        status text NOT NULL,
        staged_by uuid CONSTRAINT fk_payout_batches_staged_by REFERENCES profiles,
        content_hash text NOT NULL,
        approved_hash text,
        approved_at timestamptz,
        rejected_by uuid CONSTRAINT fk_payout_batches_rejected_by REFERENCES profiles,
        rejected_at timestamptz,
        rejection_reason text,
        dispatched_by uuid CONSTRAINT fk_payout_batches_dispatched_by REFERENCES profiles,
        dispatched_at timestamptz,
        finished_at timestamptz,
        revision bigint NOT NULL DEFAULT 1,
        created_at timestamptz NOT NULL DEFAULT now(),
        updated_at timestamptz NOT NULL DEFAULT now(),
        CONSTRAINT ck_payout_batches_approved CHECK (status IN ('staged', 'rejected') OR approved_hash IS NOT NULL),
        CONSTRAINT ck_payout_batches_rejected CHECK ((status = 'rejected') = (rejected_at IS NOT NULL)),
        CONSTRAINT ck_payout_batches_status
            CHECK (status IN ('staged', 'approved', 'dispatching', 'completed', 'partially_failed', 'rejected'))
    );
    COMMENT ON COLUMN payout_batches.content_hash IS 'SHA-256 fingerprint of the payments at the staging';
    COMMENT ON COLUMN payout_batches.approved_hash IS 'Fingerprint that the second officer approved';
    CREATE INDEX ix_payout_batches_status ON payout_batches (status, id DESC);
    """)
    op.execute("""
    CREATE TABLE payout_approvals (
        id uuid DEFAULT uuidv7() CONSTRAINT pk_payout_approvals PRIMARY KEY,
        batch_id uuid NOT NULL CONSTRAINT fk_payout_approvals_batch_id REFERENCES payout_batches,
        officer_id uuid NOT NULL CONSTRAINT fk_payout_approvals_officer_id REFERENCES profiles,
        content_hash text NOT NULL,
        comment text,
        created_at timestamptz NOT NULL DEFAULT now(),
        CONSTRAINT uq_payout_approvals_batch_id_officer_id_content_hash UNIQUE (batch_id, officer_id, content_hash)
    );
    CREATE INDEX ix_payout_approvals_officer_id ON payout_approvals (officer_id);
    """)
    op.execute("""
    CREATE TABLE payout_transfer_intents (
        id uuid DEFAULT uuidv7() CONSTRAINT pk_payout_transfer_intents PRIMARY KEY,
        batch_id uuid CONSTRAINT fk_payout_transfer_intents_batch_id REFERENCES payout_batches,
        user_id uuid NOT NULL CONSTRAINT fk_payout_transfer_intents_user_id REFERENCES profiles,
        vendor_id uuid CONSTRAINT fk_payout_transfer_intents_vendor_id REFERENCES vendor_profiles,
        account_id uuid NOT NULL CONSTRAINT fk_payout_transfer_intents_account_id REFERENCES payout_accounts,
        amount_minor bigint NOT NULL,
        status text NOT NULL,
        asked_for boolean NOT NULL DEFAULT false,
        failure_reason text,
        stalled_at timestamptz,
        created_at timestamptz NOT NULL DEFAULT now(),
        updated_at timestamptz NOT NULL DEFAULT now(),
        CONSTRAINT ck_payout_transfer_intents_sent_in_batch
            CHECK (batch_id IS NOT NULL OR status IN ('pending', 'cancelled')),
        CONSTRAINT ck_payout_transfer_intents_amount_positive CHECK (amount_minor > 0),
        CONSTRAINT ck_payout_transfer_intents_status
            CHECK (status IN ('pending', 'submitted', 'success', 'failed', 'reversed', 'unknown', 'cancelled'))
    );
    COMMENT ON COLUMN payout_transfer_intents.asked_for IS 'Requested by the payee before the staging';
    COMMENT ON COLUMN payout_transfer_intents.failure_reason IS 'Reason shown to the payee';
    COMMENT ON COLUMN payout_transfer_intents.stalled_at IS 'Time when the payout was flagged after 48 hours in transit';
    CREATE UNIQUE INDEX uq_payout_transfer_intents_waiting ON payout_transfer_intents (user_id, vendor_id) NULLS
        NOT DISTINCT WHERE status = 'pending';
    CREATE INDEX ix_payout_transfer_intents_account_id ON payout_transfer_intents (account_id);
    CREATE INDEX ix_payout_transfer_intents_batch ON payout_transfer_intents (batch_id, id);
    CREATE INDEX ix_payout_transfer_intents_open ON payout_transfer_intents (batch_id, id)
        WHERE status IN ('pending', 'submitted', 'unknown');
    CREATE INDEX ix_payout_transfer_intents_user ON payout_transfer_intents (user_id, id DESC);
    CREATE INDEX ix_payout_transfer_intents_vendor ON payout_transfer_intents (vendor_id, id DESC);
    """)
    op.execute("""
    CREATE TABLE payout_transfers (
        id uuid DEFAULT uuidv7() CONSTRAINT pk_payout_transfers PRIMARY KEY,
        intent_id uuid NOT NULL CONSTRAINT fk_payout_transfers_intent_id REFERENCES payout_transfer_intents,
        reference text NOT NULL DEFAULT 'payout-' || replace(gen_random_uuid()::text, '-', ''),
        status text NOT NULL,
        gateway_transfer_id text,
        transfer_code text,
        fee_minor bigint NOT NULL DEFAULT 0,
        attempts bigint NOT NULL DEFAULT 0,
        times_returned bigint NOT NULL DEFAULT 0,
        ask_at timestamptz,
        sent_at timestamptz,
        created_at timestamptz NOT NULL DEFAULT now(),
        updated_at timestamptz NOT NULL DEFAULT now(),
        CONSTRAINT uq_payout_transfers_transfer_code UNIQUE (transfer_code),
        CONSTRAINT uq_payout_transfers_intent_id UNIQUE (intent_id),
        CONSTRAINT uq_payout_transfers_reference UNIQUE (reference),
        CONSTRAINT ck_payout_transfers_reference CHECK (reference ~ '^payout-[0-9a-f]{32}$'),
        CONSTRAINT ck_payout_transfers_status CHECK (status IN ('pending', 'submitted', 'success', 'unknown'))
    );
    COMMENT ON COLUMN payout_transfers.attempts IS 'Number of status polls at the gateway';
    COMMENT ON COLUMN payout_transfers.times_returned IS 'Number of times that the gateway reported a failure or reversal';
    COMMENT ON COLUMN payout_transfers.ask_at IS 'Time of the next status poll';
    COMMENT ON COLUMN payout_transfers.sent_at IS 'Start time of the call that sends the transfer';
    CREATE INDEX ix_payout_transfers_due ON payout_transfers (ask_at) WHERE ask_at IS NOT NULL;
    """)
    op.execute("""
    CREATE TABLE payout_exceptions (
        id uuid DEFAULT uuidv7() CONSTRAINT pk_payout_exceptions PRIMARY KEY,
        gateway_transfer_id text NOT NULL,
        reference text NOT NULL,
        outcome text NOT NULL,
        amount_minor bigint NOT NULL,
        currency text NOT NULL,
        created_at timestamptz NOT NULL DEFAULT now(),
        resolved_at timestamptz,
        resolved_by uuid CONSTRAINT fk_payout_exceptions_resolved_by REFERENCES profiles,
        resolution_note text,
        CONSTRAINT uq_payout_exceptions_gateway_transfer_id_outcome UNIQUE (gateway_transfer_id, outcome),
        CONSTRAINT ck_payout_exceptions_outcome CHECK (outcome IN ('failed', 'reversed', 'unexpected')),
        CONSTRAINT ck_payout_exceptions_resolved CHECK ((resolved_at IS NULL) = (resolved_by IS NULL))
    );
    CREATE INDEX ix_payout_exceptions_open ON payout_exceptions (created_at) WHERE resolved_at IS NULL;
    CREATE INDEX ix_payout_exceptions_reference ON payout_exceptions (reference);
    """)


def downgrade() -> None:
    """Drop the tables."""
    op.execute("""
    DROP TABLE payout_exceptions, payout_transfers, payout_transfer_intents, payout_approvals,
        payout_batches, payout_accounts
    """)
