"""Stored payloads and bodies of events, whose values are sealed under the key of the event's person."""

from typing import Any
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.audit.person_keys import owner_of_contact, seal_bytes, seal_values
from marketplace.infra.encryption import derive_secret
from marketplace.infra.sql.statements import Statement
from marketplace.webhooks.events import Event

# Members that identify nobody stay readable for staff and for questions to the gateway.
PLAIN_MEMBERS = frozenset(
    """
    event id domain status reference refund_reference transaction_reference transfer_code amount fees currency channel
    gateway_response source paid_at created_at updated_at settlement orderId checkoutId category due_at
    resolution object field messaging_product timestamp type
    """.split()  # noqa: SIM905 - a list of so many quoted words reads worse
)
_OWNER_OF_REFERENCE = Statement(
    text(
        """
        SELECT buyer_id FROM payment_intents WHERE reference = :reference
        UNION ALL
        SELECT i.user_id FROM payout_transfers t JOIN payout_transfer_intents i ON i.id = t.intent_id
        WHERE t.reference = :reference
        UNION ALL
        SELECT buyer_id FROM refunds WHERE gateway_refund_id = :reference
        """
    )
)


def find_owner(session: Session, event: Event) -> UUID | None:
    """Find the owner of the key for an event: the payer, the payee, or the sender of a message.

    :return: none for an event whose person nobody knows; such an event has no effect
    """
    if event.provider == "gateway":
        if event.reference is None:
            return None
        owner_id: UUID | None = _OWNER_OF_REFERENCE.scalar(session, reference=event.reference)
        return owner_id
    unit = event.data.get("message") or event.data.get("status") or {}
    sender = unit.get("from") or unit.get("recipient_id")
    return owner_of_contact(sender) if isinstance(sender, str) and sender else None


def seal_payload(session: Session, event: Event, *, owner_id: UUID | None) -> dict[str, Any]:
    """Return the payload with all fields and sealed values. Without an owner the values are lost."""
    # Ids of messages contain the sender's phone number.
    plain = PLAIN_MEMBERS if event.provider == "gateway" else PLAIN_MEMBERS - {"id"}
    sealed: dict[str, Any] = seal_values(session, event.payload, owner_id=owner_id, plain=plain)
    return sealed


def seal_body(session: Session, body: bytes, *, owner_id: UUID | None) -> bytes:
    """Return the body to keep after the processing. Without an owner, the body stays until its purge."""
    return (
        body if owner_id is None or body.startswith(b"p1:") else seal_bytes(session, body, owner_id=owner_id)
    )


def stored_event_id(event: Event) -> str:
    """Return the id of an event for the deduplication, the same for a repeated delivery.

    Ids of messages contain phone numbers, so a keyed hash replaces such an id.
    """
    if event.provider == "gateway":
        return event.dedupe_id
    return f"keyed:{derive_secret(event.dedupe_id, 'processed_webhook_events.id').hex()}"
