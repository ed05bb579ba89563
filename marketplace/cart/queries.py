"""Queries of the cart with current prices, flash sales and stock."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Literal, get_args
from uuid import UUID

from sqlalchemy import select, text
from sqlalchemy.orm import Session

from marketplace.cart.models import CartItem
from marketplace.catalog.sale_price import PRICE_COLUMNS_SQL, PricedRow
from marketplace.infra.sql.statements import Statement
from marketplace.kernel.money import CURRENCY
from marketplace.kernel.ratings import average_rating
from marketplace.vendors.queries import STORE_IS_OPEN_SQL

Problem = Literal["not_available", "out_of_stock", "insufficient_stock", "price_changed"]
PROBLEMS: tuple[Problem, ...] = get_args(Problem)


@dataclass(frozen=True)
class CartVendor:
    """A store in a cart."""

    id: UUID
    display_name: str
    slug: str
    verified: bool
    rating: float | None


@dataclass(frozen=True)
class CartVendorTotal(CartVendor):
    """A store in a cart, with the total of its orderable lines in kobo."""

    item_count: int
    subtotal_minor: int


@dataclass(frozen=True)
class CartLineView(PricedRow):
    """A line of a cart, compared with the current offer. Amounts are kobo."""

    product_id: UUID
    quantity: int
    price_minor_seen: int
    title: str
    condition: str
    image_url: str | None
    campus_id: UUID
    stock: int
    offered: bool
    vendor_id: UUID
    display_name: str
    slug: str
    verified: bool
    rating_sum: int
    rating_count: int
    now: datetime

    @cached_property
    def unit_price_minor(self) -> int:
        """The current price of a unit, in kobo."""
        return self.unit_price(quantity=self.quantity, now=self.now)

    @property
    def line_total_minor(self) -> int:
        """The current price of all units, in kobo."""
        return self.unit_price_minor * self.quantity

    @property
    def on_sale_until(self) -> datetime | None:
        """The end of the flash sale, if the line has the sale's price."""
        return self.sale_ends_at if self.unit_price_minor < self.price_minor else None

    @property
    def available(self) -> int:
        """The units that can be ordered."""
        return self.stock if self.offered else 0

    @property
    def in_stock(self) -> bool:
        """Whether any unit can be ordered."""
        return self.available > 0

    @property
    def problem(self) -> Problem | None:
        """The first of ``PROBLEMS`` that applies to the line; none if the line is valid."""
        if not self.offered:
            return "not_available"
        if self.stock == 0:
            return "out_of_stock"
        if self.stock < self.quantity:
            return "insufficient_stock"
        return "price_changed" if self.unit_price_minor != self.price_minor_seen else None

    @property
    def previous_price_minor(self) -> int | None:
        """The price that the buyer saw, if the price has changed since."""
        return self.price_minor_seen if self.problem == "price_changed" else None

    @property
    def orderable(self) -> bool:
        """Whether the line can be ordered. A changed price does not prevent an order."""
        return self.problem in (None, "price_changed")

    @property
    def vendor(self) -> CartVendor:
        """The line's store."""
        return CartVendor(
            self.vendor_id,
            self.display_name,
            self.slug,
            self.verified,
            average_rating(self.rating_sum, self.rating_count),
        )


@dataclass(frozen=True)
class CartView:
    """A cart. A ``valid`` cart has only orderable lines.

    ``subtotal_minor`` is the total of the orderable lines in kobo.
    """

    items: Sequence[CartLineView]
    vendors: Sequence[CartVendorTotal]
    campus_id: UUID | None
    item_count: int
    subtotal_minor: int
    currency: str
    valid: bool


_SELECT_CART_LINES = Statement(
    text(
        f"""
        SELECT {PRICE_COLUMNS_SQL}, c.product_id, c.quantity, c.price_minor_seen, p.title, p.condition,
            CAST(:media_base_url AS text) || '/' || p.cover_key AS image_url, p.campus_id, p.available AS stock,
            p.status = 'published' AND {STORE_IS_OPEN_SQL} AS offered, v.id AS vendor_id, v.display_name, v.slug,
            v.verified, v.rating_sum, v.rating_count, CAST(:now AS timestamptz) AS now
        FROM cart_items c
            JOIN products p ON p.id = c.product_id
            JOIN vendor_profiles v ON v.id = p.vendor_id
        WHERE c.user_id = :user_id
        ORDER BY c.position, c.product_id
        """
    ),
    row=CartLineView,
)


def fetch_cart(session: Session, *, user_id: UUID, now: datetime, media_base_url: str) -> CartView:
    """Fetch a user's cart in one query, each line compared with the current offer.

    :param now: decides which sales run and which vacations have ended
    :param media_base_url: the address of images
    :return: the lines in order, and the vendors with subtotals
    """
    items = _SELECT_CART_LINES.all(session, user_id=user_id, now=now, media_base_url=media_base_url)
    items_by_vendor: dict[CartVendor, list[CartLineView]] = {}
    for item in items:
        items_by_vendor.setdefault(item.vendor, []).append(item)
    vendors = [
        CartVendorTotal(
            **vars(vendor),
            item_count=len(lines),
            subtotal_minor=sum(line.line_total_minor for line in lines if line.orderable),
        )
        for vendor, lines in items_by_vendor.items()
    ]
    return CartView(
        items,
        vendors,
        campus_id=items[0].campus_id if items else None,
        item_count=len(items),
        subtotal_minor=sum(vendor.subtotal_minor for vendor in vendors),
        currency=CURRENCY,
        valid=all(item.orderable for item in items),
    )


def list_cart_items(session: Session, *, user_id: UUID) -> Sequence[CartItem]:
    """List the lines of a user's cart in order."""
    return session.scalars(
        select(CartItem).where(CartItem.user_id == user_id).order_by(CartItem.position, CartItem.product_id)
    ).all()
