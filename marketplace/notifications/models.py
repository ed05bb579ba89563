"""Table of the notifications."""

from datetime import datetime
from uuid import UUID

from sqlalchemy import ForeignKey, Index, UniqueConstraint, text
from sqlalchemy.orm import Mapped, mapped_column

from marketplace.infra.db import Base, CreatedAt, Id


class Notification(Base):
    """One thing that a person is told. Delivery PINs and the like never stand in it."""

    __tablename__ = "notifications"
    __table_args__ = (
        UniqueConstraint("user_id", "cause"),
        Index("ix_notifications_feed", "user_id", text("id DESC")),
    )

    id: Mapped[Id]
    user_id: Mapped[UUID] = mapped_column(ForeignKey("profiles.id"))
    type: Mapped[str]
    title: Mapped[str]
    body: Mapped[str]
    link: Mapped[str | None]
    cause: Mapped[str] = mapped_column(comment="One cause notifies a person once")
    created_at: Mapped[CreatedAt]
    read_at: Mapped[datetime | None]
