"""Tables of support."""

from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import CheckConstraint, ForeignKey, Index
from sqlalchemy.orm import Mapped, mapped_column

from marketplace.infra.db import CreatedAt, Entity


class SupportContact(Entity):
    """Somebody who wrote by the messaging provider, and whose profile has the number that it came from."""

    __tablename__ = "support_contacts"
    __table_args__ = (
        CheckConstraint("first_message_at <= last_message_at", name="messages_in_order"),
        Index("ix_support_contacts_profile", "profile_id"),
    )

    sender: Mapped[str] = mapped_column(
        unique=True, comment="The provider's own name of the sender", info={"personal": "phone"}
    )
    phone: Mapped[str | None] = mapped_column(
        comment="In the international form, where it is a number", info={"personal": "phone"}
    )
    display_name: Mapped[str | None] = mapped_column(
        comment="As the sender chose it; it proves nothing", info={"personal": "name"}
    )
    profile_id: Mapped[UUID | None] = mapped_column(
        ForeignKey("profiles.id"), comment="The one profile that has the number; none where several have"
    )
    first_message_at: Mapped[datetime]
    last_message_at: Mapped[datetime]
    created_at: Mapped[CreatedAt]


class SupportContactMessage(Entity):
    """One message of a contact, of whatever type; ``text`` is what a person would read of it."""

    __tablename__ = "support_contact_messages"
    __table_args__ = (Index("ix_support_contact_messages_contact", "contact_id", "sent_at", "id"),)

    contact_id: Mapped[UUID] = mapped_column(ForeignKey("support_contacts.id"))
    provider_message_id: Mapped[str] = mapped_column(unique=True, info={"personal": "phone"})
    type: Mapped[str]
    text: Mapped[str | None] = mapped_column(info={"personal": "message"})
    content: Mapped[dict[str, Any] | None] = mapped_column(
        comment="What its type is described by", info={"personal": "message"}
    )
    replies_to: Mapped[str | None] = mapped_column(
        comment="The provider's id of the message it answers", info={"personal": "phone"}
    )
    sent_at: Mapped[datetime] = mapped_column(comment="As the provider says")
    received_at: Mapped[CreatedAt]
