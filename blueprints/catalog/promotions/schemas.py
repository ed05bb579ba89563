"""Schemas of banners, vibes, featured products and flash sales."""

from functools import partial
from typing import Any
from urllib.parse import urlsplit

from marshmallow import ValidationError, fields, validate, validates_schema

from blueprints.catalog.products.schemas import CampusQuery, ProductCard
from blueprints.http.field_docs import doc
from blueprints.http.fields import (
    Choice,
    ClearableFields,
    ClearList,
    CursorQuery,
    ExpectedRevision,
    FullMatch,
    HttpUrl,
    Identified,
    MinorAmount,
    Revised,
    Schema,
    SingleLineText,
    StrictInteger,
    Text,
    Timestamp,
    UniqueList,
    Uuid,
)
from marketplace.catalog import states
from marketplace.catalog.moderation import rules
from marketplace.catalog.promotions import banners, flash_sale_listing, flash_sales, listing, vibes
from marketplace.catalog.promotions.common import MAX_POSITION
from marketplace.kernel import demo_ids
from marketplace.kernel.ids import parse_uuid

_MAX_LINK_LENGTH = 2_000


class PromotedProduct(Identified):
    """A promoted product for staff."""

    example_id = demo_ids.PRODUCT

    title = fields.String(required=True)
    status = Choice(
        *sorted(states.PRODUCT.states), required=True, metadata=doc("Status of the listing.", "published")
    )
    price_minor = MinorAmount(required=True)
    campus_id = Uuid(required=True)
    vendor_id = Uuid(required=True)


class PromotionLifecycle(Revised):
    """Creation and early end of a promotion."""

    created_by = Uuid(required=True)
    ended_at = Timestamp(required=True, allow_none=True)
    ended_by = Uuid(required=True, allow_none=True)


class BannerQuery(CampusQuery):
    """Filters of banners."""

    placement = Choice(*banners.PLACEMENTS, metadata=doc("Only banners of this place.", "hero"))


class StaffPromotionQuery(CursorQuery):
    """Filters of promotions for staff."""

    state = Choice(*listing.PROMOTION_STATES, metadata=doc("Only promotions in this state.", "running"))


class SafeLink(fields.String):
    """A link target: a path of the marketplace, or an http or https URL without credentials."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(validate=validate.Length(min=1, max=_MAX_LINK_LENGTH), **kwargs)

    def _deserialize(self, value: Any, attr: str | None, data: Any, **kwargs: Any) -> str:
        link: str = super()._deserialize(value, attr, data, **kwargs)
        if not _is_safe_link(link):
            raise ValidationError(
                "Must be a path such as /products, or an http or https URL without credentials."
            )
        return link


def _is_safe_link(link: str) -> bool:
    # Browsers read a backslash as a slash and drop line breaks. Neither may hide another host or scheme.
    if not link.isprintable() or " " in link or "\\" in link:
        return False
    if link.startswith("/"):
        return not link.startswith("//")
    try:
        parts = urlsplit(link)
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and bool(parts.hostname) and "@" not in parts.netloc


_position = partial(StrictInteger, minimum=0, maximum=MAX_POSITION, metadata={"description": "Lowest first."})
_starts_at = partial(Timestamp, metadata={"description": "Omit to start now."})
_image_id = partial(Uuid, metadata={"description": "Id of an uploaded image."})


class _PromotionFields(Schema):
    position = _position()
    starts_at = _starts_at()
    ends_at = Timestamp(metadata={"description": "Omit for an open end."})


class _PicturedPromotionFields(_PromotionFields):
    example_omits = frozenset({"image_url"})

    title = SingleLineText(max_length=120, metadata=doc("Title.", "Matriculation week"))
    campus_id = Uuid(metadata={"description": "Omit for all campuses."})

    @validates_schema
    def check_picture(self, data: dict[str, Any], **_kwargs: Any) -> None:
        """Refuse two sources of an image."""
        if "image_id" in data and "image_url" in data:
            raise ValidationError("Send either `imageId` or `imageUrl`.", "imageId")


class _BannerFields(_PicturedPromotionFields):
    subtitle = SingleLineText(
        max_length=200,
    )
    image_id = _image_id()
    image_url = HttpUrl()
    link = SafeLink()
    placement = Choice(*banners.PLACEMENTS)


class ChangeBanner(_BannerFields, ClearableFields, ExpectedRevision):
    """Changes to a banner. Omitted fields stay unchanged."""

    example_omits = frozenset({"image_url", "starts_at"})
    clear = ClearList("endsAt", "campusId", "subtitle", "link")


class AddBanner(_BannerFields):
    """A new banner with an uploaded image or an image URL."""

    title = SingleLineText(max_length=120, required=True)
    placement = Choice(*banners.PLACEMENTS, required=True)

    @validates_schema
    def check_there_is_one(self, data: dict[str, Any], **_kwargs: Any) -> None:
        """Require an image."""
        if "image_id" not in data and "image_url" not in data:
            raise ValidationError("Send `imageId` or `imageUrl`.", "imageId")


class _Promotion(Identified):
    position = StrictInteger(minimum=0, required=True)
    starts_at = Timestamp(required=True)
    ends_at = Timestamp(required=True, allow_none=True)


class _PicturedPromotion(_Promotion):
    title = fields.String(required=True, metadata=doc("Title.", "Exam season"))
    campus_id = Uuid(required=True, allow_none=True)


class BannerView(_PicturedPromotion):
    """A banner."""

    example_id = demo_ids.BANNER

    subtitle = fields.String(required=True, allow_none=True)
    image_url = fields.String(required=True)
    link = fields.String(required=True, allow_none=True)
    placement = Choice(*banners.PLACEMENTS, required=True)


class _StaffPromotion(PromotionLifecycle):
    state = Choice(
        *listing.PROMOTION_STATES,
        required=True,
        metadata=doc("State at the time of the response.", "running"),
    )


class StaffBanner(BannerView, _StaffPromotion):
    """A banner for staff."""

    image_id = Uuid(required=True, allow_none=True)


def _ensure_not_uuid(slug: str) -> None:
    # A path names a vibe by slug or id, so a slug must not look like an id.
    if parse_uuid(slug) is not None:
        raise ValidationError("Must not be a UUID.")


_slug = partial(
    fields.String,
    metadata=doc("Name for URLs, in lower case with hyphens.", "matriculation-week"),
    validate=[
        FullMatch(vibes.SLUG_PATTERN, error="Must be lower-case words joined by hyphens."),
        validate.Length(min=3, max=vibes.MAX_SLUG_LENGTH),
        validate.NoneOf(vibes.RESERVED_SLUGS, error="Must not be a word that the API reserves."),
        _ensure_not_uuid,
    ],
)
_product_ids = partial(UniqueList, Uuid(), max_length=vibes.MAX_PRODUCTS_PER_VIBE)


class _VibeFields(_PicturedPromotionFields):
    slug = _slug()
    description = Text(
        min_length=0,
        max_length=1_000,
        metadata=doc("Introduction to the products.", "Everything for the first week."),
    )
    image_id = _image_id()
    image_url = HttpUrl()
    product_ids = _product_ids(metadata={"description": "All products in display order."})


class ChangeVibe(_VibeFields, ClearableFields, ExpectedRevision):
    """Changes to a vibe. Omitted fields stay unchanged."""

    example_omits = frozenset({"image_url", "starts_at", "slug"})
    clear = ClearList("endsAt", "campusId", "imageId", "imageUrl")


class AddVibe(_VibeFields):
    """A new vibe."""

    slug = _slug(required=True)
    title = SingleLineText(max_length=120, required=True)
    product_ids = _product_ids(load_default=list, metadata={"description": "In display order."})


class _VibeBase(_PicturedPromotion):
    example_id = demo_ids.VIBE

    slug = fields.String(
        required=True, metadata=doc("Name for URLs, in lower case with hyphens.", "exam-season")
    )
    description = fields.String(
        required=True, metadata=doc("Introduction to the products.", "Everything for the reading room.")
    )
    image_url = fields.String(
        required=True,
        allow_none=True,
        metadata=doc(
            "URL of the image; null for none.", "https://media.example.com/products/5e884898da280471.webp"
        ),
    )


class VibeView(_VibeBase):
    """A vibe with the cards of its products."""

    products = fields.List(
        fields.Nested(ProductCard), required=True, metadata=doc("Products in display order.")
    )
    has_more = fields.Boolean(
        required=True,
        metadata=doc("Whether the vibe's detail has more products than the listing.", False),
    )


class StaffVibe(_VibeBase, _StaffPromotion):
    """A vibe for staff."""

    image_id = Uuid(
        required=True,
        allow_none=True,
        metadata=doc("Id of an uploaded image; null for none or an external image.", demo_ids.IMAGE),
    )
    product_ids = fields.List(Uuid(), required=True)


class AddFeatured(_PromotionFields):
    """A product to feature."""

    product_id = Uuid(required=True)
    position = _position(load_default=0)
    ends_at = Timestamp(load_default=None, metadata={"description": "Omit for an open end."})


class ChangeFeatured(_PromotionFields, ClearableFields, ExpectedRevision):
    """Changes to the position or the period of a featured product. Omitted fields stay unchanged."""

    example_omits = frozenset({"starts_at"})
    clear = ClearList("endsAt")


class StaffFeatured(_Promotion, _StaffPromotion):
    """A featured product for staff."""

    example_id = demo_ids.FEATURED_PRODUCT

    product = fields.Nested(PromotedProduct, required=True, metadata=doc("Featured product."))


_ENDS_AT_DESCRIPTION = f"At most {flash_sales.MAX_SALE_DURATION.days} days after `startsAt`."


class FlashSaleQuery(CampusQuery):
    """Filters of public flash sales."""

    state = Choice(*flash_sale_listing.PUBLIC_STATES, metadata=doc("Only sales in this state.", "running"))


class StaffFlashSaleQuery(CursorQuery):
    """Filters of flash sales for staff."""

    state = Choice(
        *flash_sale_listing.FLASH_SALE_STATES, metadata=doc("Only sales in this state.", "running")
    )
    product_id = Uuid()


_sale_quantity = partial(
    StrictInteger,
    minimum=1,
    maximum=flash_sales.MAX_QUANTITY,
    metadata={"description": "Units at the sale price; omit for no limit."},
)


class _FlashSaleFields(Schema):
    example_omits = frozenset({"sale_price_minor"})

    sale_price_minor = MinorAmount(minimum=rules.MIN_PRICE_MINOR, maximum=rules.MAX_PRICE_MINOR)
    percent_off = StrictInteger(minimum=1, maximum=flash_sales.MAX_PERCENT_OFF)
    starts_at = Timestamp()
    ends_at = Timestamp(metadata={"description": _ENDS_AT_DESCRIPTION})
    quantity = _sale_quantity()

    @validates_schema
    def check_discount(self, data: dict[str, Any], **_kwargs: Any) -> None:
        """Refuse a price together with a percentage."""
        if "sale_price_minor" in data and "percent_off" in data:
            raise ValidationError("Send either `salePriceMinor` or `percentOff`.", "salePriceMinor")


class ChangeFlashSale(_FlashSaleFields, ClearableFields, ExpectedRevision):
    """Changes to a flash sale. Omitted fields stay unchanged."""

    example_omits = frozenset({"sale_price_minor", "starts_at", "ends_at"})
    clear = ClearList("quantity")


class AddFlashSale(_FlashSaleFields):
    """A new flash sale with a price or a percentage off, and a period."""

    product_id = Uuid(required=True)
    starts_at = _starts_at()
    ends_at = Timestamp(required=True, metadata={"description": _ENDS_AT_DESCRIPTION})
    quantity = _sale_quantity(load_default=None)

    @validates_schema
    def check_there_is_a_discount(self, data: dict[str, Any], **_kwargs: Any) -> None:
        """Require a price or a percentage."""
        if "sale_price_minor" not in data and "percent_off" not in data:
            raise ValidationError("Send either `salePriceMinor` or `percentOff`.", "salePriceMinor")


class _FlashSale(Identified):
    example_id = demo_ids.FLASH_SALE

    starts_at = Timestamp(required=True)
    ends_at = Timestamp(required=True)
    quantity = StrictInteger(
        minimum=1,
        required=True,
        allow_none=True,
        metadata=doc("Units at the sale price; null for no limit.", 20),
    )


class FlashSaleView(_FlashSale):
    """A flash sale for the public."""

    state = Choice(
        *flash_sale_listing.PUBLIC_STATES,
        required=True,
        metadata=doc("State at the time of the response.", "running"),
    )
    price_minor = MinorAmount(required=True, metadata=doc("Price of a unit in the sale, in kobo.", 500_500))
    regular_price_minor = MinorAmount(required=True)
    percent_off = StrictInteger(minimum=1, maximum=99, required=True)
    left = StrictInteger(
        minimum=0,
        required=True,
        allow_none=True,
        metadata={"description": "Units left; null for a sale without a limit."},
    )
    product = fields.Nested(ProductCard, required=True, metadata=doc("Product on sale."))


class StaffFlashSale(_FlashSale, PromotionLifecycle):
    """A flash sale for staff."""

    state = Choice(
        *flash_sale_listing.FLASH_SALE_STATES,
        required=True,
        metadata=doc("State at the time of the response.", "running"),
    )
    product = fields.Nested(PromotedProduct, required=True, metadata=doc("Product on sale."))
    sale_price_minor = MinorAmount(required=True)
    percent_off = StrictInteger(minimum=1, required=True, allow_none=True)
    sold = StrictInteger(
        minimum=0, required=True, metadata=doc("Units sold or reserved at the sale price.", 5)
    )
