"""Routes of the assistant's threads, and of the person's choice about the assistant."""

from typing import Any
from uuid import UUID

from blueprints.assistant.schemas import (
    AssistantPreferences,
    DeletedThread,
    FlagThread,
    SetAssistantPreferences,
    ThreadMessageView,
    ThreadQuery,
    ThreadView,
)
from blueprints.http import (
    AUTHENTICATED_ANY_STATUS,
    Context,
    ContractBlueprint,
    SharedLimit,
)
from marketplace.assistant import opt_outs, threads
from marketplace.assistant.models import AssistantThread
from marketplace.kernel.errors import NotFoundError
from marketplace.kernel.paging import Page

area = ContractBlueprint("assistant-threads", "/api/assistant", "Your conversations with the assistant")

_WRITES = "60/minute"


@area.get(
    "/threads",
    auth=AUTHENTICATED_ANY_STATUS,
    limit=SharedLimit.CALLER_TIER,
    query=ThreadQuery,
    reply=ThreadView(many=True),
)
def list_threads(ctx: Context, query: dict[str, Any]) -> Page:
    """List your conversations with the assistant, the latest message first."""
    del query
    return threads.list_threads(ctx.session, user_id=ctx.user.id, page=ctx.page)


@area.get(
    "/threads/<uuid:thread_id>/messages",
    auth=AUTHENTICATED_ANY_STATUS,
    limit=SharedLimit.CALLER_TIER,
    query=ThreadQuery,
    reply=ThreadMessageView(many=True),
    raises=(NotFoundError,),
)
def list_thread_messages(ctx: Context, thread_id: UUID, query: dict[str, Any]) -> Page:
    """List the messages of your conversation, the latest first."""
    del query
    return threads.list_messages(ctx.session, thread_id=thread_id, user_id=ctx.user.id, page=ctx.page)


@area.delete(
    "/threads/<uuid:thread_id>",
    auth=AUTHENTICATED_ANY_STATUS,
    limit=_WRITES,
    reply=DeletedThread,
    raises=(NotFoundError,),
)
def delete_thread(ctx: Context, thread_id: UUID) -> dict[str, UUID]:
    """Delete your conversation with all messages, also for staff."""
    threads.delete_thread(ctx.session, thread_id=thread_id, user_id=ctx.user.id)
    return {"id": thread_id}


@area.post(
    "/threads/<uuid:thread_id>/flag",
    auth=AUTHENTICATED_ANY_STATUS,
    limit="10/minute",
    body=FlagThread,
    reply=ThreadView,
    raises=(NotFoundError,),
)
def flag_thread(ctx: Context, thread_id: UUID, body: dict[str, Any]) -> AssistantThread:
    """Flag a conversation with a bad answer. Support can then read the messages."""
    return threads.flag_thread(
        ctx.session,
        thread_id=thread_id,
        user_id=ctx.user.id,
        reason=body["reason"],
        details=body.get("details"),
        now=ctx.now,
    )


@area.get(
    "/preferences",
    auth=AUTHENTICATED_ANY_STATUS,
    limit=SharedLimit.CALLER_TIER,
    reply=AssistantPreferences,
)
def get_assistant_preferences(ctx: Context) -> dict[str, bool]:
    """Get your choice about the assistant."""
    return {"opted_out": opt_outs.is_opted_out(ctx.session, user_id=ctx.user.id)}


@area.put(
    "/preferences",
    auth=AUTHENTICATED_ANY_STATUS,
    limit=_WRITES,
    body=SetAssistantPreferences,
    reply=AssistantPreferences,
)
def set_assistant_preferences(ctx: Context, body: dict[str, Any]) -> dict[str, bool]:
    """Opt out of the assistant, or in again. Support then gets no suggested replies to your tickets either."""
    opt_outs.set_opted_out(ctx.session, user_id=ctx.user.id, opted_out=body["opted_out"], now=ctx.now)
    return {"opted_out": body["opted_out"]}
