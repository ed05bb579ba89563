"""Vendor applications, private documents, and slugs that look alike."""

from alembic import op

revision = "1038"
down_revision = "1037"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the tables and the function. A later migration builds the unique index of stores."""
    op.execute("""
    CREATE FUNCTION store_slug_key(slug text) RETURNS text LANGUAGE sql IMMUTABLE AS $$
        SELECT replace(replace(translate(lower(slug), '01i5-', 'olls'), 'rn', 'm'), 'vv', 'w')
    $$;
    COMMENT ON FUNCTION store_slug_key IS 'The same text for slugs that look alike';
    ALTER TABLE vendor_profiles ADD CONSTRAINT ck_vendor_profiles_slug CHECK (
        slug ~ '^[a-z0-9][a-z0-9-]{1,58}[a-z0-9]$') NOT VALID;
    """)
    op.execute("""
    CREATE TABLE private_documents (
        id uuid DEFAULT uuidv7() CONSTRAINT pk_private_documents PRIMARY KEY,
        owner_id uuid NOT NULL CONSTRAINT fk_private_documents_owner_id REFERENCES profiles,
        key text NOT NULL,
        content_type text NOT NULL,
        byte_count bigint NOT NULL,
        status text NOT NULL DEFAULT 'pending',
        delete_after timestamptz,
        created_at timestamptz NOT NULL,
        CONSTRAINT uq_private_documents_key UNIQUE (key),
        CONSTRAINT ck_private_documents_status CHECK (status IN ('pending', 'ready', 'deleting')),
        CONSTRAINT ck_private_documents_byte_count CHECK (byte_count > 0)
    );
    CREATE INDEX ix_private_documents_owner ON private_documents (owner_id, created_at);
    CREATE INDEX ix_private_documents_due ON private_documents (delete_after) WHERE delete_after IS NOT NULL;
    COMMENT ON COLUMN private_documents.delete_after IS
        'Time after which the document is deleted; null while in use';
    CREATE TABLE vendor_applications (
        id uuid DEFAULT uuidv7() CONSTRAINT pk_vendor_applications PRIMARY KEY,
        user_id uuid NOT NULL CONSTRAINT fk_vendor_applications_user_id REFERENCES profiles,
        status text NOT NULL DEFAULT 'submitted',
        store_name text NOT NULL,
        slug text NOT NULL,
        campus_id uuid NOT NULL CONSTRAINT fk_vendor_applications_campus_id REFERENCES campuses,
        category_ids uuid[] NOT NULL,
        description text NOT NULL,
        document_id uuid NOT NULL,
        bank_code text NOT NULL,
        bank_name text NOT NULL,
        account_number text NOT NULL,
        account_name text NOT NULL,
        recipient_code text NOT NULL,
        question text,
        comment text,
        decided_by uuid CONSTRAINT fk_vendor_applications_decided_by REFERENCES profiles,
        decided_at timestamptz,
        decision_reason text,
        vendor_id uuid CONSTRAINT fk_vendor_applications_vendor_id REFERENCES vendor_profiles,
        revision bigint NOT NULL DEFAULT 1,
        created_at timestamptz NOT NULL DEFAULT now(),
        updated_at timestamptz NOT NULL DEFAULT now(),
        CONSTRAINT ck_vendor_applications_status CHECK (
            status IN ('submitted', 'under_review', 'needs_info', 'approved', 'rejected', 'withdrawn')),
        CONSTRAINT ck_vendor_applications_slug CHECK (slug ~ '^[a-z0-9]([a-z0-9-]{1,38})[a-z0-9]$'),
        CONSTRAINT ck_vendor_applications_category_ids CHECK (cardinality(category_ids) BETWEEN 1 AND 5),
        CONSTRAINT ck_vendor_applications_account_number CHECK (
            account_number ~ '^v1:[a-z0-9_-]{1,32}:[A-Za-z0-9_-]{38,}$'),
        CONSTRAINT ck_vendor_applications_decided CHECK (
            (status IN ('approved', 'rejected')) = (decided_by IS NOT NULL)
            AND (decided_by IS NULL) = (decided_at IS NULL)),
        CONSTRAINT ck_vendor_applications_vendor_id CHECK ((status = 'approved') = (vendor_id IS NOT NULL)),
        CONSTRAINT ck_vendor_applications_not_own CHECK (decided_by <> user_id)
    );
    CREATE UNIQUE INDEX uq_vendor_applications_open ON vendor_applications (user_id)
        WHERE status IN ('submitted', 'under_review', 'needs_info');
    CREATE UNIQUE INDEX uq_vendor_applications_slug ON vendor_applications (store_slug_key(slug))
        WHERE status IN ('submitted', 'under_review', 'needs_info');
    CREATE INDEX ix_vendor_applications_user ON vendor_applications (user_id, id DESC);
    CREATE INDEX ix_vendor_applications_queue ON vendor_applications (status, id);
    COMMENT ON COLUMN vendor_applications.document_id IS
        'The student ID in private_documents, until its deletion';
    COMMENT ON COLUMN vendor_applications.account_name IS 'The holder''s name, as reported by the bank';
    COMMENT ON COLUMN vendor_applications.recipient_code IS 'Recipient of the account at the gateway';
    COMMENT ON COLUMN vendor_applications.comment IS 'The applicant''s answer to the question';
    COMMENT ON COLUMN vendor_applications.question IS 'The latest question of staff to the applicant';
    """)


def downgrade() -> None:
    """Drop the tables and the function."""
    op.execute("DROP TABLE vendor_applications, private_documents")
    op.execute("ALTER TABLE vendor_profiles DROP CONSTRAINT ck_vendor_profiles_slug")
    op.execute("DROP FUNCTION store_slug_key")
