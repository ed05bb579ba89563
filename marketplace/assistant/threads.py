"""Threads: the stored conversations of a person. Private values are replaced before a message is stored."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from sqlalchemy import Select, delete, func, select, text, tuple_
from sqlalchemy.orm import Session

from marketplace.assistant.models import AssistantMessage, AssistantThread
from marketplace.assistant.privacy import clean, protect
from marketplace.infra import outbox
from marketplace.infra.sql.statements import Statement
from marketplace.kernel import queues
from marketplace.kernel.clock import iso
from marketplace.kernel.errors import found
from marketplace.kernel.paging import Page, PageRequest, page_of

SUMMARY_DUE_TOPIC = "assistant.thread-summary-due"
MAX_MESSAGE_LENGTH = 4_000
# A thread with more messages or characters after its summary is due for the next summary.
SUMMARY_AFTER_MESSAGES = 24
SUMMARY_AFTER_CHARACTERS = 16_000
# A shorter thread has nothing to summarise, because the latest messages stay.
_MIN_SUMMARIZED_MESSAGES = 8
# If summaries fail for long, the model gets the latest messages only.
_MAX_HISTORY_MESSAGES = 80
FLAG_REASONS = ("wrong", "harmful", "privacy", "other")
Role = Literal["user", "assistant"]


@dataclass(frozen=True)
class NewThreadMessage:
    """A message of a request. ``pictures`` are data URLs, which are not stored."""

    role: Role
    content: str
    pictures: Sequence[str] = ()


@dataclass(frozen=True)
class StoredMessage:
    """A message of a thread, without private values."""

    number: int
    role: str
    body: str
    picture_count: int
    is_complete: bool
    created_at: datetime


@dataclass(frozen=True)
class _ThreadRow:
    id: UUID
    earlier_count: int
    summarized_count: int
    summary: str | None
    commit_mode: str


@dataclass(frozen=True)
class Turn:
    """A question that was added to a thread, with the earlier messages.

    :ivar next_number: the number of the answer
    :ivar summary: the summary of messages before ``history``
    :ivar new: the messages of this request, without private values
    """

    thread_id: UUID
    next_number: int
    summary: str | None
    history: Sequence[StoredMessage]
    new: Sequence[NewThreadMessage]


_NEW_MESSAGES_SQL = """unnest(CAST(:roles AS text[]), CAST(:bodies AS text[]), CAST(:pictures AS bigint[]))
    WITH ORDINALITY AS m (role, body, pictures, position)"""
# The answer does not wait for the disk: a crash of the database may lose a question.
_START_THREAD = Statement(
    text(
        f"""
        WITH t AS (
            INSERT INTO assistant_threads (user_id, message_count, last_message_at, created_at)
            VALUES (:user_id, :count, :now, :now) RETURNING id
        ), i AS (
            INSERT INTO assistant_messages (thread_id, number, role, body, picture_count, created_at)
            SELECT t.id, m.position, m.role, m.body, m.pictures, :now FROM t, {_NEW_MESSAGES_SQL}
        )
        SELECT id, 0 AS earlier_count, 0 AS summarized_count, NULL AS summary,
            set_config('synchronous_commit', 'off', true) AS commit_mode FROM t
        """
    ),
    row=_ThreadRow,
)
_CONTINUE_THREAD = Statement(
    text(
        f"""
        WITH t AS (
            UPDATE assistant_threads SET message_count = message_count + :count, last_message_at = :now
            WHERE id = :thread_id AND user_id = :user_id
            RETURNING id, message_count - :count AS earlier_count, summarized_count, thread_summary AS summary
        ), i AS (
            INSERT INTO assistant_messages (thread_id, number, role, body, picture_count, created_at)
            SELECT t.id, t.earlier_count + m.position, m.role, m.body, m.pictures, :now FROM t, {_NEW_MESSAGES_SQL}
        )
        SELECT id, earlier_count, summarized_count, summary,
            set_config('synchronous_commit', 'off', true) AS commit_mode FROM t
        """
    ),
    row=_ThreadRow,
)


def start_turn(
    session: Session,
    *,
    user_id: UUID,
    thread_id: UUID | None,
    messages: Sequence[NewThreadMessage],
    now: datetime,
) -> Turn:
    """Add the messages of a request to a thread, or to a new thread.

    An existing thread has the earlier messages already. Of the request, only the messages after the last message of
    the assistant are new.

    :raises NotFoundError: the thread does not exist, or belongs to another person
    """
    new = [
        NewThreadMessage(
            message.role, clean(message.content, max_length=MAX_MESSAGE_LENGTH), message.pictures
        )
        for message in (messages if thread_id is None else _messages_after_answer(messages))
    ]
    values = {
        "user_id": user_id,
        "count": len(new),
        "roles": [message.role for message in new],
        "bodies": [message.content for message in new],
        "pictures": [len(message.pictures) for message in new],
        "now": now,
    }
    if thread_id is None:
        thread, history = _START_THREAD.one(session, **values), []
    else:
        thread = found(_CONTINUE_THREAD.first(session, thread_id=thread_id, **values), "Thread not found.")
        history = list_history(
            session, thread_id=thread_id, after=thread.summarized_count, limit=thread.earlier_count
        )
    return Turn(thread.id, thread.earlier_count + len(new) + 1, thread.summary, history, new)


def _messages_after_answer(messages: Sequence[NewThreadMessage]) -> Sequence[NewThreadMessage]:
    last = max((i for i, message in enumerate(messages) if message.role == "assistant"), default=-1)
    return messages[last + 1 :]


# The condition on the count makes a repeated call harmless.
_ADD_ANSWER = Statement(
    text(
        """
        WITH t AS (
            UPDATE assistant_threads SET message_count = :number, last_message_at = :now
            WHERE id = :thread_id AND user_id = :user_id AND message_count = :number - 1
            RETURNING id, summarized_count
        ), i AS (
            INSERT INTO assistant_messages (thread_id, number, role, body, is_complete, created_at)
            SELECT id, :number, 'assistant', :body, :is_complete, :now FROM t
        )
        SELECT summarized_count FROM t
        """
    )
)


def add_answer(
    session: Session,
    *,
    user_id: UUID,
    thread_id: UUID,
    number: int,
    body: str,
    is_complete: bool,
    now: datetime,
) -> None:
    """Add an answer to a thread, and enqueue a summary of a long thread.

    A deleted thread gets no answer. A repeated call changes nothing.

    :param number: the answer's number in the thread
    """
    added = _ADD_ANSWER.first(
        session,
        user_id=user_id,
        thread_id=thread_id,
        number=number,
        body=body,
        is_complete=is_complete,
        now=now,
    )
    if added is None:
        return
    counted = added["summarized_count"]
    if _is_summary_due(session, thread_id, counted=counted, number=number):
        outbox.enqueue(
            session,
            queue=queues.AI_MODERATION,
            topic=SUMMARY_DUE_TOPIC,
            payload={"threadId": str(thread_id)},
            due_at=now,
        )


def _is_summary_due(session: Session, thread_id: UUID, *, counted: int, number: int) -> bool:
    if number - counted > SUMMARY_AFTER_MESSAGES:
        return True
    if number - counted <= _MIN_SUMMARIZED_MESSAGES:
        return False
    length = session.scalar(
        select(func.sum(func.length(AssistantMessage.body))).where(
            AssistantMessage.thread_id == thread_id, AssistantMessage.number > counted
        )
    )
    return bool(length and length > SUMMARY_AFTER_CHARACTERS)


def list_history(session: Session, *, thread_id: UUID, after: int, limit: int) -> list[StoredMessage]:
    """List the messages between two numbers, oldest first.

    :param after: the number of the last message in the summary
    :param limit: the number of the last message
    """
    rows = session.execute(
        _select_messages(thread_id)
        .where(AssistantMessage.number > after, AssistantMessage.number <= limit)
        .order_by(AssistantMessage.number.desc())
        .limit(_MAX_HISTORY_MESSAGES)
    )
    return [StoredMessage(*row) for row in rows][::-1]


def list_threads(session: Session, *, user_id: UUID, page: PageRequest) -> Page:
    """List the threads of a person, the latest message first."""
    query = select(AssistantThread).where(AssistantThread.user_id == user_id)
    at, thread_id = page.after("time", "id")
    if at is not None:
        query = query.where(tuple_(AssistantThread.last_message_at, AssistantThread.id) < (at, thread_id))
    rows = session.scalars(
        query.order_by(AssistantThread.last_message_at.desc(), AssistantThread.id.desc()).limit(
            page.limit + 1
        )
    ).all()
    return page_of(
        list(rows),
        request=page,
        position_of=lambda thread: [iso(thread.last_message_at), str(thread.id)],
    )


def list_messages(session: Session, *, thread_id: UUID, user_id: UUID, page: PageRequest) -> Page:
    """List the messages of a person's thread, the latest first.

    :raises NotFoundError: the thread does not exist, or belongs to another person
    """
    found(session.scalar(_own_thread(thread_id, user_id)), "Thread not found.")
    return list_messages_of(session, thread_id=thread_id, page=page)


def list_messages_of(session: Session, *, thread_id: UUID, page: PageRequest) -> Page:
    """List the messages of a thread, the latest first. The caller has checked the rights."""
    query = _select_messages(thread_id)
    [before] = page.after("number")
    if before is not None:
        query = query.where(AssistantMessage.number < before)
    rows = session.execute(query.order_by(AssistantMessage.number.desc()).limit(page.limit + 1))
    return page_of(
        [StoredMessage(*row) for row in rows],
        request=page,
        position_of=lambda message: [message.number],
    )


def read_first_messages(
    session: Session, *, thread_id: UUID, user_id: UUID, limit: int
) -> list[StoredMessage]:
    """Read the first messages of a person's thread.

    :raises NotFoundError: the thread does not exist, or belongs to another person
    """
    found(session.scalar(_own_thread(thread_id, user_id)), "Thread not found.")
    rows = session.execute(_select_messages(thread_id).order_by(AssistantMessage.number).limit(limit))
    return [StoredMessage(*row) for row in rows]


def set_title(session: Session, *, thread_id: UUID, user_id: UUID, title: str) -> None:
    """Store the title of a person's thread.

    :raises NotFoundError: the thread was deleted
    """
    _lock_thread(session, thread_id=thread_id, user_id=user_id).thread_title = title


def delete_thread(session: Session, *, thread_id: UUID, user_id: UUID) -> None:
    """Delete a thread with all messages, also if the thread is flagged.

    :raises NotFoundError: the thread does not exist, or belongs to another person
    """
    thread = _lock_thread(session, thread_id=thread_id, user_id=user_id)
    session.execute(delete(AssistantMessage).where(AssistantMessage.thread_id == thread.id))
    session.delete(thread)


def flag_thread(
    session: Session,
    *,
    thread_id: UUID,
    user_id: UUID,
    reason: str,
    details: str | None,
    now: datetime,
) -> AssistantThread:
    """Flag a thread for the staff, who then may read its messages. A later flag replaces an earlier one.

    :param reason: one of ``FLAG_REASONS``
    :raises NotFoundError: the thread does not exist, or belongs to another person
    """
    thread = _lock_thread(session, thread_id=thread_id, user_id=user_id)
    thread.flagged_at = now
    thread.flag_reason = reason
    thread.flag_details = protect(details) if details else None
    thread.reviewed_at = thread.reviewed_by_id = None
    return thread


def _lock_thread(session: Session, *, thread_id: UUID, user_id: UUID) -> AssistantThread:
    return found(session.scalar(_own_thread(thread_id, user_id).with_for_update()), "Thread not found.")


def _own_thread(thread_id: UUID, user_id: UUID) -> Select[AssistantThread]:
    return select(AssistantThread).where(AssistantThread.id == thread_id, AssistantThread.user_id == user_id)


def _select_messages(thread_id: UUID) -> Select[*tuple[Any, ...]]:
    return select(*(getattr(AssistantMessage, name) for name in StoredMessage.__dataclass_fields__)).where(
        AssistantMessage.thread_id == thread_id
    )
