"""The card of a product, as every listing shows it: its columns, and how a row becomes JSON."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from sqlalchemy import ColumnElement, Text, bindparam, cast

from marketplace.catalog.models import Product
from marketplace.catalog.sale_price import CURRENT_SALE, sale_view
from marketplace.kernel.money import CURRENCY
from marketplace.kernel.paging import Page, PageRequest, page_of
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
        "price_minor": price_minor,
        "currency": CURRENCY,
        "flash_sale": sale_view(sale, price_minor=price_minor),
        "condition": condition,
        "image_url": image_url,
        "campus_id": campus_id,
        "category_id": category_id,
        "vendor": {
            "id": vendor_id,
            "display_name": vendor_name,
            "slug": vendor_slug,
            "verified": vendor_verified,
            "rating": average_rating(vendor_rating_sum, vendor_rating_count),
        },
        "in_stock": in_stock,
        "rating_average": average_rating(rating_sum, rating_count),
        "rating_count": rating_count,
        "published_at": published_at,
    }


def card_page(
    rows: list[tuple[Any, ...]], request: PageRequest, *, position_of: Callable[[tuple[Any, ...]], list[Any]]
) -> Page:
    """Make a page of cards.

    :param rows: at most one more than the page takes, each with ``CARD_COLUMNS`` first
    :param position_of: gives a row's sort key
    """
    page = page_of(rows, request=request, position_of=position_of)
    return replace(page, items=[build_card(row) for row in page.items])
