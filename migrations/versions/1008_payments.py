"""Payments at the gateway: intents, charges, refunds and chargebacks."""

from alembic import op

revision = "1008"
down_revision = "1007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the tables."""
    op.execute("""
    CREATE TABLE payment_intents (
        id uuid DEFAULT uuidv7() CONSTRAINT pk_payment_intents PRIMARY KEY,
        reference text NOT NULL DEFAULT 'checkout-' || replace(gen_random_uuid()::text, '-', ''),
        buyer_id uuid NOT NULL CONSTRAINT fk_payment_intents_buyer_id REFERENCES profiles,
        checkout_id uuid,
        amount_minor bigint NOT NULL,
        currency text NOT NULL DEFAULT 'NGN',
        status text NOT NULL,
        callback_url text,
        authorization_url text,
        opening_until timestamptz,
        access_code text,
        channel text,
        gateway_charge_id text,
        settled_at timestamptz,
        created_at timestamptz NOT NULL DEFAULT now(),
        updated_at timestamptz NOT NULL DEFAULT now(),
        CONSTRAINT uq_payment_intents_reference UNIQUE (reference),
        CONSTRAINT ck_payment_intents_reference CHECK (reference ~ '^checkout-[0-9a-f]{32}$'),
        CONSTRAINT ck_payment_intents_amount_positive CHECK (amount_minor > 0),
        CONSTRAINT ck_payment_intents_status
            CHECK (status IN ('initialized', 'pending', 'succeeded', 'failed', 'quarantined', 'abandoned'))
    );
    COMMENT ON COLUMN payment_intents.opening_until IS
        'End of the lease on requesting the payment page; other requests wait until then';
    CREATE INDEX ix_payment_intents_buyer_id ON payment_intents (buyer_id);
    CREATE INDEX ix_payment_intents_open ON payment_intents (id) WHERE status IN ('initialized', 'pending');
    """)
    # An amount is zero if the wallet covers an order of a checkout in full.
    op.execute("""
    CREATE TABLE payment_allocations (
        intent_id uuid NOT NULL CONSTRAINT fk_payment_allocations_intent_id REFERENCES payment_intents,
        order_id uuid NOT NULL CONSTRAINT fk_payment_allocations_order_id REFERENCES orders,
        amount_minor bigint NOT NULL,
        live boolean NOT NULL DEFAULT true,
        CONSTRAINT pk_payment_allocations PRIMARY KEY (intent_id, order_id),
        CONSTRAINT ck_payment_allocations_amount_not_negative CHECK (amount_minor >= 0)
    );
    CREATE UNIQUE INDEX uq_payment_allocations_live ON payment_allocations (order_id) WHERE live;
    CREATE INDEX ix_payment_allocations_order_id ON payment_allocations (order_id);
    """)
    op.execute("""
    CREATE TABLE transfer_accounts (
        intent_id uuid CONSTRAINT pk_transfer_accounts PRIMARY KEY
            CONSTRAINT fk_transfer_accounts_intent_id REFERENCES payment_intents,
        bank_name text NOT NULL,
        account_number text NOT NULL,
        account_name text NOT NULL,
        expires_at timestamptz NOT NULL,
        created_at timestamptz NOT NULL DEFAULT now(),
        CONSTRAINT ck_transfer_accounts_account_number CHECK (account_number ~ '^v1:[a-z0-9_-]{1,32}:[A-Za-z0-9_-]{38,}$')
    );
    """)
    # Only the ledger records which charges paid an order, so charges are looked up by ledger transaction.
    op.execute("""
    CREATE TABLE gateway_charges (
        id uuid DEFAULT uuidv7() CONSTRAINT pk_gateway_charges PRIMARY KEY,
        gateway_charge_id text NOT NULL,
        intent_id uuid NOT NULL CONSTRAINT fk_gateway_charges_intent_id REFERENCES payment_intents,
        outcome text NOT NULL,
        amount_minor bigint NOT NULL,
        fees_minor bigint NOT NULL,
        principal_minor bigint NOT NULL,
        refunded_minor bigint NOT NULL DEFAULT 0,
        currency text NOT NULL,
        channel text NOT NULL,
        ledger_transaction_id uuid
            CONSTRAINT fk_gateway_charges_ledger_transaction_id REFERENCES ledger_transactions,
        paid_at timestamptz,
        created_at timestamptz NOT NULL DEFAULT now(),
        CONSTRAINT uq_gateway_charges_gateway_charge_id UNIQUE (gateway_charge_id),
        CONSTRAINT ck_gateway_charges_outcome CHECK (outcome IN ('applied', 'quarantined', 'returned')),
        CONSTRAINT ck_gateway_charges_refunded CHECK (refunded_minor BETWEEN 0 AND greatest(principal_minor, 0))
    );
    CREATE INDEX ix_gateway_charges_created ON gateway_charges (created_at, id);
    CREATE INDEX ix_gateway_charges_intent_id ON gateway_charges (intent_id);
    CREATE INDEX ix_gateway_charges_ledger_transaction_id ON gateway_charges (ledger_transaction_id);
    """)
    op.execute("""
    CREATE TABLE quarantined_charges (
        id uuid DEFAULT uuidv7() CONSTRAINT pk_quarantined_charges PRIMARY KEY,
        gateway_charge_id text NOT NULL,
        intent_id uuid NOT NULL CONSTRAINT fk_quarantined_charges_intent_id REFERENCES payment_intents,
        reason text NOT NULL,
        amount_minor bigint NOT NULL,
        currency text NOT NULL,
        fees_minor bigint NOT NULL,
        ledger_transaction_id uuid
            CONSTRAINT fk_quarantined_charges_ledger_transaction_id REFERENCES ledger_transactions,
        details jsonb NOT NULL,
        status text NOT NULL DEFAULT 'open',
        created_at timestamptz NOT NULL DEFAULT now(),
        resolved_at timestamptz,
        resolution text,
        resolution_note text,
        resolved_by uuid CONSTRAINT fk_quarantined_charges_resolved_by REFERENCES profiles,
        CONSTRAINT uq_quarantined_charges_gateway_charge_id UNIQUE (gateway_charge_id),
        CONSTRAINT ck_quarantined_charges_reason
            CHECK (reason IN ('amount_below_total', 'currency', 'order_not_payable', 'already_paid',
                'fees_above_amount')),
        CONSTRAINT ck_quarantined_charges_resolved_at CHECK ((status = 'resolved') = (resolved_at IS NOT NULL)),
        CONSTRAINT ck_quarantined_charges_status CHECK (status IN ('open', 'resolved'))
    );
    COMMENT ON COLUMN quarantined_charges.resolution IS 'Action with which an officer resolved the charge';
    COMMENT ON COLUMN quarantined_charges.resolution_note IS 'The officer''s reason';
    CREATE INDEX ix_quarantined_charges_created ON quarantined_charges (created_at, id);
    CREATE INDEX ix_quarantined_charges_intent_id ON quarantined_charges (intent_id);
    """)
    op.execute("""
    CREATE TABLE refunds (
        id uuid DEFAULT uuidv7() CONSTRAINT pk_refunds PRIMARY KEY,
        order_id uuid CONSTRAINT fk_refunds_order_id REFERENCES orders,
        charge_id uuid CONSTRAINT fk_refunds_charge_id REFERENCES gateway_charges,
        buyer_id uuid NOT NULL CONSTRAINT fk_refunds_buyer_id REFERENCES profiles,
        destination text NOT NULL,
        amount_minor bigint NOT NULL,
        status text NOT NULL,
        cause text NOT NULL,
        reason text NOT NULL,
        requested_by uuid CONSTRAINT fk_refunds_requested_by REFERENCES profiles,
        gateway_refund_id text,
        attempt integer NOT NULL DEFAULT 1,
        asked_at timestamptz,
        asking_until timestamptz,
        settled_at timestamptz,
        created_at timestamptz NOT NULL DEFAULT now(),
        updated_at timestamptz NOT NULL DEFAULT now(),
        paid_twice_minor bigint NOT NULL DEFAULT 0,
        times_returned integer NOT NULL DEFAULT 0,
        tries integer NOT NULL DEFAULT 1,
        CONSTRAINT uq_refunds_gateway_refund_id UNIQUE (gateway_refund_id),
        CONSTRAINT uq_refunds_cause UNIQUE (cause),
        CONSTRAINT ck_refunds_charge_of_gateway CHECK ((destination = 'gateway') = (charge_id IS NOT NULL)),
        CONSTRAINT ck_refunds_destination CHECK (destination IN ('gateway', 'wallet')),
        CONSTRAINT ck_refunds_amount_positive CHECK (amount_minor > 0),
        CONSTRAINT ck_refunds_status
            CHECK (status IN ('pending', 'submitted', 'processed', 'failed', 'needs_attention', 'credited')),
        CONSTRAINT ck_refunds_attempt_of_tries CHECK (attempt BETWEEN 1 AND tries),
        CONSTRAINT ck_refunds_paid_twice_not_negative CHECK (paid_twice_minor >= 0),
        CONSTRAINT ck_refunds_times_returned_not_negative CHECK (times_returned >= 0)
    );
    COMMENT ON COLUMN refunds.attempt IS 'Number of the current attempt; a retry starts a new attempt';
    COMMENT ON COLUMN refunds.asked_at IS 'Time of the first request to the gateway in this attempt';
    COMMENT ON COLUMN refunds.asking_until IS 'End of the lease on sending the refund; other workers wait until then';
    COMMENT ON COLUMN refunds.paid_twice_minor IS 'Kobo that the gateway paid although the buyer already had the money';
    COMMENT ON COLUMN refunds.times_returned IS 'How many times the refund was sent and came back to the gateway';
    COMMENT ON COLUMN refunds.tries IS 'Number of the latest attempt; the current attempt may be an earlier one';
    CREATE INDEX ix_refunds_buyer_id ON refunds (buyer_id);
    CREATE INDEX ix_refunds_charge_id ON refunds (charge_id);
    CREATE INDEX ix_refunds_open ON refunds (created_at, id)
        WHERE status IN ('pending', 'submitted', 'failed', 'needs_attention');
    CREATE INDEX ix_refunds_paid_twice ON refunds (created_at, id) WHERE paid_twice_minor > 0;
    CREATE INDEX ix_refunds_order_id ON refunds (order_id);
    """)
    op.execute("""
    CREATE TABLE charge_disputes (
        id uuid DEFAULT uuidv7() CONSTRAINT pk_charge_disputes PRIMARY KEY,
        gateway_dispute_id text NOT NULL,
        intent_id uuid NOT NULL CONSTRAINT fk_charge_disputes_intent_id REFERENCES payment_intents,
        status text NOT NULL,
        gateway_status text,
        resolution text,
        category text,
        amount_minor bigint,
        due_at timestamptz,
        opened_at timestamptz NOT NULL DEFAULT now(),
        resolved_at timestamptz,
        updated_at timestamptz NOT NULL DEFAULT now(),
        gateway_charge_id text,
        CONSTRAINT uq_charge_disputes_gateway_dispute_id UNIQUE (gateway_dispute_id),
        CONSTRAINT ck_charge_disputes_resolved_at CHECK ((status = 'resolved') = (resolved_at IS NOT NULL)),
        CONSTRAINT ck_charge_disputes_status CHECK (status IN ('open', 'resolved'))
    );
    COMMENT ON COLUMN charge_disputes.gateway_status IS 'The gateway''s status of the dispute';
    COMMENT ON COLUMN charge_disputes.resolution IS 'The gateway''s outcome of the dispute';
    COMMENT ON COLUMN charge_disputes.due_at IS 'Deadline for a response at the gateway';
    COMMENT ON COLUMN charge_disputes.gateway_charge_id IS
        'The disputed charge; none if the gateway did not name a charge of the payment';
    CREATE INDEX ix_charge_disputes_intent_id ON charge_disputes (intent_id);
    """)


def downgrade() -> None:
    """Drop the tables."""
    op.execute("""
    DROP TABLE charge_disputes, refunds, quarantined_charges, gateway_charges, transfer_accounts,
        payment_allocations, payment_intents
    """)
