"""What of a wallet can be paid out: refunds and what was paid too much, but no rewards.

Rewards pay for orders first, whatever else is in the wallet. What comes back of an order that they paid for is reward
money again, up to what they paid of it: otherwise an order that is placed and cancelled would turn them into cash.
"""

from collections import defaultdict
from collections.abc import Iterable
from typing import Any
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.infra.db import Statement
from marketplace.ledger import accounts

_WALLET_PAYMENT = "wallet_payment"

# By transaction and order; most wallets never had a reward, and of those nothing is read.
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
    )
)


def fetch_remaining_rewards(session: Session, *, user_id: UUID, balance_minor: int) -> int:
    """Tell how much of a wallet came from rewards, in kobo.

    :param user_id: whose wallet
    :param balance_minor: what is in it; its row is locked where something hangs on the answer
    """
    movements = _SELECT_WALLET_MOVEMENTS.all(
        session, wallet_id=accounts.wallet(user_id).id, rewards_id=accounts.REWARDS.id
    )
    return min(remaining_rewards(movements), balance_minor)


def remaining_rewards(movements: Iterable[dict[str, Any]]) -> int:
    """Run through what moved in a wallet, and tell what is left of its rewards, in kobo.

    :param movements: by transaction and order, the earliest first: the kind, the order, whether rewards paid it, and
        what came in (or, negative, went out)
    """
    remaining = 0
    paid_by_rewards: defaultdict[UUID | None, int] = defaultdict(int)
    for movement in movements:
        order_id, minor = movement["order_id"], movement["minor"]
        if movement["rewards"]:
            # One that is taken back takes what is left of it.
            remaining = max(remaining + minor, 0)
        elif minor < 0 and movement["kind"] == _WALLET_PAYMENT:
            spent = min(remaining, -minor)
            remaining -= spent
            paid_by_rewards[order_id] += spent
        elif minor > 0 and order_id is not None:
            returned = min(paid_by_rewards[order_id], minor)
            remaining += returned
            paid_by_rewards[order_id] -= returned
    return remaining
