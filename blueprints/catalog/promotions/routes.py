"""Routes for banners, vibes, featured products and flash sales: public listings, and changes by staff."""

from typing import Any
from uuid import UUID

from blueprints.catalog.products.schemas import CampusQuery, ProductCard
from blueprints.catalog.promotions.schemas import (
    AddBanner,
    AddFeatured,
    AddFlashSale,
    AddVibe,
    BannerQuery,
    BannerView,
    ChangeBanner,
    ChangeFeatured,
    ChangeFlashSale,
    ChangeVibe,
    FlashSaleQuery,
    FlashSaleView,
    StaffBanner,
    StaffFeatured,
    StaffFlashSale,
    StaffFlashSaleQuery,
    StaffPromotionQuery,
    StaffVibe,
    VibeView,
)
from blueprints.http import (
    PRODUCT_STAFF,
    PUBLIC,
    Context,
    ContractBlueprint,
    Deleted,
    SharedLimit,
    expected_revision,
    omit_fields,
)
from marketplace.catalog import cache_tags
from marketplace.catalog.promotions import featured, flash_sale_listing, flash_sales, listing, vibes
from marketplace.catalog.promotions.banners import BANNER_TABLE, BANNERS, HAS_PLACEMENT_SQL
from marketplace.catalog.promotions.common import PromotionEndedError, PromotionStartedError
from marketplace.kernel.errors import ConflictOfInterestError, StaleRevisionError
from marketplace.kernel.paging import Page

banner_area = ContractBlueprint("banners", "/api/banners", "Banners")
vibe_area = ContractBlueprint("vibes", "/api/vibes", "Vibes")
featured_area = ContractBlueprint("featured", "/api/products/featured", "Featured products")
flash_sale_area = ContractBlueprint("flash_sales", "/api/flash-sales", "Flash sales")

_VIBE_CACHE_TAGS = (cache_tags.VIBES, cache_tags.PRODUCTS)
_DISCOUNT_FIELDS = ("sale_price_minor", "percent_off")


@banner_area.get(
    "",
    auth=PUBLIC,
    limit=SharedLimit.CALLER_TIER,
    query=BannerQuery,
    reply=BannerView(many=True),
    cache=300,
    tags=(cache_tags.BANNERS,),
)
def list_banners(ctx: Context, query: dict[str, Any]) -> Page:
    """List running banners by position."""
    return BANNER_TABLE.list_running(
        ctx.session,
        campus=query.get("campus"),
        condition=HAS_PLACEMENT_SQL,
        placement=query.get("placement"),
        page=ctx.page,
        now=ctx.now,
        media_base_url=ctx.media_base_url,
    )


@banner_area.get(
    "/all",
    auth=PRODUCT_STAFF,
    limit=SharedLimit.CALLER_TIER,
    query=StaffPromotionQuery,
    reply=StaffBanner(many=True),
)
def list_banners_for_staff(ctx: Context, query: dict[str, Any]) -> Page:
    """List banners in any state for staff, newest first."""
    return _list_for_staff(ctx, BANNER_TABLE, query)


@banner_area.post(
    "", auth=PRODUCT_STAFF, limit=SharedLimit.CALLER_TIER, body=AddBanner, reply=StaffBanner, status=201
)
def create_banner(ctx: Context, body: dict[str, Any]) -> dict[str, Any]:
    """Create a banner."""
    return _staff_view(ctx, BANNER_TABLE, BANNERS.create(ctx.session, ctx.act, body))


@banner_area.put(
    "/<uuid:banner_id>",
    auth=PRODUCT_STAFF,
    limit=SharedLimit.CALLER_TIER,
    body=ChangeBanner,
    reply=StaffBanner,
    raises=(PromotionEndedError, PromotionStartedError, StaleRevisionError),
)
def update_banner(ctx: Context, banner_id: UUID, body: dict[str, Any]) -> dict[str, Any]:
    """Change a banner that has not ended."""
    BANNERS.update(
        ctx.session,
        ctx.act,
        banner_id,
        revision=expected_revision(body.get("revision")),
        changes=omit_fields(body, "revision"),
    )
    return _staff_view(ctx, BANNER_TABLE, banner_id)


@banner_area.delete(
    "/<uuid:banner_id>",
    auth=PRODUCT_STAFF,
    limit=SharedLimit.CALLER_TIER,
    reply=Deleted,
    raises=(PromotionEndedError,),
)
def end_banner(ctx: Context, banner_id: UUID) -> dict[str, Any]:
    """End a banner now."""
    BANNERS.end(ctx.session, ctx.act, banner_id)
    return {"deleted": True, "id": banner_id}


@vibe_area.get(
    "",
    auth=PUBLIC,
    limit=SharedLimit.CALLER_TIER,
    query=CampusQuery,
    reply=VibeView(many=True),
    cache=300,
    tags=_VIBE_CACHE_TAGS,
)
def list_vibes(ctx: Context, query: dict[str, Any]) -> Page:
    """List running vibes, each with its first products."""
    return vibes.list_running_vibes(
        ctx.session,
        campus=query.get("campus"),
        page=ctx.page,
        now=ctx.now,
        media_base_url=ctx.media_base_url,
    )


@vibe_area.get(
    "/<string:vibe_id>",
    auth=PUBLIC,
    limit=SharedLimit.CALLER_TIER,
    reply=VibeView,
    cache=300,
    tags=_VIBE_CACHE_TAGS,
)
def get_vibe(ctx: Context, vibe_id: str) -> dict[str, Any]:
    """Fetch a running vibe by id or slug, with all its products."""
    return vibes.fetch_running_vibe(ctx.session, vibe=vibe_id, now=ctx.now, media_base_url=ctx.media_base_url)


@vibe_area.get(
    "/all",
    auth=PRODUCT_STAFF,
    limit=SharedLimit.CALLER_TIER,
    query=StaffPromotionQuery,
    reply=StaffVibe(many=True),
)
def list_vibes_for_staff(ctx: Context, query: dict[str, Any]) -> Page:
    """List vibes in any state for staff, newest first."""
    return _list_for_staff(ctx, vibes.VIBE_TABLE, query)


@vibe_area.post(
    "",
    auth=PRODUCT_STAFF,
    limit=SharedLimit.CALLER_TIER,
    body=AddVibe,
    reply=StaffVibe,
    status=201,
    raises=(ConflictOfInterestError, vibes.SlugTakenError),
)
def create_vibe(ctx: Context, body: dict[str, Any]) -> dict[str, Any]:
    """Create a vibe."""
    vibe_id = vibes.create_vibe(
        ctx.session, ctx.act, fields=omit_fields(body, "product_ids"), product_ids=body["product_ids"]
    )
    return _staff_view(ctx, vibes.VIBE_TABLE, vibe_id)


@vibe_area.put(
    "/<uuid:vibe_id>",
    auth=PRODUCT_STAFF,
    limit=SharedLimit.CALLER_TIER,
    body=ChangeVibe,
    reply=StaffVibe,
    raises=(
        ConflictOfInterestError,
        PromotionEndedError,
        PromotionStartedError,
        vibes.SlugTakenError,
        StaleRevisionError,
    ),
)
def update_vibe(ctx: Context, vibe_id: UUID, body: dict[str, Any]) -> dict[str, Any]:
    """Change a vibe that has not ended."""
    vibes.update_vibe(
        ctx.session,
        ctx.act,
        vibe_id=vibe_id,
        revision=expected_revision(body.get("revision")),
        changes=omit_fields(body, "revision", "product_ids"),
        product_ids=body.get("product_ids"),
    )
    return _staff_view(ctx, vibes.VIBE_TABLE, vibe_id)


@vibe_area.delete(
    "/<uuid:vibe_id>",
    auth=PRODUCT_STAFF,
    limit=SharedLimit.CALLER_TIER,
    reply=Deleted,
    raises=(PromotionEndedError,),
)
def end_vibe(ctx: Context, vibe_id: UUID) -> dict[str, Any]:
    """End a vibe now."""
    vibes.VIBES.end(ctx.session, ctx.act, vibe_id)
    return {"deleted": True, "id": vibe_id}


@featured_area.get(
    "",
    auth=PUBLIC,
    limit=SharedLimit.CALLER_TIER,
    query=CampusQuery,
    reply=ProductCard(many=True),
    cache=300,
    tags=(cache_tags.FEATURED, cache_tags.PRODUCTS),
)
def list_featured_products(ctx: Context, query: dict[str, Any]) -> Page:
    """List featured products in the order chosen by staff."""
    return featured.list_featured_cards(
        ctx.session,
        campus=query.get("campus"),
        page=ctx.page,
        now=ctx.now,
        media_base_url=ctx.media_base_url,
    )


@featured_area.get(
    "/all",
    auth=PRODUCT_STAFF,
    limit=SharedLimit.CALLER_TIER,
    query=StaffPromotionQuery,
    reply=StaffFeatured(many=True),
)
def list_featured_products_for_staff(ctx: Context, query: dict[str, Any]) -> Page:
    """List featured products in any state for staff, newest first."""
    return _list_for_staff(ctx, featured.FEATURED_TABLE, query)


@featured_area.post(
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
    return _staff_view(ctx, featured.FEATURED_TABLE, entry_id)


@featured_area.put(
    "/<uuid:entry_id>",
    auth=PRODUCT_STAFF,
    limit=SharedLimit.CALLER_TIER,
    body=ChangeFeatured,
    reply=StaffFeatured,
    raises=(
        featured.AlreadyFeaturedError,
        ConflictOfInterestError,
        PromotionEndedError,
        PromotionStartedError,
        StaleRevisionError,
    ),
)
def update_featured_product(ctx: Context, entry_id: UUID, body: dict[str, Any]) -> dict[str, Any]:
    """Change the position or the period of a featured product."""
    featured.update_featured_product(
        ctx.session,
        ctx.act,
        entry_id=entry_id,
        revision=expected_revision(body.get("revision")),
        changes=omit_fields(body, "revision"),
    )
    return _staff_view(ctx, featured.FEATURED_TABLE, entry_id)


@featured_area.delete(
    "/<uuid:entry_id>",
    auth=PRODUCT_STAFF,
    limit=SharedLimit.CALLER_TIER,
    reply=Deleted,
    raises=(ConflictOfInterestError, PromotionEndedError),
)
def end_featured_product(ctx: Context, entry_id: UUID) -> dict[str, Any]:
    """Stop featuring a product now."""
    featured.end_featured_product(ctx.session, ctx.act, entry_id=entry_id)
    return {"deleted": True, "id": entry_id}


@flash_sale_area.get(
    "/active",
    auth=PUBLIC,
    limit=SharedLimit.CALLER_TIER,
    query=CampusQuery,
    reply=FlashSaleView(many=True),
    cache=60,
    tags=(cache_tags.FLASH_SALES, cache_tags.PRODUCTS),
)
def list_active_flash_sales(ctx: Context, query: dict[str, Any]) -> Page:
    """List running flash sales with units left, the next to end first."""
    return _list_public(ctx, state=listing.RUNNING, campus=query.get("campus"))


@flash_sale_area.get(
    "", auth=PUBLIC, limit=SharedLimit.CALLER_TIER, query=FlashSaleQuery, reply=FlashSaleView(many=True)
)
def list_flash_sales(ctx: Context, query: dict[str, Any]) -> Page:
    """List running and upcoming flash sales."""
    return _list_public(ctx, state=query.get("state"), campus=query.get("campus"))


@flash_sale_area.get(
    "/all",
    auth=PRODUCT_STAFF,
    limit=SharedLimit.CALLER_TIER,
    query=StaffFlashSaleQuery,
    reply=StaffFlashSale(many=True),
)
def list_flash_sales_for_staff(ctx: Context, query: dict[str, Any]) -> Page:
    """List flash sales in any state for staff, newest first."""
    return flash_sale_listing.list_flash_sales_for_staff(
        ctx.session,
        state=query.get("state"),
        product_id=query.get("product_id"),
        page=ctx.page,
        now=ctx.now,
    )


@flash_sale_area.post(
    "",
    auth=PRODUCT_STAFF,
    limit=SharedLimit.CALLER_TIER,
    body=AddFlashSale,
    reply=StaffFlashSale,
    status=201,
    raises=(ConflictOfInterestError, flash_sales.OverlappingSaleError),
)
def create_flash_sale(ctx: Context, body: dict[str, Any]) -> Any:
    """Create a flash sale."""
    sale_id = flash_sales.create_flash_sale(
        ctx.session,
        ctx.act,
        product_id=body["product_id"],
        discount=flash_sales.Discount(body.get("sale_price_minor"), body.get("percent_off")),
        starts_at=body.get("starts_at"),
        ends_at=body["ends_at"],
        quantity=body["quantity"],
    )
    return _flash_sale_for_staff(ctx, sale_id)


@flash_sale_area.put(
    "/<uuid:sale_id>",
    auth=PRODUCT_STAFF,
    limit=SharedLimit.CALLER_TIER,
    body=ChangeFlashSale,
    reply=StaffFlashSale,
    raises=(
        ConflictOfInterestError,
        flash_sales.OverlappingSaleError,
        PromotionEndedError,
        PromotionStartedError,
        flash_sales.QuantityBelowSoldError,
        StaleRevisionError,
    ),
)
def update_flash_sale(ctx: Context, sale_id: UUID, body: dict[str, Any]) -> Any:
    """Change a flash sale that has not ended."""
    discounted = any(name in body for name in _DISCOUNT_FIELDS)
    flash_sales.update_flash_sale(
        ctx.session,
        ctx.act,
        sale_id=sale_id,
        revision=expected_revision(body.get("revision")),
        discount=flash_sales.Discount(*map(body.get, _DISCOUNT_FIELDS)) if discounted else None,
        changes=omit_fields(body, *_DISCOUNT_FIELDS, "revision"),
    )
    return _flash_sale_for_staff(ctx, sale_id)


@flash_sale_area.post(
    "/<uuid:sale_id>/end",
    auth=PRODUCT_STAFF,
    limit=SharedLimit.CALLER_TIER,
    reply=StaffFlashSale,
    raises=(ConflictOfInterestError, PromotionEndedError),
)
def end_flash_sale(ctx: Context, sale_id: UUID) -> Any:
    """End a running flash sale now, or cancel an upcoming flash sale."""
    flash_sales.end_flash_sale(ctx.session, ctx.act, sale_id=sale_id)
    return _flash_sale_for_staff(ctx, sale_id)


def _list_public(ctx: Context, *, state: str | None, campus: str | None) -> Page:
    return flash_sale_listing.list_public_flash_sales(
        ctx.session,
        state=state,
        campus=campus,
        page=ctx.page,
        now=ctx.now,
        media_base_url=ctx.media_base_url,
    )


def _flash_sale_for_staff(ctx: Context, sale_id: UUID) -> Any:
    return flash_sale_listing.fetch_flash_sale_for_staff(ctx.session, sale_id=sale_id, now=ctx.now)


def _list_for_staff(ctx: Context, table: listing.PromotionTable, query: dict[str, Any]) -> Page:
    return table.list_for_staff(
        ctx.session,
        state=query.get("state"),
        page=ctx.page,
        now=ctx.now,
        media_base_url=ctx.media_base_url,
    )


def _staff_view(ctx: Context, table: listing.PromotionTable, row_id: UUID) -> dict[str, Any]:
    return table.fetch_for_staff(ctx.session, row_id, now=ctx.now, media_base_url=ctx.media_base_url)
