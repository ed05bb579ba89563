"""Envelopes of the messaging provider: deliveries with any number of messages and delivery statuses.

An envelope with several items is split into one delivery per item, so that each item is processed, retried and replayed
on its own. An envelope with a single item is processed as received.
"""

from collections.abc import Iterator
from typing import Any

import orjson

from marketplace.webhooks.events import MAX_ID_LENGTH, Event, PermanentEventError, load_json

PROVIDER = "messaging"
ENVELOPE = "envelope"
# The provider's own maximum for an envelope.
MAX_ITEMS = 1_000
# Types that the service distinguishes. Any other type counts as unknown and is kept in the payload only.
MESSAGE_TYPES = frozenset(
    """
    text image document audio video sticker location contacts button interactive reaction order system unsupported
    """.split()  # noqa: SIM905 - a list of so many quoted words reads worse
)
STATUSES = frozenset({"sent", "delivered", "read", "failed"})
UNKNOWN = "unknown"

_MESSAGES, _STATUSES = "messages", "statuses"
_MAX_WORD_LENGTH = 256

EnvelopeItem = tuple[str, Any, dict[str, Any]]
"""The kind (``messages`` or ``statuses``), the item, and the value object that contains the item."""


def split_envelope(body: bytes) -> list[bytes]:
    """Split an envelope into one envelope per message or status.

    :return: the new envelopes; for a single item, the body itself
    :raises PermanentEventError: the body is not an envelope, or has too many items
    """
    units = list(_iterate_items(load_json(body)))
    return [body] if len(units) == 1 else [_wrap_item(unit) for unit in units]


def parse_envelope(body: bytes) -> Event:
    """Parse an envelope of a single message or status.

    A message is deduplicated by the provider's message id, a status by the message id and the status name. ``data``
    contains either the ``status``, or the ``message`` with its ``type`` and the sender's ``name``.

    :raises PermanentEventError: the body is not such an envelope, or a required field is missing
    """
    payload = load_json(body)
    units = list(_iterate_items(payload))
    if len(units) != 1:
        raise PermanentEventError("the envelope does not hold exactly one message or status")
    kind, unit, value = units[0]
    if not isinstance(unit, dict):
        raise PermanentEventError("the message or status is not an object")
    identity = _require_text(unit, "id", max_length=MAX_ID_LENGTH)
    if kind == _STATUSES:
        status_name = _require_text(unit, "status", max_length=_MAX_WORD_LENGTH)
        word = status_name if status_name in STATUSES else UNKNOWN
        dedupe_id = _ensure_id_fits(f"status:{identity}:{status_name}")
        return Event(f"status.{word}", dedupe_id, {"status": unit}, payload, PROVIDER)
    sender = _require_text(unit, "from", max_length=64)
    message_type = unit.get("type")
    word = message_type if isinstance(message_type, str) and message_type in MESSAGE_TYPES else UNKNOWN
    # Ids of other events contain a colon. The prefix keeps the id of a message from colliding with such an id.
    dedupe_id = f"message:{identity}" if ":" in identity else identity
    data = {"message": unit, "type": word, "name": _find_sender_name(sender, value)}
    return Event(f"message.{word}", _ensure_id_fits(dedupe_id), data, payload, PROVIDER)


def _iterate_items(payload: Any) -> Iterator[EnvelopeItem]:
    """Iterate over the messages and statuses of an envelope, and ignore all other content."""
    if not isinstance(payload, dict) or not isinstance(payload.get("entry"), list):
        raise PermanentEventError("the body is not an envelope")
    count = 0
    for entry in payload["entry"]:
        for change in _read_list(entry, "changes"):
            value = change.get("value") if isinstance(change, dict) else None
            for kind in (_MESSAGES, _STATUSES):
                for unit in _read_list(value, kind):
                    count += 1
                    if count > MAX_ITEMS:
                        raise PermanentEventError("the envelope holds too many messages and statuses")
                    yield kind, unit, value if isinstance(value, dict) else {}


def _read_list(holder: Any, name: str) -> list[Any]:
    value = holder.get(name) if isinstance(holder, dict) else None
    return value if isinstance(value, list) else []


def _wrap_item(unit: EnvelopeItem) -> bytes:
    """Build an envelope for a single message or status, with the sender's contact."""
    kind, content, value = unit
    kept: dict[str, Any] = {"messaging_product": "whatsapp", kind: [content]}
    sender = content.get("from") if isinstance(content, dict) else None
    name = _find_sender_name(sender, value)
    if name is not None:
        kept["contacts"] = [{"profile": {"name": name}, "wa_id": sender}]
    changes = [{"field": "messages", "value": kept}]
    return orjson.dumps({"object": "whatsapp_business_account", "entry": [{"changes": changes}]})


def _find_sender_name(sender: Any, value: dict[str, Any]) -> str | None:
    """Return the sender's profile name from the envelope's contacts."""
    for contact in _read_list(value, "contacts"):
        if isinstance(contact, dict) and contact.get("wa_id") == sender:
            profile = contact.get("profile")
            name = profile.get("name") if isinstance(profile, dict) else None
            return name[:_MAX_WORD_LENGTH] if isinstance(name, str) and name else None
    return None


def _require_text(unit: dict[str, Any], name: str, *, max_length: int) -> str:
    value = unit.get(name)
    if not isinstance(value, str) or not value:
        raise PermanentEventError(f"{name} of the message or status is missing")
    if len(value) > max_length:
        raise PermanentEventError(f"{name} of the message or status is too long")
    return value


def _ensure_id_fits(dedupe_id: str) -> str:
    if len(dedupe_id) > MAX_ID_LENGTH:
        raise PermanentEventError("the id is too long")
    return dedupe_id
