"""Refunds that the gateway sent with another amount than was asked for: what has left is booked as it is."""

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy.orm import Session

from marketplace.ledger import accounts
from marketplace.ledger.operations import lock_balances
from marketplace.payments import states
from marketplace.payments.models import Refund
from marketplace.payments.refunds import (
    buyer_debt,
    duplicate_payment,
    gateway_refund,
    notifications,
    wallet_fallback,
)
from marketplace.providers.gateway.payloads import GatewayRefund


def correct_amount_mismatch(
    session: Session, refund: Refund, attempts: Sequence[GatewayRefund], *, now: datetime
) -> None:
    """Give the wallet a whole refund, and take what was sent of it back from there.

    So the wallet has what is missing; what is too much comes off it, or is owed. Should a try come back, it is undone
    as one that was paid twice.

    :param refund: locked, and its charge too
    :param attempts: the tries that the gateway sent with another amount, none of them booked
    """
    buyer_id = refund.buyer_id
    lock_balances(session, accounts=[accounts.wallet(buyer_id), accounts.buyer_receivable(buyer_id)])
    wallet_fallback.credit_unsent_refund(session, refund, trigger=states.CREDIT, now=now)
    debts = [
        duplicate_payment.debit_buyer_for_attempt(
            session,
            refund,
            reported,
            attempt=gateway_refund.resolve_attempt(refund, reported),
            description="Refund that was sent with another amount",
            now=now,
        )
        for reported in attempts
    ]
    outstanding_minor = sum(debt.outstanding_minor for debt in debts)
    sent_minor = sum(reported.amount_minor for reported in attempts)
    notifications.notify_refund_amount_mismatch(
        session, refund, sent_minor=sent_minor, outstanding_minor=outstanding_minor, now=now
    )
    # What they owed before, or what their bank took, may be set off against what is left.
    buyer_debt.offset_against_wallet(session, buyer_id=buyer_id, now=now)
