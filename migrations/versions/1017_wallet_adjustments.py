"""Proposals that adjust wallets, and the ledger account of the adjustments."""

from alembic import op

revision = "1017"
down_revision = "1016"
branch_labels = None
depends_on = None

_KINDS = "'fee', 'category_commission', 'payout_resume', 'feature_flag', 'maintenance'"


def upgrade() -> None:
    """Allow the kind of a wallet adjustment. The next migration validates the constraint."""
    _replace_constraint(f"{_KINDS}, 'wallet_adjustment'", validated=False)
    op.execute(
        """
        INSERT INTO ledger_accounts (id, kind, normal_side)
        VALUES ('35ac5ce5-df30-5f84-b33c-74808bc6d1d6', 'wallet_adjustments', 'debit')
        """
    )


def downgrade() -> None:
    """Refuse the kind of a wallet adjustment."""
    op.execute("DELETE FROM ledger_accounts WHERE kind = 'wallet_adjustments'")
    op.execute("DELETE FROM platform_proposals WHERE kind = 'wallet_adjustment'")
    _replace_constraint(_KINDS, validated=True)


def _replace_constraint(kinds: str, *, validated: bool) -> None:
    op.execute(
        f"""
        ALTER TABLE platform_proposals DROP CONSTRAINT ck_platform_proposals_kind,
            ADD CONSTRAINT ck_platform_proposals_kind CHECK (kind IN ({kinds})) {"" if validated else "NOT VALID"}
        """
    )
