"""Prices under flash sales: the sale columns of a product, and the current sale for listings.

Whether a sale applies follows from its period and the time of the request, not from the run of a task.
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
# The sale that applies at :now, or null: as SQL for the table alias ``p``, and as an SQLAlchemy clause. A single
# column that is null for almost all products adds no cost to listings.
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

# The columns of ``PricedRow`` for the table alias ``p``.
PRICE_COLUMNS_SQL = (
    "p.price_minor, p.sale_id, p.sale_price_minor, p.sale_starts_at, p.sale_ends_at, p.sale_left"
)


@dataclass(frozen=True)
class PricedRow:
    """The columns of ``PRICE_COLUMNS_SQL``: a product's regular price in kobo, and the product's sale.

    The sale may be running, upcoming or ended. ``sale_left`` is None for a sale without a limit.
    """

    price_minor: int
    sale_id: UUID | None
    sale_price_minor: int | None
    sale_starts_at: datetime | None
    sale_ends_at: datetime | None
    sale_left: int | None

    def sale_price(self, *, quantity: int, now: datetime) -> int | None:
        """Return the sale price of a unit in kobo, if the sale runs and has enough units for the line.

        A sale does not apply if the regular price is equal or lower.

        :param quantity: units of the order line
        """
        price, starts_at, ends_at = self.sale_price_minor, self.sale_starts_at, self.sale_ends_at
        if price is None or starts_at is None or ends_at is None:
            return None
        has_enough_units = self.sale_left is None or self.sale_left >= quantity
        applies = starts_at <= now < ends_at and has_enough_units and price < self.price_minor
        return price if applies else None

    def unit_price(self, *, quantity: int, now: datetime) -> int:
        """Return the price of a unit in kobo: the sale price if the sale covers all units, else the regular price.

        :param quantity: units bought together
        """
        sale_price = self.sale_price(quantity=quantity, now=now)
        return self.price_minor if sale_price is None else sale_price


def percent_off(price_minor: int, *, sale_price_minor: int) -> int:
    """Return the discount of a sale in percent, rounded to the nearest integer.

    :param price_minor: regular price in kobo
    :param sale_price_minor: sale price in kobo, below the regular price
    :return: 1 to 99, never 0 or 100
    """
    percent = ((price_minor - sale_price_minor) * 200 + price_minor) // (2 * price_minor)
    return min(max(percent, 1), 99)


def price_at_percent_off(price_minor: int, *, percent: int) -> int:
    """Take a percentage off a price, rounded to the nearest kobo, half a kobo up.

    :param price_minor: regular price in kobo
    :param percent: 1 to 90
    :return: sale price in kobo
    """
    remaining_bps = BASIS_POINTS - percent * 100
    return (price_minor * remaining_bps * 2 + BASIS_POINTS) // (2 * BASIS_POINTS)


def sale_view(sale: dict[str, Any] | None, *, price_minor: int) -> dict[str, Any] | None:
    """Build the API view of a running sale.

    :param sale: value of ``CURRENT_SALE`` or ``CURRENT_SALE_SQL``
    :param price_minor: the product's regular price in kobo
    :return: None while no sale runs; ``left`` is None for a sale without a limit
    """
    if sale is None:
        return None
    return {
        "price_minor": sale["price"],
        "ends_at": datetime.fromisoformat(sale["ends"]),
        "percent_off": percent_off(price_minor, sale_price_minor=sale["price"]),
        "left": sale["left"],
    }
