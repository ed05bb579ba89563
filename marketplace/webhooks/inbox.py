"""The inbox of webhooks: store, process in one transaction, retry, and move to the dead letters."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from uuid import UUID

import structlog
from sqlalchemy import and_, or_, select, text
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from marketplace.audit.person_keys import unseal_bytes
from marketplace.infra import outbox, wakeups
from marketplace.infra.db import Database, sqlstate
from marketplace.infra.sql.statements import Json, Prepared, Statement
from marketplace.kernel import queues
from marketplace.kernel.clock import Clock
from marketplace.payments.charges.apply import UnknownReferenceError
from marketplace.providers.gateway.fields import MalformedGatewayDataError
from marketplace.webhooks import dead_letters, envelopes, event_handlers, events
from marketplace.webhooks.events import Event, PermanentEventError, RetryableEventError
from marketplace.webhooks.models import InboxEvent, ProcessedWebhookEvent
from marketplace.webhooks.stored_payloads import find_owner, seal_body, seal_payload, stored_event_id

_log = structlog.get_logger(__name__)

# The delays before the five retries.
RETRY_DELAYS_SECONDS = (1, 5, 25, 125, 600)
GATEWAY, MESSAGING = "gateway", "messaging"
_PARSERS: dict[str, Callable[[bytes], Event]] = {
    GATEWAY: events.parse_gateway_event,
    MESSAGING: envelopes.parse_envelope,
}
RETRY_JITTER = 0.2  # as a fraction of the delay, in both directions


@dataclass(frozen=True)
class ProcessingResult:
    """The new status of an inbox row, the time of a retry, and the event if it was processed."""

    status: str
    due_at: datetime | None = None
    event: Event | None = field(default=None, compare=False, repr=False)


_INSERT_EVENT = Prepared(
    insert(InboxEvent).returning(InboxEvent.id), columns=("provider", "body", "received_at", "due_at")
)


def receive_event(session: Session, *, provider: str, body: bytes, now: datetime) -> UUID:
    """Store a verified delivery, which is durable after the commit.

    :param provider: ``gateway`` or ``messaging``
    :param now: the time of receipt
    :return: the inbox row's id
    """
    row_id: UUID = _INSERT_EVENT.scalar(session, provider=provider, body=body, received_at=now, due_at=now)
    return row_id


def list_due_events(session: Session, *, now: datetime, limit: int) -> Sequence[UUID]:
    """List inbox rows that are due, the earliest due time first."""
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
    """Process an inbox row: the event's effect, the ledger postings and the processing record commit together.

    :param fee_bearer: ``platform`` or ``customer``
    :param random: returns numbers from 0 to 1 for the jitter of retries
    :param clock: the time of a failure, which may be long after ``now``; None to use ``now``
    :return: the result; None if the row is not due or another worker has locked the row
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
        # An unexpected error must neither lose the event nor block later events.
        _log.exception("webhook event failed", inboxId=str(inbox_id))
        return record(describe_error(error), jitter_source=random)
    if result is not None and result.event is not None:
        event = result.event
        _log.info(
            "webhook event processed",
            inboxId=str(inbox_id),
            eventType=event.type,
            # The id of a message contains the sender's phone number.
            eventId=event.data.get("id") if event.provider == GATEWAY else None,
            outcome=result.status,
        )
    return result


def describe_error(error: Exception) -> str:
    """Describe an unexpected error by type and SQLSTATE. The error's text may contain personal data."""
    return f"{type(error).__name__} {sqlstate(error) or ''}".strip()


@dataclass(frozen=True)
class LockedDelivery:
    """An inbox row that is due and locked by this transaction."""

    id: UUID
    provider: str
    body: memoryview
    attempts: int
    received_at: datetime


# A received row is always due: the clocks of receiver and worker may differ slightly.
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
    """Process an inbox row in the caller's transaction. Workers call ``process_event`` instead.

    :return: the result; None if the row is not due or another worker has locked the row
    :raises PermanentEventError: the event can never be processed
    :raises MalformedGatewayDataError: a field of the gateway's data is missing or has a wrong type
    :raises UnknownReferenceError: no payment has the event's reference yet
    :raises RetryableEventError: another subject of the event is not known yet
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
        UPDATE webhook_inbox SET status = :status, body = :body, event_type = :event_type, dedupe_id = :dedupe_id,
            reference = :reference, attempts = attempts + 1, last_error = NULL, finished_at = :now WHERE id = :inbox_id
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
    """Apply an event and mark the inbox row as finished.

    Raises the errors of ``process_event_in_transaction``.

    :param delivery: an unfinished row, locked by the caller
    :param last_try: whether an event with an unknown subject is finished instead of retried, where possible
    """
    body = unseal_bytes(session, bytes(delivery.body))
    if body is None:
        raise PermanentEventError("the person of the event is erased")
    if delivery.provider == MESSAGING:
        parts = envelopes.split_envelope(body)
        if len(parts) != 1:
            return _enqueue_envelope_items(session, delivery, parts, now=now)
    event = _PARSERS[delivery.provider](body)
    owner_id = find_owner(session, event)
    # Of two concurrent deliveries, the second waits here for the first commit, and then counts as a duplicate.
    first = _INSERT_PROCESSED_EVENT.run(
        session,
        id=stored_event_id(event),
        provider=delivery.provider,
        event_type=event.type,
        payload=Json(seal_payload(session, event, owner_id=owner_id)),
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
        body=seal_body(session, body, owner_id=owner_id),
        event_type=event.type,
        dedupe_id=stored_event_id(event),
        reference=event.reference,
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
    """Insert an inbox row for each item of an envelope. An empty envelope is ignored."""
    status = "processed" if parts else "ignored"
    if parts:
        for part_id in _INSERT_ENVELOPE_ITEMS.scalars(
            session, parts=parts, received_at=delivery.received_at, now=now
        ):
            outbox.after_commit(
                session, partial(wakeups.send_wakeup, queues.WEBHOOKS, wakeups.INBOX, part_id)
            )
    _MARK_FINISHED.run(
        session,
        inbox_id=delivery.id,
        status=status,
        # The parts have the content.
        body=b"",
        event_type=envelopes.ENVELOPE,
        dedupe_id=None,
        reference=None,
        now=now,
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
    """Record a failed attempt: schedule a retry, or move the event to the dead letters.

    An event is dead after the fifth retry or after a permanent error.

    :param random: returns numbers from 0 to 1 for the jitter of the retry; None after a permanent error
    :param parse_body: False after a worker crash, because parsing the body may be the cause
    :return: the result; None if the row is not due any more
    """
    # Two workers may fail in the same attempt: the second finds the row postponed and does not count an attempt.
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
        event = _parse_readable_event(delivery.provider, delivery.body)
        delivery.event_type = event.type if event else None
        delivery.dedupe_id = stored_event_id(event) if event else None
        delivery.reference = event.reference if event else None
    if random is None or delivery.attempts > len(RETRY_DELAYS_SECONDS):
        if parse_body and event is not None:
            delivery.body = seal_body(session, delivery.body, owner_id=find_owner(session, event))
        dead_letters.move_to_dead_letters(session, delivery=delivery, error=error, now=now)
        return ProcessingResult("dead")
    seconds = RETRY_DELAYS_SECONDS[delivery.attempts - 1] * (1 + RETRY_JITTER * (2 * random() - 1))
    delivery.due_at = now + timedelta(seconds=seconds)
    delivery.status, delivery.last_error = "retrying", error
    return ProcessingResult("retrying", delivery.due_at)


def _parse_readable_event(provider: str, body: bytes) -> Event | None:
    try:
        return _PARSERS[provider](body)
    except PermanentEventError:
        return None


# Messages of customers are not kept forever. Dead events are kept longer, for questions and replays.
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
    """Delete webhooks after the retention time, with the dead letters. Processing records stay.

    :return: the number of deleted webhooks
    """
    return _DELETE_OLD_EVENTS.run(
        session, before=now - RETENTION, dead_before=now - DEAD_LETTER_RETENTION, limit=limit
    )
