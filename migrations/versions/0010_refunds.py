"""Settled charges by their own, refunds, and orders that are paid from the wallet."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None

_MOMENT = sa.TIMESTAMP(timezone=True)
_NOW = sa.text("now()")
_ID = sa.text("uuidv7()")


def upgrade() -> None:
    """Make the tables, and write a row for each charge that was settled before."""
    op.add_column(
        "orders",
        sa.Column(
            "wallet_minor",
            sa.BigInteger(),
            server_default=sa.text("0"),
            nullable=False,
            comment="What of the total the buyer's wallet paid when it was placed",
        ),
    )
    op.create_check_constraint(
        op.f("ck_orders_wallet_part"), "orders", "wallet_minor BETWEEN 0 AND total_minor"
    )
    for column in ("disputed_at", "refunded_at"):
        op.add_column("orders", sa.Column(column, _MOMENT, nullable=True))
    op.add_column(
        "quarantined_charges",
        sa.Column(
            "resolution",
            sa.Text(),
            nullable=True,
            comment="What finance, or the buyer's further money, made of it",
        ),
    )
    op.add_column(
        "quarantined_charges", sa.Column("resolution_note", sa.Text(), nullable=True, comment="The officer's")
    )
    op.add_column("quarantined_charges", sa.Column("resolved_by", sa.Uuid(), nullable=True))
    op.create_check_constraint(
        op.f("ck_quarantined_charges_resolved_at"),
        "quarantined_charges",
        "(status = 'resolved') = (resolved_at IS NOT NULL)",
    )
    op.create_index("ix_quarantined_charges_created", "quarantined_charges", ["created_at", "id"])
    op.create_foreign_key(
        op.f("fk_quarantined_charges_resolved_by"),
        "quarantined_charges",
        "profiles",
        ["resolved_by"],
        ["id"],
    )
    # An order of a checkout may be covered by the wallet while the others are not.
    op.drop_constraint(op.f("ck_payment_allocations_amount_positive"), "payment_allocations")
    op.create_check_constraint(
        op.f("ck_payment_allocations_amount_not_negative"), "payment_allocations", "amount_minor >= 0"
    )
    _create_charges()
    _create_refunds()
    op.execute(_KNOWN_CHARGES)


_KNOWN_CHARGES = """
    INSERT INTO gateway_charges (gateway_charge_id, intent_id, outcome, amount_minor, fees_minor, principal_minor,
        currency, channel, ledger_transaction_id, paid_at, created_at)
    SELECT q.gateway_charge_id, q.intent_id, 'quarantined', q.amount_minor, q.fees_minor, coalesce(held.minor, 0),
        q.currency, 'unknown', q.ledger_transaction_id, NULL, q.created_at
    FROM quarantined_charges q
        CROSS JOIN LATERAL (
            SELECT sum(e.amount_minor)::bigint AS minor
            FROM ledger_entries e JOIN ledger_accounts a ON a.id = e.account_id
            WHERE e.transaction_id = q.ledger_transaction_id AND a.kind = 'quarantine' AND e.direction = 'credit'
        ) held
    UNION ALL
    SELECT i.gateway_charge_id, i.id, 'applied', booked.minor, 0, booked.minor, i.currency,
        coalesce(i.channel, 'unknown'), t.id, i.settled_at, t.created_at
    FROM payment_intents i
        JOIN ledger_transactions t ON t.kind = 'payment' AND t.source = 'charge:' || i.gateway_charge_id
        CROSS JOIN LATERAL (
            SELECT sum(e.amount_minor)::bigint AS minor
            FROM ledger_entries e JOIN ledger_accounts a ON a.id = e.account_id
            WHERE e.transaction_id = t.id AND a.kind = 'gateway_clearing' AND e.direction = 'debit'
        ) booked
    WHERE i.gateway_charge_id IS NOT NULL
    ON CONFLICT DO NOTHING
"""


def _create_charges() -> None:
    op.create_table(
        "gateway_charges",
        sa.Column("id", sa.Uuid(), server_default=_ID, nullable=False),
        sa.Column("gateway_charge_id", sa.Text(), nullable=False),
        sa.Column("intent_id", sa.Uuid(), nullable=False),
        sa.Column("outcome", sa.Text(), nullable=False),
        sa.Column("amount_minor", sa.BigInteger(), nullable=False),
        sa.Column("fees_minor", sa.BigInteger(), nullable=False),
        sa.Column("principal_minor", sa.BigInteger(), nullable=False),
        sa.Column("refunded_minor", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("currency", sa.Text(), nullable=False),
        sa.Column("channel", sa.Text(), nullable=False),
        sa.Column("ledger_transaction_id", sa.Uuid(), nullable=True),
        sa.Column("paid_at", _MOMENT, nullable=True),
        sa.Column("created_at", _MOMENT, server_default=_NOW, nullable=False),
        sa.CheckConstraint(
            "outcome IN ('applied', 'quarantined', 'returned')", name=op.f("ck_gateway_charges_outcome")
        ),
        sa.CheckConstraint(
            "refunded_minor BETWEEN 0 AND greatest(principal_minor, 0)",
            name=op.f("ck_gateway_charges_refunded"),
        ),
        sa.ForeignKeyConstraint(
            ["intent_id"], ["payment_intents.id"], name=op.f("fk_gateway_charges_intent_id")
        ),
        sa.ForeignKeyConstraint(
            ["ledger_transaction_id"],
            ["ledger_transactions.id"],
            name=op.f("fk_gateway_charges_ledger_transaction_id"),
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_gateway_charges")),
        sa.UniqueConstraint("gateway_charge_id", name=op.f("uq_gateway_charges_gateway_charge_id")),
    )
    op.create_index("ix_gateway_charges_created", "gateway_charges", ["created_at", "id"])
    op.create_index(op.f("ix_gateway_charges_intent_id"), "gateway_charges", ["intent_id"])


def _create_refunds() -> None:
    op.create_table(
        "refunds",
        sa.Column("id", sa.Uuid(), server_default=_ID, nullable=False),
        sa.Column("order_id", sa.Uuid(), nullable=True),
        sa.Column("charge_id", sa.Uuid(), nullable=True),
        sa.Column("buyer_id", sa.Uuid(), nullable=False),
        sa.Column("destination", sa.Text(), nullable=False),
        sa.Column("amount_minor", sa.BigInteger(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("cause", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("requested_by", sa.Uuid(), nullable=True),
        sa.Column("gateway_refund_id", sa.Text(), nullable=True),
        sa.Column(
            "attempt",
            sa.Integer(),
            server_default=sa.text("1"),
            nullable=False,
            comment="Counts up when finance tries again what failed",
        ),
        sa.Column(
            "asked_at",
            _MOMENT,
            nullable=True,
            comment="When the gateway was first asked, at this attempt",
        ),
        sa.Column(
            "asking_until",
            _MOMENT,
            nullable=True,
            comment="Somebody is asking the gateway; nobody else does until then",
        ),
        sa.Column("settled_at", _MOMENT, nullable=True),
        sa.Column("created_at", _MOMENT, server_default=_NOW, nullable=False),
        sa.Column("updated_at", _MOMENT, server_default=_NOW, nullable=False),
        sa.CheckConstraint("destination IN ('gateway', 'wallet')", name=op.f("ck_refunds_destination")),
        sa.CheckConstraint(
            "status IN ('pending', 'submitted', 'processed', 'failed', 'needs_attention', 'credited')",
            name=op.f("ck_refunds_status"),
        ),
        sa.CheckConstraint("amount_minor > 0", name=op.f("ck_refunds_amount_positive")),
        sa.CheckConstraint(
            "(destination = 'gateway') = (charge_id IS NOT NULL)", name=op.f("ck_refunds_charge_of_gateway")
        ),
        sa.ForeignKeyConstraint(["order_id"], ["orders.id"], name=op.f("fk_refunds_order_id")),
        sa.ForeignKeyConstraint(["charge_id"], ["gateway_charges.id"], name=op.f("fk_refunds_charge_id")),
        sa.ForeignKeyConstraint(["buyer_id"], ["profiles.id"], name=op.f("fk_refunds_buyer_id")),
        sa.ForeignKeyConstraint(["requested_by"], ["profiles.id"], name=op.f("fk_refunds_requested_by")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_refunds")),
        sa.UniqueConstraint("cause", name=op.f("uq_refunds_cause")),
        sa.UniqueConstraint("gateway_refund_id", name=op.f("uq_refunds_gateway_refund_id")),
    )
    op.create_index(
        "ix_refunds_open",
        "refunds",
        ["created_at", "id"],
        postgresql_where=sa.text("status IN ('pending', 'submitted', 'failed', 'needs_attention')"),
    )
    for column in ("order_id", "charge_id", "buyer_id"):
        op.create_index(op.f(f"ix_refunds_{column}"), "refunds", [column])


def downgrade() -> None:
    """Drop them."""
    op.drop_table("refunds")
    op.drop_table("gateway_charges")
    op.drop_constraint(op.f("ck_payment_allocations_amount_not_negative"), "payment_allocations")
    op.execute("DELETE FROM payment_allocations WHERE amount_minor = 0")
    op.create_check_constraint(
        op.f("ck_payment_allocations_amount_positive"), "payment_allocations", "amount_minor > 0"
    )
    op.drop_index("ix_quarantined_charges_created", "quarantined_charges")
    op.drop_constraint(op.f("ck_quarantined_charges_resolved_at"), "quarantined_charges")
    op.drop_column("quarantined_charges", "resolved_by")
    op.drop_column("quarantined_charges", "resolution_note")
    op.drop_column("quarantined_charges", "resolution")
    for column in ("refunded_at", "disputed_at", "wallet_minor"):
        op.drop_column("orders", column)
