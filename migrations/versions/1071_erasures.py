"""Plans and executions of erasures."""

from alembic import op

revision = "1071"
down_revision = "1070"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the tables."""
    op.execute(
        """
        CREATE TABLE erasure_plans (
            id uuid DEFAULT uuidv7() NOT NULL,
            user_id uuid NOT NULL,
            content jsonb NOT NULL,
            content_hash text NOT NULL,
            created_by uuid NOT NULL,
            created_at timestamptz NOT NULL,
            CONSTRAINT pk_erasure_plans PRIMARY KEY (id),
            CONSTRAINT ck_erasure_plans_content_hash CHECK (content_hash ~ '^[0-9a-f]{64}$'),
            CONSTRAINT fk_erasure_plans_user_id FOREIGN KEY (user_id) REFERENCES profiles (id),
            CONSTRAINT fk_erasure_plans_created_by FOREIGN KEY (created_by) REFERENCES profiles (id)
        );
        COMMENT ON COLUMN erasure_plans.content IS 'Tables and blockers';
        COMMENT ON COLUMN erasure_plans.content_hash IS
            'SHA-256 of the content and of the rows that the content counts, in hex';
        CREATE INDEX ix_erasure_plans_user ON erasure_plans (user_id, id);
        CREATE TABLE erasure_executions (
            id uuid DEFAULT uuidv7() NOT NULL,
            user_id uuid NOT NULL,
            plan_id uuid,
            executed_by uuid,
            status text DEFAULT 'running' NOT NULL,
            tables jsonb NOT NULL,
            erased_rows jsonb DEFAULT '{}' NOT NULL,
            receipt jsonb,
            started_at timestamptz NOT NULL,
            finished_at timestamptz,
            CONSTRAINT pk_erasure_executions PRIMARY KEY (id),
            CONSTRAINT ck_erasure_executions_status CHECK (status IN ('running', 'finished')),
            CONSTRAINT ck_erasure_executions_finished CHECK (
                (status = 'finished') = (finished_at IS NOT NULL AND receipt IS NOT NULL)),
            CONSTRAINT ck_erasure_executions_planned CHECK ((plan_id IS NULL) = (executed_by IS NULL)),
            CONSTRAINT fk_erasure_executions_user_id FOREIGN KEY (user_id) REFERENCES profiles (id),
            CONSTRAINT fk_erasure_executions_plan_id FOREIGN KEY (plan_id) REFERENCES erasure_plans (id),
            CONSTRAINT fk_erasure_executions_executed_by FOREIGN KEY (executed_by) REFERENCES profiles (id)
        );
        COMMENT ON COLUMN erasure_executions.plan_id IS 'Null for the repetition after a restored backup';
        COMMENT ON COLUMN erasure_executions.tables IS 'The tables of the plan';
        COMMENT ON COLUMN erasure_executions.erased_rows IS 'Deleted and cleared rows by table';
        COMMENT ON COLUMN erasure_executions.receipt IS 'Signed proof for the person';
        CREATE UNIQUE INDEX uq_erasure_executions_plan ON erasure_executions (plan_id);
        CREATE UNIQUE INDEX uq_erasure_executions_user ON erasure_executions (user_id);
        CREATE INDEX ix_erasure_executions_running ON erasure_executions (id) WHERE status = 'running';
        """
    )


def downgrade() -> None:
    """Drop the tables."""
    op.execute("DROP TABLE erasure_executions, erasure_plans")
