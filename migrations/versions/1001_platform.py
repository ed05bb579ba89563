"""Campuses, settings, audit log and idempotency keys."""

from alembic import op

revision = "1001"
down_revision = None
branch_labels = None
depends_on = None

_EXTENSIONS = ("btree_gist", "fuzzystrmatch", "pg_trgm", "unaccent")


def upgrade() -> None:
    """Create the tables, extensions and the shared trigger function."""
    # btree_gist lets exclusion constraints combine ids and time ranges. The search uses the other extensions.
    for extension in _EXTENSIONS:
        op.execute(f"CREATE EXTENSION IF NOT EXISTS {extension}")
    op.execute("""
    CREATE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        RAISE EXCEPTION '% is append-only: % is refused', TG_TABLE_NAME, TG_OP USING ERRCODE = 'restrict_violation';
    END $$;
    """)
    op.execute("""
    CREATE TABLE campuses (
        id uuid DEFAULT uuidv7() CONSTRAINT pk_campuses PRIMARY KEY,
        name text NOT NULL,
        slug text NOT NULL,
        created_at timestamptz NOT NULL DEFAULT now(),
        CONSTRAINT uq_campuses_slug UNIQUE (slug)
    );
    """)
    op.execute("""
    CREATE TABLE campus_email_domains (
        domain text CONSTRAINT pk_campus_email_domains PRIMARY KEY,
        campus_id uuid NOT NULL CONSTRAINT fk_campus_email_domains_campus_id REFERENCES campuses
    );
    CREATE INDEX ix_campus_email_domains_campus_id ON campus_email_domains (campus_id);
    """)
    op.execute("""
    CREATE TABLE hostels (
        id uuid DEFAULT uuidv7() CONSTRAINT pk_hostels PRIMARY KEY,
        campus_id uuid NOT NULL CONSTRAINT fk_hostels_campus_id REFERENCES campuses,
        name text NOT NULL
    );
    CREATE INDEX ix_hostels_campus_id ON hostels (campus_id);
    """)
    op.execute("""
    CREATE TABLE hubs (
        id uuid DEFAULT uuidv7() CONSTRAINT pk_hubs PRIMARY KEY,
        campus_id uuid NOT NULL CONSTRAINT fk_hubs_campus_id REFERENCES campuses,
        name text NOT NULL,
        address text NOT NULL,
        opening_hours text NOT NULL,
        latitude numeric(9, 6),
        longitude numeric(9, 6),
        active boolean NOT NULL DEFAULT true,
        updated_at timestamptz
    );
    CREATE INDEX ix_hubs_campus_id ON hubs (campus_id);
    """)
    op.execute("""
    CREATE TABLE platform_settings (
        key text CONSTRAINT pk_platform_settings PRIMARY KEY,
        value jsonb NOT NULL,
        description text NOT NULL,
        revision bigint NOT NULL DEFAULT 1,
        updated_at timestamptz NOT NULL DEFAULT now()
    );
    """)
    op.execute("""
    CREATE TABLE audit_logs (
        id bigint GENERATED ALWAYS AS IDENTITY CONSTRAINT pk_audit_logs PRIMARY KEY,
        at timestamptz NOT NULL,
        actor_id uuid,
        actor text NOT NULL,
        action text NOT NULL,
        target_type text NOT NULL,
        target_id text NOT NULL,
        ip_address text,
        user_agent text,
        before jsonb,
        after jsonb,
        previous_hash text NOT NULL,
        hash text NOT NULL
    );
    """)
    op.execute("""
    CREATE TRIGGER audit_logs_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON audit_logs
        FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
    """)
    # The response is stored in the row's second version. Room on the page keeps all indexes as they are.
    op.execute("""
    CREATE TABLE idempotency_keys (
        id uuid DEFAULT uuidv7() CONSTRAINT pk_idempotency_keys PRIMARY KEY,
        caller text NOT NULL,
        method text NOT NULL,
        path text NOT NULL,
        key text NOT NULL,
        request_hash text NOT NULL,
        claimed_at timestamptz NOT NULL,
        completed_at timestamptz,
        response_status bigint,
        response_type text,
        response_body bytea,
        expires_at timestamptz NOT NULL,
        CONSTRAINT uq_idempotency_keys_caller_method_path_key UNIQUE (caller, method, path, key)
    ) WITH (fillfactor = 20);
    CREATE INDEX ix_idempotency_keys_expires_at ON idempotency_keys (expires_at);
    """)


def downgrade() -> None:
    """Drop the tables, extensions and the shared trigger function."""
    op.execute("""
    DROP TABLE idempotency_keys, audit_logs, platform_settings, hubs, hostels, campus_email_domains,
        campuses
    """)
    op.execute("DROP FUNCTION refuse_change()")
    for extension in reversed(_EXTENSIONS):
        op.execute(f"DROP EXTENSION {extension}")
