"""What officers did about transfers that went wrong."""

import sqlalchemy as sa
from alembic import op

revision = "0026"
down_revision = "0025"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the officers' note."""
    op.add_column("payout_exceptions", sa.Column("resolution_note", sa.Text(), nullable=True))


def downgrade() -> None:
    """Drop it."""
    op.drop_column("payout_exceptions", "resolution_note")
