"""The daily budget of a person for the language model, and the record of its use."""

from datetime import date, datetime, time, timedelta
from typing import Literal
from uuid import UUID

from sqlalchemy import func, select, text
from sqlalchemy.orm import Session

from marketplace.assistant import texts
from marketplace.assistant.models import AssistantUsage
from marketplace.infra.sql.statements import Statement
from marketplace.kernel.errors import RateLimitError
from marketplace.kernel.opening_hours import LAGOS
from marketplace.platform import features
from marketplace.platform.queries import fetch_platform_settings
from marketplace.providers.language_model import Completion

Purpose = Literal["session_title", "support_reply"]


class AssistantBudgetError(RateLimitError):
    """The person has used the language model's daily budget."""

    reason = "assistant-budget-spent"


def ensure_may_use(session: Session, *, user_id: UUID, daily_tokens: int, now: datetime) -> None:
    """Check that the assistant is on, and that a person has tokens left today.

    A call that is in progress may exceed the budget once.

    :param daily_tokens: the budget of a person, of prompts and answers together
    :raises FeatureUnavailableError: the assistant is switched off
    :raises AssistantBudgetError: the budget of today is spent
    """
    features.ensure_feature_on(fetch_platform_settings(session), features.ASSISTANT, now=now)
    used = session.scalar(
        select(func.sum(AssistantUsage.prompt_tokens + AssistantUsage.completion_tokens)).where(
            AssistantUsage.user_id == user_id, AssistantUsage.day == _day(now)
        )
    )
    if (used or 0) >= daily_tokens:
        midnight = datetime.combine(_day(now) + timedelta(days=1), time(), LAGOS)
        raise AssistantBudgetError(
            texts.BUDGET_SPENT, retry_after_seconds=int((midnight - now).total_seconds()) + 1
        )


_ADD_USAGE = Statement(
    text(
        """
        INSERT INTO assistant_usage AS u (user_id, day, purpose, calls, prompt_tokens, completion_tokens)
        VALUES (:user_id, :day, :purpose, 1, :prompt_tokens, :completion_tokens)
        ON CONFLICT (user_id, day, purpose) DO UPDATE SET calls = u.calls + 1,
            prompt_tokens = u.prompt_tokens + excluded.prompt_tokens,
            completion_tokens = u.completion_tokens + excluded.completion_tokens
        """
    )
)


def record_usage(
    session: Session, *, user_id: UUID, purpose: Purpose, completion: Completion, now: datetime
) -> None:
    """Record a call of the language model. A provider that counts no tokens counts as none."""
    _ADD_USAGE.run(
        session,
        user_id=user_id,
        day=_day(now),
        purpose=purpose,
        prompt_tokens=completion.prompt_tokens or 0,
        completion_tokens=completion.completion_tokens or 0,
    )


def _day(now: datetime) -> date:
    return now.astimezone(LAGOS).date()
