"""Monthly partitions of the audit trail.

Partitions have a schema of their own. The existing table becomes the partition of all rows until the end of the month.
"""

from alembic import op

revision = "1081"
down_revision = "1080"
branch_labels = None
depends_on = None

_NEXT_MONTH = "(date_trunc('month', now() AT TIME ZONE 'UTC') + interval '1 month') AT TIME ZONE 'UTC'"


def upgrade() -> None:
    """Put a partitioned table in place of the table, and attach the table."""
    op.execute(
        f"""
        CREATE SCHEMA audit_partitions;
        ALTER TABLE audit_logs ALTER COLUMN id DROP IDENTITY;
        ALTER TABLE audit_logs SET SCHEMA audit_partitions;
        ALTER TABLE audit_partitions.audit_logs RENAME TO audit_logs_initial;
        CREATE TABLE audit_logs (
            id bigint GENERATED ALWAYS AS IDENTITY,
            at timestamptz NOT NULL,
            actor_id uuid,
            actor text NOT NULL,
            action text NOT NULL,
            target_type text NOT NULL,
            target_id text NOT NULL,
            ip_address text,
            user_agent text,
            before jsonb,
            after jsonb,
            previous_hash text NOT NULL,
            hash text NOT NULL,
            request_id uuid,
            on_behalf_of_id uuid
        ) PARTITION BY RANGE (at);
        COMMENT ON COLUMN audit_logs.request_id IS 'Request of the act';
        COMMENT ON COLUMN audit_logs.on_behalf_of_id IS 'Person for whom the actor acted';
        CREATE INDEX ix_audit_logs_at ON audit_logs (at);
        CREATE INDEX ix_audit_logs_actor ON audit_logs (actor_id, id) WHERE actor_id IS NOT NULL;
        CREATE INDEX ix_audit_logs_target ON audit_logs (target_id, id);
        CREATE TRIGGER audit_logs_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON audit_logs
            FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
        ALTER TABLE audit_logs ATTACH PARTITION audit_partitions.audit_logs_initial
            FOR VALUES FROM (MINVALUE) TO ({_NEXT_MONTH});
        CREATE TABLE audit_partitions.audit_logs_other PARTITION OF audit_logs (PRIMARY KEY (id)) DEFAULT;
        CREATE TRIGGER audit_logs_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON audit_partitions.audit_logs_other
            FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
        SELECT setval(pg_get_serial_sequence('audit_logs', 'id'), coalesce(max(id), 1), max(id) IS NOT NULL)
            FROM audit_logs;
        ALTER TABLE audit_archives ADD COLUMN dropped_at timestamptz;
        COMMENT ON COLUMN audit_archives.dropped_at IS 'Time at which the retention ended and the rows were dropped';
        """
    )


def downgrade() -> None:
    """Return all rows to a single table."""
    op.execute(
        """
        ALTER TABLE audit_archives DROP COLUMN dropped_at;
        ALTER TABLE audit_logs DETACH PARTITION audit_partitions.audit_logs_initial;
        INSERT INTO audit_partitions.audit_logs_initial SELECT * FROM audit_logs;
        DROP TABLE audit_logs;
        ALTER TABLE audit_partitions.audit_logs_initial RENAME TO audit_logs;
        ALTER TABLE audit_partitions.audit_logs SET SCHEMA public;
        ALTER TABLE audit_logs ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY;
        SELECT setval(pg_get_serial_sequence('audit_logs', 'id'), coalesce(max(id), 1), max(id) IS NOT NULL)
            FROM audit_logs;
        DROP SCHEMA audit_partitions;
        """
    )
