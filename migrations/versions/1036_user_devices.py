"""Devices that receive push notifications."""

from alembic import op

revision = "1036"
down_revision = "1035"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the table."""
    op.execute("""
    CREATE TABLE user_devices (
        id uuid DEFAULT uuidv7() CONSTRAINT pk_user_devices PRIMARY KEY,
        user_id uuid NOT NULL CONSTRAINT fk_user_devices_user_id REFERENCES profiles,
        kind text NOT NULL,
        name text,
        host text,
        token text NOT NULL,
        token_index bytea NOT NULL,
        created_at timestamptz NOT NULL,
        last_seen_at timestamptz NOT NULL,
        CONSTRAINT uq_user_devices_token_index UNIQUE (token_index),
        CONSTRAINT ck_user_devices_kind CHECK (kind IN ('web_push', 'fcm')),
        CONSTRAINT ck_user_devices_host CHECK ((kind = 'web_push') = (host IS NOT NULL)),
        CONSTRAINT ck_user_devices_token CHECK (token ~ '^v1:[a-z0-9_-]{1,32}:[A-Za-z0-9_-]{38,}$')
    );
    CREATE INDEX ix_user_devices_user ON user_devices (user_id, last_seen_at DESC, id DESC);
    COMMENT ON COLUMN user_devices.host IS 'Host of a browser''s push service';
    COMMENT ON COLUMN user_devices.token IS 'The token, or the subscription as JSON';
    """)


def downgrade() -> None:
    """Drop the table."""
    op.execute("DROP TABLE user_devices")
