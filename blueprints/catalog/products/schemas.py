"""Schemas of products, product images and categories."""

from functools import partial
from typing import Any

from marshmallow import ValidationError, fields, validates_schema

from blueprints.http.field_docs import PROMOTION_END, doc
from blueprints.http.fields import (
    BooleanParameter,
    Choice,
    CursorQuery,
    ExpectedRevision,
    Identified,
    IntegerParameter,
    MinorAmount,
    NamedResource,
    Revised,
    Schema,
    SingleLineText,
    StoreName,
    StrictBoolean,
    StrictInteger,
    Text,
    Timestamp,
    UniqueList,
    Uuid,
)
from blueprints.http.image_views import ImageView
from marketplace.catalog import states
from marketplace.catalog.browse import listing
from marketplace.catalog.moderation import rules
from marketplace.kernel import demo_ids

_STATUSES = sorted(states.PRODUCT.states)


class CampusQuery(CursorQuery):
    """Filter by campus."""

    campus = Text(max_length=100, metadata=doc("Id or slug.", "north"))


class CampusCategoryQuery(CampusQuery):
    """Filters by campus and category."""

    category = Text(max_length=100, metadata=doc("Id or slug; subcategories are included.", "textbooks"))


class StoreProductQuery(CampusCategoryQuery):
    """Filters and sort order of a store's products."""

    min_price_minor = IntegerParameter(
        data_key="minPrice",
        minimum=0,
        maximum=rules.MAX_PRICE_MINOR,
        metadata=doc("Lowest price, in kobo.", 100_000),
    )
    max_price_minor = IntegerParameter(
        data_key="maxPrice",
        minimum=0,
        maximum=rules.MAX_PRICE_MINOR,
        metadata=doc("Highest price, in kobo.", 2_000_000),
    )
    condition = Choice(*rules.CONDITIONS, metadata=doc("Only articles in this condition.", "new"))
    in_stock = BooleanParameter(
        metadata={"description": "`true` for products in stock, `false` for sold-out products."}
    )
    sort = Choice(
        *listing.SORTS,
        load_default=listing.DEFAULT_SORT,
        metadata=doc("Order of the products.", listing.DEFAULT_SORT),
    )

    @validates_schema
    def check_prices(self, data: dict[str, Any], **_kwargs: Any) -> None:
        """Refuse a price range with a minimum above the maximum."""
        if data.get("min_price_minor", 0) > data.get("max_price_minor", rules.MAX_PRICE_MINOR):
            raise ValidationError("Must not exceed `maxPrice`.", "minPrice")


class ProductQuery(StoreProductQuery):
    """Filters and sort order of products."""

    vendor_id = Uuid(data_key="vendor", metadata=doc("Id of the vendor profile.", demo_ids.STORE))


class _LowercaseTag(SingleLineText):
    """A tag in lower case, so that spellings are equal."""

    def _deserialize(self, value: Any, attr: str | None, data: Any, **kwargs: Any) -> str:
        return super()._deserialize(value, attr, data, **kwargs).lower()


_title = partial(SingleLineText, min_length=rules.TITLE_LENGTHS[0], max_length=rules.TITLE_LENGTHS[-1])
_description = partial(Text, min_length=0, max_length=rules.MAX_DESCRIPTION_LENGTH)
_price = partial(MinorAmount, minimum=rules.MIN_PRICE_MINOR, maximum=rules.MAX_PRICE_MINOR)
_quantity = partial(StrictInteger, minimum=0, maximum=rules.MAX_QUANTITY)
_image_ids = partial(UniqueList, Uuid(), max_length=rules.MAX_IMAGES)
_tags = partial(UniqueList, _LowercaseTag(max_length=rules.MAX_TAG_LENGTH), max_length=rules.MAX_TAGS)


class AddProduct(Schema):
    """A new listing."""

    title = _title(required=True)
    description = _description(
        load_default="",
        metadata=doc("Text for buyers, without contact details.", "Seventh edition. Restocked every week."),
    )
    price_minor = _price(required=True)
    category_id = Uuid(required=True)
    condition = Choice(*rules.CONDITIONS, required=True)
    quantity = _quantity(load_default=1, metadata=doc("Units for sale.", 5))
    image_ids = _image_ids(
        load_default=list, metadata=doc("Ids of uploaded images in display order, the cover first.", [])
    )
    tags = _tags(load_default=list)
    exclusive = StrictBoolean(
        load_default=False,
        metadata={
            "description": "Whether only this store sells the product; only verified stores and staff may set `true`."
        },
    )
    status = Choice(
        "published",
        "draft",
        load_default="published",
        metadata={
            "description": "`published` submits the listing for screening; a listing that passes is published."
        },
    )
    vendor_id = Uuid(
        metadata={"description": "The store of the listing; required for staff, optional for vendors."}
    )


class UpdateProduct(ExpectedRevision):
    """Changes to a listing. Omitted fields stay unchanged."""

    title = _title()
    description = _description(
        metadata=doc("Text for buyers, without contact details.", "Seventh edition. Restocked every week.")
    )
    price_minor = _price()
    category_id = Uuid()
    condition = Choice(*rules.CONDITIONS)
    quantity = _quantity(metadata=doc("Units for sale, including reserved units.", 48))
    image_ids = _image_ids(metadata=doc("All images in display order, the cover first.", [demo_ids.IMAGE]))
    tags = _tags()
    exclusive = StrictBoolean()
    status = Choice(
        "published",
        "paused",
        "draft",
        metadata=doc(
            "`published` publishes or submits the listing, `paused` hides a published listing.", "published"
        ),
    )


class StoreSummary(StoreName):
    """The store of a product."""

    verified = fields.Boolean(required=True)
    rating = fields.Float(required=True, allow_none=True)


class ActiveFlashSale(Schema):
    """A running flash sale of a product, with the sale price and the units left."""

    price_minor = MinorAmount(required=True, metadata=doc("Price of a unit in the sale, in kobo.", 500_500))
    ends_at = Timestamp(required=True)
    percent_off = StrictInteger(minimum=1, maximum=99, required=True)
    left = StrictInteger(
        minimum=1,
        required=True,
        allow_none=True,
        metadata={"description": "Units left; null for a sale without a limit."},
    )


class ProductCard(Identified):
    """A product in a listing."""

    example_id = demo_ids.PRODUCT

    title = fields.String(required=True)
    price_minor = MinorAmount(required=True)
    currency = fields.String(required=True)
    flash_sale = fields.Nested(ActiveFlashSale, required=True, allow_none=True)
    condition = Choice(*rules.CONDITIONS, required=True)
    image_url = fields.String(required=True, allow_none=True)
    campus_id = Uuid(required=True)
    category_id = Uuid(required=True)
    vendor = fields.Nested(StoreSummary, required=True, metadata=doc("Store that sells the product."))
    in_stock = fields.Boolean(required=True)
    rating_average = fields.Float(required=True, allow_none=True)
    rating_count = StrictInteger(minimum=0, required=True)
    published_at = Timestamp(required=True)


class ManagedListing(Revised):
    """The status of a listing, for the owner and staff."""

    example_id = demo_ids.PRODUCT

    quantity = StrictInteger(minimum=0, required=True)
    status_reason = fields.String(required=True, allow_none=True)
    review_state = Choice("screening", "held", required=True, allow_none=True)
    review_reasons = fields.List(fields.String(), required=True)
    published_at = Timestamp(required=True, allow_none=True)


class CampusOrCategory(NamedResource):
    """A campus or category by name."""


class StoreVacation(Schema):
    """A store's vacation, with the end if known."""

    until = Timestamp(
        required=True,
        allow_none=True,
        metadata=doc("End of the vacation; null without a known end.", PROMOTION_END),
    )
    note = fields.String(
        required=True, allow_none=True, metadata=doc("Note for buyers.", "Back after the exams.")
    )


class EstablishedStore(StoreSummary):
    """A store with the numbers of ratings and completed orders."""

    rating_count = StrictInteger(minimum=0, required=True)
    completed_orders = StrictInteger(minimum=0, required=True)


class StoreReputation(EstablishedStore):
    """A store with its reputation."""

    response_minutes = StrictInteger(
        minimum=0,
        required=True,
        allow_none=True,
        metadata=doc("Average minutes from payment to acceptance of an order; null without orders.", 40),
    )
    member_since = Timestamp(required=True)
    vacation = fields.Nested(
        StoreVacation,
        required=True,
        allow_none=True,
        metadata=doc("Vacation of the store; null while the store sells.", None),
    )


class ProductDetail(ProductCard):
    """A product. The fields from `status` on are present for the owner and for staff who manage products.

    `isFavorite` is present for authenticated callers.
    """

    description = fields.String(
        required=True,
        metadata=doc(
            "Text for buyers.", "Engineering Mathematics by Stroud (latest edition). Brand new, never used."
        ),
    )
    images = fields.List(
        fields.Nested(ImageView),
        required=True,
        metadata=doc("Images in display order, the cover first."),
    )
    tags = fields.List(fields.String(), required=True)
    campus = fields.Nested(CampusOrCategory, required=True, metadata=doc("Campus of the store."))
    category = fields.Nested(
        CampusOrCategory,
        required=True,
        metadata=doc(
            "Category of the product.", {"id": demo_ids.CATEGORY, "name": "Textbooks", "slug": "textbooks"}
        ),
    )
    vendor = fields.Nested(
        StoreReputation, required=True, metadata=doc("Store that sells the product, with reputation.")
    )
    available = StrictInteger(minimum=0, required=True)
    orderable = fields.Boolean(required=True, metadata=doc("Whether the product can be ordered now.", True))
    published_at = Timestamp(required=True, allow_none=True)
    exclusive = fields.Boolean(required=True)
    updated_at = Timestamp(required=True)
    related_items = fields.List(
        fields.Nested(ProductCard), required=True, metadata=doc("Other products of the category, at most 8.")
    )
    is_favorite = fields.Boolean(
        metadata=doc("Whether the product is among your favourites; absent without a token.", True)
    )
    status = Choice(*_STATUSES, metadata=doc("Status of the listing.", "published"))
    status_reason = fields.String(allow_none=True)
    review_state = Choice(
        "screening",
        "held",
        allow_none=True,
        metadata={"description": "For a listing in review: `screening` or `held` for staff."},
    )
    review_reasons = fields.List(
        fields.String(),
        metadata={"description": "Findings of the screening, each a sentence with the necessary change."},
    )
    quantity = StrictInteger(minimum=0)
    reserved = StrictInteger(minimum=0)
    revision = StrictInteger(minimum=1)
    created_at = Timestamp()
    views = StrictInteger(minimum=0)
    cart_adds = StrictInteger(minimum=0)
    shares = StrictInteger(minimum=0)
    favorites = StrictInteger(
        minimum=0, metadata=doc("Number of people with the product among their favourites.", 2)
    )


class CategoryNode(CampusOrCategory):
    """A category with the number of active listings in its subtree."""

    example_id = demo_ids.CATEGORY

    name = fields.String(required=True, metadata=doc("Name for people.", "Textbooks"))
    slug = fields.String(
        required=True, metadata=doc("Name for URLs, in lower case with hyphens.", "textbooks")
    )

    listing_count = StrictInteger(
        minimum=0, required=True, metadata=doc("Number of published listings in the subtree.", 28)
    )
    children = fields.List(
        fields.Nested(lambda: CategoryNode()),  # noqa: PLW0108 - the name is defined later
        required=True,
        metadata=doc("Subcategories."),
    )
