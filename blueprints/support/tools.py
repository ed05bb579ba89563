"""Routes of canned replies, saved views and figures of support."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from blueprints.http import (
    SUPPORT_STAFF,
    Context,
    ContractBlueprint,
    Deleted,
    SharedLimit,
    expected_revision,
)
from blueprints.support.tool_schemas import (
    CannedReply,
    CreateCannedReply,
    FiguresQuery,
    SavedView,
    SaveView,
    SupportFiguresView,
    UpdateCannedReply,
    ViewFilters,
)
from marketplace.kernel.errors import LimitReachedError, StaleRevisionError
from marketplace.support.models import SupportCannedReply, SupportView
from marketplace.support.tools import canned_replies, figures, saved_views
from marketplace.support.tools.canned_replies import CannedReplyFields, TitleTakenError

area = ContractBlueprint("support_tools", "/api/admin/support", "Tools of support staff")

_WRITES = "60/minute"


@area.get(
    "/canned-replies",
    auth=SUPPORT_STAFF,
    limit=SharedLimit.CALLER_TIER,
    reply=CannedReply(many=True),
)
def list_canned_replies(ctx: Context) -> Sequence[SupportCannedReply]:
    """List all canned replies by title."""
    return canned_replies.list_canned_replies(ctx.session)


@area.post(
    "/canned-replies",
    auth=SUPPORT_STAFF,
    limit=_WRITES,
    body=CreateCannedReply,
    reply=CannedReply,
    status=201,
    raises=(TitleTakenError, LimitReachedError),
)
def create_canned_reply(ctx: Context, body: dict[str, Any]) -> SupportCannedReply:
    """Create a canned reply."""
    return canned_replies.create_canned_reply(ctx.session, **body, act=ctx.act)


@area.put(
    "/canned-replies/<uuid:reply_id>",
    auth=SUPPORT_STAFF,
    limit=_WRITES,
    body=UpdateCannedReply,
    reply=CannedReply,
    raises=(TitleTakenError, StaleRevisionError),
)
def update_canned_reply(ctx: Context, reply_id: UUID, body: dict[str, Any]) -> SupportCannedReply:
    """Change a canned reply."""
    return canned_replies.update_canned_reply(
        ctx.session,
        reply_id=reply_id,
        fields=CannedReplyFields(body.get("title"), body.get("body")),
        revision=expected_revision(body.get("revision")),
        act=ctx.act,
    )


@area.delete("/canned-replies/<uuid:reply_id>", auth=SUPPORT_STAFF, limit=_WRITES, reply=Deleted)
def delete_canned_reply(ctx: Context, reply_id: UUID) -> dict[str, Any]:
    """Delete a canned reply."""
    canned_replies.delete_canned_reply(ctx.session, reply_id=reply_id, act=ctx.act)
    return {"id": reply_id, "deleted": True}


@area.get("/views", auth=SUPPORT_STAFF, limit=SharedLimit.CALLER_TIER, reply=SavedView(many=True))
def list_views(ctx: Context) -> Sequence[SupportView]:
    """List your saved views by name."""
    return saved_views.list_views(ctx.session, owner_id=ctx.user.id)


@area.post(
    "/views",
    auth=SUPPORT_STAFF,
    limit=_WRITES,
    body=SaveView,
    reply=SavedView,
    status=201,
    raises=(LimitReachedError,),
)
def save_view(ctx: Context, body: dict[str, Any]) -> SupportView:
    """Save filters of the inbox under a name. A view of yours with the same name is replaced."""
    filters = ViewFilters().dump(body["filters"])
    chosen = {name: str(value) for name, value in filters.items() if value is not None}
    return saved_views.save_view(ctx.session, owner_id=ctx.user.id, name=body["name"], filters=chosen)


@area.delete("/views/<uuid:view_id>", auth=SUPPORT_STAFF, limit=_WRITES, reply=Deleted)
def delete_view(ctx: Context, view_id: UUID) -> dict[str, Any]:
    """Delete a saved view of yours."""
    saved_views.delete_view(ctx.session, owner_id=ctx.user.id, view_id=view_id)
    return {"id": view_id, "deleted": True}


@area.get(
    "/figures",
    auth=SUPPORT_STAFF,
    limit=SharedLimit.CALLER_TIER,
    query=FiguresQuery,
    reply=SupportFiguresView,
)
def get_support_figures(ctx: Context, query: dict[str, Any]) -> figures.SupportFigures:
    """Get volume, response and resolution times, and satisfaction, in total, by topic and by week."""
    return figures.fetch_figures(ctx.session, first_day=query["from_"], last_day=query["to"], now=ctx.now)
