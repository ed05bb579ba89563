"""Refunds that the gateway sent with another amount than was asked for: what has left is booked as it is."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy.orm import Session

from marketplace.ledger import accounts
from marketplace.ledger.operations import lock_balances
from marketplace.payments import states
from marketplace.payments.refunds import (
    buyer_debt,
    duplicate_payment,
    gateway_refund,
    notifications,
    wallet_fallback,
)
from marketplace.providers.gateway.payments import GatewayRefund


def correct_amount_mismatch(
    session: Session, refund: dict[str, Any], sent: Sequence[GatewayRefund], *, now: datetime
) -> str:
    """Give the wallet a whole refund, and take what was sent of it back from there.

    So the wallet has what is missing; what is too much comes off it, or is owed. Should a try come back, it is undone
    as one that was paid twice.

    :param refund: its row, locked, and its charge's
    :param sent: the tries that the gateway sent with another amount, none of them booked
    :param now: when
    :return: the refund's status
    """
    buyer_id = refund["buyer_id"]
    lock_balances(session, wanted=[accounts.wallet(buyer_id), accounts.buyer_receivable(buyer_id)])
    status = wallet_fallback.credit_unsent_refund(session, refund, trigger=states.CREDIT, now=now)
    claims = [
        duplicate_payment.debit_buyer_for_attempt(
            session,
            refund,
            told,
            attempt=gateway_refund.resolve_attempt(refund, told),
            description="Refund that was sent with another amount",
            now=now,
        )
        for told in sent
    ]
    owed_minor = sum(claim.owed_minor for claim in claims)
    sent_minor = sum(told.amount_minor for told in sent)
    notifications.notify_refund_amount_mismatch(
        session, refund, sent_minor=sent_minor, owed_minor=owed_minor, now=now
    )
    # What they owed before, or what their bank took, may be set off against what is left.
    buyer_debt.offset_against_wallet(session, buyer_id=buyer_id, now=now)
    return status
