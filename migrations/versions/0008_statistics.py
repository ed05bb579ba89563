"""Views, cart adds and shares of products, by the hour."""

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """This function will change the schema."""


def downgrade() -> None:
    """This function will take the change back."""
