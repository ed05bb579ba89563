"""Envelopes of the messaging provider: each holds any number of messages and delivery statuses.

An envelope of several is taken apart: each becomes a delivery of its own, so that it is processed, tried again,
buried and replayed apart from the others. One of a single message or status is processed as it came.
"""

from collections.abc import Iterator
from typing import Any

import orjson

from marketplace.webhooks.events import MAX_ID_LENGTH, Event, PermanentEventError, load_json

PROVIDER = "messaging"
ENVELOPE = "envelope"
# As many as the provider puts into one at the most.
MAX_ITEMS = 1_000
# What the service tells apart; any other word is the sender's own, and stands nowhere but in the payload.
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
"""Messages or statuses, one of these, and the value that it stands in."""


def split_envelope(body: bytes) -> list[bytes]:
    """Take an envelope apart.

    :return: an envelope for each of its messages and statuses; of a single one, the envelope itself
    :raises PermanentEventError: it is no envelope, or holds too many
    """
    units = list(_iterate_items(load_json(body)))
    return [body] if len(units) == 1 else [_wrap_item(unit) for unit in units]


def parse_envelope(body: bytes) -> Event:
    """Parse an envelope of one message or status.

    Its id is what the provider gave the message; a status's is made of that and its word. ``data`` has the
    ``message`` or the ``status``, and beside a message the sender's ``name``.

    :raises PermanentEventError: it is no such envelope, or lacks what a message or a status can't do without
    """
    payload = load_json(body)
    units = list(_iterate_items(payload))
    if len(units) != 1:
        raise PermanentEventError("the envelope holds more or less than one")
    kind, unit, value = units[0]
    if not isinstance(unit, dict):
        raise PermanentEventError("what it holds is not an object")
    identity = _require_text(unit, "id", max_length=MAX_ID_LENGTH)
    if kind == _STATUSES:
        status_name = _require_text(unit, "status", max_length=_MAX_WORD_LENGTH)
        word = status_name if status_name in STATUSES else UNKNOWN
        dedupe_id = _ensure_id_fits(f"status:{identity}:{status_name}")
        return Event(f"status.{word}", dedupe_id, {"status": unit}, payload, PROVIDER)
    sender = _require_text(unit, "from", max_length=64)
    message_type = unit.get("type")
    word = message_type if isinstance(message_type, str) and message_type in MESSAGE_TYPES else UNKNOWN
    # Events of others are named with a colon: no message may be taken for one of those.
    dedupe_id = f"message:{identity}" if ":" in identity else identity
    data = {"message": unit, "type": word, "name": _find_sender_name(sender, value)}
    return Event(f"message.{word}", _ensure_id_fits(dedupe_id), data, payload, PROVIDER)


def _iterate_items(payload: Any) -> Iterator[EnvelopeItem]:
    """Find messages and statuses; of what else an envelope may tell, the service needs nothing."""
    if not isinstance(payload, dict) or not isinstance(payload.get("entry"), list):
        raise PermanentEventError("the body is no envelope")
    count = 0
    for entry in payload["entry"]:
        for change in _read_list(entry, "changes"):
            value = change.get("value") if isinstance(change, dict) else None
            for kind in (_MESSAGES, _STATUSES):
                for unit in _read_list(value, kind):
                    count += 1
                    if count > MAX_ITEMS:
                        raise PermanentEventError("the envelope holds too many messages")
                    yield kind, unit, value if isinstance(value, dict) else {}


def _read_list(holder: Any, name: str) -> list[Any]:
    value = holder.get(name) if isinstance(holder, dict) else None
    return value if isinstance(value, list) else []


def _wrap_item(unit: EnvelopeItem) -> bytes:
    """Put one message or status into an envelope of its own, with what belongs to it."""
    kind, content, value = unit
    kept: dict[str, Any] = {"messaging_product": "whatsapp", kind: [content]}
    sender = content.get("from") if isinstance(content, dict) else None
    name = _find_sender_name(sender, value)
    if name is not None:
        kept["contacts"] = [{"profile": {"name": name}, "wa_id": sender}]
    changes = [{"field": "messages", "value": kept}]
    return orjson.dumps({"object": "whatsapp_business_account", "entry": [{"changes": changes}]})


def _find_sender_name(sender: Any, value: dict[str, Any]) -> str | None:
    """Give the name that a sender goes by, as the envelope tells it."""
    for contact in _read_list(value, "contacts"):
        if isinstance(contact, dict) and contact.get("wa_id") == sender:
            profile = contact.get("profile")
            name = profile.get("name") if isinstance(profile, dict) else None
            return name[:_MAX_WORD_LENGTH] if isinstance(name, str) and name else None
    return None


def _require_text(unit: dict[str, Any], name: str, *, max_length: int) -> str:
    value = unit.get(name)
    if not isinstance(value, str) or not value:
        raise PermanentEventError(f"its {name} is missing")
    if len(value) > max_length:
        raise PermanentEventError(f"its {name} is too long")
    return value


def _ensure_id_fits(dedupe_id: str) -> str:
    if len(dedupe_id) > MAX_ID_LENGTH:
        raise PermanentEventError("the id is too long")
    return dedupe_id
