"""What trending, new, exclusive, named and own listings are asked for, and what counters answer."""

from typing import Any, ClassVar

from marshmallow import fields, validate

from blueprints.catalog.products.schemas import ProductCard
from blueprints.http.envelope import EitherMetaSchema, MetaSchema
from blueprints.http.fields import Choice, FlagParameter, Moment, Schema, Text, Uuid, Whole, WholeParameter
from blueprints.http.paging import EitherQuery
from blueprints.http.request_parsing import OrBareArray
from marketplace.catalog.browse import vendor_inventory
from marketplace.catalog.browse.collections import MAX_NAMED
from marketplace.catalog.moderation import rules
from marketplace.catalog.statistics import counters


class NamedProducts(Schema, OrBareArray):
    """Products by their ids, or the ids alone as an array; one that is named twice is answered once."""

    ids = fields.List(Uuid(), required=True, validate=validate.Length(min=1, max=MAX_NAMED))

    bare_array = "ids"
    bare_array_schema: ClassVar[dict[str, Any]] = {
        "type": "array",
        "items": {"type": "string", "format": "uuid"},
        "minItems": 1,
        "maxItems": MAX_NAMED,
    }


class NamedMeta(MetaSchema):
    """Which of the ids are no product that the public sees."""

    missing = fields.List(Uuid(), required=True)


class Counted(Schema):
    """That something was counted, and of what product."""

    counted = fields.Boolean(required=True)
    type = Choice(*counters.TYPES, required=True)
    product_id = Uuid(required=True)


class InventoryQuery(EitherQuery):
    """What the own inventory is narrowed to, and how it is sorted."""

    sort = Choice(*vendor_inventory.SORTS, load_default=vendor_inventory.DEFAULT_SORT)
    status = Choice(*vendor_inventory.STATUSES)
    low_stock = FlagParameter(
        metadata={"description": "`true` for what has at most `lowStockAt` pieces to sell, `false` for more."}
    )
    low_stock_at = WholeParameter(
        low=0, high=rules.MAX_QUANTITY, load_default=vendor_inventory.DEFAULT_LOW_STOCK
    )
    words = Text(data_key="q", most=140, metadata={"description": "What the title holds, in whatever case."})
    category = Text(most=100, metadata={"description": "Id or slug; categories below it are included."})


class InventoryItem(ProductCard):
    """A listing, as its owner sees it in the inventory."""

    published_at = Moment(required=True, allow_none=True)
    status = Choice(*vendor_inventory.STATUSES, required=True)
    status_reason = fields.String(required=True, allow_none=True)
    review_state = Choice("screening", "held", required=True, allow_none=True)
    review_reasons = fields.List(fields.String(), required=True)
    exclusive = fields.Boolean(required=True)
    quantity = Whole(low=0, required=True)
    reserved = Whole(low=0, required=True)
    available = Whole(low=0, required=True)
    revision = Whole(low=1, required=True)
    views = Whole(low=0, required=True)
    cart_adds = Whole(low=0, required=True)
    shares = Whole(low=0, required=True)
    created_at = Moment(required=True)
    updated_at = Moment(required=True)


class InventoryCounts(Schema):
    """How many listings a store has: by state, with few pieces left, and with none."""

    draft = Whole(low=0, required=True)
    in_review = Whole(low=0, required=True, data_key="in_review")
    published = Whole(low=0, required=True)
    rejected = Whole(low=0, required=True)
    paused = Whole(low=0, required=True)
    removed = Whole(low=0, required=True)
    low_stock = Whole(low=0, required=True)
    out_of_stock = Whole(low=0, required=True)


class InventoryMeta(EitherMetaSchema):
    """The inventory's ``meta``."""

    counts = fields.Nested(InventoryCounts, required=True)
