"""Pictures of products are uploaded."""

from functools import partial

from blueprints.catalog.products.schemas import ProductImageView
from blueprints.http.context import Context, FinalPhase
from blueprints.http.contract import VENDOR_OR_STAFF, Upload
from blueprints.http.endpoint import ContractBlueprint
from blueprints.http.uploads import UploadedFile
from marketplace.catalog.media import images
from marketplace.infra.imaging.formats import FORMATS

area = ContractBlueprint("images", "/api/products", "Products, catalog, discovery")


@area.post(
    "/images",
    auth=VENDOR_OR_STAFF,
    limit="60/15 minute",
    upload=Upload(
        field="file",
        max_bytes=images.MAX_BYTES,
        accepts=tuple(one.content_type for one in FORMATS.values()),
    ),
    reply=ProductImageView,
    status=201,
    phased=True,
    raises=(images.ImageUploadExpiredError,),
)
def upload_image(ctx: Context, file: UploadedFile) -> FinalPhase:
    """Take in a picture, which listings of the caller can show from then on."""
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
