"""The right of a person to use the language model: feature flag, opt-out and daily budget. The record of use."""

from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from typing import Literal
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.assistant import texts
from marketplace.infra.settings import Settings
from marketplace.infra.sql.statements import Statement
from marketplace.kernel.errors import ForbiddenError, RateLimitError
from marketplace.kernel.opening_hours import LAGOS
from marketplace.platform import features
from marketplace.platform.queries import fetch_platform_settings

Purpose = Literal["session_title", "support_reply", "conversation", "thread_summary"]
# A price of one cent for a million tokens is a hundredth of a millionth of a dollar for a token.
_TOKENS_PER_CENT_MICRO = 100


class AssistantBudgetError(RateLimitError):
    """The person has used the language model's daily budget."""

    reason = "assistant-budget-spent"


class AssistantOptedOutError(ForbiddenError):
    """The person does not allow the assistant to process the person's data."""

    reason = "assistant-opted-out"


@dataclass(frozen=True)
class TokenCount:
    """The tokens of calls of the language model."""

    prompt: int
    completion: int


@dataclass(frozen=True)
class TokenPrices:
    """The prices of a million tokens, in US cents."""

    prompt: int
    completion: int

    @classmethod
    def of(cls, settings: Settings) -> "TokenPrices":
        """Return the configured prices."""
        return cls(settings.assistant_prompt_price, settings.assistant_completion_price)

    def cost_micros(self, tokens: TokenCount) -> int:
        """Return the cost in millionths of a US dollar, rounded up."""
        cents_millionths = tokens.prompt * self.prompt + tokens.completion * self.completion
        return -(-cents_millionths // _TOKENS_PER_CENT_MICRO)


_SELECT_USE = Statement(
    text(
        """
        SELECT EXISTS (SELECT FROM assistant_opt_outs o WHERE o.user_id = :user_id) AS is_opted_out,
            (SELECT coalesce(sum(u.prompt_tokens + u.completion_tokens), 0) FROM assistant_usage u
                WHERE u.user_id = :user_id AND u.day = :day) AS used
        """
    )
)


def ensure_may_use(session: Session, *, user_id: UUID, daily_tokens: int, now: datetime) -> None:
    """Check that the assistant is on, that a person has not opted out, and that the person has tokens left today.

    A call that is in progress may exceed the budget once.

    :param daily_tokens: the budget of a person, of prompts and answers together
    :raises FeatureUnavailableError: the assistant is switched off
    :raises AssistantOptedOutError: the person has opted out
    :raises AssistantBudgetError: the budget of today is spent
    """
    features.ensure_feature_on(fetch_platform_settings(session), features.ASSISTANT, now=now)
    use = _SELECT_USE.one(session, user_id=user_id, day=_day(now))
    if use["is_opted_out"]:
        raise AssistantOptedOutError(texts.OPTED_OUT)
    if use["used"] >= daily_tokens:
        midnight = datetime.combine(_day(now) + timedelta(days=1), time(), LAGOS)
        raise AssistantBudgetError(
            texts.BUDGET_SPENT, retry_after_seconds=int((midnight - now).total_seconds()) + 1
        )


_ADD_USAGE = Statement(
    text(
        """
        INSERT INTO assistant_usage AS u (user_id, day, purpose, calls, prompt_tokens, completion_tokens, cost_micros)
        VALUES (:user_id, :day, :purpose, 1, :prompt_tokens, :completion_tokens, :cost_micros)
        ON CONFLICT (user_id, day, purpose) DO UPDATE SET calls = u.calls + 1,
            prompt_tokens = u.prompt_tokens + excluded.prompt_tokens,
            completion_tokens = u.completion_tokens + excluded.completion_tokens,
            cost_micros = u.cost_micros + excluded.cost_micros
        """
    )
)


def record_usage(
    session: Session,
    *,
    user_id: UUID,
    purpose: Purpose,
    tokens: TokenCount,
    prices: TokenPrices,
    now: datetime,
) -> None:
    """Record a call of the language model with the cost."""
    _ADD_USAGE.run(
        session,
        user_id=user_id,
        day=_day(now),
        purpose=purpose,
        prompt_tokens=tokens.prompt,
        completion_tokens=tokens.completion,
        cost_micros=prices.cost_micros(tokens),
    )


def _day(now: datetime) -> date:
    return now.astimezone(LAGOS).date()
