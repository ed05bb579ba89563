"""Ways into the catalog: what trends, what is new, what is exclusive, what a store has, what somebody names."""

from typing import Any
from uuid import UUID

from blueprints.catalog.browse.schemas import Counted, NamedMeta, NamedProducts
from blueprints.catalog.products.schemas import PlaceQuery, ProductCard, StoreQuery
from blueprints.http.contract import OPTIONAL, PUBLIC, Shared
from blueprints.http.endpoint import Area, Context
from marketplace.catalog import cache_tags
from marketplace.catalog.browse import collections, trending
from marketplace.catalog.browse.listing import Filters
from marketplace.catalog.statistics import counters
from marketplace.kernel.paging import Annotated, Page

area = Area("discovery", "/api/products", "What trends, is new, exclusive, of one store, or named")


@area.get(
    "/trending",
    auth=PUBLIC,
    limit=Shared.GLOBAL,
    query=PlaceQuery,
    reply=ProductCard(many=True),
    cache=60,
    tags=(cache_tags.PRODUCTS, cache_tags.TRENDING),
)
def list_trending(ctx: Context, query: dict[str, Any]) -> Page:
    """List products by the views and cart adds of the last 24 hours."""
    return trending.list_trending(ctx.session, filters=Filters(**query), **_terms(ctx))


@area.get(
    "/new-arrivals",
    auth=PUBLIC,
    limit=Shared.GLOBAL,
    query=PlaceQuery,
    reply=ProductCard(many=True),
    cache=60,
    tags=(cache_tags.PRODUCTS,),
)
def list_new_arrivals(ctx: Context, query: dict[str, Any]) -> Page:
    """List products that were published within the last 14 days, the newest first."""
    return collections.list_new_arrivals(ctx.session, filters=Filters(**query), **_terms(ctx))


@area.get(
    "/exclusives",
    auth=PUBLIC,
    limit=Shared.GLOBAL,
    query=PlaceQuery,
    reply=ProductCard(many=True),
    cache=60,
    tags=(cache_tags.PRODUCTS,),
)
def list_exclusives(ctx: Context, query: dict[str, Any]) -> Page:
    """List the exclusive products of verified stores, the newest first."""
    return collections.list_exclusives(ctx.session, filters=Filters(**query), **_terms(ctx))


@area.get(
    "/vendor/<uuid:vendor_id>",
    auth=OPTIONAL,
    limit=Shared.GLOBAL,
    query=StoreQuery,
    reply=ProductCard(many=True),
    cache=60,
    tags=(cache_tags.PRODUCTS,),
)
def list_of_vendor(ctx: Context, vendor_id: UUID, query: dict[str, Any]) -> Page:
    """List the products of one store, the same for everybody."""
    sort = query["sort"]
    filters = Filters(**{name: value for name, value in query.items() if name != "sort"})
    return collections.list_of_vendor(
        ctx.session, vendor_id=vendor_id, filters=filters, sort=sort, **_terms(ctx)
    )


@area.post(
    "/bulk",
    auth=PUBLIC,
    limit=Shared.GLOBAL,
    body=NamedProducts,
    reply=ProductCard(many=True),
    meta=NamedMeta,
    autocommit=True,
)
def get_named(ctx: Context, body: dict[str, Any]) -> Annotated:
    """Give up to 100 products by their ids, in that order; `meta.missing` names the others."""
    found, missing = collections.named_products(
        ctx.session,
        product_ids=body["ids"],
        now=ctx.now,
        media_base_url=ctx.services.settings.media_base_url,
    )
    return Annotated(found, {"missing": missing})


@area.post(
    "/<uuid:product_id>/stats/<type>",
    auth=PUBLIC,
    limit="120/minute",
    choices={"type": counters.TYPES},
    reply=Counted,
    autocommit=True,
)
def count(ctx: Context, product_id: UUID, type: str) -> dict[str, Any]:  # noqa: A002 - the specification's name
    """Count that a product was looked at, put into a cart, or shared."""
    counters.count(ctx.session, cache=ctx.services.cache, product_id=product_id, kind=type, now=ctx.now)
    return {"counted": True, "type": type, "productId": product_id}


def _terms(ctx: Context) -> dict[str, Any]:
    return {"page": ctx.page, "now": ctx.now, "media_base_url": ctx.services.settings.media_base_url}
