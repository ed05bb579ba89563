"""Queries of chargebacks."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.infra.sql.statements import Statement
from marketplace.ledger import accounts
from marketplace.payments.guards import CHARGEBACK_MATCHES_CHARGE


@dataclass(frozen=True)
class OrderChargeback:
    """A chargeback of a charge that paid an order.

    :ivar amount_minor: disputed kobo; none for the full charge
    :ivar due_at: the bank's deadline for our evidence
    """

    id: UUID
    gateway_dispute_id: str
    status: str
    resolution: str | None
    category: str | None
    amount_minor: int | None
    due_at: datetime | None
    opened_at: datetime
    resolved_at: datetime | None


_SELECT_CHARGEBACKS = Statement(
    text(
        f"""
        SELECT DISTINCT d.id, d.gateway_dispute_id, d.status, d.resolution, d.category, d.amount_minor, d.due_at,
            d.opened_at, d.resolved_at
        FROM ledger_entries e JOIN gateway_charges c ON c.ledger_transaction_id = e.transaction_id
            JOIN charge_disputes d ON {CHARGEBACK_MATCHES_CHARGE}
        WHERE e.order_id = :order_id AND e.account_id = :escrow_id AND e.direction = 'credit'
            AND c.outcome = 'applied'
        ORDER BY d.id
        """
    ),
    row=OrderChargeback,
)


def list_chargebacks_of_order(session: Session, *, order_id: UUID) -> list[OrderChargeback]:
    """List the chargebacks of the charges that paid an order, from the first."""
    return _SELECT_CHARGEBACKS.all(session, order_id=order_id, escrow_id=accounts.ESCROW.id)
