"""The outbox: work handed on in the transaction of its cause, run at least once, its effect exactly once."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import structlog
from sqlalchemy import Index, event, insert, text
from sqlalchemy.orm import Mapped, Session, mapped_column

from marketplace.infra import wakeups
from marketplace.infra.db import Base, CreatedAt, Id, Json, Statement


class OutboxEvent(Base):
    """Work that waits or was done. ``queue`` says which worker takes it, ``topic`` what is to be done."""

    __tablename__ = "outbox_events"
    __table_args__ = (
        Index(
            "ix_outbox_events_due",
            "queue",
            "due_at",
            postgresql_include=["attempts"],
            postgresql_where=text("done_at IS NULL AND failed_at IS NULL"),
        ),
        Index(
            "ix_outbox_events_failed",
            "queue",
            "failed_at",
            postgresql_where=text("failed_at IS NOT NULL"),
        ),
        Index("ix_outbox_events_done", "done_at", postgresql_where=text("done_at IS NOT NULL")),
    )

    id: Mapped[Id]
    queue: Mapped[str]
    topic: Mapped[str]
    payload: Mapped[dict[str, Any]]
    created_at: Mapped[CreatedAt]
    due_at: Mapped[datetime]
    attempts: Mapped[int] = mapped_column(server_default=text("0"))
    last_error: Mapped[str | None]
    done_at: Mapped[datetime | None]
    failed_at: Mapped[datetime | None] = mapped_column(comment="Given up after the last try")


# A handler that fails is tried again after 10 s, 20 s, 40 s and so on, at last after 11 h 23 min: 22 h 45 min in all.
MAX_TRIES = 14
_FIRST_RETRY_DELAY = timedelta(seconds=10)

# What was done is of no more use then; what was given up may be asked about for longer.
RETENTION = timedelta(days=30)
FAILED_RETENTION = timedelta(days=365)

_log = structlog.get_logger(__name__)

Handler = Callable[[Session, dict[str, Any], datetime], None]


class RetryLaterError(Exception):
    """Work can't be tried just now, through no fault of its own: it is put off, which counts as no try."""

    def __init__(self, delay: timedelta) -> None:
        """Make one.

        :param delay: how long it is put off for; longer than before the first retry it never is
        """
        super().__init__()
        self.delay = min(delay, _FIRST_RETRY_DELAY)


_INSERT_EVENT = Statement(
    insert(OutboxEvent).returning(OutboxEvent.id), columns=("queue", "topic", "payload", "due_at")
)


def enqueue(session: Session, *, queue: str, topic: str, payload: dict[str, Any], due_at: datetime) -> UUID:
    """Hand on work: it is done if, and only if, this transaction commits.

    :param queue: the queue whose worker takes it
    :param topic: what is to be done; a task is registered for it
    :param payload: ids and scalars, no personal data
    :param due_at: not before this time, and within a second or two of it
    :return: the event's id
    """
    row = _INSERT_EVENT.one(session, queue=queue, topic=topic, payload=Json(payload), due_at=due_at)
    event_id: UUID = row["id"]
    after_commit(session, lambda: wakeups.send_wakeup(queue, wakeups.OUTBOX, event_id, due_at))
    return event_id


_SELECT_DUE_EVENT = Statement(
    text(
        """
        SELECT id, topic, payload FROM outbox_events
        WHERE id = :event_id AND done_at IS NULL AND failed_at IS NULL AND due_at <= :now
        """
    )
)
_LOCK_DUE_EVENT = Statement(
    text(
        """
        SELECT id, topic, payload FROM outbox_events
        WHERE id = :event_id AND done_at IS NULL AND failed_at IS NULL AND due_at <= :now
        FOR NO KEY UPDATE SKIP LOCKED
        """
    )
)
_MARK_DONE = Statement(
    text(
        "UPDATE outbox_events SET done_at = :now, attempts = attempts + 1, last_error = NULL WHERE id = :event_id"
    )
)
_UPDATE_FAILED_EVENT = Statement(
    text(
        """
        UPDATE outbox_events SET attempts = attempts + 1, last_error = :error,
            due_at = :now + :first * power(2, attempts) * :share,
            failed_at = CASE WHEN attempts + 1 >= :most THEN CAST(:now AS timestamptz) END
        WHERE id = :event_id AND done_at IS NULL AND failed_at IS NULL AND due_at <= :now
        RETURNING topic, attempts, due_at, failed_at
        """
    )
)
_SELECT_DUE_EVENT_IDS = Statement(
    text(
        """
        SELECT id FROM outbox_events
        WHERE queue = :queue AND done_at IS NULL AND failed_at IS NULL AND due_at <= :now
        ORDER BY due_at LIMIT :most
        """
    )
)
# It was not tried, so it has as many tries left as before.
_POSTPONE_EVENT = Statement(
    text(
        """
        UPDATE outbox_events SET due_at = :due_at, last_error = coalesce(last_error, :reason)
        WHERE id = :event_id AND done_at IS NULL AND failed_at IS NULL AND due_at <= :now
        RETURNING due_at
        """
    )
)


def list_due_events(session: Session, *, queue: str, now: datetime, limit: int) -> list[UUID]:
    """List a queue's events that are due, the longest waiting first."""
    return [row["id"] for row in _SELECT_DUE_EVENT_IDS.all(session, queue=queue, now=now, most=limit)]


@dataclass(frozen=True, slots=True)
class DueEvent:
    """An event that is due, as it was found; nobody holds it."""

    id: UUID
    topic: str
    payload: dict[str, Any]


def fetch_due_event(session: Session, *, event_id: UUID, now: datetime) -> DueEvent | None:
    """Look at an event without taking it.

    :return: the event, or none if it is done, given up or not due
    """
    row = _SELECT_DUE_EVENT.first(session, event_id=event_id, now=now)
    return DueEvent(**row) if row else None


def run_event(session: Session, *, event_id: UUID, handlers: Mapping[str, Handler], now: datetime) -> bool:
    """Do an event's work and mark it done, in one transaction.

    :param handlers: by topic; each takes the session, the payload and the time
    :return: whether there was something to do; somebody else may have it, or it is done or not due
    :raises KeyError: no handler knows its topic
    """
    row = _LOCK_DUE_EVENT.first(session, event_id=event_id, now=now)
    if row is None:
        return False
    handlers[row["topic"]](session, row["payload"], now)
    _MARK_DONE.run(session, event_id=event_id, now=now)
    return True


@dataclass(frozen=True, slots=True)
class FailedAttempt:
    """A try that failed, and when it is due again; none for one that was given up."""

    topic: str
    attempts: int
    due_at: datetime | None


def record_failure(
    session: Session, *, event_id: UUID, error: str, now: datetime, delay_factor: float = 1
) -> FailedAttempt | None:
    """Note that an event's work failed; a try that two workers failed at counts once.

    :param error: what is known of it, without personal data
    :param delay_factor: of the delay, at most all of it: what failed together need not be tried together
    :return: what is left of it; none if it is done, or the failure was noted by somebody else
    """
    row = _UPDATE_FAILED_EVENT.first(
        session,
        event_id=event_id,
        error=error,
        now=now,
        first=_FIRST_RETRY_DELAY,
        most=MAX_TRIES,
        share=delay_factor,
    )
    if row is None:
        return None
    return FailedAttempt(row["topic"], row["attempts"], row["due_at"] if row["failed_at"] is None else None)


def postpone_event(
    session: Session, *, event_id: UUID, reason: str, delay: timedelta, now: datetime
) -> datetime | None:
    """Put an event off that could not be tried.

    :param reason: what is shown until a try fails, or it is done
    :param delay: as a ``RetryLaterError`` has it
    :return: when it is due again; none if it is done, or was put off by somebody else
    """
    row = _POSTPONE_EVENT.first(session, event_id=event_id, reason=reason, due_at=now + delay, now=now)
    return row["due_at"] if row else None


_DELETE_OLD_EVENTS = Statement(
    text(
        """
        WITH done AS MATERIALIZED (
            SELECT id FROM outbox_events WHERE done_at <= :before
            ORDER BY done_at LIMIT :most FOR UPDATE SKIP LOCKED
        ), failed AS MATERIALIZED (
            SELECT id FROM outbox_events WHERE failed_at <= :failed_before LIMIT :most FOR UPDATE SKIP LOCKED
        )
        DELETE FROM outbox_events
        WHERE id IN (SELECT id FROM done UNION ALL SELECT id FROM failed LIMIT :most)
        """
    )
)


def purge_events(session: Session, *, now: datetime, limit: int) -> int:
    """Delete events whose time is up.

    :param limit: at most so many
    :return: how many they were
    """
    return _DELETE_OLD_EVENTS.run(
        session, before=now - RETENTION, failed_before=now - FAILED_RETENTION, most=limit
    )


def after_commit(session: Session, action: Callable[[], Any]) -> None:
    """Run an action once the session's transaction has committed, and not otherwise."""
    pending: list[Callable[[], Any]] | None = session.info.get("after_commit")
    if pending is None:
        pending = session.info["after_commit"] = []
    pending.append(action)


@event.listens_for(Session, "after_commit")
def _run_after_commit(session: Session) -> None:
    # A released savepoint is no commit: what it holds may still be rolled back.
    if not session.in_nested_transaction():
        for action in session.info.pop("after_commit", ()):
            try:
                action()
            except Exception:  # noqa: BLE001 - logged with its trace; what is committed must not be called failed
                _log.exception("after-commit action failed")


@event.listens_for(Session, "after_rollback")
def _discard_after_commit(session: Session) -> None:
    session.info.pop("after_commit", None)
