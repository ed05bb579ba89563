"""What the books say of payouts that were sent, failed or came back. Their reservations are another matter."""

from datetime import datetime
from typing import Any

from sqlalchemy.orm import Session

from marketplace.ledger import accounts
from marketplace.ledger.operations import Posting, lock_balances, post_transaction
from marketplace.payouts.accounting.reservations import SENT_AFTER_ALL, Payee, payout_source

SENT = "payout"
RETURNED = "payout_returned"
REVERSED = "payout_reversed"


def post_payout_sent(session: Session, row: dict[str, Any], *, fee_minor: int, now: datetime) -> None:
    """Book that a payout has left the gateway, and what the gateway kept for it.

    :param row: the payout
    :param fee_minor: kobo beside the amount
    """
    amount = row["amount_minor"]
    fee = [Posting(accounts.GATEWAY_FEES, "debit", fee_minor)] if fee_minor else []
    post_transaction(
        session,
        kind=SENT,
        source=payout_source(row["id"]),
        description="Payout sent by the gateway",
        postings=[
            Posting(accounts.PAYOUTS_IN_TRANSIT, "debit", amount),
            *fee,
            Posting(accounts.GATEWAY_CLEARING, "credit", amount + fee_minor),
        ],
        now=now,
    )


def post_payout_returned(session: Session, row: dict[str, Any], *, now: datetime) -> None:
    """Book that a payout never left: its money is the payee's again.

    :param row: the payout
    """
    _post_return_to_payee(
        session, row, RETURNED, "Payout that was not sent", accounts.PAYOUTS_IN_TRANSIT, now=now
    )


def post_payout_reversed(session: Session, row: dict[str, Any], *, fee_minor: int, now: datetime) -> None:
    """Book that a payout had left and came back to the gateway: its money is the payee's again.

    :param row: the payout
    :param fee_minor: kobo of what the gateway had kept for it that came back as well; the rest stays our cost
    """
    clearing, description = accounts.GATEWAY_CLEARING, "Payout that came back"
    _post_return_to_payee(session, row, REVERSED, description, clearing, fee_minor=fee_minor, now=now)


def post_payout_sent_after_all(
    session: Session, row: dict[str, Any], *, fee_minor: int, now: datetime
) -> int:
    """Book that a payout left whose money its payee has back already.

    The balance gives back what it has; the rest is a debt, which comes off what the payee gets next.

    :param row: the payout
    :param fee_minor: kobo that the gateway kept beside the amount
    :return: how much is owed, in kobo
    """
    payee, amount = Payee(row["user_id"], row["vendor_id"]), row["amount_minor"]
    debt_account = payee.debt_account or accounts.buyer_receivable(payee.user_id)
    debited_minor = min(
        amount, lock_balances(session, accounts=[payee.balance_account, debt_account])[payee.balance_account]
    )
    debits = (
        (payee.balance_account, debited_minor),
        (debt_account, amount - debited_minor),
        (accounts.GATEWAY_FEES, fee_minor),
    )
    post_transaction(
        session,
        kind=SENT_AFTER_ALL,
        source=f"{payout_source(row['id'])}:{row['times_returned']}",
        description="Payout that was sent although its money was back",
        postings=[
            *(Posting(account, "debit", minor) for account, minor in debits if minor),
            Posting(accounts.GATEWAY_CLEARING, "credit", amount + fee_minor),
        ],
        now=now,
    )
    owed_minor: int = amount - debited_minor
    return owed_minor


def _post_return_to_payee(
    session: Session,
    row: dict[str, Any],
    kind: str,
    description: str,
    source_account: accounts.Account,
    *,
    fee_minor: int = 0,
    now: datetime,
) -> None:
    times_returned = row["times_returned"] + 1
    source = payout_source(row["id"])
    fee = [Posting(accounts.GATEWAY_FEES, "credit", fee_minor)] if fee_minor else []
    post_transaction(
        session,
        kind=kind,
        source=source if times_returned == 1 else f"{source}:{times_returned}",
        description=description,
        postings=[
            Posting(source_account, "debit", row["amount_minor"] + fee_minor),
            *fee,
            Posting(Payee(row["user_id"], row["vendor_id"]).balance_account, "credit", row["amount_minor"]),
        ],
        now=now,
    )
