"""Cancellation of orders, with the refund of paid orders."""

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from sqlalchemy.orm import Session

from marketplace.identity.queries import Caller
from marketplace.kernel.money import format_naira
from marketplace.notifications.operations import notify
from marketplace.notifications.phrases import Phrase, say
from marketplace.orders import operations as orders, states
from marketplace.orders.queries import ensure_open_to
from marketplace.orders.transitions import SYSTEM, Actor, LockedOrder, lock_order
from marketplace.payments import texts
from marketplace.payments.refunds import create


def cancel_order(
    session: Session, *, order_id: UUID, caller: Caller, reason: str | None, now: datetime
) -> None:
    """Cancel an unshipped order for its buyer or vendor, refund it fully and restock its items.

    Card and bank payments are returned through the gateway, and the wallet's part is credited to the wallet. An unpaid
    order may have accepted parts of quarantined charges, which are returned too. The parties are notified.

    :param reason: shown to the other party
    :raises NotFoundError: the caller is neither the order's buyer nor its vendor
    :raises AccountNotActiveError: the account is not active, and the order is unpaid
    :raises IllegalTransitionError: the order is shipped or closed
    """
    actor = Actor(orders.fetch_party_role(session, order_id=order_id, caller=caller), caller.id)
    order = lock_order(session, order_id=order_id)
    was_paid = order.status != states.PENDING_PAYMENT
    ensure_open_to(caller, is_paid=was_paid)
    _cancel_locked(session, order, actor, reason=reason, now=now)


def cancel_unaccepted_order(session: Session, *, order_id: UUID, reason: str, now: datetime) -> bool:
    """Cancel and refund a paid order that the vendor has not accepted.

    :param reason: shown to both parties
    :return: whether the order still waited for the vendor
    """
    order = lock_order(session, order_id=order_id)
    if order.status != states.PAID_ESCROW:
        return False
    _cancel_locked(session, order, SYSTEM, reason=reason, now=now)
    return True


def _cancel_locked(
    session: Session, order: LockedOrder, actor: Actor, *, reason: str | None, now: datetime
) -> None:
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
                f"order:{order.id}:cancel", f"Cancelled by the {actor.role}.", requested_by=actor.id
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
    refund_sentences = [
        *(
            [say(texts.ORDER_CANCELLED_REFUND, amount=format_naira(gateway_minor))]
            if gateway_minor > 0
            else []
        ),
        *(
            [say(texts.ORDER_CANCELLED_TO_WALLET, amount=format_naira(wallet_minor))]
            if wallet_minor > 0
            else []
        ),
    ]
    _notify_parties(session, order, actor, refund_sentences, was_paid=was_paid, now=now)


def _notify_parties(
    session: Session,
    order: LockedOrder,
    actor: Actor,
    refund_sentences: Sequence[Phrase],
    *,
    was_paid: bool,
    now: datetime,
) -> None:
    """Notify the buyer and, if the order was paid, the vendor."""
    cancelled = say(texts.ORDER_CANCELLED_BY[actor.role], order_number=order.number)
    body_by_user = {order.buyer_id: [cancelled, *refund_sentences]}
    if was_paid:
        body_by_user[order.vendor_user_id] = [cancelled, say(texts.ORDER_CANCELLED_RESTOCKED)]
    for user_id, body in body_by_user.items():
        notify(
            session,
            user_id=user_id,
            type="order_cancelled",
            title=say(texts.ORDER_CANCELLED_TITLE),
            body=body,
            link=f"/orders/{order.id}",
            cause=f"order:{order.id}:cancelled",
            now=now,
        )
