"""Notifications and their deliveries, alerts, and messages from customers."""

from alembic import op

revision = "1012"
down_revision = "1011"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the tables."""
    op.execute("""
    CREATE TABLE notifications (
        id uuid DEFAULT uuidv7() CONSTRAINT pk_notifications PRIMARY KEY,
        user_id uuid NOT NULL CONSTRAINT fk_notifications_user_id REFERENCES profiles,
        type text NOT NULL,
        title text NOT NULL,
        body text NOT NULL,
        link text,
        cause text NOT NULL,
        created_at timestamptz NOT NULL DEFAULT now(),
        read_at timestamptz,
        former_contact_id uuid CONSTRAINT fk_notifications_former_contact_id REFERENCES former_contacts,
        CONSTRAINT uq_notifications_user_id_cause UNIQUE (user_id, cause)
    );
    COMMENT ON COLUMN notifications.cause IS 'A user gets one notification for each cause';
    COMMENT ON COLUMN notifications.former_contact_id IS 'Sent to this former contact only, not shown in a feed';
    CREATE INDEX ix_notifications_former_contact ON notifications (former_contact_id)
        WHERE former_contact_id IS NOT NULL;
    CREATE INDEX ix_notifications_feed ON notifications (user_id, id DESC);
    """)
    op.execute("""
    CREATE TABLE notification_delivery_logs (
        id uuid DEFAULT uuidv7() CONSTRAINT pk_notification_delivery_logs PRIMARY KEY,
        notification_id uuid CONSTRAINT fk_notification_delivery_logs_notification_id REFERENCES notifications,
        user_id uuid CONSTRAINT fk_notification_delivery_logs_user_id REFERENCES profiles,
        channel text NOT NULL,
        provider_message_id text,
        status text NOT NULL DEFAULT 'queued',
        status_at timestamptz,
        error_code text,
        created_at timestamptz NOT NULL DEFAULT now(),
        updated_at timestamptz NOT NULL DEFAULT now(),
        CONSTRAINT uq_notification_delivery_logs_provider_message_id UNIQUE (provider_message_id),
        CONSTRAINT ck_notification_delivery_logs_channel CHECK (channel IN ('push', 'messaging', 'sms', 'email')),
        CONSTRAINT ck_notification_delivery_logs_status
            CHECK (status IN ('queued', 'sent', 'failed', 'delivered', 'read'))
    );
    COMMENT ON COLUMN notification_delivery_logs.status_at IS 'The time of the status at the provider';
    COMMENT ON COLUMN notification_delivery_logs.error_code IS 'The provider''s error code of a failed message';
    CREATE INDEX ix_notification_delivery_logs_notification_id ON notification_delivery_logs (notification_id);
    CREATE INDEX ix_notification_delivery_logs_user ON notification_delivery_logs (user_id, id DESC);
    """)
    op.execute("""
    CREATE TABLE alerts (
        id uuid DEFAULT uuidv7() CONSTRAINT pk_alerts PRIMARY KEY,
        identifier text NOT NULL,
        severity text NOT NULL,
        subject text NOT NULL,
        title text NOT NULL,
        facts jsonb NOT NULL,
        latest_facts jsonb NOT NULL,
        occurrences bigint NOT NULL DEFAULT 1,
        raised_at timestamptz NOT NULL,
        last_raised_at timestamptz NOT NULL,
        resolved_at timestamptz,
        resolution text,
        resolved_by uuid CONSTRAINT fk_alerts_resolved_by REFERENCES profiles,
        note text,
        CONSTRAINT ck_alerts_identifier CHECK (identifier ~ '^[A-Z][A-Z0-9_]{2,63}$'),
        CONSTRAINT ck_alerts_severity CHECK (severity IN ('SEV-1', 'SEV-2', 'SEV-3')),
        CONSTRAINT ck_alerts_occurrences CHECK (occurrences > 0),
        CONSTRAINT ck_alerts_resolved CHECK ((resolved_at IS NULL) = (resolution IS NULL)),
        CONSTRAINT ck_alerts_officer CHECK (resolution IS DISTINCT FROM 'officer' OR resolved_by IS NOT NULL),
        CONSTRAINT ck_alerts_resolution CHECK (resolution IN ('officer', 'operator', 'rule'))
    );
    COMMENT ON COLUMN alerts.severity IS 'The worst severity so far';
    COMMENT ON COLUMN alerts.subject IS 'The thing concerned; one alert is open for each';
    COMMENT ON COLUMN alerts.facts IS 'Ids, counts and amounts of the first occurrence';
    COMMENT ON COLUMN alerts.resolution IS 'Resolved by the rule itself, or by a person';
    COMMENT ON COLUMN alerts.note IS 'The reason of the resolution';
    CREATE UNIQUE INDEX uq_alerts_open ON alerts (identifier, subject) WHERE resolved_at IS NULL;
    CREATE INDEX ix_alerts_raised ON alerts (raised_at DESC, id DESC);
    CREATE INDEX ix_alerts_unresolved ON alerts (raised_at DESC, id DESC) WHERE resolved_at IS NULL;
    """)
    op.execute("""
    CREATE TABLE alert_messages (
        alert_id uuid NOT NULL CONSTRAINT fk_alert_messages_alert_id REFERENCES alerts,
        channel text NOT NULL,
        event text NOT NULL,
        sending_until timestamptz NOT NULL,
        sent_at timestamptz,
        CONSTRAINT pk_alert_messages PRIMARY KEY (alert_id, channel, event),
        CONSTRAINT ck_alert_messages_event CHECK (event IN ('raised', 'resolved'))
    );
    """)
    op.execute("""
    CREATE TABLE support_contacts (
        id uuid DEFAULT uuidv7() CONSTRAINT pk_support_contacts PRIMARY KEY,
        sender text NOT NULL,
        phone text,
        display_name text,
        profile_id uuid CONSTRAINT fk_support_contacts_profile_id REFERENCES profiles,
        first_message_at timestamptz NOT NULL,
        last_message_at timestamptz NOT NULL,
        created_at timestamptz NOT NULL DEFAULT now(),
        CONSTRAINT uq_support_contacts_sender UNIQUE (sender),
        CONSTRAINT ck_support_contacts_messages_in_order CHECK (first_message_at <= last_message_at)
    );
    COMMENT ON COLUMN support_contacts.sender IS 'The sender''s id at the provider';
    COMMENT ON COLUMN support_contacts.phone IS 'The number in international format, if the sender is a number';
    COMMENT ON COLUMN support_contacts.display_name IS 'The name chosen by the sender, unverified';
    COMMENT ON COLUMN support_contacts.profile_id IS 'The only profile with the number; none if several profiles have it';
    CREATE INDEX ix_support_contacts_profile ON support_contacts (profile_id);
    """)
    op.execute("""
    CREATE TABLE support_contact_messages (
        id uuid DEFAULT uuidv7() CONSTRAINT pk_support_contact_messages PRIMARY KEY,
        contact_id uuid NOT NULL CONSTRAINT fk_support_contact_messages_contact_id REFERENCES support_contacts,
        provider_message_id text NOT NULL,
        type text NOT NULL,
        text text,
        content jsonb,
        replies_to text,
        sent_at timestamptz NOT NULL,
        received_at timestamptz NOT NULL DEFAULT now(),
        CONSTRAINT uq_support_contact_messages_provider_message_id UNIQUE (provider_message_id)
    );
    COMMENT ON COLUMN support_contact_messages.content IS 'The content of a message other than text';
    COMMENT ON COLUMN support_contact_messages.replies_to IS 'The provider''s id of the answered message';
    COMMENT ON COLUMN support_contact_messages.sent_at IS 'The time of sending at the provider';
    CREATE INDEX ix_support_contact_messages_contact ON support_contact_messages (contact_id, sent_at, id);
    """)


def downgrade() -> None:
    """Drop the tables."""
    op.execute("""
    DROP TABLE support_contact_messages, support_contacts, alert_messages, alerts,
        notification_delivery_logs, notifications
    """)
