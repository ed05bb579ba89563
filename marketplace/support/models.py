"""Tables of support: tickets, staff on duty, and messages of the messaging provider."""

from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import CheckConstraint, ForeignKey, Index, Sequence, UniqueConstraint, text as sql
from sqlalchemy.orm import Mapped, mapped_column, validates

from marketplace.identity.models import CONTACT, CONTACT_INDEX
from marketplace.infra.db import Base, CreatedAt, Entity, Timestamped
from marketplace.infra.encryption import ENCRYPTED_VALUE_PATTERN

ticket_number = Sequence("support_ticket_number", start=100001, metadata=Base.metadata)


class SupportContact(Entity):
    """A sender at the messaging provider, linked to the profile with this verified number."""

    __tablename__ = "support_contacts"
    __table_args__ = (
        CheckConstraint("first_message_at <= last_message_at", name="messages_in_order"),
        CheckConstraint(f"sender ~ '{ENCRYPTED_VALUE_PATTERN}'", name="sender"),
        CheckConstraint(f"phone ~ '{ENCRYPTED_VALUE_PATTERN}'", name="phone"),
        Index("uq_support_contacts_sender_index", "sender_index", unique=True),
        Index("ix_support_contacts_profile", "profile_id"),
    )

    sender: Mapped[str] = mapped_column(
        CONTACT, comment="The sender's id at the provider", info={"personal": "phone"}
    )
    sender_index: Mapped[bytes | str | None] = mapped_column(
        CONTACT_INDEX, comment="Null after the erasure of the person"
    )
    phone: Mapped[str | None] = mapped_column(
        CONTACT,
        comment="The number in international format, if the sender is a number",
        info={"personal": "phone"},
    )
    display_name: Mapped[str | None] = mapped_column(
        comment="The name chosen by the sender, unverified", info={"personal": "name"}
    )
    profile_id: Mapped[UUID | None] = mapped_column(
        ForeignKey("profiles.id"),
        comment="The profile with this verified number",
    )
    first_message_at: Mapped[datetime]
    last_message_at: Mapped[datetime]
    created_at: Mapped[CreatedAt]

    @validates("sender")
    def _index_sender(self, _name: str, sender: str) -> str:
        self.sender_index = sender
        return sender


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
            postgresql_where=sql("document_id IS NOT NULL"),
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


class SupportTicket(Timestamped, Entity):
    """A ticket of a person, or of a contact without a profile."""

    __tablename__ = "support_tickets"
    __table_args__ = (
        CheckConstraint(
            "status IN ('open', 'pending_staff', 'pending_user', 'resolved', 'closed')", name="status"
        ),
        CheckConstraint(
            "category IN ('order', 'payment', 'delivery', 'account', 'vendor', 'other')", name="category"
        ),
        CheckConstraint("severity IN ('SEV-1', 'SEV-2', 'SEV-3', 'SEV-4')", name="severity"),
        CheckConstraint("creator_id IS NOT NULL OR contact_id IS NOT NULL", name="author"),
        CheckConstraint("(due_at IS NOT NULL) = (status IN ('open', 'pending_staff'))", name="due"),
        CheckConstraint(
            "(status NOT IN ('resolved') OR resolved_at IS NOT NULL)"
            " AND (status = 'closed') = (closed_at IS NOT NULL)",
            name="ends",
        ),
        CheckConstraint(
            "merged_into_id IS NULL OR status = 'closed' AND merged_into_id <> id", name="merged"
        ),
        CheckConstraint(
            "rating BETWEEN 1 AND 5 AND (rating IS NULL) = (rated_at IS NULL)"
            " OR rating IS NULL AND rated_at IS NULL AND rating_comment IS NULL",
            name="rating",
        ),
        Index("ix_support_tickets_creator", "creator_id", sql("id DESC")),
        Index(
            "ix_support_tickets_contact",
            "contact_id",
            sql("id DESC"),
            postgresql_where=sql("contact_id IS NOT NULL"),
        ),
        Index("ix_support_tickets_order", "order_id", postgresql_where=sql("order_id IS NOT NULL")),
        Index("ix_support_tickets_due", "due_at", "id", postgresql_where=sql("due_at IS NOT NULL")),
        Index("ix_support_tickets_status", "status", sql("id DESC")),
        Index("ix_support_tickets_assignee", "assignee_id", "status", sql("id DESC")),
        Index("ix_support_tickets_created", "created_at"),
        Index("ix_support_tickets_resolved", "resolved_at", postgresql_where=sql("status = 'resolved'")),
    )

    number: Mapped[str] = mapped_column(
        unique=True, server_default=sql("'S-' || nextval('support_ticket_number')::text")
    )
    creator_id: Mapped[UUID | None] = mapped_column(
        ForeignKey("profiles.id"), comment="Null for a contact without a profile"
    )
    contact_id: Mapped[UUID | None] = mapped_column(ForeignKey("support_contacts.id"))
    order_id: Mapped[UUID | None] = mapped_column(ForeignKey("orders.id"))
    subject: Mapped[str] = mapped_column(info={"personal": "message"})
    category: Mapped[str]
    severity: Mapped[str]
    status: Mapped[str]
    assignee_id: Mapped[UUID | None] = mapped_column(ForeignKey("profiles.id"))
    tags: Mapped[list[str]] = mapped_column(server_default=sql("'{}'"))
    message_count: Mapped[int]
    due_at: Mapped[datetime | None] = mapped_column(
        comment="Time by which staff should answer; null while the user or nobody must act"
    )
    response_due_at: Mapped[datetime]
    resolution_due_at: Mapped[datetime]
    first_responded_at: Mapped[datetime | None]
    resolved_at: Mapped[datetime | None]
    closed_at: Mapped[datetime | None]
    reopenings: Mapped[int] = mapped_column(server_default=sql("0"))
    merged_into_id: Mapped[UUID | None] = mapped_column(ForeignKey("support_tickets.id"))
    rating: Mapped[int | None]
    rating_comment: Mapped[str | None] = mapped_column(info={"personal": "message"})
    rated_at: Mapped[datetime | None]
    revision: Mapped[int] = mapped_column(server_default=sql("1"))


class SupportTicketMessage(Entity):
    """A message of a ticket, by the user, by staff or by the service. Users do not see internal notes."""

    __tablename__ = "support_ticket_messages"
    __table_args__ = (
        UniqueConstraint("ticket_id", "number", name="uq_support_ticket_messages_number"),
        CheckConstraint("author IN ('user', 'staff', 'system')", name="author"),
        CheckConstraint("NOT is_internal OR author <> 'user'", name="internal"),
        CheckConstraint(
            "delivery_status IN ('queued', 'sent', 'delivered', 'read', 'failed')", name="delivery_status"
        ),
        Index(
            "uq_support_ticket_messages_contact_message",
            "contact_message_id",
            unique=True,
            postgresql_where=sql("contact_message_id IS NOT NULL"),
        ),
        Index(
            "uq_support_ticket_messages_email_message",
            "email_message_id",
            unique=True,
            postgresql_where=sql("email_message_id IS NOT NULL"),
        ),
    )

    ticket_id: Mapped[UUID] = mapped_column(ForeignKey("support_tickets.id"))
    number: Mapped[int]
    author: Mapped[str]
    author_id: Mapped[UUID | None] = mapped_column(ForeignKey("profiles.id"))
    is_internal: Mapped[bool]
    body: Mapped[str | None] = mapped_column(info={"personal": "message"})
    created_at: Mapped[CreatedAt]
    contact_message_id: Mapped[UUID | None] = mapped_column(
        ForeignKey("support_contact_messages.id"),
        comment="The message of the messaging provider that the user wrote",
    )
    email_message_id: Mapped[str | None] = mapped_column(
        comment="Message-ID of the e-mail that the user wrote", info={"personal": "email"}
    )
    delivery_status: Mapped[str | None] = mapped_column(
        comment="State of an answer by the messaging provider; null for messages in the app"
    )
    delivery_error: Mapped[str | None]
    provider_message_id: Mapped[str | None] = mapped_column(info={"personal": "phone"})


class SupportAttachment(Base):
    """A document of a ticket's message."""

    __tablename__ = "support_attachments"
    __table_args__ = (Index("ix_support_attachments_message", "message_id"),)

    document_id: Mapped[UUID] = mapped_column(ForeignKey("private_documents.id"), primary_key=True)
    message_id: Mapped[UUID] = mapped_column(ForeignKey("support_ticket_messages.id"))
    name: Mapped[str] = mapped_column(info={"personal": "name"})


class SupportDuty(Base):
    """A member of staff who receives new tickets until a time."""

    __tablename__ = "support_duties"

    user_id: Mapped[UUID] = mapped_column(ForeignKey("profiles.id"), primary_key=True)
    on_duty_until: Mapped[datetime]
    last_assigned_at: Mapped[datetime | None]


class SupportCannedReply(Timestamped, Entity):
    """A text that staff send often."""

    __tablename__ = "support_canned_replies"
    __table_args__ = (UniqueConstraint("title", name="uq_support_canned_replies_title"),)

    title: Mapped[str]
    body: Mapped[str] = mapped_column(info={"personal": "message"})
    revision: Mapped[int] = mapped_column(server_default=sql("1"))


class SupportView(Entity):
    """Filters of the inbox that a member of staff saved."""

    __tablename__ = "support_views"
    __table_args__ = (UniqueConstraint("owner_id", "name", name="uq_support_views_name"),)

    owner_id: Mapped[UUID] = mapped_column(ForeignKey("profiles.id"))
    name: Mapped[str] = mapped_column(info={"personal": "name"})
    filters: Mapped[dict[str, Any]]
    created_at: Mapped[CreatedAt]
