"""Pictures in several sizes."""

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """This function will change the schema."""


def downgrade() -> None:
    """This function will take the change back."""
