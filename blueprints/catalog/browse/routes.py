"""Routes for product collections, product counters, and the vendor's inventory."""

from typing import Any
from uuid import UUID

from blueprints.catalog.browse.schemas import (
    CountedProductEvent,
    InventoryItem,
    InventoryMeta,
    InventoryQuery,
    ProductIds,
    ProductsByIdMeta,
)
from blueprints.catalog.products.schemas import CampusCategoryQuery, ProductCard, StoreProductQuery
from blueprints.http import OPTIONAL, PUBLIC, VENDOR, Context, ContractBlueprint, SharedLimit, omit_fields
from marketplace.catalog import cache_tags
from marketplace.catalog.browse import collections, vendor_inventory
from marketplace.catalog.browse.listing import ProductFilters
from marketplace.catalog.statistics import counters
from marketplace.kernel.paging import DataWithMeta, Page, TablePage
from marketplace.vendors.queries import StoreRequiredError

area = ContractBlueprint(
    "discovery",
    "/api/products",
    "Product collections",
)
inventory_area = ContractBlueprint("inventory", "/api/products/vendor", "Vendor inventory")


@area.get(
    "/trending",
    auth=PUBLIC,
    limit=SharedLimit.CALLER_TIER,
    query=CampusCategoryQuery,
    reply=ProductCard(many=True),
    cache=60,
    tags=(cache_tags.PRODUCTS, cache_tags.TRENDING),
)
def list_trending_products(ctx: Context, query: dict[str, Any]) -> Page:
    """List products by views and cart adds of the last 24 hours, then by popularity."""
    return collections.list_trending(ctx.session, filters=ProductFilters(**query), **_listing_arguments(ctx))


@area.get(
    "/new-arrivals",
    auth=PUBLIC,
    limit=SharedLimit.CALLER_TIER,
    query=CampusCategoryQuery,
    reply=ProductCard(many=True),
    cache=60,
    tags=(cache_tags.PRODUCTS,),
)
def list_new_arrivals(ctx: Context, query: dict[str, Any]) -> Page:
    """List products published within the last 14 days, newest first."""
    return collections.list_new_arrivals(
        ctx.session, filters=ProductFilters(**query), **_listing_arguments(ctx)
    )


@area.get(
    "/exclusives",
    auth=PUBLIC,
    limit=SharedLimit.CALLER_TIER,
    query=CampusCategoryQuery,
    reply=ProductCard(many=True),
    cache=60,
    tags=(cache_tags.PRODUCTS,),
)
def list_exclusive_products(ctx: Context, query: dict[str, Any]) -> Page:
    """List exclusive products of verified stores, newest first."""
    return collections.list_exclusives(
        ctx.session, filters=ProductFilters(**query), **_listing_arguments(ctx)
    )


@area.get(
    "/vendor/<uuid:vendor_id>",
    auth=OPTIONAL,
    limit=SharedLimit.CALLER_TIER,
    query=StoreProductQuery,
    reply=ProductCard(many=True),
    cache=60,
    tags=(cache_tags.PRODUCTS,),
)
def list_vendor_products(ctx: Context, vendor_id: UUID, query: dict[str, Any]) -> Page:
    """List the public products of a store."""
    return collections.list_vendor_products(
        ctx.session,
        vendor_id=vendor_id,
        filters=ProductFilters(**omit_fields(query, "sort")),
        sort=query["sort"],
        **_listing_arguments(ctx),
    )


@area.post(
    "/bulk",
    auth=PUBLIC,
    limit=SharedLimit.CALLER_TIER,
    body=ProductIds,
    reply=ProductCard(many=True),
    meta=ProductsByIdMeta,
    autocommit=True,
)
def list_products_by_ids(ctx: Context, body: dict[str, Any]) -> DataWithMeta:
    """List up to 100 products by id, in request order; `meta.missing` lists the other ids."""
    found, missing = collections.list_products_by_ids(
        ctx.session, product_ids=body["ids"], now=ctx.now, media_base_url=ctx.media_base_url
    )
    return DataWithMeta(found, {"missing": missing})


@area.post(
    "/<uuid:product_id>/stats/<type>",
    auth=PUBLIC,
    limit="120/minute",
    choices={"type": counters.EVENT_TYPES},
    reply=CountedProductEvent,
    autocommit=True,
)
def count_product_event(ctx: Context, product_id: UUID, type: str) -> dict[str, Any]:  # noqa: A002 - the specification's name
    """Count a view, a cart add or a share of a product."""
    counters.count_product_event(
        ctx.session, cache=ctx.services.cache, product_id=product_id, kind=type, now=ctx.now
    )
    return {"counted": True, "type": type, "product_id": product_id}


@inventory_area.get(
    "/paginated",
    auth=VENDOR,
    limit=SharedLimit.MERCHANT_TIER,
    query=InventoryQuery,
    reply=InventoryItem(many=True),
    meta=InventoryMeta,
    raises=(StoreRequiredError,),
)
def list_inventory(ctx: Context, query: dict[str, Any]) -> TablePage:
    """List your own store's products in every status, by `page` or by `cursor`."""
    return vendor_inventory.list_inventory(
        ctx.session,
        user_id=ctx.user.id,
        filters=vendor_inventory.InventoryFilters(**query),
        page=ctx.table,
        now=ctx.now,
        media_base_url=ctx.media_base_url,
    )


def _listing_arguments(ctx: Context) -> dict[str, Any]:
    return {"page": ctx.page, "now": ctx.now, "media_base_url": ctx.media_base_url}
