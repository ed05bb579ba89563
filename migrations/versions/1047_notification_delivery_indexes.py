"""Indexes of deliveries, and validation of the constraints."""

import sqlalchemy as sa
from alembic import op

from migrations.operations import backfill, build_index, outside_transaction, validate_constraint

revision = "1047"
down_revision = "1046"
branch_labels = None
depends_on = None

_DELIVERIES = "notification_delivery_logs"
_CONSTRAINTS = ("status", "due_at", "lease_until")


def upgrade() -> None:
    """Build the indexes and validate the constraints."""
    backfill(
        """
        UPDATE notification_delivery_logs SET due_at = created_at
        WHERE id IN (
            SELECT id FROM notification_delivery_logs WHERE status = 'queued' AND due_at IS NULL LIMIT 1000)
        """
    )
    build_index(
        "ix_notifications_deliver_at",
        "notifications",
        ["deliver_at"],
        postgresql_where=sa.text("deliver_at IS NOT NULL"),
    )
    build_index(
        "uq_notification_delivery_logs_attempt",
        _DELIVERIES,
        ["notification_id", "channel", "device_id", "attempt"],
        unique=True,
        postgresql_nulls_not_distinct=True,
        postgresql_where=sa.text("notification_id IS NOT NULL"),
    )
    build_index(
        "ix_notification_delivery_logs_due",
        _DELIVERIES,
        ["channel", "due_at"],
        postgresql_where=sa.text("status = 'queued'"),
    )
    build_index(
        "ix_notification_delivery_logs_leases",
        _DELIVERIES,
        ["lease_until"],
        postgresql_where=sa.text("status = 'sending'"),
    )
    build_index(
        "ix_notification_delivery_logs_fallback",
        _DELIVERIES,
        ["fallback_at"],
        postgresql_where=sa.text("fallback_at IS NOT NULL"),
    )
    build_index(
        "ix_notification_delivery_logs_sms",
        _DELIVERIES,
        ["created_at"],
        postgresql_include=["cost_minor"],
        postgresql_where=sa.text("channel = 'sms'"),
    )
    for name in _CONSTRAINTS:
        validate_constraint(_DELIVERIES, f"ck_{_DELIVERIES}_{name}")
    validate_constraint("profiles", "ck_profiles_language")


def downgrade() -> None:
    """Drop the indexes, and return the constraints to their state before the validation."""
    with outside_transaction():
        for name in ("sms", "fallback", "leases", "due"):
            op.execute(f"DROP INDEX CONCURRENTLY IF EXISTS ix_{_DELIVERIES}_{name}")
        op.execute(f"DROP INDEX CONCURRENTLY IF EXISTS uq_{_DELIVERIES}_attempt")
        op.execute("DROP INDEX CONCURRENTLY IF EXISTS ix_notifications_deliver_at")
    op.execute(
        """
        ALTER TABLE notification_delivery_logs
            DROP CONSTRAINT ck_notification_delivery_logs_status,
            ADD CONSTRAINT ck_notification_delivery_logs_status CHECK (
                status IN ('queued', 'sending', 'sent', 'failed', 'delivered', 'read')) NOT VALID,
            DROP CONSTRAINT ck_notification_delivery_logs_due_at,
            ADD CONSTRAINT ck_notification_delivery_logs_due_at CHECK (
                status <> 'queued' OR due_at IS NOT NULL) NOT VALID,
            DROP CONSTRAINT ck_notification_delivery_logs_lease_until,
            ADD CONSTRAINT ck_notification_delivery_logs_lease_until CHECK (
                status <> 'sending' OR lease_until IS NOT NULL) NOT VALID;
        ALTER TABLE profiles DROP CONSTRAINT ck_profiles_language,
            ADD CONSTRAINT ck_profiles_language CHECK (language IN ('en', 'pcm')) NOT VALID;
        """
    )
