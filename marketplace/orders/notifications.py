"""What the parties of an order are told of its life, in plain words; the PIN stands on the order alone."""

from datetime import datetime

from sqlalchemy.orm import Session

from marketplace.kernel.money import format_naira
from marketplace.notifications.operations import NewNotification, notify, notify_all
from marketplace.orders.transitions import LockedOrder


def notify_order_paid(session: Session, *, order: LockedOrder, now: datetime) -> None:
    """Tell the vendor to prepare an order that was just paid, and its buyer that it is.

    It belongs to the transaction that pays it, whichever way the money came.
    """
    link, cause = f"/orders/{order.id}", f"order:{order.id}:paid"
    notify_all(
        session,
        notifications=[
            NewNotification(
                order.vendor_user_id,
                "order_received",
                "You have a new order",
                f"Order {order.number} is paid: accept it, and prepare it. Its money is kept until its buyer has the"
                " goods.",
                link,
                cause,
            ),
            NewNotification(
                order.buyer_id,
                "order_paid",
                "Your order is paid",
                f"Order {order.number} is paid, and the vendor was told to prepare it. Your delivery PIN is shown on"
                " the order: give it to the vendor when you have the goods, not before.",
                link,
                cause,
            ),
        ],
        now=now,
    )


def notify_order_expired(session: Session, *, order: LockedOrder, now: datetime) -> None:
    """Tell a buyer that an order was not paid in time; its vendor never heard of it."""
    back = (
        f" The {format_naira(order.wallet_minor)} that your wallet had paid are back in it."
        if order.wallet_minor
        else ""
    )
    if order.accepted_minor:
        back += (
            f" The {format_naira(order.accepted_minor)} that were accepted go back to where you paid from."
        )
    notify(
        session,
        user_id=order.buyer_id,
        type="order_expired",
        title="An order was not paid in time",
        body=f"Order {order.number} was not paid in time, and is over.{back} If you still want it, order it again.",
        link=f"/orders/{order.id}",
        cause=f"order:{order.id}:expired",
        now=now,
    )
