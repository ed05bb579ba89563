"""Notifications about orders for buyers and vendors. A notification never contains the delivery PIN."""

from datetime import datetime

from sqlalchemy.orm import Session

from marketplace.kernel.money import format_naira
from marketplace.notifications.operations import NewNotification, notify, notify_all
from marketplace.notifications.phrases import say
from marketplace.orders import texts
from marketplace.orders.transitions import LockedOrder


def notify_order_paid(session: Session, *, order: LockedOrder, now: datetime) -> None:
    """Notify the vendor and the buyer of an order that was just paid.

    Call this in the transaction that records the payment.
    """
    link, cause = f"/orders/{order.id}", f"order:{order.id}:paid"
    notify_all(
        session,
        notifications=[
            NewNotification(
                order.vendor_user_id,
                "order_received",
                say(texts.ORDER_RECEIVED_TITLE),
                say(texts.ORDER_RECEIVED_BODY, order_number=order.number),
                link,
                cause,
            ),
            NewNotification(
                order.buyer_id,
                "order_paid",
                say(texts.ORDER_PAID_TITLE),
                say(texts.ORDER_PAID_BODY, order_number=order.number),
                link,
                cause,
                subject_id=order.id,
            ),
        ],
        now=now,
    )


def notify_order_expired(session: Session, *, order: LockedOrder, now: datetime) -> None:
    """Notify the buyer of an expired order. The vendor never saw the unpaid order."""
    sentences = [say(texts.ORDER_EXPIRED_BODY, order_number=order.number)]
    if order.wallet_minor:
        sentences.append(say(texts.ORDER_EXPIRED_WALLET_RETURNED, amount=format_naira(order.wallet_minor)))
    if order.accepted_minor:
        sentences.append(say(texts.ORDER_EXPIRED_PAYMENT_RETURNED, amount=format_naira(order.accepted_minor)))
    sentences.append(say(texts.ORDER_EXPIRED_NEXT_STEP))
    notify(
        session,
        user_id=order.buyer_id,
        type="order_expired",
        title=say(texts.ORDER_EXPIRED_TITLE),
        body=sentences,
        link=f"/orders/{order.id}",
        cause=f"order:{order.id}:expired",
        now=now,
    )
