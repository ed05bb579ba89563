"""Creation of refunds from escrow, from a charge that no order needs or, after the release, from vendor and platform.

A refund and its ledger transaction are written in the database transaction of their cause. A refund to the wallet is
credited at once. A refund through the gateway stays in ``refunds_in_transit`` until the gateway reports it as sent, see
``gateway_refund``.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Literal
from uuid import UUID

from sqlalchemy import text, update
from sqlalchemy.orm import Session

from marketplace.infra import outbox
from marketplace.infra.sql.statements import Prepared, Statement
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
# An account to debit and the amount in kobo.
DebitSource = tuple[accounts.Account, int]


@dataclass(frozen=True)
class RefundCause:
    """The cause of a refund.

    :param key: unique key of the cause, such as ``order:<id>:cancel``, which prevents a second refund
    :param reason: a sentence for people
    :param requested_by: the officer or party; none for an automatic refund
    """

    key: str
    reason: str
    requested_by: UUID | None = None

    def numbered(self, number: int) -> "RefundCause":
        """Derive the cause of one of several refunds, numbered from 0."""
        return self if number == 0 else replace(self, key=f"{self.key}:{number + 1}")


@dataclass(frozen=True)
class OrderRefund(RefundView):
    """A refund as the parties of its order see it.

    ``from_order`` marks a refund of the order's own money, ``from_charge`` the return of a charge that the order did
    not need. ``refundable_minor`` is the limit for the sum of the order's refunds, in kobo.
    """

    order_id: UUID
    from_order: bool
    from_charge: bool
    refundable_minor: int


# Only the ledger records which charges paid an order, and with which amounts.
_FROM_CHARGES_OF_ORDER = """
    FROM ledger_entries e JOIN gateway_charges c ON c.ledger_transaction_id = e.transaction_id
    WHERE e.order_id = :order_id AND e.account_id = :escrow_id AND e.direction = 'credit' AND c.outcome = 'applied'
"""
_LOCK_CHARGES = Statement(text(f"SELECT c.id {_FROM_CHARGES_OF_ORDER} ORDER BY c.id FOR NO KEY UPDATE OF c"))


def lock_charges(session: Session, *, order: LockedOrder) -> None:
    """Lock the charges that paid a locked order.

    Products and balances must be locked after the charges.
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
    """Refund money from the escrow of a locked order.

    The caller updates the escrow record.

    :param amount_minor: kobo, at most the escrow balance
    :param destination: destination of the part that was paid through the gateway
    :raises ValueError: the amount is not positive or exceeds the escrow balance
    """
    if not 0 < amount_minor <= order.escrow_balance_minor:
        raise ValueError(
            f"refund of {amount_minor} kobo is not within the escrow balance of {order.escrow_balance_minor}"
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

    The money came through the gateway and returns through the gateway.

    :param order: the locked order as read before its end
    :param reason: a sentence for people
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
    """Refund money of a locked order from several accounts, which are debited in sequence.

    Card and bank payments return through the gateway, oldest charge first, up to the amount that each charge paid for
    this order. Each charge gets a separate refund. The rest returns to the wallet.

    :param destination: destination of the part that was paid through the gateway
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
    :param charge_id: the charge to refund through the gateway; none credits the wallet at once
    :param sources: accounts to debit, such as quarantine
    :param description: description of the ledger transaction, visible in statements
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
    # The money passes through the buyer's wallet account, so that the buyer's statement shows the refund.
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


# With duplicate payments, the sum may exceed the charge's principal. The refunded total is capped at the principal.
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
    """Recalculate the refunded total of a locked charge after a refund of that charge changed.

    Refunds credited to the wallet do not count, so the gateway may still return these amounts. Duplicate payments
    count.
    """
    _RECALCULATE_REFUNDED_TOTAL.run(session, charge_id=charge_id)


def enqueue_task(session: Session, *, refund_id: UUID, now: datetime, topic: str = SEND_TOPIC) -> None:
    """Enqueue the sending or polling of a refund, to run after the commit of this transaction."""
    outbox.enqueue(
        session,
        queue=queues.WEBHOOKS,
        topic=topic,
        payload={"refundId": str(refund_id)},
        due_at=now,
    )


# The wallet's part of an unpaid order was already returned at the order's end.
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
    """List the refunds of orders, oldest first."""
    return _SELECT_REFUNDS_OF_ORDERS.all(session, order_ids=list(order_ids))


def summarize_refunds(
    session: Session, orders: Sequence[OrderRow], is_for_vendor: bool
) -> dict[UUID, RefundSummary]:
    """Summarize the refunds of orders, in one query if any order has refunds.

    The payment status is ``refund_pending`` while a refund is in transit, then ``refunded`` or ``partially_refunded``.
    A returned charge is listed without changing the payment status if the order was already paid. The same holds for a
    charge below the total that arrived after an unpaid order ended.

    :param is_for_vendor: hide the destination of refunds
    """
    refunds_by_order: dict[UUID, list[OrderRefund]] = {order.id: [] for order in orders}
    refunded_ids = [order.id for order in orders if order.has_refunds]
    for refund in list_refunds_of_orders(session, order_ids=refunded_ids) if refunded_ids else ():
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
    # Refunds of an order that still awaits payment belong to an earlier payment.
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
        return states.REFUND_PENDING
    # Every quarantined or accepted payment of an unpaid order is returned in full.
    return states.REFUNDED if is_full or not was_paid else states.PARTIALLY_REFUNDED
