"""The pieces of orders: freed, put back into stock, and refunded, each once."""

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


def release_reservation(session: Session, *, order: LockedOrder) -> None:
    """Free what is reserved for a locked order that ends unpaid."""
    remaining_units = fetch_remaining_units(session, order_id=order.id)
    if stock.release_reservation(session, quantities=remaining_units.by_product):
        drop_cached(session, cache_tags.PRODUCTS)
    flash_sales.release_units(session, units_by_sale=remaining_units.by_sale)


def mark_all_units_refunded(session: Session, *, order: LockedOrder, restock: bool) -> None:
    """Note that all pieces of a locked, paid order are refunded, those that were not before.

    Those of a flash sale stay sold at its price.

    :param restock: whether they can be had again
    """
    if restock:
        _restock(session, fetch_remaining_units(session, order_id=order.id).by_product)
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
    """Take a part of a locked order's escrow out, for pieces of it or for none; it goes on.

    The money itself is the payments area's to send, which calls this in the same transaction. Pieces that were not
    shipped can be had again, as when all of it is refunded.

    :param quantities: by product; at most what is left of each, which the caller has seen to
    :param amount_minor: kobo; less than what is held
    :param actor: who refunds
    :param reason: for the trail
    """
    record_escrow_refund(session, order=order, amount_minor=amount_minor, actor=actor, note=reason, now=now)
    record_refunded_units(session, order=order, quantities=quantities)
    if quantities and order.shipped_at is None:
        _restock(session, quantities)


def record_refunded_units(session: Session, *, order: LockedOrder, quantities: Mapping[UUID, int]) -> None:
    """Note that pieces of a locked order are refunded.

    :param quantities: by product; at most what is left of each, which the caller has seen to
    """
    for product_id, quantity in quantities.items():
        session.execute(
            update(OrderItem)
            .where(OrderItem.order_id == order.id, OrderItem.product_id == product_id)
            .values(refunded_quantity=OrderItem.refunded_quantity + quantity)
        )


def _restock(session: Session, quantities: Mapping[UUID, int]) -> None:
    if stock.restock(session, quantities=quantities):
        drop_cached(session, cache_tags.PRODUCTS)
