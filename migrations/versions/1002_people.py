"""People, their addresses and stores, and the roles of staff."""

from alembic import op

revision = "1002"
down_revision = "1001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the tables."""
    op.execute("""
    CREATE TABLE admin_roles (
        role text CONSTRAINT pk_admin_roles PRIMARY KEY,
        permissions text[] NOT NULL
    );
    """)
    op.execute("""
    CREATE TABLE profiles (
        id uuid CONSTRAINT pk_profiles PRIMARY KEY,
        email text,
        name text,
        phone text,
        campus_id uuid CONSTRAINT fk_profiles_campus_id REFERENCES campuses,
        avatar_url text,
        role text NOT NULL DEFAULT 'buyer',
        staff_role text CONSTRAINT fk_profiles_staff_role REFERENCES admin_roles,
        badges text[] NOT NULL DEFAULT '{}',
        account_status text NOT NULL DEFAULT 'active',
        status_reason text,
        appeal_status text,
        referral_code text NOT NULL DEFAULT upper(substr(replace(gen_random_uuid()::text, '-', ''), 1, 10)),
        created_at timestamptz NOT NULL DEFAULT now(),
        updated_at timestamptz NOT NULL DEFAULT now(),
        CONSTRAINT uq_profiles_referral_code UNIQUE (referral_code),
        CONSTRAINT ck_profiles_role CHECK (role IN ('buyer', 'vendor', 'staff')),
        CONSTRAINT ck_profiles_staff_role CHECK ((role = 'staff') = (staff_role IS NOT NULL)),
        CONSTRAINT ck_profiles_account_status CHECK (account_status IN ('active', 'restricted', 'suspended'))
    );
    CREATE INDEX ix_profiles_email ON profiles (lower(email));
    CREATE INDEX ix_profiles_campus_id ON profiles (campus_id);
    CREATE INDEX ix_profiles_phone ON profiles (phone) WHERE phone IS NOT NULL;
    """)
    op.execute("""
    CREATE TABLE addresses (
        id uuid DEFAULT uuidv7() CONSTRAINT pk_addresses PRIMARY KEY,
        user_id uuid NOT NULL CONSTRAINT fk_addresses_user_id REFERENCES profiles,
        label text,
        hostel text NOT NULL,
        hall text,
        room_number text,
        latitude numeric(9, 6),
        longitude numeric(9, 6),
        instructions text,
        phone text,
        is_default boolean NOT NULL DEFAULT false,
        created_at timestamptz NOT NULL DEFAULT now(),
        updated_at timestamptz NOT NULL DEFAULT now(),
        deleted_at timestamptz
    );
    CREATE UNIQUE INDEX uq_addresses_default ON addresses (user_id) WHERE is_default AND deleted_at IS NULL;
    CREATE INDEX ix_addresses_user ON addresses (user_id, created_at);
    """)
    op.execute("""
    CREATE TABLE former_contacts (
        id uuid DEFAULT uuidv7() CONSTRAINT pk_former_contacts PRIMARY KEY,
        user_id uuid NOT NULL CONSTRAINT fk_former_contacts_user_id REFERENCES profiles,
        kind text NOT NULL,
        contact text NOT NULL,
        replaced_at timestamptz NOT NULL,
        CONSTRAINT ck_former_contacts_kind CHECK (kind IN ('phone', 'email'))
    );
    CREATE INDEX ix_former_contacts_user ON former_contacts (user_id, replaced_at);
    """)
    # A trigger of the search area writes the column `search`.
    op.execute("""
    CREATE TABLE vendor_profiles (
        id uuid DEFAULT uuidv7() CONSTRAINT pk_vendor_profiles PRIMARY KEY,
        user_id uuid NOT NULL CONSTRAINT fk_vendor_profiles_user_id REFERENCES profiles,
        campus_id uuid NOT NULL CONSTRAINT fk_vendor_profiles_campus_id REFERENCES campuses,
        display_name text NOT NULL,
        slug text NOT NULL,
        description text NOT NULL DEFAULT '',
        verified boolean NOT NULL DEFAULT false,
        status text NOT NULL DEFAULT 'active',
        on_vacation boolean NOT NULL DEFAULT false,
        vacation_until timestamptz,
        vacation_note text,
        rating_sum bigint NOT NULL DEFAULT 0,
        rating_count bigint NOT NULL DEFAULT 0,
        completed_orders bigint NOT NULL DEFAULT 0,
        revision bigint NOT NULL DEFAULT 1,
        created_at timestamptz NOT NULL DEFAULT now(),
        updated_at timestamptz NOT NULL DEFAULT now(),
        search tsvector NOT NULL,
        response_seconds_sum bigint NOT NULL DEFAULT 0,
        response_count bigint NOT NULL DEFAULT 0,
        policies jsonb NOT NULL DEFAULT '{}',
        CONSTRAINT uq_vendor_profiles_user_id UNIQUE (user_id),
        CONSTRAINT uq_vendor_profiles_slug UNIQUE (slug),
        CONSTRAINT ck_vendor_profiles_status CHECK (status IN ('active', 'suspended', 'closed'))
    );
    COMMENT ON COLUMN vendor_profiles.response_seconds_sum IS 'The sum of times from payment to acceptance, in seconds';
    COMMENT ON COLUMN vendor_profiles.policies IS 'Texts by policy: returns, delivery, warranty';
    CREATE INDEX ix_vendor_profiles_campus_id ON vendor_profiles (campus_id);
    CREATE INDEX ix_vendor_profiles_search ON vendor_profiles USING gin (search) WITH (fastupdate = off);
    """)


def downgrade() -> None:
    """Drop the tables."""
    op.execute("DROP TABLE vendor_profiles, former_contacts, addresses, profiles, admin_roles")
