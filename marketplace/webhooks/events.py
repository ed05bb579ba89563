"""Events: bytes in, an event with a name of its own out, or no event at all. Here as the gateway writes them."""

import hashlib
import json
import re
from dataclasses import dataclass
from typing import Any

import orjson

from marketplace.providers.gateway.payloads import DISPUTE_LOST, DISPUTE_WON

DISPUTE_RESOLVED = "charge.dispute.resolve"
MAX_ID_LENGTH = 255
# PostgreSQL keeps no NUL. It is left out, since what a customer puts into a name must not cost a payment.
_ESCAPED_NUL = re.compile(rb"(?<!\\)((?:\\\\)*)\\u0000")


class PermanentEventError(Exception):
    """The event can never be processed, however often it is tried."""


class RetryableEventError(Exception):
    """The event is about something that is not known, at least not yet: worth another try."""


@dataclass(frozen=True)
class Event:
    """A parsed event. ``dedupe_id`` is ``<type>:<data.id>``, the reference where there is no id, or else a digest.

    ``data`` is empty where the event has none.
    """

    type: str
    dedupe_id: str
    data: dict[str, Any]
    payload: dict[str, Any]
    provider: str = "gateway"


def parse_gateway_event(body: bytes) -> Event:
    """Parse a gateway event.

    :raises PermanentEventError: it is not JSON, or lacks its type
    """
    payload = load_json(body)
    if not isinstance(payload, dict):
        raise PermanentEventError("the body is not an object")
    event_type, raw_data = payload.get("event"), payload.get("data")
    if not isinstance(event_type, str) or not event_type:
        raise PermanentEventError("event is missing")
    # Some that do nothing here lack them, or their id: they are told apart by what they say. Those that do are refused.
    data = raw_data if isinstance(raw_data, dict) else {}
    event_id = _identify_event(event_type, data) or hashlib.sha256(body).hexdigest()
    dedupe_id = f"{event_type}:{event_id}"
    if len(dedupe_id) > MAX_ID_LENGTH:
        # Whether such an id is one is for what the event does to say; most do nothing.
        event_type = event_type[:100]
        dedupe_id = f"{event_type}:{hashlib.sha256(body).hexdigest()}"
    return Event(event_type, dedupe_id, data, payload)


def _identify_event(event_type: str, data: dict[str, Any]) -> str | None:
    """Give what tells an event from others of its type: the id, or a reference where there is none.

    The gateway may tell of a refund by references alone, and by that of its charge as long as it has none itself. A
    dispute's end that does not say who won must not have the one that says it taken for another delivery.
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
    """Load JSON, but for what the database can't keep of it.

    Half a surrogate pair somewhere in it must not cost a payment, so it becomes a question mark; a NUL is left out.

    :raises PermanentEventError: it is not JSON, or nested too deeply
    """
    loaded = _parse_json(_ESCAPED_NUL.sub(rb"\1", body))
    try:
        # Less may be written than read: it is kept as it was read.
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
