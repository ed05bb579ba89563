"""Which charge a refund was of that somebody made at the gateway: one of nobody's is matched with that."""

import sqlalchemy as sa
from alembic import op

revision = "0028"
down_revision = "0027"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the charge of a movement, which the next reconciliation tells of those read before."""
    op.add_column(
        "gateway_movements",
        sa.Column(
            "charge_id",
            sa.Text(),
            nullable=True,
            comment="The gateway's charge that it is a refund of, where a list told so",
        ),
    )


def downgrade() -> None:
    """Drop it."""
    op.drop_column("gateway_movements", "charge_id")
