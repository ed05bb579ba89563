"""Payees: stores' policies, where people could be reached before, and what vendors have in escrow."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0025"
down_revision = "0024"
branch_labels = None
depends_on = None

_IN_ESCROW = "status IN ('paid_escrow', 'processing', 'shipped', 'disputed')"


def upgrade() -> None:
    """Add them; no store has policies yet, and of nobody a former contact is known."""
    op.add_column(
        "vendor_profiles",
        sa.Column(
            "policies",
            JSONB(),
            server_default=sa.text("'{}'"),
            nullable=False,
            comment="Any of returns, delivery, warranty: texts",
        ),
    )
    op.create_table(
        "former_contacts",
        sa.Column("id", sa.Uuid(), server_default=sa.text("uuidv7()"), nullable=False),
        sa.Column("user_id", sa.Uuid(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("contact", sa.Text(), nullable=False),
        sa.Column("replaced_at", sa.TIMESTAMP(timezone=True), nullable=False),
        sa.CheckConstraint("kind IN ('phone', 'email')", name=op.f("ck_former_contacts_kind")),
        sa.ForeignKeyConstraint(["user_id"], ["profiles.id"], name=op.f("fk_former_contacts_user_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_former_contacts")),
    )
    op.create_index("ix_former_contacts_user", "former_contacts", ["user_id", "replaced_at"])
    op.add_column(
        "notifications",
        sa.Column(
            "former_contact_id",
            sa.Uuid(),
            nullable=True,
            comment="It goes there alone, and stands in nobody's feed",
        ),
    )
    op.create_foreign_key(
        op.f("fk_notifications_former_contact_id"),
        "notifications",
        "former_contacts",
        ["former_contact_id"],
        ["id"],
    )
    op.create_index(
        "ix_notifications_former_contact",
        "notifications",
        ["former_contact_id"],
        postgresql_where=sa.text("former_contact_id IS NOT NULL"),
    )
    op.create_index(
        "ix_orders_vendor_in_escrow", "orders", ["status", "vendor_id"], postgresql_where=sa.text(_IN_ESCROW)
    )


def downgrade() -> None:
    """Drop them, with what was to go to former contacts."""
    op.drop_index("ix_orders_vendor_in_escrow", "orders")
    op.execute(
        "UPDATE notification_delivery_logs d SET notification_id = NULL FROM notifications n"
        " WHERE n.id = d.notification_id AND n.former_contact_id IS NOT NULL"
    )
    op.execute("DELETE FROM notifications WHERE former_contact_id IS NOT NULL")
    op.drop_column("notifications", "former_contact_id")
    op.drop_table("former_contacts")
    op.drop_column("vendor_profiles", "policies")
