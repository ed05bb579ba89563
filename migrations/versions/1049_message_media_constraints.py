"""Index and validated constraints of message media."""

import sqlalchemy as sa
from alembic import op

from migrations.operations import build_index, outside_transaction, validate_constraint

revision = "1049"
down_revision = "1048"
branch_labels = None
depends_on = None

_TABLE = "support_contact_messages"
_CONSTRAINTS = (
    "ck_support_contact_messages_media_status",
    "ck_support_contact_messages_media_stored",
    "fk_support_contact_messages_document_id",
)


def upgrade() -> None:
    """Build the index and validate the constraints."""
    build_index(
        "ix_support_contact_messages_document",
        _TABLE,
        ["document_id"],
        postgresql_where=sa.text("document_id IS NOT NULL"),
    )
    for name in _CONSTRAINTS:
        validate_constraint(_TABLE, name)


def downgrade() -> None:
    """Drop the index, and return the constraints to their state before the validation."""
    with outside_transaction():
        op.execute("DROP INDEX CONCURRENTLY IF EXISTS ix_support_contact_messages_document")
    op.execute(
        f"""
        ALTER TABLE {_TABLE}
            DROP CONSTRAINT ck_support_contact_messages_media_status,
            DROP CONSTRAINT ck_support_contact_messages_media_stored,
            DROP CONSTRAINT fk_support_contact_messages_document_id,
            ADD CONSTRAINT ck_support_contact_messages_media_status CHECK (
                media_status IN ('pending', 'stored', 'refused')) NOT VALID,
            ADD CONSTRAINT ck_support_contact_messages_media_stored CHECK (
                (coalesce(media_status, '') = 'stored') = (document_id IS NOT NULL)) NOT VALID,
            ADD CONSTRAINT fk_support_contact_messages_document_id
                FOREIGN KEY (document_id) REFERENCES private_documents (id) NOT VALID
        """
    )
