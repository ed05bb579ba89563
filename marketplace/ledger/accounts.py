"""The chart of accounts."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Literal
from uuid import UUID, uuid5

Side = Literal["debit", "credit"]

# An account's id is derived from its name, so that posting needs no look-up of it.
_NAMESPACE = UUID("5f0c2a44-5d0f-4b0e-9a51-6c1d7e8f9a10")

# Assets and expenses grow by debits, what we owe and earn by credits.
NORMAL_SIDES: dict[str, Side] = {
    "gateway_clearing": "debit",
    "bank": "debit",
    "gateway_fees": "debit",
    # What banks took back of orders whose money escrow still holds, until staff rule on them.
    "lost_disputes": "debit",
    "vendor_receivable": "debit",
    "buyer_receivable": "debit",
    "escrow": "credit",
    "vendor_payable": "credit",
    "wallet": "credit",
    "platform_revenue": "credit",
    "refunds_in_transit": "credit",
    "payouts_in_transit": "credit",
    "quarantine": "credit",
    "rewards": "credit",
    "own_funds": "credit",
}
OWNED_KINDS = frozenset({"vendor_payable", "vendor_receivable", "buyer_receivable", "wallet"})


@dataclass(frozen=True, slots=True)
class Account:
    """An account by name: a kind, and the owner where the kind has one account each."""

    kind: str
    owner_id: UUID | None = None

    @property
    def id(self) -> UUID:
        """Derive the account's id."""
        return _derive_account_id(self.name)

    @property
    def name(self) -> str:
        """Give the name that statements show: ``kind`` or ``kind:<owner>``."""
        return f"{self.kind}:{self.owner_id}" if self.owner_id else self.kind

    @property
    def normal_side(self) -> Side:
        """Tell which side makes the balance grow."""
        return NORMAL_SIDES[self.kind]


# Each posting asks for it several times, and the platform's own accounts are in most postings.
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
# The company's own money at the gateway: from before the service's first day, or paid in, or taken out, by hand.
OWN_FUNDS = Account("own_funds")
LOST_DISPUTES = Account("lost_disputes")


def wallet(user_id: UUID) -> Account:
    """Name a buyer's own account."""
    return Account("wallet", user_id)


def vendor_payable(vendor_id: UUID) -> Account:
    """Name what we owe a vendor."""
    return Account("vendor_payable", vendor_id)


def vendor_receivable(vendor_id: UUID) -> Account:
    """Name what a vendor owes us, an order having been refunded after its release."""
    return Account("vendor_receivable", vendor_id)


def buyer_receivable(user_id: UUID) -> Account:
    """Name what a buyer owes us, money having reached them twice."""
    return Account("buyer_receivable", user_id)
