"""Media of messages from the messaging provider, kept as private documents without an owner."""

from alembic import op

revision = "1048"
down_revision = "1047"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the columns. A later migration builds the index and validates the constraints."""
    op.execute("ALTER TABLE private_documents ALTER COLUMN owner_id DROP NOT NULL")
    op.execute(
        """
        ALTER TABLE support_contact_messages
            ADD COLUMN media_status text,
            ADD COLUMN media_refusal text,
            ADD COLUMN document_id uuid,
            ADD CONSTRAINT ck_support_contact_messages_media_status CHECK (
                media_status IN ('pending', 'stored', 'refused')) NOT VALID,
            ADD CONSTRAINT ck_support_contact_messages_media_stored CHECK (
                (coalesce(media_status, '') = 'stored') = (document_id IS NOT NULL)) NOT VALID,
            ADD CONSTRAINT fk_support_contact_messages_document_id
                FOREIGN KEY (document_id) REFERENCES private_documents (id) NOT VALID;
        COMMENT ON COLUMN support_contact_messages.media_status IS 'State of the file; null for other messages';
        COMMENT ON COLUMN support_contact_messages.media_refusal IS 'Reason why the file was not stored';
        COMMENT ON COLUMN support_contact_messages.document_id IS 'The checked file in the private bucket';
        """
    )


def downgrade() -> None:
    """Drop the columns, and the documents that have no owner."""
    op.execute(
        """
        ALTER TABLE support_contact_messages
            DROP COLUMN media_status, DROP COLUMN media_refusal, DROP COLUMN document_id;
        DELETE FROM private_documents WHERE owner_id IS NULL;
        ALTER TABLE private_documents ALTER COLUMN owner_id SET NOT NULL;
        """
    )
