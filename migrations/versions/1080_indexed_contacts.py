"""Replaced contacts always have an index."""

from alembic import op

revision = "1080"
down_revision = "1079"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Replace the constraint by NOT NULL, which needs no check of the rows after the validation."""
    op.execute(
        """
        ALTER TABLE former_contacts ALTER COLUMN contact_index SET NOT NULL;
        ALTER TABLE former_contacts DROP CONSTRAINT ck_former_contacts_indexed;
        """
    )


def downgrade() -> None:
    """Return to the validated constraint."""
    op.execute(
        """
        ALTER TABLE former_contacts ADD CONSTRAINT ck_former_contacts_indexed CHECK (contact_index IS NOT NULL),
            ALTER COLUMN contact_index DROP NOT NULL;
        """
    )
