"""Tries at a refund that the gateway sent although the buyer had the money: booked, and undone if they come back."""

from datetime import datetime
from typing import Any

from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.infra.db import Statement
from marketplace.ledger import accounts
from marketplace.ledger.operations import Posting, post
from marketplace.payments.refunds import alerts, buyer_debt, create, notifications
from marketplace.providers.gateway.payments import GatewayRefund

_RETURNED = "refund_sent_twice_returned"

_IS_BOOKED = Statement(text("SELECT id FROM ledger_transactions WHERE kind = :kind AND source = :source"))
_BOOKED_MINOR = Statement(
    text(
        """
        SELECT e.amount_minor FROM ledger_transactions t JOIN ledger_entries e ON e.transaction_id = t.id
        WHERE t.kind = :kind AND t.source = :source AND e.account_id = :account_id AND e.direction = 'credit'
        """
    )
)
_NOTE = Statement(
    text(
        """
        UPDATE refunds SET paid_twice_minor = paid_twice_minor + :amount_minor, updated_at = :now
        WHERE id = :refund_id
        """
    )
)


def is_booked(session: Session, refund: dict[str, Any], *, attempt: int) -> bool:
    """Tell whether a try was booked as paid twice, whatever became of it or the refund since."""
    found = _IS_BOOKED.first(session, kind=buyer_debt.PAID_TWICE, source=_source_of(refund, attempt))
    return found is not None


def book(
    session: Session, refund: dict[str, Any], told: GatewayRefund, *, attempt: int, now: datetime
) -> None:
    """Book what the gateway paid although the buyer has the money, and ask it back of them.

    It does so once for each try.

    :param refund: its row, locked, and its charge's
    :param told: the gateway's word that it was sent
    :param attempt: which try it was
    """
    if is_booked(session, refund, attempt=attempt):
        return
    alerts.refund_sent_twice(session, refund, sent_at_try=attempt, now=now)
    claimed = claim(
        session, refund, told, attempt=attempt, description="Refund that reached its buyer twice", now=now
    )
    source = _source_of(refund, attempt)
    notifications.paid_twice(session, refund, claimed, amount_minor=told.amount_minor, source=source, now=now)


def claim(
    session: Session,
    refund: dict[str, Any],
    told: GatewayRefund,
    *,
    attempt: int,
    description: str,
    now: datetime,
) -> buyer_debt.Claim:
    """Book what a try paid a buyer who has the money, and take it from their wallet, or claim it.

    :param refund: its row, locked, and its charge's
    :param told: the gateway's word that it was sent
    :param attempt: which try it was; it is not booked
    :param description: for statements
    """
    _NOTE.run(session, refund_id=refund["id"], amount_minor=told.amount_minor, now=now)
    create.recount(session, charge_id=refund["charge_id"])
    return buyer_debt.claim(
        session,
        buyer_id=refund["buyer_id"],
        order_id=refund["order_id"],
        amount_minor=told.amount_minor,
        source=_source_of(refund, attempt),
        description=description,
        now=now,
    )


def undo(session: Session, refund: dict[str, Any], *, attempt: int, now: datetime) -> None:
    """Give back what was asked back of a buyer, the try that was paid twice having come back.

    It goes to the wallet, whether the wallet gave it or it is owed still: a debt is set off against it.

    :param refund: its row, locked, and its charge's
    :param attempt: which try it was; it is booked as paid twice
    """
    source = _source_of(refund, attempt)
    if _IS_BOOKED.first(session, kind=_RETURNED, source=source) is not None:
        return
    amount_minor = _BOOKED_MINOR.one(
        session, kind=buyer_debt.PAID_TWICE, source=source, account_id=accounts.GATEWAY_CLEARING.id
    )["amount_minor"]
    alerts.refund_twice_came_back(session, refund_id=refund["id"], now=now)
    _NOTE.run(session, refund_id=refund["id"], amount_minor=-amount_minor, now=now)
    create.recount(session, charge_id=refund["charge_id"])
    post(
        session,
        kind=_RETURNED,
        source=source,
        description="Refund that had reached its buyer twice came back",
        postings=[
            Posting(accounts.GATEWAY_CLEARING, "debit", amount_minor, refund["order_id"]),
            Posting(accounts.wallet(refund["buyer_id"]), "credit", amount_minor, refund["order_id"]),
        ],
        now=now,
    )
    notifications.came_back(session, refund, amount_minor=amount_minor, source=source, now=now)


def _source_of(refund: dict[str, Any], attempt: int) -> str:
    """Name a try at a refund that its buyer had the money of, for the books."""
    return f"refund:{refund['id']}:{attempt}"
