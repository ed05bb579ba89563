"""Tickets of contacts: messages and answers through the messaging provider; canned replies and saved views."""

from alembic import op

revision = "1051"
down_revision = "1050"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the columns and the tables. A later migration builds the indexes and validates the constraints."""
    op.execute(
        """
        ALTER TABLE support_ticket_messages
            ADD COLUMN contact_message_id uuid,
            ADD COLUMN delivery_status text,
            ADD COLUMN delivery_error text,
            ADD COLUMN provider_message_id text,
            ADD CONSTRAINT ck_support_ticket_messages_delivery_status CHECK (
                delivery_status IN ('queued', 'sent', 'delivered', 'read', 'failed')) NOT VALID,
            ADD CONSTRAINT fk_support_ticket_messages_contact_message_id
                FOREIGN KEY (contact_message_id) REFERENCES support_contact_messages (id) NOT VALID;
        COMMENT ON COLUMN support_ticket_messages.contact_message_id IS
            'The message of the messaging provider that the user wrote';
        COMMENT ON COLUMN support_ticket_messages.delivery_status IS
            'State of an answer by the messaging provider; null for messages in the app';
        COMMENT ON COLUMN support_contacts.profile_id IS 'The profile with this verified number';
        """
    )
    op.execute(
        """
        CREATE TABLE support_canned_replies (
            id uuid DEFAULT uuidv7() NOT NULL,
            title text NOT NULL,
            body text NOT NULL,
            revision bigint DEFAULT 1 NOT NULL,
            created_at timestamptz DEFAULT now() NOT NULL,
            updated_at timestamptz DEFAULT now() NOT NULL,
            CONSTRAINT pk_support_canned_replies PRIMARY KEY (id),
            CONSTRAINT uq_support_canned_replies_title UNIQUE (title)
        );
        CREATE TABLE support_views (
            id uuid DEFAULT uuidv7() NOT NULL,
            owner_id uuid NOT NULL,
            name text NOT NULL,
            filters jsonb NOT NULL,
            created_at timestamptz DEFAULT now() NOT NULL,
            CONSTRAINT pk_support_views PRIMARY KEY (id),
            CONSTRAINT uq_support_views_name UNIQUE (owner_id, name),
            CONSTRAINT fk_support_views_owner_id FOREIGN KEY (owner_id) REFERENCES profiles (id)
        );
        """
    )


def downgrade() -> None:
    """Drop the tables and the columns."""
    op.execute(
        """
        DROP TABLE support_views, support_canned_replies;
        ALTER TABLE support_ticket_messages
            DROP COLUMN contact_message_id, DROP COLUMN delivery_status, DROP COLUMN delivery_error,
            DROP COLUMN provider_message_id;
        COMMENT ON COLUMN support_contacts.profile_id IS
            'The only profile with the number; none if several profiles have it';
        """
    )
