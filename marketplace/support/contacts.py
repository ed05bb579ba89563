"""Messages that customers send through the messaging provider, stored once for each message id."""

import re
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from marketplace.identity.models import CONTACT, CONTACT_INDEX
from marketplace.identity.queries import find_profile_with_phone
from marketplace.infra.sql.statements import Statement
from marketplace.kernel.phones import normalise_phone
from marketplace.support import media
from marketplace.support.inbound import ContactText, record_in_ticket
from marketplace.support.models import SupportContactMessage

# An international number without the plus sign, as the provider writes senders.
_INTERNATIONAL_NUMBER = re.compile(r"[1-9][0-9]{6,14}", re.ASCII)


@dataclass(frozen=True)
class IncomingMessage:
    """An incoming message. ``content`` holds the data of other types than text, such as an image's id."""

    provider_message_id: str
    type: str
    text: str | None
    content: dict[str, Any] | None
    replies_to: str | None
    sent_at: datetime


_UPSERT_CONTACT = Statement(
    text(
        """
        INSERT INTO support_contacts
            (sender, sender_index, phone, display_name, profile_id, first_message_at, last_message_at)
        VALUES (:sender, :sender_index, :phone, :name, :profile_id, :at, :at)
        ON CONFLICT (sender_index) DO UPDATE SET
            display_name = coalesce(excluded.display_name, support_contacts.display_name),
            profile_id = excluded.profile_id,
            first_message_at = least(support_contacts.first_message_at, excluded.first_message_at),
            last_message_at = greatest(support_contacts.last_message_at, excluded.last_message_at)
        RETURNING id
        """
    ),
    encrypted={"sender": CONTACT, "phone": CONTACT},
)


def record_message(
    session: Session,
    *,
    sender: str,
    name: str | None,
    message: IncomingMessage,
    now: datetime,
    opens_ticket: bool = True,
) -> UUID | None:
    """Store a message and its contact, linked to the profile with the sender's verified number.

    The message continues the contact's ticket or opens one. A worker fetches the file of a message later.

    :param sender: the sender's id at the provider: the digits of an international number
    :param name: the sender's chosen name
    :param now: the time of arrival
    :param opens_ticket: false for a word such as STOP, which staff need not answer
    :return: the message's id; none if the message was already stored
    """
    phone = parse_sender_phone(sender)
    profile_id = find_profile_with_phone(session, phone=phone) if phone else None
    contact_id = _UPSERT_CONTACT.scalar(
        session,
        sender=sender,
        sender_index=CONTACT_INDEX.compute(sender),
        phone=phone,
        name=name,
        profile_id=profile_id,
        at=message.sent_at,
    )
    has_media = media.media_id_of(message.type, message.content) is not None
    message_id: UUID | None = session.scalar(
        insert(SupportContactMessage)
        .values(
            contact_id=contact_id,
            **vars(message),
            received_at=now,
            media_status="pending" if has_media else None,
        )
        .on_conflict_do_nothing(index_elements=["provider_message_id"])
        .returning(SupportContactMessage.id)
    )
    if message_id is None:
        return None
    if has_media:
        media.request_fetch(session, message_id=message_id, now=now)
    if opens_ticket:
        written = ContactText(contact_id, profile_id, message_id, message.type, message.text)
        record_in_ticket(session, written=written, now=now)
    return message_id


def parse_sender_phone(sender: str) -> str | None:
    """Convert a sender's id to the phone format of profiles; none if the id is not a number."""
    if not _INTERNATIONAL_NUMBER.fullmatch(sender):
        return None
    return normalise_phone(f"+{sender}") or f"+{sender}"
