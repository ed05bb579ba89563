"""Routes of the assistant: the stream of answers, titles of conversations, and suggested replies for support."""

from typing import Any
from uuid import UUID

from flask import Response, request
from sqlalchemy.orm import Session

from blueprints.assistant.schemas import (
    AskAssistant,
    SessionTitle,
    SuggestedReply,
    SuggestReply,
    WriteTitle,
)
from blueprints.assistant.stream import THREAD_HEADER, AnswerBody, reader_check, render_event, stream_response
from blueprints.http import AUTHENTICATED, STAFF, Context, ContractBlueprint, FinalPhase
from blueprints.http.fields import camel_case
from marketplace.assistant import support_replies, texts, threads, titles
from marketplace.assistant.answers import Answer, AnswerInProgressError, AnswerSlot, resume
from marketplace.assistant.completions import AssistantNotConfiguredError, ensure_configured
from marketplace.assistant.generation import Generation
from marketplace.assistant.pictures import PicturesNotReadError, prepare_pictures
from marketplace.assistant.prompting import build_messages
from marketplace.assistant.support_replies import OwnerOptedOutError
from marketplace.assistant.tools.toolbox import Toolbox
from marketplace.assistant.usage import (
    AssistantBudgetError,
    AssistantOptedOutError,
    Purpose,
    TokenCount,
    TokenPrices,
    ensure_may_use,
    record_usage,
)
from marketplace.kernel.errors import NotFoundError, ServiceUnavailableError, ValidationError
from marketplace.notifications.live_streams import TooManyStreamsError
from marketplace.platform.features import FeatureUnavailableError
from marketplace.providers.language_model import LanguageModel, ModelBusyError

_USE_ERRORS = (
    AssistantBudgetError,
    AssistantNotConfiguredError,
    AssistantOptedOutError,
    FeatureUnavailableError,
)
_ERRORS = (*_USE_ERRORS, ModelBusyError)
MAX_STREAM_BODY_BYTES = 8 * 1024 * 1024
_MAX_EVENT_ID_LENGTH = 15

area = ContractBlueprint("assistant", "/api/assistant", "The shopping assistant")


@area.post(
    "/session-title",
    auth=AUTHENTICATED,
    limit="30/minute",
    body=WriteTitle,
    reply=SessionTitle,
    phased=True,
    raises=(*_ERRORS, NotFoundError),
)
def write_session_title(ctx: Context, body: dict[str, Any]) -> FinalPhase:
    """Write a title of 3 to 5 words for a conversation. Contact details and PINs are not sent to the model."""
    model = ensure_configured(ctx.services.language_model)
    thread_id = body.get("thread_id")
    with ctx.transaction() as session:
        _ensure_may_use(ctx, session)
        messages = (
            [titles.ThreadMessage(**message) for message in body["messages"]]
            if thread_id is None
            else titles.read_thread(session, thread_id=thread_id, user_id=ctx.user.id)
        )
    written = titles.write_title(model, messages)

    def record(session: Session) -> dict[str, Any]:
        if thread_id is not None:
            threads.set_title(session, thread_id=thread_id, user_id=ctx.user.id, title=written.text)
        _record_usage(ctx, session, "session_title", written.tokens)
        return {"title": written.text}

    return FinalPhase(record)


@area.post(
    "/support-reply",
    auth=STAFF,
    limit="20/minute",
    body=SuggestReply,
    reply=SuggestedReply,
    phased=True,
    raises=(*_ERRORS, NotFoundError, OwnerOptedOutError),
)
def suggest_support_reply(ctx: Context, body: dict[str, Any]) -> FinalPhase:
    """Suggest a reply from the ticket, its order and the policies. Nothing is sent to the user."""
    model = ensure_configured(ctx.services.language_model)
    with ctx.transaction() as session:
        _ensure_may_use(ctx, session)
        context = support_replies.collect_context(session, ticket_id=body["ticket_id"], caller=ctx.user)
    written = support_replies.suggest_reply(model, context)

    def record(session: Session) -> dict[str, Any]:
        _record_usage(ctx, session, "support_reply", written.tokens)
        return {"reply": written.text, "sources": context.sources}

    return FinalPhase(record)


@area.post(
    "/stream",
    auth=AUTHENTICATED,
    limit="20/minute",
    body=AskAssistant,
    phased=True,
    enveloped=False,
    event_stream=True,
    headers=(THREAD_HEADER,),
    max_body_bytes=MAX_STREAM_BODY_BYTES,
    raises=(
        *_USE_ERRORS,
        AnswerInProgressError,
        NotFoundError,
        PicturesNotReadError,
        ServiceUnavailableError,
        TooManyStreamsError,
    ),
)
def stream_answer(ctx: Context, body: dict[str, Any]) -> Response:
    """Stream the assistant's answer as server-sent events.

    Events: `token` (`text`), `tool_call`, `tool_result`, `proposal` (a request that you may send after the person
    confirms), and at the end `done` or `error` (`code`, `detail`). The header `X-Thread-ID` names the thread. A person
    has one stream at a time, for at most 60 seconds. After an interruption send the same request with `threadId` and
    `Last-Event-ID` within 60 seconds to receive the events that you missed.
    """
    last_id = request.headers.get("Last-Event-ID", "")
    if last_id:
        return _resume(ctx, body, last_id)
    services = ctx.services
    model = ensure_configured(services.language_model)
    messages = [
        threads.NewThreadMessage(
            message["role"],
            message["content"],
            prepare_pictures(
                message["images"],
                field=f"messages[{position}].images",
                are_read=services.settings.assistant_pictures == "on",
            ),
        )
        for position, message in enumerate(body["messages"])
    ]
    slot = AnswerSlot(services.cache, services.live_streams, ctx.user.id)
    slot.acquire()
    try:
        with ctx.transaction() as session:
            _ensure_may_use(ctx, session)
            turn = threads.start_turn(
                session, user_id=ctx.user.id, thread_id=body["thread_id"], messages=messages, now=ctx.now
            )
        answer = _start_answer(ctx, model, slot, turn, body["context"])
    except BaseException:
        slot.release()
        raise
    connection = request.environ.get("gunicorn.socket")
    return stream_response(AnswerBody(answer, connection), thread_id=turn.thread_id)


def _start_answer(
    ctx: Context, model: LanguageModel, slot: AnswerSlot, turn: threads.Turn, viewed: dict[str, UUID]
) -> Answer:
    services, user = ctx.services, ctx.user
    prices = TokenPrices.of(services.settings)
    toolbox = Toolbox(services.database, caller=user, clock=services.clock, media_base_url=ctx.media_base_url)
    context = {camel_case(name): str(value) for name, value in viewed.items()}
    generation = Generation(model, toolbox, build_messages(turn, context=context, now=ctx.now))

    def save(ended: Generation, is_complete: bool) -> None:
        with services.database.transaction() as session:
            if ended.text:
                threads.add_answer(
                    session,
                    user_id=user.id,
                    thread_id=turn.thread_id,
                    number=turn.next_number,
                    body=ended.text,
                    is_complete=is_complete,
                    now=services.clock(),
                )
            record_usage(
                session,
                user_id=user.id,
                purpose="conversation",
                tokens=TokenCount(ended.prompt_tokens, ended.completion_tokens),
                prices=prices,
                now=services.clock(),
            )

    return Answer(
        generation,
        slot,
        services.cache,
        thread_id=turn.thread_id,
        message_number=turn.next_number,
        token_expires_at=ctx.token_expires_at,
        is_reader_gone=reader_check(request.environ.get("gunicorn.socket")),
        save=save,
    )


def _resume(ctx: Context, body: dict[str, Any], last_id: str) -> Response:
    if body["thread_id"] is None:
        raise ValidationError.of("threadId", texts.THREAD_REQUIRED)
    if not (last_id.isdecimal() and len(last_id) <= _MAX_EVENT_ID_LENGTH):
        raise ValidationError.of("Last-Event-ID", texts.INVALID_LAST_EVENT_ID)
    events = resume(
        ctx.services.cache, user_id=ctx.user.id, thread_id=body["thread_id"], last_id=int(last_id)
    )
    return stream_response([render_event(event) for event in events], thread_id=body["thread_id"])


def _ensure_may_use(ctx: Context, session: Session) -> None:
    ensure_may_use(
        session,
        user_id=ctx.user.id,
        daily_tokens=ctx.services.settings.assistant_daily_budget,
        now=ctx.now,
    )


def _record_usage(ctx: Context, session: Session, purpose: Purpose, tokens: TokenCount) -> None:
    record_usage(
        session,
        user_id=ctx.user.id,
        purpose=purpose,
        tokens=tokens,
        prices=TokenPrices.of(ctx.services.settings),
        now=ctx.now,
    )
