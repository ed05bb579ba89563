"""How fast stores respond."""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the sums, and fill them from the orders that were accepted."""
    op.add_column(
        "vendor_profiles",
        sa.Column(
            "response_seconds_sum",
            sa.BigInteger(),
            server_default=sa.text("0"),
            nullable=False,
            comment="From the payment of each order to its acceptance",
        ),
    )
    op.add_column(
        "vendor_profiles",
        sa.Column("response_count", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
    )
    op.execute(
        """
        UPDATE vendor_profiles v SET response_seconds_sum = o.seconds, response_count = o.accepted
        FROM (
            SELECT vendor_id, count(*) AS accepted,
                sum(greatest(extract(epoch FROM accepted_at - paid_at), 0))::bigint AS seconds
            FROM orders WHERE accepted_at IS NOT NULL AND paid_at IS NOT NULL
            GROUP BY vendor_id
        ) o
        WHERE o.vendor_id = v.id
        """
    )


def downgrade() -> None:
    """Drop them."""
    op.drop_column("vendor_profiles", "response_count")
    op.drop_column("vendor_profiles", "response_seconds_sum")
