"""The inbox: events are stored as they come, processed with their effect in one transaction, retried, buried."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

import structlog
from sqlalchemy import text
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from marketplace.audit.operations import AuditActor, record
from marketplace.infra.db import Database, Json, Statement, retrying, sqlstate
from marketplace.payments.charges import UnknownReferenceError
from marketplace.providers.gateway import MalformedChargeError
from marketplace.webhooks import gateway_events
from marketplace.webhooks.events import HopelessEventError, parse
from marketplace.webhooks.models import DeadLetterWebhook, InboxEvent, ProcessedWebhookEvent

_log = structlog.get_logger(__name__)

# One try and five retries.
RETRY_DELAYS_SECONDS = (1, 5, 25, 125, 600)
JITTER = 0.2

_RECEIVE = Statement(
    insert(InboxEvent).returning(InboxEvent.id), columns=("provider", "body", "received_at", "due_at")
)
_TAKE = Statement(
    text(
        """
        SELECT id, provider, body, attempts FROM webhook_inbox
        WHERE id = :inbox_id AND status IN ('received', 'retrying') AND due_at <= :now
        FOR NO KEY UPDATE SKIP LOCKED
        """
    )
)
_RECORD = Statement(
    insert(ProcessedWebhookEvent).on_conflict_do_nothing(index_elements=["id"]),
    columns=("id", "provider", "event_type", "payload", "processed_at"),
)
_FINISH = Statement(
    text(
        """
        UPDATE webhook_inbox SET status = :status, event_type = :event_type, dedupe_id = :dedupe_id,
            attempts = attempts + 1, last_error = NULL, finished_at = :now WHERE id = :inbox_id
        """
    )
)
_LOCK_FAILED = Statement(
    text(
        """
        SELECT id, provider, body, attempts FROM webhook_inbox
        WHERE id = :inbox_id AND status IN ('received', 'retrying') AND due_at <= :now FOR NO KEY UPDATE
        """
    )
)
_RETRY = Statement(
    text(
        """
        UPDATE webhook_inbox SET status = 'retrying', attempts = :attempts, due_at = :due_at,
            last_error = :error, event_type = :event_type, dedupe_id = :dedupe_id
        WHERE id = :inbox_id
        """
    )
)
_BURY = Statement(
    text(
        """
        UPDATE webhook_inbox SET status = 'dead', attempts = :attempts, last_error = :error, finished_at = :now,
            event_type = :event_type, dedupe_id = :dedupe_id WHERE id = :inbox_id
        """
    )
)
_dead_letter = insert(DeadLetterWebhook)
_ADD_DEAD_LETTER = Statement(
    _dead_letter.on_conflict_do_update(
        index_elements=["inbox_id"],
        set_={
            "attempts": _dead_letter.excluded.attempts,
            "error": _dead_letter.excluded.error,
            "died_at": _dead_letter.excluded.died_at,
            "replayed_at": None,
        },
    ),
    columns=("inbox_id", "provider", "event_type", "dedupe_id", "body", "attempts", "error", "died_at"),
)
_DUE = Statement(
    text(
        """
        SELECT id FROM webhook_inbox WHERE status IN ('received', 'retrying') AND due_at <= :now
        ORDER BY due_at LIMIT :most
        """
    )
)

_REVIVE = Statement(
    text(
        """
        WITH dead AS (
            UPDATE dead_letter_webhooks SET replayed_at = :now WHERE inbox_id = :inbox_id RETURNING inbox_id
        )
        UPDATE webhook_inbox i SET status = 'received', attempts = 0, due_at = :now, finished_at = NULL,
            last_error = NULL
        FROM dead WHERE i.id = dead.inbox_id AND i.status = 'dead'
        """
    )
)


@dataclass(frozen=True)
class Result:
    """What became of an inbox row, and when it is due again, if it is."""

    status: str
    due_at: datetime | None = None


def receive(session: Session, *, provider: str, body: bytes, now: datetime) -> UUID:
    """This function will store a verified delivery; once that is committed, nothing loses it.

    :param provider: gateway or messaging
    :param body: the raw bytes
    :param now: when it came
    :return: the inbox row's id
    """
    row_id: UUID = _RECEIVE.one(session, provider=provider, body=body, received_at=now, due_at=now)["id"]
    return row_id


def due_events(session: Session, *, now: datetime, most: int) -> list[UUID]:
    """This function will list inbox rows that wait to be processed and are due, the longest waiting first."""
    return [row["id"] for row in _DUE.all(session, now=now, most=most)]


def process(
    database: Database, *, inbox_id: UUID, fee_bearer: str, now: datetime, random: Callable[[], float]
) -> Result | None:
    """This function will process an inbox row: its effect, the books and the record of it commit together.

    :param inbox_id: the row's
    :param fee_bearer: ``platform`` or ``customer``
    :param now: the time of processing
    :param random: gives numbers from 0 to 1, for the jitter of retries
    :return: what became of it; none if it is not due, or somebody else has it
    """

    def attempt() -> Result | None:
        with database.transaction() as session:
            return process_row(session, inbox_id=inbox_id, fee_bearer=fee_bearer, now=now)

    try:
        return retrying(attempt)
    except (HopelessEventError, MalformedChargeError) as error:
        return database.in_transaction(_note_failure, inbox_id, str(error), now, None)
    except UnknownReferenceError as error:
        return database.in_transaction(_note_failure, inbox_id, str(error), now, random)
    except Exception as error:  # noqa: BLE001 - logged with its trace and kept on the row
        # Whatever it is, the event must neither be lost nor block those behind it.
        _log.exception("webhook event failed", inboxId=str(inbox_id))
        described = f"{type(error).__name__} {sqlstate(error) or ''}".strip()
        return database.in_transaction(_note_failure, inbox_id, described, now, random)


def process_row(session: Session, *, inbox_id: UUID, fee_bearer: str, now: datetime) -> Result | None:
    """This function will process an inbox row in the caller's transaction; ``process`` is what workers call.

    :return: what became of it; none if it is not due, or somebody else has it
    :raises HopelessEventError: the event can never be processed
    :raises MalformedChargeError: likewise, its charge being no charge
    :raises UnknownReferenceError: no payment of ours has its reference, at least not yet
    """
    row = _TAKE.first(session, inbox_id=inbox_id, now=now)
    if row is None:
        return None
    event = parse(bytes(row["body"]))
    # Two deliveries at once: the second waits here until the first has committed, and then finds it done.
    first = _RECORD.run(
        session,
        id=event.dedupe_id,
        provider=row["provider"],
        event_type=event.type,
        payload=Json(event.payload),
        processed_at=now,
    )
    status = gateway_events.apply(session, event, fee_bearer=fee_bearer, now=now) if first else "duplicate"
    _FINISH.run(
        session, inbox_id=inbox_id, status=status, event_type=event.type, dedupe_id=event.dedupe_id, now=now
    )
    _log.info("webhook event processed", eventType=event.type, dedupeId=event.dedupe_id, outcome=status)
    return Result(status)


def _note_failure(
    session: Session, inbox_id: UUID, error: str, now: datetime, random: Callable[[], float] | None
) -> Result | None:
    """Note a failed try: due again after the next delay, or dead after the fifth retry or when hopeless."""
    # Two workers may have failed at the same try: the second finds it put off already, and counts it not again.
    row = _LOCK_FAILED.first(session, inbox_id=inbox_id, now=now)
    if row is None:
        return None
    attempts = row["attempts"] + 1
    event_type, dedupe_id = _identify(bytes(row["body"]))
    known = {"event_type": event_type, "dedupe_id": dedupe_id}
    if random is not None and attempts <= len(RETRY_DELAYS_SECONDS):
        seconds = RETRY_DELAYS_SECONDS[attempts - 1] * (1 + JITTER * (2 * random() - 1))
        due_at = now + timedelta(seconds=seconds)
        _RETRY.run(session, inbox_id=inbox_id, attempts=attempts, due_at=due_at, error=error, **known)
        return Result("retrying", due_at)
    _BURY.run(session, inbox_id=inbox_id, attempts=attempts, error=error, now=now, **known)
    _ADD_DEAD_LETTER.run(
        session,
        inbox_id=inbox_id,
        provider=row["provider"],
        body=row["body"],
        attempts=attempts,
        error=error,
        died_at=now,
        **known,
    )
    _log.error("webhook event dead", severity="SEV-2", inboxId=str(inbox_id), error=error, **known)
    return Result("dead")


def _identify(body: bytes) -> tuple[str | None, str | None]:
    try:
        event = parse(body)
    except HopelessEventError:
        return None, None
    return event.type, event.dedupe_id


def revive(session: Session, *, inbox_id: UUID, actor: AuditActor, now: datetime) -> bool:
    """This function will make a dead event due again, with all its tries before it, and have that audited.

    :param actor: who replays it
    :return: whether it was dead; an event that was processed stays as it is, so replaying it changes nothing
    """
    if not _REVIVE.run(session, inbox_id=inbox_id, now=now):
        return False
    record(
        session,
        actor=actor,
        action="webhook.replay",
        target_type="webhook_inbox",
        target_id=str(inbox_id),
        before={"status": "dead"},
        after={"status": "received"},
        now=now,
    )
    return True
