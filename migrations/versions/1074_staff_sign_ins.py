"""Sign-ins of staff."""

from alembic import op

revision = "1074"
down_revision = "1073"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the table."""
    op.execute(
        """
        CREATE TABLE staff_sign_ins (
            user_id uuid NOT NULL,
            signed_in_at timestamptz NOT NULL,
            CONSTRAINT pk_staff_sign_ins PRIMARY KEY (user_id, signed_in_at),
            CONSTRAINT fk_staff_sign_ins_user_id FOREIGN KEY (user_id) REFERENCES profiles (id)
        );
        """
    )


def downgrade() -> None:
    """Drop the table."""
    op.execute("DROP TABLE staff_sign_ins")
