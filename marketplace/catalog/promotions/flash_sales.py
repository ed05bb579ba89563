"""Flash sales are made, changed and ended; orders claim their pieces and give them back.

A sale's row is changed under the lock of its product's row alone: whoever holds that has all that a price
depends on. The product repeats the terms of the sale that runs or comes next.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from sqlalchemy import select, text
from sqlalchemy.orm import Session

from marketplace.audit.operations import Act
from marketplace.catalog import cache_tags, stock
from marketplace.catalog.moderation.rules import MIN_PRICE_MINOR
from marketplace.catalog.promotions import common
from marketplace.catalog.promotions.models import FlashSale
from marketplace.catalog.sale_price import price_at_percent_off
from marketplace.infra.cache import drop_cached
from marketplace.infra.db import Statement
from marketplace.kernel.clock import iso
from marketplace.kernel.errors import ConflictError, InvalidParam, ValidationError

MAX_SALE_DURATION = timedelta(days=30)
MAX_PERCENT_OFF = 90
MAX_QUANTITY = 100_000

_CACHE_TAGS = (cache_tags.PRODUCTS, cache_tags.FLASH_SALES)


class OverlappingSaleError(ConflictError):
    """The product has another flash sale in this period."""

    reason = "overlapping-sale"


class QuantityBelowSoldError(ConflictError):
    """Orders have taken more units than the new quantity of the sale."""

    reason = "quantity-below-sold"


@dataclass(frozen=True, slots=True)
class Discount:
    """What a sale costs: a price in kobo, or a percentage taken off the regular one."""

    price_minor: int | None = None
    percent: int | None = None

    def sale_price(self, regular_minor: int) -> int:
        """Tell the sale's price.

        :param regular_minor: the product's own price, in kobo
        :raises ValidationError: it would not be below that, or below what ``MAX_PERCENT_OFF`` leaves of it or
            what anything costs at least
        """
        min_price = max(price_at_percent_off(regular_minor, percent=MAX_PERCENT_OFF), MIN_PRICE_MINOR)
        if self.percent is not None:
            price = price_at_percent_off(regular_minor, percent=self.percent)
            if price < min_price:
                raise ValidationError.of("percentOff", f"Must leave a price of at least {min_price} kobo.")
            return price
        if self.price_minor is None:
            raise ValueError("a discount is a price or a percentage")
        if self.price_minor >= regular_minor:
            raise ValidationError.of("salePriceMinor", f"Must be below the regular price, {regular_minor}.")
        if self.price_minor < min_price:
            raise ValidationError.of(
                "salePriceMinor",
                f"Must be at least {min_price}: at most {MAX_PERCENT_OFF} percent off, and a price of"
                f" {MIN_PRICE_MINOR} kobo.",
            )
        return self.price_minor


_LOCK_PRODUCT = Statement(
    text(
        """
        SELECT p.id, p.price_minor, p.status, v.user_id
        FROM products p JOIN vendor_profiles v ON v.id = p.vendor_id
        WHERE p.id = :product_id AND p.status NOT IN ('removed', 'deleted')
        FOR NO KEY UPDATE OF p
        """
    )
)


def create_flash_sale(
    session: Session,
    act: Act,
    *,
    product_id: UUID,
    discount: Discount,
    starts_at: datetime | None,
    ends_at: datetime,
    quantity: int | None,
) -> UUID:
    """Make a flash sale.

    :param product_id: of any state but taken down and deleted; the sale shows while the product does
    :param discount: a percentage is made a price here, of the regular price as it is now
    :param starts_at: none for now
    :param quantity: pieces that are sold at its price; none for as many as there are
    :return: the sale's id
    :raises ValidationError: no such product, no such window, or the price is not below the regular one or too far
        below it
    :raises ConflictOfInterestError: the product is the officer's own store's
    :raises OverlappingSaleError: the product has another sale in that time
    """
    product = _LOCK_PRODUCT.first(session, product_id=product_id)
    if product is None:
        raise ValidationError.of("productId", "There is no such product.")
    common.ensure_not_own_store(product["user_id"], user_id=act.person_id)
    sale = _SALES.build(
        session,
        act,
        {
            "product_id": product_id,
            "percent_off": discount.percent,
            "starts_at": starts_at,
            "ends_at": ends_at,
            "quantity": quantity,
        },
    )
    _ensure_no_overlap(session, product_id=product_id, starts_at=sale.starts_at, ends_at=ends_at)
    sale.sale_price_minor = discount.sale_price(product["price_minor"])
    return _SALES.insert(session, act, sale)


def update_flash_sale(
    session: Session,
    act: Act,
    *,
    sale_id: UUID,
    revision: int | None,
    discount: Discount | None,
    changes: dict[str, Any],
) -> None:
    """Change a flash sale that is not over; orders that were placed keep their price.

    :param revision: the one that the client read, or none not to compare
    :param discount: none to leave the price
    :param changes: columns: starts_at, ends_at, quantity
    :raises NotFoundError: there is none
    :raises PromotionEndedError: it is over
    :raises StaleRevisionError: the revision is not the current one
    :raises QuantityBelowSoldError: orders have claimed more than ``quantity``
    :raises ValidationError: as for ``create_flash_sale``, or it has begun and its beginning would change
    :raises OverlappingSaleError: the product has another sale in that time
    """
    product = _lock_product_of_sale(session, act, sale_id)
    sale = _SALES.lock_to_change(session, act, sale_id, revision=revision, changes=changes)
    if discount is not None:
        changes = changes | {
            "sale_price_minor": discount.sale_price(product["price_minor"]),
            "percent_off": discount.percent,
        }
    quantity = changes.get("quantity")
    if quantity is not None and quantity < sale.sold:
        raise QuantityBelowSoldError(
            f"Orders have claimed {sale.sold} pieces; the quantity can't be less.",
            invalid_params=[InvalidParam("quantity", f"Must be at least {sale.sold}.")],
        )
    _ensure_no_overlap(
        session,
        product_id=sale.product_id,
        starts_at=changes.get("starts_at", sale.starts_at),
        ends_at=changes.get("ends_at", sale.ends_at),
        sale_id=sale.id,
    )
    _SALES.change(session, act, sale, changes)


def end_flash_sale(session: Session, act: Act, *, sale_id: UUID) -> None:
    """End a flash sale now, or call it off if it has not begun.

    :raises NotFoundError: there is none
    :raises PromotionEndedError: it is over already
    """
    _lock_product_of_sale(session, act, sale_id)
    _SALES.end(session, act, sale_id)


# A locked product carries the sale that runs or comes next; where there is none, the columns become null.
_UPDATE_CURRENT_SALE = Statement(
    text(
        """
        UPDATE products p SET (sale_id, sale_price_minor, sale_starts_at, sale_ends_at, sale_left) = (
            SELECT f.id, f.sale_price_minor, f.starts_at, f.over_at, f.quantity - f.sold FROM flash_sales f
            WHERE f.product_id = p.id AND f.over_at > :now AND f.over_at > f.starts_at
            ORDER BY f.starts_at LIMIT 1
        )
        WHERE p.id = ANY(:ids)
        """
    )
)


def on_boundary(session: Session, *, product_id: UUID, now: datetime) -> None:
    """Bring a product's running or next sale forward, one having begun or ended."""
    # Locked first: the statement that brings forward must begin after all that changed the sales has ended.
    stock.lock_products(session, product_ids=[product_id])
    _UPDATE_CURRENT_SALE.run(session, ids=[product_id], now=now)
    drop_cached(session, *_CACHE_TAGS)


def replace_ended_sales(
    session: Session, products: dict[UUID, stock.LockedProduct], *, now: datetime
) -> dict[UUID, stock.LockedProduct]:
    """Bring forward what comes after sales that are over, where no task has done so yet.

    :param products: locked, by id
    :return: the same products, none of them with a sale that is over
    """
    over = [
        product.id for product in products.values() if product.sale_ends_at and product.sale_ends_at <= now
    ]
    if not over:
        return products
    _UPDATE_CURRENT_SALE.run(session, ids=over, now=now)
    drop_cached(session, *_CACHE_TAGS)
    return products | stock.lock_products(session, product_ids=over)


_ADD_SOLD_UNITS = Statement(
    text(
        """
        WITH claimed AS (
            UPDATE flash_sales f SET sold = f.sold + m.n
            FROM unnest(CAST(:ids AS uuid[]), CAST(:units AS bigint[])) AS m (id, n)
            WHERE f.id = m.id
            RETURNING f.id, f.product_id, f.quantity - f.sold AS units_left
        ), refreshed AS (
            UPDATE products p SET sale_left = c.units_left
            FROM claimed c WHERE p.id = c.product_id AND p.sale_id = c.id AND c.units_left IS NOT NULL
            RETURNING p.id
        )
        SELECT count(*) FROM refreshed
        """
    )
)


def reserve_units(session: Session, *, units_by_sale: Mapping[UUID, int]) -> None:
    """Claim pieces of sales for an order.

    :param units_by_sale: by sale; the products' rows are locked, and their terms say that there are enough
    """
    if not units_by_sale:
        return
    ids = sorted(units_by_sale)
    # What is left is shown to everybody; of a sale without limit nothing changes for anybody.
    if _ADD_SOLD_UNITS.scalar(session, ids=ids, units=[units_by_sale[sale_id] for sale_id in ids]):
        drop_cached(session, *_CACHE_TAGS)


def release_units(session: Session, *, units_by_sale: Mapping[UUID, int]) -> None:
    """Give back the pieces that an order claimed, the order having come to nothing.

    :param units_by_sale: by sale; the products' rows are locked
    """
    reserve_units(session, units_by_sale={sale_id: -count for sale_id, count in units_by_sale.items()})


_LOCK_PRODUCT_OF_SALE = Statement(
    text(
        """
        SELECT p.id, p.price_minor, p.status, v.user_id
        FROM flash_sales f JOIN products p ON p.id = f.product_id JOIN vendor_profiles v ON v.id = p.vendor_id
        WHERE f.id = :sale_id
        FOR NO KEY UPDATE OF p
        """
    )
)


def _lock_product_of_sale(session: Session, act: Act, sale_id: UUID) -> dict[str, Any]:
    product = _SALES.ensure_found(_LOCK_PRODUCT_OF_SALE.first(session, sale_id=sale_id))
    common.ensure_not_own_store(product["user_id"], user_id=act.person_id)
    return product


def _ensure_no_overlap(
    session: Session, *, product_id: UUID, starts_at: datetime, ends_at: datetime, sale_id: UUID | None = None
) -> None:
    """Refuse two sales of one product at once; the product's lock makes the answer last."""
    other = session.execute(
        select(FlashSale.starts_at, FlashSale.over_at)
        .where(
            FlashSale.product_id == product_id,
            FlashSale.over_at > starts_at,
            FlashSale.starts_at < ends_at,
            FlashSale.over_at > FlashSale.starts_at,
            FlashSale.id.is_distinct_from(sale_id),
        )
        .order_by(FlashSale.starts_at)
        .limit(1)
    ).one_or_none()
    if other is not None:
        when = f"from {iso(other.starts_at)} to {iso(other.over_at)}"
        raise OverlappingSaleError(
            f"The product has another flash sale {when}.",
            invalid_params=[InvalidParam("startsAt", f"Overlaps with the sale {when}.")],
        )


class _FlashSaleType(common.PromotionType[FlashSale]):
    """Flash sales; their products carry the sale that runs or comes next."""

    def publish(self, session: Session, act: Act, row: FlashSale) -> None:
        """Have the product carry the sale that runs or comes next, now and at the boundaries to come."""
        _UPDATE_CURRENT_SALE.run(session, ids=[row.product_id], now=act.now)
        drop_cached(session, *_CACHE_TAGS)
        common.schedule_boundaries(
            session,
            boundaries=(row.starts_at, row.over_at) if row.over_at > row.starts_at else (),
            tags=_CACHE_TAGS,
            now=act.now,
            product_id=row.product_id,
        )


_SALES = _FlashSaleType(
    FlashSale,
    name="flash_sale",
    audited_columns=(
        *("product_id", "sale_price_minor", "percent_off", "starts_at", "ends_at", "quantity", "ended_at"),
    ),
    tag=cache_tags.FLASH_SALES,
    max_duration=MAX_SALE_DURATION,
)
