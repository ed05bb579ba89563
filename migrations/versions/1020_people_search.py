"""The text by which staff find people."""

from alembic import op

revision = "1020"
down_revision = "1019"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the function. The next migration builds the index."""
    op.execute(
        r"""
        CREATE FUNCTION people_search_text(name text, email text) RETURNS text IMMUTABLE PARALLEL SAFE LANGUAGE sql
        RETURN lower(regexp_replace(
            normalize(coalesce(name, '') || ' ' || coalesce(email, ''), NFKD), '[\u0300-\u036f]', '', 'g'))
        """
    )


def downgrade() -> None:
    """Drop the function."""
    op.execute("DROP FUNCTION people_search_text")
