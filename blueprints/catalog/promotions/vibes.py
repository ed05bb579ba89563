"""Vibes: shown to everybody, made, changed and taken down by staff."""

from typing import Any
from uuid import UUID

from blueprints.catalog.promotions.schemas import (
    AddVibe,
    CampusQuery,
    ChangeVibe,
    StaffPromotionQuery,
    StaffVibe,
    VibeView,
)
from blueprints.http.contract import PRODUCT_STAFF, PUBLIC, SharedLimit
from blueprints.http.endpoint import Context, ContractBlueprint
from blueprints.http.fields import Deleted
from blueprints.http.request_parsing import expected_revision, omit_fields
from marketplace.catalog import cache_tags
from marketplace.catalog.promotions import vibes
from marketplace.catalog.promotions.common import PromotionEndedError
from marketplace.kernel.errors import ConflictOfInterestError, StaleRevisionError
from marketplace.kernel.paging import Page

area = ContractBlueprint("vibes", "/api/vibes", "Vibes")

_CACHE_TAGS = (cache_tags.VIBES, cache_tags.PRODUCTS)


@area.get(
    "",
    auth=PUBLIC,
    limit=SharedLimit.CALLER_TIER,
    query=CampusQuery,
    reply=VibeView(many=True),
    cache=300,
    tags=_CACHE_TAGS,
)
def list_vibes(ctx: Context, query: dict[str, Any]) -> Page:
    """List the vibes whose time it is, each with its first products."""
    return vibes.list_running_vibes(
        ctx.session,
        campus=query.get("campus"),
        page=ctx.page,
        now=ctx.now,
        media_base_url=ctx.media_base_url,
    )


@area.get(
    "/<string:vibe>", auth=PUBLIC, limit=SharedLimit.CALLER_TIER, reply=VibeView, cache=300, tags=_CACHE_TAGS
)
def get_vibe(ctx: Context, vibe: str) -> dict[str, Any]:
    """Show a vibe, named by id or slug, with all its products."""
    return vibes.fetch_running_vibe(ctx.session, vibe=vibe, now=ctx.now, media_base_url=ctx.media_base_url)


@area.get(
    "/all",
    auth=PRODUCT_STAFF,
    limit=SharedLimit.CALLER_TIER,
    query=StaffPromotionQuery,
    reply=StaffVibe(many=True),
)
def list_all(ctx: Context, query: dict[str, Any]) -> Page:
    """List vibes of any state for staff, the last made first."""
    return vibes.VIBE_TABLE.list_for_staff(
        ctx.session,
        state=query.get("state"),
        page=ctx.page,
        now=ctx.now,
        media_base_url=ctx.media_base_url,
    )


@area.post(
    "",
    auth=PRODUCT_STAFF,
    limit=SharedLimit.CALLER_TIER,
    body=AddVibe,
    reply=StaffVibe,
    status=201,
    raises=(ConflictOfInterestError, vibes.SlugTakenError),
)
def create_vibe(ctx: Context, body: dict[str, Any]) -> dict[str, Any]:
    """Make a vibe."""
    vibe_id = vibes.create_vibe(
        ctx.session, ctx.act, fields=omit_fields(body, "product_ids"), product_ids=body["product_ids"]
    )
    return _staff_view(ctx, vibe_id)


@area.put(
    "/<uuid:vibe_id>",
    auth=PRODUCT_STAFF,
    limit=SharedLimit.CALLER_TIER,
    body=ChangeVibe,
    reply=StaffVibe,
    raises=(ConflictOfInterestError, PromotionEndedError, vibes.SlugTakenError, StaleRevisionError),
)
def change_vibe(ctx: Context, vibe_id: UUID, body: dict[str, Any]) -> dict[str, Any]:
    """Change a vibe that is not over."""
    vibes.update_vibe(
        ctx.session,
        ctx.act,
        vibe_id=vibe_id,
        revision=expected_revision(body.get("revision")),
        changes=omit_fields(body, "revision", "product_ids"),
        product_ids=body.get("product_ids"),
    )
    return _staff_view(ctx, vibe_id)


@area.delete(
    "/<uuid:vibe_id>",
    auth=PRODUCT_STAFF,
    limit=SharedLimit.CALLER_TIER,
    reply=Deleted,
    raises=(PromotionEndedError,),
)
def end_vibe(ctx: Context, vibe_id: UUID) -> dict[str, Any]:
    """Take a vibe down now."""
    vibes.VIBES.end(ctx.session, ctx.act, vibe_id)
    return {"deleted": True, "id": vibe_id}


def _staff_view(ctx: Context, vibe_id: UUID) -> dict[str, Any]:
    return vibes.VIBE_TABLE.fetch_for_staff(
        ctx.session, vibe_id, now=ctx.now, media_base_url=ctx.media_base_url
    )
