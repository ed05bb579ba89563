"""What staff read of all orders: their indexes; accounts that buyers transfer to."""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """This function will make the indexes of the table of orders, of a campus's orders, and of what waits long.

    And the table of the accounts that the gateway gave for single payments.
    """
    op.create_index("ix_orders_created", "orders", ["created_at", "id"])
    op.create_index(
        "ix_orders_campus",
        "orders",
        ["campus_id", sa.text("id DESC")],
        postgresql_where=sa.text("paid_at IS NOT NULL"),
    )
    op.create_index(
        "ix_orders_accepting", "orders", ["paid_at"], postgresql_where=sa.text("status = 'paid_escrow'")
    )
    op.create_index(
        "ix_orders_delivering", "orders", ["shipped_at"], postgresql_where=sa.text("status = 'shipped'")
    )
    op.create_table(
        "transfer_accounts",
        sa.Column("intent_id", sa.Uuid(), nullable=False),
        sa.Column("bank_name", sa.Text(), nullable=False),
        sa.Column("account_number", sa.Text(), nullable=False),
        sa.Column("account_name", sa.Text(), nullable=False),
        sa.Column("expires_at", sa.TIMESTAMP(timezone=True), nullable=False),
        sa.Column("created_at", sa.TIMESTAMP(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.ForeignKeyConstraint(
            ["intent_id"], ["payment_intents.id"], name=op.f("fk_transfer_accounts_intent_id")
        ),
        sa.PrimaryKeyConstraint("intent_id", name=op.f("pk_transfer_accounts")),
    )


def downgrade() -> None:
    """This function will drop them."""
    op.drop_table("transfer_accounts")
    for name in ("delivering", "accepting", "campus", "created"):
        op.drop_index(f"ix_orders_{name}", "orders")
