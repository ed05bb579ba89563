"""Entries are kept by account: their primary key is the way to a page of a statement, and the only one."""

from alembic import op
from sqlalchemy import literal_column

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the account the first part of an entry's key.

    Where few accounts made up the ledger, the planner took the key by the id alone for the shortest way to a page
    deep inside, and read everybody's entries on it. The new key also does what an index of its own did.
    """
    op.drop_constraint("pk_ledger_entries", "ledger_entries")
    op.create_primary_key("pk_ledger_entries", "ledger_entries", ["account_id", "id"])
    op.drop_index("ix_ledger_entries_account", "ledger_entries")


def downgrade() -> None:
    """Make the id alone the key again."""
    op.create_index("ix_ledger_entries_account", "ledger_entries", ["account_id", literal_column("id DESC")])
    op.drop_constraint("pk_ledger_entries", "ledger_entries")
    op.create_primary_key("pk_ledger_entries", "ledger_entries", ["id"])
