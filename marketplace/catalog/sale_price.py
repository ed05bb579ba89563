"""The terms of a flash sale, as a product carries them: when they count, and how they are shown.

Whether a sale counts is told by its window and the time of the request, never by a task having run.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import and_, bindparam, case, func, literal_column, or_

from marketplace.catalog.models import Product
from marketplace.kernel.money import BASIS_POINTS

_SALE_IS_RUNNING_SQL = (
    "p.sale_ends_at > :now AND p.sale_starts_at <= :now AND p.sale_price_minor < p.price_minor"
    " AND (p.sale_left IS NULL OR p.sale_left > 0)"
)
# What counts of a product's sale at :now, or null: in both spellings, as text for statements that name the table
# ``p``, and as a clause. One column, null for almost all products, costs a listing nothing.
CURRENT_SALE_SQL = (
    f"CASE WHEN {_SALE_IS_RUNNING_SQL} THEN"
    " json_build_object('price', p.sale_price_minor, 'ends', p.sale_ends_at, 'left', p.sale_left) END"
)
CURRENT_SALE = case(
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

# The columns of ``PricedRow``, of statements that name the table ``p``.
PRICE_COLUMNS_SQL = (
    "p.price_minor, p.sale_id, p.sale_price_minor, p.sale_starts_at, p.sale_ends_at, p.sale_left"
)


@dataclass(frozen=True)
class PricedRow:
    """The columns of ``PRICE_COLUMNS_SQL``: a product's regular price in kobo, and the sale that it carries.

    The sale runs, comes next, or is over by now. ``sale_left`` is none where the sale has no limit.
    """

    price_minor: int
    sale_id: UUID | None
    sale_price_minor: int | None
    sale_starts_at: datetime | None
    sale_ends_at: datetime | None
    sale_left: int | None

    def sale_price(self, *, quantity: int, now: datetime) -> int | None:
        """Give the sale's price of a unit in kobo, if the sale runs and has units for the whole line.

        A regular price that was lowered to the sale's or below wins.

        :param quantity: units of the line
        """
        price, starts_at, ends_at = self.sale_price_minor, self.sale_starts_at, self.sale_ends_at
        if price is None or starts_at is None or ends_at is None:
            return None
        has_enough_units = self.sale_left is None or self.sale_left >= quantity
        applies = starts_at <= now < ends_at and has_enough_units and price < self.price_minor
        return price if applies else None

    def unit_price(self, *, quantity: int, now: datetime) -> int:
        """Give the price of a unit in kobo: the sale's price if it applies to all units, or else the regular one.

        :param quantity: units that are bought together
        """
        sale_price = self.sale_price(quantity=quantity, now=now)
        return self.price_minor if sale_price is None else sale_price


def percent_off(price_minor: int, *, sale_price_minor: int) -> int:
    """Tell by how much a sale is cheaper, in whole percent, rounded to the nearest.

    :param price_minor: the regular price, in kobo
    :param sale_price_minor: the sale's, in kobo; less than the regular one
    :return: 1 to 99: neither nothing nor everything
    """
    percent = ((price_minor - sale_price_minor) * 200 + price_minor) // (2 * price_minor)
    return min(max(percent, 1), 99)


def price_at_percent_off(price_minor: int, *, percent: int) -> int:
    """Take a percentage off a price, rounded to the nearest kobo, half a kobo up.

    :param price_minor: the regular price, in kobo
    :param percent: what is taken off, 1 to 90
    :return: the sale's price, in kobo
    """
    remaining_bps = BASIS_POINTS - percent * 100
    return (price_minor * remaining_bps * 2 + BASIS_POINTS) // (2 * BASIS_POINTS)


def sale_view(sale: dict[str, Any] | None, *, price_minor: int) -> dict[str, Any] | None:
    """Write a running sale as cards show it.

    :param sale: what ``CURRENT_SALE`` or ``CURRENT_SALE_SQL`` gave
    :param price_minor: the product's regular price, in kobo
    :return: none while no sale runs; ``left`` is none where the sale has no limit
    """
    if sale is None:
        return None
    return {
        "price_minor": sale["price"],
        "ends_at": datetime.fromisoformat(sale["ends"]),
        "percent_off": percent_off(price_minor, sale_price_minor=sale["price"]),
        "left": sale["left"],
    }
