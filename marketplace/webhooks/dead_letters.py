"""Dead letters: events that failed for good, the alert that is raised about them, and its end."""

from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from marketplace.infra.db import Statement
from marketplace.webhooks import alerts
from marketplace.webhooks.models import DeadLetterWebhook

_MARK_EVENT_DEAD = Statement(
    text(
        """
        UPDATE webhook_inbox SET status = 'dead', attempts = :attempts, last_error = :error, finished_at = :now,
            due_at = :now, event_type = :event_type, dedupe_id = :dedupe_id WHERE id = :inbox_id
        """
    )
)
_insert_dead_letter = insert(DeadLetterWebhook)
_UPSERT_DEAD_LETTER = Statement(
    _insert_dead_letter.on_conflict_do_update(
        index_elements=["inbox_id"],
        set_={
            "attempts": _insert_dead_letter.excluded.attempts,
            "error": _insert_dead_letter.excluded.error,
            "died_at": _insert_dead_letter.excluded.died_at,
            "replayed_at": None,
        },
    ),
    columns=("inbox_id", "provider", "event_type", "dedupe_id", "body", "attempts", "error", "died_at"),
)
_MARK_REPLAYED = Statement(
    text(
        """
        UPDATE dead_letter_webhooks SET replayed_at = :now WHERE inbox_id = :inbox_id AND replayed_at IS NULL
        RETURNING provider, event_type
        """
    )
)
_UPDATE_FAILED_REPLAY = Statement(
    text(
        """
        UPDATE dead_letter_webhooks SET attempts = :attempts, error = :error
        WHERE inbox_id = :inbox_id AND replayed_at IS NULL
        """
    )
)


def move_to_dead_letters(
    session: Session,
    *,
    row: dict[str, Any],
    event_type: str | None,
    dedupe_id: str | None,
    attempts: int,
    error: str,
    now: datetime,
) -> None:
    """Move an event to the dead letters, and raise the alert about those of its type.

    :param row: of the inbox: its ``id``, ``provider`` and ``body``; locked
    :param event_type: the event's, if its body tells it
    :param dedupe_id: likewise
    :param attempts: how often it was tried
    :param error: what the last try failed at, without anything of the body
    """
    identity = {"inbox_id": row["id"], "event_type": event_type, "dedupe_id": dedupe_id}
    _MARK_EVENT_DEAD.run(session, **identity, attempts=attempts, error=error, now=now)
    _UPSERT_DEAD_LETTER.run(
        session,
        **identity,
        provider=row["provider"],
        body=row["body"],
        attempts=attempts,
        error=error,
        died_at=now,
    )
    alerts.raise_dead_letter_alert(
        session,
        provider=row["provider"],
        event_type=event_type,
        facts={"inboxId": row["id"], "tries": attempts, "error": error},
        now=now,
    )


def record_replay(session: Session, *, inbox_id: UUID, now: datetime) -> None:
    """Note that an event is dead no more, and resolve the alert with the last one of its type."""
    letter = _MARK_REPLAYED.first(session, inbox_id=inbox_id, now=now)
    if letter is not None:
        alerts.resolve_if_none_dead(session, **letter, now=now)


def record_failed_replay(session: Session, *, inbox_id: UUID, attempts: int, error: str) -> None:
    """Note that a dead event was tried once more and is as dead as before."""
    _UPDATE_FAILED_REPLAY.run(session, inbox_id=inbox_id, attempts=attempts, error=error)
