"""The cart as it is now: prices (a flash sale's too) and stock are not those of when things were put in."""

from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.catalog.sale_price import SALE_COLUMNS_SQL, effective_unit_price
from marketplace.infra.db import Statement
from marketplace.kernel.money import CURRENCY
from marketplace.kernel.ratings import average_rating
from marketplace.vendors.queries import STORE_IS_OPEN_SQL

OUT_OF_STOCK = "out_of_stock"
INSUFFICIENT_STOCK = "insufficient_stock"
NOT_AVAILABLE = "not_available"
PRICE_CHANGED = "price_changed"
PROBLEMS = (NOT_AVAILABLE, OUT_OF_STOCK, INSUFFICIENT_STOCK, PRICE_CHANGED)

_SELECT_CART_LINES = Statement(
    text(
        f"""
        SELECT c.product_id, c.quantity, c.price_minor_seen, p.title, p.price_minor, p.condition, p.cover_key,
            p.campus_id, p.available, {SALE_COLUMNS_SQL}, v.id AS vendor_id, v.display_name, v.slug, v.verified,
            v.rating_sum, v.rating_count,
            p.status = 'published' AND {STORE_IS_OPEN_SQL} AS offered
        FROM cart_items c
            JOIN products p ON p.id = c.product_id
            JOIN vendor_profiles v ON v.id = p.vendor_id
        WHERE c.user_id = :user_id
        ORDER BY c.position, c.product_id
        """
    )
)
_SELECT_CART_QUANTITIES = Statement(
    text("SELECT product_id, quantity FROM cart_items WHERE user_id = :user_id ORDER BY position, product_id")
)


def fetch_cart(session: Session, *, user_id: UUID, now: datetime, media_base_url: str) -> dict[str, Any]:
    """Give somebody's cart with each line held against what is offered now, in one query.

    :param user_id: whose
    :param now: the time of the request, which tells whose vacation is over
    :param media_base_url: where pictures are read
    :return: ``items`` in their order, ``vendors`` that they are of with a subtotal each, ``subtotalMinor`` of
        the lines that can be ordered as they stand, and whether that is all of them (``valid``)
    """
    rows = _SELECT_CART_LINES.all(session, user_id=user_id, now=now)
    items = [_line_view(row, media_base_url, now) for row in rows]
    vendors: dict[UUID, dict[str, Any]] = {}
    for item in items:
        vendor = vendors.setdefault(
            item["vendor"]["id"], item["vendor"] | {"itemCount": 0, "subtotalMinor": 0}
        )
        vendor["itemCount"] += 1
        vendor["subtotalMinor"] += item["lineTotalMinor"] if item["orderable"] else 0
    return {
        "items": items,
        "vendors": list(vendors.values()),
        "campusId": rows[0]["campus_id"] if rows else None,
        "itemCount": len(items),
        "subtotalMinor": sum(vendor["subtotalMinor"] for vendor in vendors.values()),
        "currency": CURRENCY,
        "valid": all(item["orderable"] for item in items),
    }


def list_cart_quantities(session: Session, *, user_id: UUID) -> list[tuple[UUID, int]]:
    """Give what somebody's cart asks for, as products and quantities in their order."""
    return [
        (product_id, quantity)
        for product_id, quantity in _SELECT_CART_QUANTITIES.tuples(session, user_id=user_id)
    ]


def _line_view(row: dict[str, Any], media_base_url: str, now: datetime) -> dict[str, Any]:
    price_minor = effective_unit_price(row, quantity=row["quantity"], now=now)
    problem = _line_problem(row, price_minor)
    return {
        "productId": row["product_id"],
        "title": row["title"],
        "imageUrl": f"{media_base_url}/{row['cover_key']}" if row["cover_key"] else None,
        "condition": row["condition"],
        "unitPriceMinor": price_minor,
        "regularPriceMinor": row["price_minor"],
        "onSaleUntil": row["sale_ends_at"] if price_minor < row["price_minor"] else None,
        "previousPriceMinor": row["price_minor_seen"] if problem == PRICE_CHANGED else None,
        "quantity": row["quantity"],
        "lineTotalMinor": price_minor * row["quantity"],
        "available": row["available"] if row["offered"] else 0,
        "inStock": row["offered"] and row["available"] > 0,
        "orderable": problem in (None, PRICE_CHANGED),
        "problem": problem,
        "vendor": {
            "id": row["vendor_id"],
            "displayName": row["display_name"],
            "slug": row["slug"],
            "verified": row["verified"],
            "rating": average_rating(row["rating_sum"], row["rating_count"]),
        },
    }


def _line_problem(row: dict[str, Any], price_minor: int) -> str | None:
    """Name what stands most in the way of a line; a changed price is only worth knowing."""
    if not row["offered"]:
        return NOT_AVAILABLE
    if row["available"] == 0:
        return OUT_OF_STOCK
    if row["available"] < row["quantity"]:
        return INSUFFICIENT_STOCK
    return PRICE_CHANGED if price_minor != row["price_minor_seen"] else None
