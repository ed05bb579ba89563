"""Notifications to buyers about their charges."""

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy.orm import Session

from marketplace.kernel.money import format_naira
from marketplace.notifications.operations import notify
from marketplace.orders.transitions import LockedOrder
from marketplace.payments import texts
from marketplace.payments.charges.charge_context import (
    ChargeContext,
    LockedQuarantinedCharge,
    QuarantineAction,
)


def notify_charge_returned(
    session: Session, context: ChargeContext, *, amount_minor: int, reasons: Sequence[str], now: datetime
) -> None:
    """Notify the buyer that all or part of a charge is refunded because no order needs the money.

    :param amount_minor: the refunded part in kobo
    :param reasons: a sentence for each closed order; repeated sentences are written once
    """
    notify(
        session,
        user_id=context.intent.buyer_id,
        type="payment_returned",
        title=texts.CHARGE_RETURNED_TITLE,
        body=texts.CHARGE_RETURNED_BODY.format(
            amount=format_naira(amount_minor),
            order_numbers=", ".join(order.number for order in context.closed_orders),
            reasons=" ".join(dict.fromkeys(reasons)),
        ),
        link=f"/orders/{context.closed_orders[0].id}" if len(context.closed_orders) == 1 else "/orders",
        cause=f"{context.ledger_source}:returned",
        now=now,
    )


def notify_excess_credited(
    session: Session, context: ChargeContext, excess_minor: int, *, now: datetime
) -> None:
    """Notify the buyer that the excess of a payment is in the wallet."""
    notify(
        session,
        user_id=context.intent.buyer_id,
        type="wallet_credited",
        title=texts.EXCESS_CREDITED_TITLE,
        body=texts.EXCESS_CREDITED_BODY.format(amount=format_naira(excess_minor)),
        link="/wallet",
        cause=f"{context.ledger_source}:excess",
        now=now,
    )


def notify_charge_quarantined(
    session: Session, context: ChargeContext, reason: str, *, now: datetime
) -> None:
    """Notify the buyer that a payment is quarantined, so that the buyer does not pay again."""
    order_numbers = ", ".join(order.number for order in context.orders)
    if reason == "currency":
        summary = texts.CHARGE_QUARANTINED_CURRENCY.format(order_numbers=order_numbers)
    elif reason == "fees_above_amount":
        summary = texts.CHARGE_QUARANTINED_FEES.format(
            amount=format_naira(context.principal_minor), order_numbers=order_numbers
        )
    else:
        summary = texts.CHARGE_QUARANTINED_AMOUNT.format(
            amount=format_naira(max(context.principal_minor, 0)),
            order_numbers=order_numbers,
            due=format_naira(context.due_minor),
        )
    notify(
        session,
        user_id=context.intent.buyer_id,
        type="payment_held",
        title=texts.CHARGE_QUARANTINED_TITLE,
        body=f"{summary} {texts.CHARGE_QUARANTINED_NEXT_STEP}",
        link=f"/orders/{context.orders[0].id}" if len(context.orders) == 1 else "/orders",
        cause=f"{context.ledger_source}:held",
        now=now,
    )


def notify_quarantine_resolved(
    session: Session,
    quarantined: LockedQuarantinedCharge,
    action: QuarantineAction,
    updated_orders: Sequence[LockedOrder],
    *,
    now: datetime,
) -> None:
    """Notify the buyer of an officer's decision on a quarantined charge."""
    notify(
        session,
        user_id=quarantined.intent.buyer_id,
        type="payment_resolved",
        title=texts.CHARGE_RESOLVED_TITLE,
        body=_resolution_message(quarantined, action, updated_orders),
        link=f"/orders/{quarantined.single_order_id}" if quarantined.single_order_id else "/orders",
        cause=quarantined.cause,
        now=now,
    )


def _resolution_message(
    quarantined: LockedQuarantinedCharge, action: QuarantineAction, updated_orders: Sequence[LockedOrder]
) -> str:
    """Describe where the money of a resolved charge is, and the amount that its orders still need."""
    amount = format_naira(quarantined.amount_minor)
    order_numbers = ", ".join(order.number for order in quarantined.payable_orders)
    due_minor = sum(order.payable_minor for order in updated_orders)
    if action == "accept_rest":
        if due_minor:
            return texts.CHARGE_PARTLY_ACCEPTED.format(
                amount=amount, order_numbers=order_numbers, due=format_naira(due_minor)
            )
        excess_minor = sum(quarantined.excess_by_order().values())
        accepted = texts.CHARGE_ACCEPTED.format(
            amount=format_naira(quarantined.amount_minor - excess_minor), order_numbers=order_numbers
        )
        if not excess_minor:
            return accepted
        return f"{accepted} {texts.CHARGE_ACCEPTED_EXCESS.format(amount=format_naira(excess_minor))}"
    if action == "wallet":
        outcome = texts.CHARGE_RESOLVED_TO_WALLET.format(amount=amount)
    elif quarantined.amount_minor:
        outcome = texts.CHARGE_RESOLVED_TO_GATEWAY.format(amount=amount)
    else:
        outcome = texts.CHARGE_RESOLVED_FOREIGN_CURRENCY
    if not due_minor:
        return outcome
    pay_again = texts.CHARGE_RESOLVED_PAY_AGAIN.format(
        due=format_naira(due_minor), order_numbers=order_numbers
    )
    return f"{outcome} {pay_again}"
