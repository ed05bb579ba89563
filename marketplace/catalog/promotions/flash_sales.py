"""Flash sales: create, change and end sales; reserve and release units for orders.

A sale's row is changed only under the row lock of its product. That lock therefore covers everything that a price
depends on. The product repeats the terms of the running or next sale.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from sqlalchemy import select, text
from sqlalchemy.orm import Session

from marketplace.audit.operations import Act
from marketplace.catalog import cache_tags, stock, texts
from marketplace.catalog.moderation.rules import MIN_PRICE_MINOR
from marketplace.catalog.promotions import common
from marketplace.catalog.promotions.models import FlashSale
from marketplace.catalog.sale_price import price_at_percent_off
from marketplace.infra.cache import drop_cached
from marketplace.infra.sql.statements import Statement
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
    """The new quantity of the sale is below the units that orders already hold."""

    reason = "quantity-below-sold"


@dataclass(frozen=True, slots=True)
class Discount:
    """The discount of a sale: a price in kobo, or a percentage off the regular price."""

    price_minor: int | None = None
    percent: int | None = None

    def sale_price(self, regular_minor: int) -> int:
        """Return the sale price in kobo.

        :param regular_minor: the product's regular price, in kobo
        :raises ValidationError: the price is not below the regular price, exceeds ``MAX_PERCENT_OFF``, or is below
            the minimum price of a product
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
            raise ValidationError.of(
                "salePriceMinor", f"Must be below the regular price of {regular_minor} kobo."
            )
        if self.price_minor < min_price:
            raise ValidationError.of(
                "salePriceMinor",
                texts.SALE_PRICE_TOO_LOW.format(
                    minimum=min_price, max_percent=MAX_PERCENT_OFF, min_price=MIN_PRICE_MINOR
                ),
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
    """Create a flash sale.

    :param product_id: a product in any status except removed and deleted; shown only while the product is visible
    :param discount: a percentage is converted to a price from the current regular price
    :param starts_at: None for now
    :param quantity: units at the sale price; None for no limit
    :return: the sale's id
    :raises ValidationError: the product does not exist, the period is invalid, or the price is too high or too low
    :raises ConflictOfInterestError: the product belongs to the officer's own store
    :raises OverlappingSaleError: the product has another sale in the period
    """
    product = _LOCK_PRODUCT.first(session, product_id=product_id)
    if product is None:
        raise ValidationError.of("productId", "Product not found.")
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
    """Change a flash sale that has not ended. Placed orders keep the old price.

    :param revision: the revision that the client read, or None to skip the check
    :param discount: None to keep the price
    :param changes: columns: starts_at, ends_at, quantity
    :raises NotFoundError: the sale does not exist
    :raises ConflictOfInterestError: the product belongs to the officer's own store
    :raises PromotionEndedError: the sale has ended
    :raises StaleRevisionError: the revision is not current
    :raises QuantityBelowSoldError: orders hold more units than ``quantity``
    :raises ValidationError: as for ``create_flash_sale``, or the sale has started and its start would change
    :raises OverlappingSaleError: the product has another sale in the period
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
            f"`quantity` must be at least {sale.sold}, because orders already hold that many units.",
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
    """End a running flash sale now, or cancel an upcoming flash sale.

    :raises NotFoundError: the sale does not exist
    :raises ConflictOfInterestError: the product belongs to the officer's own store
    :raises PromotionEndedError: the sale has already ended
    """
    _lock_product_of_sale(session, act, sale_id)
    _SALES.end(session, act, sale_id)


# Copies the running or next sale to the product. Without such a sale the columns become null.
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
    """Update the current sale of a product after a sale has started or ended."""
    # Lock first: the update must start after all transactions that changed the sales have ended.
    stock.lock_products(session, product_ids=[product_id])
    _UPDATE_CURRENT_SALE.run(session, ids=[product_id], now=now)
    drop_cached(session, *_CACHE_TAGS)


def replace_ended_sales(
    session: Session, products: dict[UUID, stock.LockedProduct], *, now: datetime
) -> dict[UUID, stock.LockedProduct]:
    """Replace ended sales of products by the next sales, if no task has done so yet.

    :param products: by id; the caller must hold the row locks
    :return: the same products without ended sales
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
    """Reserve units of sales for an order.

    :param units_by_sale: the caller must hold the products' row locks and have checked that enough units are left
    """
    if not units_by_sale:
        return
    ids = sorted(units_by_sale)
    # Cached content shows the units left. A sale without a limit changes nothing that is shown.
    if _ADD_SOLD_UNITS.scalar(session, ids=ids, units=[units_by_sale[sale_id] for sale_id in ids]):
        drop_cached(session, *_CACHE_TAGS)


def release_units(session: Session, *, units_by_sale: Mapping[UUID, int]) -> None:
    """Release the units of an order that was not completed.

    :param units_by_sale: the caller must hold the products' row locks
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
    """Refuse a second sale of a product in the period. The product's row lock excludes concurrent sales."""
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
        starts_at_text, ends_at_text = iso(other.starts_at), iso(other.over_at)
        raise OverlappingSaleError(
            texts.FLASH_SALE_OVERLAPS.format(starts_at=starts_at_text, ends_at=ends_at_text),
            invalid_params=[
                InvalidParam("startsAt", f"Overlaps with the sale from {starts_at_text} to {ends_at_text}.")
            ],
        )


class _FlashSaleType(common.PromotionType[FlashSale]):
    """Flash sales; the products repeat the running or next sale."""

    def publish(self, session: Session, act: Act, row: FlashSale) -> None:
        """Update the product's current sale, now and at the future start and end."""
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
