"""Cancel orders; a paid order is refunded."""

from datetime import datetime
from uuid import UUID

from sqlalchemy.orm import Session

from marketplace.identity.queries import Caller
from marketplace.notifications.operations import notify
from marketplace.orders import operations as orders, states
from marketplace.orders.transitions import Actor, LockedOrder, lock_order
from marketplace.payments.refunds import create
from marketplace.payments.refunds.notifications import sentences_with_amount


def cancel_order(
    session: Session, *, order_id: UUID, caller: Caller, reason: str | None, now: datetime
) -> None:
    """Cancel an unshipped order for its buyer or vendor, refund it fully and restock its items.

    The gateway returns its part of the payment, the wallet gets its own part back. Accepted parts of quarantined
    charges of an unpaid order are returned too.

    :param reason: for the other side
    :raises NotFoundError: it is neither an order of the caller's nor of their store
    :raises IllegalTransitionError: it is shipped, or over
    """
    actor = Actor(orders.fetch_party_role(session, order_id=order_id, caller=caller), caller.id)
    order = lock_order(session, order_id=order_id)
    was_paid = order.status != states.PENDING_PAYMENT
    if was_paid or order.accepted_minor:
        create.lock_charges(session, order=order)
    orders.cancel_order(session, order=order, actor=actor, reason=reason, now=now)
    if was_paid:
        refunds = create.refund_order(
            session,
            order=order,
            amount_minor=order.escrow_balance_minor,
            destination="gateway",
            refund_cause=create.RefundCause(
                f"order:{order.id}:cancel", f"Cancelled by the {actor.role}.", requested_by=caller.id
            ),
            now=now,
        )
        wallet_minor, gateway_minor = (
            sum(refund.amount_minor for refund in refunds if refund.destination == destination)
            for destination in ("wallet", "gateway")
        )
    else:
        create.refund_partial_payment(
            session, order=order, reason=f"Cancelled by the {actor.role} before the rest was paid.", now=now
        )
        wallet_minor, gateway_minor = order.wallet_minor, order.accepted_minor
    refund_text = sentences_with_amount(
        (gateway_minor, "{} go back to where you paid from; we tell you when they are sent."),
        (wallet_minor, "{} are back in your wallet."),
    )
    _notify_parties(session, order, actor, refund_text, was_paid=was_paid, now=now)


def _notify_parties(
    session: Session, order: LockedOrder, actor: Actor, refund_text: str, *, was_paid: bool, now: datetime
) -> None:
    """Notify both sides; a vendor is not notified of orders that were never paid."""
    cancelled = f"Order {order.number} was cancelled by the {actor.role}."
    body_by_user = {order.buyer_id: f"{cancelled}{refund_text}"}
    if was_paid:
        body_by_user[order.vendor_user_id] = f"{cancelled} Its pieces are in stock again."
    for user_id, body in body_by_user.items():
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
