"""Routes of the assistant: titles of conversations, and suggested replies for support."""

from typing import Any

from sqlalchemy.orm import Session

from blueprints.assistant.schemas import SessionTitle, SuggestedReply, SuggestReply, WriteTitle
from blueprints.http import AUTHENTICATED, STAFF, Context, ContractBlueprint, FinalPhase
from marketplace.assistant import support_replies, titles
from marketplace.assistant.completions import AssistantNotConfiguredError, ShortText, ensure_configured
from marketplace.assistant.usage import AssistantBudgetError, Purpose, ensure_may_use, record_usage
from marketplace.kernel.errors import NotFoundError
from marketplace.platform.features import FeatureUnavailableError
from marketplace.providers.language_model import ModelBusyError

_ERRORS = (AssistantBudgetError, AssistantNotConfiguredError, FeatureUnavailableError, ModelBusyError)

area = ContractBlueprint("assistant", "/api/assistant", "The shopping assistant")


@area.post(
    "/session-title",
    auth=AUTHENTICATED,
    limit="30/minute",
    body=WriteTitle,
    reply=SessionTitle,
    phased=True,
    raises=_ERRORS,
)
def write_session_title(ctx: Context, body: dict[str, Any]) -> FinalPhase:
    """Write a title of 3 to 5 words for a conversation. Contact details and PINs are not sent to the model."""
    model = ensure_configured(ctx.services.language_model)
    _ensure_budget(ctx)
    messages = [titles.ThreadMessage(**message) for message in body["messages"]]
    written = titles.write_title(model, messages)
    return _recorded(ctx, "session_title", written, {"title": written.text})


@area.post(
    "/support-reply",
    auth=STAFF,
    limit="20/minute",
    body=SuggestReply,
    reply=SuggestedReply,
    phased=True,
    raises=(*_ERRORS, NotFoundError),
)
def suggest_support_reply(ctx: Context, body: dict[str, Any]) -> FinalPhase:
    """Suggest a reply from the ticket, its order and the policies. Nothing is sent to the user."""
    model = ensure_configured(ctx.services.language_model)
    _ensure_budget(ctx)
    with ctx.transaction() as session:
        context = support_replies.collect_context(session, ticket_id=body["ticket_id"], caller=ctx.user)
    written = support_replies.suggest_reply(model, context)
    return _recorded(ctx, "support_reply", written, {"reply": written.text, "sources": context.sources})


def _ensure_budget(ctx: Context) -> None:
    with ctx.transaction() as session:
        ensure_may_use(
            session,
            user_id=ctx.user.id,
            daily_tokens=ctx.services.settings.assistant_daily_budget,
            now=ctx.now,
        )


def _recorded(ctx: Context, purpose: Purpose, written: ShortText, view: dict[str, Any]) -> FinalPhase:
    def record(session: Session) -> dict[str, Any]:
        record_usage(
            session,
            user_id=ctx.user.id,
            purpose=purpose,
            completion=written.completion,
            now=ctx.now,
        )
        return view

    return FinalPhase(record)
