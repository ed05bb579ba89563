"""What flash sales are made and changed with, and what they look like."""

from typing import Any

from marshmallow import ValidationError, fields, validates_schema

from blueprints.catalog.schemas import ProductCard
from blueprints.http.fields import Choice, Minor, Moment, Schema, Text, Uuid, Whole
from blueprints.http.paging import CursorQuery
from marketplace.catalog import states
from marketplace.catalog.moderation import rules
from marketplace.catalog.promotions import flash_sale_listing, flash_sales

_ENDS_WITHIN = f"At most {flash_sales.LONGEST.days} days after startsAt."


class ActiveSaleQuery(CursorQuery):
    """Where flash sales are."""

    campus = Text(most=100, metadata={"description": "Id or slug."})


class SaleQuery(ActiveSaleQuery):
    """Which flash sales are listed."""

    state = Choice(*flash_sale_listing.PUBLIC_STATES)


class StaffSaleQuery(CursorQuery):
    """Which flash sales staff want to see."""

    state = Choice(*flash_sale_listing.STATES)
    product_id = Uuid()


def _sale_price(**terms: Any) -> Minor:
    return Minor(low=rules.MIN_PRICE_MINOR, high=rules.MAX_PRICE_MINOR, **terms)


def _percent_off(**terms: Any) -> Whole:
    return Whole(low=1, high=flash_sales.MAX_PERCENT_OFF, **terms)


def _pieces(**terms: Any) -> Whole:
    return Whole(
        low=1,
        high=flash_sales.MAX_QUANTITY,
        allow_none=True,
        metadata={"description": "Pieces at the sale's price; null for as many as there are."},
        **terms,
    )


class AddFlashSale(Schema):
    """A new flash sale: its price, or by how much it is cheaper, and when."""

    product_id = Uuid(required=True)
    sale_price_minor = _sale_price()
    percent_off = _percent_off()
    starts_at = Moment(metadata={"description": "Left out, it begins at once."})
    ends_at = Moment(required=True, metadata={"description": _ENDS_WITHIN})
    quantity = _pieces(load_default=None)

    @validates_schema
    def check_discount(self, data: dict[str, Any], **_kwargs: Any) -> None:
        """Want either a price or a percentage."""
        if ("sale_price_minor" in data) == ("percent_off" in data):
            raise ValidationError("Send either salePriceMinor or percentOff.", "salePriceMinor")


class ChangeFlashSale(Schema):
    """Changes to a flash sale; what is left out stays as it is."""

    sale_price_minor = _sale_price()
    percent_off = _percent_off()
    starts_at = Moment()
    ends_at = Moment(metadata={"description": _ENDS_WITHIN})
    quantity = _pieces()
    revision = Whole(low=1, metadata={"description": "The one that was read; a stale one is refused."})

    @validates_schema
    def check_discount(self, data: dict[str, Any], **_kwargs: Any) -> None:
        """Refuse a price and a percentage at once."""
        if "sale_price_minor" in data and "percent_off" in data:
            raise ValidationError("Send either salePriceMinor or percentOff.", "salePriceMinor")


class FlashSaleView(Schema):
    """A flash sale, as everybody sees it."""

    id = Uuid(required=True)
    state = Choice(*flash_sale_listing.PUBLIC_STATES, required=True)
    price_minor = Minor(required=True)
    regular_price_minor = Minor(required=True)
    percent_off = Whole(low=1, high=99, required=True)
    starts_at = Moment(required=True)
    ends_at = Moment(required=True)
    quantity = Whole(low=1, required=True, allow_none=True)
    left = Whole(low=0, required=True, allow_none=True, metadata={"description": "Null without a limit."})
    product = fields.Nested(ProductCard, required=True)


class PromotedProduct(Schema):
    """A product, as staff see it that promote it."""

    id = Uuid(required=True)
    title = fields.String(required=True)
    status = Choice(*sorted(states.PRODUCT.states), required=True)
    price_minor = Minor(required=True)
    campus_id = Uuid(required=True)
    vendor_id = Uuid(required=True)


class Lifetime(Schema):
    """Who made a promotion, and what became of it."""

    created_by = Uuid(required=True)
    created_at = Moment(required=True)
    updated_at = Moment(required=True)
    ended_at = Moment(required=True, allow_none=True)
    ended_by = Uuid(required=True, allow_none=True)
    revision = Whole(low=1, required=True)


class StaffFlashSale(Lifetime):
    """A flash sale, as staff see it."""

    id = Uuid(required=True)
    state = Choice(*flash_sale_listing.STATES, required=True)
    product = fields.Nested(PromotedProduct, required=True)
    sale_price_minor = Minor(required=True)
    percent_off = Whole(low=1, required=True, allow_none=True)
    starts_at = Moment(required=True)
    ends_at = Moment(required=True)
    quantity = Whole(low=1, required=True, allow_none=True)
    sold = Whole(low=0, required=True)
