"""Dead letters: events that failed for good, with one alert for each event type."""

from datetime import datetime
from uuid import UUID

from sqlalchemy import select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from marketplace.alerts.operations import lock_alert, raise_alert, resolve_alert
from marketplace.kernel.redaction import redact_text
from marketplace.webhooks import texts
from marketplace.webhooks.models import DeadLetterWebhook, InboxEvent


def move_to_dead_letters(session: Session, *, delivery: InboxEvent, error: str, now: datetime) -> None:
    """Move an event to the dead letters, and raise the alert about the event type.

    :param delivery: the row, locked by the caller, with attempts, event type and id up to date
    :param error: the cause of the last failure, without content of the body
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
    raise_alert(
        session,
        identifier="WEBHOOK_DEAD",
        subject=_alert_subject(delivery.provider, delivery.event_type),
        title=texts.DEAD_LETTER_TITLE,
        facts={"inboxId": delivery.id, "tries": delivery.attempts, "error": error},
        now=now,
    )


def record_replay(session: Session, *, inbox_id: UUID, now: datetime) -> None:
    """Mark a dead letter as replayed, and resolve the alert after the last dead event of the type."""
    letter = session.scalar(select(DeadLetterWebhook).filter_by(inbox_id=inbox_id, replayed_at=None))
    if letter is None:
        return
    letter.replayed_at = now
    subject = _alert_subject(letter.provider, letter.event_type)
    if not lock_alert(session, identifier="WEBHOOK_DEAD", subject=subject):
        return
    dead = select(DeadLetterWebhook.id).where(
        DeadLetterWebhook.provider == letter.provider,
        DeadLetterWebhook.event_type.is_not_distinct_from(letter.event_type),
        DeadLetterWebhook.replayed_at.is_(None),
    )
    if session.scalar(dead.limit(1)) is None:
        resolve_alert(
            session,
            identifier="WEBHOOK_DEAD",
            subject=subject,
            note=texts.DEAD_LETTER_RESOLVED_NOTE,
            now=now,
        )


def _alert_subject(provider: str, event_type: str | None) -> str:
    # The sender chooses the event type, so redact the text like a stored subject to find the alert again.
    return redact_text(f"{provider}:{event_type or 'unreadable'}")


def record_failed_replay(session: Session, *, inbox_id: UUID, attempts: int, error: str) -> None:
    """Record the attempts and the error of a failed replay. The event stays dead."""
    session.execute(
        update(DeadLetterWebhook)
        .filter_by(inbox_id=inbox_id, replayed_at=None)
        .values(attempts=attempts, error=error)
    )
