"""What the gateway paid of a refund although its buyer had the money already."""

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the sum to refunds, and an index of those that were paid twice."""
    op.add_column(
        "refunds",
        sa.Column(
            "paid_twice_minor",
            sa.BigInteger(),
            server_default=sa.text("0"),
            nullable=False,
            comment="What the gateway paid of it although the buyer had it already",
        ),
    )
    op.create_check_constraint(op.f("ck_refunds_paid_twice_not_negative"), "refunds", "paid_twice_minor >= 0")
    op.create_index(
        "ix_refunds_paid_twice",
        "refunds",
        ["created_at", "id"],
        postgresql_where=sa.text("paid_twice_minor > 0"),
    )


def downgrade() -> None:
    """Drop both. A debt that was booked stays in the books."""
    op.drop_index("ix_refunds_paid_twice", "refunds")
    op.drop_column("refunds", "paid_twice_minor")
