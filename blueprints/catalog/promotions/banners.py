"""Banners: shown to everybody, made, changed and taken down by staff."""

from typing import Any
from uuid import UUID

from blueprints.catalog.promotions.schemas import (
    AddBanner,
    BannerQuery,
    BannerView,
    ChangeBanner,
    StaffBanner,
    StaffPromotionQuery,
)
from blueprints.http.contract import PRODUCT_STAFF, PUBLIC, SharedLimit
from blueprints.http.endpoint import Context, ContractBlueprint
from blueprints.http.fields import Deleted
from blueprints.http.request_parsing import expected_revision, omit_fields
from marketplace.catalog import cache_tags
from marketplace.catalog.promotions.banners import BANNER_TABLE, BANNERS, HAS_PLACEMENT_SQL
from marketplace.catalog.promotions.common import PromotionEndedError
from marketplace.kernel.errors import StaleRevisionError
from marketplace.kernel.paging import Page

area = ContractBlueprint("banners", "/api/banners", "Banners")


@area.get(
    "",
    auth=PUBLIC,
    limit=SharedLimit.CALLER_TIER,
    query=BannerQuery,
    reply=BannerView(many=True),
    cache=300,
    tags=(cache_tags.BANNERS,),
)
def list_banners(ctx: Context, query: dict[str, Any]) -> Page:
    """List the banners whose time it is, by their position."""
    return BANNER_TABLE.list_running(
        ctx.session,
        campus=query.get("campus"),
        condition=HAS_PLACEMENT_SQL,
        placement=query.get("placement"),
        page=ctx.page,
        now=ctx.now,
        media_base_url=ctx.media_base_url,
    )


@area.get(
    "/all",
    auth=PRODUCT_STAFF,
    limit=SharedLimit.CALLER_TIER,
    query=StaffPromotionQuery,
    reply=StaffBanner(many=True),
)
def list_all(ctx: Context, query: dict[str, Any]) -> Page:
    """List banners of any state for staff, the last made first."""
    return BANNER_TABLE.list_for_staff(
        ctx.session,
        state=query.get("state"),
        page=ctx.page,
        now=ctx.now,
        media_base_url=ctx.media_base_url,
    )


@area.post(
    "", auth=PRODUCT_STAFF, limit=SharedLimit.CALLER_TIER, body=AddBanner, reply=StaffBanner, status=201
)
def create_banner(ctx: Context, body: dict[str, Any]) -> dict[str, Any]:
    """Make a banner."""
    return _staff_view(ctx, BANNERS.create(ctx.session, ctx.act, body))


@area.put(
    "/<uuid:banner_id>",
    auth=PRODUCT_STAFF,
    limit=SharedLimit.CALLER_TIER,
    body=ChangeBanner,
    reply=StaffBanner,
    raises=(PromotionEndedError, StaleRevisionError),
)
def change_banner(ctx: Context, banner_id: UUID, body: dict[str, Any]) -> dict[str, Any]:
    """Change a banner that is not over."""
    BANNERS.update(
        ctx.session,
        ctx.act,
        banner_id,
        revision=expected_revision(body.get("revision")),
        changes=omit_fields(body, "revision"),
    )
    return _staff_view(ctx, banner_id)


@area.delete(
    "/<uuid:banner_id>",
    auth=PRODUCT_STAFF,
    limit=SharedLimit.CALLER_TIER,
    reply=Deleted,
    raises=(PromotionEndedError,),
)
def end_banner(ctx: Context, banner_id: UUID) -> dict[str, Any]:
    """Take a banner down now."""
    BANNERS.end(ctx.session, ctx.act, banner_id)
    return {"deleted": True, "id": banner_id}


def _staff_view(ctx: Context, banner_id: UUID) -> dict[str, Any]:
    return BANNER_TABLE.fetch_for_staff(
        ctx.session, banner_id, now=ctx.now, media_base_url=ctx.media_base_url
    )
