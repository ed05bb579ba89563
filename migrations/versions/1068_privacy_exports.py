"""Exports of personal data."""

from alembic import op

revision = "1068"
down_revision = "1067"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the table."""
    op.execute(
        """
        CREATE TABLE privacy_exports (
            id uuid DEFAULT uuidv7() NOT NULL,
            user_id uuid NOT NULL,
            status text DEFAULT 'requested' NOT NULL,
            nonce bytea,
            document_id uuid,
            byte_count bigint,
            row_count bigint,
            requested_at timestamptz NOT NULL,
            ready_at timestamptz,
            expires_at timestamptz,
            CONSTRAINT pk_privacy_exports PRIMARY KEY (id),
            CONSTRAINT ck_privacy_exports_status CHECK (
                status IN ('requested', 'processing', 'ready', 'expired', 'failed')),
            CONSTRAINT ck_privacy_exports_nonce CHECK (
                (nonce IS NOT NULL) = (status IN ('requested', 'processing'))),
            CONSTRAINT ck_privacy_exports_expiry CHECK (
                (expires_at IS NOT NULL) = (status IN ('ready', 'expired'))),
            CONSTRAINT fk_privacy_exports_user_id FOREIGN KEY (user_id) REFERENCES profiles (id),
            CONSTRAINT fk_privacy_exports_document_id FOREIGN KEY (document_id)
                REFERENCES private_documents (id) ON DELETE SET NULL
        );
        COMMENT ON COLUMN privacy_exports.document_id IS 'The archive';
        CREATE UNIQUE INDEX uq_privacy_exports_open ON privacy_exports (user_id)
            WHERE status IN ('requested', 'processing');
        CREATE INDEX ix_privacy_exports_user ON privacy_exports (user_id, id DESC);
        CREATE INDEX ix_privacy_exports_current ON privacy_exports (requested_at)
            WHERE status IN ('requested', 'processing', 'ready');
        """
    )


def downgrade() -> None:
    """Drop the table."""
    op.execute("DROP TABLE privacy_exports")
