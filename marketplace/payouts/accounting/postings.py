"""Ledger postings of payouts that were sent, failed or returned. Reservations have their own module."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from sqlalchemy.orm import Session

from marketplace.ledger import accounts
from marketplace.ledger.operations import Posting, lock_balances, post_transaction
from marketplace.payouts import states
from marketplace.payouts.accounting.reservations import SENT_AFTER_ALL, Reservation, payout_source

SENT = "payout"
RETURNED = "payout_returned"
REVERSED = "payout_reversed"


@dataclass(frozen=True)
class Payout(Reservation):
    """A payout of a dispatched batch, with its transfer and its bank account."""

    batch_id: UUID
    account_id: UUID
    reference: str
    gateway_transfer_id: str | None
    fee_minor: int
    attempts: int
    times_returned: int
    ask_at: datetime | None
    sent_at: datetime | None
    updated_at: datetime
    recipient_code: str | None
    account_name: str
    account_number: str
    bank_code: str
    account_replaced: bool


def post_payout_sent(session: Session, payout: Payout, *, fee_minor: int, now: datetime) -> None:
    """Post that a payout left the gateway.

    :param fee_minor: the gateway's fee beside the amount, in kobo
    """
    fee = [Posting(accounts.GATEWAY_FEES, "debit", fee_minor)] if fee_minor else []
    post_transaction(
        session,
        kind=SENT,
        source=payout_source(payout.id),
        description="Payout sent by the gateway",
        postings=[
            Posting(accounts.PAYOUTS_IN_TRANSIT, "debit", payout.amount_minor),
            *fee,
            Posting(accounts.GATEWAY_CLEARING, "credit", payout.amount_minor + fee_minor),
        ],
        now=now,
    )


def post_payout_returned(session: Session, payout: Payout, *, fee_minor: int, now: datetime) -> None:
    """Post that a payout was not sent, or came back to the gateway, and return the amount to the payee's balance.

    :param fee_minor: the part of the gateway's fee that came back, in kobo; the rest stays our cost
    """
    was_sent = payout.status == states.SUCCESS
    times_returned, source = payout.times_returned + 1, payout_source(payout.id)
    fee = [Posting(accounts.GATEWAY_FEES, "credit", fee_minor)] if fee_minor else []
    post_transaction(
        session,
        kind=REVERSED if was_sent else RETURNED,
        source=source if times_returned == 1 else f"{source}:{times_returned}",
        description="Payout that came back" if was_sent else "Payout that was not sent",
        postings=[
            Posting(
                accounts.GATEWAY_CLEARING if was_sent else accounts.PAYOUTS_IN_TRANSIT,
                "debit",
                payout.amount_minor + fee_minor,
            ),
            *fee,
            Posting(payout.payee.balance_account, "credit", payout.amount_minor),
        ],
        now=now,
    )


def post_payout_sent_after_all(session: Session, payout: Payout, *, fee_minor: int, now: datetime) -> int:
    """Post that a payout was sent although its amount was returned before.

    The payee's balance pays as much as it has. The rest becomes a debt, collected from the next amounts.

    :param fee_minor: the gateway's fee beside the amount, in kobo
    :return: the debt in kobo
    """
    payee = payout.payee
    debt_account = payee.debt_account or accounts.buyer_receivable(payee.user_id)
    balances = lock_balances(session, accounts=[payee.balance_account, debt_account])
    debited_minor = min(payout.amount_minor, balances[payee.balance_account])
    debits = (
        (payee.balance_account, debited_minor),
        (debt_account, payout.amount_minor - debited_minor),
        (accounts.GATEWAY_FEES, fee_minor),
    )
    post_transaction(
        session,
        kind=SENT_AFTER_ALL,
        source=f"{payout_source(payout.id)}:{payout.times_returned}",
        description="Payout that was sent although its money was back",
        postings=[
            *(Posting(account, "debit", minor) for account, minor in debits if minor),
            Posting(accounts.GATEWAY_CLEARING, "credit", payout.amount_minor + fee_minor),
        ],
        now=now,
    )
    return payout.amount_minor - debited_minor
