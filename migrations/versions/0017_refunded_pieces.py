"""Which pieces of an order were refunded, how often a refund came back, and payments that wait for nothing."""

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None

_REASONS = "'amount_below_total', 'currency', 'order_not_payable', 'already_paid'"


def upgrade() -> None:
    """Add both counts, a reason to hold charges back, and say what became of old payments."""
    op.add_column(
        "order_items",
        sa.Column(
            "refunded_quantity",
            sa.BigInteger(),
            server_default=sa.text("0"),
            nullable=False,
            comment="How many of its pieces were paid back; none of them twice",
        ),
    )
    op.create_check_constraint(
        op.f("ck_order_items_refunded_quantity"), "order_items", "refunded_quantity BETWEEN 0 AND quantity"
    )
    op.execute(
        """
        UPDATE order_items i SET refunded_quantity = i.quantity FROM orders o
        WHERE o.id = i.order_id AND o.paid_at IS NOT NULL AND o.status IN ('cancelled', 'refunded')
        """
    )
    op.add_column(
        "refunds",
        sa.Column(
            "times_returned",
            sa.Integer(),
            server_default=sa.text("0"),
            nullable=False,
            comment="How often it was sent, and came back to the gateway",
        ),
    )
    op.add_column(
        "refunds",
        sa.Column(
            "tries",
            sa.Integer(),
            server_default=sa.text("1"),
            nullable=False,
            comment="The latest attempt that there was: an earlier one may count",
        ),
    )
    op.execute("UPDATE refunds SET tries = attempt WHERE attempt > 1")
    op.create_check_constraint(op.f("ck_refunds_attempt_of_tries"), "refunds", "attempt BETWEEN 1 AND tries")
    op.create_check_constraint(
        op.f("ck_refunds_times_returned_not_negative"), "refunds", "times_returned >= 0"
    )
    _hold_back_for(f"{_REASONS}, 'fees_above_amount'")
    op.execute(
        """
        UPDATE orders SET payment_status = 'abandoned'
        WHERE status IN ('cancelled', 'expired') AND paid_at IS NULL
            AND payment_status IN ('initialized', 'pending')
        """
    )


def _hold_back_for(reasons: str) -> None:
    name = op.f("ck_quarantined_charges_reason")
    op.drop_constraint(name, "quarantined_charges")
    op.create_check_constraint(name, "quarantined_charges", f"reason IN ({reasons})")


def downgrade() -> None:
    """Drop the counts, and count charges with too high fees among those of a wrong amount."""
    op.execute(
        "UPDATE quarantined_charges SET reason = 'amount_below_total' WHERE reason = 'fees_above_amount'"
    )
    _hold_back_for(_REASONS)
    op.drop_column("refunds", "times_returned")
    op.drop_column("refunds", "tries")
    op.drop_column("order_items", "refunded_quantity")
