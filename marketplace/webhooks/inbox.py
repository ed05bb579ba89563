"""The inbox: events are stored as they come, processed with their effect in one transaction, retried, buried."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import Any
from uuid import UUID

import structlog
from sqlalchemy import text
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from marketplace.infra import outbox, wakeups
from marketplace.infra.db import Database, Json, Statement, run_with_retries, sqlstate
from marketplace.infra.prepared import Prepared
from marketplace.kernel import queues
from marketplace.kernel.clock import Clock
from marketplace.payments.charges.apply import UnknownReferenceError
from marketplace.providers.gateway.errors import MalformedGatewayDataError
from marketplace.webhooks import dead_letters, envelopes, events, gateway_event_handlers, message_handlers
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

_INSERT_EVENT = Prepared(
    insert(InboxEvent).returning(InboxEvent.id), columns=("provider", "body", "received_at", "due_at")
)
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
# What just came is due whatever the clock says: the one that it was received by may be ahead of the worker's.
_IS_DUE = "(status = 'received' OR status = 'retrying' AND due_at <= :now)"
_LOCK_DUE_EVENT = Prepared(
    text(
        f"""
        SELECT id, provider, body, attempts, received_at FROM webhook_inbox
        WHERE id = :inbox_id AND {_IS_DUE}
        FOR NO KEY UPDATE SKIP LOCKED
        """
    )
)
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
_LOCK_FAILED_EVENT = Statement(
    text(
        f"""
        SELECT id, provider, body, attempts, event_type, dedupe_id FROM webhook_inbox
        WHERE id = :inbox_id AND {_IS_DUE} FOR NO KEY UPDATE
        """
    )
)
_SCHEDULE_RETRY = Statement(
    text(
        """
        UPDATE webhook_inbox SET status = 'retrying', attempts = :attempts, due_at = :due_at,
            last_error = :error, event_type = :event_type, dedupe_id = :dedupe_id
        WHERE id = :inbox_id
        """
    )
)
# A host's own time holds while the database is away: an event received ahead of time need not wait for that time.
_SELECT_DUE_EVENT_IDS = Statement(
    text(
        """
        SELECT id FROM webhook_inbox
        WHERE status IN ('received', 'retrying')
            AND (due_at <= :now OR status = 'received' AND due_at > :now + interval '1 minute')
        ORDER BY due_at LIMIT :most
        """
    )
)


@dataclass(frozen=True)
class ProcessingResult:
    """What became of an inbox row, when it is due again, if it is, and which event it was, if it was processed."""

    status: str
    due_at: datetime | None = None
    event: Event | None = field(default=None, compare=False, repr=False)


def receive_event(session: Session, *, provider: str, body: bytes, now: datetime) -> UUID:
    """Store a verified delivery; once that is committed, nothing loses it.

    :param provider: gateway or messaging
    :param body: the raw bytes
    :param now: when it came
    :return: the inbox row's id
    """
    row_id: UUID = _INSERT_EVENT.one(session, provider=provider, body=body, received_at=now, due_at=now)["id"]
    return row_id


def list_due_events(session: Session, *, now: datetime, limit: int) -> list[UUID]:
    """List inbox rows that wait to be processed and are due, the longest waiting first."""
    return [row["id"] for row in _SELECT_DUE_EVENT_IDS.all(session, now=now, most=limit)]


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

    def record_failure(error: str, *, jitter_source: Callable[[], float] | None) -> ProcessingResult | None:
        failed_at = clock() if clock else now
        return database.in_transaction(
            _record_failure, inbox_id, error, attempt_started_at=now, now=failed_at, random=jitter_source
        )

    def attempt() -> ProcessingResult | None:
        with database.transaction() as session:
            return process_event_in_transaction(session, inbox_id=inbox_id, fee_bearer=fee_bearer, now=now)

    try:
        result = run_with_retries(attempt)
    except (PermanentEventError, MalformedGatewayDataError) as error:
        return record_failure(str(error), jitter_source=None)
    except (UnknownReferenceError, RetryableEventError) as error:
        return record_failure(str(error), jitter_source=random)
    except Exception as error:  # noqa: BLE001 - logged with its trace and kept on the row
        # Whatever it is, the event must neither be lost nor block those behind it.
        _log.exception("webhook event failed", inboxId=str(inbox_id))
        return record_failure(describe_error(error), jitter_source=random)
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


def record_worker_crash(
    database: Database, *, inbox_id: UUID, error: str, now: datetime, random: Callable[[], float]
) -> ProcessingResult | None:
    """Note a try of an inbox row that ended the process; its body is not looked at again.

    :param error: what is known of it
    :return: as ``process_event`` does
    """
    return database.in_transaction(
        _record_failure, inbox_id, error, attempt_started_at=now, now=now, random=random, parse_body=False
    )


def describe_error(error: Exception) -> str:
    """Describe an error nobody foresaw, by its kind alone: its text may hold what was sent."""
    return f"{type(error).__name__} {sqlstate(error) or ''}".strip()


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
    row = _LOCK_DUE_EVENT.first(session, inbox_id=inbox_id, now=now)
    if row is None:
        return None
    last_try = row["attempts"] >= len(RETRY_DELAYS_SECONDS)
    return apply_event(session, row=row, fee_bearer=fee_bearer, last_try=last_try, now=now)


def apply_event(
    session: Session, *, row: dict[str, Any], fee_bearer: str, last_try: bool, now: datetime
) -> ProcessingResult:
    """Have an event its effect, and mark its row done; errors are those of ``process_event_in_transaction``.

    :param row: of the inbox: ``id``, ``provider``, ``body``, ``received_at``; locked, and not done
    :param last_try: whether what it is about stays unknown if it is so now
    """
    body = bytes(row["body"])
    if row["provider"] == MESSAGING:
        parts = envelopes.split_envelope(body)
        if len(parts) != 1:
            return _enqueue_envelope_items(session, row, parts, now=now)
    event = _PARSERS[row["provider"]](body)
    # Two deliveries at once: the second waits here until the first has committed, and then finds it done.
    first = _INSERT_PROCESSED_EVENT.run(
        session,
        id=event.dedupe_id,
        provider=row["provider"],
        event_type=event.type,
        payload=Json(event.payload),
        processed_at=now,
    )
    if not first:
        status = "duplicate"
    elif event.provider == GATEWAY:
        status = gateway_event_handlers.apply_gateway_event(session, event, fee_bearer=fee_bearer, now=now)
    else:
        status = message_handlers.apply_messaging_event(session, event, last_try=last_try, now=now)
    _MARK_FINISHED.run(
        session, inbox_id=row["id"], status=status, event_type=event.type, dedupe_id=event.dedupe_id, now=now
    )
    return ProcessingResult(status, event=event)


def _enqueue_envelope_items(
    session: Session, row: dict[str, Any], parts: list[bytes], *, now: datetime
) -> ProcessingResult:
    """Have each message of an envelope delivered by itself; one without any is ignored."""
    status = "processed" if parts else "ignored"
    if parts:
        for part in _INSERT_ENVELOPE_ITEMS.all(session, parts=parts, received_at=row["received_at"], now=now):
            outbox.after_commit(
                session, partial(wakeups.send_wakeup, queues.WEBHOOKS, wakeups.INBOX, part["id"])
            )
    _MARK_FINISHED.run(
        session, inbox_id=row["id"], status=status, event_type=envelopes.ENVELOPE, dedupe_id=None, now=now
    )
    return ProcessingResult(status)


def _record_failure(
    session: Session,
    inbox_id: UUID,
    error: str,
    *,
    attempt_started_at: datetime,
    now: datetime,
    random: Callable[[], float] | None,
    parse_body: bool = True,
) -> ProcessingResult | None:
    """Note a failed try: due again after the next delay, or dead after the fifth retry or when hopeless."""
    # Two workers may have failed at the same try: the second finds it put off already, and counts it not again.
    row = _LOCK_FAILED_EVENT.first(session, inbox_id=inbox_id, now=attempt_started_at)
    if row is None:
        return None
    attempts = row["attempts"] + 1
    event_type, dedupe_id = row.pop("event_type"), row.pop("dedupe_id")
    if parse_body:
        event_type, dedupe_id = _identify_event(row["provider"], bytes(row["body"]))
    identity = {"event_type": event_type, "dedupe_id": dedupe_id}
    if random is not None and attempts <= len(RETRY_DELAYS_SECONDS):
        seconds = RETRY_DELAYS_SECONDS[attempts - 1] * (1 + RETRY_JITTER * (2 * random() - 1))
        due_at = now + timedelta(seconds=seconds)
        _SCHEDULE_RETRY.run(
            session, inbox_id=inbox_id, attempts=attempts, due_at=due_at, error=error, **identity
        )
        return ProcessingResult("retrying", due_at)
    dead_letters.move_to_dead_letters(session, row=row, attempts=attempts, error=error, now=now, **identity)
    return ProcessingResult("dead")


def _identify_event(provider: str, body: bytes) -> tuple[str | None, str | None]:
    try:
        event = _PARSERS[provider](body)
    except PermanentEventError:
        return None, None
    return event.type, event.dedupe_id
