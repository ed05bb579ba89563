"""Blockers of a deletion or an erasure: open orders and disputes, escrow, and money of the person."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.infra.sql.statements import Statement
from marketplace.kernel.money import format_naira
from marketplace.privacy import texts

OPEN_ORDERS, OPEN_DISPUTES, ESCROW = "open_orders", "open_disputes", "escrow"
PAYMENTS, REFUNDS, PAYOUTS = "payments_in_progress", "refunds_in_progress", "payouts_in_progress"
WALLET_MONEY, PAYABLE_MONEY = "wallet_money", "payable_money"
STAFF_ROLE, GRACE_PERIOD = "staff_role", "grace_period"
BLOCKERS = (
    *(OPEN_ORDERS, OPEN_DISPUTES, ESCROW, PAYMENTS, REFUNDS, PAYOUTS, WALLET_MONEY, PAYABLE_MONEY),
    *(STAFF_ROLE, GRACE_PERIOD),
)
# A request for deletion waits only for these. The person can take the money out afterwards.
BLOCKERS_OF_REQUESTS = frozenset({OPEN_ORDERS, OPEN_DISPUTES, STAFF_ROLE})
_MONEY = frozenset({ESCROW, WALLET_MONEY, PAYABLE_MONEY})
_DETAILS: Mapping[str, str] = {
    OPEN_ORDERS: texts.BLOCKER_OPEN_ORDERS,
    OPEN_DISPUTES: texts.BLOCKER_OPEN_DISPUTES,
    ESCROW: texts.BLOCKER_ESCROW,
    PAYMENTS: texts.BLOCKER_PAYMENTS,
    REFUNDS: texts.BLOCKER_REFUNDS,
    PAYOUTS: texts.BLOCKER_PAYOUTS,
    WALLET_MONEY: texts.BLOCKER_WALLET_MONEY,
    PAYABLE_MONEY: texts.BLOCKER_PAYABLE_MONEY,
    STAFF_ROLE: texts.BLOCKER_STAFF_ROLE,
    GRACE_PERIOD: texts.BLOCKER_GRACE_PERIOD,
}


@dataclass(frozen=True)
class Blocker:
    """A reason that blocks a deletion or an erasure.

    :ivar count: the number of orders, disputes or other rows
    :ivar amount_minor: the amount of money in kobo; none for other blockers
    """

    kind: str
    count: int
    amount_minor: int | None = None

    @property
    def detail(self) -> str:
        """The reason and the next step."""
        return _DETAILS[self.kind].format(count=self.count, amount=format_naira(self.amount_minor or 0))


@dataclass(frozen=True)
class _Finding:
    kind: str
    count: int
    amount_minor: int


# Each part counts the rows of the person as a buyer or as a vendor.
_FIND_BLOCKERS = Statement(
    text(
        """
        WITH own_stores AS (SELECT id FROM vendor_profiles WHERE user_id = :user_id),
        own_orders AS (
            SELECT id, status FROM orders WHERE buyer_id = :user_id
            UNION SELECT id, status FROM orders WHERE vendor_id IN (SELECT id FROM own_stores)),
        found (kind, count, amount_minor) AS (
            SELECT 'open_orders', count(*), 0 FROM own_orders
            WHERE status IN ('pending_payment', 'paid_escrow', 'processing', 'shipped', 'disputed')
            UNION ALL SELECT 'open_disputes', count(DISTINCT d.id), 0 FROM disputes d
                LEFT JOIN dispute_appeals a ON a.dispute_id = d.id AND a.status = 'pending'
                LEFT JOIN dispute_returns r ON r.dispute_id = d.id AND r.status IN ('requested', 'sent')
            WHERE (d.buyer_id = :user_id OR d.vendor_user_id = :user_id)
                AND (d.resolved_at IS NULL OR a.dispute_id IS NOT NULL OR r.dispute_id IS NOT NULL)
            UNION ALL SELECT 'escrow', count(*), coalesce(sum(amount_minor - released_minor - refunded_minor), 0)
            FROM escrows
            WHERE order_id IN (SELECT id FROM own_orders) AND status IN ('held', 'frozen')
            UNION ALL SELECT 'payments_in_progress', count(*), 0 FROM (
                SELECT q.id FROM quarantined_charges q JOIN payment_intents i ON i.id = q.intent_id
                WHERE i.buyer_id = :user_id AND q.status = 'open'
                UNION ALL SELECT c.id FROM charge_disputes c JOIN payment_intents i ON i.id = c.intent_id
                WHERE i.buyer_id = :user_id AND c.status = 'open'
                UNION ALL SELECT w.id FROM webhook_inbox w
                    JOIN payment_intents i ON i.reference = w.reference AND i.buyer_id = :user_id
                WHERE w.status IN ('received', 'retrying', 'dead')
                UNION ALL SELECT id FROM payment_intents
                WHERE buyer_id = :user_id AND status IN ('initialized', 'pending')) unclear
            UNION ALL SELECT 'refunds_in_progress', count(*), 0 FROM refunds
            WHERE buyer_id = :user_id AND status IN ('pending', 'submitted', 'failed', 'needs_attention')
            UNION ALL SELECT 'payouts_in_progress', count(*), 0 FROM payout_transfer_intents
            WHERE user_id = :user_id AND status IN ('pending', 'submitted', 'unknown')
            UNION ALL SELECT 'wallet_money', 1, balance_minor FROM ledger_accounts
            WHERE kind = 'wallet' AND owner_id = :user_id AND balance_minor > 0
            UNION ALL SELECT 'payable_money', 1, balance_minor FROM ledger_accounts
            WHERE kind = 'vendor_payable' AND owner_id IN (SELECT id FROM own_stores) AND balance_minor > 0
            UNION ALL SELECT 'staff_role', count(*), 0 FROM profiles WHERE id = :user_id AND role = 'staff'
            UNION ALL SELECT 'grace_period', count(*), 0 FROM deletion_requests
            WHERE user_id = :user_id AND status = 'pending' AND grace_ends_at > :now)
        SELECT kind, sum(count)::bigint AS count, sum(amount_minor)::bigint AS amount_minor
        FROM found WHERE count > 0 GROUP BY kind
        """
    ),
    row=_Finding,
)


def find_blockers(session: Session, *, user_id: UUID, now: datetime) -> list[Blocker]:
    """Find all reasons that block an erasure of a person, in the order of ``BLOCKERS``.

    :param now: the grace period of a request ends at its time
    """
    found = {row.kind: row for row in _FIND_BLOCKERS.all(session, user_id=user_id, now=now)}
    return [
        Blocker(kind, found[kind].count, found[kind].amount_minor if kind in _MONEY else None)
        for kind in BLOCKERS
        if kind in found
    ]
