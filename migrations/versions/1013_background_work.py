"""Background work: outbox, webhooks, counts of completed work, and periodic tasks."""

from alembic import op

revision = "1013"
down_revision = "1012"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the tables and the counting triggers."""
    op.execute("""
    CREATE TABLE outbox_events (
        id uuid DEFAULT uuidv7() CONSTRAINT pk_outbox_events PRIMARY KEY,
        queue text NOT NULL,
        topic text NOT NULL,
        payload jsonb NOT NULL,
        created_at timestamptz NOT NULL DEFAULT now(),
        due_at timestamptz NOT NULL,
        attempts bigint NOT NULL DEFAULT 0,
        last_error text,
        done_at timestamptz,
        failed_at timestamptz
    );
    COMMENT ON COLUMN outbox_events.failed_at IS 'Set after the last failed attempt';
    CREATE INDEX ix_outbox_events_done ON outbox_events (done_at) WHERE done_at IS NOT NULL;
    CREATE INDEX ix_outbox_events_due ON outbox_events (queue, due_at) INCLUDE (attempts)
        WHERE done_at IS NULL AND failed_at IS NULL;
    CREATE INDEX ix_outbox_events_failed ON outbox_events (queue, failed_at) WHERE failed_at IS NOT NULL;
    """)
    op.execute("""
    CREATE TABLE webhook_inbox (
        id uuid DEFAULT uuidv7() CONSTRAINT pk_webhook_inbox PRIMARY KEY,
        provider text NOT NULL,
        body bytea NOT NULL,
        status text NOT NULL DEFAULT 'received',
        event_type text,
        dedupe_id text,
        reference text,
        attempts bigint NOT NULL DEFAULT 0,
        due_at timestamptz NOT NULL DEFAULT now(),
        last_error text,
        received_at timestamptz NOT NULL DEFAULT now(),
        finished_at timestamptz,
        CONSTRAINT ck_webhook_inbox_provider CHECK (provider IN ('gateway', 'messaging')),
        CONSTRAINT ck_webhook_inbox_status
            CHECK (status IN ('received', 'retrying', 'processed', 'duplicate', 'ignored', 'dead'))
    );
    COMMENT ON COLUMN webhook_inbox.reference IS 'The gateway''s reference of the charge or transfer';
    CREATE INDEX ix_webhook_inbox_received ON webhook_inbox (received_at DESC, id DESC) INCLUDE (status);
    CREATE INDEX ix_webhook_inbox_dedupe_id ON webhook_inbox (dedupe_id) WHERE dedupe_id IS NOT NULL;
    CREATE INDEX ix_webhook_inbox_reference ON webhook_inbox (reference) WHERE reference IS NOT NULL;
    CREATE INDEX ix_webhook_inbox_due ON webhook_inbox (due_at) WHERE status IN ('received', 'retrying');
    CREATE INDEX ix_webhook_inbox_type ON webhook_inbox (event_type, received_at DESC, id DESC)
        WHERE event_type IS NOT NULL;
    CREATE INDEX ix_webhook_inbox_dead ON webhook_inbox (finished_at) WHERE status = 'dead';
    CREATE INDEX ix_webhook_inbox_finished ON webhook_inbox (finished_at)
        WHERE status IN ('processed', 'duplicate', 'ignored');
    CREATE INDEX ix_webhook_inbox_open ON webhook_inbox (status, received_at DESC, id DESC)
        WHERE status IN ('received', 'retrying', 'dead');
    """)
    # Each replay reads the index of unreplayed dead letters. A bulk replay may replay thousands of events.
    op.execute("""
    CREATE TABLE dead_letter_webhooks (
        id uuid DEFAULT uuidv7() CONSTRAINT pk_dead_letter_webhooks PRIMARY KEY,
        inbox_id uuid NOT NULL CONSTRAINT fk_dead_letter_webhooks_inbox_id REFERENCES webhook_inbox,
        provider text NOT NULL,
        event_type text,
        dedupe_id text,
        body bytea NOT NULL,
        attempts bigint NOT NULL,
        error text NOT NULL,
        died_at timestamptz NOT NULL,
        replayed_at timestamptz,
        CONSTRAINT uq_dead_letter_webhooks_inbox_id UNIQUE (inbox_id)
    );
    CREATE INDEX ix_dead_letter_webhooks_waiting ON dead_letter_webhooks (provider, event_type)
        WHERE replayed_at IS NULL;
    CREATE INDEX ix_dead_letter_webhooks_died ON dead_letter_webhooks (died_at DESC);
    """)
    op.execute("""
    CREATE TABLE processed_webhook_events (
        id text CONSTRAINT pk_processed_webhook_events PRIMARY KEY,
        provider text NOT NULL,
        event_type text NOT NULL,
        payload jsonb NOT NULL,
        processed_at timestamptz NOT NULL DEFAULT now(),
        CONSTRAINT ck_processed_webhook_events_provider CHECK (provider IN ('gateway', 'messaging'))
    );
    """)
    op.execute("""
    CREATE TRIGGER processed_webhook_events_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON processed_webhook_events
        FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
    """)
    op.execute("""
    CREATE TABLE queue_counts (
        queue text NOT NULL,
        shard smallint NOT NULL,
        completed bigint NOT NULL DEFAULT 0,
        CONSTRAINT pk_queue_counts PRIMARY KEY (queue, shard)
    );
    """)
    op.execute("""
    CREATE TABLE periodic_tasks (
        name text CONSTRAINT pk_periodic_tasks PRIMARY KEY,
        queue text NOT NULL,
        purpose text NOT NULL,
        declared text NOT NULL,
        timetable text,
        next_run_at timestamptz NOT NULL,
        paused_at timestamptz,
        run_id uuid,
        run_by text,
        started_at timestamptz,
        lease_until timestamptz,
        finished_at timestamptz,
        duration_milliseconds bigint,
        outcome text,
        error text,
        result text,
        runs bigint NOT NULL DEFAULT 0,
        failures integer NOT NULL DEFAULT 0,
        CONSTRAINT ck_periodic_tasks_run
            CHECK (num_nulls(run_id, run_by, started_at, lease_until) IN (0, 4)),
        CONSTRAINT ck_periodic_tasks_finished CHECK ((finished_at IS NULL) = (outcome IS NULL)),
        CONSTRAINT ck_periodic_tasks_outcome CHECK (outcome IN ('succeeded', 'failed', 'interrupted'))
    );
    COMMENT ON COLUMN periodic_tasks.timetable IS
        'The schedule set by an operator; null for the declared schedule';
    COMMENT ON COLUMN periodic_tasks.finished_at IS
        'End of the last finished run; the columns below describe that run';
    COMMENT ON COLUMN periodic_tasks.error IS 'The type of the error';
    COMMENT ON COLUMN periodic_tasks.runs IS 'Number of finished runs';
    COMMENT ON COLUMN periodic_tasks.failures IS 'Number of consecutive failures until now';
    """)
    # A transaction locks a count last, and few connections share a shard. This avoids long waits and deadlocks.
    op.execute("""
    CREATE FUNCTION count_completed() RETURNS trigger LANGUAGE plpgsql AS $$
    DECLARE
        of_queue text := 'webhooks';
    BEGIN
        IF TG_TABLE_NAME = 'outbox_events' THEN
            of_queue := NEW.queue;
        END IF;
        INSERT INTO queue_counts AS c (queue, shard, completed)
        VALUES (of_queue, pg_backend_pid() % 16, 1)
        ON CONFLICT (queue, shard) DO UPDATE SET completed = c.completed + 1;
        RETURN NULL;
    END $$;
    CREATE TRIGGER outbox_events_completed AFTER UPDATE OF done_at ON outbox_events FOR EACH ROW
        WHEN (OLD.done_at IS NULL AND NEW.done_at IS NOT NULL) EXECUTE FUNCTION count_completed();
    CREATE TRIGGER webhook_inbox_completed AFTER UPDATE OF status ON webhook_inbox FOR EACH ROW
        WHEN (OLD.status IN ('received', 'retrying', 'dead') AND NEW.status IN ('processed', 'duplicate', 'ignored'))
        EXECUTE FUNCTION count_completed();
    """)


def downgrade() -> None:
    """Drop the tables and the counting triggers."""
    op.execute("""
    DROP TABLE periodic_tasks, queue_counts, processed_webhook_events, dead_letter_webhooks, webhook_inbox,
        outbox_events
    """)
    op.execute("DROP FUNCTION count_completed()")
