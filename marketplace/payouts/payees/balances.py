"""Payees' balances: available, in escrow, in transit, on hold, and owed to us."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.infra.db import Statement
from marketplace.kernel.money import CURRENCY
from marketplace.ledger import accounts
from marketplace.ledger.queries import fetch_balances
from marketplace.orders.vendor_escrow_balance import VendorEscrowBalance, fetch_vendor_escrow_balance
from marketplace.payouts.payees.holds import Hold, find_vendor_holds, find_wallet_holds, include_platform_halt
from marketplace.payouts.payees.withdrawable import fetch_remaining_rewards
from marketplace.platform.queries import fetch_platform_settings


@dataclass(frozen=True)
class TransitAmounts:
    """Amounts in transit to a payee, in kobo: of payouts that wait and of payouts that were sent."""

    waiting_minor: int
    sent_minor: int

    @property
    def total_minor(self) -> int:
        """The sum of both."""
        return self.waiting_minor + self.sent_minor


@dataclass(frozen=True, kw_only=True)
class StoreBalance:
    """A vendor's amounts in kobo, and the holds of the vendor's payouts. Escrow is the vendor's own share."""

    vendor_id: UUID
    available_minor: int
    on_hold_minor: int
    holds: tuple[Hold, ...]
    escrow: VendorEscrowBalance
    in_transit: TransitAmounts
    payable_minor: int
    owed_minor: int
    minimum_payout_minor: int
    currency = CURRENCY

    @property
    def held_until(self) -> datetime | None:
        """The end of all holds, unless one of them does not end by time."""
        ends = [hold.until for hold in self.holds if hold.until is not None]
        return max(ends) if ends and len(ends) == len(self.holds) else None


@dataclass(frozen=True, kw_only=True)
class WalletBalance:
    """A wallet's amounts in kobo, and the holds of payouts from the wallet."""

    balance_minor: int
    cashable_minor: int
    from_rewards_minor: int
    in_transit: TransitAmounts
    owed_minor: int
    minimum_payout_minor: int
    holds: tuple[Hold, ...]
    currency = CURRENCY


def minimum_payout(session: Session) -> int:
    """Return the minimum amount of a payout in kobo, as officers have set it."""
    return int(fetch_platform_settings(session)["minimum_payout_minor"])


def show_store_balance(session: Session, *, vendor_id: UUID, now: datetime) -> StoreBalance:
    """Show a vendor's balance. Debts are collected before payouts, so they are not available."""
    payable_minor, owed_minor = fetch_balances(
        session, accounts.vendor_payable(vendor_id), accounts.vendor_receivable(vendor_id)
    )
    net = max(payable_minor - owed_minor, 0)
    holds = include_platform_halt(
        session, find_vendor_holds(session, vendor_ids=[vendor_id], now=now)[vendor_id]
    )
    return StoreBalance(
        vendor_id=vendor_id,
        available_minor=0 if holds else net,
        on_hold_minor=net if holds else 0,
        holds=holds,
        escrow=fetch_vendor_escrow_balance(session, vendor_id=vendor_id),
        in_transit=sum_payouts_in_transit(session, user_id=None, vendor_id=vendor_id),
        payable_minor=payable_minor,
        owed_minor=owed_minor,
        minimum_payout_minor=minimum_payout(session),
    )


def show_wallet_balance(session: Session, *, user_id: UUID, now: datetime) -> WalletBalance:
    """Show a wallet's balance, and the part of it that can be paid out."""
    balance, owed = fetch_balances(session, accounts.wallet(user_id), accounts.buyer_receivable(user_id))
    rewards = fetch_remaining_rewards(session, user_id=user_id, balance_minor=balance)
    return WalletBalance(
        balance_minor=balance,
        cashable_minor=max(balance - owed - rewards, 0),
        from_rewards_minor=rewards,
        in_transit=sum_payouts_in_transit(session, user_id=user_id, vendor_id=None),
        owed_minor=owed,
        minimum_payout_minor=minimum_payout(session),
        holds=include_platform_halt(
            session, find_wallet_holds(session, user_ids=[user_id], now=now)[user_id]
        ),
    )


_SUM_PAYOUTS_IN_TRANSIT = Statement(
    text(
        """
        SELECT coalesce(sum(amount_minor) FILTER (WHERE status = 'pending'), 0)::bigint AS waiting_minor,
            coalesce(sum(amount_minor) FILTER (WHERE status <> 'pending'), 0)::bigint AS sent_minor
        FROM payout_transfer_intents
        WHERE status IN ('pending', 'submitted', 'unknown') AND (vendor_id = :vendor_id
            OR (CAST(:vendor_id AS uuid) IS NULL AND vendor_id IS NULL AND user_id = :user_id))
        """
    ),
    row=TransitAmounts,
)


def sum_payouts_in_transit(
    session: Session, *, user_id: UUID | None, vendor_id: UUID | None
) -> TransitAmounts:
    """Sum the payouts in transit for a store or, without a store, from a person's wallet."""
    return _SUM_PAYOUTS_IN_TRANSIT.one(session, user_id=user_id, vendor_id=vendor_id)
