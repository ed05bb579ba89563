"""Moving an order along its table: status, its time and the event trail in one statement, under the row's lock."""

from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.infra.db import Statement
from marketplace.kernel.errors import NotFoundError
from marketplace.orders import states
from marketplace.orders.pricing import Price

_LOCK = """
    SELECT o.id, o.number, o.status, o.buyer_id, o.vendor_id, o.subtotal_minor, o.delivery_fee_minor,
        o.service_fee_minor, o.discount_minor, o.total_minor, o.payment_status, o.pin_counter, o.pin_failures,
        o.pin_locked_until, o.expires_at, s.status AS escrow_status, s.amount_minor AS escrow_minor
    FROM orders o JOIN escrows s ON s.order_id = o.id
"""
# Rows are locked as the scan meets them: orders by id first, each with its escrow.
_LOCK_ONE = Statement(text(f"{_LOCK} WHERE o.id = :order_id FOR NO KEY UPDATE"))
# Unpaid orders are none of the vendor's business yet.
_LOCK_OF_VENDOR = Statement(
    text(
        f"""{_LOCK} JOIN vendor_profiles v ON v.id = o.vendor_id
        WHERE o.id = :order_id AND v.user_id = :user_id AND o.paid_at IS NOT NULL
        FOR NO KEY UPDATE OF o, s"""
    )
)
_LOCK_MANY = Statement(text(f"{_LOCK} WHERE o.id = ANY(:order_ids) ORDER BY o.id FOR NO KEY UPDATE"))
_PIECES = Statement(
    text("SELECT product_id, quantity, flash_sale_id FROM order_items WHERE order_id = :order_id")
)


@dataclass(frozen=True, slots=True)
class LockedOrder:
    """An order whose row, and whose escrow's, is ours until the transaction ends. Amounts are kobo."""

    id: UUID
    number: str
    status: str
    buyer_id: UUID
    vendor_id: UUID
    subtotal_minor: int
    delivery_fee_minor: int
    service_fee_minor: int
    discount_minor: int
    total_minor: int
    payment_status: str | None
    pin_counter: int
    pin_failures: int
    pin_locked_until: datetime | None
    expires_at: datetime
    escrow_status: str
    escrow_minor: int

    @property
    def price(self) -> Price:
        """This function will give what the order costs."""
        return Price(
            self.subtotal_minor, self.delivery_fee_minor, self.service_fee_minor, self.discount_minor
        )


@dataclass(frozen=True, slots=True)
class Actor:
    """Who fires a trigger: a role (buyer, vendor, staff, gateway, system), and the person where it is one."""

    role: str
    id: UUID | None = None


SYSTEM = Actor("system")
GATEWAY = Actor("gateway")


def lock_order(session: Session, *, order_id: UUID) -> LockedOrder:
    """This function will lock an order and its escrow.

    :raises NotFoundError: there is no such order
    """
    row = _LOCK_ONE.first(session, order_id=order_id)
    if row is None:
        raise NotFoundError("There is no such order.")
    return LockedOrder(**row)


def lock_order_of_vendor(session: Session, *, order_id: UUID, user_id: UUID) -> LockedOrder:
    """This function will lock a paid order of somebody's store, and its escrow.

    :param user_id: who runs the store
    :raises NotFoundError: there is no such order in that scope
    """
    row = _LOCK_OF_VENDOR.first(session, order_id=order_id, user_id=user_id)
    if row is None:
        raise NotFoundError("There is no such order.")
    return LockedOrder(**row)


def lock_orders(session: Session, *, order_ids: list[UUID]) -> list[LockedOrder]:
    """This function will lock several orders and their escrows, in the order of their ids."""
    return [LockedOrder(**row) for row in _LOCK_MANY.all(session, order_ids=order_ids)]


@dataclass(frozen=True, slots=True)
class Pieces:
    """The pieces of an order: by product, and those that it claimed of flash sales, by sale."""

    by_product: dict[UUID, int]
    by_sale: dict[UUID, int]


def pieces_of(session: Session, *, order_id: UUID) -> Pieces:
    """This function will give the pieces of an order."""
    rows = _PIECES.all(session, order_id=order_id)
    return Pieces(
        {row["product_id"]: row["quantity"] for row in rows},
        {row["flash_sale_id"]: row["quantity"] for row in rows if row["flash_sale_id"] is not None},
    )


def move(
    session: Session,
    *,
    order: LockedOrder,
    trigger: str,
    actor: Actor,
    now: datetime,
    note: str | None = None,
    escrow: str | None = None,
    columns: dict[str, Any] | None = None,
) -> str:
    """This function will fire a trigger on a locked order.

    :param order: locked in this transaction
    :param trigger: of the order's table
    :param actor: who fires it
    :param now: when
    :param note: for the trail
    :param escrow: a trigger of the escrow's table that goes with it
    :param columns: further columns of the order to set
    :return: the order's new status
    :raises IllegalTransitionError: the order's or the escrow's state does not allow it
    """
    target = states.ORDER.target(order.status, trigger)
    values = dict(columns or {})
    if escrow is not None:
        escrow_target = states.ESCROW.target(order.escrow_status, escrow)
        values["escrow_status"] = escrow_target
        values["released_minor"] = order.escrow_minor if escrow_target == "released" else 0
    _statement(tuple(sorted(columns or {})), escrow is not None).run(
        session,
        order_id=order.id,
        source=order.status,
        target=target,
        trigger=trigger,
        actor=actor.role,
        actor_id=actor.id,
        note=note,
        now=now,
        **values,
    )
    return target


@lru_cache(maxsize=64)
def _statement(columns: tuple[str, ...], with_escrow: bool) -> Statement:
    assignments = "".join(f", {name} = :{name}" for name in columns)
    escrow = (
        """, held AS (UPDATE escrows SET status = :escrow_status, released_minor = :released_minor, updated_at = :now
            WHERE order_id = :order_id)"""
        if with_escrow
        else ""
    )
    return Statement(
        text(
            f"""
            WITH moved AS (
                UPDATE orders SET status = :target, revision = revision + 1, updated_at = :now{assignments}
                WHERE id = :order_id
            ){escrow}
            INSERT INTO order_events (order_id, from_status, to_status, trigger, actor, actor_id, note, at)
            VALUES (:order_id, :source, :target, :trigger, :actor, :actor_id, :note, :now)
            """  # noqa: S608 - the columns are named by our own code
        )
    )
