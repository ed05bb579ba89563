"""Searching the catalog: words, synonyms, and what was searched in vain."""

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """This function will change the schema."""


def downgrade() -> None:
    """This function will take the change back."""
