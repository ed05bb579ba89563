"""Counts of the service: for the service objectives, and per day."""

from alembic import op

revision = "1082"
down_revision = "1081"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the tables."""
    op.execute(
        """
        CREATE TABLE signal_counts (
            signal text,
            minutes bigint,
            starts_at timestamptz,
            bucket bigint,
            count bigint NOT NULL,
            CONSTRAINT pk_signal_counts PRIMARY KEY (signal, minutes, starts_at, bucket),
            CONSTRAINT ck_signal_counts_minutes CHECK (minutes IN (1, 60)),
            CONSTRAINT ck_signal_counts_count CHECK (count > 0)
        );
        COMMENT ON COLUMN signal_counts.minutes IS 'Length of the period: 1 or 60';
        COMMENT ON COLUMN signal_counts.bucket IS
            'Index of the latency bucket; -1 for counts and good events, -2 for bad events';
        CREATE INDEX ix_signal_counts_starts_at ON signal_counts (starts_at);
        CREATE TABLE daily_counts (
            kind text,
            day date,
            label text,
            count bigint NOT NULL,
            CONSTRAINT pk_daily_counts PRIMARY KEY (kind, day, label),
            CONSTRAINT ck_daily_counts_count CHECK (count > 0)
        );
        CREATE TABLE signal_batches (
            id uuid CONSTRAINT pk_signal_batches PRIMARY KEY,
            applied_at timestamptz NOT NULL
        );
        CREATE INDEX ix_signal_batches_applied_at ON signal_batches (applied_at);
        """
    )


def downgrade() -> None:
    """Drop the tables."""
    op.execute("DROP TABLE signal_batches, daily_counts, signal_counts")
