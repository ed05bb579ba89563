"""Listings held for staff, and the feed of notifications."""

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """This function will change the schema."""


def downgrade() -> None:
    """This function will take the change back."""
