"""Risk flags of payments, for officers who approve a batch."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from marketplace.payouts.accounting.reservations import Reservation
from marketplace.payouts.payees.holds import Hold
from marketplace.payouts.payees.name_matching import is_plausible_account_name

# An account that is younger was changed lately, or was never paid to before.
NEW_ACCOUNT_PERIOD = timedelta(days=30)
# Of so many payments that arrived, the latest ones, the average is what is usual; so many times that is not.
HISTORY_LENGTH = 12
UNUSUAL_AMOUNT_FACTOR = 3

ON_HOLD = "on_hold"
ACCOUNT_CHANGED_SINCE_STAGING = "account_changed_since_staging"
ACCOUNT_CHANGED = "account_changed"
NAME_DIFFERS = "name_differs"
FIRST_PAYOUT = "first_payout"
AMOUNT_UNUSUAL = "amount_unusual"
UNDER_DISPUTE = "under_dispute"
NOT_ACTIVE = "not_active"
OWES_MONEY = "owes_money"
FAILED_BEFORE = "failed_before"

# In the order in which an officer looks at them, and in words.
RISK_FLAGS: dict[str, str] = {
    ON_HOLD: "Nothing is paid to the payee now: `holds` says why and until when. The batch is not sent meanwhile.",
    ACCOUNT_CHANGED_SINCE_STAGING: "The payee has another bank account than when the batch was staged.",
    ACCOUNT_CHANGED: "The bank account has been the payee's for less than 30 days.",
    NAME_DIFFERS: "The bank account's name is like neither the store's nor the person's.",
    FIRST_PAYOUT: "No payment has arrived at the payee before.",
    AMOUNT_UNUSUAL: "It is more than three times the average of the latest 12 payments that arrived.",
    UNDER_DISPUTE: "An order of the store is under dispute, here or at a customer's bank.",
    NOT_ACTIVE: "The store or the person's account is suspended, restricted or closed.",
    OWES_MONEY: "The vendor owes money for orders that were refunded after their release.",
    FAILED_BEFORE: "The latest payment to the payee failed, or came back.",
}


@dataclass(frozen=True)
class PaymentFacts(Reservation):
    """A payment of a batch with its payee, its bank account, and the payee's history; amounts in kobo."""

    asked_for: bool
    failure_reason: str | None
    stalled_at: datetime | None
    created_at: datetime
    updated_at: datetime
    is_unsent: bool
    payee_view: dict[str, Any]
    is_payee_active: bool
    account_id: UUID
    account_name: str
    account_since: datetime
    staged_account_id: UUID
    is_staged_account: bool
    successful_payouts: int
    average_minor: int | None
    largest_minor: int | None
    last_paid_at: datetime | None
    last_failed: bool
    disputes: int
    owes_minor: int


def find_risk_flags(facts: PaymentFacts, holds: Sequence[Hold], *, now: datetime) -> list[str]:
    """Find the risks of a payment, in the order of ``RISK_FLAGS``."""
    present = {
        ON_HOLD: bool(holds),
        ACCOUNT_CHANGED_SINCE_STAGING: not facts.is_staged_account,
        ACCOUNT_CHANGED: facts.account_since > now - NEW_ACCOUNT_PERIOD,
        NAME_DIFFERS: not is_plausible_account_name(
            facts.account_name, facts.payee_view["store_name"], facts.payee_view["name"]
        ),
        FIRST_PAYOUT: facts.successful_payouts == 0,
        AMOUNT_UNUSUAL: facts.average_minor is not None
        and facts.amount_minor > UNUSUAL_AMOUNT_FACTOR * facts.average_minor,
        UNDER_DISPUTE: facts.disputes > 0,
        NOT_ACTIVE: not facts.is_payee_active,
        OWES_MONEY: facts.owes_minor > 0,
        FAILED_BEFORE: facts.last_failed,
    }
    return [risk for risk in RISK_FLAGS if present[risk]]
