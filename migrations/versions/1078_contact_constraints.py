"""Constraints of encrypted contacts, which the next migration validates."""

from alembic import op

revision = "1078"
down_revision = "1077"
branch_labels = None
depends_on = None

_ENCRYPTED = "'^v1:[a-z0-9_-]{1,32}:[A-Za-z0-9_-]{38,}$'"


def upgrade() -> None:
    """Add the constraints, and drop the constraint and the column of plain values."""
    op.execute(
        f"""
        ALTER TABLE profiles
            ADD CONSTRAINT ck_profiles_phone CHECK (phone ~ {_ENCRYPTED}) NOT VALID,
            ADD CONSTRAINT ck_profiles_phone_index CHECK ((phone IS NULL) = (phone_index IS NULL)) NOT VALID;
        ALTER TABLE addresses ADD CONSTRAINT ck_addresses_phone CHECK (phone ~ {_ENCRYPTED}) NOT VALID;
        ALTER TABLE former_contacts
            ADD CONSTRAINT ck_former_contacts_contact CHECK (contact ~ {_ENCRYPTED}) NOT VALID,
            ADD CONSTRAINT ck_former_contacts_indexed CHECK (contact_index IS NOT NULL) NOT VALID;
        ALTER TABLE support_contacts
            ADD CONSTRAINT ck_support_contacts_sender CHECK (sender ~ {_ENCRYPTED}) NOT VALID,
            ADD CONSTRAINT ck_support_contacts_phone CHECK (phone ~ {_ENCRYPTED}) NOT VALID;
        ALTER TABLE support_contacts DROP CONSTRAINT uq_support_contacts_sender;
        ALTER TABLE orders ADD CONSTRAINT ck_orders_delivery_phone CHECK (delivery_phone ~ {_ENCRYPTED}) NOT VALID;
        ALTER TABLE idempotency_keys DROP COLUMN response_body;
        """
    )


def downgrade() -> None:
    """Drop the constraints, and add the column and the constraint of plain values."""
    op.execute(
        """
        ALTER TABLE idempotency_keys ADD COLUMN response_body bytea;
        ALTER TABLE orders DROP CONSTRAINT ck_orders_delivery_phone;
        ALTER TABLE support_contacts DROP CONSTRAINT ck_support_contacts_sender,
            DROP CONSTRAINT ck_support_contacts_phone, ADD CONSTRAINT uq_support_contacts_sender UNIQUE (sender);
        ALTER TABLE former_contacts DROP CONSTRAINT ck_former_contacts_contact,
            DROP CONSTRAINT ck_former_contacts_indexed;
        ALTER TABLE addresses DROP CONSTRAINT ck_addresses_phone;
        ALTER TABLE profiles DROP CONSTRAINT ck_profiles_phone, DROP CONSTRAINT ck_profiles_phone_index;
        """
    )
