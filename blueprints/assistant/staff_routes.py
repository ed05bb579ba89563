"""Routes of the assistant for staff: usage and cost, flagged threads, and evaluations."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from blueprints.assistant.schemas import ThreadMessageView, ThreadQuery
from blueprints.assistant.staff_schemas import (
    DailyUsageView,
    EvaluationView,
    FlaggedThreadQuery,
    FlaggedThreadView,
    PersonUsageQuery,
    PersonUsageView,
    UsagePeriod,
)
from blueprints.http import SUPPORT_STAFF, Context, ContractBlueprint, SharedLimit
from marketplace.assistant import staff
from marketplace.assistant.models import AssistantEvaluation
from marketplace.kernel.errors import NotFoundError
from marketplace.kernel.paging import Page

area = ContractBlueprint(
    "assistant-administration", "/api/admin/assistant", "The assistant, for support staff"
)


@area.get(
    "/usage",
    auth=SUPPORT_STAFF,
    limit=SharedLimit.CALLER_TIER,
    query=UsagePeriod,
    reply=DailyUsageView(many=True),
)
def list_assistant_usage(ctx: Context, query: dict[str, Any]) -> Sequence[staff.DailyUsage]:
    """List calls, tokens and cost by day and purpose, the latest day first. A period has at most 92 days."""
    return staff.list_daily_usage(ctx.session, period=_period(ctx, query))


@area.get(
    "/usage/people",
    auth=SUPPORT_STAFF,
    limit=SharedLimit.CALLER_TIER,
    query=PersonUsageQuery,
    reply=PersonUsageView(many=True),
)
def list_assistant_usage_by_person(ctx: Context, query: dict[str, Any]) -> Page:
    """List the people who used the assistant in a period, the highest cost first."""
    return staff.list_usage_by_person(ctx.session, period=_period(ctx, query), page=ctx.page)


@area.get(
    "/flagged-threads",
    auth=SUPPORT_STAFF,
    limit=SharedLimit.CALLER_TIER,
    query=FlaggedThreadQuery,
    reply=FlaggedThreadView(many=True),
)
def list_flagged_threads(ctx: Context, query: dict[str, Any]) -> Page:
    """List the threads that people flagged, the latest flag first."""
    return staff.list_flagged_threads(ctx.session, reviewed=query["reviewed"], page=ctx.page)


@area.get(
    "/flagged-threads/<uuid:thread_id>/messages",
    auth=SUPPORT_STAFF,
    limit=SharedLimit.CALLER_TIER,
    query=ThreadQuery,
    reply=ThreadMessageView(many=True),
    raises=(NotFoundError,),
)
def list_flagged_thread_messages(ctx: Context, thread_id: UUID, query: dict[str, Any]) -> Page:
    """List the messages of a flagged thread, the latest first. Threads without a flag are private."""
    del query
    return staff.list_flagged_messages(ctx.session, thread_id=thread_id, page=ctx.page)


@area.post(
    "/flagged-threads/<uuid:thread_id>/review",
    auth=SUPPORT_STAFF,
    limit="60/minute",
    reply=FlaggedThreadView,
    raises=(NotFoundError, staff.ThreadReviewedError),
)
def review_flagged_thread(ctx: Context, thread_id: UUID) -> staff.FlaggedThread:
    """Mark a flagged thread as reviewed."""
    return staff.review_flagged_thread(ctx.session, thread_id=thread_id, act=ctx.act)


@area.get(
    "/evaluations",
    auth=SUPPORT_STAFF,
    limit=SharedLimit.CALLER_TIER,
    reply=EvaluationView(many=True),
)
def list_assistant_evaluations(ctx: Context) -> Sequence[AssistantEvaluation]:
    """List the scores of the last 20 evaluations, the latest first."""
    return staff.list_evaluations(ctx.session)


def _period(ctx: Context, query: dict[str, Any]) -> staff.Period:
    return staff.Period.parse(query["from_"], query["to"], now=ctx.now)
