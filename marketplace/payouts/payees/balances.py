"""Payees' balances: available, in escrow, in transit, on hold, owed, and the withdrawable part of a wallet.

A wallet pays out refunds and overpayments, but no rewards. Rewards pay for orders first. The refund of an order counts
as rewards again, up to the rewards that paid the order. Otherwise placing and cancelling an order would turn rewards
into cash.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.infra.sql.statements import Statement
from marketplace.infra.sql.tables import SortedTable
from marketplace.kernel.money import CURRENCY
from marketplace.kernel.paging import TablePage, TableRequest
from marketplace.ledger import accounts
from marketplace.ledger.queries import fetch_balances
from marketplace.orders.vendor_escrow_balance import VendorEscrowBalance, fetch_vendor_escrow_balance
from marketplace.payouts.payees.holds import Hold, find_vendor_holds, find_wallet_holds, include_platform_halt
from marketplace.payouts.share_holds import sum_held_shares
from marketplace.platform.queries import fetch_platform_settings

DEBT_SORTS = {"owed_minor": "a.balance_minor", "last_claimed_at": "sums.last_claimed_at"}


@dataclass(frozen=True)
class TransitAmounts:
    """Amounts in transit to a payee, in kobo: of pending payouts and of sent payouts."""

    waiting_minor: int
    sent_minor: int

    @property
    def total_minor(self) -> int:
        """The sum of pending and sent payouts."""
        return self.waiting_minor + self.sent_minor


@dataclass(frozen=True, kw_only=True)
class PayeeBalance:
    """A payee's amounts in kobo, and the holds of the payee's payouts."""

    in_transit: TransitAmounts
    owed_minor: int
    minimum_payout_minor: int
    holds: tuple[Hold, ...]
    currency = CURRENCY


@dataclass(frozen=True, kw_only=True)
class StoreBalance(PayeeBalance):
    """A vendor's amounts in kobo, and the holds of the vendor's payouts. Escrow is the vendor's own share."""

    vendor_id: UUID
    available_minor: int
    on_hold_minor: int
    held_share_minor: int
    escrow: VendorEscrowBalance
    payable_minor: int

    @property
    def held_until(self) -> datetime | None:
        """The end of the last hold; none if a hold has no end date."""
        ends = [hold.until for hold in self.holds if hold.until is not None]
        return max(ends) if ends and len(ends) == len(self.holds) else None


@dataclass(frozen=True, kw_only=True)
class WalletBalance(PayeeBalance):
    """A wallet's amounts in kobo, and the holds of payouts from the wallet."""

    balance_minor: int
    cashable_minor: int
    from_rewards_minor: int


def minimum_payout(session: Session) -> int:
    """Return the minimum amount of a payout in kobo, from the platform settings."""
    return int(fetch_platform_settings(session)["minimum_payout_minor"])


def show_store_balance(session: Session, *, vendor_id: UUID, now: datetime) -> StoreBalance:
    """Show a vendor's balance. The available amount excludes debts, which are collected before payouts."""
    payable_minor, owed_minor = fetch_balances(
        session, accounts.vendor_payable(vendor_id), accounts.vendor_receivable(vendor_id)
    )
    net = max(payable_minor - owed_minor, 0)
    held_share_minor = min(sum_held_shares(session, vendor_ids=[vendor_id], now=now).get(vendor_id, 0), net)
    holds = include_platform_halt(
        session, find_vendor_holds(session, vendor_ids=[vendor_id], now=now)[vendor_id]
    )
    return StoreBalance(
        vendor_id=vendor_id,
        available_minor=0 if holds else net - held_share_minor,
        on_hold_minor=net if holds else held_share_minor,
        held_share_minor=held_share_minor,
        holds=holds,
        escrow=fetch_vendor_escrow_balance(session, vendor_id=vendor_id),
        in_transit=sum_payouts_in_transit(session, user_id=None, vendor_id=vendor_id),
        payable_minor=payable_minor,
        owed_minor=owed_minor,
        minimum_payout_minor=minimum_payout(session),
    )


def show_wallet_balance(session: Session, *, user_id: UUID, now: datetime) -> WalletBalance:
    """Show a wallet's balance with the withdrawable part."""
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


@dataclass(frozen=True)
class WalletMovement:
    """A wallet's movement by transaction and order, in kobo. ``rewards`` marks granted and revoked rewards."""

    kind: str
    order_id: UUID | None
    rewards: bool
    minor: int


# Grouped by transaction and order. Most wallets never had a reward and return no rows.
_SELECT_WALLET_MOVEMENTS = Statement(
    text(
        """
        WITH entries AS MATERIALIZED (SELECT * FROM ledger_entries WHERE account_id = :wallet_id),
            rewarding AS MATERIALIZED (
                SELECT r.transaction_id FROM entries e
                    JOIN ledger_entries r ON r.transaction_id = e.transaction_id
                WHERE r.account_id = :rewards_id
            )
        SELECT e.kind, e.order_id, e.transaction_id IN (SELECT transaction_id FROM rewarding) AS rewards,
            sum(CASE e.direction WHEN 'credit' THEN e.amount_minor ELSE -e.amount_minor END)::bigint AS minor
        FROM entries e WHERE EXISTS (SELECT FROM rewarding)
        GROUP BY e.transaction_id, e.kind, e.order_id ORDER BY e.transaction_id
        """
    ),
    row=WalletMovement,
)


def fetch_remaining_rewards(session: Session, *, user_id: UUID, balance_minor: int) -> int:
    """Compute the part of a wallet that came from rewards, in kobo.

    :param balance_minor: the wallet's balance in kobo; the caller must lock the balance before a debit
    """
    movements = _SELECT_WALLET_MOVEMENTS.all(
        session, wallet_id=accounts.wallet(user_id).id, rewards_id=accounts.REWARDS.id
    )
    return min(remaining_rewards(movements), balance_minor)


def remaining_rewards(movements: Iterable[WalletMovement]) -> int:
    """Compute the remaining rewards of a wallet in kobo.

    :param movements: of the wallet, the earliest first
    """
    remaining = 0
    paid_by_rewards: defaultdict[UUID | None, int] = defaultdict(int)
    for movement in movements:
        order_id, minor = movement.order_id, movement.minor
        if movement.rewards:
            # A revoked reward takes at most the remaining rewards.
            remaining = max(remaining + minor, 0)
        elif minor < 0 and movement.kind == "wallet_payment":
            spent = min(remaining, -minor)
            remaining -= spent
            paid_by_rewards[order_id] += spent
        elif minor > 0 and order_id is not None:
            returned = min(paid_by_rewards[order_id], minor)
            remaining += returned
            paid_by_rewards[order_id] -= returned
    return remaining


@dataclass(frozen=True)
class VendorDebt:
    """A vendor's debt in kobo, and the balance payable to the vendor."""

    vendor_id: UUID
    vendor_name: str
    owed_minor: int
    payable_minor: int
    claimed_minor: int
    collected_minor: int
    last_claimed_at: datetime


_FROM_VENDOR_DEBTS = "FROM ledger_accounts a JOIN vendor_profiles v ON v.id = a.owner_id"
_WHERE_INDEBTED = """
    WHERE a.kind = 'vendor_receivable' AND a.balance_minor > 0
        AND (CAST(:vendor_id AS uuid) IS NULL OR a.owner_id = :vendor_id)
"""
# Few vendors have debts, so summing all entries is cheap.
_VENDOR_DEBTS = SortedTable(
    """
    SELECT v.id AS vendor_id, v.display_name AS vendor_name, a.balance_minor AS owed_minor,
        coalesce(p.balance_minor, 0) AS payable_minor, sums.*
    """,
    f"""
    {_FROM_VENDOR_DEBTS}
        LEFT JOIN ledger_accounts p ON p.kind = 'vendor_payable' AND p.owner_id = a.owner_id
        CROSS JOIN LATERAL (
            SELECT coalesce(sum(e.amount_minor) FILTER (WHERE e.direction = 'debit'), 0)::bigint AS claimed_minor,
                coalesce(sum(e.amount_minor) FILTER (WHERE e.direction = 'credit'), 0)::bigint AS collected_minor,
                max(e.created_at) FILTER (WHERE e.direction = 'debit') AS last_claimed_at
            FROM ledger_entries e WHERE e.account_id = a.id
        ) sums
    {_WHERE_INDEBTED}
    """,
    DEBT_SORTS,
    row=VendorDebt,
    tie_breaker="v.id",
    count_from=f"{_FROM_VENDOR_DEBTS} {_WHERE_INDEBTED}",
)
_SUM_VENDOR_DEBTS = Statement(
    text(f"SELECT coalesce(sum(a.balance_minor), 0)::bigint {_FROM_VENDOR_DEBTS} {_WHERE_INDEBTED}")
)


def list_vendor_debts(session: Session, *, vendor_id: UUID | None, page: TableRequest) -> TablePage:
    """List the vendors with debts, in three queries. The page's meta has the sum of the debts in kobo.

    :param page: sorted by a key of ``DEBT_SORTS``
    """
    return replace(
        _VENDOR_DEBTS.fetch_page(session, page, vendor_id=vendor_id),
        extra_meta={"owed_minor": _SUM_VENDOR_DEBTS.scalar(session, vendor_id=vendor_id)},
    )
