"""The inbox: events are stored as they come, processed with their effect in one transaction, retried, buried."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from uuid import UUID

import structlog
from sqlalchemy import and_, or_, select, text
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from marketplace.infra import outbox, wakeups
from marketplace.infra.db import Database, Json, Prepared, Statement, sqlstate
from marketplace.kernel import queues
from marketplace.kernel.clock import Clock
from marketplace.payments.charges.apply import UnknownReferenceError
from marketplace.providers.gateway.fields import MalformedGatewayDataError
from marketplace.webhooks import dead_letters, envelopes, event_handlers, events
from marketplace.webhooks.events import Event, PermanentEventError, RetryableEventError
from marketplace.webhooks.models import InboxEvent, ProcessedWebhookEvent

_log = structlog.get_logger(__name__)

# One try and five retries.
RETRY_DELAYS_SECONDS = (1, 5, 25, 125, 600)
GATEWAY, MESSAGING = "gateway", "messaging"
_PARSERS: dict[str, Callable[[bytes], Event]] = {
    GATEWAY: events.parse_gateway_event,
    MESSAGING: envelopes.parse_envelope,
}
RETRY_JITTER = 0.2  # a retry comes up to a fifth earlier or later


@dataclass(frozen=True)
class ProcessingResult:
    """What became of an inbox row, when it is due again, if it is, and which event it was, if it was processed."""

    status: str
    due_at: datetime | None = None
    event: Event | None = field(default=None, compare=False, repr=False)


_INSERT_EVENT = Prepared(
    insert(InboxEvent).returning(InboxEvent.id), columns=("provider", "body", "received_at", "due_at")
)


def receive_event(session: Session, *, provider: str, body: bytes, now: datetime) -> UUID:
    """Store a verified delivery; once that is committed, nothing loses it.

    :param provider: gateway or messaging
    :param body: the raw bytes
    :param now: when it came
    :return: the inbox row's id
    """
    row_id: UUID = _INSERT_EVENT.scalar(session, provider=provider, body=body, received_at=now, due_at=now)
    return row_id


def list_due_events(session: Session, *, now: datetime, limit: int) -> Sequence[UUID]:
    """List inbox rows that wait to be processed and are due, the longest waiting first."""
    return session.scalars(
        select(InboxEvent.id)
        .where(InboxEvent.status.in_(("received", "retrying")), InboxEvent.due_at <= now)
        .order_by(InboxEvent.due_at)
        .limit(limit)
    ).all()


def process_event(
    database: Database,
    *,
    inbox_id: UUID,
    fee_bearer: str,
    now: datetime,
    random: Callable[[], float],
    clock: Clock | None = None,
) -> ProcessingResult | None:
    """Process an inbox row: its effect, the books and the record of it commit together.

    :param inbox_id: the row's
    :param fee_bearer: ``platform`` or ``customer``
    :param now: the time of processing
    :param random: gives numbers from 0 to 1, for the jitter of retries
    :param clock: tells when a try failed, which may be long after it began; none if that takes no time
    :return: what became of it; none if it is not due, or somebody else has it
    """

    def record(error: str, *, jitter_source: Callable[[], float] | None) -> ProcessingResult | None:
        failed_at = clock() if clock else now
        return database.in_transaction(
            record_failure, inbox_id, error, attempt_started_at=now, now=failed_at, random=jitter_source
        )

    try:
        result = database.in_transaction(
            process_event_in_transaction, inbox_id=inbox_id, fee_bearer=fee_bearer, now=now
        )
    except (PermanentEventError, MalformedGatewayDataError) as error:
        return record(str(error), jitter_source=None)
    except (UnknownReferenceError, RetryableEventError) as error:
        return record(str(error), jitter_source=random)
    except Exception as error:  # noqa: BLE001 - logged with its trace and kept on the row
        # Whatever it is, the event must neither be lost nor block those behind it.
        _log.exception("webhook event failed", inboxId=str(inbox_id))
        return record(describe_error(error), jitter_source=random)
    if result is not None and result.event is not None:
        event = result.event
        _log.info(
            "webhook event processed",
            inboxId=str(inbox_id),
            eventType=event.type,
            # As a number it is shown whole. A message's is made of its sender's.
            eventId=event.data.get("id") if event.provider == GATEWAY else None,
            outcome=result.status,
        )
    return result


def describe_error(error: Exception) -> str:
    """Describe an error nobody foresaw, by its kind alone: its text may hold what was sent."""
    return f"{type(error).__name__} {sqlstate(error) or ''}".strip()


@dataclass(frozen=True)
class LockedDelivery:
    """An inbox row that is locked and due."""

    id: UUID
    provider: str
    body: memoryview
    attempts: int
    received_at: datetime


# A received row is due whatever the clock says: clocks of receiver and worker may differ by a moment.
_LOCK_DUE_DELIVERY = Prepared(
    text(
        """
        SELECT id, provider, body, attempts, received_at FROM webhook_inbox
        WHERE id = :inbox_id AND (status = 'received' OR status = 'retrying' AND due_at <= :now)
        FOR NO KEY UPDATE SKIP LOCKED
        """
    ),
    row=LockedDelivery,
)


def process_event_in_transaction(
    session: Session, *, inbox_id: UUID, fee_bearer: str, now: datetime
) -> ProcessingResult | None:
    """Process an inbox row in the caller's transaction; ``process_event`` is what workers call.

    :return: what became of it; none if it is not due, or somebody else has it
    :raises PermanentEventError: the event can never be processed
    :raises MalformedGatewayDataError: likewise, its charge being no charge
    :raises UnknownReferenceError: no payment of ours has its reference, at least not yet
    :raises RetryableEventError: likewise, of something else that it is about
    """
    delivery = _LOCK_DUE_DELIVERY.first(session, inbox_id=inbox_id, now=now)
    if delivery is None:
        return None
    last_try = delivery.attempts >= len(RETRY_DELAYS_SECONDS)
    return apply_event(session, delivery=delivery, fee_bearer=fee_bearer, last_try=last_try, now=now)


_INSERT_PROCESSED_EVENT = Prepared(
    insert(ProcessedWebhookEvent).on_conflict_do_nothing(index_elements=["id"]),
    columns=("id", "provider", "event_type", "payload", "processed_at"),
)
_MARK_FINISHED = Prepared(
    text(
        """
        UPDATE webhook_inbox SET status = :status, event_type = :event_type, dedupe_id = :dedupe_id,
            attempts = attempts + 1, last_error = NULL, finished_at = :now WHERE id = :inbox_id
        """
    )
)


def apply_event(
    session: Session,
    *,
    delivery: LockedDelivery | InboxEvent,
    fee_bearer: str,
    last_try: bool,
    now: datetime,
) -> ProcessingResult:
    """Apply an event, and mark its row finished; errors are those of ``process_event_in_transaction``.

    :param delivery: locked, and not finished
    :param last_try: whether the subject of the event stays unknown if it is unknown now
    """
    body = bytes(delivery.body)
    if delivery.provider == MESSAGING:
        parts = envelopes.split_envelope(body)
        if len(parts) != 1:
            return _enqueue_envelope_items(session, delivery, parts, now=now)
    event = _PARSERS[delivery.provider](body)
    # Two deliveries at once: the second waits here until the first has committed, and then finds it done.
    first = _INSERT_PROCESSED_EVENT.run(
        session,
        id=event.dedupe_id,
        provider=delivery.provider,
        event_type=event.type,
        payload=Json(event.payload),
        processed_at=now,
    )
    if not first:
        status = "duplicate"
    elif event.provider == GATEWAY:
        status = event_handlers.apply_gateway_event(session, event, fee_bearer=fee_bearer, now=now)
    else:
        status = event_handlers.apply_messaging_event(session, event, last_try=last_try, now=now)
    _MARK_FINISHED.run(
        session,
        inbox_id=delivery.id,
        status=status,
        event_type=event.type,
        dedupe_id=event.dedupe_id,
        now=now,
    )
    return ProcessingResult(status, event=event)


_INSERT_ENVELOPE_ITEMS = Statement(
    text(
        """
        INSERT INTO webhook_inbox (provider, body, received_at, due_at)
        SELECT 'messaging', part, :received_at, :now
        FROM unnest(CAST(:parts AS bytea[])) WITH ORDINALITY AS t (part, number) ORDER BY number
        RETURNING id
        """
    )
)


def _enqueue_envelope_items(
    session: Session, delivery: LockedDelivery | InboxEvent, parts: list[bytes], *, now: datetime
) -> ProcessingResult:
    """Have each message of an envelope delivered by itself; one without any is ignored."""
    status = "processed" if parts else "ignored"
    if parts:
        for part_id in _INSERT_ENVELOPE_ITEMS.scalars(
            session, parts=parts, received_at=delivery.received_at, now=now
        ):
            outbox.after_commit(
                session, partial(wakeups.send_wakeup, queues.WEBHOOKS, wakeups.INBOX, part_id)
            )
    _MARK_FINISHED.run(
        session, inbox_id=delivery.id, status=status, event_type=envelopes.ENVELOPE, dedupe_id=None, now=now
    )
    return ProcessingResult(status)


def record_failure(
    session: Session,
    inbox_id: UUID,
    error: str,
    *,
    attempt_started_at: datetime,
    now: datetime,
    random: Callable[[], float] | None,
    parse_body: bool = True,
) -> ProcessingResult | None:
    """Record a failed try: due again after the next delay, or dead after the fifth retry or a permanent error.

    :param random: gives numbers from 0 to 1, for the jitter of the retry; none after a permanent error
    :param parse_body: not after a try that ended the process: the body is not looked at again
    :return: what became of the row; none if it is not due any more
    """
    # Two workers may have failed at the same try: the second finds the row put off, and does not count its try.
    is_due = and_(InboxEvent.status == "retrying", InboxEvent.due_at <= attempt_started_at)
    delivery = session.scalar(
        select(InboxEvent)
        .where(InboxEvent.id == inbox_id, or_(InboxEvent.status == "received", is_due))
        .with_for_update(key_share=True)
    )
    if delivery is None:
        return None
    delivery.attempts += 1
    if parse_body:
        delivery.event_type, delivery.dedupe_id = _identify_event(delivery.provider, delivery.body)
    if random is None or delivery.attempts > len(RETRY_DELAYS_SECONDS):
        dead_letters.move_to_dead_letters(session, delivery=delivery, error=error, now=now)
        return ProcessingResult("dead")
    seconds = RETRY_DELAYS_SECONDS[delivery.attempts - 1] * (1 + RETRY_JITTER * (2 * random() - 1))
    delivery.due_at = now + timedelta(seconds=seconds)
    delivery.status, delivery.last_error = "retrying", error
    return ProcessingResult("retrying", delivery.due_at)


def _identify_event(provider: str, body: bytes) -> tuple[str | None, str | None]:
    try:
        event = _PARSERS[provider](body)
    except PermanentEventError:
        return None, None
    return event.type, event.dedupe_id


# What customers said must go some day. What was never processed may be asked about, and replayed, for longer.
RETENTION = timedelta(days=90)
DEAD_LETTER_RETENTION = timedelta(days=365)

_DELETE_OLD_EVENTS = Statement(
    text(
        """
        WITH finished AS MATERIALIZED (
            SELECT id FROM webhook_inbox
            WHERE status IN ('processed', 'duplicate', 'ignored') AND finished_at <= :before
            ORDER BY finished_at LIMIT :limit FOR UPDATE SKIP LOCKED
        ), dead AS MATERIALIZED (
            SELECT id FROM webhook_inbox WHERE status = 'dead' AND finished_at <= :dead_before
            ORDER BY finished_at LIMIT :limit FOR UPDATE SKIP LOCKED
        ), old AS MATERIALIZED (
            SELECT id FROM finished UNION ALL SELECT id FROM dead LIMIT :limit
        ), letters AS (
            DELETE FROM dead_letter_webhooks WHERE inbox_id IN (SELECT id FROM old)
        )
        DELETE FROM webhook_inbox WHERE id IN (SELECT id FROM old)
        """
    )
)


def purge_events(session: Session, *, now: datetime, limit: int) -> int:
    """Delete webhooks whose time is up, with their dead letters. The record that they were processed stays.

    :param limit: at most so many
    :return: how many they were
    """
    return _DELETE_OLD_EVENTS.run(
        session, before=now - RETENTION, dead_before=now - DEAD_LETTER_RETENTION, limit=limit
    )
