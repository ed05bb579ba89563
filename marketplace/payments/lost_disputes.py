"""Disputes that were lost: the bank took the money back, of orders too whose money was released or refunded before.

What was released is the vendor's and the platform's to bear, as by a clawback. What we had refunded already has
reached its buyer twice, and is owed by them. Orders whose money escrow still holds stay frozen until staff rule on
them; what the bank took of them stands in an account of its own until then.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.infra.db import Statement
from marketplace.kernel.money import naira_text, split
from marketplace.ledger import accounts
from marketplace.ledger.operations import Posting, post
from marketplace.ledger.queries import balance_of
from marketplace.orders.news import vendor_user_of
from marketplace.orders.transitions import GATEWAY, LockedOrder, note_clawback
from marketplace.payments.clawbacks import bear, owing, tell

CHARGEBACK = "chargeback"

# What the disputed charge brought each of its orders, by the books.
_PAID = Statement(
    text(
        """
        SELECT e.order_id, sum(e.amount_minor)::bigint AS minor
        FROM gateway_charges c JOIN ledger_entries e ON e.transaction_id = c.ledger_transaction_id
        WHERE c.intent_id = :intent_id AND c.outcome = 'applied' AND e.account_id = :escrow_id
            AND e.direction = 'credit' AND e.order_id IS NOT NULL
            AND (:charge_id = '' OR c.gateway_charge_id = :charge_id)
        GROUP BY e.order_id ORDER BY e.order_id
        """
    )
)


_TAKEN = Statement(
    text(
        """
        SELECT coalesce(sum(CASE direction WHEN 'debit' THEN amount_minor ELSE -amount_minor END), 0)::bigint AS minor
        FROM ledger_entries WHERE account_id = :account_id AND order_id = :order_id
        """
    )
)


@dataclass(frozen=True)
class Loss:
    """What of a lost dispute was booked for an order, in kobo: who bears it."""

    order_id: UUID
    vendor_minor: int
    platform_minor: int
    buyer_minor: int
    undecided_minor: int


def book_loss(
    session: Session,
    *,
    dispute_id: UUID,
    intent_id: UUID,
    charge_id: str,
    amount_minor: int | None,
    locked: Sequence[LockedOrder],
    now: datetime,
) -> list[Loss]:
    """This function will book that a bank took the money of a charge: it has left the gateway.

    Of a part, each of its orders bears its share.

    :param dispute_id: ours; it is lost once
    :param intent_id: whose charge it is
    :param charge_id: the gateway's; empty where it did not say
    :param amount_minor: kobo that were taken; none for all that the charge brought its orders
    :param locked: the payment's orders, locked
    :return: what was booked, order by order
    """
    paid = {
        row["order_id"]: row["minor"]
        for row in _PAID.all(session, intent_id=intent_id, charge_id=charge_id, escrow_id=accounts.ESCROW.id)
    }
    orders = [order for order in locked if order.id in paid]
    brought = sum(paid.values())
    taken = brought if amount_minor is None else min(amount_minor, brought)
    if not taken:
        return []
    shares = split(taken, [paid[order.id] for order in orders])
    return [
        _book(session, dispute_id, order, share, now=now)
        for order, share in zip(orders, shares, strict=True)
        if share
    ]


def _book(session: Session, dispute_id: UUID, order: LockedOrder, minor: int, *, now: datetime) -> Loss:
    clawed_back = min(minor, order.left_with_vendor_minor)
    borne = bear(order, clawed_back) if clawed_back else []
    if clawed_back:
        note_clawback(
            session,
            order=order,
            amount_minor=clawed_back,
            actor=GATEWAY,
            note="The buyer's bank took the payment back",
            now=now,
        )
    undecided = min(minor - clawed_back, max(order.held_minor - _taken_before(session, order), 0))
    twice = minor - clawed_back - undecided
    sources = [
        *borne,
        (accounts.LOST_DISPUTES, undecided),
        (accounts.buyer_receivable(order.buyer_id), twice),
    ]
    post(
        session,
        kind=CHARGEBACK,
        source=f"charge-dispute:{dispute_id}:{order.id}",
        description=f"Payment of order {order.number} taken back by the buyer's bank",
        postings=[
            *(Posting(account, "debit", part, order.id) for account, part in sources if part),
            Posting(accounts.GATEWAY_CLEARING, "credit", minor, order.id),
        ],
        now=now,
    )
    vendor_minor, platform_minor = (part for _, part in borne) if borne else (0, 0)
    if clawed_back:
        _tell_vendor(session, dispute_id, order, minor, vendor_minor, now=now)
    return Loss(order.id, vendor_minor, platform_minor, twice, undecided)


def _taken_before(session: Session, order: LockedOrder) -> int:
    """Give what banks took of an order before, while escrow holds its money."""
    row = _TAKEN.one(session, order_id=order.id, account_id=accounts.LOST_DISPUTES.id)
    taken: int = row["minor"]
    return taken


def _tell_vendor(
    session: Session, dispute_id: UUID, order: LockedOrder, minor: int, vendor_minor: int, *, now: datetime
) -> None:
    owes = balance_of(session, account=accounts.vendor_receivable(order.vendor_id))
    body = (
        f"The buyer's bank took {naira_text(minor)} of order {order.number} back. {owing(vendor_minor, owes)}"
    )
    tell(
        session,
        order,
        {vendor_user_of(session, order=order): body},
        cause=f"order:{order.id}:charge-dispute:{dispute_id}",
        now=now,
    )
