"""Tables of notifications and message deliveries."""

from datetime import datetime
from uuid import UUID

from sqlalchemy import CheckConstraint, ForeignKey, Index, UniqueConstraint, text
from sqlalchemy.orm import Mapped, mapped_column

from marketplace.infra.db import Base, CreatedAt, Entity, Timestamped
from marketplace.infra.encryption import ENCRYPTED_VALUE_PATTERN, BlindIndex, EncryptedText


class Notification(Entity):
    """A notification to a user. The text never contains a delivery PIN or another secret."""

    __tablename__ = "notifications"
    __table_args__ = (
        UniqueConstraint("user_id", "cause"),
        Index("ix_notifications_feed", "user_id", text("id DESC")),
        Index(
            "ix_notifications_unread",
            "user_id",
            text("id DESC"),
            postgresql_where=text("read_at IS NULL AND former_contact_id IS NULL"),
        ),
        Index(
            "ix_notifications_former_contact",
            "former_contact_id",
            postgresql_where=text("former_contact_id IS NOT NULL"),
        ),
        Index("ix_notifications_deliver_at", "deliver_at", postgresql_where=text("deliver_at IS NOT NULL")),
    )

    user_id: Mapped[UUID] = mapped_column(ForeignKey("profiles.id"))
    type: Mapped[str]
    title: Mapped[str]
    body: Mapped[str] = mapped_column(info={"personal": "message"})
    link: Mapped[str | None]
    cause: Mapped[str] = mapped_column(comment="A user gets one notification for each cause")
    former_contact_id: Mapped[UUID | None] = mapped_column(
        ForeignKey("former_contacts.id"), comment="Sent to this former contact only, not shown in a feed"
    )
    subject_id: Mapped[UUID | None] = mapped_column(comment="Order whose delivery PIN messages carry")
    created_at: Mapped[CreatedAt]
    read_at: Mapped[datetime | None]
    deliver_at: Mapped[datetime | None] = mapped_column(
        comment="Time to plan the deliveries; null once planned"
    )


class NotificationDeliveryLog(Timestamped, Entity):
    """An attempt to deliver a notification by a channel, with the latest status that the provider reported.

    The row contains neither the message's text nor the recipient's address.
    """

    __tablename__ = "notification_delivery_logs"
    __table_args__ = (
        CheckConstraint("channel IN ('push', 'messaging', 'sms', 'email')", name="channel"),
        CheckConstraint(
            "status IN ('queued', 'sending', 'sent', 'failed', 'delivered', 'read')", name="status"
        ),
        CheckConstraint("status <> 'queued' OR due_at IS NOT NULL", name="due_at"),
        CheckConstraint("status <> 'sending' OR lease_until IS NOT NULL", name="lease_until"),
        Index("ix_notification_delivery_logs_user", "user_id", text("id DESC")),
        Index(
            "uq_notification_delivery_logs_attempt",
            "notification_id",
            "channel",
            "device_id",
            "attempt",
            unique=True,
            postgresql_nulls_not_distinct=True,
            postgresql_where=text("notification_id IS NOT NULL"),
        ),
        Index(
            "ix_notification_delivery_logs_due",
            "channel",
            "due_at",
            postgresql_where=text("status = 'queued'"),
        ),
        Index(
            "ix_notification_delivery_logs_leases",
            "lease_until",
            postgresql_where=text("status = 'sending'"),
        ),
        Index(
            "ix_notification_delivery_logs_fallback",
            "fallback_at",
            postgresql_where=text("fallback_at IS NOT NULL"),
        ),
        Index(
            "ix_notification_delivery_logs_sms",
            "created_at",
            postgresql_include=["cost_minor"],
            postgresql_where=text("channel = 'sms'"),
        ),
    )

    notification_id: Mapped[UUID | None] = mapped_column(ForeignKey("notifications.id"), index=True)
    user_id: Mapped[UUID | None] = mapped_column(ForeignKey("profiles.id"))
    channel: Mapped[str]
    device_id: Mapped[UUID | None] = mapped_column(
        comment="Device of a push; the device may have been removed since"
    )
    attempt: Mapped[int] = mapped_column(server_default=text("1"))
    due_at: Mapped[datetime | None]
    lease_until: Mapped[datetime | None] = mapped_column(
        comment="End of a worker's right to send; after a worker's death the outcome is unknown"
    )
    fallback_at: Mapped[datetime | None] = mapped_column(
        comment="Time of the next channel, unless a receipt arrives before"
    )
    error_class: Mapped[str | None]
    cost_minor: Mapped[int | None] = mapped_column(comment="Cost of the message in kobo")
    milliseconds: Mapped[int | None]
    provider_message_id: Mapped[str | None] = mapped_column(unique=True, info={"personal": "phone"})
    status: Mapped[str] = mapped_column(server_default="queued")
    status_at: Mapped[datetime | None] = mapped_column(comment="The time of the status at the provider")
    error_code: Mapped[str | None] = mapped_column(comment="The provider's error code of a failed message")


OPT_OUT_INDEX = BlindIndex("message_opt_outs.phone")


class MessageOptOut(Base):
    """A phone number whose owner asked the messaging provider's channel to stop."""

    __tablename__ = "message_opt_outs"

    phone_index: Mapped[bytes | str] = mapped_column(OPT_OUT_INDEX, primary_key=True)
    created_at: Mapped[datetime]


DEVICE_TOKEN_INDEX = BlindIndex("user_devices.token")


class UserDevice(Entity):
    """A device that receives push notifications: a browser's subscription or a native app's token."""

    __tablename__ = "user_devices"
    __table_args__ = (
        CheckConstraint("kind IN ('web_push', 'fcm')", name="kind"),
        CheckConstraint("(kind = 'web_push') = (host IS NOT NULL)", name="host"),
        CheckConstraint(f"token ~ '{ENCRYPTED_VALUE_PATTERN}'", name="token"),
        UniqueConstraint("token_index"),
        Index("ix_user_devices_user", "user_id", text("last_seen_at DESC"), text("id DESC")),
    )

    user_id: Mapped[UUID] = mapped_column(ForeignKey("profiles.id"))
    kind: Mapped[str]
    name: Mapped[str | None] = mapped_column(info={"personal": "device"})
    host: Mapped[str | None] = mapped_column(comment="Host of a browser's push service")
    token: Mapped[str] = mapped_column(
        EncryptedText("user_devices.token"),
        info={"personal": "device"},
        comment="The token, or the subscription as JSON",
    )
    token_index: Mapped[bytes | str] = mapped_column(DEVICE_TOKEN_INDEX)
    created_at: Mapped[datetime]
    last_seen_at: Mapped[datetime]
