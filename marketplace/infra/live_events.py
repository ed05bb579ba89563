"""Live events for people: published after the commit of their cause, and received by every process with streams.

An event can be lost, for example while the cache is down. Clients read the missed rows when they connect again.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import orjson
from sqlalchemy import event
from sqlalchemy.orm import Session

from marketplace.infra.outbox import after_commit
from marketplace.infra.sessions import PUBLISH_EVENTS_KEY

CHANNEL = "m2:live"
# The name of the event that ends streams, which clients receive as the reason.
END = "end"
_PENDING_EVENTS_KEY = "live_events"


@dataclass(frozen=True, slots=True)
class LiveEvent:
    """An event for all streams of a person.

    :ivar name: the kind of event, such as ``notification``
    :ivar data: the members of the JSON object that clients receive
    :ivar id: the position to resume from, if the event has one
    """

    user_id: UUID
    name: str
    data: Mapping[str, Any]
    id: str | None = None


def encode(live_event: LiveEvent) -> bytes:
    """Encode an event for the channel."""
    members = [live_event.user_id, live_event.name, live_event.data, live_event.id]
    return orjson.dumps(members, option=orjson.OPT_UTC_Z)


def decode(content: bytes) -> LiveEvent:
    """Decode the output of ``encode``."""
    user_id, name, data, event_id = orjson.loads(content)
    return LiveEvent(UUID(user_id), name, data, event_id)


def publish_after_commit(session: Session, live_event: LiveEvent) -> None:
    """Publish an event after the session's transaction commits. A rolled-back transaction publishes nothing."""
    pending: list[LiveEvent] | None = session.info.get(_PENDING_EVENTS_KEY)
    if pending is None:
        pending = session.info[_PENDING_EVENTS_KEY] = []
        after_commit(session, lambda: _publish_pending(session))
    pending.append(live_event)


def _publish_pending(session: Session) -> None:
    pending = session.info.pop(_PENDING_EVENTS_KEY, [])
    publish: Callable[[Sequence[bytes]], None] | None = session.info.get(PUBLISH_EVENTS_KEY)
    if publish is not None and pending:
        publish([encode(live_event) for live_event in pending])


@event.listens_for(Session, "after_rollback")
def _discard_pending(session: Session) -> None:
    session.info.pop(_PENDING_EVENTS_KEY, None)
