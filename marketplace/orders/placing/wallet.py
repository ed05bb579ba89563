"""Paying from the wallet: what a buyer's own balance pays of orders goes into escrow as they are placed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from sqlalchemy.orm import Session

from marketplace.kernel.errors import InvalidParam, ValidationError
from marketplace.ledger import accounts
from marketplace.ledger.operations import InsufficientFundsError, Posting, lock_balance, post_transaction
from marketplace.orders import operations
from marketplace.orders.pricing import allocate_in_order
from marketplace.orders.transitions import Actor, LockedOrder, lock_orders

CHANNEL = "wallet"


@dataclass(frozen=True)
class WalletUse:
    """How much the wallet is to pay: an amount in kobo, or as much as it can."""

    amount_minor: int = 0
    as_much_as_possible: bool = False


NO_WALLET = WalletUse()


def allocate_wallet_payment(
    session: Session, *, buyer_id: UUID, wallet_use: WalletUse, totals_minor: Sequence[int]
) -> list[int]:
    """Tell what the wallet pays of each of several orders, its balance being locked from now.

    The earlier order is filled first, so at most one of them is paid in part.

    :param wallet_use: how much in all
    :param totals_minor: what the orders cost, in kobo
    :return: kobo of each order, in their order; together exactly what was asked for
    :raises ValidationError: more is to be paid than the orders cost
    :raises InsufficientFundsError: the wallet holds less
    """
    total = sum(totals_minor)
    if wallet_use.amount_minor > total:
        raise ValidationError.of("walletMinor", f"Is more than the total, {total}.")
    if not wallet_use.amount_minor and not wallet_use.as_much_as_possible:
        return [0] * len(totals_minor)
    balance = lock_balance(session, account=accounts.wallet(buyer_id))
    amount_minor = min(balance, total) if wallet_use.as_much_as_possible else wallet_use.amount_minor
    if amount_minor > balance:
        raise InsufficientFundsError(
            f"The wallet holds {balance} kobo.",
            invalid_params=[InvalidParam("walletMinor", f"The wallet holds {balance}.")],
        )
    return allocate_in_order(amount_minor, totals_minor)


def pay_from_wallet(
    session: Session, *, buyer_id: UUID, amounts_minor: Mapping[UUID, int], now: datetime
) -> None:
    """Move the wallet's part of orders into escrow; those that it pays whole are paid.

    :param buyer_id: whose wallet, and orders, they are
    :param amounts_minor: kobo by order; the orders were placed in this transaction with that as their wallet part
    :param now: the time of the request
    :raises InsufficientFundsError: the wallet holds less
    """
    order_ids = sorted(order_id for order_id, minor in amounts_minor.items() if minor)
    if not order_ids:
        return
    orders = lock_orders(session, order_ids=order_ids)
    fully_paid = [order for order in orders if not order.due_minor]
    for order in fully_paid:
        operations.mark_paid(
            session,
            order=order,
            reference=f"{CHANNEL}-{order.id.hex}",
            channel=CHANNEL,
            paid_at=now,
            actor=Actor("buyer", buyer_id),
            now=now,
        )
    if fully_paid:
        operations.consume_stock(session, paid_orders=fully_paid)
    for order in orders:
        _post_wallet_payment(session, order, now=now)


def _post_wallet_payment(session: Session, order: LockedOrder, *, now: datetime) -> None:
    post_transaction(
        session,
        kind="wallet_payment",
        source=f"order:{order.id}",
        description=f"Wallet pays for order {order.number}",
        postings=[
            Posting(accounts.wallet(order.buyer_id), "debit", order.wallet_minor, order.id),
            Posting(accounts.ESCROW, "credit", order.wallet_minor, order.id),
        ],
        now=now,
    )
