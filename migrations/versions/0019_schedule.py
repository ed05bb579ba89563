"""The schedule of periodic tasks; counts of what queues completed; indexes of what waits, failed and is old."""

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0018"
branch_labels = None
depends_on = None

_MOMENT = sa.TIMESTAMP(timezone=True)
_OPEN = "done_at IS NULL AND failed_at IS NULL"
_COMPLETED = "status IN ('processed', 'duplicate', 'ignored')"

# The row is the last one that a transaction locks, and few connections share one: nobody waits long, or in a circle.
_COUNT = """
    CREATE FUNCTION count_completed() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        INSERT INTO queue_counts AS c (queue, shard, completed)
        VALUES (coalesce(to_jsonb(NEW) ->> 'queue', 'webhooks'), pg_backend_pid() % 16, 1)
        ON CONFLICT (queue, shard) DO UPDATE SET completed = c.completed + 1;
        RETURN NULL;
    END $$
"""


def upgrade() -> None:
    """Make the tables, count what was completed before, and have triggers count from then on."""
    _create_schedule()
    op.create_table(
        "queue_counts",
        sa.Column("queue", sa.Text(), nullable=False),
        sa.Column("shard", sa.SmallInteger(), nullable=False),
        sa.Column("completed", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.PrimaryKeyConstraint("queue", "shard", name=op.f("pk_queue_counts")),
    )
    op.execute(
        f"""
        INSERT INTO queue_counts (queue, shard, completed)
        SELECT queue, 0, count(*) FROM (
            SELECT queue FROM outbox_events WHERE done_at IS NOT NULL
            UNION ALL SELECT 'webhooks' FROM webhook_inbox WHERE {_COMPLETED}
        ) completed GROUP BY queue
        """
    )
    op.execute(_COUNT)
    op.execute(
        """
        CREATE TRIGGER outbox_events_completed AFTER UPDATE OF done_at ON outbox_events FOR EACH ROW
        WHEN (OLD.done_at IS NULL AND NEW.done_at IS NOT NULL) EXECUTE FUNCTION count_completed()
        """
    )
    op.execute(
        f"""
        CREATE TRIGGER webhook_inbox_completed AFTER UPDATE OF status ON webhook_inbox FOR EACH ROW
        WHEN (OLD.status IN ('received', 'retrying', 'dead') AND NEW.{_COMPLETED})
        EXECUTE FUNCTION count_completed()
        """
    )
    _create_indexes()


def _create_schedule() -> None:
    op.create_table(
        "periodic_tasks",
        *(sa.Column(name, sa.Text(), nullable=False) for name in ("name", "queue", "purpose", "declared")),
        sa.Column(
            "timetable", sa.Text(), nullable=True, comment="An operator's; none means the declared one"
        ),
        sa.Column("next_run_at", _MOMENT, nullable=False),
        sa.Column("paused_at", _MOMENT, nullable=True),
        sa.Column("run_id", sa.Uuid(), nullable=True),
        sa.Column("run_by", sa.Text(), nullable=True),
        sa.Column("started_at", _MOMENT, nullable=True),
        sa.Column("beats", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("finished_at", _MOMENT, nullable=True, comment="Of the last run that ended, as all below"),
        sa.Column("duration_milliseconds", sa.BigInteger(), nullable=True),
        sa.Column("outcome", sa.Text(), nullable=True),
        sa.Column("error", sa.Text(), nullable=True, comment="The error's type"),
        sa.Column("result", sa.Text(), nullable=True),
        sa.Column("runs", sa.BigInteger(), server_default=sa.text("0"), nullable=False, comment="That ended"),
        sa.Column(
            "failures",
            sa.Integer(),
            server_default=sa.text("0"),
            nullable=False,
            comment="The last ones in a row",
        ),
        sa.CheckConstraint(
            "outcome IN ('succeeded', 'failed', 'interrupted')", name=op.f("ck_periodic_tasks_outcome")
        ),
        sa.CheckConstraint(
            "(run_id IS NULL) = (run_by IS NULL) AND (run_id IS NULL) = (started_at IS NULL)",
            name=op.f("ck_periodic_tasks_run"),
        ),
        sa.CheckConstraint(
            "(finished_at IS NULL) = (outcome IS NULL)", name=op.f("ck_periodic_tasks_finished")
        ),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_periodic_tasks")),
    )


def _create_indexes() -> None:
    """Have what waits be found by its queue, and counted without a look at the rows; likewise what failed."""
    op.drop_index("ix_outbox_events_due", "outbox_events")
    op.create_index(
        "ix_outbox_events_due",
        "outbox_events",
        ["queue", "due_at"],
        postgresql_include=["attempts"],
        postgresql_where=sa.text(_OPEN),
    )
    op.create_index(
        "ix_outbox_events_failed",
        "outbox_events",
        ["queue", "failed_at"],
        postgresql_where=sa.text("failed_at IS NOT NULL"),
    )
    op.create_index(
        "ix_outbox_events_done", "outbox_events", ["done_at"], postgresql_where=sa.text("done_at IS NOT NULL")
    )
    op.create_index(
        "ix_webhook_inbox_dead",
        "webhook_inbox",
        ["finished_at"],
        postgresql_where=sa.text("status = 'dead'"),
    )
    op.create_index(
        "ix_webhook_inbox_finished",
        "webhook_inbox",
        ["finished_at"],
        postgresql_where=sa.text(_COMPLETED),
    )


def downgrade() -> None:
    """Drop them, and make the indexes as they were."""
    for table, name in (
        ("webhook_inbox", "ix_webhook_inbox_finished"),
        ("webhook_inbox", "ix_webhook_inbox_dead"),
        ("outbox_events", "ix_outbox_events_done"),
        ("outbox_events", "ix_outbox_events_failed"),
        ("outbox_events", "ix_outbox_events_due"),
    ):
        op.drop_index(name, table)
    op.create_index("ix_outbox_events_due", "outbox_events", ["due_at"], postgresql_where=sa.text(_OPEN))
    op.execute("DROP TRIGGER webhook_inbox_completed ON webhook_inbox")
    op.execute("DROP TRIGGER outbox_events_completed ON outbox_events")
    op.execute("DROP FUNCTION count_completed()")
    op.drop_table("queue_counts")
    op.drop_table("periodic_tasks")
