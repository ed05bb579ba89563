"""Payouts: accounts, batches, approvals, intents and transfers."""

import sqlalchemy as sa
from alembic import op

revision = "0022"
down_revision = "0021"
branch_labels = None
depends_on = None

_MOMENT = sa.TIMESTAMP(timezone=True)
# Accounts are people's from here on, since not only vendors are paid.
_BANK_COLUMNS = {
    "bank_code": sa.Text(),
    "bank_account_number": sa.Text(),
    "bank_account_name": sa.Text(),
    "bank_account_changed_at": _MOMENT,
}


def upgrade() -> None:
    """Make the tables, and take over the bank accounts that vendors gave."""
    _make_accounts()
    _make_batches()
    _make_approvals()
    _make_intents()
    _make_transfers()


def downgrade() -> None:
    """Drop the tables, and give vendors their bank accounts back; those replaced are lost."""
    _give_accounts_back()
    for table in (
        "payout_transfers",
        "payout_transfer_intents",
        "payout_approvals",
        "payout_batches",
        "payout_accounts",
    ):
        op.drop_table(table)


def _id() -> sa.Column[object]:
    return sa.Column("id", sa.Uuid(), server_default=sa.text("uuidv7()"), nullable=False)


def _now(name: str) -> sa.Column[object]:
    return sa.Column(name, _MOMENT, server_default=sa.text("now()"), nullable=False)


def _make_accounts() -> None:
    op.create_table(
        "payout_accounts",
        _id(),
        sa.Column("user_id", sa.Uuid(), nullable=False),
        sa.Column("bank_code", sa.Text(), nullable=False),
        sa.Column("bank_name", sa.Text(), nullable=True),
        sa.Column("account_number", sa.Text(), nullable=False),
        sa.Column("account_name", sa.Text(), nullable=False, comment="As the bank says"),
        sa.Column(
            "recipient_code",
            sa.Text(),
            nullable=True,
            comment="The gateway's; made when it is first paid to, where it came from before payouts",
        ),
        _now("created_at"),
        sa.Column("replaced_at", _MOMENT, nullable=True),
        sa.CheckConstraint("account_number ~ '^[0-9]{10}$'", name=op.f("ck_payout_accounts_account_number")),
        sa.ForeignKeyConstraint(["user_id"], ["profiles.id"], name=op.f("fk_payout_accounts_user_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_payout_accounts")),
    )
    op.create_index(
        "uq_payout_accounts_current",
        "payout_accounts",
        ["user_id"],
        unique=True,
        postgresql_where=sa.text("replaced_at IS NULL"),
    )
    op.create_index("ix_payout_accounts_user", "payout_accounts", ["user_id", "created_at"])
    op.execute(
        """
        INSERT INTO payout_accounts (user_id, bank_code, account_number, account_name, created_at)
        SELECT user_id, bank_code, bank_account_number, coalesce(bank_account_name, display_name),
            coalesce(bank_account_changed_at, created_at)
        FROM vendor_profiles WHERE bank_code IS NOT NULL AND bank_account_number ~ '^[0-9]{10}$'
        """
    )
    # What no bank could be asked for is no account; everything else is kept where it was copied to.
    for name in _BANK_COLUMNS:
        op.drop_column("vendor_profiles", name)


def _give_accounts_back() -> None:
    for name, kind in _BANK_COLUMNS.items():
        op.add_column("vendor_profiles", sa.Column(name, kind, nullable=True))
    op.execute(
        """
        UPDATE vendor_profiles v SET bank_code = a.bank_code, bank_account_number = a.account_number,
            bank_account_name = a.account_name, bank_account_changed_at = a.created_at
        FROM payout_accounts a WHERE a.user_id = v.user_id AND a.replaced_at IS NULL
        """
    )


def _make_batches() -> None:
    op.create_table(
        "payout_batches",
        _id(),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("staged_by", sa.Uuid(), nullable=True),
        sa.Column(
            "content_hash", sa.Text(), nullable=False, comment="SHA-256 of what it pays, as it was staged"
        ),
        sa.Column("approved_hash", sa.Text(), nullable=True, comment="Of what the second officer approved"),
        sa.Column("approved_at", _MOMENT, nullable=True),
        sa.Column("rejected_by", sa.Uuid(), nullable=True),
        sa.Column("rejected_at", _MOMENT, nullable=True),
        sa.Column("rejection_reason", sa.Text(), nullable=True),
        sa.Column("dispatched_by", sa.Uuid(), nullable=True),
        sa.Column("dispatched_at", _MOMENT, nullable=True),
        sa.Column("finished_at", _MOMENT, nullable=True),
        sa.Column("revision", sa.BigInteger(), server_default=sa.text("1"), nullable=False),
        _now("created_at"),
        _now("updated_at"),
        sa.CheckConstraint(
            "status IN ('staged', 'approved', 'dispatching', 'completed', 'partially_failed', 'rejected')",
            name=op.f("ck_payout_batches_status"),
        ),
        sa.CheckConstraint(
            "(status = 'rejected') = (rejected_at IS NOT NULL)", name=op.f("ck_payout_batches_rejected")
        ),
        sa.CheckConstraint(
            "status IN ('staged', 'rejected') OR approved_hash IS NOT NULL",
            name=op.f("ck_payout_batches_approved"),
        ),
        *(
            sa.ForeignKeyConstraint([name], ["profiles.id"], name=op.f(f"fk_payout_batches_{name}"))
            for name in ("staged_by", "rejected_by", "dispatched_by")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_payout_batches")),
    )
    op.create_index("ix_payout_batches_status", "payout_batches", ["status", sa.text("id DESC")])


def _make_approvals() -> None:
    op.create_table(
        "payout_approvals",
        _id(),
        sa.Column("batch_id", sa.Uuid(), nullable=False),
        sa.Column("officer_id", sa.Uuid(), nullable=False),
        sa.Column("content_hash", sa.Text(), nullable=False),
        sa.Column("comment", sa.Text(), nullable=True),
        _now("created_at"),
        sa.ForeignKeyConstraint(
            ["batch_id"], ["payout_batches.id"], name=op.f("fk_payout_approvals_batch_id")
        ),
        sa.ForeignKeyConstraint(["officer_id"], ["profiles.id"], name=op.f("fk_payout_approvals_officer_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_payout_approvals")),
        sa.UniqueConstraint(
            "batch_id",
            "officer_id",
            "content_hash",
            name=op.f("uq_payout_approvals_batch_id_officer_id_content_hash"),
        ),
    )
    op.create_index(op.f("ix_payout_approvals_officer_id"), "payout_approvals", ["officer_id"])


def _make_intents() -> None:
    name = "payout_transfer_intents"
    op.create_table(
        name,
        _id(),
        sa.Column("batch_id", sa.Uuid(), nullable=True),
        sa.Column("user_id", sa.Uuid(), nullable=False),
        sa.Column("vendor_id", sa.Uuid(), nullable=True),
        sa.Column("account_id", sa.Uuid(), nullable=False),
        sa.Column("amount_minor", sa.BigInteger(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column(
            "asked_for",
            sa.Boolean(),
            server_default=sa.text("false"),
            nullable=False,
            comment="By the payee, before it was staged",
        ),
        sa.Column("failure_reason", sa.Text(), nullable=True, comment="In words for the payee"),
        sa.Column("stalled_at", _MOMENT, nullable=True, comment="Flagged, having been pending over 48 hours"),
        _now("created_at"),
        _now("updated_at"),
        sa.CheckConstraint(
            "status IN ('pending', 'submitted', 'success', 'failed', 'reversed', 'unknown', 'cancelled')",
            name=op.f(f"ck_{name}_status"),
        ),
        sa.CheckConstraint("amount_minor > 0", name=op.f(f"ck_{name}_amount_positive")),
        sa.CheckConstraint(
            "batch_id IS NOT NULL OR status IN ('pending', 'cancelled')",
            name=op.f(f"ck_{name}_sent_in_batch"),
        ),
        sa.ForeignKeyConstraint(["batch_id"], ["payout_batches.id"], name=op.f(f"fk_{name}_batch_id")),
        sa.ForeignKeyConstraint(["user_id"], ["profiles.id"], name=op.f(f"fk_{name}_user_id")),
        sa.ForeignKeyConstraint(["vendor_id"], ["vendor_profiles.id"], name=op.f(f"fk_{name}_vendor_id")),
        sa.ForeignKeyConstraint(["account_id"], ["payout_accounts.id"], name=op.f(f"fk_{name}_account_id")),
        sa.PrimaryKeyConstraint("id", name=op.f(f"pk_{name}")),
    )
    op.create_index(
        f"uq_{name}_waiting",
        name,
        ["user_id", "vendor_id"],
        unique=True,
        postgresql_where=sa.text("status = 'pending'"),
        postgresql_nulls_not_distinct=True,
    )
    op.create_index(f"ix_{name}_batch", name, ["batch_id", "id"])
    op.create_index(f"ix_{name}_vendor", name, ["vendor_id", sa.text("id DESC")])
    op.create_index(f"ix_{name}_user", name, ["user_id", sa.text("id DESC")])
    op.create_index(op.f(f"ix_{name}_account_id"), name, ["account_id"])
    op.create_index(
        f"ix_{name}_open",
        name,
        ["batch_id", "id"],
        postgresql_where=sa.text("status IN ('pending', 'submitted', 'unknown')"),
    )


def _make_transfers() -> None:
    op.create_table(
        "payout_transfers",
        _id(),
        sa.Column("intent_id", sa.Uuid(), nullable=False),
        sa.Column(
            "reference",
            sa.Text(),
            server_default=sa.text("'payout-' || replace(gen_random_uuid()::text, '-', '')"),
            nullable=False,
        ),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("gateway_transfer_id", sa.Text(), nullable=True),
        sa.Column("transfer_code", sa.Text(), nullable=True),
        sa.Column("fee_minor", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column(
            "attempts",
            sa.BigInteger(),
            server_default=sa.text("0"),
            nullable=False,
            comment="How often it was asked about",
        ),
        sa.Column(
            "times_returned",
            sa.BigInteger(),
            server_default=sa.text("0"),
            nullable=False,
            comment="How often it came back, or was said not to have left",
        ),
        sa.Column("ask_at", _MOMENT, nullable=True, comment="When the gateway is asked what became of it"),
        sa.Column("sent_at", _MOMENT, nullable=True, comment="When the call began that sends it"),
        _now("created_at"),
        _now("updated_at"),
        sa.CheckConstraint("reference ~ '^payout-[0-9a-f]{32}$'", name=op.f("ck_payout_transfers_reference")),
        sa.CheckConstraint(
            "status IN ('pending', 'submitted', 'success', 'unknown')",
            name=op.f("ck_payout_transfers_status"),
        ),
        sa.ForeignKeyConstraint(
            ["intent_id"], ["payout_transfer_intents.id"], name=op.f("fk_payout_transfers_intent_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_payout_transfers")),
        sa.UniqueConstraint("intent_id", name=op.f("uq_payout_transfers_intent_id")),
        sa.UniqueConstraint("reference", name=op.f("uq_payout_transfers_reference")),
        sa.UniqueConstraint("transfer_code", name=op.f("uq_payout_transfers_transfer_code")),
    )
    op.create_index(
        "ix_payout_transfers_due",
        "payout_transfers",
        ["ask_at"],
        postgresql_where=sa.text("ask_at IS NOT NULL"),
    )
