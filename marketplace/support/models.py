"""Tables of support."""

from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import CheckConstraint, ForeignKey, Index, text
from sqlalchemy.orm import Mapped, mapped_column

from marketplace.infra.db import CreatedAt, Entity


class SupportContact(Entity):
    """A sender at the messaging provider, linked to the only profile that has the number."""

    __tablename__ = "support_contacts"
    __table_args__ = (
        CheckConstraint("first_message_at <= last_message_at", name="messages_in_order"),
        Index("ix_support_contacts_profile", "profile_id"),
    )

    sender: Mapped[str] = mapped_column(
        unique=True, comment="The sender's id at the provider", info={"personal": "phone"}
    )
    phone: Mapped[str | None] = mapped_column(
        comment="The number in international format, if the sender is a number", info={"personal": "phone"}
    )
    display_name: Mapped[str | None] = mapped_column(
        comment="The name chosen by the sender, unverified", info={"personal": "name"}
    )
    profile_id: Mapped[UUID | None] = mapped_column(
        ForeignKey("profiles.id"),
        comment="The only profile with the number; none if several profiles have it",
    )
    first_message_at: Mapped[datetime]
    last_message_at: Mapped[datetime]
    created_at: Mapped[CreatedAt]


class SupportContactMessage(Entity):
    """A message of a contact, of any type. ``text`` is the readable part."""

    __tablename__ = "support_contact_messages"
    __table_args__ = (
        CheckConstraint("media_status IN ('pending', 'stored', 'refused')", name="media_status"),
        CheckConstraint(
            "(coalesce(media_status, '') = 'stored') = (document_id IS NOT NULL)", name="media_stored"
        ),
        Index("ix_support_contact_messages_contact", "contact_id", "sent_at", "id"),
        Index(
            "ix_support_contact_messages_document",
            "document_id",
            postgresql_where=text("document_id IS NOT NULL"),
        ),
    )

    contact_id: Mapped[UUID] = mapped_column(ForeignKey("support_contacts.id"))
    provider_message_id: Mapped[str] = mapped_column(unique=True, info={"personal": "phone"})
    type: Mapped[str]
    text: Mapped[str | None] = mapped_column(info={"personal": "message"})
    content: Mapped[dict[str, Any] | None] = mapped_column(
        comment="The content of a message other than text", info={"personal": "message"}
    )
    replies_to: Mapped[str | None] = mapped_column(
        comment="The provider's id of the answered message", info={"personal": "phone"}
    )
    sent_at: Mapped[datetime] = mapped_column(comment="The time of sending at the provider")
    received_at: Mapped[CreatedAt]
    media_status: Mapped[str | None] = mapped_column(comment="State of the file; null for other messages")
    media_refusal: Mapped[str | None] = mapped_column(comment="Reason why the file was not stored")
    document_id: Mapped[UUID | None] = mapped_column(
        ForeignKey("private_documents.id"), comment="The checked file in the private bucket"
    )
