"""Debts of buyers whom the same money reached twice: post them, and offset them against the wallet."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.infra.batches import process_each
from marketplace.infra.db import Database, Statement
from marketplace.kernel.money import format_naira
from marketplace.ledger import accounts
from marketplace.ledger.operations import Posting, lock_balances, post_transaction
from marketplace.notifications.operations import notify

DUPLICATE_REFUND_KIND = "refund_sent_twice"
_BATCH = 500


@dataclass(frozen=True)
class BuyerDebt:
    """Money that reached a buyer twice, as posted: the wallet's part and the debt, in kobo."""

    paid_by_wallet_minor: int
    outstanding_minor: int


def record_overpayment(
    session: Session,
    *,
    buyer_id: UUID,
    order_id: UUID | None,
    amount_minor: int,
    source: str,
    description: str,
    now: datetime,
) -> BuyerDebt:
    """Book what the gateway paid a buyer who had the money already.

    It has left the gateway, so the books say so; the wallet gives back what it has, and the rest is a debt in an
    account of the buyer's own.

    :param amount_minor: kobo that the gateway paid
    :param source: names the payment once and for all
    :param description: for statements
    """
    wallet, debt = accounts.wallet(buyer_id), accounts.buyer_receivable(buyer_id)
    paid_by_wallet_minor = min(amount_minor, lock_balances(session, accounts=[wallet, debt])[wallet])
    outstanding_minor = amount_minor - paid_by_wallet_minor
    sources = ((wallet, paid_by_wallet_minor), (debt, outstanding_minor))
    post_transaction(
        session,
        kind=DUPLICATE_REFUND_KIND,
        source=source,
        description=description,
        postings=[
            *(Posting(account, "debit", minor, order_id) for account, minor in sources if minor),
            Posting(accounts.GATEWAY_CLEARING, "credit", amount_minor, order_id),
        ],
        now=now,
    )
    return BuyerDebt(paid_by_wallet_minor, outstanding_minor)


_SELECT_BUYERS_TO_OFFSET = Statement(
    text(
        """
        SELECT d.owner_id AS buyer_id FROM ledger_accounts d
            JOIN ledger_accounts w ON w.kind = 'wallet' AND w.owner_id = d.owner_id
        WHERE d.kind = 'buyer_receivable' AND d.balance_minor > 0 AND w.balance_minor > 0
        ORDER BY d.owner_id LIMIT :limit
        """
    )
)


def offset_buyer_debts(database: Database, *, now: datetime) -> int:
    """Set off what buyers owe against what their wallets have received since, each by itself.

    :return: how many buyers paid something; at most 500 in one sweep
    """
    with database.reading() as session:
        buyer_ids = _SELECT_BUYERS_TO_OFFSET.scalars(session, limit=_BATCH)
    return sum(
        process_each(
            buyer_ids,
            lambda buyer_id: database.in_transaction(offset_against_wallet, buyer_id=buyer_id, now=now),
            failure="debt not collected",
        )
    )


# What was set off before only grows, so it tells one set-off of a buyer's from the next.
_SELECT_TOTAL_OFFSET = Statement(
    text(
        """
        SELECT coalesce(sum(amount_minor), 0)::bigint AS minor FROM ledger_entries
        WHERE account_id = :account_id AND direction = 'credit'
        """
    )
)


def offset_against_wallet(session: Session, *, buyer_id: UUID, now: datetime) -> bool:
    """Set off what a buyer owes against what their wallet has, and tell them.

    :return: whether there was anything to set off
    """
    wallet, debt = accounts.wallet(buyer_id), accounts.buyer_receivable(buyer_id)
    balances = lock_balances(session, accounts=[wallet, debt])
    offset_minor = min(balances[wallet], balances[debt])
    if not offset_minor:
        return False
    source = f"debt:{buyer_id}:{_SELECT_TOTAL_OFFSET.scalar(session, account_id=debt.id)}"
    post_transaction(
        session,
        kind="debt_collected",
        source=source,
        description="What had reached the buyer twice, given back by the wallet",
        postings=[Posting(wallet, "debit", offset_minor), Posting(debt, "credit", offset_minor)],
        now=now,
    )
    outstanding_minor = balances[debt] - offset_minor
    closing = (
        f" {format_naira(outstanding_minor)} are still owed."
        if outstanding_minor
        else " Nothing is owed any more."
    )
    notify(
        session,
        user_id=buyer_id,
        type="debt_collected",
        title="Your wallet gave back what had reached you twice",
        body=f"{format_naira(offset_minor)} were taken from your wallet for money that had reached you twice.{closing}",
        link="/wallet",
        cause=source,
        now=now,
    )
    return True
