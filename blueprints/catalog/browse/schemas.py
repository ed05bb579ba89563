"""Schemas of product collections, product counters, and the vendor's inventory."""

from typing import Any, ClassVar

from marshmallow import fields, validate

from blueprints.catalog.products.schemas import ManagedListing, ProductCard
from blueprints.http.envelope import MetaSchema, OffsetOrCursorMetaSchema
from blueprints.http.fields import (
    BooleanParameter,
    Choice,
    IntegerParameter,
    OffsetOrCursorQuery,
    Schema,
    StrictInteger,
    Text,
    Uuid,
    sort_choice,
)
from blueprints.http.request_parsing import AcceptsBareArray
from marketplace.catalog.browse import vendor_inventory
from marketplace.catalog.browse.collections import MAX_PRODUCT_IDS
from marketplace.catalog.moderation import rules
from marketplace.catalog.statistics import counters


class ProductIds(Schema, AcceptsBareArray):
    """Product ids, as an object or as a bare array. Duplicates are returned once."""

    ids = fields.List(Uuid(), required=True, validate=validate.Length(min=1, max=MAX_PRODUCT_IDS))

    bare_array = "ids"
    bare_array_schema: ClassVar[dict[str, Any]] = {
        "type": "array",
        "items": {"type": "string", "format": "uuid"},
        "minItems": 1,
        "maxItems": MAX_PRODUCT_IDS,
    }


class ProductsByIdMeta(MetaSchema):
    """The ids without a visible product."""

    missing = fields.List(Uuid(), required=True)


class CountedProductEvent(Schema):
    """The counted event and its product."""

    counted = fields.Boolean(required=True)
    type = Choice(*counters.EVENT_TYPES, required=True)
    product_id = Uuid(required=True)


class InventoryQuery(OffsetOrCursorQuery):
    """Filters and sort order of the inventory."""

    sort = sort_choice(vendor_inventory.SORTS, default=vendor_inventory.DEFAULT_SORT)
    status = Choice(*vendor_inventory.STATUSES)
    low_stock = BooleanParameter(
        metadata={"description": "`true` for at most `lowStockAt` available units, `false` for more."}
    )
    low_stock_at = IntegerParameter(
        minimum=0, maximum=rules.MAX_QUANTITY, load_default=vendor_inventory.DEFAULT_LOW_STOCK
    )
    words = Text(data_key="q", max_length=140, metadata={"description": "Part of the title, in any case."})
    category = Text(max_length=100, metadata={"description": "Id or slug; subcategories are included."})


class InventoryItem(ManagedListing, ProductCard):
    """A listing in its owner's inventory."""

    status = Choice(*vendor_inventory.STATUSES, required=True)
    exclusive = fields.Boolean(required=True)
    reserved = StrictInteger(minimum=0, required=True)
    available = StrictInteger(minimum=0, required=True)
    views = StrictInteger(minimum=0, required=True)
    cart_adds = StrictInteger(minimum=0, required=True)
    shares = StrictInteger(minimum=0, required=True)


class InventoryCounts(Schema):
    """Numbers of listings of a store: by status, with low stock, and out of stock."""

    draft = StrictInteger(minimum=0, required=True)
    in_review = StrictInteger(minimum=0, required=True, data_key="in_review")
    published = StrictInteger(minimum=0, required=True)
    rejected = StrictInteger(minimum=0, required=True)
    paused = StrictInteger(minimum=0, required=True)
    removed = StrictInteger(minimum=0, required=True)
    low_stock = StrictInteger(minimum=0, required=True)
    out_of_stock = StrictInteger(minimum=0, required=True)


class InventoryMeta(OffsetOrCursorMetaSchema):
    """The ``meta`` of the inventory."""

    counts = fields.Nested(InventoryCounts, required=True)
