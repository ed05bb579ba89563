"""Dead letters: events that failed for good, and the alert about them."""

from datetime import datetime
from uuid import UUID

from sqlalchemy import select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from marketplace.webhooks import alerts
from marketplace.webhooks.models import DeadLetterWebhook, InboxEvent


def move_to_dead_letters(session: Session, *, delivery: InboxEvent, error: str, now: datetime) -> None:
    """Move an event to the dead letters, and raise the alert about events of its type.

    :param delivery: locked; it holds the number of tries, and the type and id that its body tells
    :param error: the cause of the last failure, without anything of the body
    """
    delivery.status = "dead"
    delivery.last_error = error
    delivery.finished_at = delivery.due_at = now
    letter = insert(DeadLetterWebhook).values(
        inbox_id=delivery.id,
        provider=delivery.provider,
        event_type=delivery.event_type,
        dedupe_id=delivery.dedupe_id,
        body=delivery.body,
        attempts=delivery.attempts,
        error=error,
        died_at=now,
    )
    updated = {name: letter.excluded[name] for name in ("attempts", "error", "died_at", "replayed_at")}
    session.execute(letter.on_conflict_do_update(index_elements=["inbox_id"], set_=updated))
    alerts.raise_dead_letter_alert(
        session,
        provider=delivery.provider,
        event_type=delivery.event_type,
        facts={"inboxId": delivery.id, "tries": delivery.attempts, "error": error},
        now=now,
    )


def record_replay(session: Session, *, inbox_id: UUID, now: datetime) -> None:
    """Record that an event is no longer dead, and resolve the alert with the last event of its type."""
    letter = session.scalar(select(DeadLetterWebhook).filter_by(inbox_id=inbox_id, replayed_at=None))
    if letter is not None:
        letter.replayed_at = now
        alerts.resolve_if_none_dead(session, provider=letter.provider, event_type=letter.event_type, now=now)


def record_failed_replay(session: Session, *, inbox_id: UUID, attempts: int, error: str) -> None:
    """Record that a dead event was tried once more and stays dead."""
    session.execute(
        update(DeadLetterWebhook)
        .filter_by(inbox_id=inbox_id, replayed_at=None)
        .values(attempts=attempts, error=error)
    )
