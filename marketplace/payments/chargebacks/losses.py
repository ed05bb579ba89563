"""Losses of chargebacks: post the money that a bank took back after a lost dispute.

The loss is allocated in this sequence:

1. Unsent refunds are cancelled, because the bank has returned that money.
2. Vendor and platform bear released money, as in a clawback.
3. Money in escrow stays undecided in the ``lost_disputes`` account until staff rule on the frozen order.
4. The rest has reached the buyer twice. That amount is debited from the buyer's wallet, or becomes a buyer debt.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.infra.sql.statements import Statement
from marketplace.kernel.money import format_naira, split_by_weights
from marketplace.ledger import accounts
from marketplace.ledger.operations import Posting, lock_balances, post_transaction
from marketplace.ledger.queries import fetch_balance
from marketplace.orders.transitions import GATEWAY, LockedOrder, record_clawback
from marketplace.payments import states, texts
from marketplace.payments.models import GatewayCharge, Refund
from marketplace.payments.refunds import buyer_accounts, notifications
from marketplace.payments.refunds.admin_refund import allocate_clawback

CHARGEBACK: Final = "chargeback"

# Prefixes of the causes of refunds that return an order's own money.
_ORDER_REFUND_CAUSES = ["order", "clawback", "accepted"]


@dataclass(frozen=True)
class ChargebackAllocation:
    """The allocation of an order's part of a lost chargeback, in kobo.

    ``cancelled_refund_minor`` is covered by unsent refunds. ``duplicate_minor`` has reached the buyer twice.
    """

    order_id: UUID
    vendor_minor: int
    platform_minor: int
    duplicate_minor: int
    undecided_minor: int
    cancelled_refund_minor: int


@dataclass
class _ChargeShare:
    """A share of a charge: the payment of an order, or money that the order did not need."""

    order: LockedOrder
    paid_minor: int
    paid_for_order: bool
    unsent_refunds_minor: int = 0
    charged_back_minor: int = 0

    @property
    def covered_by_unsent_minor(self) -> int:
        """The part of the chargeback that cancelled refunds cover, in kobo."""
        return min(self.charged_back_minor, self.unsent_refunds_minor)

    def includes(self, refund: Refund) -> bool:
        """Return whether a refund returns money of this share."""
        return refund.order_id == self.order.id and self.paid_for_order == (
            refund.cause.partition(":")[0] in _ORDER_REFUND_CAUSES
        )


def record_chargeback_loss(
    session: Session,
    *,
    dispute_id: UUID,
    charges: Sequence[GatewayCharge],
    amount_minor: int | None,
    locked_orders: Sequence[LockedOrder],
    now: datetime,
) -> list[ChargebackAllocation]:
    """Post the loss of a chargeback, in which the bank took the money of charges from the gateway.

    A partial chargeback is split among the shares of the charges in proportion. Unsent refunds are credited to the
    wallet, and the part of the chargeback that these refunds cover is debited there. The parties are notified.

    :param charges: locked charges of one payment, in naira
    :param amount_minor: kobo that the bank took; none for the full principal of the charges
    :param locked_orders: the payment's orders, locked
    :return: the posted allocations, one for each share
    """
    charge_ids = [charge.id for charge in charges]
    principal_minor = sum(max(charge.principal_minor, 0) for charge in charges)
    charged_back_minor = principal_minor if amount_minor is None else min(amount_minor, principal_minor)
    if not charged_back_minor:
        return []
    charge_shares = _split_into_shares(session, charge_ids, principal_minor, locked_orders)
    cancelled_refunds = buyer_accounts.lock_unsent_refunds(session, charge_ids=charge_ids)
    for charge_share, share_minor in zip(
        charge_shares,
        split_by_weights(charged_back_minor, [charge_share.paid_minor for charge_share in charge_shares]),
        strict=True,
    ):
        charge_share.charged_back_minor = share_minor
        charge_share.unsent_refunds_minor = sum(
            refund.amount_minor for refund in cancelled_refunds if charge_share.includes(refund)
        )
    buyer_id = locked_orders[0].buyer_id
    wallet, debt = accounts.wallet(buyer_id), accounts.buyer_receivable(buyer_id)
    vendors = dict.fromkeys(accounts.vendor_receivable(order.vendor_id) for order in locked_orders)
    # Lock all balances together, because the postings below would lock each balance separately and could deadlock.
    wallet_balance_minor = lock_balances(session, accounts=[wallet, debt, *vendors])[wallet]
    for refund in cancelled_refunds:
        buyer_accounts.credit_unsent_refund(session, refund, trigger=states.WITHDRAW, now=now)
    # The wallet now holds the cancelled refunds, so at least these can be debited.
    cancelled_minor = sum(refund.amount_minor for refund in cancelled_refunds)
    wallet_balance_minor += cancelled_minor - sum(
        charge_share.covered_by_unsent_minor for charge_share in charge_shares
    )
    allocations, balance_before_minor = [], wallet_balance_minor
    for charge_share in charge_shares:
        if charge_share.charged_back_minor:
            allocation, paid_by_wallet_minor = _post_share(
                session, dispute_id, charge_share, wallet_balance_minor, now=now
            )
            wallet_balance_minor -= paid_by_wallet_minor
            allocations.append(allocation)
    paid_by_wallet_minor = balance_before_minor - wallet_balance_minor
    notifications.notify_charged_back(
        session,
        buyer_id=buyer_id,
        dispute_id=dispute_id,
        returned_by_bank_minor=charged_back_minor,
        cancelled_refunds_minor=cancelled_minor,
        kept_in_wallet_minor=cancelled_minor
        - sum(allocation.cancelled_refund_minor for allocation in allocations),
        paid_by_wallet_minor=paid_by_wallet_minor,
        outstanding_minor=sum(allocation.duplicate_minor for allocation in allocations)
        - paid_by_wallet_minor,
        now=now,
    )
    return allocations


# The amounts that charges paid into the escrow of each order, according to the ledger.
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


def sum_paid_by_order(session: Session, *, charge_ids: Sequence[UUID]) -> dict[UUID, int]:
    """Sum the kobo that charges paid into escrow, by order id."""
    return dict(
        _SELECT_PAID_BY_ORDER.tuples(session, charge_ids=list(charge_ids), escrow_id=accounts.ESCROW.id)
    )


# Refunds of money that no order needed, by order.
_SELECT_RETURNED_BY_ORDER = Statement(
    text(
        """
        SELECT order_id, sum(amount_minor)::bigint AS minor FROM refunds
        WHERE charge_id = ANY(:charge_ids) AND NOT split_part(cause, ':', 1) = ANY(:out_of_orders)
        GROUP BY order_id ORDER BY order_id
        """
    )
)


def _split_into_shares(
    session: Session, charge_ids: Sequence[UUID], principal_minor: int, locked_orders: Sequence[LockedOrder]
) -> list[_ChargeShare]:
    """Split the principal of charges into shares by order and purpose."""
    by_id = {order.id: order for order in locked_orders}
    paid_by_order = sum_paid_by_order(session, charge_ids=charge_ids)
    returned = _SELECT_RETURNED_BY_ORDER.tuples(
        session, charge_ids=charge_ids, out_of_orders=_ORDER_REFUND_CAUSES
    )
    charge_shares = [
        *(_ChargeShare(by_id[id_], minor, paid_for_order=True) for id_, minor in paid_by_order.items()),
        *(_ChargeShare(by_id[id_], minor, paid_for_order=False) for id_, minor in returned),
    ]
    # The rest is an excess in the wallet or quarantined money. Both belong to the buyer.
    rest_minor = principal_minor - sum(charge_share.paid_minor for charge_share in charge_shares)
    if rest_minor:
        of_first = [
            charge_share
            for charge_share in charge_shares
            if charge_share.order.id == locked_orders[0].id and not charge_share.paid_for_order
        ]
        if of_first:
            of_first[0].paid_minor += rest_minor
        else:
            charge_shares.append(_ChargeShare(locked_orders[0], rest_minor, paid_for_order=False))
    return charge_shares


_SUM_UNDECIDED_LOSS = Statement(
    text(
        """
        SELECT coalesce(sum(CASE direction WHEN 'debit' THEN amount_minor ELSE -amount_minor END), 0)::bigint AS minor
        FROM ledger_entries WHERE account_id = :account_id AND order_id = :order_id
        """
    )
)


def sum_undecided_loss(session: Session, *, order_id: UUID) -> int:
    """Sum an order's chargeback losses in kobo that wait for a ruling."""
    total_minor: int = _SUM_UNDECIDED_LOSS.scalar(
        session, order_id=order_id, account_id=accounts.LOST_DISPUTES.id
    )
    return total_minor


def _post_share(
    session: Session,
    dispute_id: UUID,
    charge_share: _ChargeShare,
    wallet_balance_minor: int,
    *,
    now: datetime,
) -> tuple[ChargebackAllocation, int]:
    """Post the chargeback of a share.

    :return: the allocation, and the kobo taken from the wallet beyond cancelled refunds
    """
    order, charged_back_minor = charge_share.order, charge_share.charged_back_minor
    left_minor = charged_back_minor - charge_share.covered_by_unsent_minor
    clawed_back_minor = min(left_minor, order.net_released_minor) if charge_share.paid_for_order else 0
    clawback_sources = allocate_clawback(order, clawed_back_minor) if clawed_back_minor else []
    if clawed_back_minor:
        record_clawback(
            session,
            order=order,
            amount_minor=clawed_back_minor,
            actor=GATEWAY,
            note="The buyer's bank took back the payment",
            now=now,
        )
    in_escrow_minor = (
        max(order.escrow_balance_minor - sum_undecided_loss(session, order_id=order.id), 0)
        if charge_share.paid_for_order
        else 0
    )
    undecided_minor = min(left_minor - clawed_back_minor, in_escrow_minor)
    duplicate_minor = left_minor - clawed_back_minor - undecided_minor
    paid_by_wallet_minor = min(duplicate_minor, wallet_balance_minor)
    sources = [
        *clawback_sources,
        (accounts.LOST_DISPUTES, undecided_minor),
        (accounts.wallet(order.buyer_id), charge_share.covered_by_unsent_minor + paid_by_wallet_minor),
        (accounts.buyer_receivable(order.buyer_id), duplicate_minor - paid_by_wallet_minor),
    ]
    post_transaction(
        session,
        kind=CHARGEBACK,
        source=f"charge-dispute:{dispute_id}:{order.id}"
        + ("" if charge_share.paid_for_order else ":unneeded"),
        description=f"Chargeback of order {order.number} by the buyer's bank",
        postings=[
            *(Posting(account, "debit", share, order.id) for account, share in sources if share),
            Posting(accounts.GATEWAY_CLEARING, "credit", charged_back_minor, order.id),
        ],
        now=now,
    )
    vendor_minor, platform_minor = (share for _, share in clawback_sources) if clawback_sources else (0, 0)
    if clawed_back_minor:
        _notify_vendor(session, dispute_id, order, charged_back_minor, vendor_minor, now=now)
    return ChargebackAllocation(
        order.id,
        vendor_minor,
        platform_minor,
        duplicate_minor,
        undecided_minor,
        charge_share.covered_by_unsent_minor,
    ), paid_by_wallet_minor


def _notify_vendor(
    session: Session,
    dispute_id: UUID,
    order: LockedOrder,
    amount_minor: int,
    vendor_minor: int,
    *,
    now: datetime,
) -> None:
    owed_minor = fetch_balance(session, account=accounts.vendor_receivable(order.vendor_id))
    body = texts.CHARGEBACK_FOR_VENDOR.format(amount=format_naira(amount_minor), order_number=order.number)
    notifications.notify_parties_of_clawback(
        session,
        order,
        {order.vendor_user_id: f"{body} {notifications.vendor_debt_message(vendor_minor, owed_minor)}"},
        cause=f"order:{order.id}:charge-dispute:{dispute_id}",
        now=now,
    )
