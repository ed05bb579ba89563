"""Queries of the inbox and the dead letters for operators and staff."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import orjson
from sqlalchemy import ColumnElement, and_, false, func, or_, select, text, tuple_
from sqlalchemy.orm import Session

from marketplace.audit.person_keys import unseal_bytes
from marketplace.infra.sql.statements import Statement
from marketplace.kernel.errors import ConflictError, NotFoundError
from marketplace.kernel.paging import Page, PageRequest, page_of
from marketplace.kernel.redaction import redact_text
from marketplace.webhooks import texts
from marketplace.webhooks.events import MAX_ID_LENGTH
from marketplace.webhooks.models import InboxEvent
from marketplace.webhooks.stored_payloads import PLAIN_MEMBERS

# A duplicate counts as ignored, like an event without effect.
STATES: dict[str, tuple[str, ...]] = {
    "waiting": ("received",),
    "retrying": ("retrying",),
    "processed": ("processed",),
    "ignored": ("ignored", "duplicate"),
    "dead": ("dead",),
}
PROVIDERS = ("gateway", "messaging")
COUNT_WINDOW_HOURS = 24  # finished deliveries are too many to count all
STATE_OF = {status: state for state, statuses in STATES.items() for status in statuses}
MAX_MATCHES = 1_000  # deliveries of an event id or a reference
_MAX_TEXT_LENGTH = 200
_MAX_ITEMS = 20
_MAX_FIELDS = 100
_MAX_DEPTH = 8


@dataclass(frozen=True)
class WebhookEvent:
    """A delivery without its body."""

    id: UUID
    provider: str
    status: str
    event_type: str | None
    dedupe_id: str | None
    attempts: int
    received_at: datetime
    due_at: datetime
    finished_at: datetime | None
    last_error: str | None

    @property
    def state(self) -> str:
        """The state of the delivery, a key of ``STATES``."""
        return STATE_OF[self.status]

    @property
    def duplicate(self) -> bool:
        """Whether another delivery of the event was applied."""
        return self.status == "duplicate"

    @property
    def event_id(self) -> str | None:
        """The id of a gateway event. The id of a message contains the sender's phone number and is not shown."""
        return self.dedupe_id if self.provider == "gateway" else None

    @property
    def next_attempt_at(self) -> datetime | None:
        """The time of the next attempt; None for finished deliveries."""
        return self.due_at if self.state in ("waiting", "retrying") else None


@dataclass(frozen=True)
class WebhookEventDetail(WebhookEvent):
    """A delivery with its body."""

    died_at: datetime | None
    replayed_at: datetime | None
    raw_body: memoryview

    @property
    def body(self) -> bytes:
        """The raw body."""
        return bytes(self.raw_body)

    @property
    def body_bytes(self) -> int:
        """The size of the body in bytes."""
        return len(self.body)

    @property
    def payload(self) -> dict[str, Any] | None:
        """The part of the payload that identifies no person."""
        try:
            payload = orjson.loads(self.body)
        except orjson.JSONDecodeError:
            return None
        names = PLAIN_MEMBERS if self.provider == "gateway" else PLAIN_MEMBERS - {"id"}
        disclosed = _copy_shown_fields(payload, names)
        return disclosed if isinstance(disclosed, dict) else None


@dataclass(frozen=True)
class FailureCause:
    """A count of deliveries with the same event type and last error."""

    event_type: str | None
    last_error: str | None
    events: int
    first_at: datetime
    last_at: datetime


@dataclass(frozen=True)
class WebhookEventFilters:
    """Filters of deliveries; None matches all.

    :param state: a key of ``STATES``
    :param event_type: for example ``charge.success``
    :param provider: one of ``PROVIDERS``
    :param since: the earliest time of receipt
    :param error: a case-insensitive part of the last error
    :param identifier: see ``find_events``
    """

    state: str | None = None
    event_type: str | None = None
    provider: str | None = None
    since: datetime | None = None
    error: str | None = None
    identifier: str | None = None

    def conditions(self) -> list[ColumnElement[bool]]:
        """Build the SQL conditions of the filters that are set."""
        conditions: list[ColumnElement[bool]] = []
        if self.state:
            conditions.append(InboxEvent.status.in_(STATES[self.state]))
        if self.event_type is not None:
            conditions.append(InboxEvent.event_type == self.event_type)
        if self.provider is not None:
            conditions.append(InboxEvent.provider == self.provider)
        if self.since is not None:
            conditions.append(InboxEvent.received_at >= self.since)
        if self.error:
            position = func.strpos(func.lower(InboxEvent.last_error), func.lower(self.error))
            conditions.append(position > 0)
        if self.identifier is not None:
            conditions.append(_has_identifier(self.identifier))
        return conditions


def _has_identifier(identifier: str) -> ColumnElement[bool]:
    """Build the condition of ``find_events``. Each alternative uses an index."""
    if not 0 < len(identifier) <= MAX_ID_LENGTH or not identifier.isprintable():
        return false()
    # The ids of messages contain phone numbers, which must not appear in addresses and logs.
    is_event = and_(InboxEvent.dedupe_id == identifier, InboxEvent.provider == "gateway")
    try:
        is_delivery = InboxEvent.id == UUID(identifier)
    except ValueError:
        return or_(is_event, InboxEvent.reference == identifier)
    return or_(is_event, InboxEvent.reference == identifier, is_delivery)


_COLUMNS = tuple(getattr(InboxEvent, field.name) for field in fields(WebhookEvent))


def list_events(session: Session, *, filters: WebhookEventFilters, limit: int) -> list[WebhookEvent]:
    """List deliveries, newest first."""
    return _list_latest(session, filters.conditions(), limit=limit)


def _list_latest(
    session: Session, conditions: Sequence[ColumnElement[bool]], *, limit: int
) -> list[WebhookEvent]:
    rows = session.execute(
        select(*_COLUMNS)
        .where(*conditions)
        .order_by(InboxEvent.received_at.desc(), InboxEvent.id.desc())
        .limit(limit)
    )
    return [WebhookEvent(*row) for row in rows]


# The counts are read often, so each branch uses its own index.
_COUNT_BY_STATUS = Statement(
    text(
        """
        SELECT status, count(*) AS number FROM webhook_inbox
        WHERE status IN ('received', 'retrying', 'dead') GROUP BY status
        UNION ALL
        SELECT status, count(*) FROM webhook_inbox
        WHERE received_at >= :since AND status IN ('processed', 'ignored', 'duplicate') GROUP BY status
        """
    )
)


def list_events_for_staff(
    session: Session, *, filters: WebhookEventFilters, page: PageRequest, now: datetime
) -> Page:
    """List deliveries, newest first, with counts by state, in two queries.

    Finished deliveries are counted for the last 24 hours only.
    """
    after_time, after_id = page.after("time", "id")
    conditions = filters.conditions()
    if after_time is not None:
        conditions.append(tuple_(InboxEvent.received_at, InboxEvent.id) < (after_time, after_id))
    rows = _list_latest(session, conditions, limit=page.limit + 1)
    found = page_of(rows, request=page, position_of=lambda row: [row.received_at.isoformat(), str(row.id)])
    counts = dict.fromkeys(STATES, 0)
    for status, number in _COUNT_BY_STATUS.tuples(session, since=now - timedelta(hours=COUNT_WINDOW_HOURS)):
        counts[STATE_OF[status]] += number
    return replace(found, extra_meta={"counts": counts})


def list_dead_events(
    session: Session, *, filters: WebhookEventFilters, limit: int
) -> tuple[list[WebhookEvent], int]:
    """List dead deliveries in replay order: first the deliveries that were not replayed since they died.

    Within each group, the delivery with the earliest last attempt comes first.

    :param filters: the state filter is ignored
    :return: the deliveries, and the total number of matches
    """
    rows = session.execute(
        select(*_COLUMNS, func.count().over())
        .where(*replace(filters, state="dead").conditions())
        # A replay moves an event to the end, so events that always fail do not block the others.
        .order_by(
            InboxEvent.due_at > InboxEvent.finished_at,
            InboxEvent.due_at,
            InboxEvent.received_at,
            InboxEvent.id,
        )
        .limit(limit)
    ).all()
    return [WebhookEvent(*row[:-1]) for row in rows], rows[0][-1] if rows else 0


def list_failure_causes(session: Session, *, filters: WebhookEventFilters, limit: int) -> list[FailureCause]:
    """Count deliveries by event type and last error, the most frequent first."""
    events, received_at = func.count(), InboxEvent.received_at
    rows = session.execute(
        select(
            InboxEvent.event_type, InboxEvent.last_error, events, func.min(received_at), func.max(received_at)
        )
        .where(*filters.conditions())
        .group_by(InboxEvent.event_type, InboxEvent.last_error)
        .order_by(events.desc(), InboxEvent.event_type, InboxEvent.last_error)
        .limit(limit)
    )
    return [FailureCause(*row) for row in rows]


_SELECT_EVENT = Statement(
    text(
        """
        SELECT i.id, i.provider, i.status, i.event_type, i.dedupe_id, i.attempts, i.received_at, i.due_at,
            i.finished_at, i.last_error, d.died_at, d.replayed_at, i.body AS raw_body
        FROM webhook_inbox i LEFT JOIN dead_letter_webhooks d ON d.inbox_id = i.id WHERE i.id = :inbox_id
        """
    ),
    row=WebhookEventDetail,
)


def fetch_event(session: Session, *, inbox_id: UUID) -> WebhookEventDetail:
    """Fetch a delivery with its body. The body of an erased person's event is empty.

    :raises NotFoundError: the delivery does not exist
    """
    event = _SELECT_EVENT.first(session, inbox_id=inbox_id)
    if event is None:
        raise NotFoundError("Webhook event not found.")
    opened = unseal_bytes(session, event.body)
    return replace(event, raw_body=memoryview(opened or b""))


class SeveralEventsError(ConflictError):
    """A reference has several events, and the action needs one."""

    reason = "several-events-match"


def find_events(session: Session, *, identifier: str) -> list[WebhookEvent]:
    """Find deliveries in order of arrival, at most 1,000. Duplicates are left out, unless nothing else matches.

    A delivery has an event id and a reference after the first attempt.

    :param identifier: the id of a delivery, the id of a gateway event such as ``charge.success:4099``, or the
        gateway's reference of a charge or transfer
    :raises NotFoundError: nothing matches
    """
    rows = session.execute(
        select(*_COLUMNS)
        .where(_has_identifier(identifier))
        .order_by(InboxEvent.status == "duplicate", InboxEvent.received_at, InboxEvent.id)
        .limit(MAX_MATCHES)
    )
    found = [WebhookEvent(*row) for row in rows]
    if not found:
        raise NotFoundError("Webhook event not found.")
    return [event for event in found if not event.duplicate] or found


def resolve_identifier(session: Session, *, identifier: str) -> UUID:
    """Find the id of the single delivery with an identifier (``find_events``).

    :raises NotFoundError: nothing matches
    :raises SeveralEventsError: several events match
    """
    found = find_events(session, identifier=identifier)
    if len(found) > 1:
        raise SeveralEventsError(texts.SEVERAL_EVENTS.format(count=len(found)))
    return found[0].id


def _copy_shown_fields(value: Any, names: frozenset[str], depth: int = 0) -> Any:
    """Copy the named fields of a payload, with the objects and lists that contain the fields."""
    if depth > _MAX_DEPTH:
        return None
    if isinstance(value, dict):
        parts = {
            name: _copy_shown_fields(item, names, depth + 1)
            for name, item in list(value.items())[:_MAX_FIELDS]
        }
        return {
            name: part
            for name, part in parts.items()
            if (part if isinstance(part, dict | list) else name in names and part is not None)
        }
    if isinstance(value, list):
        parts_of = [_copy_shown_fields(item, names, depth + 1) for item in value[:_MAX_ITEMS]]
        return [part for part in parts_of if isinstance(part, dict) and part]
    return redact_text(value)[:_MAX_TEXT_LENGTH] if isinstance(value, str) else value
