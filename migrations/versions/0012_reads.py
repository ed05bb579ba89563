"""What staff read of all orders: their indexes; accounts that buyers transfer to; filters of long statements."""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the indexes of the table of orders, of a campus's orders, and of what waits long.

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
    _index_statements()


_OWNED = sa.text("balance_after_minor IS NOT NULL")


def _index_statements() -> None:
    """Write each entry's kind beside it, and make the indexes of a statement's filters."""
    op.add_column(
        "ledger_entries",
        sa.Column(
            "kind",
            sa.Text(),
            nullable=True,
            comment="The transaction's, so that statements find it by an index",
        ),
    )
    # What only grows is changed this once, by its own transaction's word.
    op.execute("ALTER TABLE ledger_entries DISABLE TRIGGER ledger_entries_append_only")
    op.execute(
        "UPDATE ledger_entries e SET kind = t.kind FROM ledger_transactions t WHERE t.id = e.transaction_id"
    )
    op.execute("ALTER TABLE ledger_entries ENABLE TRIGGER ledger_entries_append_only")
    op.alter_column("ledger_entries", "kind", nullable=False)
    for name, columns in (
        ("kind", ["account_id", "kind", sa.text("id DESC")]),
        ("direction", ["account_id", "direction", sa.text("id DESC")]),
        ("time", ["account_id", "created_at", "id"]),
    ):
        op.create_index(f"ix_ledger_entries_{name}", "ledger_entries", columns, postgresql_where=_OWNED)


def downgrade() -> None:
    """Drop them."""
    for name in ("time", "direction", "kind"):
        op.drop_index(f"ix_ledger_entries_{name}", "ledger_entries")
    op.drop_column("ledger_entries", "kind")
    op.drop_table("transfer_accounts")
    for name in ("delivering", "accepting", "campus", "created"):
        op.drop_index(f"ix_orders_{name}", "orders")
