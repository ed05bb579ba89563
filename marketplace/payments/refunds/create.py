"""Refunds: money that goes back to its buyer, out of escrow, straight from a charge that nothing took, or, after its
release, from those who had it.

A refund is written, with its ledger transaction, in the transaction of its cause. What the gateway is to send
back waits in ``refunds_in_transit`` until the gateway tells that it did; ``gateway_refund`` sees to that. The wallet is
paid at once.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Literal
from uuid import UUID

from sqlalchemy import text, update
from sqlalchemy.orm import Session

from marketplace.infra import outbox
from marketplace.infra.db import Prepared, Statement
from marketplace.kernel import queues
from marketplace.ledger import accounts
from marketplace.ledger.operations import Posting, post_transaction
from marketplace.orders import states as order_states
from marketplace.orders.pricing import allocate_after
from marketplace.orders.queries import OrderRow, RefundSummary, RefundView
from marketplace.orders.transitions import LockedOrder
from marketplace.payments import states
from marketplace.payments.models import GatewayCharge, Refund

SEND_TOPIC = "refund.send"
POLL_TOPIC = "refund.ask"

Destination = Literal["gateway", "wallet"]
# An account that money is taken from, and how much, in kobo.
DebitSource = tuple[accounts.Account, int]


@dataclass(frozen=True)
class RefundCause:
    """The cause of a refund.

    :param key: names it once and for all, such as ``order:<id>:cancel``
    :param reason: for people
    :param requested_by: the officer or party, or none of a refund that starts by itself
    """

    key: str
    reason: str
    requested_by: UUID | None = None

    def numbered(self, number: int) -> "RefundCause":
        """Give the request of a part, counted from 0, of what is refunded in several."""
        return self if number == 0 else replace(self, key=f"{self.key}:{number + 1}")


@dataclass(frozen=True)
class OrderRefund(RefundView):
    """A refund as the parties of its order see it.

    ``from_order`` says that it took the order's own money, ``from_charge`` that it returned a charge that the order
    had no use for. ``refundable_minor`` is the most that refunds of the order can come to.
    """

    order_id: UUID
    from_order: bool
    from_charge: bool
    refundable_minor: int


# Which charge paid an order, and how much of it, stands in the books.
_FROM_CHARGES_OF_ORDER = """
    FROM ledger_entries e JOIN gateway_charges c ON c.ledger_transaction_id = e.transaction_id
    WHERE e.order_id = :order_id AND e.account_id = :escrow_id AND e.direction = 'credit' AND c.outcome = 'applied'
"""
_LOCK_CHARGES = Statement(text(f"SELECT c.id {_FROM_CHARGES_OF_ORDER} ORDER BY c.id FOR NO KEY UPDATE OF c"))


def lock_charges(session: Session, *, order: LockedOrder) -> None:
    """Lock the charges that paid a locked order; products and balances are locked after them.

    :param order: locked in this transaction
    """
    _LOCK_CHARGES.run(session, order_id=order.id, escrow_id=accounts.ESCROW.id)


def refund_order(
    session: Session,
    *,
    order: LockedOrder,
    amount_minor: int,
    destination: Destination,
    refund_cause: RefundCause,
    now: datetime,
) -> list[Refund]:
    """Refund money of a locked order's escrow; the caller updates the escrow's own record.

    :param amount_minor: kobo; at most the escrow balance
    :param destination: of the gateway's part
    :raises ValueError: the amount is 0 or exceeds the escrow balance: a fault of the caller's code
    """
    if not 0 < amount_minor <= order.escrow_balance_minor:
        raise ValueError(
            f"{amount_minor} is not within what escrow holds of the order, {order.escrow_balance_minor}"
        )
    return refund_sources(
        session,
        order=order,
        sources=[(accounts.ESCROW, amount_minor)],
        destination=destination,
        refund_cause=refund_cause,
        now=now,
    )


def refund_partial_payment(session: Session, *, order: LockedOrder, reason: str, now: datetime) -> None:
    """Return the accepted part of quarantined charges for a locked order that ends unpaid.

    The gateway returns it, since it came by the gateway.

    :param order: locked in this transaction, as it was before it ended
    :param reason: for people
    """
    if order.accepted_minor:
        refund_sources(
            session,
            order=order,
            sources=[(accounts.ESCROW, order.accepted_minor)],
            destination="gateway",
            refund_cause=RefundCause(f"accepted:{order.id}", reason),
            now=now,
        )


_SELECT_CHARGES_OF_ORDER = Statement(
    text(
        f"""
        SELECT c.id, least(c.principal_minor - c.refunded_minor, e.amount_minor - (
            SELECT coalesce(sum(r.amount_minor), 0) FROM refunds r
            WHERE r.order_id = :order_id AND r.charge_id = c.id AND r.status <> 'credited'))::bigint AS left_minor
        {_FROM_CHARGES_OF_ORDER} ORDER BY c.id
        """
    )
)


def refund_sources(
    session: Session,
    *,
    order: LockedOrder,
    sources: Sequence[DebitSource],
    destination: Destination,
    refund_cause: RefundCause,
    now: datetime,
) -> list[Refund]:
    """Refund money of a locked order out of several accounts, the first one first.

    The gateway returns at most what came by it for this order; what the wallet paid returns to the wallet. Each charge
    gets a refund of its own.

    :param destination: of the gateway's part
    """
    parts: list[tuple[UUID | None, int]] = []
    left_minor = sum(minor for _, minor in sources)
    if destination == "gateway":
        lock_charges(session, order=order)
        for charge_id, refundable_minor in _SELECT_CHARGES_OF_ORDER.tuples(
            session, order_id=order.id, escrow_id=accounts.ESCROW.id
        ):
            part_minor = min(left_minor, refundable_minor)
            if part_minor > 0:
                parts.append((charge_id, part_minor))
                left_minor -= part_minor
    if left_minor > 0:
        parts.append((None, left_minor))
    refunds: list[Refund] = []
    for number, (charge_id, part_minor) in enumerate(parts):
        shares_minor = allocate_after(
            part_minor,
            [minor for _, minor in sources],
            allocated_before_minor=sum(refund.amount_minor for refund in refunds),
        )
        refunds.append(
            create_refund(
                session,
                buyer_id=order.buyer_id,
                order_id=order.id,
                charge_id=charge_id,
                refund_cause=refund_cause.numbered(number),
                sources=[(account, minor) for (account, _), minor in zip(sources, shares_minor, strict=True)],
                description=f"Refund of order {order.number}",
                now=now,
            )
        )
    return refunds


def create_refund(
    session: Session,
    *,
    buyer_id: UUID,
    order_id: UUID,
    charge_id: UUID | None,
    refund_cause: RefundCause,
    sources: Sequence[DebitSource],
    description: str,
    now: datetime,
) -> Refund:
    """Create a refund with its ledger transaction.

    :param order_id: the order that the money was meant for; money for several orders is refunded order by order
    :param charge_id: the charge that the gateway returns; none for a refund to the wallet, which is paid at once
    :param sources: the debited accounts, such as quarantine
    :param description: for the ledger
    """
    via_gateway = charge_id is not None
    amount_minor = sum(minor for _, minor in sources)
    refund = Refund(
        order_id=order_id,
        charge_id=charge_id,
        buyer_id=buyer_id,
        destination="gateway" if via_gateway else "wallet",
        amount_minor=amount_minor,
        status=states.REFUND.initial if via_gateway else states.PROCESSED,
        cause=refund_cause.key,
        reason=refund_cause.reason,
        requested_by=refund_cause.requested_by,
        settled_at=None if via_gateway else now,
        created_at=now,
        updated_at=now,
    )
    session.add(refund)
    session.flush()
    # Through the buyer's own account, so that their statement shows it; on from there by the gateway.
    wallet = accounts.wallet(buyer_id)
    postings = [
        *(Posting(account, "debit", minor, order_id) for account, minor in sources if minor),
        Posting(wallet, "credit", amount_minor, order_id),
    ]
    if via_gateway:
        postings += [
            Posting(wallet, "debit", amount_minor, order_id),
            Posting(accounts.REFUNDS_IN_TRANSIT, "credit", amount_minor, order_id),
        ]
        session.execute(
            update(GatewayCharge)
            .where(GatewayCharge.id == charge_id)
            .values(refunded_minor=GatewayCharge.refunded_minor + amount_minor)
        )
        enqueue_task(session, refund_id=refund.id, now=now)
    post_transaction(
        session,
        kind="refund",
        source=f"refund:{refund.id}",
        description=description,
        postings=postings,
        now=now,
    )
    return refund


# What was paid twice may come to more than the charge brought: all of it is refunded then, and no more.
_RECALCULATE_REFUNDED_TOTAL = Statement(
    text(
        """
        UPDATE gateway_charges c SET refunded_minor = least(greatest(c.principal_minor, 0), (
            SELECT coalesce(sum(r.paid_twice_minor + CASE r.status WHEN 'credited' THEN 0 ELSE r.amount_minor END), 0)
            FROM refunds r WHERE r.charge_id = c.id))
        WHERE c.id = :charge_id
        """
    )
)


def recalculate_refunded_total(session: Session, *, charge_id: UUID | None) -> None:
    """Recalculate the refunded total of a locked charge after one of its refunds changed.

    Refunds credited to the wallet do not count, so the gateway may return that much more. Duplicate payments count.
    """
    _RECALCULATE_REFUNDED_TOTAL.run(session, charge_id=charge_id)


def enqueue_task(session: Session, *, refund_id: UUID, now: datetime, topic: str = SEND_TOPIC) -> None:
    """Enqueue the sending of a pending refund, or its polling, for after this transaction's commit."""
    outbox.enqueue(
        session,
        queue=queues.WEBHOOKS,
        topic=topic,
        payload={"refundId": str(refund_id)},
        due_at=now,
    )


# The wallet's part of an order that ended unpaid was returned when it ended.
_SELECT_REFUNDS_OF_ORDERS = Prepared(
    text(
        """
        SELECT r.id, r.destination, r.amount_minor, r.status, r.created_at, r.settled_at, r.order_id,
            (r.cause LIKE 'order:%' OR r.cause LIKE 'clawback:%') AS from_order,
            r.cause LIKE 'charge:%' AS from_charge,
            CASE WHEN o.paid_at IS NULL THEN o.total_minor - o.wallet_minor ELSE o.total_minor END AS refundable_minor
        FROM refunds r JOIN orders o ON o.id = r.order_id WHERE r.order_id = ANY(:order_ids) ORDER BY r.id
        """
    ),
    row=OrderRefund,
)


def list_refunds_of_orders(session: Session, *, order_ids: Sequence[UUID]) -> list[OrderRefund]:
    """List the refunds of orders, the earliest first."""
    return _SELECT_REFUNDS_OF_ORDERS.all(session, order_ids=list(order_ids))


def summarize_refunds(
    session: Session, orders: Sequence[OrderRow], is_for_vendor: bool
) -> dict[UUID, RefundSummary]:
    """Summarize the refunds of orders, in one query for all of them.

    The payment's status counts refunds too: ``refund_pending`` while one is in transit, then ``refunded`` or
    ``partially_refunded``. A charge that was returned after the order was paid already is listed, and leaves the
    status of the payment as it is. So does a charge that came after the order had ended and was smaller than its
    total.

    :param is_for_vendor: hides whether refunds go to the buyer's wallet
    """
    refunds_by_order: dict[UUID, list[OrderRefund]] = {order.id: [] for order in orders}
    for refund in list_refunds_of_orders(session, order_ids=list(refunds_by_order)):
        refunds_by_order[refund.order_id].append(
            replace(refund, destination=None) if is_for_vendor else refund
        )
    return {
        order.id: RefundSummary(
            _payment_status(order, refunds_by_order[order.id]), refunds_by_order[order.id]
        )
        for order in orders
    }


def _payment_status(order: OrderRow, refunds: list[OrderRefund]) -> str | None:
    was_paid = order.paid_at is not None
    # Refunds of an order that still awaits payment returned an earlier payment.
    counted = [
        refund
        for refund in refunds
        if refund.from_order
        or (not was_paid and order.status in (order_states.CANCELLED, order_states.EXPIRED))
    ]
    is_full = bool(counted) and sum(refund.amount_minor for refund in counted) >= counted[0].refundable_minor
    if not counted or not (was_paid or is_full or any(not refund.from_charge for refund in counted)):
        return order.payment_status
    if any(refund.status not in (states.PROCESSED, states.CREDITED) for refund in counted):
        return "refund_pending"
    # An order that ended unpaid gets everything back that came for it and was quarantined or accepted.
    return "refunded" if is_full or not was_paid else "partially_refunded"
