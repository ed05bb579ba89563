"""Refunds that the gateway has not sent: they go to the wallet instead, or wait while a bank disputes their charge.

A buyer's bank that gives a payment back gives back what we were about to: sent as well, it would reach the buyer
twice. So such refunds wait. When the dispute is won they are sent; when it is lost they go to the wallet, out of which
what the bank gave is taken.
"""

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from sqlalchemy import select
from sqlalchemy.orm import Session

from marketplace.ledger import accounts
from marketplace.ledger.operations import Posting, lock_balances, post_transaction
from marketplace.payments import states
from marketplace.payments.models import Refund
from marketplace.payments.refunds import alerts, buyer_debt, create, notifications


def lock_unsent_refunds(session: Session, *, charge_ids: Sequence[UUID]) -> Sequence[Refund]:
    """Lock the refunds of charges that were certainly not sent: never requested, or reported as failed.

    :param charge_ids: of charges that are locked in this transaction
    """
    never_requested = (Refund.status == states.PENDING) & Refund.asked_at.is_(None)
    return session.scalars(
        select(Refund)
        .where(Refund.charge_id.in_(charge_ids), (Refund.status == states.FAILED) | never_requested)
        .order_by(Refund.id)
        .with_for_update(key_share=True)
        .execution_options(populate_existing=True)
    ).all()


def credit_unsent_refund(session: Session, refund: Refund, *, trigger: str, now: datetime) -> None:
    """Credit an unsent refund to the wallet; its charge can be refunded by that much again.

    :param refund: locked, and its charge too
    :param trigger: of the table of refunds
    :raises IllegalTransitionError: the refund was sent, or may be
    """
    refund.status = states.REFUND.target(refund.status, trigger)
    refund.settled_at = refund.updated_at = now
    create.recalculate_refunded_total(session, charge_id=refund.charge_id)
    post_transaction(
        session,
        kind="refund_credit",
        source=f"refund:{refund.id}",
        description="Refund that was not sent credited to the wallet",
        postings=[
            Posting(accounts.REFUNDS_IN_TRANSIT, "debit", refund.amount_minor, refund.order_id),
            Posting(accounts.wallet(refund.buyer_id), "credit", refund.amount_minor, refund.order_id),
        ],
        now=now,
    )
    alerts.resolve_refund_alerts(session, refund_id=refund.id, status=refund.status, now=now)


def credit_and_offset_debt(session: Session, refund: Refund, *, trigger: str, now: datetime) -> None:
    """Credit an unsent refund of a charged-back payment to the wallet, and offset the buyer's debt for it.

    :param refund: locked, and its charge too
    :param trigger: of the table of refunds
    """
    buyer_id = refund.buyer_id
    lock_balances(session, accounts=[accounts.wallet(buyer_id), accounts.buyer_receivable(buyer_id)])
    credit_unsent_refund(session, refund, trigger=trigger, now=now)
    notifications.notify_credited_after_chargeback(session, refund, now=now)
    buyer_debt.offset_against_wallet(session, buyer_id=buyer_id, now=now)


def enqueue_waiting_refunds(session: Session, *, charge_ids: Sequence[UUID], now: datetime) -> None:
    """Enqueue the waiting refunds of charges after their dispute ended.

    :param charge_ids: of charges that are locked in this transaction
    """
    pending = select(Refund.id).where(Refund.charge_id.in_(charge_ids), Refund.status == states.PENDING)
    for refund_id in session.scalars(pending.order_by(Refund.id)):
        create.enqueue_sending(session, refund_id=refund_id, now=now)
