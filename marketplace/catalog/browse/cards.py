"""The card of a product, as every listing shows it: its columns, and how a row becomes JSON."""

from typing import Any

from sqlalchemy import ColumnElement, Text, bindparam, cast

from marketplace.catalog.models import Product
from marketplace.catalog.sale_price import CURRENT_SALE, sale_view
from marketplace.kernel.money import CURRENCY
from marketplace.kernel.ratings import average_rating
from marketplace.vendors.models import VendorProfile

# Ids come as text: the driver would make UUID objects of them that are written as text again at once.
CARD_COLUMNS: tuple[ColumnElement[Any], ...] = (
    cast(Product.id, Text).label("id"),
    Product.title.label("title"),
    Product.price_minor.label("price_minor"),
    Product.condition.label("condition"),
    (bindparam("media_base_url", type_=Text) + "/" + Product.cover_key).label("image_url"),
    cast(Product.campus_id, Text).label("campus_id"),
    cast(Product.category_id, Text).label("category_id"),
    cast(VendorProfile.id, Text).label("vendor_id"),
    VendorProfile.display_name.label("vendor_name"),
    VendorProfile.slug.label("vendor_slug"),
    VendorProfile.verified.label("vendor_verified"),
    VendorProfile.rating_sum.label("vendor_rating_sum"),
    VendorProfile.rating_count.label("vendor_rating_count"),
    (Product.available > 0).label("in_stock"),
    Product.rating_sum.label("rating_sum"),
    Product.rating_count.label("rating_count"),
    Product.published_at.label("published_at"),
    CURRENT_SALE.label("sale"),
)


def build_card(row: tuple[Any, ...]) -> dict[str, Any]:
    """Make a card of a row that begins with ``CARD_COLUMNS``; what follows is left out."""
    (
        product_id,
        title,
        price_minor,
        condition,
        image_url,
        campus_id,
        category_id,
        vendor_id,
        vendor_name,
        vendor_slug,
        vendor_verified,
        vendor_rating_sum,
        vendor_rating_count,
        in_stock,
        rating_sum,
        rating_count,
        published_at,
        sale,
    ) = row[:18]
    return {
        "id": product_id,
        "title": title,
        "priceMinor": price_minor,
        "currency": CURRENCY,
        "flashSale": sale_view(sale, price_minor=price_minor),
        "condition": condition,
        "imageUrl": image_url,
        "campusId": campus_id,
        "categoryId": category_id,
        "vendor": {
            "id": vendor_id,
            "displayName": vendor_name,
            "slug": vendor_slug,
            "verified": vendor_verified,
            "rating": average_rating(vendor_rating_sum, vendor_rating_count),
        },
        "inStock": in_stock,
        "ratingAverage": average_rating(rating_sum, rating_count),
        "ratingCount": rating_count,
        "publishedAt": published_at,
    }
