"""The chart of accounts of the ledger."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, get_args
from uuid import UUID, uuid5

Side = Literal["debit", "credit"]
# The kinds of transactions, as statements show them.
TransactionKind = Literal[
    "accepted_difference",
    "appeal_granted",
    "chargeback",
    "chargeback_settled",
    "clawback_collected",
    "debt_collected",
    "gateway_fees",
    "held_payment",
    "opening",
    "payment",
    "payout",
    "payout_cancelled",
    "payout_returned",
    "payout_reversed",
    "payout_sent_after_all",
    "payout_staged",
    "quarantine",
    "refund",
    "refund_credit",
    "refund_returned",
    "refund_sent",
    "refund_sent_twice",
    "refund_sent_twice_returned",
    "release",
    "reward",
    "settlement",
    "top_up",
    "wallet_adjustment",
    "wallet_payment",
    "wallet_return",
]
TRANSACTION_KINDS: tuple[TransactionKind, ...] = get_args(TransactionKind)

# The account id is derived from the account name, so posting needs no look-up.
_NAMESPACE = UUID("5f0c2a44-5d0f-4b0e-9a51-6c1d7e8f9a10")

# Debits increase assets and expenses; credits increase liabilities and revenue.
NORMAL_SIDES: dict[str, Side] = {
    "gateway_clearing": "debit",
    "bank": "debit",
    "gateway_fees": "debit",
    # Chargebacks of orders with money still in escrow, until staff decide the dispute.
    "lost_disputes": "debit",
    "vendor_receivable": "debit",
    "buyer_receivable": "debit",
    # The net cost of adjustments of wallets, which is negative if officers debited more than they credited.
    "wallet_adjustments": "debit",
    # Losses of disputes that the platform bears: granted appeals of vendors, and chargebacks ruled for vendors.
    "dispute_expenses": "debit",
    # The cost of rewards in wallets.
    "rewards": "debit",
    "escrow": "credit",
    "vendor_payable": "credit",
    "wallet": "credit",
    "platform_revenue": "credit",
    "refunds_in_transit": "credit",
    "payouts_in_transit": "credit",
    "quarantine": "credit",
    "own_funds": "credit",
}
OWNED_KINDS = frozenset({"vendor_payable", "vendor_receivable", "buyer_receivable", "wallet"})


@dataclass(frozen=True, slots=True)
class Account:
    """An account, identified by kind, and by owner for kinds with an account per owner."""

    kind: str
    owner_id: UUID | None = None

    @property
    def id(self) -> UUID:
        """The account's id, derived from the name."""
        return _derive_account_id(self.name)

    @property
    def name(self) -> str:
        """The name in statements: ``kind`` or ``kind:<owner>``."""
        return f"{self.kind}:{self.owner_id}" if self.owner_id else self.kind

    @property
    def normal_side(self) -> Side:
        """The side that increases the balance."""
        return NORMAL_SIDES[self.kind]


# Each posting needs the id several times, and the platform's own accounts are in most postings.
@lru_cache(maxsize=4096)
def _derive_account_id(name: str) -> UUID:
    return uuid5(_NAMESPACE, name)


GATEWAY_CLEARING = Account("gateway_clearing")
GATEWAY_FEES = Account("gateway_fees")
ESCROW = Account("escrow")
PLATFORM_REVENUE = Account("platform_revenue")
QUARANTINE = Account("quarantine")
REFUNDS_IN_TRANSIT = Account("refunds_in_transit")
PAYOUTS_IN_TRANSIT = Account("payouts_in_transit")
BANK = Account("bank")
REWARDS = Account("rewards")
# The company's own money at the gateway: the balance before the first day, top-ups, and withdrawals by hand.
OWN_FUNDS = Account("own_funds")
LOST_DISPUTES = Account("lost_disputes")
WALLET_ADJUSTMENTS = Account("wallet_adjustments")
DISPUTE_EXPENSES = Account("dispute_expenses")


def wallet(user_id: UUID) -> Account:
    """Return the account of a buyer's wallet."""
    return Account("wallet", user_id)


def vendor_payable(vendor_id: UUID) -> Account:
    """Return the account of the amount that the platform owes a vendor."""
    return Account("vendor_payable", vendor_id)


def vendor_receivable(vendor_id: UUID) -> Account:
    """Return the account of a vendor's debt.

    A debt arises from a refund or chargeback after the release, or from a payout sent after its return.
    """
    return Account("vendor_receivable", vendor_id)


def buyer_receivable(user_id: UUID) -> Account:
    """Return the account of a buyer's debt, which arises when money reaches the buyer twice."""
    return Account("buyer_receivable", user_id)
