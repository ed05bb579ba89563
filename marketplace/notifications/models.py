"""Tables of the notifications, and of what became of the messages about them."""

from datetime import datetime
from uuid import UUID

from sqlalchemy import CheckConstraint, ForeignKey, Index, UniqueConstraint, text
from sqlalchemy.orm import Mapped, mapped_column

from marketplace.infra.db import CreatedAt, Entity, Timestamped


class Notification(Entity):
    """One thing that a person is told. Delivery PINs and the like never stand in it."""

    __tablename__ = "notifications"
    __table_args__ = (
        UniqueConstraint("user_id", "cause"),
        Index("ix_notifications_feed", "user_id", text("id DESC")),
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
    cause: Mapped[str] = mapped_column(comment="One cause notifies a person once")
    former_contact_id: Mapped[UUID | None] = mapped_column(
        ForeignKey("former_contacts.id"), comment="It goes there alone, and stands in nobody's feed"
    )
    created_at: Mapped[CreatedAt]
    read_at: Mapped[datetime | None]


class NotificationDeliveryLog(Timestamped, Entity):
    """One message that was handed to a channel, and the latest that its provider told of it.

    Neither the message's text nor the address that it went to stands in it.
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
    status_at: Mapped[datetime | None] = mapped_column(comment="When it came to that, as the provider says")
    error_code: Mapped[str | None] = mapped_column(comment="The provider's, of a message that failed")
