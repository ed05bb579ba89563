"""The one way in for money: a settled charge, however we learnt of it, ends here."""

from collections.abc import Sequence
from datetime import datetime
from enum import Enum
from typing import Any
from uuid import UUID

import structlog
from sqlalchemy import insert, text
from sqlalchemy.orm import Session

from marketplace.infra.db import Json, Statement
from marketplace.infra.prepared import Prepared
from marketplace.kernel.money import CURRENCY, naira_text
from marketplace.ledger import accounts
from marketplace.ledger.operations import Posting, post
from marketplace.notifications.operations import notify
from marketplace.orders import operations as orders
from marketplace.orders import states
from marketplace.orders.transitions import GATEWAY, LockedOrder, lock_orders
from marketplace.payments import states as intent_states
from marketplace.payments.charges import alerts
from marketplace.payments.charges.charge_context import (
    LockedIntent,
    Settled,
    fee_postings,
    insert_charge,
    is_known,
)
from marketplace.payments.models import QuarantinedCharge
from marketplace.payments.refunds import create
from marketplace.providers.gateway.payments import Charge

_log = structlog.get_logger(__name__)

_ORDERS_OF_REFERENCE = Prepared(
    text(
        """
        SELECT i.id AS intent_id, array_agg(a.order_id) AS order_ids
        FROM payment_intents i JOIN payment_allocations a ON a.intent_id = i.id
        WHERE i.reference = :reference GROUP BY i.id
        """
    )
)
_LOCK_INTENT = Prepared(
    text(
        "SELECT id, reference, buyer_id, amount_minor, status FROM payment_intents"
        " WHERE id = :intent_id FOR NO KEY UPDATE"
    )
)
_SUCCEED = Prepared(
    text(
        """
        UPDATE payment_intents SET status = :status, gateway_charge_id = :charge_id, channel = :channel,
            settled_at = :settled_at, updated_at = :now WHERE id = :intent_id
        """
    )
)
_MARK_QUARANTINED = Statement(
    text(
        """
        WITH intent AS (
            UPDATE payment_intents SET status = :status, updated_at = :now WHERE id = :intent_id
        )
        UPDATE orders SET payment_status = :status, payment_reference = :reference, updated_at = :now
        WHERE id = ANY(:order_ids) AND status = 'pending_payment'
        """
    )
)
_QUARANTINE = Statement(
    insert(QuarantinedCharge).returning(QuarantinedCharge.id),
    columns=(
        *("gateway_charge_id", "intent_id", "reason", "amount_minor", "currency", "fees_minor"),
        *("ledger_transaction_id", "details", "created_at"),
    ),
)


_PAID_REASON = "The order was paid already."
_OVER_REASONS = {
    states.CANCELLED: "The order was cancelled before the payment arrived.",
    states.EXPIRED: "The order had expired before the payment arrived.",
}


class UnknownReferenceError(Exception):
    """No payment of ours has the charge's reference, at least not yet: worth another try."""


class Outcome(Enum):
    """What became of a charge."""

    APPLIED = "applied"
    QUARANTINED = "quarantined"
    RETURNED = "returned"
    REPEATED = "repeated"


def apply_charge(session: Session, *, charge: Charge, fee_bearer: str, now: datetime) -> Outcome:
    """Apply a settled charge: orders are paid, or it is held back, or sent back at once.

    Of a checkout's orders all that still wait are paid, and the part of those that were cancelled, or paid
    otherwise, meanwhile goes back; a charge that does not suffice for all that wait pays none of them and is
    quarantined, and so is one whose fees are more than it brought. What is more than was due stays in the buyer's
    wallet. A charge for orders that are paid, cancelled or expired goes back whole.

    It may be called for one charge any number of times, from webhooks, ``verify`` and the sweep at once.
    Rows are locked in the order: orders by id with their escrow, the intent, charges, products, balances.

    :param charge: settled, as the gateway describes it
    :param fee_bearer: ``platform`` or ``customer``: whether the fees are our cost or were paid on top
    :param now: the time of processing
    :return: what became of it
    :raises UnknownReferenceError: no payment of ours has its reference
    """
    found = _ORDERS_OF_REFERENCE.first(session, reference=charge.reference)
    if found is None:
        raise UnknownReferenceError("no payment has this reference")
    locked = lock_orders(session, order_ids=found["order_ids"])
    intent = LockedIntent(**_LOCK_INTENT.one(session, intent_id=found["intent_id"]))
    if is_known(session, charge=charge, intent=intent):
        return Outcome.REPEATED
    # Fees that are more than the charge can't be told by a gateway in order. They are not booked, nor taken off.
    believed = charge.fees_minor <= charge.amount_minor
    settled = Settled(
        charge,
        intent,
        waiting=[order for order in locked if order.status == states.PENDING_PAYMENT],
        over=[order for order in locked if order.status != states.PENDING_PAYMENT],
        principal_minor=charge.amount_minor
        - (charge.fees_minor if fee_bearer == "customer" and believed else 0),
        fee_bearer=fee_bearer,
    )
    if charge.currency != CURRENCY:
        return _quarantine(session, settled, reason="currency", now=now)
    if not believed:
        return _quarantine(session, settled, reason="fees_above_amount", now=now)
    if not settled.waiting:
        return _return(session, settled, now=now)
    if settled.principal_minor < settled.due_minor:
        return _quarantine(session, settled, reason="amount_below_total", now=now)
    return _pay(session, settled, now=now)


def _pay(session: Session, settled: Settled, *, now: datetime) -> Outcome:
    """Take the money through the buyer's own account to escrow; what is above the total stays in the wallet."""
    charge, intent = settled.charge, settled.intent
    for_over = min(
        settled.principal_minor - settled.due_minor, sum(order.due_minor for order in settled.over)
    )
    kept_minor = settled.principal_minor - for_over
    buyer = accounts.wallet(intent.buyer_id)
    postings = [
        Posting(accounts.GATEWAY_CLEARING, "debit", kept_minor),
        Posting(buyer, "credit", kept_minor),
    ]
    for order in settled.waiting:
        if order.due_minor:
            postings.append(Posting(buyer, "debit", order.due_minor, order.id))
            postings.append(Posting(accounts.ESCROW, "credit", order.due_minor, order.id))
        orders.mark_paid(
            session,
            order=order,
            reference=intent.reference,
            channel=charge.channel,
            paid_at=charge.paid_at or now,
            actor=GATEWAY,
            now=now,
        )
    orders.consume_stock(session, paid=settled.waiting)
    _SUCCEED.run(
        session,
        intent_id=intent.id,
        status=intent_states.INTENT.target(intent.status, "settle"),
        charge_id=charge.id,
        channel=charge.channel,
        settled_at=charge.paid_at or now,
        now=now,
    )
    numbers = ", ".join(order.number for order in settled.waiting)
    transaction_id = post(
        session,
        kind="payment",
        source=settled.source,
        description=f"Payment for {numbers}",
        postings=[*postings, *fee_postings(settled)],
        now=now,
    )
    charge_id = insert_charge(session, settled, "applied", transaction_id, now=now)
    if for_over:
        _send_back(session, settled, charge_id, amount_minor=for_over, now=now)
    excess = kept_minor - settled.due_minor
    if excess:
        _tell_of_excess(session, settled, excess, now=now)
    return Outcome.APPLIED


def _return(session: Session, settled: Settled, *, now: datetime) -> Outcome:
    """Send a charge back that comes late, or once more: there is nothing for it to pay."""
    transaction_id = None
    fees = fee_postings(settled)
    if fees:
        transaction_id = post(
            session,
            kind="gateway_fees",
            source=settled.source,
            description="Fees of a charge that goes back",
            postings=fees,
            now=now,
        )
    charge_id = insert_charge(session, settled, "returned", transaction_id, now=now)
    if settled.principal_minor > 0:
        _send_back(session, settled, charge_id, amount_minor=settled.principal_minor, now=now)
    _log.warning("charge returned", reference=settled.intent.reference)
    return Outcome.RETURNED


def _send_back(
    session: Session, settled: Settled, charge_id: UUID, *, amount_minor: int, now: datetime
) -> None:
    """Send a part of a charge, or all of it, back: for each order that it is no use to what it was to pay."""
    left = amount_minor
    for number, order in enumerate(settled.over):
        last = number == len(settled.over) - 1
        part = left if last else min(left, order.due_minor)
        left -= part
        if part:
            reason = _OVER_REASONS.get(order.status, _PAID_REASON)
            create.return_charge(
                session,
                charge_id=charge_id,
                buyer_id=settled.intent.buyer_id,
                amount_minor=part,
                order_id=order.id,
                request=create.Request(settled.source, reason).part(number),
                description=f"Payment for {order.number} sent back",
                source=accounts.GATEWAY_CLEARING,
                now=now,
            )
    numbers = ", ".join(order.number for order in settled.over)
    reasons = " ".join(dict.fromkeys(_OVER_REASONS.get(order.status, _PAID_REASON) for order in settled.over))
    notify(
        session,
        user_id=settled.intent.buyer_id,
        type="payment_returned",
        title="A payment goes back to you",
        body=f"{naira_text(amount_minor)} that you paid for {numbers} go back to where you paid from. {reasons}",
        link=f"/orders/{settled.over[0].id}" if len(settled.over) == 1 else "/orders",
        cause=f"{settled.source}:returned",
        now=now,
    )


def _tell_of_excess(session: Session, settled: Settled, excess_minor: int, *, now: datetime) -> None:
    notify(
        session,
        user_id=settled.intent.buyer_id,
        type="wallet_credited",
        title="You paid more than was due",
        body=f"{naira_text(excess_minor)} of your payment are in your wallet: use them for your next order.",
        link="/wallet",
        cause=f"{settled.source}:excess",
        now=now,
    )


def _quarantine(session: Session, settled: Settled, *, reason: str, now: datetime) -> Outcome:
    """Book a charge that can't be applied to the quarantine account and show it to finance."""
    charge, intent = settled.charge, settled.intent
    transaction_id = None
    # The books are in naira: money of another currency has a row here, and no entry until it is exchanged.
    if charge.currency == CURRENCY and settled.principal_minor > 0:
        transaction_id = post(
            session,
            kind="quarantine",
            source=settled.source,
            description=f"Charge held back: {reason}",
            postings=[
                Posting(accounts.GATEWAY_CLEARING, "debit", settled.principal_minor),
                Posting(accounts.QUARANTINE, "credit", settled.principal_minor),
                *([] if reason == "fees_above_amount" else fee_postings(settled)),
            ],
            now=now,
        )
    insert_charge(session, settled, "quarantined", transaction_id, now=now)
    locked = [*settled.waiting, *settled.over]
    held = _QUARANTINE.one(
        session,
        gateway_charge_id=charge.id,
        intent_id=intent.id,
        reason=reason,
        amount_minor=charge.amount_minor,
        currency=charge.currency,
        fees_minor=charge.fees_minor,
        ledger_transaction_id=transaction_id,
        details=Json(_details(intent, locked)),
        created_at=now,
    )
    # A payment that succeeded stays so, whatever else comes for it.
    if intent.status != intent_states.SUCCEEDED:
        _MARK_QUARANTINED.run(
            session,
            intent_id=intent.id,
            status=intent_states.INTENT.target(intent.status, "quarantine"),
            reference=intent.reference,
            order_ids=[order.id for order in settled.waiting],
            now=now,
        )
    _tell_of_holding(session, settled, reason, now=now)
    alerts.charge_quarantined(session, settled, held_id=held["id"], reason=reason, now=now)
    return Outcome.QUARANTINED


def _tell_of_holding(session: Session, settled: Settled, reason: str, *, now: datetime) -> None:
    """Tell the buyer what came, what is due, and that an officer decides: they need not pay once more for now."""
    locked = [*settled.waiting, *settled.over]
    numbers = ", ".join(order.number for order in locked)
    if reason == "currency":
        what = f"A payment for {numbers} came in another currency than naira, and is held back."
    elif reason == "fees_above_amount":
        what = f"{naira_text(settled.principal_minor)} came for {numbers}, with figures that can not be right: your"
        what += " payment is held back."
    else:
        what = (
            f"{naira_text(max(settled.principal_minor, 0))} came for {numbers}, and {naira_text(settled.due_minor)} are"
            " due: your payment is held back."
        )
    notify(
        session,
        user_id=settled.intent.buyer_id,
        type="payment_held",
        title="Your payment is held back",
        body=f"{what} Our finance officers look into it, and you hear from us: you pay what is missing then, or get"
        " your money back. Please do not pay again before that.",
        link=f"/orders/{locked[0].id}" if len(locked) == 1 else "/orders",
        cause=f"{settled.source}:held",
        now=now,
    )


def _details(intent: LockedIntent, locked: Sequence[LockedOrder]) -> dict[str, Any]:
    return {
        "reference": intent.reference,
        "expectedMinor": intent.amount_minor,
        "orders": [{"id": str(order.id), "number": order.number, "status": order.status} for order in locked],
    }
