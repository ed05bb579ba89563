"""Table of the assistant's usage."""

from datetime import date
from uuid import UUID

from sqlalchemy import CheckConstraint, ForeignKey, Index, text
from sqlalchemy.orm import Mapped, mapped_column

from marketplace.infra.db import Base


class AssistantUsage(Base):
    """The calls of the language model for a person on a day in Nigeria, by purpose."""

    __tablename__ = "assistant_usage"
    __table_args__ = (
        CheckConstraint("purpose IN ('session_title', 'support_reply')", name="purpose"),
        CheckConstraint("least(calls, prompt_tokens, completion_tokens) >= 0", name="not_negative"),
        Index("ix_assistant_usage_day", "day"),
    )

    user_id: Mapped[UUID] = mapped_column(ForeignKey("profiles.id"), primary_key=True)
    day: Mapped[date] = mapped_column(primary_key=True)
    purpose: Mapped[str] = mapped_column(primary_key=True)
    calls: Mapped[int] = mapped_column(server_default=text("0"))
    prompt_tokens: Mapped[int] = mapped_column(server_default=text("0"))
    completion_tokens: Mapped[int] = mapped_column(server_default=text("0"))
