"""Disputes that were lost: the bank took the money back, of orders too whose money was released or refunded before.

What we were about to send back is not sent: the bank has. What was released is the vendor's and the platform's to
bear, as by a clawback. What we had refunded already has reached its buyer twice, and is taken from their wallet, or
owed by them. Orders whose money escrow still holds stay frozen until staff rule on them; what the bank took of them
stands in an account of its own until then.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.infra.db import Statement
from marketplace.kernel.money import format_naira, split_by_weights
from marketplace.ledger import accounts
from marketplace.ledger.operations import Posting, lock_balances, post_transaction
from marketplace.ledger.queries import fetch_balance
from marketplace.orders.notifications import fetch_vendor_user_id
from marketplace.orders.transitions import GATEWAY, LockedOrder, record_clawback
from marketplace.payments import states
from marketplace.payments.refunds import notifications, wallet_fallback
from marketplace.payments.refunds.clawback import (
    allocate_clawback,
    notify_parties_of_clawback,
    vendor_debt_message,
)
from marketplace.payments.refunds.notifications import ChargebackSummary

CHARGEBACK = "chargeback"

# What charges brought each of their orders, by the books.
_SELECT_PAID_BY_ORDER = Statement(
    text(
        """
        SELECT e.order_id, sum(e.amount_minor)::bigint AS minor
        FROM gateway_charges c JOIN ledger_entries e ON e.transaction_id = c.ledger_transaction_id
        WHERE c.id = ANY(:charge_ids) AND c.outcome = 'applied' AND e.account_id = :escrow_id
            AND e.direction = 'credit' AND e.order_id IS NOT NULL
        GROUP BY e.order_id ORDER BY e.order_id
        """
    )
)
# What went straight back of charges, by the orders that it was no use to.
_SELECT_RETURNED_BY_ORDER = Statement(
    text(
        """
        SELECT order_id, sum(amount_minor)::bigint AS minor FROM refunds
        WHERE charge_id = ANY(:charge_ids) AND NOT split_part(cause, ':', 1) = ANY(:out_of_orders)
        GROUP BY order_id ORDER BY order_id
        """
    )
)
# What refunds of money begin with that was an order's.
_ORDER_REFUND_CAUSES = ["order", "clawback", "accepted"]
_SELECT_CHARGED_BACK = Statement(
    text(
        """
        SELECT coalesce(sum(CASE direction WHEN 'debit' THEN amount_minor ELSE -amount_minor END), 0)::bigint AS minor
        FROM ledger_entries WHERE account_id = :account_id AND order_id = :order_id
        """
    )
)


@dataclass(frozen=True)
class ChargebackAllocation:
    """What of a lost dispute was booked for an order, in kobo: who bears it.

    ``unsent_minor`` was about to go back, and is not sent any more; ``buyer_minor`` has reached the buyer twice.
    """

    order_id: UUID
    vendor_minor: int
    platform_minor: int
    buyer_minor: int
    undecided_minor: int
    unsent_minor: int


@dataclass
class _ChargeShare:
    """What a charge was for: an order's price, or money that was no use to an order and is its buyer's."""

    order: LockedOrder
    brought_minor: int
    is_orders: bool
    unsent_minor: int = 0
    taken_minor: int = 0

    @property
    def covered_minor(self) -> int:
        """Give what the bank took of what was about to go back: that is given once so."""
        return min(self.taken_minor, self.unsent_minor)


def record_chargeback_loss(
    session: Session,
    *,
    dispute_id: UUID,
    charges: Sequence[dict[str, Any]],
    amount_minor: int | None,
    locked: Sequence[LockedOrder],
    now: datetime,
) -> list[ChargebackAllocation]:
    """Book that a bank took the money of charges: it has left the gateway.

    Of a part, each of their orders bears its share. Refunds of them that were not sent go to the wallet, out of which
    what the bank gave is taken.

    :param dispute_id: ours; it is lost once
    :param charges: which; locked, of one payment, and in naira
    :param amount_minor: kobo that were taken; none for all that the charges brought
    :param locked: the payment's orders, locked
    :return: what was booked, order by order
    """
    charge_ids = [charge["id"] for charge in charges]
    brought = sum(max(charge["principal_minor"], 0) for charge in charges)
    taken = brought if amount_minor is None else min(amount_minor, brought)
    if not taken:
        return []
    parts = _split_into_shares(session, charge_ids, brought, locked)
    stopped = wallet_fallback.lock_unsent_refunds(session, charge_ids=charge_ids)
    for part in parts:
        part.unsent_minor = sum(row["amount_minor"] for row in stopped if _belongs_to_share(row, part))
    for part, share in zip(
        parts, split_by_weights(taken, [part.brought_minor for part in parts]), strict=True
    ):
        part.taken_minor = share
    buyer_id = locked[0].buyer_id
    wallet, debt = accounts.wallet(buyer_id), accounts.buyer_receivable(buyer_id)
    vendors = [accounts.vendor_receivable(order.vendor_id) for order in locked]
    # At once, as whoever posts afterwards locks them one by one.
    purse = lock_balances(session, wanted=list(dict.fromkeys([wallet, debt, *vendors])))[wallet]
    for row in stopped:
        wallet_fallback.credit_unsent_refund(session, row, trigger=states.WITHDRAW, now=now)
    # What was stopped is in the wallet by now, so at least that can be taken from there.
    purse += sum(row["amount_minor"] for row in stopped) - sum(part.covered_minor for part in parts)
    losses, before = [], purse
    for part in parts:
        if part.taken_minor:
            loss, from_purse = _post_share(session, dispute_id, part, purse, now=now)
            purse -= from_purse
            losses.append(loss)
    what = _summarize(taken, stopped, losses, given_minor=before - purse)
    notifications.notify_charged_back(
        session, buyer_id=buyer_id, dispute_id=dispute_id, summary=what, now=now
    )
    return losses


def sum_paid_by_order(session: Session, *, charge_ids: Sequence[UUID]) -> dict[UUID, int]:
    """Tell what charges paid of which orders, in kobo."""
    rows = _SELECT_PAID_BY_ORDER.all(session, charge_ids=list(charge_ids), escrow_id=accounts.ESCROW.id)
    return {row["order_id"]: row["minor"] for row in rows}


def _belongs_to_share(refund: dict[str, Any], part: _ChargeShare) -> bool:
    is_orders = refund["cause"].partition(":")[0] in _ORDER_REFUND_CAUSES
    return refund["order_id"] == part.order.id and is_orders == part.is_orders


def _split_into_shares(
    session: Session, charge_ids: Sequence[UUID], brought: int, locked: Sequence[LockedOrder]
) -> list[_ChargeShare]:
    """Tell what charges were for; together the parts are what they brought."""
    by_id = {order.id: order for order in locked}
    paid = sum_paid_by_order(session, charge_ids=charge_ids)
    back = _SELECT_RETURNED_BY_ORDER.all(session, charge_ids=charge_ids, out_of_orders=_ORDER_REFUND_CAUSES)
    parts = [_ChargeShare(by_id[order_id], minor, is_orders=True) for order_id, minor in paid.items()]
    parts += [_ChargeShare(by_id[row["order_id"]], row["minor"], is_orders=False) for row in back]
    # More than was due is in the wallet; what is held back is finance's to decide on. Either is the buyer's.
    rest = brought - sum(part.brought_minor for part in parts)
    if rest:
        of_first = [part for part in parts if part.order.id == locked[0].id and not part.is_orders]
        if of_first:
            of_first[0].brought_minor += rest
        else:
            parts.append(_ChargeShare(locked[0], rest, is_orders=False))
    return parts


def _post_share(
    session: Session, dispute_id: UUID, part: _ChargeShare, purse: int, *, now: datetime
) -> tuple[ChargebackAllocation, int]:
    """Book what was taken of a part, and give what of it the wallet gave that was not about to be sent."""
    order, minor = part.order, part.taken_minor
    left = minor - part.covered_minor
    clawed_back = min(left, order.left_with_vendor_minor) if part.is_orders else 0
    borne = allocate_clawback(order, clawed_back) if clawed_back else []
    if clawed_back:
        record_clawback(
            session,
            order=order,
            amount_minor=clawed_back,
            actor=GATEWAY,
            note="The buyer's bank took the payment back",
            now=now,
        )
    in_escrow = max(order.held_minor - _sum_charged_back_before(session, order), 0) if part.is_orders else 0
    undecided = min(left - clawed_back, in_escrow)
    twice = left - clawed_back - undecided
    from_purse = min(twice, purse)
    sources = [
        *borne,
        (accounts.LOST_DISPUTES, undecided),
        (accounts.wallet(order.buyer_id), part.covered_minor + from_purse),
        (accounts.buyer_receivable(order.buyer_id), twice - from_purse),
    ]
    post_transaction(
        session,
        kind=CHARGEBACK,
        source=f"charge-dispute:{dispute_id}:{order.id}" + ("" if part.is_orders else ":unneeded"),
        description=f"Payment of order {order.number} taken back by the buyer's bank",
        postings=[
            *(Posting(account, "debit", share, order.id) for account, share in sources if share),
            Posting(accounts.GATEWAY_CLEARING, "credit", minor, order.id),
        ],
        now=now,
    )
    vendor_minor, platform_minor = (share for _, share in borne) if borne else (0, 0)
    if clawed_back:
        _notify_vendor(session, dispute_id, order, minor, vendor_minor, now=now)
    return ChargebackAllocation(
        order.id, vendor_minor, platform_minor, twice, undecided, part.covered_minor
    ), from_purse


def _sum_charged_back_before(session: Session, order: LockedOrder) -> int:
    """Give what banks took of an order before, while escrow holds its money."""
    row = _SELECT_CHARGED_BACK.one(session, order_id=order.id, account_id=accounts.LOST_DISPUTES.id)
    taken: int = row["minor"]
    return taken


def _summarize(
    taken_minor: int,
    stopped: Sequence[dict[str, Any]],
    losses: Sequence[ChargebackAllocation],
    *,
    given_minor: int,
) -> ChargebackSummary:
    stopped_minor = sum(row["amount_minor"] for row in stopped)
    return ChargebackSummary(
        returned_by_bank_minor=taken_minor,
        cancelled_refunds_minor=stopped_minor,
        kept_in_wallet_minor=stopped_minor - sum(loss.unsent_minor for loss in losses),
        paid_by_wallet_minor=given_minor,
        outstanding_minor=sum(loss.buyer_minor for loss in losses) - given_minor,
    )


def _notify_vendor(
    session: Session, dispute_id: UUID, order: LockedOrder, minor: int, vendor_minor: int, *, now: datetime
) -> None:
    owes = fetch_balance(session, account=accounts.vendor_receivable(order.vendor_id))
    body = f"The buyer's bank took {format_naira(minor)} of order {order.number} back."
    body += f" {vendor_debt_message(vendor_minor, owes)}"
    notify_parties_of_clawback(
        session,
        order,
        {fetch_vendor_user_id(session, order=order): body},
        cause=f"order:{order.id}:charge-dispute:{dispute_id}",
        now=now,
    )
