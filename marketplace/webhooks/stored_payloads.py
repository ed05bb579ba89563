"""Stored payloads and bodies of events, whose values are sealed under the key of the event's person."""

from dataclasses import dataclass
from typing import Any
from uuid import UUID

import orjson
from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.audit.models import PERSON_SECRET
from marketplace.audit.person_keys import owner_of_contact, remember_key, seal, seal_bytes
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
# The member with all sealed values, as the ciphertext of a JSON array. A value is replaced by its index.
SEALED_VALUES = "sealedValues"


@dataclass(frozen=True)
class _Owner:
    owner_id: UUID
    secret: str | None


_SELECT_OWNER = Statement(
    text(
        """
        SELECT o.owner_id, k.secret
        FROM (
            SELECT buyer_id AS owner_id FROM payment_intents WHERE reference = :reference
            UNION ALL
            SELECT i.user_id FROM payout_transfers t JOIN payout_transfer_intents i ON i.id = t.intent_id
            WHERE t.reference = :reference
            UNION ALL
            SELECT buyer_id FROM refunds WHERE gateway_refund_id = :reference
        ) o LEFT JOIN person_keys k ON k.owner_id = o.owner_id
        """
    ),
    row=_Owner,
    encrypted={"secret": PERSON_SECRET},
)


def find_owner(session: Session, event: Event) -> UUID | None:
    """Find the owner of the key for an event: the payer, the payee, or the sender of a message.

    :return: none for an event whose person nobody knows; such an event has no effect
    """
    if event.provider == "gateway":
        if event.reference is None:
            return None
        owner = _SELECT_OWNER.first(session, reference=event.reference)
        if owner is None:
            return None
        remember_key(session, owner_id=owner.owner_id, secret=owner.secret)
        return owner.owner_id
    unit = event.data.get("message") or event.data.get("status") or {}
    sender = unit.get("from") or unit.get("recipient_id")
    return owner_of_contact(sender) if isinstance(sender, str) and sender else None


def seal_payload(session: Session, event: Event, *, owner_id: UUID | None) -> dict[str, Any]:
    """Return the payload with all members, whose values are sealed. Without an owner the values are lost.

    A sealed value is ``{"sealed": <index>}``. One ciphertext for all values is smaller and faster than one for each.
    """
    # Ids of messages contain the sender's phone number.
    plain = PLAIN_MEMBERS if event.provider == "gateway" else PLAIN_MEMBERS - {"id"}
    values: list[Any] = []
    shape = {name: _replace(name, item, plain, values) for name, item in event.payload.items()}
    words = orjson.dumps(values).decode()
    return shape | {SEALED_VALUES: None if owner_id is None else seal(session, words, owner_id=owner_id)}


def _replace(name: str, value: Any, plain: frozenset[str], values: list[Any]) -> Any:
    """Move a value to the list, unless the value is plain, empty or a truth value."""
    if isinstance(value, dict):
        return {inner: _replace(inner, item, plain, values) for inner, item in value.items()}
    if isinstance(value, list):
        return [_replace(name, item, plain, values) for item in value]
    if value is None or isinstance(value, bool) or name in plain:
        return value
    values.append(value)
    return {"sealed": len(values) - 1}


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
