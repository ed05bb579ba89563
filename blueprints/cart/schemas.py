"""Schemas of the cart."""

from marshmallow import fields, validate

from blueprints.http.field_docs import doc
from blueprints.http.fields import Choice, MinorAmount, Schema, StoreName, StrictInteger, Timestamp, Uuid
from marketplace.cart.operations import MAX_LINES, MAX_QUANTITY
from marketplace.cart.queries import PROBLEMS
from marketplace.catalog.moderation import rules


class RequestedCartItem(Schema):
    """A product with a quantity."""

    product_id = Uuid(required=True)
    quantity = StrictInteger(minimum=1, maximum=MAX_QUANTITY, required=True)


class SynchroniseCart(Schema):
    """The complete cart. Products that are not listed are removed."""

    items = fields.List(
        fields.Nested(RequestedCartItem),
        required=True,
        validate=validate.Length(max=MAX_LINES),
        metadata=doc("Products and quantities, without duplicates. An empty list empties the cart."),
    )


class CartVendor(StoreName):
    """A store in a cart."""

    verified = fields.Boolean(required=True)
    rating = fields.Float(required=True, allow_none=True)


class CartVendorTotal(CartVendor):
    """A store with the subtotal of the store's lines."""

    item_count = StrictInteger(minimum=0, required=True, metadata=doc("Number of units from this store.", 1))
    subtotal_minor = MinorAmount(required=True)


class CartLineView(Schema):
    """A line of a cart, compared with the current offer."""

    product_id = Uuid(required=True)
    title = fields.String(required=True)
    image_url = fields.String(required=True, allow_none=True)
    condition = Choice(*rules.CONDITIONS, required=True)
    unit_price_minor = MinorAmount(
        required=True,
        metadata={"description": "The flash sale's price if a running sale has enough units for the line."},
    )
    price_minor = MinorAmount(required=True, data_key="regularPriceMinor")
    on_sale_until = Timestamp(
        required=True,
        allow_none=True,
        metadata=doc("End of the flash sale that sets the price; null without a sale.", None),
    )
    previous_price_minor = MinorAmount(
        required=True,
        allow_none=True,
        metadata=doc("Price in kobo when the product was added; null if unchanged.", None),
    )
    quantity = StrictInteger(minimum=1, required=True)
    line_total_minor = MinorAmount(required=True)
    available = StrictInteger(minimum=0, required=True)
    in_stock = fields.Boolean(required=True)
    orderable = fields.Boolean(
        required=True, metadata=doc("Whether the line can be ordered without a change.", True)
    )
    problem = Choice(
        *PROBLEMS,
        required=True,
        allow_none=True,
        metadata=doc("`price_changed` does not prevent an order, the other problems do.", None),
    )
    vendor = fields.Nested(CartVendor, required=True, metadata=doc("Store of the product."))


class CartView(Schema):
    """A cart."""

    items = fields.List(
        fields.Nested(CartLineView), required=True, metadata=doc("Lines of the cart, in the order of adding.")
    )
    vendors = fields.List(fields.Nested(CartVendorTotal), required=True, metadata=doc("Subtotals by store."))
    campus_id = Uuid(required=True, allow_none=True)
    item_count = StrictInteger(minimum=0, required=True, metadata=doc("Number of units in the cart.", 1))
    subtotal_minor = MinorAmount(required=True, metadata={"description": "The total of the orderable lines."})
    currency = fields.String(required=True)
    valid = fields.Boolean(required=True, metadata=doc("Whether every line can be ordered.", True))
