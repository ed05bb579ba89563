"""The side of the account of rewards: rewards are an expense, which debits increase."""

from migrations.operations import backfill

revision = "1023"
down_revision = "1022"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Change the side. No reward was booked before."""
    _set_side("debit")


def downgrade() -> None:
    """Restore the side."""
    _set_side("credit")


def _set_side(side: str) -> None:
    backfill(
        f"""
        UPDATE ledger_accounts SET normal_side = '{side}' WHERE id IN (
            SELECT id FROM ledger_accounts WHERE kind = 'rewards' AND normal_side <> '{side}' LIMIT 1)
        """
    )
