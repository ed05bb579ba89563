"""Stock of products: reserved for unpaid orders, consumed by paid orders, released otherwise.

Code that locks several products locks the rows in the order of their ids, which avoids deadlocks.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.catalog.commission_rates import COMMISSION_RATE_SQL
from marketplace.catalog.favorites import changes as favorite_changes
from marketplace.catalog.sale_price import PRICE_COLUMNS_SQL, PricedRow
from marketplace.infra.sql.statements import Prepared, Statement

# The rows are locked in the order of their ids, which the update alone would not do.
_UPDATE_STOCK_SQL = """
    WITH m AS MATERIALIZED (
        SELECT l.id, q.n
        FROM products l JOIN unnest(CAST(:ids AS uuid[]), CAST(:quantities AS bigint[])) AS q (id, n) ON q.id = l.id
        ORDER BY l.id FOR NO KEY UPDATE OF l
    )
    UPDATE products p SET {change} FROM m WHERE p.id = m.id
"""
_RESTOCKED_AT_SQL = (
    "restocked_at = CASE WHEN p.available <= 0 THEN CAST(:now AS timestamptz) ELSE p.restocked_at END"
)


@dataclass(frozen=True)
class LockedProduct(PricedRow):
    """A product for an order, with the row lock held by the current transaction.

    :ivar commission_bps: rate of the product's categories in basis points; None for the platform's rate
    """

    id: UUID
    vendor_id: UUID
    campus_id: UUID
    title: str
    cover_key: str | None
    available: int
    published: bool
    commission_bps: int | None


_LOCK_PRODUCTS = Prepared(
    text(
        f"""
        SELECT {PRICE_COLUMNS_SQL}, p.id, p.vendor_id, p.campus_id, p.title, p.cover_key, p.available,
            p.status = 'published' AS published, {COMMISSION_RATE_SQL} AS commission_bps
        FROM products p JOIN categories c ON c.id = p.category_id
        WHERE p.id = ANY(:ids)
        ORDER BY p.id
        FOR NO KEY UPDATE OF p
        """
    ),
    row=LockedProduct,
)


def lock_products(session: Session, *, product_ids: list[UUID]) -> dict[UUID, LockedProduct]:
    """Lock the rows of products for an order.

    :return: existing products by id
    """
    return {product.id: product for product in _LOCK_PRODUCTS.all(session, ids=sorted(product_ids))}


_RESERVE_STOCK = Prepared(
    text(_UPDATE_STOCK_SQL.format(change="reserved = p.reserved + m.n") + " RETURNING p.available")
)


def reserve_stock(session: Session, *, quantities: Mapping[UUID, int]) -> bool:
    """Reserve stock of locked products.

    :param quantities: units by product; the caller must hold the row locks and have checked the stock
    :return: whether a product sold out, which makes cached content stale
    """
    return any(
        available == 0 for available in _RESERVE_STOCK.scalars(session, **_quantity_parameters(quantities))
    )


@dataclass(frozen=True)
class _ReturnedStock:
    """A product whose units returned, and the available units before the change."""

    id: UUID
    available_before: int


_RELEASE_RESERVATION = Statement(
    text(
        _UPDATE_STOCK_SQL.format(change=f"reserved = p.reserved - m.n, {_RESTOCKED_AT_SQL}")
        + " RETURNING p.id, p.available - m.n AS available_before"
    ),
    row=_ReturnedStock,
)


def release_reservation(session: Session, *, quantities: Mapping[UUID, int], now: datetime) -> bool:
    """Release reserved stock of an order that was not completed.

    :param quantities: units by product
    :return: whether a sold-out product is available again
    """
    returned = _RELEASE_RESERVATION.all(session, **_quantity_parameters(quantities), now=now)
    return _announce_restock(session, returned, now=now)


_CONSUME_STOCK = Prepared(
    text(
        _UPDATE_STOCK_SQL.format(
            change="quantity = p.quantity - m.n, reserved = p.reserved - m.n, popularity = p.popularity + m.n"
        )
    )
)


def consume_stock(session: Session, *, quantities: Mapping[UUID, int]) -> None:
    """Deduct reserved stock of a paid order.

    :param quantities: units by product
    """
    _CONSUME_STOCK.run(session, **_quantity_parameters(quantities))


_RESTOCK = Statement(
    text(
        _UPDATE_STOCK_SQL.format(
            change="quantity = least(p.quantity + m.n, 100000), popularity = greatest(p.popularity - m.n, 0), "
            + _RESTOCKED_AT_SQL
        )
        + " RETURNING p.id, p.available - m.n AS available_before"
    ),
    row=_ReturnedStock,
)


def restock(session: Session, *, quantities: Mapping[UUID, int], now: datetime) -> bool:
    """Return the stock of a paid order that was cancelled. The quantity is capped at 100,000.

    :param quantities: units by product
    :return: whether a sold-out product is available again
    """
    returned = _RESTOCK.all(session, **_quantity_parameters(quantities), now=now)
    return _announce_restock(session, returned, now=now)


def _announce_restock(session: Session, returned: Sequence[_ReturnedStock], *, now: datetime) -> bool:
    """Have the favourites of restocked products checked, and return whether there are restocked products."""
    restocked = [product.id for product in returned if product.available_before <= 0]
    if restocked:
        favorite_changes.enqueue_change(session, product_ids=restocked, now=now)
    return bool(restocked)


def _quantity_parameters(quantities: Mapping[UUID, int]) -> dict[str, list[UUID] | list[int]]:
    ids = sorted(quantities)
    return {"ids": ids, "quantities": [quantities[product_id] for product_id in ids]}
