"""Reconciliation: its runs, what they find, the gateway's movements, and the account of the company's own money."""

from uuid import UUID, uuid5

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0024"
down_revision = "0023"
branch_labels = None
depends_on = None

_MOMENT = sa.TIMESTAMP(timezone=True)
# As marketplace.ledger.accounts derives ids; repeated here, since migrations must not change with the code.
_NAMESPACE = UUID("5f0c2a44-5d0f-4b0e-9a51-6c1d7e8f9a10")
_OWN_FUNDS = "own_funds"


def upgrade() -> None:
    """Make the tables and the account."""
    op.execute(
        sa.text(
            "INSERT INTO ledger_accounts (id, kind, normal_side) VALUES (:id, :kind, 'credit') ON CONFLICT DO NOTHING"
        ).bindparams(id=uuid5(_NAMESPACE, _OWN_FUNDS), kind=_OWN_FUNDS)
    )
    _make_runs()
    _make_exceptions()
    _make_movements()
    _make_records()
    _make_differences()


def downgrade() -> None:
    """Drop the tables; an account that has entries stays, as they do."""
    for table in (
        "reconciliation_differences",
        "reconciliation_records",
        "gateway_movements",
        "reconciliation_exceptions",
        "reconciliations",
    ):
        op.drop_table(table)
    op.execute(
        sa.text(
            "DELETE FROM ledger_accounts a WHERE a.kind = :kind"
            " AND NOT EXISTS (SELECT FROM ledger_entries e WHERE e.account_id = a.id)"
        ).bindparams(kind=_OWN_FUNDS)
    )


def _id() -> sa.Column[object]:
    return sa.Column("id", sa.Uuid(), server_default=sa.text("uuidv7()"), nullable=False)


def _now(name: str) -> sa.Column[object]:
    return sa.Column(name, _MOMENT, server_default=sa.text("now()"), nullable=False)


def _make_runs() -> None:
    table = "reconciliations"
    op.create_table(
        table,
        _id(),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("started_by", sa.Text(), nullable=False),
        sa.Column("officer_id", sa.Uuid(), nullable=True),
        sa.Column(
            "starts", _MOMENT, nullable=False, comment="The gateway's lists are looked through from here on"
        ),
        sa.Column("ends", _MOMENT, nullable=False),
        sa.Column(
            "claimed_until", _MOMENT, nullable=True, comment="A worker is at it; nobody else is until then"
        ),
        sa.Column("gateway_minor", sa.BigInteger(), nullable=True),
        sa.Column("books_minor", sa.BigInteger(), nullable=True),
        sa.Column("in_flight_minor", sa.BigInteger(), nullable=True),
        sa.Column("drift_minor", sa.BigInteger(), nullable=True),
        sa.Column(
            "figures",
            postgresql.JSONB(),
            server_default=sa.text("'{}'"),
            nullable=False,
            comment="How much was looked through",
        ),
        sa.Column("failure", sa.Text(), nullable=True),
        _now("created_at"),
        sa.Column("finished_at", _MOMENT, nullable=True),
        *(
            sa.CheckConstraint(rule, name=op.f(f"ck_{table}_{name}"))
            for name, rule in {
                "status": "status IN ('running', 'matched', 'drift', 'failed')",
                "started_by": "started_by IN ('officer', 'schedule', 'operator')",
                "finished": "(status = 'running') = (finished_at IS NULL)",
                "window_in_order": "starts < ends",
                "failure_of_failed": "(status = 'failed') = (failure IS NOT NULL)",
                "adds_up": "status NOT IN ('matched', 'drift')"
                " OR gateway_minor = books_minor + in_flight_minor + drift_minor",
            }.items()
        ),
        sa.ForeignKeyConstraint(["officer_id"], ["profiles.id"], name=op.f(f"fk_{table}_officer_id")),
        sa.PrimaryKeyConstraint("id", name=op.f(f"pk_{table}")),
    )
    op.create_index(op.f(f"ix_{table}_officer_id"), table, ["officer_id"])
    op.create_index(
        "uq_reconciliations_running",
        table,
        ["status"],
        unique=True,
        postgresql_where=sa.text("status = 'running'"),
    )
    op.create_index("ix_reconciliations_status", table, ["status", sa.text("id DESC")])


def _make_exceptions() -> None:
    table = "reconciliation_exceptions"
    op.create_table(
        table,
        _id(),
        sa.Column("run_id", sa.Uuid(), nullable=False),
        sa.Column(
            "item",
            sa.Text(),
            nullable=False,
            comment="What it is about, the same in each run: charge:<id>, payout:<id>, ...",
        ),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("problem", sa.Text(), nullable=False),
        sa.Column("action", sa.Text(), nullable=False, comment="What is suggested"),
        sa.Column("here_minor", sa.BigInteger(), nullable=False, comment="What the books moved for it"),
        sa.Column(
            "there_minor", sa.BigInteger(), nullable=False, comment="What the gateway's balance moved for it"
        ),
        sa.Column("here_status", sa.Text(), nullable=True),
        sa.Column("there_status", sa.Text(), nullable=True),
        sa.Column("here_amount_minor", sa.BigInteger(), nullable=True),
        sa.Column("there_amount_minor", sa.BigInteger(), nullable=True),
        sa.Column("reference", sa.Text(), nullable=True),
        sa.Column("gateway_id", sa.Text(), nullable=True),
        sa.Column("order_id", sa.Uuid(), nullable=True),
        sa.Column("refund_id", sa.Uuid(), nullable=True),
        sa.Column("intent_id", sa.Uuid(), nullable=True),
        sa.Column("happened_at", _MOMENT, nullable=True),
        sa.Column(
            "proposed_resolution", sa.Text(), nullable=True, comment="What another officer has to confirm"
        ),
        sa.Column("proposed_by", sa.Uuid(), nullable=True),
        sa.Column("proposed_at", _MOMENT, nullable=True),
        sa.Column("proposal_note", sa.Text(), nullable=True),
        sa.Column("resolved_at", _MOMENT, nullable=True),
        sa.Column("resolved_by", sa.Uuid(), nullable=True),
        sa.Column("resolution", sa.Text(), nullable=True),
        sa.Column("note", sa.Text(), nullable=True),
        _now("created_at"),
        sa.CheckConstraint(
            "problem IN ('missing_here', 'missing_there', 'amounts_differ', 'status_differs')",
            name=op.f(f"ck_{table}_problem"),
        ),
        sa.CheckConstraint("(resolved_at IS NULL) = (resolution IS NULL)", name=op.f(f"ck_{table}_resolved")),
        sa.CheckConstraint(
            "num_nulls(proposed_resolution, proposed_by, proposed_at, proposal_note) IN (0, 4)",
            name=op.f(f"ck_{table}_proposed"),
        ),
        *(
            sa.ForeignKeyConstraint([column], [target], name=op.f(f"fk_{table}_{column}"))
            for column, target in {
                "run_id": "reconciliations.id",
                "order_id": "orders.id",
                "refund_id": "refunds.id",
                "intent_id": "payout_transfer_intents.id",
                "proposed_by": "profiles.id",
                "resolved_by": "profiles.id",
            }.items()
        ),
        sa.PrimaryKeyConstraint("id", name=op.f(f"pk_{table}")),
    )
    op.create_index("uq_reconciliation_exceptions_item", table, ["run_id", "item"], unique=True)
    op.create_index("ix_reconciliation_exceptions_page", table, ["run_id", "id"])
    op.create_index(
        "ix_reconciliation_exceptions_order",
        table,
        ["order_id"],
        postgresql_where=sa.text("order_id IS NOT NULL"),
    )
    op.create_index(
        "ix_reconciliation_exceptions_proposed",
        table,
        ["proposed_at"],
        postgresql_where=sa.text("proposed_at IS NOT NULL"),
    )
    for column in ("refund_id", "intent_id", "proposed_by", "resolved_by"):
        op.create_index(op.f(f"ix_{table}_{column}"), table, [column])


def _make_movements() -> None:
    table = "gateway_movements"
    op.create_table(
        table,
        sa.Column("id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("row_id", sa.Text(), nullable=False),
        sa.Column("subject", sa.Uuid(), nullable=True, comment="Our refund, payout or dispute that it is of"),
        sa.Column("difference_minor", sa.BigInteger(), nullable=False),
        sa.Column("balance_minor", sa.BigInteger(), nullable=False),
        sa.Column("happened_at", _MOMENT, nullable=False),
        sa.Column(
            "read_by",
            sa.Uuid(),
            nullable=True,
            comment="The run that is reading them still: there may be a gap",
        ),
        sa.ForeignKeyConstraint(["read_by"], ["reconciliations.id"], name=op.f(f"fk_{table}_read_by")),
        sa.PrimaryKeyConstraint("id", name=op.f(f"pk_{table}")),
    )
    op.create_index("ix_gateway_movements_row", table, ["model", "row_id"])
    op.create_index(
        "ix_gateway_movements_read_by", table, ["read_by"], postgresql_where=sa.text("read_by IS NOT NULL")
    )


def _make_records() -> None:
    table = "reconciliation_records"
    texts = ("kind", "gateway_id", "reference", "status", "currency", "charge_id", "dispute_id")
    op.create_table(
        table,
        sa.Column("run_id", sa.Uuid(), nullable=False),
        *(sa.Column(name, sa.Text(), nullable=False) for name in texts),
        *(sa.Column(name, sa.BigInteger(), nullable=False) for name in ("amount_minor", "fee_minor")),
        sa.Column("subject", sa.Uuid(), nullable=True),
        *(sa.Column(name, _MOMENT, nullable=False) for name in ("created_at", "changed_at")),
        sa.ForeignKeyConstraint(["run_id"], ["reconciliations.id"], name=op.f(f"fk_{table}_run_id")),
        sa.PrimaryKeyConstraint("run_id", "kind", "gateway_id", name=op.f(f"pk_{table}")),
    )
    for column in ("reference", "subject"):
        op.create_index(f"ix_{table}_{column}", table, ["run_id", "kind", column])


def _make_differences() -> None:
    table = "reconciliation_differences"
    op.create_table(
        table,
        sa.Column("run_id", sa.Uuid(), nullable=False),
        sa.Column("item", sa.Text(), nullable=False),
        sa.Column("here_minor", sa.BigInteger(), nullable=False),
        sa.Column(
            "here_now_minor",
            sa.BigInteger(),
            nullable=False,
            comment="With what was booked while the run read",
        ),
        sa.Column("there_minor", sa.BigInteger(), nullable=False),
        sa.Column("gateway_id", sa.Text(), nullable=True),
        sa.Column("moved_at", _MOMENT, nullable=True),
        sa.Column("booked_at", _MOMENT, nullable=True),
        sa.ForeignKeyConstraint(["run_id"], ["reconciliations.id"], name=op.f(f"fk_{table}_run_id")),
        sa.PrimaryKeyConstraint("run_id", "item", name=op.f(f"pk_{table}")),
    )
