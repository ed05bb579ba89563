"""Tries at a refund that the gateway sent although the buyer had the money: booked, and undone if they come back."""

from datetime import datetime

from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.alerts import kinds
from marketplace.infra.db import Statement
from marketplace.ledger import accounts
from marketplace.ledger.operations import Posting, post_transaction
from marketplace.ledger.queries import is_posted
from marketplace.payments.models import Refund
from marketplace.payments.refunds import alerts, buyer_debt, create, notifications
from marketplace.providers.gateway.payloads import GatewayRefund

_DUPLICATE_RETURNED_KIND = "refund_sent_twice_returned"


def is_duplicate_attempt(session: Session, refund: Refund, *, attempt: int) -> bool:
    """Tell whether an attempt was posted as a duplicate payment, whatever its status is now."""
    return is_posted(session, kind=buyer_debt.DUPLICATE_REFUND_KIND, source=_ledger_source(refund, attempt))


def record_duplicate_refund(
    session: Session, refund: Refund, reported: GatewayRefund, *, attempt: int, now: datetime
) -> None:
    """Book what the gateway paid although the buyer has the money, and ask it back of them.

    It does so once for each try.

    :param refund: locked, and its charge too
    :param reported: the gateway's word that it was sent
    :param attempt: which try it was
    """
    if is_duplicate_attempt(session, refund, attempt=attempt):
        return
    alerts.raise_refund_alert(session, kinds.REFUND_SENT_TWICE, refund, {"sentAtTry": attempt}, now=now)
    debt = debit_buyer_for_attempt(
        session, refund, reported, attempt=attempt, description="Refund that reached its buyer twice", now=now
    )
    source = _ledger_source(refund, attempt)
    notifications.notify_duplicate_refund(
        session, refund, debt, amount_minor=reported.amount_minor, source=source, now=now
    )


def debit_buyer_for_attempt(
    session: Session,
    refund: Refund,
    reported: GatewayRefund,
    *,
    attempt: int,
    description: str,
    now: datetime,
) -> buyer_debt.BuyerDebt:
    """Book what a try paid a buyer who has the money, and take it from their wallet, or claim it.

    :param refund: locked, and its charge too
    :param reported: the gateway's word that it was sent
    :param attempt: which try it was; it is not booked
    :param description: for statements
    """
    refund.paid_twice_minor += reported.amount_minor
    refund.updated_at = now
    create.recalculate_refunded_total(session, charge_id=refund.charge_id)
    return buyer_debt.record_overpayment(
        session,
        buyer_id=refund.buyer_id,
        order_id=refund.order_id,
        amount_minor=reported.amount_minor,
        source=_ledger_source(refund, attempt),
        description=description,
        now=now,
    )


_SELECT_POSTED_AMOUNT = Statement(
    text(
        """
        SELECT e.amount_minor FROM ledger_transactions t JOIN ledger_entries e ON e.transaction_id = t.id
        WHERE t.kind = :kind AND t.source = :source AND e.account_id = :account_id AND e.direction = 'credit'
        """
    )
)


def reverse_duplicate_refund(session: Session, refund: Refund, *, attempt: int, now: datetime) -> None:
    """Give back what was asked back of a buyer, the try that was paid twice having come back.

    It goes to the wallet, whether the wallet gave it or it is owed still: a debt is set off against it.

    :param refund: locked, and its charge too
    :param attempt: which try it was; it is booked as paid twice
    """
    source = _ledger_source(refund, attempt)
    if is_posted(session, kind=_DUPLICATE_RETURNED_KIND, source=source):
        return
    amount_minor: int = _SELECT_POSTED_AMOUNT.scalar(
        session, kind=buyer_debt.DUPLICATE_REFUND_KIND, source=source, account_id=accounts.GATEWAY_CLEARING.id
    )
    alerts.resolve_duplicate_refund_alert(session, refund_id=refund.id, now=now)
    refund.paid_twice_minor -= amount_minor
    refund.updated_at = now
    create.recalculate_refunded_total(session, charge_id=refund.charge_id)
    post_transaction(
        session,
        kind=_DUPLICATE_RETURNED_KIND,
        source=source,
        description="Refund that had reached its buyer twice came back",
        postings=[
            Posting(accounts.GATEWAY_CLEARING, "debit", amount_minor, refund.order_id),
            Posting(accounts.wallet(refund.buyer_id), "credit", amount_minor, refund.order_id),
        ],
        now=now,
    )
    notifications.notify_duplicate_refund_returned(
        session, refund, amount_minor=amount_minor, source=source, now=now
    )


def _ledger_source(refund: Refund, attempt: int) -> str:
    """Name a try at a refund that its buyer had the money of, for the books."""
    return f"refund:{refund.id}:{attempt}"
