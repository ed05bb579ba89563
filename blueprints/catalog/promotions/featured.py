"""Featured products: listed for everybody, chosen by staff."""

from typing import Any
from uuid import UUID

from blueprints.catalog.products.schemas import ProductCard
from blueprints.catalog.promotions.schemas import (
    AddFeatured,
    CampusQuery,
    ChangeFeatured,
    StaffFeatured,
    StaffPromotionQuery,
)
from blueprints.http.contract import PRODUCT_STAFF, PUBLIC, SharedLimit
from blueprints.http.endpoint import Context, ContractBlueprint
from blueprints.http.fields import Deleted
from blueprints.http.request_parsing import expected_revision, omit_fields
from marketplace.catalog import cache_tags
from marketplace.catalog.promotions import featured
from marketplace.catalog.promotions.common import PromotionEndedError
from marketplace.kernel.errors import ConflictOfInterestError, StaleRevisionError
from marketplace.kernel.paging import Page

area = ContractBlueprint("featured", "/api/products/featured", "Featured products")


@area.get(
    "",
    auth=PUBLIC,
    limit=SharedLimit.CALLER_TIER,
    query=CampusQuery,
    reply=ProductCard(many=True),
    cache=300,
    tags=(cache_tags.FEATURED, cache_tags.PRODUCTS),
)
def list_featured(ctx: Context, query: dict[str, Any]) -> Page:
    """List the products that staff put forward, in their order."""
    return featured.list_featured_cards(
        ctx.session,
        campus=query.get("campus"),
        page=ctx.page,
        now=ctx.now,
        media_base_url=ctx.media_base_url,
    )


@area.get(
    "/all",
    auth=PRODUCT_STAFF,
    limit=SharedLimit.CALLER_TIER,
    query=StaffPromotionQuery,
    reply=StaffFeatured(many=True),
)
def list_all(ctx: Context, query: dict[str, Any]) -> Page:
    """List featured products of any state for staff, the last made first."""
    return featured.FEATURED_TABLE.list_for_staff(
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
    body=AddFeatured,
    reply=StaffFeatured,
    status=201,
    raises=(featured.AlreadyFeaturedError, ConflictOfInterestError),
)
def feature_product(ctx: Context, body: dict[str, Any]) -> dict[str, Any]:
    """Feature a product."""
    entry_id = featured.create_featured_product(
        ctx.session,
        ctx.act,
        product_id=body["product_id"],
        position=body["position"],
        starts_at=body.get("starts_at"),
        ends_at=body["ends_at"],
    )
    return _staff_view(ctx, entry_id)


@area.put(
    "/<uuid:entry_id>",
    auth=PRODUCT_STAFF,
    limit=SharedLimit.CALLER_TIER,
    body=ChangeFeatured,
    reply=StaffFeatured,
    raises=(featured.AlreadyFeaturedError, ConflictOfInterestError, PromotionEndedError, StaleRevisionError),
)
def change_featured(ctx: Context, entry_id: UUID, body: dict[str, Any]) -> dict[str, Any]:
    """Change where, or when, a product is featured."""
    featured.update_featured_product(
        ctx.session,
        ctx.act,
        entry_id=entry_id,
        revision=expected_revision(body.get("revision")),
        changes=omit_fields(body, "revision"),
    )
    return _staff_view(ctx, entry_id)


@area.delete(
    "/<uuid:entry_id>",
    auth=PRODUCT_STAFF,
    limit=SharedLimit.CALLER_TIER,
    reply=Deleted,
    raises=(ConflictOfInterestError, PromotionEndedError),
)
def end_featured(ctx: Context, entry_id: UUID) -> dict[str, Any]:
    """Feature a product no longer."""
    featured.end_featured_product(ctx.session, ctx.act, entry_id=entry_id)
    return {"deleted": True, "id": entry_id}


def _staff_view(ctx: Context, entry_id: UUID) -> dict[str, Any]:
    return featured.FEATURED_TABLE.fetch_for_staff(
        ctx.session, entry_id, now=ctx.now, media_base_url=ctx.media_base_url
    )
