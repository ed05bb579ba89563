"""Alerts, and that they were told; which dead letters wait."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None

_MOMENT = sa.TIMESTAMP(timezone=True)
_OPEN = sa.text("resolved_at IS NULL")
_LATEST_FIRST = [sa.text("raised_at DESC"), sa.text("id DESC")]


def upgrade() -> None:
    """Make the tables of alerts and of the messages about them."""
    op.create_table(
        "alerts",
        sa.Column("id", sa.Uuid(), server_default=sa.text("uuidv7()"), nullable=False),
        sa.Column("identifier", sa.Text(), nullable=False),
        sa.Column("severity", sa.Text(), nullable=False, comment="The worst that it was raised with"),
        sa.Column("subject", sa.Text(), nullable=False, comment="What it is about; open once for each"),
        sa.Column("title", sa.Text(), nullable=False),
        sa.Column(
            "facts",
            JSONB(),
            nullable=False,
            comment="Of the first time; ids, counts, amounts",
        ),
        sa.Column("latest_facts", JSONB(), nullable=False),
        sa.Column("occurrences", sa.BigInteger(), server_default=sa.text("1"), nullable=False),
        sa.Column("raised_at", _MOMENT, nullable=False),
        sa.Column("last_raised_at", _MOMENT, nullable=False),
        sa.Column("resolved_at", _MOMENT, nullable=True),
        sa.Column(
            "resolution",
            sa.Text(),
            nullable=True,
            comment="Who resolved it: the rule itself, or a person",
        ),
        sa.Column("resolved_by", sa.Uuid(), nullable=True),
        sa.Column("note", sa.Text(), nullable=True, comment="Why it is over"),
        sa.CheckConstraint("identifier ~ '^[A-Z][A-Z0-9_]{2,63}$'", name=op.f("ck_alerts_identifier")),
        sa.CheckConstraint("severity IN ('SEV-1', 'SEV-2', 'SEV-3')", name=op.f("ck_alerts_severity")),
        sa.CheckConstraint("occurrences > 0", name=op.f("ck_alerts_occurrences")),
        sa.CheckConstraint(
            "resolution IN ('officer', 'operator', 'rule')", name=op.f("ck_alerts_resolution")
        ),
        sa.CheckConstraint("(resolved_at IS NULL) = (resolution IS NULL)", name=op.f("ck_alerts_resolved")),
        sa.CheckConstraint(
            "resolution IS DISTINCT FROM 'officer' OR resolved_by IS NOT NULL", name=op.f("ck_alerts_officer")
        ),
        sa.ForeignKeyConstraint(["resolved_by"], ["profiles.id"], name=op.f("fk_alerts_resolved_by")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_alerts")),
    )
    op.create_index(
        "uq_alerts_open", "alerts", ["identifier", "subject"], unique=True, postgresql_where=_OPEN
    )
    op.create_index("ix_alerts_raised", "alerts", _LATEST_FIRST)
    op.create_index("ix_alerts_unresolved", "alerts", _LATEST_FIRST, postgresql_where=_OPEN)
    op.create_table(
        "alert_messages",
        sa.Column("alert_id", sa.Uuid(), nullable=False),
        sa.Column("channel", sa.Text(), nullable=False),
        sa.Column("event", sa.Text(), nullable=False),
        sa.Column("sending_until", _MOMENT, nullable=False),
        sa.Column("sent_at", _MOMENT, nullable=True),
        sa.CheckConstraint("event IN ('raised', 'resolved')", name=op.f("ck_alert_messages_event")),
        sa.ForeignKeyConstraint(["alert_id"], ["alerts.id"], name=op.f("fk_alert_messages_alert_id")),
        sa.PrimaryKeyConstraint("alert_id", "channel", "event", name=op.f("pk_alert_messages")),
    )
    # Asked for with each event that is replayed, of which there may be thousands.
    op.create_index(
        "ix_dead_letter_webhooks_waiting",
        "dead_letter_webhooks",
        ["provider", "event_type"],
        postgresql_where=sa.text("replayed_at IS NULL"),
    )


def downgrade() -> None:
    """Drop them."""
    op.drop_index("ix_dead_letter_webhooks_waiting", "dead_letter_webhooks")
    op.drop_table("alert_messages")
    op.drop_table("alerts")
