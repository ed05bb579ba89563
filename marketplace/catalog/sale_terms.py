"""The terms of a flash sale, as a product carries them: when they count, and how they are shown.

Whether a sale counts is told by its window and the time of the request, never by a task having run.
"""

from datetime import datetime
from typing import Any

from sqlalchemy import and_, bindparam, case, func, literal_column, or_

from marketplace.catalog.models import Product
from marketplace.kernel.money import BASIS_POINTS

_RUNS_SQL = (
    "p.sale_ends_at > :now AND p.sale_starts_at <= :now AND p.sale_price_minor < p.price_minor"
    " AND (p.sale_left IS NULL OR p.sale_left > 0)"
)
# What counts of a product's sale at :now, or null: in both spellings, as text for statements that name the table
# ``p``, and as a clause. One column, null for almost all products, costs a listing nothing.
SALE_SQL = (
    f"CASE WHEN {_RUNS_SQL} THEN"
    " json_build_object('price', p.sale_price_minor, 'ends', p.sale_ends_at, 'left', p.sale_left) END"
)
SALE = case(
    (
        and_(
            Product.sale_ends_at > bindparam("now"),
            Product.sale_starts_at <= bindparam("now"),
            Product.sale_price_minor < Product.price_minor,
            or_(Product.sale_left.is_(None), Product.sale_left > literal_column("0")),
        ),
        func.json_build_object(
            literal_column("'price'"),
            Product.sale_price_minor,
            literal_column("'ends'"),
            Product.sale_ends_at,
            literal_column("'left'"),
            Product.sale_left,
        ),
    )
)

_LEAST_PERCENT, _MOST_PERCENT = 1, 99


def percent_off(price_minor: int, *, sale_price_minor: int) -> int:
    """This function will tell by how much a sale is cheaper, in whole percent, rounded to the nearest.

    :param price_minor: the regular price, in kobo
    :param sale_price_minor: the sale's, in kobo; less than the regular one
    :return: 1 to 99: neither nothing nor everything
    """
    percent = ((price_minor - sale_price_minor) * 200 + price_minor) // (2 * price_minor)
    return min(max(percent, _LEAST_PERCENT), _MOST_PERCENT)


def price_at_percent_off(price_minor: int, *, percent: int) -> int:
    """This function will take a percentage off a price, rounded to the nearest kobo, half a kobo up.

    :param price_minor: the regular price, in kobo
    :param percent: what is taken off, 1 to 90
    :return: the sale's price, in kobo
    """
    left = BASIS_POINTS - percent * 100
    return (price_minor * left * 2 + BASIS_POINTS) // (2 * BASIS_POINTS)


def sale_view(sale: dict[str, Any] | None, *, price_minor: int) -> dict[str, Any] | None:
    """This function will write a running sale as cards show it.

    :param sale: what ``SALE`` or ``SALE_SQL`` gave
    :param price_minor: the product's regular price, in kobo
    :return: none while no sale runs; ``left`` is none where the sale has no limit
    """
    if sale is None:
        return None
    return {
        "priceMinor": sale["price"],
        "endsAt": datetime.fromisoformat(sale["ends"]),
        "percentOff": percent_off(price_minor, sale_price_minor=sale["price"]),
        "left": sale["left"],
    }
