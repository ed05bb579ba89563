"""The terms of a flash sale, as a product carries them: when they count, and how they are shown.

Whether a sale counts is told by its window and the time of the request, never by a task having run.
"""

from collections.abc import Mapping
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

# What ``SaleTerms`` are read off, of statements that name the table ``p``.
SALE_COLUMNS_SQL = "p.sale_id, p.sale_price_minor, p.sale_starts_at, p.sale_ends_at, p.sale_left"
PRICE_COLUMNS_SQL = f"p.price_minor, {SALE_COLUMNS_SQL}"

_MIN_PERCENT_OFF, _MAX_PERCENT_OFF = 1, 99


@dataclass(frozen=True, slots=True)
class SaleTerms:
    """The sale that a product carries: the one that runs or comes next, or one that is over by now."""

    sale_id: UUID
    price_minor: int
    starts_at: datetime
    ends_at: datetime
    units_left: int | None

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> "SaleTerms | None":
        """Read the terms off a row that holds the columns ``SALE_COLUMNS_SQL``."""
        if row["sale_id"] is None:
            return None
        return cls(
            row["sale_id"],
            row["sale_price_minor"],
            row["sale_starts_at"],
            row["sale_ends_at"],
            row["sale_left"],
        )

    def applies_to(self, *, quantity: int, regular_minor: int, now: datetime) -> bool:
        """Tell whether a line has the sale's price: it runs, and has pieces for all of it.

        A regular price that was lowered to the sale's or below wins.

        :param quantity: pieces of the line
        :param regular_minor: the product's own price, in kobo
        :param now: the time of the request
        """
        is_running = self.starts_at <= now < self.ends_at
        has_enough_units = self.units_left is None or self.units_left >= quantity
        return is_running and has_enough_units and self.price_minor < regular_minor


@dataclass(frozen=True)
class PricedRow:
    """The columns of ``PRICE_COLUMNS_SQL``: a product's regular price in kobo, and the sale that it carries."""

    price_minor: int
    sale_id: UUID | None
    sale_price_minor: int | None
    sale_starts_at: datetime | None
    sale_ends_at: datetime | None
    sale_left: int | None

    def unit_price(self, *, quantity: int, now: datetime) -> int:
        """Give the price of a unit in kobo: the sale's price if it applies to all units, or else the regular one.

        :param quantity: units that are bought together
        """
        terms = SaleTerms.from_row(vars(self))
        if terms is not None and terms.applies_to(quantity=quantity, regular_minor=self.price_minor, now=now):
            return terms.price_minor
        return self.price_minor


def percent_off(price_minor: int, *, sale_price_minor: int) -> int:
    """Tell by how much a sale is cheaper, in whole percent, rounded to the nearest.

    :param price_minor: the regular price, in kobo
    :param sale_price_minor: the sale's, in kobo; less than the regular one
    :return: 1 to 99: neither nothing nor everything
    """
    percent = ((price_minor - sale_price_minor) * 200 + price_minor) // (2 * price_minor)
    return min(max(percent, _MIN_PERCENT_OFF), _MAX_PERCENT_OFF)


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
