"""Routes for products, product images and categories."""

from functools import partial
from typing import Any
from uuid import UUID

from blueprints.catalog.products.schemas import (
    AddProduct,
    CategoryNode,
    ProductCard,
    ProductDetail,
    ProductQuery,
    UpdateProduct,
)
from blueprints.http import (
    OPTIONAL,
    PUBLIC,
    VENDOR,
    VENDOR_OR_STAFF,
    Context,
    ContractBlueprint,
    FinalPhase,
    SharedLimit,
    Upload,
    UploadedFile,
    expected_revision,
    omit_fields,
)
from blueprints.http.image_views import ImageView
from marketplace.catalog import cache_tags, vendor_products
from marketplace.catalog.browse import listing, product_detail
from marketplace.infra.imaging.formats import FORMATS
from marketplace.kernel.errors import PermissionRequiredError, StaleRevisionError
from marketplace.kernel.paging import Page
from marketplace.kernel.states import IllegalTransitionError
from marketplace.media import images
from marketplace.vendors.queries import StoreRequiredError

area = ContractBlueprint("catalog", "/api/products", "Products, catalog, discovery")
image_area = ContractBlueprint("images", "/api/products", "Products, catalog, discovery")


@area.get(
    "",
    auth=PUBLIC,
    limit=SharedLimit.CALLER_TIER,
    query=ProductQuery,
    reply=ProductCard(many=True),
    cache=300,
    tags=(cache_tags.PRODUCTS,),
)
def list_products(ctx: Context, query: dict[str, Any]) -> Page:
    """List published products with filters and a sort order."""
    return listing.list_products(
        ctx.session,
        sort=query["sort"],
        filters=listing.ProductFilters(**omit_fields(query, "sort")),
        page=ctx.page,
        now=ctx.now,
        media_base_url=ctx.media_base_url,
    )


@area.get(
    "/categories",
    auth=PUBLIC,
    limit=SharedLimit.CALLER_TIER,
    reply=CategoryNode(many=True),
    cache=3600,
    tags=(cache_tags.CATEGORIES,),
)
def list_categories(ctx: Context) -> list[dict[str, Any]]:
    """List the category tree, with the number of active listings in each category."""
    return product_detail.fetch_category_tree(ctx.session, now=ctx.now)


@area.get("/<uuid:product_id>", auth=OPTIONAL, limit=SharedLimit.CALLER_TIER, reply=ProductDetail)
def get_product(ctx: Context, product_id: UUID) -> dict[str, Any]:
    """Fetch a product with the vendor's reputation and related products."""
    return _product_view(ctx, product_id)


@area.post(
    "",
    auth=VENDOR_OR_STAFF,
    limit=SharedLimit.MERCHANT_TIER,
    body=AddProduct,
    reply=ProductDetail,
    status=201,
    raises=(
        vendor_products.ForeignStoreError,
        IllegalTransitionError,
        PermissionRequiredError,
        vendor_products.StoreNotActiveError,
        StoreRequiredError,
        vendor_products.VerifiedStoreRequiredError,
    ),
)
def create_product(ctx: Context, body: dict[str, Any]) -> dict[str, Any]:
    """Create a listing, and submit the listing for screening unless it is a draft."""
    product_id = vendor_products.create_product(
        ctx.session,
        caller=ctx.user,
        vendor_id=body.get("vendor_id"),
        image_ids=body["image_ids"],
        status=body["status"],
        fields=omit_fields(body, "vendor_id", "image_ids", "status"),
        now=ctx.now,
    )
    return _product_view(ctx, product_id)


@area.put(
    "/<uuid:product_id>",
    auth=VENDOR,
    limit=SharedLimit.MERCHANT_TIER,
    body=UpdateProduct,
    reply=ProductDetail,
    raises=(
        IllegalTransitionError,
        vendor_products.ListingTakenDownError,
        vendor_products.QuantityBelowReservedError,
        StaleRevisionError,
        vendor_products.StoreNotActiveError,
        vendor_products.VerifiedStoreRequiredError,
    ),
)
def update_product(ctx: Context, product_id: UUID, body: dict[str, Any]) -> dict[str, Any]:
    """Change a listing of your own store."""
    vendor_products.update_product(
        ctx.session,
        caller=ctx.user,
        product_id=product_id,
        revision=expected_revision(body.get("revision")),
        image_ids=body.get("image_ids"),
        status=body.get("status"),
        changes=omit_fields(body, "revision", "image_ids", "status"),
        now=ctx.now,
    )
    return _product_view(ctx, product_id)


@image_area.post(
    "/images",
    auth=VENDOR_OR_STAFF,
    limit="60/15 minute",
    upload=Upload(
        field="file",
        max_bytes=images.MAX_BYTES,
        accepts=tuple(one.content_type for one in FORMATS.values()),
    ),
    reply=ImageView,
    status=201,
    phased=True,
    raises=(images.ImageUploadExpiredError,),
)
def upload_product_image(ctx: Context, file: UploadedFile) -> FinalPhase:
    """Upload an image for use in your own listings."""
    settings = ctx.services.settings
    image_id = images.upload_image(
        ctx.services.database,
        ctx.services.storage,
        bucket=settings.s3_public_bucket,
        owner_id=ctx.user.id,
        file=file.content,
        sha256=file.sha256,
        now=ctx.now,
    )
    return FinalPhase(
        partial(images.complete_upload, image_id=image_id, media_base_url=settings.media_base_url)
    )


def _product_view(ctx: Context, product_id: UUID) -> dict[str, Any]:
    return product_detail.fetch_product_detail(
        ctx.session,
        product_id=product_id,
        caller=ctx.caller,
        now=ctx.now,
        media_base_url=ctx.media_base_url,
    )
