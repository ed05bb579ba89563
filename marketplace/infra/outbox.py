"""The outbox: background work, enqueued in the same transaction as its cause.

A handler runs at least once, and its changes in the database commit exactly once.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Protocol
from uuid import UUID

import structlog
from sqlalchemy import ColumnElement, Index, Select, event, insert, select, text
from sqlalchemy.orm import Mapped, Session, mapped_column

from marketplace.infra import wakeups
from marketplace.infra.db import CreatedAt, Entity
from marketplace.infra.sql.statements import Json, Statement


class OutboxEvent(Entity):
    """An event of the outbox, pending or done. ``queue`` selects the worker and ``topic`` the handler."""

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

    queue: Mapped[str]
    topic: Mapped[str]
    payload: Mapped[dict[str, Any]]
    created_at: Mapped[CreatedAt]
    due_at: Mapped[datetime]
    attempts: Mapped[int] = mapped_column(server_default=text("0"))
    last_error: Mapped[str | None]
    done_at: Mapped[datetime | None]
    failed_at: Mapped[datetime | None] = mapped_column(comment="Set after the last failed attempt")


# Retries follow after 10 s, 20 s, 40 s and so on. The last delay is 11 h 23 min, and the total is 22 h 45 min.
MAX_TRIES = 14
_FIRST_RETRY_DELAY = timedelta(seconds=10)

# Failed events are kept longer than done events for later investigations.
RETENTION = timedelta(days=30)
FAILED_RETENTION = timedelta(days=365)

_log = structlog.get_logger(__name__)

Handler = Callable[[Session, dict[str, Any], datetime], None]


class LastPhase(Protocol):
    """The last phase of work that calls a provider, in the transaction that marks the event as done."""

    def __call__(self, session: Session, *, now: datetime) -> object:
        """Apply the result of the call."""


class RetryLaterError(Exception):
    """A temporary condition prevents the attempt, so the event is postponed. This does not count as an attempt."""

    def __init__(self, delay: timedelta) -> None:
        """Create the error.

        :param delay: the time until the next attempt, capped at the delay of the first retry (10 s)
        """
        super().__init__()
        self.delay = min(delay, _FIRST_RETRY_DELAY)


_INSERT_EVENT = Statement(
    insert(OutboxEvent).returning(OutboxEvent.id), columns=("queue", "topic", "payload", "due_at")
)


def enqueue(session: Session, *, queue: str, topic: str, payload: dict[str, Any], due_at: datetime) -> UUID:
    """Enqueue work that runs if, and only if, this transaction commits.

    :param topic: the name of a registered task
    :param payload: ids and scalars, no personal data
    :param due_at: the earliest start; the work usually starts within two seconds of this time
    :return: the event's id
    """
    event_id: UUID = _INSERT_EVENT.scalar(
        session, queue=queue, topic=topic, payload=Json(payload), due_at=due_at
    )
    after_commit(session, lambda: wakeups.send_wakeup(queue, wakeups.OUTBOX, event_id, due_at))
    return event_id


def list_due_events(session: Session, *, queue: str, now: datetime, limit: int) -> Sequence[UUID]:
    """List the ids of a queue's due events, oldest due time first."""
    return session.scalars(_select_due_event_ids(queue, now, limit)).all()


def _select_due_event_ids(queue: str, now: datetime, limit: int) -> Select[UUID]:
    return (
        select(OutboxEvent.id)
        .where(OutboxEvent.queue == queue, *_is_due(now))
        .order_by(OutboxEvent.due_at)
        .limit(limit)
    )


def fetch_due_event(session: Session, *, event_id: UUID, now: datetime) -> OutboxEvent | None:
    """Fetch an event without a lock.

    :return: none if the event is done, failed or not due
    """
    return session.scalar(select(OutboxEvent).where(OutboxEvent.id == event_id, *_is_due(now)))


def run_event(session: Session, *, event_id: UUID, handlers: Mapping[str, Handler], now: datetime) -> bool:
    """Run the handler of an event and mark the event as done, in one transaction.

    :param handlers: handlers by topic
    :return: false if another worker has the event, or the event is done, failed or not due
    :raises KeyError: the topic has no handler
    """
    due_event = _lock_due_event(session, event_id, now=now, skip_locked=True)
    if due_event is None:
        return False
    handlers[due_event.topic](session, due_event.payload, now)
    due_event.done_at, due_event.last_error = now, None
    due_event.attempts += 1
    return True


def _lock_due_event(
    session: Session, event_id: UUID, *, now: datetime, skip_locked: bool = False
) -> OutboxEvent | None:
    return session.scalar(
        select(OutboxEvent)
        .where(OutboxEvent.id == event_id, *_is_due(now))
        .with_for_update(key_share=True, skip_locked=skip_locked),
        execution_options={"populate_existing": True},
    )


def _is_due(now: datetime) -> tuple[ColumnElement[bool], ...]:
    return OutboxEvent.done_at.is_(None), OutboxEvent.failed_at.is_(None), OutboxEvent.due_at <= now


@dataclass(frozen=True, slots=True)
class FailedAttempt:
    """A failed attempt of an event. ``due_at`` is the next attempt, or none after the last attempt."""

    topic: str
    attempts: int
    due_at: datetime | None


def record_failure(
    session: Session, *, event_id: UUID, error: str, now: datetime, delay_factor: float = 1
) -> FailedAttempt | None:
    """Record a failed attempt of an event. An attempt that failed in two workers counts once.

    :param error: a description of the error without personal data
    :param delay_factor: a factor of the delay, at most 1, that spreads the retries of events that failed together
    :return: none if the event is done, or another worker recorded the failure
    """
    failed = _lock_due_event(session, event_id, now=now)
    if failed is None:
        return None
    failed.due_at = now + _FIRST_RETRY_DELAY * 2**failed.attempts * delay_factor
    failed.attempts += 1
    failed.last_error = error
    failed.failed_at = now if failed.attempts >= MAX_TRIES else None
    return FailedAttempt(failed.topic, failed.attempts, None if failed.failed_at else failed.due_at)


def postpone_event(
    session: Session, *, event_id: UUID, reason: str, delay: timedelta, now: datetime
) -> datetime | None:
    """Postpone an event without counting an attempt.

    :param reason: recorded as the event's last error unless an earlier attempt left an error
    :param delay: the delay of a ``RetryLaterError``
    :return: the new due time; none if the event is done, or another worker postponed the event
    """
    postponed = _lock_due_event(session, event_id, now=now)
    if postponed is None:
        return None
    postponed.due_at, postponed.last_error = now + delay, postponed.last_error or reason
    return postponed.due_at


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
    """Delete at most ``limit`` events after their retention period, and return the number of deleted events."""
    return _DELETE_OLD_EVENTS.run(
        session, before=now - RETENTION, failed_before=now - FAILED_RETENTION, most=limit
    )


def after_commit(session: Session, action: Callable[[], Any]) -> None:
    """Run an action after the session's transaction commits. A rollback discards the action."""
    pending: list[Callable[[], Any]] | None = session.info.get("after_commit")
    if pending is None:
        pending = session.info["after_commit"] = []
    pending.append(action)


@event.listens_for(Session, "after_commit")
def _run_after_commit(session: Session) -> None:
    # A released savepoint is not a commit, because the outer transaction can still roll back.
    if not session.in_nested_transaction():
        for action in session.info.pop("after_commit", ()):
            try:
                action()
            except Exception:  # noqa: BLE001 - logged with the traceback; the transaction has committed
                _log.exception("after-commit action failed")


@event.listens_for(Session, "after_rollback")
def _discard_after_commit(session: Session) -> None:
    session.info.pop("after_commit", None)
