"""Tables of the assistant: threads, messages, usage, people who opted out, and evaluations."""

from datetime import date, datetime
from typing import Any
from uuid import UUID

from sqlalchemy import CheckConstraint, ForeignKey, Index, text
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import Mapped, mapped_column

from marketplace.infra.db import Base, Entity


class AssistantThread(Entity):
    """A conversation of a person with the assistant. The row is locked while messages are added."""

    __tablename__ = "assistant_threads"
    __table_args__ = (
        CheckConstraint("summarized_count BETWEEN 0 AND message_count", name="counts"),
        CheckConstraint("(thread_summary IS NULL) = (summarized_count = 0)", name="summary"),
        CheckConstraint("flag_reason IN ('wrong', 'harmful', 'privacy', 'other')", name="flag_reason"),
        CheckConstraint("(flagged_at IS NULL) = (flag_reason IS NULL)", name="flag"),
        CheckConstraint("(reviewed_at IS NULL) = (reviewed_by_id IS NULL)", name="review"),
        Index("ix_assistant_threads_user", "user_id", text("last_message_at DESC"), text("id DESC")),
        Index(
            "ix_assistant_threads_flagged",
            text("flagged_at DESC"),
            text("id DESC"),
            postgresql_where=text("flagged_at IS NOT NULL"),
        ),
    )

    user_id: Mapped[UUID] = mapped_column(ForeignKey("profiles.id"))
    thread_title: Mapped[str | None] = mapped_column(info={"personal": "message"})
    message_count: Mapped[int] = mapped_column(server_default=text("0"))
    thread_summary: Mapped[str | None] = mapped_column(
        info={"personal": "message"}, comment="Summary of the first messages"
    )
    summarized_count: Mapped[int] = mapped_column(server_default=text("0"))
    last_message_at: Mapped[datetime]
    flagged_at: Mapped[datetime | None]
    flag_reason: Mapped[str | None]
    flag_details: Mapped[str | None] = mapped_column(info={"personal": "message"})
    reviewed_at: Mapped[datetime | None]
    reviewed_by_id: Mapped[UUID | None] = mapped_column(ForeignKey("profiles.id"))
    created_at: Mapped[datetime]


class AssistantMessage(Base):
    """A message of a thread. Messages count from 1 within the thread. Pictures are counted and not stored."""

    __tablename__ = "assistant_messages"
    __table_args__ = (
        CheckConstraint("role IN ('user', 'assistant')", name="role"),
        CheckConstraint("number > 0 AND picture_count BETWEEN 0 AND 4", name="numbers"),
    )

    thread_id: Mapped[UUID] = mapped_column(ForeignKey("assistant_threads.id"), primary_key=True)
    number: Mapped[int] = mapped_column(primary_key=True)
    role: Mapped[str]
    body: Mapped[str] = mapped_column(info={"personal": "message"})
    picture_count: Mapped[int] = mapped_column(server_default=text("0"))
    is_complete: Mapped[bool] = mapped_column(
        server_default=text("true"), comment="False for an answer that was interrupted"
    )
    created_at: Mapped[datetime]


class AssistantOptOut(Base):
    """A person whose data must not reach the language model."""

    __tablename__ = "assistant_opt_outs"

    user_id: Mapped[UUID] = mapped_column(ForeignKey("profiles.id"), primary_key=True)
    created_at: Mapped[datetime]


class AssistantUsage(Base):
    """The calls of the language model for a person on a day in Nigeria, by purpose."""

    __tablename__ = "assistant_usage"
    __table_args__ = (
        CheckConstraint(
            "purpose IN ('session_title', 'support_reply', 'conversation', 'thread_summary')", name="purpose"
        ),
        CheckConstraint(
            "least(calls, prompt_tokens, completion_tokens, cost_micros) >= 0", name="not_negative"
        ),
        Index("ix_assistant_usage_day", "day"),
    )

    user_id: Mapped[UUID] = mapped_column(ForeignKey("profiles.id"), primary_key=True)
    day: Mapped[date] = mapped_column(primary_key=True)
    purpose: Mapped[str] = mapped_column(primary_key=True)
    calls: Mapped[int] = mapped_column(server_default=text("0"))
    prompt_tokens: Mapped[int] = mapped_column(server_default=text("0"))
    completion_tokens: Mapped[int] = mapped_column(server_default=text("0"))
    cost_micros: Mapped[int] = mapped_column(
        server_default=text("0"), comment="Millionths of a US dollar, by the prices at the time of the call"
    )


class AssistantEvaluation(Entity):
    """The scores of an evaluation run."""

    __tablename__ = "assistant_evaluations"
    __table_args__ = (
        CheckConstraint("right_count BETWEEN 0 AND question_count AND question_count > 0", name="counts"),
        Index("ix_assistant_evaluations_created", "created_at"),
    )

    model: Mapped[str]
    prompt_version: Mapped[str]
    question_count: Mapped[int]
    right_count: Mapped[int]
    scores: Mapped[list[dict[str, Any]]] = mapped_column(
        JSONB, comment="Right answers and questions by intent"
    )
    created_at: Mapped[datetime]
