"""The assistant for staff: usage and cost, flagged threads, and the scores of evaluations."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any
from uuid import UUID

from sqlalchemy import select, text, tuple_
from sqlalchemy.orm import Session

from marketplace.assistant import texts
from marketplace.assistant.models import AssistantEvaluation, AssistantThread
from marketplace.assistant.threads import list_messages_of
from marketplace.audit.operations import Act, record_audit_entry
from marketplace.identity.models import Profile
from marketplace.infra.sql.statements import Statement
from marketplace.kernel.clock import iso
from marketplace.kernel.errors import ConflictError, InvalidParam, ValidationError, found
from marketplace.kernel.opening_hours import LAGOS
from marketplace.kernel.paging import Page, PageRequest, page_of

DEFAULT_DAYS = 30
MAX_DAYS = 92
EVALUATIONS_SHOWN = 20


class ThreadReviewedError(ConflictError):
    """Another member of staff has reviewed the thread."""

    reason = "thread-reviewed"


@dataclass(frozen=True)
class Period:
    """Days in Nigeria, both included."""

    first: date
    last: date

    @classmethod
    def parse(cls, first: date | None, last: date | None, *, now: datetime) -> "Period":
        """Complete a requested period: by default the last 30 days.

        :raises ValidationError: the days are in the wrong order, or too many
        """
        end = last or now.astimezone(LAGOS).date()
        begin = first or end - timedelta(days=DEFAULT_DAYS - 1)
        if not 0 <= (end - begin).days < MAX_DAYS:
            reason = texts.INVALID_PERIOD.format(days=MAX_DAYS)
            raise ValidationError(f"from: {reason}", invalid_params=[InvalidParam("from", reason)])
        return cls(begin, end)


@dataclass(frozen=True)
class DailyUsage:
    """The use of the language model on a day, by purpose."""

    day: date
    purpose: str
    people: int
    calls: int
    prompt_tokens: int
    completion_tokens: int
    cost_micros: int


_SELECT_DAILY_USAGE = Statement(
    text(
        """
        SELECT u.day, u.purpose, count(*) AS people, CAST(sum(u.calls) AS bigint) AS calls,
            CAST(sum(u.prompt_tokens) AS bigint) AS prompt_tokens,
            CAST(sum(u.completion_tokens) AS bigint) AS completion_tokens,
            CAST(sum(u.cost_micros) AS bigint) AS cost_micros
        FROM assistant_usage u WHERE u.day BETWEEN :first_day AND :last_day
        GROUP BY u.day, u.purpose ORDER BY u.day DESC, u.purpose
        """
    ),
    row=DailyUsage,
)


def list_daily_usage(session: Session, *, period: Period) -> Sequence[DailyUsage]:
    """List the usage of all people by day and purpose, the latest day first."""
    return _SELECT_DAILY_USAGE.all(session, first_day=period.first, last_day=period.last)


@dataclass(frozen=True)
class PersonUsage:
    """The use of the language model by a person within a period."""

    user_id: UUID
    name: str | None
    calls: int
    prompt_tokens: int
    completion_tokens: int
    cost_micros: int


_SELECT_PEOPLE = Statement(
    text(
        """
        SELECT s.user_id, p.name, s.calls, s.prompt_tokens, s.completion_tokens, s.cost_micros
        FROM (
            SELECT u.user_id, CAST(sum(u.calls) AS bigint) AS calls,
                CAST(sum(u.prompt_tokens) AS bigint) AS prompt_tokens,
                CAST(sum(u.completion_tokens) AS bigint) AS completion_tokens,
                CAST(sum(u.cost_micros) AS bigint) AS cost_micros
            FROM assistant_usage u WHERE u.day BETWEEN :first_day AND :last_day GROUP BY u.user_id
        ) s JOIN profiles p ON p.id = s.user_id
        WHERE CAST(:after_cost AS bigint) IS NULL
            OR (s.cost_micros, s.user_id) < (CAST(:after_cost AS bigint), CAST(:after_id AS uuid))
        ORDER BY s.cost_micros DESC, s.user_id DESC LIMIT :limit
        """
    ),
    row=PersonUsage,
)


def list_usage_by_person(session: Session, *, period: Period, page: PageRequest) -> Page:
    """List the people who used the language model within a period, the highest cost first."""
    after_cost, after_id = page.after("number", "id")
    rows = _SELECT_PEOPLE.all(
        session,
        first_day=period.first,
        last_day=period.last,
        after_cost=after_cost,
        after_id=after_id,
        limit=page.limit + 1,
    )
    return page_of(rows, request=page, position_of=lambda row: [row.cost_micros, str(row.user_id)])


@dataclass(frozen=True)
class FlaggedThread:
    """A thread that a person flagged, without its messages."""

    id: UUID
    user_id: UUID
    user_name: str | None
    title: str | None
    message_count: int
    flag_reason: str
    flag_details: str | None
    flagged_at: datetime
    reviewed_at: datetime | None


_FLAGGED_COLUMNS = (
    AssistantThread.id,
    AssistantThread.user_id,
    Profile.name.label("user_name"),
    AssistantThread.thread_title,
    AssistantThread.message_count,
    AssistantThread.flag_reason,
    AssistantThread.flag_details,
    AssistantThread.flagged_at,
    AssistantThread.reviewed_at,
)


def list_flagged_threads(session: Session, *, reviewed: bool | None, page: PageRequest) -> Page:
    """List the flagged threads, the latest flag first.

    :param reviewed: only reviewed threads, or only threads that wait for a review; none for both
    """
    query = _select_flagged()
    at, thread_id = page.after("time", "id")
    if at is not None:
        query = query.where(tuple_(AssistantThread.flagged_at, AssistantThread.id) < (at, thread_id))
    if reviewed is not None:
        query = query.where(AssistantThread.reviewed_at.is_not(None) == reviewed)
    rows = session.execute(
        query.order_by(AssistantThread.flagged_at.desc(), AssistantThread.id.desc()).limit(page.limit + 1)
    )
    return page_of(
        [FlaggedThread(*row) for row in rows],
        request=page,
        position_of=lambda thread: [iso(thread.flagged_at), str(thread.id)],
    )


def list_flagged_messages(session: Session, *, thread_id: UUID, page: PageRequest) -> Page:
    """List the messages of a flagged thread, the latest first. Other threads are private.

    :raises NotFoundError: the thread does not exist, or no flag allows staff to read it
    """
    found(session.execute(_select_flagged(thread_id)).first(), "Thread not found.")
    return list_messages_of(session, thread_id=thread_id, page=page)


def review_flagged_thread(session: Session, *, thread_id: UUID, act: Act) -> FlaggedThread:
    """Mark a flagged thread as reviewed, and record the review in the audit trail.

    :raises NotFoundError: the thread does not exist, or is not flagged
    :raises ThreadReviewedError: the thread was reviewed already
    """
    thread = found(
        session.scalar(
            select(AssistantThread)
            .where(AssistantThread.id == thread_id, AssistantThread.flagged_at.is_not(None))
            .with_for_update()
        ),
        "Thread not found.",
    )
    if thread.reviewed_at is not None:
        raise ThreadReviewedError(texts.ALREADY_REVIEWED)
    thread.reviewed_at, thread.reviewed_by_id = act.now, act.user_id
    session.flush()
    record_audit_entry(
        session,
        act=act,
        action="assistant_thread.reviewed",
        target_type="assistant_thread",
        target_id=str(thread.id),
        after={"reason": thread.flag_reason},
    )
    return FlaggedThread(*session.execute(_select_flagged(thread_id)).one())


def _select_flagged(thread_id: UUID | None = None) -> Any:
    query = (
        select(*_FLAGGED_COLUMNS)
        .join(Profile, Profile.id == AssistantThread.user_id)
        .where(AssistantThread.flagged_at.is_not(None))
    )
    return query if thread_id is None else query.where(AssistantThread.id == thread_id)


def record_evaluation(
    session: Session,
    *,
    model: str,
    prompt_version: str,
    scores: Sequence[dict[str, Any]],
    now: datetime,
) -> None:
    """Store the scores of an evaluation.

    :param scores: ``intent``, ``right`` and ``questions`` for each intent
    """
    session.add(
        AssistantEvaluation(
            model=model,
            prompt_version=prompt_version,
            question_count=sum(score["questions"] for score in scores),
            right_count=sum(score["right"] for score in scores),
            scores=list(scores),
            created_at=now,
        )
    )


def list_evaluations(session: Session) -> Sequence[AssistantEvaluation]:
    """List the latest evaluations, the latest first."""
    return session.scalars(
        select(AssistantEvaluation).order_by(AssistantEvaluation.created_at.desc()).limit(EVALUATIONS_SHOWN)
    ).all()
