"""Application of settled charges: the single entry point for all reports of a payment."""

from datetime import datetime
from enum import Enum
from uuid import UUID

import structlog
from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.alerts.operations import raise_alert
from marketplace.infra.sql.statements import Prepared, Statement
from marketplace.kernel.money import CURRENCY
from marketplace.ledger import accounts
from marketplace.ledger.operations import Posting, post_transaction
from marketplace.orders import operations as orders, states
from marketplace.orders.transitions import GATEWAY, LockedOrder, lock_orders
from marketplace.payments import states as intent_states, texts
from marketplace.payments.charges import notifications
from marketplace.payments.charges.charge_context import (
    ChargeContext,
    fee_postings,
    insert_applied_charge,
    insert_charge,
    lock_intent_for_charge,
)
from marketplace.payments.models import QuarantinedCharge
from marketplace.payments.refunds import create
from marketplace.providers.gateway.payloads import Charge

_log = structlog.get_logger(__name__)

_RETURN_REASON_BY_ORDER_STATUS = {
    states.CANCELLED: texts.ORDER_CANCELLED_BEFORE_CHARGE,
    states.EXPIRED: texts.ORDER_EXPIRED_BEFORE_CHARGE,
}


class UnknownReferenceError(Exception):
    """The payment or charge of a report is not recorded yet; a later retry may succeed."""


class ChargeOutcome(Enum):
    """The outcome of a reported charge. ``DUPLICATE`` means that the charge was already recorded."""

    APPLIED = "applied"
    QUARANTINED = "quarantined"
    RETURNED = "returned"
    DUPLICATE = "repeated"


def apply_charge(session: Session, *, charge: Charge, fee_bearer: str, now: datetime) -> ChargeOutcome:
    """Apply a settled charge: pay its orders, quarantine the charge or return the money.

    - A sufficient charge pays all orders of the checkout that await payment. Parts for orders that are already paid,
      cancelled or expired are returned. An excess stays in the buyer's wallet.
    - A charge below the due amount, in another currency or with implausible fees is quarantined.
    - A charge without any order awaiting payment is returned in full.

    A repeated call for the same charge has no effect, even concurrently from webhooks, ``verify`` and the sweep.
    Rows are locked in this sequence: orders by id with their escrow, the intent, charges, products, balances.

    :param charge: a settled charge
    :param fee_bearer: ``platform`` if the platform bears the gateway's fees, ``customer`` if the buyer paid them on top
    :raises UnknownReferenceError: no payment has the charge's reference
    """
    intent_id, locked_orders = lock_orders_of_reference(session, charge.reference)
    intent = lock_intent_for_charge(session, intent_id=intent_id, charge=charge)
    if intent is None:
        return ChargeOutcome.DUPLICATE
    # A correct gateway never reports fees larger than the charge. Such fees are neither posted nor deducted.
    fees_are_plausible = charge.fees_minor <= charge.amount_minor
    context = ChargeContext(
        charge,
        intent,
        payable_orders=[order for order in locked_orders if order.status == states.PENDING_PAYMENT],
        closed_orders=[order for order in locked_orders if order.status != states.PENDING_PAYMENT],
        principal_minor=charge.amount_minor
        - (charge.fees_minor if fee_bearer == "customer" and fees_are_plausible else 0),
        fee_bearer=fee_bearer,
    )
    if charge.currency != CURRENCY:
        return _quarantine_charge(session, context, reason="currency", now=now)
    if not fees_are_plausible:
        return _quarantine_charge(session, context, reason="fees_above_amount", now=now)
    if not context.payable_orders:
        return _return_full_charge(session, context, now=now)
    if context.principal_minor < context.due_minor:
        return _quarantine_charge(session, context, reason="amount_below_total", now=now)
    return _apply_to_orders(session, context, now=now)


_SELECT_INTENT_WITH_ORDERS = Prepared(
    text(
        """
        SELECT i.id AS intent_id,
            ARRAY(SELECT a.order_id FROM payment_allocations a WHERE a.intent_id = i.id) AS order_ids
        FROM payment_intents i WHERE i.reference = :reference
        """
    )
)


def lock_orders_of_reference(session: Session, reference: str) -> tuple[UUID, list[LockedOrder]]:
    """Lock the orders of a payment.

    :return: the id of the intent and the locked orders
    :raises UnknownReferenceError: no payment has the reference
    """
    row = _SELECT_INTENT_WITH_ORDERS.first(session, reference=reference)
    if row is None:
        raise UnknownReferenceError("no payment has this reference")
    return row["intent_id"], lock_orders(session, order_ids=row["order_ids"])


def _apply_to_orders(session: Session, context: ChargeContext, *, now: datetime) -> ChargeOutcome:
    """Pay the orders from the charge through the buyer's wallet account, where an excess stays."""
    charge, intent = context.charge, context.intent
    returned_minor = min(
        context.principal_minor - context.due_minor, sum(order.due_minor for order in context.closed_orders)
    )
    kept_minor = context.principal_minor - returned_minor
    buyer_wallet = accounts.wallet(intent.buyer_id)
    postings = [
        Posting(accounts.GATEWAY_CLEARING, "debit", kept_minor),
        Posting(buyer_wallet, "credit", kept_minor),
    ]
    for order in context.payable_orders:
        if order.due_minor:
            postings += [
                Posting(buyer_wallet, "debit", order.due_minor, order.id),
                Posting(accounts.ESCROW, "credit", order.due_minor, order.id),
            ]
        orders.mark_paid(
            session,
            order=order,
            reference=intent.reference,
            channel=charge.channel,
            paid_at=charge.paid_at or now,
            actor=GATEWAY,
            now=now,
        )
    orders.consume_stock(session, paid_orders=context.payable_orders)
    transaction_id = post_transaction(
        session,
        kind="payment",
        source=context.ledger_source,
        description=f"Payment for {', '.join(order.number for order in context.payable_orders)}",
        postings=[*postings, *fee_postings(context)],
        now=now,
    )
    charge_id = insert_applied_charge(session, context, transaction_id, now=now)
    if returned_minor:
        _return_amount(session, context, charge_id, amount_minor=returned_minor, now=now)
    excess_minor = kept_minor - context.due_minor
    if excess_minor:
        notifications.notify_excess_credited(session, context, excess_minor, now=now)
    return ChargeOutcome.APPLIED


def _return_full_charge(session: Session, context: ChargeContext, *, now: datetime) -> ChargeOutcome:
    """Return the full principal of a charge for which no order awaits payment."""
    transaction_id = None
    fees = fee_postings(context)
    if fees:
        transaction_id = post_transaction(
            session,
            kind="gateway_fees",
            source=context.ledger_source,
            description="Fees of a returned charge",
            postings=fees,
            now=now,
        )
    charge_id = insert_charge(session, context, "returned", transaction_id, now=now)
    if context.principal_minor > 0:
        _return_amount(session, context, charge_id, amount_minor=context.principal_minor, now=now)
    _log.warning("charge returned", reference=context.intent.reference)
    return ChargeOutcome.RETURNED


def _return_amount(
    session: Session, context: ChargeContext, charge_id: UUID, *, amount_minor: int, now: datetime
) -> None:
    """Return money of a charge, with a separate refund for each order that does not need the money."""
    left_minor = amount_minor
    reasons = [
        _RETURN_REASON_BY_ORDER_STATUS.get(order.status, texts.ORDER_ALREADY_PAID)
        for order in context.closed_orders
    ]
    for number, (order, reason) in enumerate(zip(context.closed_orders, reasons, strict=True)):
        part_minor = min(left_minor, order.due_minor) if number < len(reasons) - 1 else left_minor
        left_minor -= part_minor
        if part_minor:
            create.create_refund(
                session,
                charge_id=charge_id,
                buyer_id=context.intent.buyer_id,
                order_id=order.id,
                refund_cause=create.RefundCause(context.ledger_source, reason).numbered(number),
                sources=[(accounts.GATEWAY_CLEARING, part_minor)],
                description=f"Returned payment for {order.number}",
                now=now,
            )
    notifications.notify_charge_returned(
        session, context, amount_minor=amount_minor, reasons=reasons, now=now
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


def _quarantine_charge(
    session: Session, context: ChargeContext, *, reason: str, now: datetime
) -> ChargeOutcome:
    """Quarantine a charge that cannot be applied, until an officer resolves the charge."""
    charge, intent = context.charge, context.intent
    transaction_id = None
    # The ledger is in naira, so a charge in another currency has no ledger transaction.
    if charge.currency == CURRENCY and context.principal_minor > 0:
        transaction_id = post_transaction(
            session,
            kind="quarantine",
            source=context.ledger_source,
            description=f"Quarantined charge ({reason})",
            postings=[
                Posting(accounts.GATEWAY_CLEARING, "debit", context.principal_minor),
                Posting(accounts.QUARANTINE, "credit", context.principal_minor),
                *([] if reason == "fees_above_amount" else fee_postings(context)),
            ],
            now=now,
        )
    insert_charge(session, context, "quarantined", transaction_id, now=now)
    quarantined = QuarantinedCharge(
        gateway_charge_id=charge.id,
        intent_id=intent.id,
        reason=reason,
        amount_minor=charge.amount_minor,
        currency=charge.currency,
        fees_minor=charge.fees_minor,
        ledger_transaction_id=transaction_id,
        details={
            "reference": intent.reference,
            "expectedMinor": intent.amount_minor,
            "orders": [
                {"id": str(order.id), "number": order.number, "status": order.status}
                for order in context.orders
            ],
        },
        created_at=now,
    )
    session.add(quarantined)
    session.flush()
    # Another charge does not change the status of a succeeded payment.
    if intent.status != intent_states.SUCCEEDED:
        _MARK_QUARANTINED.run(
            session,
            intent_id=intent.id,
            status=intent_states.INTENT.target(intent.status, "quarantine"),
            reference=intent.reference,
            order_ids=[order.id for order in context.payable_orders],
            now=now,
        )
    notifications.notify_charge_quarantined(session, context, reason, now=now)
    raise_alert(
        session,
        identifier="CHARGE_QUARANTINED",
        subject=f"quarantine:{quarantined.id}",
        title=texts.ALERT_CHARGE_QUARANTINED,
        facts={
            "quarantineId": quarantined.id,
            "reason": reason,
            "reference": intent.reference,
            "amountMinor": charge.amount_minor,
            "dueMinor": context.due_minor,
            "currency": charge.currency,
            "orderIds": [order.id for order in context.orders],
        },
        now=now,
    )
    return ChargeOutcome.QUARANTINED
