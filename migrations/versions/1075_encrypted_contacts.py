"""Columns for encrypted phone numbers, replaced contacts and stored responses."""

from alembic import op

revision = "1075"
down_revision = "1074"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the columns. The next migration fills them."""
    op.execute(
        """
        ALTER TABLE profiles ADD COLUMN phone_index bytea;
        ALTER TABLE former_contacts ADD COLUMN contact_index bytea;
        ALTER TABLE support_contacts ADD COLUMN sender_index bytea;
        ALTER TABLE orders ADD COLUMN delivery_phone text;
        ALTER TABLE idempotency_keys ADD COLUMN response_text text;
        COMMENT ON COLUMN support_contacts.sender_index IS 'Null after the erasure of the person';
        COMMENT ON COLUMN orders.delivery_phone IS 'The phone number of the shipping address';
        """
    )


def downgrade() -> None:
    """Drop the columns."""
    op.execute(
        """
        ALTER TABLE idempotency_keys DROP COLUMN response_text;
        ALTER TABLE orders DROP COLUMN delivery_phone;
        ALTER TABLE support_contacts DROP COLUMN sender_index;
        ALTER TABLE former_contacts DROP COLUMN contact_index;
        ALTER TABLE profiles DROP COLUMN phone_index;
        """
    )
