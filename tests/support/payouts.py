"""Payouts for tests: payees with bank accounts and balances, batches, and officers."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import count
from typing import Any
from uuid import UUID, uuid4

from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.audit.operations import Act
from marketplace.identity.queries import Caller
from marketplace.ledger import accounts
from marketplace.ledger.accounts import Account
from marketplace.ledger.operations import Posting, post_transaction
from marketplace.ledger.queries import fetch_balance
from marketplace.payouts import accounting
from marketplace.payouts.accounting import PayoutRequest
from marketplace.payouts.batches import decisions, staging
from marketplace.payouts.batches.staging import StagingResult
from marketplace.payouts.models import PayoutAccount
from tests.support.finance import act_of, make_officer
from tests.support.purchases import NOW, make_campus, make_person, make_store

OWED_MINOR = 500_000
# Accounts of this age count as established.
ACCOUNT_AGE = timedelta(days=90)

# No number begins with 000, because the sandbox does not know such accounts.
_numbers = count(10**9 + uuid4().int % 10**9)


@dataclass(frozen=True)
class Payee:
    """A payee with a bank account: a vendor with a store, or a wallet owner without a store."""

    user: Caller
    store_id: UUID | None
    account_id: UUID

    @property
    def balance(self) -> Account:
        """The ledger account that funds the payee's payouts."""
        if self.store_id is None:
            return accounts.wallet(self.user.id)
        return accounts.vendor_payable(self.store_id)


def make_account(
    session: Session, user_id: UUID, *, created_at: datetime = NOW - ACCOUNT_AGE, **values: Any
) -> UUID:
    """Create a user's bank account and replace the old account."""
    session.execute(
        text("UPDATE payout_accounts SET replaced_at = :at WHERE user_id = :id AND replaced_at IS NULL"),
        {"at": created_at, "id": user_id},
    )
    number = next(_numbers)
    given = {
        "bank_code": "058",
        "bank_name": "Guaranty Trust Bank",
        "account_number": f"{number % 10**10:010d}",
        "account_name": "NGOZI LAMPS",
        "recipient_code": f"RCP_{number:x}",
    } | values
    account = PayoutAccount(user_id=user_id, created_at=created_at, **given)
    session.add(account)
    session.flush()
    return account.id


def make_payee(
    session: Session,
    *,
    owed_minor: int = OWED_MINOR,
    campus_id: UUID | None = None,
    account: dict[str, Any] | None = None,
    **store: Any,
) -> Payee:
    """Create a vendor with a store, a bank account and a payable balance.

    :param store: columns of the vendor profile
    """
    store_id, vendor = make_store(session, campus_id=campus_id or make_campus(session), **store)
    payee = Payee(vendor, store_id, make_account(session, vendor.id, **account or {}))
    if owed_minor:
        credit_balance(session, payee, owed_minor)
    return payee


def make_payees(session: Session, number: int, **values: Any) -> list[Payee]:
    """Create payable vendors of a shared campus."""
    campus_id = make_campus(session)
    return [make_payee(session, campus_id=campus_id, **values) for _ in range(number)]


def make_wallet_payee(session: Session, *, owed_minor: int = OWED_MINOR, **account: Any) -> Payee:
    """Create a user with wallet balance and bank account, but without a store."""
    user = make_person(session)
    payee = Payee(user, None, make_account(session, user.id, **account))
    if owed_minor:
        credit_balance(session, payee, owed_minor)
    return payee


def credit_balance(session: Session, payee: Payee, amount_minor: int, *, now: datetime = NOW) -> None:
    """Increase a payee's payable balance, as a released order would."""
    post_transaction(
        session,
        kind="reward",
        source=f"test:{uuid4()}",
        description="Deposit",
        postings=[
            Posting(accounts.GATEWAY_CLEARING, "debit", amount_minor),
            Posting(payee.balance, "credit", amount_minor),
        ],
        now=now,
    )


def record_vendor_debt(
    session: Session, payee: Payee, amount_minor: int, *, kind: str = "refund", now: datetime = NOW
) -> None:
    """Create a vendor debt, by default as a refund after release would."""
    assert payee.store_id is not None
    post_transaction(
        session,
        kind=kind,
        source=f"test:{uuid4()}",
        description="Clawback",
        postings=[
            Posting(accounts.vendor_receivable(payee.store_id), "debit", amount_minor),
            Posting(accounts.GATEWAY_CLEARING, "credit", amount_minor),
        ],
        now=now,
    )


def payable_balance_of(session: Session, payee: Payee) -> int:
    """Return the payee's payable balance in kobo."""
    return fetch_balance(session, account=payee.balance)


def intents_of(session: Session, payee: Payee) -> list[dict[str, Any]]:
    """List the payouts from a payee's balance, oldest first."""
    rows = session.execute(
        text(
            "SELECT * FROM payout_transfer_intents"
            " WHERE user_id = :user_id AND vendor_id IS NOT DISTINCT FROM :vendor_id ORDER BY id"
        ),
        {"user_id": payee.user.id, "vendor_id": payee.store_id},
    )
    return [dict(row) for row in rows.mappings()]


def intents_in(session: Session, batch_id: UUID) -> list[dict[str, Any]]:
    """List the payouts of a batch."""
    rows = session.execute(
        text("SELECT * FROM payout_transfer_intents WHERE batch_id = :id ORDER BY id"), {"id": batch_id}
    )
    return [dict(row) for row in rows.mappings()]


def stores_of(payees: Sequence[Payee]) -> list[UUID]:
    """List the store ids of payees with a store."""
    return [payee.store_id for payee in payees if payee.store_id is not None]


def request_payout(session: Session, payee: Payee, amount_minor: int, *, now: datetime = NOW) -> UUID:
    """Request a withdrawal, which waits for the next batch, and return the intent."""
    wish = PayoutRequest(accounting.Payee(payee.user.id, payee.store_id), payee.account_id, amount_minor)
    made = accounting.reserve_payouts(
        session, requests=[wish], batch_id=None, minimum_minor=1, requested_by_payee=True, now=now
    )
    return made.reservations[0].id


def stage(
    session: Session, payees: Sequence[Payee], *, officer: Caller | None = None, now: datetime = NOW
) -> StagingResult:
    """Stage the payees' stores and withdrawal requests, as the schedule or an officer does."""
    return staging.stage_batch(
        session,
        act=act_of(officer, now=now) if officer else Act("schedule", now),
        vendor_ids=stores_of(payees),
    )


def staged_batch(
    session: Session, payees: Sequence[Payee], *, officer: Caller | None = None, now: datetime = NOW
) -> UUID:
    """Stage the stores of payable payees and return the batch."""
    staged = stage(session, payees, officer=officer, now=now)
    assert staged.batch_id is not None, staged
    assert staged.skipped == (), staged
    return staged.batch_id


def approve(session: Session, batch_id: UUID, officer: Caller, *, now: datetime = NOW, **more: Any) -> str:
    """Approve a batch as an officer and return the batch's status."""
    return decisions.approve_batch(session, batch_id=batch_id, act=act_of(officer, now=now), **more)


def approved_batch(session: Session, payees: Sequence[Payee], *, now: datetime = NOW) -> UUID:
    """Stage a batch and approve the batch by two officers."""
    batch_id = staged_batch(session, payees, now=now)
    assert approve(session, batch_id, make_officer(session), now=now) == "staged"
    assert approve(session, batch_id, make_officer(session), now=now) == "approved"
    return batch_id


def paid_batch(session: Session, payees: Sequence[Payee], *, now: datetime = NOW) -> UUID:
    """Create a batch of successful payouts without the gateway. The ledger invariants hold."""
    batch_id = approved_batch(session, payees, now=now)
    for row in intents_in(session, batch_id):
        post_transaction(
            session,
            kind="payout",
            source=accounting.payout_source(row["id"]),
            description="Payout",
            postings=[
                Posting(accounts.PAYOUTS_IN_TRANSIT, "debit", row["amount_minor"]),
                Posting(accounts.GATEWAY_CLEARING, "credit", row["amount_minor"]),
            ],
            now=now,
        )
    session.execute(
        text("UPDATE payout_transfer_intents SET status = 'success', updated_at = :now WHERE batch_id = :id"),
        {"id": batch_id, "now": now},
    )
    session.execute(
        text(
            "UPDATE payout_batches SET status = 'completed', dispatched_at = :now, finished_at = :now WHERE id = :id"
        ),
        {"id": batch_id, "now": now},
    )
    return batch_id
