"""Charges are found by their ledger transaction: which of them paid an order stands in the books alone."""

from alembic import op

revision = "0029"
down_revision = "0028"
branch_labels = None
depends_on = None

_NAME = "ix_gateway_charges_ledger_transaction_id"


def upgrade() -> None:
    """Index them by it; each refund of an order read all charges while it held the order."""
    op.create_index(_NAME, "gateway_charges", ["ledger_transaction_id"])


def downgrade() -> None:
    """Drop the index."""
    op.drop_index(_NAME, "gateway_charges")
