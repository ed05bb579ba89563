"""An order is called off: unpaid it just ends, paid its money goes back."""

from datetime import datetime
from uuid import UUID

from sqlalchemy.orm import Session

from marketplace.identity.queries import Caller
from marketplace.kernel.money import format_naira
from marketplace.notifications.operations import notify
from marketplace.orders import operations as orders
from marketplace.orders import states
from marketplace.orders.notifications import fetch_vendor_user_id
from marketplace.orders.transitions import Actor, LockedOrder, lock_order
from marketplace.payments.refunds import create


def cancel_order(
    session: Session, *, order_id: UUID, caller: Caller, reason: str | None, now: datetime
) -> None:
    """Have a buyer or a vendor call an order off that is not shipped yet.

    What was paid goes back whole: to where it came from what came by the gateway, to the wallet what came from
    there. So does what was accepted for an unpaid one. Its pieces can be had again.

    :param reason: for the other side
    :raises NotFoundError: it is neither an order of the caller's nor of their store
    :raises IllegalTransitionError: it is shipped, or over
    """
    actor = Actor(orders.fetch_party_role(session, order_id=order_id, caller=caller), caller.id)
    order = lock_order(session, order_id=order_id)
    paid = order.status != states.PENDING_PAYMENT
    if paid or order.accepted_minor:
        create.lock_charges(session, order=order)
    orders.cancel_order(session, order=order, actor=actor, reason=reason, now=now)
    if paid:
        create.refund_order(
            session,
            order=order,
            amount_minor=order.held_minor,
            destination="gateway",
            request=create.RefundCause(
                f"order:{order.id}:cancel", f"Cancelled by the {actor.role}.", requested_by=caller.id
            ),
            now=now,
        )
    else:
        create.refund_partial_payment(
            session, order=order, reason=f"Cancelled by the {actor.role} before the rest was paid.", now=now
        )
    _notify_parties(session, order, actor, paid=paid, now=now)


def _notify_parties(session: Session, order: LockedOrder, actor: Actor, *, paid: bool, now: datetime) -> None:
    """Tell both sides; a vendor does not hear of orders that nobody paid."""
    cancelled = f"Order {order.number} was cancelled by the {actor.role}."
    told = {order.buyer_id: f"{cancelled}{_refund_summary(session, order, paid=paid)}"}
    if paid:
        told[fetch_vendor_user_id(session, order=order)] = f"{cancelled} Its pieces are in stock again."
    for user_id, body in told.items():
        notify(
            session,
            user_id=user_id,
            type="order_cancelled",
            title="An order was cancelled",
            body=body,
            link=f"/orders/{order.id}",
            cause=f"order:{order.id}:cancelled",
            now=now,
        )


def _refund_summary(session: Session, order: LockedOrder, *, paid: bool) -> str:
    """Tell the buyer how much goes back whereto: by the gateway, and into the wallet."""
    if not paid:
        wallet, gateway = order.wallet_minor, order.accepted_minor
    else:
        made = create.list_refunds_of_orders(session, order_ids=[order.id])
        of_cancel = [row for row in made if row["cause"].startswith(f"order:{order.id}:cancel")]
        wallet, gateway = (
            sum(row["amountMinor"] for row in of_cancel if row["destination"] == destination)
            for destination in ("wallet", "gateway")
        )
    sent = (
        f" {format_naira(gateway)} go back to where you paid from; we tell you when they are sent."
        if gateway
        else ""
    )
    kept = f" {format_naira(wallet)} are back in your wallet." if wallet else ""
    return sent + kept
