"""Vibes: shown to everybody, made, changed and taken down by staff."""

from typing import Any
from uuid import UUID

from blueprints.catalog.promotions.common import PROMOTERS, act_of, media_of, without
from blueprints.catalog.promotions.schemas import (
    AddVibe,
    CampusQuery,
    ChangeVibe,
    StaffQuery,
    StaffVibe,
    VibeView,
)
from blueprints.http.contract import PUBLIC, Shared
from blueprints.http.endpoint import Area, Context
from blueprints.http.fields import Deleted
from blueprints.http.revisions import expected_revision
from marketplace.catalog import cache_tags
from marketplace.catalog.promotions import vibe_listing, vibes
from marketplace.kernel.paging import Page

area = Area("vibes", "/api/vibes", "Vibes")

_TAGS = (cache_tags.VIBES, cache_tags.PRODUCTS)


@area.get(
    "", auth=PUBLIC, limit=Shared.GLOBAL, query=CampusQuery, reply=VibeView(many=True), cache=300, tags=_TAGS
)
def list_vibes(ctx: Context, query: dict[str, Any]) -> Page:
    """List the vibes whose time it is, each with its first products."""
    return vibe_listing.list_shown(
        ctx.session,
        campus=query.get("campus"),
        page=ctx.page,
        now=ctx.now,
        media_base_url=media_of(ctx),
    )


@area.get("/<string:vibe>", auth=PUBLIC, limit=Shared.GLOBAL, reply=VibeView, cache=300, tags=_TAGS)
def get_vibe(ctx: Context, vibe: str) -> dict[str, Any]:
    """Show a vibe, named by id or slug, with all its products."""
    return vibe_listing.shown(ctx.session, vibe=vibe, now=ctx.now, media_base_url=media_of(ctx))


@area.get("/all", auth=PROMOTERS, limit=Shared.GLOBAL, query=StaffQuery, reply=StaffVibe(many=True))
def list_all(ctx: Context, query: dict[str, Any]) -> Page:
    """List vibes of any state for staff, the last made first."""
    return vibe_listing.list_for_staff(
        ctx.session, state=query.get("state"), page=ctx.page, now=ctx.now, media_base_url=media_of(ctx)
    )


@area.post("", auth=PROMOTERS, limit=Shared.GLOBAL, body=AddVibe, reply=StaffVibe, status=201)
def create_vibe(ctx: Context, body: dict[str, Any]) -> dict[str, Any]:
    """Make a vibe."""
    vibe_id = vibes.create(
        ctx.session, act_of(ctx), fields=without(body, "product_ids"), product_ids=body["product_ids"]
    )
    return _view(ctx, vibe_id)


@area.put("/<uuid:vibe_id>", auth=PROMOTERS, limit=Shared.GLOBAL, body=ChangeVibe, reply=StaffVibe)
def change_vibe(ctx: Context, vibe_id: UUID, body: dict[str, Any]) -> dict[str, Any]:
    """Change a vibe that is not over."""
    vibes.change(
        ctx.session,
        act_of(ctx),
        vibe_id=vibe_id,
        revision=expected_revision(body.get("revision")),
        changes=without(body, "revision", "product_ids"),
        product_ids=body.get("product_ids"),
    )
    return _view(ctx, vibe_id)


@area.delete("/<uuid:vibe_id>", auth=PROMOTERS, limit=Shared.GLOBAL, reply=Deleted)
def end_vibe(ctx: Context, vibe_id: UUID) -> dict[str, Any]:
    """Take a vibe down now."""
    vibes.end(ctx.session, act_of(ctx), vibe_id=vibe_id)
    return {"deleted": True, "id": vibe_id}


def _view(ctx: Context, vibe_id: UUID) -> dict[str, Any]:
    return vibe_listing.for_staff(ctx.session, vibe_id=vibe_id, now=ctx.now, media_base_url=media_of(ctx))
