"""What of a wallet can be paid out: refunds and what was paid too much, but no rewards.

Rewards pay for orders first, whatever else is in the wallet. What comes back of an order that they paid for is reward
money again, up to what they paid of it: otherwise an order that is placed and cancelled would turn them into cash.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.infra.db import Statement
from marketplace.ledger import accounts

_WALLET_PAYMENT = "wallet_payment"


@dataclass(frozen=True)
class WalletMovement:
    """A wallet's movement of one transaction and order, in kobo. ``rewards`` means that rewards paid the movement."""

    kind: str
    order_id: UUID | None
    rewards: bool
    minor: int


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
    ),
    row=WalletMovement,
)


def fetch_remaining_rewards(session: Session, *, user_id: UUID, balance_minor: int) -> int:
    """Compute the part of a wallet that came from rewards, in kobo.

    :param balance_minor: the wallet's balance; the caller locks its row where the result decides something
    """
    movements = _SELECT_WALLET_MOVEMENTS.all(
        session, wallet_id=accounts.wallet(user_id).id, rewards_id=accounts.REWARDS.id
    )
    return min(remaining_rewards(movements), balance_minor)


def remaining_rewards(movements: Iterable[WalletMovement]) -> int:
    """Compute the rest of a wallet's rewards from its movements, the earliest first, in kobo."""
    remaining = 0
    paid_by_rewards: defaultdict[UUID | None, int] = defaultdict(int)
    for movement in movements:
        order_id, minor = movement.order_id, movement.minor
        if movement.rewards:
            # A revoked reward takes at most the rest.
            remaining = max(remaining + minor, 0)
        elif minor < 0 and movement.kind == _WALLET_PAYMENT:
            spent = min(remaining, -minor)
            remaining -= spent
            paid_by_rewards[order_id] += spent
        elif minor > 0 and order_id is not None:
            returned = min(paid_by_rewards[order_id], minor)
            remaining += returned
            paid_by_rewards[order_id] -= returned
    return remaining
