"""What of charges that were held back was accepted for an order, apart from what its buyer's wallet paid."""

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the part to orders. What was accepted before was booked as the wallet's, and stays so."""
    op.add_column(
        "orders",
        sa.Column(
            "accepted_minor",
            sa.BigInteger(),
            server_default=sa.text("0"),
            nullable=False,
            comment="What of charges that were held back was accepted for it, before the rest was paid",
        ),
    )
    op.drop_constraint(op.f("ck_orders_wallet_part"), "orders")
    op.create_check_constraint(
        op.f("ck_orders_parts_within_total"),
        "orders",
        "least(wallet_minor, accepted_minor) >= 0 AND wallet_minor + accepted_minor <= total_minor",
    )


def downgrade() -> None:
    """Drop the part; it does not go while an order has one, which would be lost."""
    op.execute(
        "DO $$ BEGIN IF EXISTS (SELECT FROM orders WHERE accepted_minor > 0) THEN"
        " RAISE EXCEPTION 'orders have accepted parts: going back would lose them'; END IF; END $$"
    )
    op.drop_constraint(op.f("ck_orders_parts_within_total"), "orders")
    op.drop_column("orders", "accepted_minor")
    op.create_check_constraint(
        op.f("ck_orders_wallet_part"), "orders", "wallet_minor BETWEEN 0 AND total_minor"
    )
