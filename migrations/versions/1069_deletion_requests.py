"""Requests to delete accounts, and erased profiles."""

from alembic import op

revision = "1069"
down_revision = "1068"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the table, and add the column."""
    op.execute(
        """
        CREATE TABLE deletion_requests (
            id uuid DEFAULT uuidv7() NOT NULL,
            user_id uuid NOT NULL,
            status text DEFAULT 'pending' NOT NULL,
            reason text,
            requested_at timestamptz NOT NULL,
            grace_ends_at timestamptz NOT NULL,
            reminders_sent bigint DEFAULT 0 NOT NULL,
            ended_at timestamptz,
            CONSTRAINT pk_deletion_requests PRIMARY KEY (id),
            CONSTRAINT ck_deletion_requests_status CHECK (status IN ('pending', 'cancelled', 'executed')),
            CONSTRAINT ck_deletion_requests_ended_at CHECK ((status = 'pending') = (ended_at IS NULL)),
            CONSTRAINT ck_deletion_requests_grace_ends_at CHECK (grace_ends_at > requested_at),
            CONSTRAINT fk_deletion_requests_user_id FOREIGN KEY (user_id) REFERENCES profiles (id)
        );
        CREATE UNIQUE INDEX uq_deletion_requests_pending ON deletion_requests (user_id) WHERE status = 'pending';
        CREATE INDEX ix_deletion_requests_user ON deletion_requests (user_id, id DESC);
        CREATE INDEX ix_deletion_requests_grace ON deletion_requests (grace_ends_at, id) WHERE status = 'pending';
        ALTER TABLE profiles ADD COLUMN erased_at timestamptz,
            ADD CONSTRAINT ck_profiles_erased CHECK (
                erased_at IS NULL OR (account_status = 'suspended' AND role = 'buyer'
                    AND num_nonnulls(email, name, phone, avatar_url, avatar_key, status_reason) = 0)) NOT VALID;
        COMMENT ON COLUMN profiles.erased_at IS
            'Time at which an erasure began; the profile has stayed as a pseudonym since then';
        """
    )


def downgrade() -> None:
    """Drop the table and the column."""
    op.execute(
        """
        ALTER TABLE profiles DROP COLUMN erased_at;
        DROP TABLE deletion_requests;
        """
    )
