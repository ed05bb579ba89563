"""How fast stores respond."""

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """This function will change the schema."""


def downgrade() -> None:
    """This function will take the change back."""
