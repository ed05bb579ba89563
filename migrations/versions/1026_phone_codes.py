"""Verification of phone numbers: codes, and the time of the verification in profiles."""

from alembic import op

revision = "1026"
down_revision = "1025"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the table, and add the column with a constraint that the next migration validates."""
    op.execute(
        """
        CREATE TABLE phone_codes (
            id uuid DEFAULT uuidv7() CONSTRAINT pk_phone_codes PRIMARY KEY,
            user_id uuid NOT NULL CONSTRAINT fk_phone_codes_user_id REFERENCES profiles,
            phone text NOT NULL CONSTRAINT ck_phone_codes_phone
                CHECK (phone ~ '^v1:[a-z0-9_-]{1,32}:[A-Za-z0-9_-]{38,}$'),
            phone_index bytea NOT NULL,
            failures bigint NOT NULL DEFAULT 0,
            created_at timestamptz NOT NULL,
            expires_at timestamptz NOT NULL,
            used_at timestamptz,
            CONSTRAINT ck_phone_codes_failures CHECK (failures BETWEEN 0 AND 5),
            CONSTRAINT ck_phone_codes_expires_at CHECK (expires_at > created_at)
        );
        COMMENT ON COLUMN phone_codes.failures IS 'Number of wrong attempts';
        CREATE INDEX ix_phone_codes_user ON phone_codes (user_id, created_at);
        CREATE INDEX ix_phone_codes_number ON phone_codes (phone_index, created_at);
        CREATE INDEX ix_phone_codes_created_at ON phone_codes (created_at);
        ALTER TABLE profiles ADD COLUMN phone_verified_at timestamptz;
        COMMENT ON COLUMN profiles.phone_verified_at IS
            'Time at which the user proved to have the phone number; null after a change of the number';
        ALTER TABLE profiles ADD CONSTRAINT ck_profiles_phone_verified_at
            CHECK (phone_verified_at IS NULL OR phone IS NOT NULL) NOT VALID;
        """
    )


def downgrade() -> None:
    """Drop the table and the column."""
    op.execute("ALTER TABLE profiles DROP COLUMN phone_verified_at")
    op.execute("DROP TABLE phone_codes")
