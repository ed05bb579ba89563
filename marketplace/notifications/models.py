"""Tables of notifications and message deliveries."""

from datetime import datetime
from uuid import UUID

from sqlalchemy import CheckConstraint, ForeignKey, Index, UniqueConstraint, text
from sqlalchemy.orm import Mapped, mapped_column

from marketplace.infra.db import CreatedAt, Entity, Timestamped
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
    created_at: Mapped[CreatedAt]
    read_at: Mapped[datetime | None]


class NotificationDeliveryLog(Timestamped, Entity):
    """A message handed to a channel, with the latest status that the provider reported.

    The row contains neither the message's text nor the recipient's address.
    """

    __tablename__ = "notification_delivery_logs"
    __table_args__ = (
        CheckConstraint("channel IN ('push', 'messaging', 'sms', 'email')", name="channel"),
        CheckConstraint("status IN ('queued', 'sent', 'failed', 'delivered', 'read')", name="status"),
        Index("ix_notification_delivery_logs_user", "user_id", text("id DESC")),
    )

    notification_id: Mapped[UUID | None] = mapped_column(ForeignKey("notifications.id"), index=True)
    user_id: Mapped[UUID | None] = mapped_column(ForeignKey("profiles.id"))
    channel: Mapped[str]
    provider_message_id: Mapped[str | None] = mapped_column(unique=True, info={"personal": "phone"})
    status: Mapped[str] = mapped_column(server_default="queued")
    status_at: Mapped[datetime | None] = mapped_column(comment="The time of the status at the provider")
    error_code: Mapped[str | None] = mapped_column(comment="The provider's error code of a failed message")


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
