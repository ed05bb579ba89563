"""Validation of the kinds of proposals."""

from migrations.operations import validate_constraint

revision = "1018"
down_revision = "1017"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Validate the constraint."""
    validate_constraint("platform_proposals", "ck_platform_proposals_kind")


def downgrade() -> None:
    """Keep the constraint, which the previous migration replaces."""
