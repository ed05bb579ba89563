"""The messaging provider's wire format for tests: messages, statuses and envelopes."""

from itertools import count
from typing import Any
from uuid import uuid4

import orjson
from sqlalchemy import select, text
from sqlalchemy.orm import Session

from marketplace.support.models import SupportContact, SupportContactMessage

_numbers = count(uuid4().int % 10**7 * 10)

# All message types in the provider's format. The last type is unrecognized.
MESSAGES: dict[str, dict[str, Any]] = {
    "text": {"body": "Where is my lamp?"},
    "image": {"id": "7001", "mime_type": "image/jpeg", "sha256": "ab", "caption": "It came broken"},
    "document": {"id": "7002", "mime_type": "application/pdf", "filename": "receipt.pdf"},
    "audio": {"id": "7003", "mime_type": "audio/ogg", "voice": True},
    "video": {"id": "7004", "mime_type": "video/mp4", "caption": "Look"},
    "sticker": {"id": "7005", "mime_type": "image/webp"},
    "location": {"latitude": 6.5158, "longitude": 3.3898, "name": "Moremi Hall", "address": "Akoka"},
    "button": {"text": "Yes, it came", "payload": "confirm"},
    "interactive": {"type": "button_reply", "button_reply": {"id": "b1", "title": "Talk to somebody"}},
    "reaction": {"message_id": "wamid.of.ours", "emoji": "\N{THUMBS UP SIGN}"},
    "order": {"catalog_id": "1", "product_items": []},
    "system": {"body": "changed number", "type": "user_changed_number"},
    "hologram": {"body": "not heard of"},
}


def unique_phone_number() -> str:
    """Return a unique Nigerian phone number in the provider's format."""
    return f"234803{next(_numbers):07d}"


def unique_message_id() -> str:
    """Return a unique message id."""
    return f"wamid.{uuid4().hex}=="


def message(kind: str = "text", *, sender: str | None = None, **values: Any) -> dict[str, Any]:
    """Build a message of a type."""
    return {
        "from": sender or unique_phone_number(),
        "id": unique_message_id(),
        "timestamp": "1763631000",
        "type": kind,
        kind: MESSAGES.get(kind),
    } | values


def status(message_id: str, word: str, **values: Any) -> dict[str, Any]:
    """Build a delivery status."""
    return {
        "id": message_id,
        "status": word,
        "timestamp": "1763631100",
        "recipient_id": unique_phone_number(),
        "conversation": {"id": "c", "origin": {"type": "service"}},
    } | values


def envelope(*units: dict[str, Any], names: dict[str, str] | None = None) -> bytes:
    """Build an envelope of messages and statuses, with the senders' display names."""
    value: dict[str, Any] = {
        "messaging_product": "whatsapp",
        "metadata": {"display_phone_number": "2348000000001", "phone_number_id": "1"},
    }
    found = {
        "messages": [one for one in units if "status" not in one],
        "statuses": [one for one in units if "status" in one],
    }
    value |= {kind: ones for kind, ones in found.items() if ones}
    if names:
        value["contacts"] = [{"profile": {"name": name}, "wa_id": sender} for sender, name in names.items()]
    change = {"field": "messages", "value": value}
    return orjson.dumps(
        {"object": "whatsapp_business_account", "entry": [{"id": "102290129340398", "changes": [change]}]}
    )


def messages_of(session: Session, sender: str) -> list[dict[str, Any]]:
    """List the stored messages of a sender in sending order."""
    rows = session.execute(
        select(
            *SupportContactMessage.__table__.columns,
            SupportContact.phone,
            SupportContact.display_name,
            SupportContact.profile_id,
        )
        .join(SupportContact, SupportContact.id == SupportContactMessage.contact_id)
        .where(SupportContact.sender_index == sender)
        .order_by(SupportContactMessage.sent_at, SupportContactMessage.id)
    )
    return [dict(row) for row in rows.mappings()]


def log_delivery(session: Session, **values: Any) -> str:
    """Log a message handed to the provider and return the provider's id."""
    provider_message_id = unique_message_id()
    session.execute(
        text(
            "INSERT INTO notification_delivery_logs (channel, provider_message_id, status, due_at)"
            " VALUES ('messaging', :id, :status, now())"
        ),
        {"id": provider_message_id, "status": "queued"} | values,
    )
    return provider_message_id
