"""Notifications to buyers about their charges."""

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy.orm import Session

from marketplace.kernel.money import format_naira
from marketplace.notifications.operations import notify
from marketplace.orders.transitions import LockedOrder
from marketplace.payments.charges.charge_context import (
    ChargeContext,
    LockedQuarantinedCharge,
    QuarantineAction,
)


def notify_charge_returned(
    session: Session, context: ChargeContext, *, amount_minor: int, reasons: Sequence[str], now: datetime
) -> None:
    """Notify the buyer that a charge, or a part of it, is refunded because no order takes it.

    :param amount_minor: the refunded part in kobo
    :param reasons: a sentence for each closed order; repeated ones are written once
    """
    notify(
        session,
        user_id=context.intent.buyer_id,
        type="payment_returned",
        title="A payment goes back to you",
        body=f"{format_naira(amount_minor)} that you paid for"
        f" {', '.join(order.number for order in context.closed_orders)} go back to where you paid from."
        f" {' '.join(dict.fromkeys(reasons))}",
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
        title="You paid more than was due",
        body=f"{format_naira(excess_minor)} of your payment are in your wallet: use them for your next order.",
        link="/wallet",
        cause=f"{context.ledger_source}:excess",
        now=now,
    )


def notify_charge_quarantined(
    session: Session, context: ChargeContext, reason: str, *, now: datetime
) -> None:
    """Notify the buyer that a payment is quarantined, so that the buyer does not pay again."""
    numbers = ", ".join(order.number for order in context.orders)
    if reason == "currency":
        summary = f"A payment for {numbers} came in another currency than naira, and is held back."
    elif reason == "fees_above_amount":
        summary = (
            f"{format_naira(context.principal_minor)} came for {numbers}, with figures that can not be right:"
            " your payment is held back."
        )
    else:
        summary = (
            f"{format_naira(max(context.principal_minor, 0))} came for {numbers}, and"
            f" {format_naira(context.due_minor)} are due: your payment is held back."
        )
    notify(
        session,
        user_id=context.intent.buyer_id,
        type="payment_held",
        title="Your payment is held back",
        body=f"{summary} Our finance officers look into it, and you hear from us: you pay what is missing then, or get"
        " your money back. Please do not pay again before that.",
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
        title="We looked into your payment",
        body=_resolution_message(quarantined, action, updated_orders),
        link=f"/orders/{quarantined.single_order_id}" if quarantined.single_order_id else "/orders",
        cause=quarantined.cause,
        now=now,
    )


def _resolution_message(
    quarantined: LockedQuarantinedCharge, action: QuarantineAction, updated_orders: Sequence[LockedOrder]
) -> str:
    """Tell where the money is, all of it, and what is left to pay, of the orders that wait for it."""
    amount = format_naira(quarantined.amount_minor)
    order_numbers = ", ".join(order.number for order in quarantined.payable_orders)
    due_minor = sum(order.payable_minor for order in updated_orders)
    if action == "accept_rest":
        excess_minor = sum(quarantined.excess_by_order().values())
        kept = format_naira(quarantined.amount_minor - excess_minor)
        if due_minor:
            return (
                f"{amount} were accepted for {order_numbers}, and {format_naira(due_minor)} are left to pay. Open the"
                " order within a day, and pay: the payment page asks for exactly the rest."
            )
        paid = f"{kept} were accepted: {order_numbers} {'are' if len(quarantined.payable_orders) > 1 else 'is'} paid."
        return (
            f"{paid} {format_naira(excess_minor)} were more than was due, and are in your wallet."
            if excess_minor
            else paid
        )
    if action == "wallet":
        where = f"{amount} are in your wallet."
    elif quarantined.amount_minor:
        where = f"{amount} go back to where you paid from."
    else:
        where = "Your payment in another currency goes back to where you paid from."
    again = (
        f" {format_naira(due_minor)} are due for {order_numbers}: open the order, and pay it anew."
        if due_minor
        else ""
    )
    return where + again
