"""Refunds that the gateway has not sent: they go to the wallet instead, or wait while a bank disputes their charge.

A buyer's bank that gives a payment back gives back what we were about to: sent as well, it would reach the buyer
twice. So such refunds wait. When the dispute is won they are sent; when it is lost they go to the wallet, out of which
what the bank gave is taken.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.infra.db import Statement
from marketplace.ledger import accounts
from marketplace.ledger.operations import Posting, lock_balances, post_transaction
from marketplace.payments import states
from marketplace.payments.refunds import alerts, buyer_debt, create, notifications

# The gateway was not asked for these, or has said that it did not send them.
_LOCK_UNSENT_REFUNDS = Statement(
    text(
        """
        SELECT id, order_id, charge_id, buyer_id, amount_minor, status, cause FROM refunds
        WHERE charge_id = ANY(:charge_ids) AND (status = 'failed' OR (status = 'pending' AND asked_at IS NULL))
        ORDER BY id FOR NO KEY UPDATE
        """
    )
)
_SELECT_PENDING_REFUNDS = Statement(
    text("SELECT id FROM refunds WHERE charge_id = ANY(:charge_ids) AND status = 'pending' ORDER BY id")
)
_MARK_CREDITED = Statement(
    text("UPDATE refunds SET status = :status, settled_at = :now, updated_at = :now WHERE id = :refund_id")
)


def lock_unsent_refunds(session: Session, *, charge_ids: Sequence[UUID]) -> list[dict[str, Any]]:
    """Lock the refunds of charges that were certainly not sent, and give their rows.

    :param charge_ids: of charges that are locked in this transaction
    """
    return _LOCK_UNSENT_REFUNDS.all(session, charge_ids=list(charge_ids))


def credit_unsent_refund(session: Session, refund: dict[str, Any], *, trigger: str, now: datetime) -> str:
    """Give the wallet what the gateway has not sent; the charge has so much more to give.

    :param refund: its row, locked, and its charge's
    :param trigger: of the table of refunds: why
    :param now: when
    :return: the refund's status
    :raises IllegalTransitionError: it was sent, or may be
    """
    status = states.REFUND.target(refund["status"], trigger)
    amount_minor, order_id = refund["amount_minor"], refund["order_id"]
    _MARK_CREDITED.run(session, refund_id=refund["id"], status=status, now=now)
    create.recalculate_refunded_total(session, charge_id=refund["charge_id"])
    post_transaction(
        session,
        kind="refund_credit",
        source=f"refund:{refund['id']}",
        description="Refund that was not sent credited to the wallet",
        postings=[
            Posting(accounts.REFUNDS_IN_TRANSIT, "debit", amount_minor, order_id),
            Posting(accounts.wallet(refund["buyer_id"]), "credit", amount_minor, order_id),
        ],
        now=now,
    )
    alerts.resolve_refund_alerts(session, refund_id=refund["id"], status=status, now=now)
    return status


def credit_and_offset_debt(session: Session, refund: dict[str, Any], *, trigger: str, now: datetime) -> str:
    """Give the wallet what was not sent of a charge that a bank took, and take what is owed for it.

    :param refund: its row, locked, and its charge's
    :param trigger: why
    :param now: when
    :return: the refund's status
    """
    buyer_id = refund["buyer_id"]
    lock_balances(session, accounts=[accounts.wallet(buyer_id), accounts.buyer_receivable(buyer_id)])
    status = credit_unsent_refund(session, refund, trigger=trigger, now=now)
    notifications.notify_credited_after_chargeback(session, refund, now=now)
    buyer_debt.offset_against_wallet(session, buyer_id=buyer_id, now=now)
    return status


def enqueue_waiting_refunds(session: Session, *, charge_ids: Sequence[UUID], now: datetime) -> None:
    """Have a worker see to the refunds of charges that wait, a dispute of them being over.

    :param charge_ids: of charges that are locked in this transaction
    """
    for row in _SELECT_PENDING_REFUNDS.all(session, charge_ids=list(charge_ids)):
        create.enqueue_sending(session, refund_id=row["id"], now=now)
