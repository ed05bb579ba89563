"""A checkout: orders of several vendors, and the one payment for what of them is still to be paid."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from sqlalchemy.orm import Session

from marketplace.orders.placing.place_order import OrderRequest, place_checkout
from marketplace.payments.intents.lifecycle import Intent, PaymentTarget, get_or_create_intent


@dataclass(frozen=True)
class CheckoutResult:
    """The orders of a checkout and their payment; none where the wallet paid everything."""

    checkout_id: UUID
    order_ids: tuple[UUID, ...]
    payment: Intent | None


def check_out(session: Session, *, placement: OrderRequest, now: datetime) -> CheckoutResult:
    """Place an order with each vendor of what somebody wants, and make one payment for all.

    :param placement: what is ordered
    :raises ValidationError: something is not to be had, each item named; nothing was placed then
    :raises ConflictError: too little stock, another total, too little in the wallet, or too many unpaid orders
    """
    placed = place_checkout(session, request=placement, now=now)
    payment = None
    if placed.due_minor:
        payment = get_or_create_intent(
            session,
            buyer_id=placement.buyer.id,
            target=PaymentTarget(checkout_id=placed.id),
            callback_url=None,
            now=now,
        )
    return CheckoutResult(placed.id, placed.order_ids, payment)
