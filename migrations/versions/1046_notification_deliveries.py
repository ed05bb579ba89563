"""Deliveries of notifications by channel, opt-outs of messages, and languages of people."""

from alembic import op

revision = "1046"
down_revision = "1045"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the columns and the table. A later migration builds the indexes and validates the constraint."""
    op.execute(
        """
        ALTER TABLE notifications
            ADD COLUMN subject_id uuid,
            ADD COLUMN deliver_at timestamptz;
        COMMENT ON COLUMN notifications.subject_id IS 'Order whose delivery PIN messages carry';
        COMMENT ON COLUMN notifications.deliver_at IS 'Time to plan the deliveries; null once planned';
        """
    )
    op.execute(
        """
        ALTER TABLE notification_delivery_logs
            ADD COLUMN device_id uuid,
            ADD COLUMN attempt bigint NOT NULL DEFAULT 1,
            ADD COLUMN due_at timestamptz,
            ADD COLUMN lease_until timestamptz,
            ADD COLUMN fallback_at timestamptz,
            ADD COLUMN error_class text,
            ADD COLUMN cost_minor bigint,
            ADD COLUMN milliseconds bigint,
            DROP CONSTRAINT ck_notification_delivery_logs_status,
            ADD CONSTRAINT ck_notification_delivery_logs_status CHECK (
                status IN ('queued', 'sending', 'sent', 'failed', 'delivered', 'read')) NOT VALID,
            ADD CONSTRAINT ck_notification_delivery_logs_due_at CHECK (
                status <> 'queued' OR due_at IS NOT NULL) NOT VALID,
            ADD CONSTRAINT ck_notification_delivery_logs_lease_until CHECK (
                status <> 'sending' OR lease_until IS NOT NULL) NOT VALID;
        COMMENT ON COLUMN notification_delivery_logs.device_id IS
            'Device of a push; the device may have been removed since';
        COMMENT ON COLUMN notification_delivery_logs.lease_until IS
            'End of a worker''s right to send; after a worker''s death the outcome is unknown';
        COMMENT ON COLUMN notification_delivery_logs.fallback_at IS
            'Time of the next channel, unless a receipt arrives before';
        COMMENT ON COLUMN notification_delivery_logs.cost_minor IS 'Cost of the message in kobo';
        """
    )
    op.execute(
        """
        ALTER TABLE profiles ADD COLUMN language text NOT NULL DEFAULT 'en',
            ADD CONSTRAINT ck_profiles_language CHECK (language IN ('en', 'pcm')) NOT VALID;
        """
    )
    op.execute(
        """
        CREATE TABLE message_opt_outs (
            phone_index bytea NOT NULL,
            created_at timestamptz NOT NULL,
            CONSTRAINT pk_message_opt_outs PRIMARY KEY (phone_index)
        );
        """
    )


def downgrade() -> None:
    """Remove the columns and the table. Deliveries in progress count as failed."""
    op.execute(
        """
        UPDATE notification_delivery_logs SET status = 'failed' WHERE status = 'sending';
        DROP TABLE message_opt_outs;
        ALTER TABLE profiles DROP CONSTRAINT ck_profiles_language, DROP COLUMN language;
        ALTER TABLE notification_delivery_logs
            DROP CONSTRAINT ck_notification_delivery_logs_due_at,
            DROP CONSTRAINT ck_notification_delivery_logs_lease_until,
            DROP CONSTRAINT ck_notification_delivery_logs_status,
            ADD CONSTRAINT ck_notification_delivery_logs_status CHECK (
                status IN ('queued', 'sent', 'failed', 'delivered', 'read')),
            DROP COLUMN device_id, DROP COLUMN attempt, DROP COLUMN due_at, DROP COLUMN lease_until,
            DROP COLUMN fallback_at, DROP COLUMN error_class, DROP COLUMN cost_minor, DROP COLUMN milliseconds;
        ALTER TABLE notifications DROP COLUMN subject_id, DROP COLUMN deliver_at;
        """
    )
