"""The outbox: work handed on in the transaction of its cause, run at least once, its effect exactly once."""

from collections.abc import Callable
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import Index, event, insert, text
from sqlalchemy.orm import Mapped, Session, mapped_column

from marketplace.infra.db import Base, CreatedAt, Id, Json, Statement


class OutboxEvent(Base):
    """Work that waits or was done. ``queue`` says which worker takes it, ``topic`` what is to be done."""

    __tablename__ = "outbox_events"
    __table_args__ = (Index("ix_outbox_events_due", "due_at", postgresql_where=text("done_at IS NULL")),)

    id: Mapped[Id]
    queue: Mapped[str]
    topic: Mapped[str]
    payload: Mapped[dict[str, Any]]
    created_at: Mapped[CreatedAt]
    due_at: Mapped[datetime]
    attempts: Mapped[int] = mapped_column(server_default=text("0"))
    last_error: Mapped[str | None]
    done_at: Mapped[datetime | None]


Nudge = Callable[[str, UUID], None]
_nudges: list[Nudge] = []

_ENQUEUE = Statement(
    insert(OutboxEvent).returning(OutboxEvent.id), columns=("queue", "topic", "payload", "due_at")
)


def set_nudge(nudge: Nudge) -> None:
    """This function will set what tells a queue, after the commit, that an event waits for it.

    :param nudge: takes the queue's name and the event's id; it must not raise. A nudge that is lost costs
        time alone: the relay's sweep takes up what is due.
    """
    _nudges[:] = [nudge]


def enqueue(session: Session, *, queue: str, topic: str, payload: dict[str, Any], due_at: datetime) -> UUID:
    """This function will hand on work: it is done if, and only if, this transaction commits.

    :param queue: the queue whose worker takes it
    :param topic: what is to be done; a task is registered for it
    :param payload: ids and scalars, no personal data
    :param due_at: not before this time
    :return: the event's id
    """
    row = _ENQUEUE.one(session, queue=queue, topic=topic, payload=Json(payload), due_at=due_at)
    event_id: UUID = row["id"]
    after_commit(session, lambda: [nudge(queue, event_id) for nudge in _nudges])
    return event_id


def after_commit(session: Session, action: Callable[[], Any]) -> None:
    """This function will run an action once the session's transaction has committed, and not otherwise."""
    pending: list[Callable[[], Any]] | None = session.info.get("after_commit")
    if pending is None:
        pending = session.info["after_commit"] = []
    pending.append(action)


@event.listens_for(Session, "after_commit")
def _run_after_commit(session: Session) -> None:
    # A released savepoint is no commit: what it holds may still be rolled back.
    if not session.in_nested_transaction():
        for action in session.info.pop("after_commit", ()):
            action()


@event.listens_for(Session, "after_rollback")
def _forget_after_commit(session: Session) -> None:
    session.info.pop("after_commit", None)
