"""Evidence of disputes, and the listing's revision and images on the lines of orders."""

from alembic import op

revision = "1058"
down_revision = "1057"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the table and the columns."""
    op.execute(
        """
        ALTER TABLE order_items ADD COLUMN product_revision bigint,
            ADD COLUMN image_ids uuid[] DEFAULT '{}' NOT NULL;
        COMMENT ON COLUMN order_items.product_revision IS 'Revision of the listing at the time of placing';
        COMMENT ON COLUMN order_items.image_ids IS 'Images of the listing at the time of placing';

        CREATE TABLE dispute_evidence (
            id uuid DEFAULT uuidv7() NOT NULL,
            dispute_id uuid NOT NULL,
            sent_by text NOT NULL,
            kind text NOT NULL,
            note text,
            document_id uuid NOT NULL,
            poster_id uuid,
            content_type text NOT NULL,
            byte_count bigint NOT NULL,
            sha256 text NOT NULL,
            duration_ms bigint,
            is_private boolean DEFAULT false NOT NULL,
            created_at timestamptz DEFAULT now() NOT NULL,
            CONSTRAINT pk_dispute_evidence PRIMARY KEY (id),
            CONSTRAINT ck_dispute_evidence_sent_by CHECK (sent_by IN ('buyer', 'vendor')),
            CONSTRAINT ck_dispute_evidence_kind CHECK (
                kind IN ('unboxing', 'photo', 'waybill', 'receipt', 'other')),
            CONSTRAINT ck_dispute_evidence_byte_count CHECK (byte_count > 0),
            CONSTRAINT ck_dispute_evidence_sha256 CHECK (sha256 ~ '^[0-9a-f]{64}$'),
            CONSTRAINT fk_dispute_evidence_dispute_id FOREIGN KEY (dispute_id) REFERENCES disputes (id),
            CONSTRAINT fk_dispute_evidence_document_id FOREIGN KEY (document_id) REFERENCES private_documents (id),
            CONSTRAINT fk_dispute_evidence_poster_id FOREIGN KEY (poster_id) REFERENCES private_documents (id)
        );
        CREATE INDEX ix_dispute_evidence_dispute ON dispute_evidence (dispute_id, id);
        CREATE UNIQUE INDEX uq_dispute_evidence_document ON dispute_evidence (document_id);
        CREATE UNIQUE INDEX uq_dispute_evidence_poster ON dispute_evidence (poster_id)
            WHERE poster_id IS NOT NULL;
        """
    )


def downgrade() -> None:
    """Drop the table and the columns."""
    op.execute(
        """
        DROP TABLE dispute_evidence;
        ALTER TABLE order_items DROP COLUMN product_revision, DROP COLUMN image_ids;
        """
    )
