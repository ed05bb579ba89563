"""Reconciliation with the gateway: runs, exceptions, and the gateway's records and movements."""

from alembic import op

revision = "1011"
down_revision = "1010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the tables."""
    op.execute("""
    CREATE TABLE reconciliations (
        id uuid DEFAULT uuidv7() CONSTRAINT pk_reconciliations PRIMARY KEY,
        status text NOT NULL,
        started_by text NOT NULL,
        officer_id uuid CONSTRAINT fk_reconciliations_officer_id REFERENCES profiles,
        starts timestamptz NOT NULL,
        ends timestamptz NOT NULL,
        claimed_until timestamptz,
        gateway_minor bigint,
        books_minor bigint,
        in_flight_minor bigint,
        drift_minor bigint,
        figures jsonb NOT NULL DEFAULT '{}',
        failure text,
        created_at timestamptz NOT NULL DEFAULT now(),
        finished_at timestamptz,
        CONSTRAINT ck_reconciliations_adds_up
            CHECK (status NOT IN ('matched', 'drift') OR gateway_minor = books_minor + in_flight_minor +
                drift_minor),
        CONSTRAINT ck_reconciliations_failure_of_failed CHECK ((status = 'failed') = (failure IS NOT NULL)),
        CONSTRAINT ck_reconciliations_finished CHECK ((status = 'running') = (finished_at IS NULL)),
        CONSTRAINT ck_reconciliations_status CHECK (status IN ('running', 'matched', 'drift', 'failed')),
        CONSTRAINT ck_reconciliations_started_by CHECK (started_by IN ('officer', 'schedule', 'operator')),
        CONSTRAINT ck_reconciliations_window_in_order CHECK (starts < ends)
    );
    COMMENT ON COLUMN reconciliations.starts IS 'Start of the window of the gateway''s lists';
    COMMENT ON COLUMN reconciliations.claimed_until IS
        'End of the worker''s lease: no other worker performs the run before';
    COMMENT ON COLUMN reconciliations.figures IS 'Counts of records read, movements posted and differences found';
    CREATE UNIQUE INDEX uq_reconciliations_running ON reconciliations (status) WHERE status = 'running';
    CREATE INDEX ix_reconciliations_officer_id ON reconciliations (officer_id);
    CREATE INDEX ix_reconciliations_status ON reconciliations (status, id DESC);
    """)
    op.execute("""
    CREATE TABLE reconciliation_exceptions (
        id uuid DEFAULT uuidv7() CONSTRAINT pk_reconciliation_exceptions PRIMARY KEY,
        run_id uuid NOT NULL CONSTRAINT fk_reconciliation_exceptions_run_id REFERENCES reconciliations,
        item text NOT NULL,
        kind text NOT NULL,
        problem text NOT NULL,
        action text NOT NULL,
        here_minor bigint NOT NULL,
        there_minor bigint NOT NULL,
        here_status text,
        there_status text,
        here_amount_minor bigint,
        there_amount_minor bigint,
        reference text,
        gateway_id text,
        order_id uuid CONSTRAINT fk_reconciliation_exceptions_order_id REFERENCES orders,
        refund_id uuid CONSTRAINT fk_reconciliation_exceptions_refund_id REFERENCES refunds,
        intent_id uuid CONSTRAINT fk_reconciliation_exceptions_intent_id REFERENCES payout_transfer_intents,
        happened_at timestamptz,
        proposed_resolution text,
        proposed_by uuid CONSTRAINT fk_reconciliation_exceptions_proposed_by REFERENCES profiles,
        proposed_at timestamptz,
        proposal_note text,
        resolved_at timestamptz,
        resolved_by uuid CONSTRAINT fk_reconciliation_exceptions_resolved_by REFERENCES profiles,
        resolution text,
        note text,
        created_at timestamptz NOT NULL DEFAULT now(),
        CONSTRAINT ck_reconciliation_exceptions_problem
            CHECK (problem IN ('missing_here', 'missing_there', 'amounts_differ', 'status_differs')),
        CONSTRAINT ck_reconciliation_exceptions_proposed
            CHECK (num_nulls(proposed_resolution, proposed_by, proposed_at, proposal_note) IN (0, 4)),
        CONSTRAINT ck_reconciliation_exceptions_resolved CHECK ((resolved_at IS NULL) = (resolution IS NULL))
    );
    COMMENT ON COLUMN reconciliation_exceptions.item IS
        'The item''s name, the same in each run: charge:<id>, payout:<id>, ...';
    COMMENT ON COLUMN reconciliation_exceptions.action IS 'The suggested action';
    COMMENT ON COLUMN reconciliation_exceptions.here_minor IS 'Sum of the ledger''s postings of the item';
    COMMENT ON COLUMN reconciliation_exceptions.there_minor IS
        'Sum of the gateway''s movements of the item';
    COMMENT ON COLUMN reconciliation_exceptions.proposed_resolution IS
        'The resolution that another officer has to confirm';
    CREATE UNIQUE INDEX uq_reconciliation_exceptions_item ON reconciliation_exceptions (run_id, item);
    CREATE INDEX ix_reconciliation_exceptions_intent_id ON reconciliation_exceptions (intent_id);
    CREATE INDEX ix_reconciliation_exceptions_order ON reconciliation_exceptions (order_id)
        WHERE order_id IS NOT NULL;
    CREATE INDEX ix_reconciliation_exceptions_proposed ON reconciliation_exceptions (proposed_at)
        WHERE proposed_at IS NOT NULL;
    CREATE INDEX ix_reconciliation_exceptions_proposed_by ON reconciliation_exceptions (proposed_by);
    CREATE INDEX ix_reconciliation_exceptions_refund_id ON reconciliation_exceptions (refund_id);
    CREATE INDEX ix_reconciliation_exceptions_resolved_by ON reconciliation_exceptions (resolved_by);
    CREATE INDEX ix_reconciliation_exceptions_page ON reconciliation_exceptions (run_id, id);
    """)
    op.execute("""
    CREATE TABLE reconciliation_differences (
        run_id uuid NOT NULL CONSTRAINT fk_reconciliation_differences_run_id REFERENCES reconciliations,
        item text NOT NULL,
        here_minor bigint NOT NULL,
        here_now_minor bigint NOT NULL,
        there_minor bigint NOT NULL,
        gateway_id text,
        moved_at timestamptz,
        booked_at timestamptz,
        CONSTRAINT pk_reconciliation_differences PRIMARY KEY (run_id, item)
    );
    COMMENT ON COLUMN reconciliation_differences.here_now_minor IS
        'The ledger''s sum, including postings made during the import';
    """)
    op.execute("""
    CREATE TABLE reconciliation_records (
        run_id uuid NOT NULL CONSTRAINT fk_reconciliation_records_run_id REFERENCES reconciliations,
        kind text NOT NULL,
        gateway_id text NOT NULL,
        reference text NOT NULL,
        status text NOT NULL,
        currency text NOT NULL,
        charge_id text NOT NULL,
        dispute_id text NOT NULL,
        amount_minor bigint NOT NULL,
        fee_minor bigint NOT NULL,
        subject uuid,
        created_at timestamptz NOT NULL,
        changed_at timestamptz NOT NULL,
        CONSTRAINT pk_reconciliation_records PRIMARY KEY (run_id, kind, gateway_id)
    );
    CREATE INDEX ix_reconciliation_records_reference ON reconciliation_records (run_id, kind, reference);
    CREATE INDEX ix_reconciliation_records_subject ON reconciliation_records (run_id, kind, subject);
    """)
    op.execute("""
    CREATE TABLE gateway_movements (
        id bigint CONSTRAINT pk_gateway_movements PRIMARY KEY,
        model text NOT NULL,
        row_id text NOT NULL,
        subject uuid,
        difference_minor bigint NOT NULL,
        balance_minor bigint NOT NULL,
        happened_at timestamptz NOT NULL,
        read_by uuid CONSTRAINT fk_gateway_movements_read_by REFERENCES reconciliations,
        charge_id text
    );
    COMMENT ON COLUMN gateway_movements.subject IS 'Id of the refund, payout or dispute that caused the movement';
    COMMENT ON COLUMN gateway_movements.read_by IS 'The run that is still importing: there may be gaps';
    COMMENT ON COLUMN gateway_movements.charge_id IS
        'The gateway''s charge of a refund, where a list names the charge';
    CREATE INDEX ix_gateway_movements_row ON gateway_movements (model, row_id);
    CREATE INDEX ix_gateway_movements_read_by ON gateway_movements (read_by) WHERE read_by IS NOT NULL;
    """)


def downgrade() -> None:
    """Drop the tables."""
    op.execute("""
    DROP TABLE gateway_movements, reconciliation_records, reconciliation_differences,
        reconciliation_exceptions, reconciliations
    """)
