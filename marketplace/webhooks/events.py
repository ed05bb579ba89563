"""Webhook events: parse a raw body into an event with a deduplication id. Gateway events are parsed here."""

import hashlib
import json
import re
from dataclasses import dataclass
from typing import Any

import orjson

from marketplace.providers.gateway.payloads import DISPUTE_LOST, DISPUTE_WON

DISPUTE_RESOLVED = "charge.dispute.resolve"
MAX_ID_LENGTH = 255
# PostgreSQL cannot store NUL. Remove NUL, because a customer's input in a name must not make a payment fail.
_ESCAPED_NUL = re.compile(rb"(?<!\\)((?:\\\\)*)\\u0000")


class PermanentEventError(Exception):
    """The event can never be processed; a retry is useless."""


class RetryableEventError(Exception):
    """The event refers to something that is not known yet; a retry may succeed."""


@dataclass(frozen=True)
class Event:
    """A parsed event. ``data`` is empty for an event without data.

    ``dedupe_id`` of a gateway event is ``<type>:<data.id>``. Without an id, a reference or a digest replaces the id.
    """

    type: str
    dedupe_id: str
    data: dict[str, Any]
    payload: dict[str, Any]
    provider: str = "gateway"

    @property
    def reference(self) -> str | None:
        """The gateway's reference of the charge or transfer, so that operators find all events of a payment."""
        charge = self.data.get("transaction")
        references = (
            self.data.get("reference"),
            self.data.get("transaction_reference"),
            charge.get("reference") if isinstance(charge, dict) else None,
            self.data.get("refund_reference"),
        )
        usable = (value for value in references if isinstance(value, str) and 0 < len(value) <= MAX_ID_LENGTH)
        return next(usable, None) if self.provider == "gateway" else None


def parse_gateway_event(body: bytes) -> Event:
    """Parse a gateway event.

    :raises PermanentEventError: the body is not JSON, or has no event type
    """
    payload = load_json(body)
    if not isinstance(payload, dict):
        raise PermanentEventError("the body is not an object")
    event_type, raw_data = payload.get("event"), payload.get("data")
    if not isinstance(event_type, str) or not event_type:
        raise PermanentEventError("event is missing")
    # Events without effect may lack data or an id; a digest identifies such events. Handlers refuse missing data.
    data = raw_data if isinstance(raw_data, dict) else {}
    event_id = _identify_event(event_type, data) or hashlib.sha256(body).hexdigest()
    dedupe_id = f"{event_type}:{event_id}"
    if len(dedupe_id) > MAX_ID_LENGTH:
        # Only the handler knows whether a long id is valid, and most such events have no handler.
        event_type = event_type[:100]
        dedupe_id = f"{event_type}:{hashlib.sha256(body).hexdigest()}"
    return Event(event_type, dedupe_id, data, payload)


def _identify_event(event_type: str, data: dict[str, Any]) -> str | None:
    """Return the part of the deduplication id that is unique within the event type: an id or a reference.

    The gateway may report a refund with references only, at first with the reference of the charge. A resolved dispute
    without a recognised outcome gets a different id, so that a later event with the outcome is not a duplicate.
    """
    event_id, word = data.get("id"), data.get("resolution")
    if isinstance(event_id, int | str) and not isinstance(event_id, bool) and event_id != "":
        unclear = event_type == DISPUTE_RESOLVED and word not in (DISPUTE_WON, DISPUTE_LOST)
        return f"{event_id}:{word if isinstance(word, str) else ''}" if unclear else str(event_id)
    for name in ("reference", "refund_reference", "transaction_reference"):
        value = data.get(name)
        if isinstance(value, str) and value:
            return f"{value}:{data.get('amount')}" if name == "transaction_reference" else value
    return None


def load_json(body: bytes) -> Any:
    """Load JSON, and replace characters that the database cannot store.

    An unpaired surrogate becomes a question mark and NUL is removed, so that neither makes a payment fail.

    :raises PermanentEventError: the body is not JSON, or is nested too deeply
    """
    loaded = _parse_json(_ESCAPED_NUL.sub(rb"\1", body))
    try:
        # The payload is stored later, and JSON can be read at a greater depth than written.
        orjson.dumps(loaded)
    except orjson.JSONEncodeError as error:
        raise PermanentEventError("the body is nested too deeply") from error
    return loaded


def _parse_json(body: bytes) -> Any:
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError:
        pass
    try:
        lenient = json.dumps(json.loads(body), ensure_ascii=False).encode("utf-8", "replace")
        return orjson.loads(lenient)
    except (ValueError, RecursionError) as error:
        raise PermanentEventError("the body is not JSON") from error
