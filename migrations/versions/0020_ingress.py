"""What customers write, what became of messages to them, and what the gateway tells beside charges and refunds."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0020"
down_revision = "0019"
branch_labels = None
depends_on = None

_MOMENT = sa.TIMESTAMP(timezone=True)


def upgrade() -> None:
    """Make the tables of contacts, messages, deliveries, disputes and payout exceptions."""
    op.create_index("ix_profiles_phone", "profiles", ["phone"], postgresql_where=sa.text("phone IS NOT NULL"))
    op.create_table(
        "support_contacts",
        _id(),
        sa.Column("sender", sa.Text(), nullable=False, comment="The provider's own name of the sender"),
        sa.Column(
            "phone", sa.Text(), nullable=True, comment="In the international form, where it is a number"
        ),
        sa.Column(
            "display_name", sa.Text(), nullable=True, comment="As the sender chose it; it proves nothing"
        ),
        sa.Column(
            "profile_id",
            sa.Uuid(),
            nullable=True,
            comment="The one profile that has the number; none where several have",
        ),
        sa.Column("first_message_at", _MOMENT, nullable=False),
        sa.Column("last_message_at", _MOMENT, nullable=False),
        _now("created_at"),
        sa.CheckConstraint(
            "first_message_at <= last_message_at", name=op.f("ck_support_contacts_messages_in_order")
        ),
        sa.ForeignKeyConstraint(["profile_id"], ["profiles.id"], name=op.f("fk_support_contacts_profile_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_support_contacts")),
        sa.UniqueConstraint("sender", name=op.f("uq_support_contacts_sender")),
    )
    op.create_index("ix_support_contacts_profile", "support_contacts", ["profile_id"])
    op.create_table(
        "support_contact_messages",
        _id(),
        sa.Column("contact_id", sa.Uuid(), nullable=False),
        sa.Column("provider_message_id", sa.Text(), nullable=False),
        sa.Column("type", sa.Text(), nullable=False),
        sa.Column("text", sa.Text(), nullable=True),
        sa.Column("content", JSONB(), nullable=True, comment="What its type is described by"),
        sa.Column(
            "replies_to", sa.Text(), nullable=True, comment="The provider's id of the message it answers"
        ),
        sa.Column("sent_at", _MOMENT, nullable=False, comment="As the provider says"),
        _now("received_at"),
        sa.ForeignKeyConstraint(
            ["contact_id"], ["support_contacts.id"], name=op.f("fk_support_contact_messages_contact_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_support_contact_messages")),
        sa.UniqueConstraint(
            "provider_message_id", name=op.f("uq_support_contact_messages_provider_message_id")
        ),
    )
    op.create_index(
        "ix_support_contact_messages_contact", "support_contact_messages", ["contact_id", "sent_at", "id"]
    )
    _make_delivery_logs()
    _make_disputes()
    _make_payout_exceptions()


def _make_delivery_logs() -> None:
    op.create_table(
        "notification_delivery_logs",
        _id(),
        sa.Column("notification_id", sa.Uuid(), nullable=True),
        sa.Column("user_id", sa.Uuid(), nullable=True),
        sa.Column("channel", sa.Text(), nullable=False),
        sa.Column("provider_message_id", sa.Text(), nullable=True),
        sa.Column("status", sa.Text(), server_default="queued", nullable=False),
        sa.Column("status_at", _MOMENT, nullable=True, comment="When it came to that, as the provider says"),
        sa.Column("error_code", sa.Text(), nullable=True, comment="The provider's, of a message that failed"),
        _now("created_at"),
        _now("updated_at"),
        sa.CheckConstraint(
            "channel IN ('push', 'messaging', 'sms', 'email')",
            name=op.f("ck_notification_delivery_logs_channel"),
        ),
        sa.CheckConstraint(
            "status IN ('queued', 'sent', 'failed', 'delivered', 'read')",
            name=op.f("ck_notification_delivery_logs_status"),
        ),
        sa.ForeignKeyConstraint(
            ["notification_id"],
            ["notifications.id"],
            name=op.f("fk_notification_delivery_logs_notification_id"),
        ),
        sa.ForeignKeyConstraint(
            ["user_id"], ["profiles.id"], name=op.f("fk_notification_delivery_logs_user_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_notification_delivery_logs")),
        sa.UniqueConstraint(
            "provider_message_id", name=op.f("uq_notification_delivery_logs_provider_message_id")
        ),
    )
    op.create_index(
        op.f("ix_notification_delivery_logs_notification_id"),
        "notification_delivery_logs",
        ["notification_id"],
    )
    op.create_index(
        "ix_notification_delivery_logs_user",
        "notification_delivery_logs",
        ["user_id", sa.text("id DESC")],
    )


def _make_disputes() -> None:
    op.create_table(
        "charge_disputes",
        _id(),
        sa.Column("gateway_dispute_id", sa.Text(), nullable=False),
        sa.Column("intent_id", sa.Uuid(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("gateway_status", sa.Text(), nullable=True, comment="The gateway's own word"),
        sa.Column("resolution", sa.Text(), nullable=True, comment="The gateway's own word for how it ended"),
        sa.Column("category", sa.Text(), nullable=True),
        sa.Column("amount_minor", sa.BigInteger(), nullable=True),
        sa.Column("due_at", _MOMENT, nullable=True, comment="When it must be answered at the gateway"),
        _now("opened_at"),
        sa.Column("resolved_at", _MOMENT, nullable=True),
        _now("updated_at"),
        sa.CheckConstraint("status IN ('open', 'resolved')", name=op.f("ck_charge_disputes_status")),
        sa.CheckConstraint(
            "(status = 'resolved') = (resolved_at IS NOT NULL)", name=op.f("ck_charge_disputes_resolved_at")
        ),
        sa.ForeignKeyConstraint(
            ["intent_id"], ["payment_intents.id"], name=op.f("fk_charge_disputes_intent_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_charge_disputes")),
        sa.UniqueConstraint("gateway_dispute_id", name=op.f("uq_charge_disputes_gateway_dispute_id")),
    )
    op.create_index(op.f("ix_charge_disputes_intent_id"), "charge_disputes", ["intent_id"])


def _make_payout_exceptions() -> None:
    op.create_table(
        "payout_exceptions",
        _id(),
        sa.Column("gateway_transfer_id", sa.Text(), nullable=False),
        sa.Column("reference", sa.Text(), nullable=False),
        sa.Column("outcome", sa.Text(), nullable=False),
        sa.Column("amount_minor", sa.BigInteger(), nullable=False),
        sa.Column("currency", sa.Text(), nullable=False),
        _now("created_at"),
        sa.Column("resolved_at", _MOMENT, nullable=True),
        sa.Column("resolved_by", sa.Uuid(), nullable=True),
        sa.CheckConstraint(
            "outcome IN ('failed', 'reversed', 'unexpected')", name=op.f("ck_payout_exceptions_outcome")
        ),
        sa.CheckConstraint(
            "(resolved_at IS NULL) = (resolved_by IS NULL)", name=op.f("ck_payout_exceptions_resolved")
        ),
        sa.ForeignKeyConstraint(
            ["resolved_by"], ["profiles.id"], name=op.f("fk_payout_exceptions_resolved_by")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_payout_exceptions")),
        sa.UniqueConstraint(
            "gateway_transfer_id", "outcome", name=op.f("uq_payout_exceptions_gateway_transfer_id_outcome")
        ),
    )
    op.create_index("ix_payout_exceptions_reference", "payout_exceptions", ["reference"])
    op.create_index(
        "ix_payout_exceptions_open",
        "payout_exceptions",
        ["created_at"],
        postgresql_where=sa.text("resolved_at IS NULL"),
    )


def downgrade() -> None:
    """Drop them."""
    op.drop_table("payout_exceptions")
    op.drop_table("charge_disputes")
    op.drop_table("notification_delivery_logs")
    op.drop_table("support_contact_messages")
    op.drop_table("support_contacts")
    op.drop_index("ix_profiles_phone", "profiles")


def _id() -> "sa.Column[object]":
    return sa.Column("id", sa.Uuid(), server_default=sa.text("uuidv7()"), nullable=False)


def _now(name: str) -> "sa.Column[object]":
    return sa.Column(name, _MOMENT, server_default=sa.text("now()"), nullable=False)
