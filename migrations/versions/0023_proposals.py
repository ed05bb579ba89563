"""Proposals that two officers decide on, halts of payouts that only such a proposal ends, and clawbacks."""

from uuid import UUID, uuid5

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0023"
down_revision = "0022"
branch_labels = None
depends_on = None

# As marketplace.ledger.accounts derives ids; repeated here, since migrations must not change with the code.
_NAMESPACE = UUID("5f0c2a44-5d0f-4b0e-9a51-6c1d7e8f9a10")
_LOST_DISPUTES = "lost_disputes"
_MOMENT = sa.TIMESTAMP(timezone=True)
_PROPOSALS = "platform_proposals"
_PEOPLE = ("proposed_by", "approved_by", "rejected_by")
_RULES = {
    "kind": "kind IN ('fee', 'category_commission', 'payout_resume', 'feature_flag', 'maintenance')",
    "status": "status IN ('pending', 'approved', 'active', 'rejected', 'expired')",
    "four_eyes": "approved_by <> proposed_by",
    "approved": "(approved_by IS NULL) = (approved_at IS NULL)",
    "approved_first": "status NOT IN ('approved', 'active') OR approved_by IS NOT NULL",
    "activated": "(status = 'active') = (activated_at IS NOT NULL)",
    "rejected": "(status = 'rejected') = (rejected_at IS NOT NULL)",
    "expired": "(status = 'expired') = (expired_at IS NOT NULL)",
}
_SETTINGS = {
    "minimum_payout_minor": (100_000, "The least that a vendor or a wallet is paid out at once, in kobo"),
}

_settings = sa.table(
    "platform_settings", sa.column("key"), sa.column("value", JSONB()), sa.column("description")
)


def upgrade() -> None:
    """Make the tables, and the settings of payouts that officers change."""
    op.execute(
        sa.text(
            "INSERT INTO ledger_accounts (id, kind, normal_side) VALUES (:id, :kind, 'debit') ON CONFLICT DO NOTHING"
        ).bindparams(id=uuid5(_NAMESPACE, _LOST_DISPUTES), kind=_LOST_DISPUTES)
    )
    _make_proposals()
    _make_halts()
    op.add_column(
        "escrows",
        sa.Column(
            "clawed_back_minor",
            sa.BigInteger(),
            server_default=sa.text("0"),
            nullable=False,
            comment="What of the released went back to the buyer after all",
        ),
    )
    op.create_check_constraint(
        op.f("ck_escrows_clawed_back"), "escrows", "clawed_back_minor BETWEEN 0 AND released_minor"
    )
    op.bulk_insert(
        _settings,
        [{"key": key, "value": value, "description": doc} for key, (value, doc) in _SETTINGS.items()],
    )


def downgrade() -> None:
    """Drop them; what was set by proposals beyond the first settings goes with them."""
    op.execute(
        sa.delete(_settings).where(
            _settings.c.key.in_([*_SETTINGS, "maintenance"]) | _settings.c.key.like("feature:%")
        )
    )
    op.drop_constraint(op.f("ck_escrows_clawed_back"), "escrows")
    op.drop_column("escrows", "clawed_back_minor")
    op.drop_table("payout_halts")
    op.drop_table(_PROPOSALS)


def _id() -> sa.Column[object]:
    return sa.Column("id", sa.Uuid(), server_default=sa.text("uuidv7()"), nullable=False)


def _make_proposals() -> None:
    op.create_table(
        _PROPOSALS,
        _id(),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column(
            "target",
            sa.Text(),
            nullable=False,
            comment="What it changes: a setting's key, a category's id, ...",
        ),
        sa.Column("payload", JSONB(), nullable=False, comment="As it was proposed"),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column(
            "before", JSONB(), nullable=False, comment="What it changes, as it was when it was proposed"
        ),
        sa.Column("after", JSONB(), nullable=False),
        sa.Column("effect", JSONB(), nullable=False, comment="What it does to a sample order, and the like"),
        sa.Column("proposed_by", sa.Uuid(), nullable=False),
        sa.Column("effective_at", _MOMENT, nullable=True, comment="None: as soon as it is approved"),
        sa.Column("expires_at", _MOMENT, nullable=False, comment="Unless it is approved by then"),
        sa.Column("approved_by", sa.Uuid(), nullable=True),
        sa.Column("approved_at", _MOMENT, nullable=True),
        sa.Column("activated_at", _MOMENT, nullable=True),
        sa.Column(
            "rejected_by",
            sa.Uuid(),
            nullable=True,
            comment="None of a rejected one: it no longer fitted when it was due",
        ),
        sa.Column("rejected_at", _MOMENT, nullable=True),
        sa.Column("rejection_reason", sa.Text(), nullable=True),
        sa.Column("expired_at", _MOMENT, nullable=True),
        *(
            sa.Column(name, _MOMENT, server_default=sa.text("now()"), nullable=False)
            for name in ("created_at", "updated_at")
        ),
        *(sa.CheckConstraint(rule, name=op.f(f"ck_{_PROPOSALS}_{name}")) for name, rule in _RULES.items()),
        *(
            sa.ForeignKeyConstraint([name], ["profiles.id"], name=op.f(f"fk_{_PROPOSALS}_{name}"))
            for name in _PEOPLE
        ),
        sa.PrimaryKeyConstraint("id", name=op.f(f"pk_{_PROPOSALS}")),
    )
    for name in _PEOPLE:
        op.create_index(op.f(f"ix_{_PROPOSALS}_{name}"), _PROPOSALS, [name])
    for name in ("status", "kind"):
        op.create_index(f"ix_{_PROPOSALS}_{name}", _PROPOSALS, [name, sa.text("id DESC")])
    for name, column, status in (
        ("expiring", "expires_at", "pending"),
        ("due", "effective_at", "approved"),
    ):
        op.create_index(
            f"ix_{_PROPOSALS}_{name}",
            _PROPOSALS,
            [column],
            postgresql_where=sa.text(f"status = '{status}'"),
        )


def _make_halts() -> None:
    op.create_table(
        "payout_halts",
        _id(),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column(
            "findings",
            sa.ARRAY(sa.Text()),
            nullable=False,
            comment="What it was halted for: officers who resume know of it, and it halts no more",
        ),
        sa.Column(
            "found",
            JSONB(),
            nullable=False,
            comment="Of each reason the latest finding: its facts, and when it was found",
        ),
        sa.Column("halted_at", _MOMENT, nullable=False),
        sa.Column("resumed_at", _MOMENT, nullable=True),
        sa.Column("proposal_id", sa.Uuid(), nullable=True, comment="The proposal that resumed them"),
        sa.CheckConstraint(
            "(resumed_at IS NULL) = (proposal_id IS NULL)", name=op.f("ck_payout_halts_resumed_by_proposal")
        ),
        sa.ForeignKeyConstraint(
            ["proposal_id"], [f"{_PROPOSALS}.id"], name=op.f("fk_payout_halts_proposal_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_payout_halts")),
        sa.UniqueConstraint("proposal_id", name=op.f("uq_payout_halts_proposal_id")),
    )
    op.create_index(
        "uq_payout_halts_open",
        "payout_halts",
        ["resumed_at"],
        unique=True,
        postgresql_where=sa.text("resumed_at IS NULL"),
        postgresql_nulls_not_distinct=True,
    )
