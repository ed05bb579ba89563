"""Release, restock and refund the units of orders, each unit once."""

from collections.abc import Mapping
from datetime import datetime
from uuid import UUID

from sqlalchemy import update
from sqlalchemy.orm import Session

from marketplace.catalog import cache_tags, stock
from marketplace.catalog.promotions import flash_sales
from marketplace.infra.cache import drop_cached
from marketplace.orders.models import OrderItem
from marketplace.orders.transitions import Actor, LockedOrder, fetch_remaining_units, record_escrow_refund


def release_reservation(session: Session, *, order: LockedOrder, now: datetime) -> None:
    """Release the reserved stock of a locked order that ends unpaid."""
    remaining_units = fetch_remaining_units(session, order_ids=[order.id])
    if stock.release_reservation(session, quantities=remaining_units.by_product, now=now):
        drop_cached(session, cache_tags.PRODUCTS)
    flash_sales.release_units(session, units_by_sale=remaining_units.by_sale)


def mark_all_units_refunded(session: Session, *, order: LockedOrder, restock: bool, now: datetime) -> None:
    """Mark all remaining units of a locked, paid order as refunded.

    Units of a flash sale still count as sold in the sale.

    :param restock: whether the units return to stock
    """
    if restock:
        _restock(session, fetch_remaining_units(session, order_ids=[order.id]).by_product, now=now)
    session.execute(
        update(OrderItem)
        .where(OrderItem.order_id == order.id, OrderItem.refunded_quantity < OrderItem.quantity)
        .values(refunded_quantity=OrderItem.quantity)
    )


def refund_partially(
    session: Session,
    *,
    order: LockedOrder,
    quantities: Mapping[UUID, int],
    amount_minor: int,
    actor: Actor,
    reason: str,
    now: datetime,
) -> None:
    """Refund a part of a locked order's escrow, with or without units. The order continues.

    The payments area calls this and sends the money in the same transaction. Unshipped units return to stock.

    :param quantities: units by product, at most the remaining units; the caller checks that
    :param amount_minor: kobo; less than the escrow balance
    :param reason: for the order's events
    """
    record_escrow_refund(session, order=order, amount_minor=amount_minor, actor=actor, note=reason, now=now)
    record_refunded_units(session, order=order, quantities=quantities)
    if quantities and order.shipped_at is None:
        _restock(session, quantities, now=now)


def record_refunded_units(session: Session, *, order: LockedOrder, quantities: Mapping[UUID, int]) -> None:
    """Record that units of a locked order are refunded.

    :param quantities: units by product, at most the remaining units; the caller checks that
    """
    for product_id, quantity in quantities.items():
        session.execute(
            update(OrderItem)
            .where(OrderItem.order_id == order.id, OrderItem.product_id == product_id)
            .values(refunded_quantity=OrderItem.refunded_quantity + quantity)
        )


def _restock(session: Session, quantities: Mapping[UUID, int], *, now: datetime) -> None:
    if stock.restock(session, quantities=quantities, now=now):
        drop_cached(session, cache_tags.PRODUCTS)
