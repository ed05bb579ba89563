"""Schemas of product collections, product counters, and the vendor's inventory."""

from typing import Any, ClassVar

from marshmallow import fields, validate

from blueprints.catalog.products.schemas import ManagedListing, ProductCard
from blueprints.http.envelope import MetaSchema, OffsetOrCursorMetaSchema
from blueprints.http.field_docs import doc
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
from marketplace.kernel import demo_ids


class ProductIds(Schema, AcceptsBareArray):
    """Product ids, as an object or as a bare array. Duplicates are returned once."""

    ids = fields.List(
        Uuid(),
        required=True,
        validate=validate.Length(min=1, max=MAX_PRODUCT_IDS),
        metadata=doc("Ids of products, from 1 to 100.", [demo_ids.PRODUCT, demo_ids.SECOND_PRODUCT]),
    )

    bare_array = "ids"
    bare_array_schema: ClassVar[dict[str, Any]] = {
        "type": "array",
        "items": {"type": "string", "format": "uuid"},
        "minItems": 1,
        "maxItems": MAX_PRODUCT_IDS,
    }


class ProductsByIdMeta(MetaSchema):
    """The ids without a visible product."""

    missing = fields.List(Uuid(), required=True, metadata=doc("Requested ids without a visible product.", []))


class CountedProductEvent(Schema):
    """The counted event and its product."""

    counted = fields.Boolean(
        required=True,
        metadata=doc("Whether the event was counted. Repeats by the same caller are not.", True),
    )
    type = Choice(*counters.EVENT_TYPES, required=True, metadata=doc("Kind of the event.", "view"))
    product_id = Uuid(required=True)


class InventoryQuery(OffsetOrCursorQuery):
    """Filters and sort order of the inventory."""

    sort = sort_choice(vendor_inventory.SORTS, default=vendor_inventory.DEFAULT_SORT)
    status = Choice(*vendor_inventory.STATUSES, metadata=doc("Only listings with this status.", "published"))
    low_stock = BooleanParameter(
        metadata=doc("`true` for at most `lowStockAt` available units, `false` for more.", False)
    )
    low_stock_at = IntegerParameter(
        minimum=0,
        maximum=rules.MAX_QUANTITY,
        load_default=vendor_inventory.DEFAULT_LOW_STOCK,
        metadata=doc("Number of available units that counts as low stock.", 10),
    )
    words = Text(data_key="q", max_length=140, metadata=doc("Part of the title, in any case.", "mathematics"))
    category = Text(max_length=100, metadata=doc("Id or slug; subcategories are included.", "textbooks"))


class InventoryItem(ManagedListing, ProductCard):
    """A listing in its owner's inventory."""

    status = Choice(
        *vendor_inventory.STATUSES, required=True, metadata=doc("Status of the listing.", "published")
    )
    exclusive = fields.Boolean(required=True)
    reserved = StrictInteger(minimum=0, required=True)
    available = StrictInteger(minimum=0, required=True)
    views = StrictInteger(minimum=0, required=True)
    cart_adds = StrictInteger(minimum=0, required=True)
    shares = StrictInteger(minimum=0, required=True)


class InventoryCounts(Schema):
    """Numbers of listings of a store: by status, with low stock, and out of stock."""

    draft = StrictInteger(minimum=0, required=True, metadata=doc("Number of drafts.", 2))
    in_review = StrictInteger(
        minimum=0, required=True, data_key="in_review", metadata=doc("Number of listings in review.", 1)
    )
    published = StrictInteger(minimum=0, required=True, metadata=doc("Number of published listings.", 38))
    rejected = StrictInteger(
        minimum=0, required=True, metadata=doc("Number of listings that the screening or staff rejected.", 0)
    )
    paused = StrictInteger(
        minimum=0, required=True, metadata=doc("Number of listings that the vendor paused.", 1)
    )
    removed = StrictInteger(
        minimum=0, required=True, metadata=doc("Number of listings that staff removed.", 0)
    )
    low_stock = StrictInteger(
        minimum=0, required=True, metadata=doc("Number of listings with few available units.", 3)
    )
    out_of_stock = StrictInteger(
        minimum=0, required=True, metadata=doc("Number of listings without available units.", 1)
    )


class InventoryMeta(OffsetOrCursorMetaSchema):
    """The ``meta`` of the inventory."""

    counts = fields.Nested(
        InventoryCounts, required=True, metadata=doc("Numbers of listings of the whole store.")
    )
