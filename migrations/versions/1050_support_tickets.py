"""Support tickets: messages, attachments, staff on duty, canned replies and saved views."""

from alembic import op

revision = "1050"
down_revision = "1049"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the tables. A later migration adds the index of uploads."""
    op.execute("ALTER TABLE private_documents ADD COLUMN content_hash text")
    op.execute(
        "COMMENT ON COLUMN private_documents.content_hash IS 'SHA-256 that the uploader announced, in hex'"
    )
    op.execute("CREATE SEQUENCE support_ticket_number START WITH 100001")
    op.execute(
        """
        CREATE TABLE support_tickets (
            id uuid DEFAULT uuidv7() NOT NULL,
            number text DEFAULT 'S-' || nextval('support_ticket_number')::text NOT NULL,
            creator_id uuid,
            contact_id uuid,
            order_id uuid,
            subject text NOT NULL,
            category text NOT NULL,
            severity text NOT NULL,
            status text NOT NULL,
            assignee_id uuid,
            tags text[] DEFAULT '{}' NOT NULL,
            message_count bigint NOT NULL,
            due_at timestamptz,
            response_due_at timestamptz NOT NULL,
            resolution_due_at timestamptz NOT NULL,
            first_responded_at timestamptz,
            resolved_at timestamptz,
            closed_at timestamptz,
            reopenings bigint DEFAULT 0 NOT NULL,
            merged_into_id uuid,
            rating bigint,
            rating_comment text,
            rated_at timestamptz,
            revision bigint DEFAULT 1 NOT NULL,
            created_at timestamptz DEFAULT now() NOT NULL,
            updated_at timestamptz DEFAULT now() NOT NULL,
            CONSTRAINT pk_support_tickets PRIMARY KEY (id),
            CONSTRAINT uq_support_tickets_number UNIQUE (number),
            CONSTRAINT ck_support_tickets_status CHECK (
                status IN ('open', 'pending_staff', 'pending_user', 'resolved', 'closed')),
            CONSTRAINT ck_support_tickets_category CHECK (
                category IN ('order', 'payment', 'delivery', 'account', 'vendor', 'other')),
            CONSTRAINT ck_support_tickets_severity CHECK (severity IN ('SEV-1', 'SEV-2', 'SEV-3', 'SEV-4')),
            CONSTRAINT ck_support_tickets_author CHECK (creator_id IS NOT NULL OR contact_id IS NOT NULL),
            CONSTRAINT ck_support_tickets_due CHECK ((due_at IS NOT NULL) = (status IN ('open', 'pending_staff'))),
            CONSTRAINT ck_support_tickets_ends CHECK (
                (status NOT IN ('resolved') OR resolved_at IS NOT NULL)
                AND (status = 'closed') = (closed_at IS NOT NULL)),
            CONSTRAINT ck_support_tickets_merged CHECK (
                merged_into_id IS NULL OR status = 'closed' AND merged_into_id <> id),
            CONSTRAINT ck_support_tickets_rating CHECK (
                rating BETWEEN 1 AND 5 AND (rating IS NULL) = (rated_at IS NULL)
                OR rating IS NULL AND rated_at IS NULL AND rating_comment IS NULL),
            CONSTRAINT fk_support_tickets_creator_id FOREIGN KEY (creator_id) REFERENCES profiles (id),
            CONSTRAINT fk_support_tickets_contact_id
                FOREIGN KEY (contact_id) REFERENCES support_contacts (id),
            CONSTRAINT fk_support_tickets_order_id FOREIGN KEY (order_id) REFERENCES orders (id),
            CONSTRAINT fk_support_tickets_assignee_id FOREIGN KEY (assignee_id) REFERENCES profiles (id),
            CONSTRAINT fk_support_tickets_merged_into_id
                FOREIGN KEY (merged_into_id) REFERENCES support_tickets (id)
        );
        CREATE INDEX ix_support_tickets_creator ON support_tickets (creator_id, id DESC);
        CREATE INDEX ix_support_tickets_contact ON support_tickets (contact_id, id DESC)
            WHERE contact_id IS NOT NULL;
        CREATE INDEX ix_support_tickets_order ON support_tickets (order_id) WHERE order_id IS NOT NULL;
        CREATE INDEX ix_support_tickets_due ON support_tickets (due_at, id) WHERE due_at IS NOT NULL;
        CREATE INDEX ix_support_tickets_status ON support_tickets (status, id DESC);
        CREATE INDEX ix_support_tickets_assignee ON support_tickets (assignee_id, status, id DESC);
        CREATE INDEX ix_support_tickets_resolved ON support_tickets (resolved_at) WHERE status = 'resolved';
        """
    )
    op.execute(
        """
        CREATE TABLE support_ticket_messages (
            id uuid DEFAULT uuidv7() NOT NULL,
            ticket_id uuid NOT NULL,
            number bigint NOT NULL,
            author text NOT NULL,
            author_id uuid,
            is_internal boolean NOT NULL,
            body text,
            created_at timestamptz DEFAULT now() NOT NULL,
            CONSTRAINT pk_support_ticket_messages PRIMARY KEY (id),
            CONSTRAINT uq_support_ticket_messages_number UNIQUE (ticket_id, number),
            CONSTRAINT ck_support_ticket_messages_author CHECK (author IN ('user', 'staff', 'system')),
            CONSTRAINT ck_support_ticket_messages_internal CHECK (NOT is_internal OR author <> 'user'),
            CONSTRAINT fk_support_ticket_messages_ticket_id
                FOREIGN KEY (ticket_id) REFERENCES support_tickets (id),
            CONSTRAINT fk_support_ticket_messages_author_id
                FOREIGN KEY (author_id) REFERENCES profiles (id)
        );
        CREATE TABLE support_attachments (
            document_id uuid NOT NULL,
            message_id uuid NOT NULL,
            name text NOT NULL,
            CONSTRAINT pk_support_attachments PRIMARY KEY (document_id),
            CONSTRAINT fk_support_attachments_document_id
                FOREIGN KEY (document_id) REFERENCES private_documents (id),
            CONSTRAINT fk_support_attachments_message_id
                FOREIGN KEY (message_id) REFERENCES support_ticket_messages (id)
        );
        CREATE INDEX ix_support_attachments_message ON support_attachments (message_id);
        CREATE TABLE support_duties (
            user_id uuid NOT NULL,
            on_duty_until timestamptz NOT NULL,
            last_assigned_at timestamptz,
            CONSTRAINT pk_support_duties PRIMARY KEY (user_id),
            CONSTRAINT fk_support_duties_user_id FOREIGN KEY (user_id) REFERENCES profiles (id)
        );
        COMMENT ON COLUMN support_tickets.due_at IS
            'Time by which staff should answer; null while the user or nobody must act';
        COMMENT ON COLUMN support_tickets.creator_id IS 'Null for a contact without a profile';
        """
    )


def downgrade() -> None:
    """Drop the tables."""
    op.execute(
        """
        DROP TABLE support_duties, support_attachments, support_ticket_messages, support_tickets;
        DROP SEQUENCE support_ticket_number;
        ALTER TABLE private_documents DROP COLUMN content_hash;
        """
    )
