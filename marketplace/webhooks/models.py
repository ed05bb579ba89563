"""Tables of incoming webhooks."""

from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import CheckConstraint, ForeignKey, Index, LargeBinary, text
from sqlalchemy.orm import Mapped, mapped_column

from marketplace.infra.db import Base, CreatedAt, Entity

_PROVIDERS = "provider IN ('gateway', 'messaging')"


class InboxEvent(Entity):
    """A delivery with the raw body. The row is committed before the sender gets the acknowledgement."""

    __tablename__ = "webhook_inbox"
    __table_args__ = (
        CheckConstraint(_PROVIDERS, name="provider"),
        CheckConstraint(
            "status IN ('received', 'retrying', 'processed', 'duplicate', 'ignored', 'dead')", name="status"
        ),
        # A received row gets its id only when it is processed.
        Index("ix_webhook_inbox_dedupe_id", "dedupe_id", postgresql_where=text("dedupe_id IS NOT NULL")),
        Index("ix_webhook_inbox_due", "due_at", postgresql_where=text("status IN ('received', 'retrying')")),
        Index(
            "ix_webhook_inbox_received",
            text("received_at DESC"),
            text("id DESC"),
            postgresql_include=["status"],
        ),
        Index(
            "ix_webhook_inbox_type",
            "event_type",
            text("received_at DESC"),
            text("id DESC"),
            postgresql_where=text("event_type IS NOT NULL"),
        ),
        Index(
            "ix_webhook_inbox_open",
            "status",
            text("received_at DESC"),
            text("id DESC"),
            postgresql_where=text("status IN ('received', 'retrying', 'dead')"),
        ),
        Index("ix_webhook_inbox_reference", "reference", postgresql_where=text("reference IS NOT NULL")),
        Index("ix_webhook_inbox_dead", "finished_at", postgresql_where=text("status = 'dead'")),
        Index(
            "ix_webhook_inbox_finished",
            "finished_at",
            postgresql_where=text("status IN ('processed', 'duplicate', 'ignored')"),
        ),
    )

    provider: Mapped[str]
    body: Mapped[bytes] = mapped_column(LargeBinary, info={"personal": "event"})
    status: Mapped[str] = mapped_column(server_default="received")
    event_type: Mapped[str | None]
    dedupe_id: Mapped[str | None] = mapped_column(info={"personal": "phone"})
    reference: Mapped[str | None] = mapped_column(comment="The gateway's reference of the charge or transfer")
    attempts: Mapped[int] = mapped_column(server_default=text("0"))
    # The time of the next attempt; for a dead event, the time of the last attempt.
    due_at: Mapped[datetime] = mapped_column(server_default=text("now()"))
    last_error: Mapped[str | None]
    received_at: Mapped[CreatedAt]
    finished_at: Mapped[datetime | None]


class ProcessedWebhookEvent(Base):
    """The deduplication record of an event, committed with the event's effect.

    The id is the ``dedupe_id`` of an inbox row. Ids of messaging events contain the sender's phone number.
    """

    __tablename__ = "processed_webhook_events"
    __table_args__ = (CheckConstraint(_PROVIDERS, name="provider"),)

    id: Mapped[str] = mapped_column(primary_key=True, info={"personal": "phone"})
    provider: Mapped[str]
    event_type: Mapped[str]
    payload: Mapped[dict[str, Any]] = mapped_column(info={"personal": "event"})
    processed_at: Mapped[CreatedAt]


class DeadLetterWebhook(Entity):
    """An event that failed for good and can be replayed by an operator."""

    __tablename__ = "dead_letter_webhooks"
    __table_args__ = (
        Index("ix_dead_letter_webhooks_died", text("died_at DESC")),
        Index(
            "ix_dead_letter_webhooks_waiting",
            "provider",
            "event_type",
            postgresql_where=text("replayed_at IS NULL"),
        ),
    )

    inbox_id: Mapped[UUID] = mapped_column(ForeignKey("webhook_inbox.id"), unique=True)
    provider: Mapped[str]
    event_type: Mapped[str | None]
    dedupe_id: Mapped[str | None] = mapped_column(info={"personal": "phone"})
    body: Mapped[bytes] = mapped_column(LargeBinary, info={"personal": "event"})
    attempts: Mapped[int]
    error: Mapped[str]
    died_at: Mapped[datetime]
    replayed_at: Mapped[datetime | None]
