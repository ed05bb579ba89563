"""Which charge of a payment a bank disputes: the others of the payment are not held up by it."""

import sqlalchemy as sa
from alembic import op

revision = "0027"
down_revision = "0026"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the gateway's id of the charge; of disputes told before, it is not known."""
    op.add_column(
        "charge_disputes",
        sa.Column(
            "gateway_charge_id",
            sa.Text(),
            nullable=True,
            comment="The charge that it is about; none where the gateway did not say: any of the payment",
        ),
    )


def downgrade() -> None:
    """Drop it."""
    op.drop_column("charge_disputes", "gateway_charge_id")
