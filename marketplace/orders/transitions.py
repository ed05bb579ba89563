"""Lock orders and apply transitions: a single statement writes status, escrow and event."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from types import MappingProxyType
from typing import Any
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.audit.person_keys import seal
from marketplace.infra import outbox
from marketplace.infra.sql.statements import Prepared, Row
from marketplace.kernel import queues
from marketplace.kernel.errors import found
from marketplace.kernel.signals import RECORDER
from marketplace.orders import states
from marketplace.orders.pricing import Price
from marketplace.orders.queries import ORDER_COLUMNS_SQL, OrderColumns

# A delivered order whose buyer got all money back. Reviews take the order's stars out of the store's rating.
REFUNDED_IN_FULL_TOPIC = "order.refunded-in-full"


@dataclass(frozen=True)
class LockedOrder(OrderColumns):
    """An order with row and escrow locked until the transaction ends. Amounts are kobo."""

    buyer_id: UUID
    buyer_referral_pending: bool
    vendor_id: UUID
    wallet_minor: int
    accepted_minor: int
    pin_failures: int
    escrow_minor: int
    released_minor: int
    refunded_minor: int
    clawed_back_minor: int
    commission_minor: int

    @property
    def due_minor(self) -> int:
        """The total less the parts that the wallet and accepted charges paid, in kobo."""
        return self.total_minor - self.wallet_minor - self.accepted_minor

    @property
    def payable_minor(self) -> int:
        """The amount left to pay in kobo: 0 unless the order awaits payment."""
        return self.due_minor if self.status == states.PENDING_PAYMENT else 0

    @property
    def escrow_balance_minor(self) -> int:
        """The escrow balance of a paid order in kobo; 0 in any other state."""
        if self.escrow_status not in ("held", "frozen"):
            return 0
        return self.escrow_minor - self.released_minor - self.refunded_minor

    @property
    def net_released_minor(self) -> int:
        """The amount released to vendor and platform, less clawbacks, in kobo."""
        return self.released_minor - self.clawed_back_minor

    @property
    def price(self) -> Price:
        """The price of the order."""
        return Price(
            self.subtotal_minor, self.delivery_fee_minor, self.service_fee_minor, self.discount_minor
        )


ACTOR_ROLES = ("buyer", "vendor", "staff", "gateway", "system")


@dataclass(frozen=True, slots=True)
class Actor:
    """The actor of a transition: a role, one of ``ACTOR_ROLES``, and the id of a person."""

    role: str
    id: UUID | None = None


@dataclass(frozen=True, slots=True)
class EscrowTransition:
    """A change of an order's escrow. Without a trigger the escrow keeps its state. Amounts are kobo."""

    trigger: str | None
    released_minor: int = 0
    refunded_minor: int = 0
    clawed_back_minor: int = 0


# An order was delivered to a buyer whose referral is pending. The referrals area handles the event.
REFERRED_ORDER_DELIVERED_TOPIC = "referral.order-delivered"
SYSTEM = Actor("system")
GATEWAY = Actor("gateway")


# The commission is rounded down for each line, as in pricing.OrderLine.commission_minor.
_SELECT_ORDER_SQL = f"""
    SELECT {ORDER_COLUMNS_SQL}, (SELECT user_id FROM vendor_profiles WHERE id = o.vendor_id) AS vendor_user_id,
        o.buyer_id, (SELECT referral_pending FROM profiles WHERE id = o.buyer_id) AS buyer_referral_pending,
        o.vendor_id, o.wallet_minor, o.accepted_minor, o.pin_failures,
        s.amount_minor AS escrow_minor, s.released_minor, s.refunded_minor, s.clawed_back_minor,
        (SELECT coalesce(sum(i.line_total_minor * i.commission_bps / 10000), 0)::bigint
            FROM order_items i WHERE i.order_id = o.id) AS commission_minor
    FROM orders o JOIN escrows s ON s.order_id = o.id
"""
# Rows are locked in scan order: orders by id, each with its escrow.
_LOCK_ORDERS = Prepared(
    text(f"{_SELECT_ORDER_SQL} WHERE o.id = ANY(:order_ids) ORDER BY o.id FOR NO KEY UPDATE"),
    row=LockedOrder,
)


def lock_orders(session: Session, *, order_ids: list[UUID]) -> list[LockedOrder]:
    """Lock orders with their escrows, in the order of ids. Unknown ids are left out."""
    return _LOCK_ORDERS.all(session, order_ids=order_ids)


_LOCK_CHECKOUT_OF_ORDER = Prepared(
    text(
        f"""{_SELECT_ORDER_SQL}
        WHERE o.buyer_id = :buyer_id AND o.id = ANY(ARRAY(
            SELECT CAST(:order_id AS uuid)
            UNION ALL
            SELECT c.id FROM orders c WHERE c.checkout_id = (SELECT checkout_id FROM orders WHERE id = :order_id)
        )) ORDER BY o.id FOR NO KEY UPDATE OF o, s"""
    ),
    row=LockedOrder,
)


def lock_checkout_of_order(session: Session, *, order_id: UUID, buyer_id: UUID) -> list[LockedOrder]:
    """Lock an order of a buyer together with all orders of its checkout, in the order of ids.

    :return: no orders if the order does not exist or belongs to another buyer
    """
    return _LOCK_CHECKOUT_OF_ORDER.all(session, order_id=order_id, buyer_id=buyer_id)


_LOCK_ORDER = Prepared(text(f"{_SELECT_ORDER_SQL} WHERE o.id = :order_id FOR NO KEY UPDATE"), row=LockedOrder)


def lock_order(session: Session, *, order_id: UUID) -> LockedOrder:
    """Lock an order with its escrow.

    :raises NotFoundError: the order does not exist
    """
    return found(_LOCK_ORDER.first(session, order_id=order_id), "Order not found.")


# Unpaid orders are hidden from the vendor.
_LOCK_ORDER_OF_VENDOR = Prepared(
    text(
        f"""{_SELECT_ORDER_SQL} JOIN vendor_profiles v ON v.id = o.vendor_id
        WHERE o.id = :order_id AND v.user_id = :user_id AND o.paid_at IS NOT NULL
        FOR NO KEY UPDATE OF o, s"""
    ),
    row=LockedOrder,
)


def lock_order_of_vendor(session: Session, *, order_id: UUID, user_id: UUID) -> LockedOrder:
    """Lock a paid order of a user's store, with the escrow.

    :param user_id: the store's owner
    :raises NotFoundError: the store has no such paid order
    """
    return found(_LOCK_ORDER_OF_VENDOR.first(session, order_id=order_id, user_id=user_id), "Order not found.")


@dataclass(frozen=True, slots=True)
class RemainingUnits:
    """The units of orders that were not refunded: by product, and units of flash sales by sale."""

    by_product: dict[UUID, int]
    by_sale: dict[UUID, int]


_SELECT_REMAINING_UNITS = Prepared(
    text(
        """
        SELECT product_id, quantity - refunded_quantity AS quantity, flash_sale_id
        FROM order_items WHERE order_id = ANY(:order_ids) AND quantity > refunded_quantity
        """
    )
)


def fetch_remaining_units(session: Session, *, order_ids: list[UUID]) -> RemainingUnits:
    """Fetch the units of orders that were not refunded."""
    by_product: Counter[UUID] = Counter()
    by_sale: Counter[UUID] = Counter()
    for product_id, quantity, sale_id in _SELECT_REMAINING_UNITS.tuples(session, order_ids=order_ids):
        by_product[product_id] += quantity
        if sale_id is not None:
            by_sale[sale_id] += quantity
    return RemainingUnits(by_product, by_sale)


def apply_transition(
    session: Session,
    *,
    order: LockedOrder,
    trigger: str,
    actor: Actor,
    now: datetime,
    note: str | None = None,
    escrow: EscrowTransition | None = None,
    columns: Mapping[str, Any] = MappingProxyType({}),
) -> None:
    """Apply a trigger to a locked order, and write the order's event.

    The vendor's profile counts delivered and failed orders, and sums up the time from payment to acceptance.

    :param trigger: a trigger of the order's state machine
    :param note: for the order's events
    :param escrow: the change of the escrow in the same transition
    :param columns: further columns of the order to set
    :raises IllegalTransitionError: the state of the order or of the escrow does not allow the trigger
    """
    _write_transition(
        session,
        order,
        states.ORDER.target(order.status, trigger),
        trigger,
        actor=actor,
        now=now,
        note=note,
        escrow=escrow,
        columns=columns,
    )


def record_escrow_refund(
    session: Session, *, order: LockedOrder, amount_minor: int, actor: Actor, note: str, now: datetime
) -> None:
    """Record a partial refund of a locked order's escrow. The order's status does not change.

    :param amount_minor: kobo; less than the escrow balance
    :param note: the reason, for the order's events
    """
    _write_transition(
        session,
        order,
        order.status,
        states.REFUND_PART,
        actor=actor,
        now=now,
        note=note,
        escrow=EscrowTransition(None, refunded_minor=amount_minor),
    )


def record_clawback(
    session: Session, *, order: LockedOrder, amount_minor: int, actor: Actor, note: str, now: datetime
) -> None:
    """Record a clawback of released money of a locked order. The order's status does not change.

    An event follows if the buyer then has all money of the order back.

    :param amount_minor: kobo; at most the net released amount
    :param note: the reason, for the order's events
    """
    _write_transition(
        session,
        order,
        order.status,
        states.CLAWBACK,
        actor=actor,
        now=now,
        note=note,
        escrow=EscrowTransition(None, clawed_back_minor=amount_minor),
    )
    if order.refunded_minor + order.clawed_back_minor + amount_minor >= order.escrow_minor:
        outbox.enqueue(
            session,
            queue=queues.NOTIFICATIONS,
            topic=REFUNDED_IN_FULL_TOPIC,
            payload={"orderId": str(order.id)},
            due_at=now,
        )


def _write_transition(
    session: Session,
    order: LockedOrder,
    target: str,
    trigger: str,
    *,
    actor: Actor,
    now: datetime,
    note: str | None,
    escrow: EscrowTransition | None,
    columns: Mapping[str, Any] = MappingProxyType({}),
) -> None:
    values = dict(columns)
    if escrow is not None:
        values |= {
            "escrow_status": states.ESCROW.target(order.escrow_status, escrow.trigger)
            if escrow.trigger
            else order.escrow_status,
            "released": escrow.released_minor,
            "refunded": escrow.refunded_minor,
            "clawed_back": escrow.clawed_back_minor,
        }
    counter = _vendor_counter(order, target, trigger, actor)
    _transition_statement(tuple(sorted(columns)), escrow is not None, counter).run(
        session,
        order_id=order.id,
        source=order.status,
        target=target,
        trigger=trigger,
        actor=actor.role,
        actor_id=actor.id,
        note=_seal_note(session, note, actor),
        now=now,
        **values,
    )
    if escrow is not None:
        outbox.after_commit(session, lambda: RECORDER.count("escrow", target))
    if target == states.DELIVERED != order.status and order.buyer_referral_pending:
        outbox.enqueue(
            session,
            queue=queues.WEBHOOKS,
            topic=REFERRED_ORDER_DELIVERED_TOPIC,
            payload={"buyerId": str(order.buyer_id)},
            due_at=now,
        )


def _seal_note(session: Session, note: str | None, actor: Actor) -> str | None:
    """Seal the note of a buyer or vendor. Notes of staff explain decisions and stay readable after an erasure."""
    if note is None or actor.id is None or actor.role not in ("buyer", "vendor"):
        return note
    return seal(session, note, owner_id=actor.id)


_COUNT_COMPLETED = "completed_orders = v.completed_orders + 1"
_COUNT_FAILED = "failed_orders = v.failed_orders + 1"
_COUNT_RESPONSE = """response_count = v.response_count + 1, response_seconds_sum = v.response_seconds_sum
    + greatest(extract(epoch FROM CAST(:now AS timestamptz) - moved.paid_at), 0)::bigint"""
# A buyer's own cancellation and a payment that the bank took back are no failures of the store.
_FAILURE_ACTORS = frozenset({"vendor", "staff", "system"})


def _vendor_counter(order: LockedOrder, target: str, trigger: str, actor: Actor) -> str | None:
    """Return the change of the vendor's profile that a transition causes, as SQL, or None."""
    if target == order.status:
        return None
    if trigger == states.ACCEPT:
        return _COUNT_RESPONSE
    if target == states.DELIVERED:
        return _COUNT_COMPLETED
    was_paid = order.status != states.PENDING_PAYMENT
    # A disputed order that is refunded counts against the vendor, also after a settlement.
    was_disputed = order.status == states.DISPUTED
    if target in (states.CANCELLED, states.REFUNDED) and was_paid:
        return _COUNT_FAILED if was_disputed or actor.role in _FAILURE_ACTORS else None
    return None


@lru_cache(maxsize=64)
def _transition_statement(
    columns: tuple[str, ...], with_escrow: bool, vendor_counter: str | None
) -> Prepared[Row]:
    assignments = "".join(f", {name} = :{name}" for name in columns)
    escrow = (
        """, held AS (UPDATE escrows SET status = :escrow_status, released_minor = released_minor + :released,
            refunded_minor = refunded_minor + :refunded, clawed_back_minor = clawed_back_minor + :clawed_back,
            updated_at = :now WHERE order_id = :order_id)"""
        if with_escrow
        else ""
    )
    counted = (
        f""", counted AS (UPDATE vendor_profiles v SET {vendor_counter} FROM moved WHERE v.id = moved.vendor_id)"""
        if vendor_counter
        else ""
    )
    return Prepared(
        text(
            f"""
            WITH moved AS (
                UPDATE orders SET status = :target, revision = revision + 1, updated_at = :now{assignments}
                WHERE id = :order_id RETURNING vendor_id, paid_at
            ){escrow}{counted}
            INSERT INTO order_events (order_id, from_status, to_status, trigger, actor, actor_id, note, at)
            VALUES (:order_id, :source, :target, :trigger, :actor, :actor_id, :note, :now)
            """
        )
    )
