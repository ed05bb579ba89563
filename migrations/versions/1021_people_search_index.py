"""The index of the search of people."""

import sqlalchemy as sa
from alembic import op

from migrations.operations import build_index

revision = "1021"
down_revision = "1020"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Build the index."""
    build_index(
        "ix_profiles_search",
        "profiles",
        [sa.text("people_search_text(name, email) gin_trgm_ops")],
        postgresql_using="gin",
    )


def downgrade() -> None:
    """Drop the index."""
    op.drop_index("ix_profiles_search", "profiles")
