"""What a buyer owes us, money having reached them twice: claimed in the books, and set off against their wallet."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.infra.batches import each
from marketplace.infra.db import Database, Statement
from marketplace.kernel.money import naira_text
from marketplace.ledger import accounts
from marketplace.ledger.operations import Posting, lock_balances, post
from marketplace.notifications.operations import notify

PAID_TWICE = "refund_sent_twice"
_BATCH = 500

_COLLECTABLE = Statement(
    text(
        """
        SELECT d.owner_id AS buyer_id FROM ledger_accounts d
            JOIN ledger_accounts w ON w.kind = 'wallet' AND w.owner_id = d.owner_id
        WHERE d.kind = 'buyer_receivable' AND d.balance_minor > 0 AND w.balance_minor > 0
        ORDER BY d.owner_id LIMIT :most
        """
    )
)
# What was set off before only grows, so it tells one set-off of a buyer's from the next.
_SET_OFF = Statement(
    text(
        """
        SELECT coalesce(sum(amount_minor), 0)::bigint AS minor FROM ledger_entries
        WHERE account_id = :account_id AND direction = 'credit'
        """
    )
)


@dataclass(frozen=True)
class Claim:
    """What was booked of money that reached a buyer twice: taken from the wallet, and owed, in kobo."""

    taken_minor: int
    owed_minor: int


def claim(
    session: Session,
    *,
    buyer_id: UUID,
    order_id: UUID | None,
    amount_minor: int,
    source: str,
    description: str,
    now: datetime,
) -> Claim:
    """Book what the gateway paid a buyer who had the money already.

    It has left the gateway, so the books say so; the wallet gives back what it has, and the rest is a debt in an
    account of the buyer's own.

    :param amount_minor: kobo that the gateway paid
    :param source: names the payment once and for all
    :param description: for statements
    """
    wallet, debt = accounts.wallet(buyer_id), accounts.buyer_receivable(buyer_id)
    taken = min(amount_minor, lock_balances(session, wanted=[wallet, debt])[wallet])
    owed = amount_minor - taken
    taken_from = ((wallet, taken), (debt, owed))
    post(
        session,
        kind=PAID_TWICE,
        source=source,
        description=description,
        postings=[
            *(Posting(account, "debit", minor, order_id) for account, minor in taken_from if minor),
            Posting(accounts.GATEWAY_CLEARING, "credit", amount_minor, order_id),
        ],
        now=now,
    )
    return Claim(taken, owed)


def collect_debts(database: Database, *, now: datetime) -> int:
    """Set off what buyers owe against what their wallets have received since, each by itself.

    :param now: when
    :return: how many buyers paid something; at most 500 in one sweep
    """
    with database.reading() as session:
        found = _COLLECTABLE.all(session, most=_BATCH)
    return sum(
        each(
            [row["buyer_id"] for row in found],
            lambda buyer_id: database.in_transaction(collect, buyer_id=buyer_id, now=now),
            failure="debt not collected",
        )
    )


def collect(session: Session, *, buyer_id: UUID, now: datetime) -> bool:
    """Set off what a buyer owes against what their wallet has, and tell them.

    :return: whether there was anything to set off
    """
    wallet, debt = accounts.wallet(buyer_id), accounts.buyer_receivable(buyer_id)
    held = lock_balances(session, wanted=[wallet, debt])
    minor = min(held[wallet], held[debt])
    if not minor:
        return False
    source = f"debt:{buyer_id}:{_SET_OFF.one(session, account_id=debt.id)['minor']}"
    post(
        session,
        kind="debt_collected",
        source=source,
        description="What had reached the buyer twice, given back by the wallet",
        postings=[Posting(wallet, "debit", minor), Posting(debt, "credit", minor)],
        now=now,
    )
    left = held[debt] - minor
    rest = f" {naira_text(left)} are still owed." if left else " Nothing is owed any more."
    notify(
        session,
        user_id=buyer_id,
        type="debt_collected",
        title="Your wallet gave back what had reached you twice",
        body=f"{naira_text(minor)} were taken from your wallet for money that had reached you twice.{rest}",
        link="/wallet",
        cause=source,
        now=now,
    )
    return True
