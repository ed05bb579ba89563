"""Refunds: money that goes back to its buyer, out of escrow, straight from a charge that nothing took, or, after its
release, from those who had it.

A refund is written, with its ledger transaction, in the transaction of its cause. What the gateway is to send
back waits in ``refunds_in_transit`` until the gateway tells that it did; ``gateway_refund`` sees to that. The wallet is
paid at once.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from sqlalchemy import insert, text
from sqlalchemy.orm import Session

from marketplace.infra import outbox
from marketplace.infra.db import Statement
from marketplace.infra.prepared import Prepared
from marketplace.kernel import queues
from marketplace.ledger import accounts
from marketplace.ledger.operations import Posting, post_transaction
from marketplace.orders.pricing import allocate_after
from marketplace.orders.transitions import LockedOrder
from marketplace.payments import states
from marketplace.payments.models import Refund

SEND_TOPIC = "refund.send"

# What the parties of an order see of its refunds.
PUBLIC_REFUND_FIELDS = ("id", "destination", "amountMinor", "status", "createdAt", "settledAt")

Destination = Literal["gateway", "wallet"]
# An account that money is taken from, and how much, in kobo.
DebitSource = tuple[accounts.Account, int]

# Which charge paid an order, and how much of it, stands in the books.
_FROM_CHARGES_OF_ORDER = """
    FROM ledger_entries e JOIN gateway_charges c ON c.ledger_transaction_id = e.transaction_id
    WHERE e.order_id = :order_id AND e.account_id = :escrow_id AND e.direction = 'credit' AND c.outcome = 'applied'
"""
_LOCK_CHARGES = Statement(text(f"SELECT c.id {_FROM_CHARGES_OF_ORDER} ORDER BY c.id FOR NO KEY UPDATE OF c"))
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
_ADD_REFUNDED_TO_CHARGE = Statement(
    text("UPDATE gateway_charges SET refunded_minor = refunded_minor + :amount_minor WHERE id = :charge_id")
)
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
_INSERT_REFUND = Statement(
    insert(Refund).returning(Refund.id),
    columns=(
        *("order_id", "charge_id", "buyer_id", "destination", "amount_minor", "status", "cause", "reason"),
        *("requested_by", "settled_at", "created_at", "updated_at"),
    ),
)
_SELECT_REFUNDS_OF_ORDERS = Prepared(
    text(
        """
        SELECT r.id, r.order_id AS "orderId", r.destination, r.amount_minor AS "amountMinor", r.status, r.reason,
            r.cause, r.created_at AS "createdAt", r.settled_at AS "settledAt",
            (r.cause LIKE 'order:%' OR r.cause LIKE 'clawback:%') AS "fromOrder",
            r.cause LIKE 'charge:%' AS "fromCharge",
            CASE WHEN o.paid_at IS NULL THEN o.total_minor - o.wallet_minor ELSE o.total_minor END AS "wholeMinor"
        FROM refunds r JOIN orders o ON o.id = r.order_id WHERE r.order_id = ANY(:order_ids) ORDER BY r.id
        """
    )
)


@dataclass(frozen=True)
class RefundCause:
    """What a refund is for.

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


def lock_charges(session: Session, *, order: LockedOrder) -> None:
    """Lock the charges that paid a locked order; products and balances are locked after them.

    :param order: locked in this transaction
    """
    _LOCK_CHARGES.all(session, order_id=order.id, escrow_id=accounts.ESCROW.id)


def refund_order(
    session: Session,
    *,
    order: LockedOrder,
    amount_minor: int,
    destination: Destination,
    refund_cause: RefundCause,
    now: datetime,
) -> list[UUID]:
    """Refund money of a locked order's escrow; the caller moves the escrow's own record.

    To the gateway goes at most what came by it for this order; what the wallet paid goes back to the wallet.
    Each part is a refund of its own, of the charge that it is taken from.

    :param order: locked in this transaction
    :param amount_minor: kobo; at most what escrow holds of the order
    :param destination: where the gateway's part goes
    :param refund_cause: what for
    :return: the refunds' ids
    :raises ValueError: it is more than escrow holds, or nothing: a fault of the caller's code
    """
    if not 0 < amount_minor <= order.escrow_balance_minor:
        raise ValueError(
            f"{amount_minor} is not within what escrow holds of the order, {order.escrow_balance_minor}"
        )
    return _create_order_refunds(
        session,
        order=order,
        sources=[(accounts.ESCROW, amount_minor)],
        destination=destination,
        refund_cause=refund_cause,
        now=now,
    )


def refund_released_order(
    session: Session,
    *,
    order: LockedOrder,
    sources: Sequence[DebitSource],
    destination: Destination,
    refund_cause: RefundCause,
    now: datetime,
) -> list[UUID]:
    """Refund money of a locked order that was released; the caller moves the escrow's own record.

    :param order: locked in this transaction
    :param sources: who bears how much of it
    :param destination: where the gateway's part goes; what the wallet paid goes back to the wallet
    :param refund_cause: what for
    :return: the refunds' ids
    """
    return _create_order_refunds(
        session, order=order, sources=sources, destination=destination, refund_cause=refund_cause, now=now
    )


def refund_partial_payment(session: Session, *, order: LockedOrder, reason: str, now: datetime) -> list[UUID]:
    """Send back what was accepted of held charges for a locked order that ends unpaid.

    It came by the gateway, so it goes back by it.

    :param order: locked in this transaction, as it was before it ended
    :param reason: for people
    :return: the refunds' ids; none if nothing was accepted for it
    """
    if not order.accepted_minor:
        return []
    return _create_order_refunds(
        session,
        order=order,
        sources=[(accounts.ESCROW, order.accepted_minor)],
        destination="gateway",
        refund_cause=RefundCause(f"accepted:{order.id}", reason),
        now=now,
    )


def _create_order_refunds(
    session: Session,
    *,
    order: LockedOrder,
    sources: Sequence[DebitSource],
    destination: Destination,
    refund_cause: RefundCause,
    now: datetime,
) -> list[UUID]:
    parts: list[tuple[UUID | None, int]] = []
    left_minor = sum(minor for _, minor in sources)
    if destination == "gateway":
        lock_charges(session, order=order)
        for charge in _SELECT_CHARGES_OF_ORDER.all(session, order_id=order.id, escrow_id=accounts.ESCROW.id):
            part_minor = min(left_minor, charge["left_minor"])
            if part_minor > 0:
                parts.append((charge["id"], part_minor))
                left_minor -= part_minor
    if left_minor > 0:
        parts.append((None, left_minor))
    return [
        _create_refund(
            session,
            buyer_id=order.buyer_id,
            order_id=order.id,
            charge_id=charge_id,
            refund_cause=refund_cause.numbered(number),
            sources=_allocate_sources(
                sources, part_minor, before_minor=sum(minor for _, minor in parts[:number])
            ),
            description=f"Refund of order {order.number}",
            now=now,
        )
        for number, (charge_id, part_minor) in enumerate(parts)
    ]


def _allocate_sources(
    sources: Sequence[DebitSource], part_minor: int, *, before_minor: int
) -> list[DebitSource]:
    """Give what a part takes of each source: the first is emptied before the next gives anything."""
    taken_minor = allocate_after(
        part_minor, [minor for _, minor in sources], allocated_before_minor=before_minor
    )
    return [(account, minor) for (account, _), minor in zip(sources, taken_minor, strict=True)]


def refund_charge(
    session: Session,
    *,
    charge_id: UUID,
    buyer_id: UUID,
    amount_minor: int,
    order_id: UUID,
    refund_cause: RefundCause,
    description: str,
    debit_account: accounts.Account,
    now: datetime,
) -> UUID:
    """Send a charge, or a part of it, back to where it came from: nothing takes it.

    :param charge_id: of our row
    :param amount_minor: kobo; at most what of the charge is left
    :param order_id: the order that it was meant for; what was for several is given back order by order
    :param description: for the ledger
    :param debit_account: the account that it is in: ``gateway_clearing`` of a charge not booked yet, or quarantine
    :return: the refund's id
    """
    return _create_refund(
        session,
        buyer_id=buyer_id,
        order_id=order_id,
        charge_id=charge_id,
        refund_cause=refund_cause,
        sources=[(debit_account, amount_minor)],
        description=description,
        now=now,
    )


def credit_charge_to_wallet(
    session: Session,
    *,
    buyer_id: UUID,
    amount_minor: int,
    order_id: UUID,
    refund_cause: RefundCause,
    description: str,
    debit_account: accounts.Account,
    now: datetime,
) -> UUID:
    """Give a buyer money that nothing took into the wallet, at once.

    :param amount_minor: kobo
    :param order_id: the order that it was meant for; what was for several is given back order by order
    :param description: for the ledger
    :param debit_account: the account that it is in, such as quarantine
    :return: the refund's id
    """
    return _create_refund(
        session,
        buyer_id=buyer_id,
        order_id=order_id,
        charge_id=None,
        refund_cause=refund_cause,
        sources=[(debit_account, amount_minor)],
        description=description,
        now=now,
    )


def _create_refund(
    session: Session,
    *,
    buyer_id: UUID,
    order_id: UUID | None,
    charge_id: UUID | None,
    refund_cause: RefundCause,
    sources: Sequence[DebitSource],
    description: str,
    now: datetime,
) -> UUID:
    """Write a refund with its ledger transaction: by the gateway if it is of a charge, else into the wallet."""
    via_gateway = charge_id is not None
    amount_minor = sum(minor for _, minor in sources)
    refund_id: UUID = _INSERT_REFUND.one(
        session,
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
    )["id"]
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
        _ADD_REFUNDED_TO_CHARGE.run(session, charge_id=charge_id, amount_minor=amount_minor)
        enqueue_sending(session, refund_id=refund_id, now=now)
    post_transaction(
        session,
        kind="refund",
        source=f"refund:{refund_id}",
        description=description,
        postings=postings,
        now=now,
    )
    return refund_id


def recalculate_refunded_total(session: Session, *, charge_id: UUID) -> None:
    """Count again what of a locked charge was refunded, one of its refunds having changed.

    What went to the wallet instead does not count: so much more may go back by the gateway. What the gateway paid
    twice counts: it has that much less to give.
    """
    _RECALCULATE_REFUNDED_TOTAL.run(session, charge_id=charge_id)


def enqueue_sending(session: Session, *, refund_id: UUID, now: datetime) -> None:
    """Have a pending refund sent by the gateway, once this transaction has committed."""
    outbox.enqueue(
        session,
        queue=queues.WEBHOOKS,
        topic=SEND_TOPIC,
        payload={"refundId": str(refund_id)},
        due_at=now,
    )


def list_refunds_of_orders(session: Session, *, order_ids: Sequence[UUID]) -> list[dict[str, Any]]:
    """List the refunds of orders, the earliest first."""
    return _SELECT_REFUNDS_OF_ORDERS.all(session, order_ids=list(order_ids))
