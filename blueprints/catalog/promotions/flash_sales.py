"""Flash sales: listed for everybody, made, changed and ended by staff."""

from typing import Any
from uuid import UUID

from blueprints.catalog.promotions.schemas import (
    ActiveFlashSaleQuery,
    AddFlashSale,
    ChangeFlashSale,
    FlashSaleQuery,
    FlashSaleView,
    StaffFlashSale,
    StaffFlashSaleQuery,
)
from blueprints.http.contract import PRODUCT_STAFF, PUBLIC, SharedLimit
from blueprints.http.endpoint import Context, ContractBlueprint
from blueprints.http.request_parsing import expected_revision, omit_fields
from marketplace.catalog import cache_tags
from marketplace.catalog.promotions import flash_sale_listing, flash_sales, listing
from marketplace.catalog.promotions.common import PromotionEndedError
from marketplace.catalog.promotions.flash_sales import Discount
from marketplace.kernel.errors import ConflictOfInterestError, StaleRevisionError
from marketplace.kernel.paging import Page

area = ContractBlueprint("flash_sales", "/api/flash-sales", "Flash sales")

_DISCOUNT_FIELDS = ("sale_price_minor", "percent_off")


@area.get(
    "/active",
    auth=PUBLIC,
    limit=SharedLimit.CALLER_TIER,
    query=ActiveFlashSaleQuery,
    reply=FlashSaleView(many=True),
    cache=60,
    tags=(cache_tags.FLASH_SALES, cache_tags.PRODUCTS),
)
def list_active(ctx: Context, query: dict[str, Any]) -> Page:
    """List the flash sales that run and have pieces left, the next to end first."""
    return _list_public(ctx, state=listing.RUNNING, campus=query.get("campus"))


@area.get(
    "", auth=PUBLIC, limit=SharedLimit.CALLER_TIER, query=FlashSaleQuery, reply=FlashSaleView(many=True)
)
def list_flash_sales(ctx: Context, query: dict[str, Any]) -> Page:
    """List the flash sales that run or are to come."""
    return _list_public(ctx, state=query.get("state"), campus=query.get("campus"))


@area.get(
    "/all",
    auth=PRODUCT_STAFF,
    limit=SharedLimit.CALLER_TIER,
    query=StaffFlashSaleQuery,
    reply=StaffFlashSale(many=True),
)
def list_all(ctx: Context, query: dict[str, Any]) -> Page:
    """List flash sales of any state for staff, the last made first."""
    return flash_sale_listing.list_flash_sales_for_staff(
        ctx.session,
        state=query.get("state"),
        product_id=query.get("product_id"),
        page=ctx.page,
        now=ctx.now,
    )


@area.post(
    "",
    auth=PRODUCT_STAFF,
    limit=SharedLimit.CALLER_TIER,
    body=AddFlashSale,
    reply=StaffFlashSale,
    status=201,
    raises=(ConflictOfInterestError, flash_sales.OverlappingSaleError),
)
def create_flash_sale(ctx: Context, body: dict[str, Any]) -> Any:
    """Make a flash sale."""
    sale_id = flash_sales.create_flash_sale(
        ctx.session,
        ctx.act,
        product_id=body["product_id"],
        discount=Discount(body.get("sale_price_minor"), body.get("percent_off")),
        starts_at=body.get("starts_at"),
        ends_at=body["ends_at"],
        quantity=body["quantity"],
    )
    return _staff_view(ctx, sale_id)


@area.put(
    "/<uuid:sale_id>",
    auth=PRODUCT_STAFF,
    limit=SharedLimit.CALLER_TIER,
    body=ChangeFlashSale,
    reply=StaffFlashSale,
    raises=(
        ConflictOfInterestError,
        flash_sales.OverlappingSaleError,
        PromotionEndedError,
        flash_sales.QuantityBelowSoldError,
        StaleRevisionError,
    ),
)
def change_flash_sale(ctx: Context, sale_id: UUID, body: dict[str, Any]) -> Any:
    """Change a flash sale that is not over."""
    discounted = any(name in body for name in _DISCOUNT_FIELDS)
    flash_sales.update_flash_sale(
        ctx.session,
        ctx.act,
        sale_id=sale_id,
        revision=expected_revision(body.get("revision")),
        discount=Discount(*map(body.get, _DISCOUNT_FIELDS)) if discounted else None,
        changes=omit_fields(body, *_DISCOUNT_FIELDS, "revision"),
    )
    return _staff_view(ctx, sale_id)


@area.post(
    "/<uuid:sale_id>/end",
    auth=PRODUCT_STAFF,
    limit=SharedLimit.CALLER_TIER,
    reply=StaffFlashSale,
    raises=(ConflictOfInterestError, PromotionEndedError),
)
def end_flash_sale(ctx: Context, sale_id: UUID) -> Any:
    """End a flash sale now, or call it off before it begins."""
    flash_sales.end_flash_sale(ctx.session, ctx.act, sale_id=sale_id)
    return _staff_view(ctx, sale_id)


def _list_public(ctx: Context, *, state: str | None, campus: str | None) -> Page:
    return flash_sale_listing.list_public_flash_sales(
        ctx.session,
        state=state,
        campus=campus,
        page=ctx.page,
        now=ctx.now,
        media_base_url=ctx.media_base_url,
    )


def _staff_view(ctx: Context, sale_id: UUID) -> Any:
    return flash_sale_listing.fetch_flash_sale_for_staff(ctx.session, sale_id=sale_id, now=ctx.now)
