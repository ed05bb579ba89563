"""Operations on placed orders: cancel, freeze, refund, expire, accept, ship, pay and release."""

from collections.abc import Sequence
from datetime import datetime
from typing import ClassVar
from uuid import UUID

from sqlalchemy import text, update
from sqlalchemy.orm import Session

from marketplace.catalog import stock
from marketplace.identity.queries import Caller
from marketplace.infra import outbox
from marketplace.infra.sql.statements import Statement
from marketplace.kernel import queues
from marketplace.kernel.errors import MarketplaceError, NotFoundError, RateLimitError, found
from marketplace.ledger import accounts
from marketplace.ledger.operations import Posting, post_transaction
from marketplace.orders import inventory, notifications, states, texts
from marketplace.orders.deadlines import MAX_PIN_ATTEMPTS, PIN_LOCKOUT
from marketplace.orders.models import Order, OrderEvent
from marketplace.orders.pin import pin_matches
from marketplace.orders.pricing import split_escrow
from marketplace.orders.queries import ensure_open_to
from marketplace.orders.transitions import (
    Actor,
    EscrowTransition,
    LockedOrder,
    apply_transition,
    fetch_remaining_units,
    lock_order,
    lock_order_of_vendor,
)

DISPUTED_ORDER_REFUNDED_TOPIC = "order.disputed-refunded"


class WrongPinError(MarketplaceError):
    """The PIN is wrong. The count of attempts is stored although the request is refused."""

    code = "DELIVERY_PIN_INVALID"
    reason = "wrong-pin"
    keeps_changes: ClassVar[bool] = True


class PinLockedError(RateLimitError):
    """Too many wrong PINs were submitted: verification of the order is locked for 15 minutes."""

    reason = "pin-locked"


def cancel_order(
    session: Session, *, order: LockedOrder, actor: Actor, reason: str | None, now: datetime
) -> None:
    """Cancel a locked, unshipped order and restock its items.

    For an unpaid order, this returns the wallet's part at once. For a paid order, this empties the escrow record. The
    payments area calls this, and returns all other money in the same transaction.

    :param actor: the order's buyer or vendor
    :param reason: for the order's events
    :raises IllegalTransitionError: the order is shipped or has a final status
    """
    paid = order.status != states.PENDING_PAYMENT
    apply_transition(
        session,
        order=order,
        trigger=states.CANCEL,
        actor=actor,
        now=now,
        note=reason,
        escrow=EscrowTransition("refund", refunded_minor=order.escrow_balance_minor) if paid else None,
        columns={"cancelled_at": now, "cancelled_by": actor.role, "cancellation_reason": reason}
        | ({} if paid else _abandoned_payment_columns(order)),
    )
    if paid:
        inventory.mark_all_units_refunded(session, order=order, restock=True, now=now)
    else:
        inventory.release_reservation(session, order=order, now=now)
        _return_wallet_part(session, order, now=now)


def freeze_order(
    session: Session, *, order: LockedOrder, trigger: str, actor: Actor, note: str, now: datetime
) -> None:
    """Freeze a locked order and the escrow until staff rule on the dispute.

    :param trigger: a trigger of the order's state machine that leads to ``disputed``
    :param note: the reason, for the order's events
    :raises IllegalTransitionError: the order is not paid, or the escrow is released or refunded
    """
    apply_transition(
        session,
        order=order,
        trigger=trigger,
        actor=actor,
        now=now,
        note=note,
        escrow=EscrowTransition("freeze"),
        columns={"disputed_at": now},
    )


def resume_order(session: Session, *, order: LockedOrder, status: str, actor: Actor, now: datetime) -> None:
    """Continue a locked order after the withdrawal of its dispute, and hold the escrow again.

    :param status: the status before the dispute
    :raises IllegalTransitionError: the order is not disputed
    """
    apply_transition(
        session,
        order=order,
        trigger=states.RESUME[status],
        actor=actor,
        now=now,
        escrow=EscrowTransition("unfreeze"),
    )


def release_by_ruling(
    session: Session, *, order: LockedOrder, actor: Actor, note: str, now: datetime
) -> None:
    """Release the escrow balance of a locked, disputed order to the vendor.

    :param note: the rationale, for the order's events
    :raises IllegalTransitionError: the order is not disputed
    """
    _release_escrow(session, order, trigger=states.RULE_FOR_VENDOR, actor=actor, now=now, note=note)


def refund_fully(session: Session, *, order: LockedOrder, actor: Actor, reason: str, now: datetime) -> None:
    """Refund the whole escrow of a locked order and end the order.

    The payments area calls this and sends the money in the same transaction. Unshipped units return to stock. Shipped
    units do not: the vendor raises the listing's quantity if the goods come back and can be sold again.

    :param reason: for the order's events
    :raises IllegalTransitionError: the order is not paid or has a final status
    """
    apply_transition(
        session,
        order=order,
        trigger=states.REFUND,
        actor=actor,
        now=now,
        note=reason,
        escrow=EscrowTransition("refund", refunded_minor=order.escrow_balance_minor),
        columns={"refunded_at": now},
    )
    inventory.mark_all_units_refunded(session, order=order, restock=order.shipped_at is None, now=now)
    if order.status == states.DISPUTED:
        # The disputes area resolves the dispute, unless a ruling was the cause.
        outbox.enqueue(
            session,
            queue=queues.WEBHOOKS,
            topic=DISPUTED_ORDER_REFUNDED_TOPIC,
            payload={"orderId": str(order.id)},
            due_at=now,
        )


def expire_order(session: Session, *, order: LockedOrder, actor: Actor, now: datetime) -> None:
    """Expire a locked, unpaid order, release its stock and notify the buyer.

    The payments area calls this, and returns the accepted part of quarantined charges in the same transaction.

    :raises IllegalTransitionError: the order does not wait for payment
    """
    apply_transition(
        session,
        order=order,
        trigger=states.EXPIRE,
        actor=actor,
        now=now,
        columns={"expired_at": now} | _abandoned_payment_columns(order),
    )
    inventory.release_reservation(session, order=order, now=now)
    _return_wallet_part(session, order, now=now)
    notifications.notify_order_expired(session, order=order, now=now)


def accept_order(session: Session, *, order_id: UUID, caller: Caller, now: datetime) -> None:
    """Accept a paid order for the vendor.

    :raises NotFoundError: the caller's store has no such paid order
    :raises IllegalTransitionError: the order is already accepted or has a final status
    """
    apply_transition(
        session,
        order=lock_order_of_vendor(session, order_id=order_id, user_id=caller.id),
        trigger=states.ACCEPT,
        actor=Actor("vendor", caller.id),
        now=now,
        columns={"accepted_at": now},
    )


def ship_order(
    session: Session, *, order_id: UUID, caller: Caller, tracking_note: str | None, now: datetime
) -> None:
    """Mark an accepted order as shipped, for the vendor.

    :param tracking_note: shown to the buyer
    :raises NotFoundError: the caller's store has no such paid order
    :raises IllegalTransitionError: the order is not in processing
    """
    apply_transition(
        session,
        order=lock_order_of_vendor(session, order_id=order_id, user_id=caller.id),
        trigger=states.SHIP,
        actor=Actor("vendor", caller.id),
        now=now,
        note=tracking_note,
        columns={"shipped_at": now, "tracking_note": tracking_note},
    )


def mark_paid(
    session: Session,
    *,
    order: LockedOrder,
    reference: str,
    channel: str,
    paid_at: datetime,
    actor: Actor,
    now: datetime,
) -> None:
    """Mark a locked order as paid, hold the escrow, and notify the vendor and the buyer.

    The payments area calls this and posts the ledger transaction in the same database transaction. After all orders of
    the payment, the caller calls ``consume_stock``.

    :param reference: the payment's reference
    :param channel: the payment method, such as ``card``, ``bank_transfer`` or ``ussd``
    :param paid_at: the time of the payment at the gateway
    :raises IllegalTransitionError: the order does not wait for payment
    """
    apply_transition(
        session,
        order=order,
        trigger=states.PAY,
        actor=actor,
        now=now,
        escrow=EscrowTransition("hold"),
        columns={
            "paid_at": paid_at,
            "payment_reference": reference,
            "payment_status": "succeeded",
            "payment_channel": channel,
        },
    )
    notifications.notify_order_paid(session, order=order, now=now)


def consume_stock(session: Session, *, paid_orders: Sequence[LockedOrder]) -> None:
    """Consume the reserved stock of all orders that a payment just paid.

    Pass all orders together: products are locked in the order of their ids, so two payments cannot deadlock.
    """
    remaining_units = fetch_remaining_units(session, order_ids=[order.id for order in paid_orders])
    stock.consume_stock(session, quantities=remaining_units.by_product)


def release_on_pin(
    session: Session, *, order_id: UUID, caller: Caller, pin: str, pin_key: str, now: datetime
) -> None:
    """Release an order's escrow to the vendor after checking the buyer's delivery PIN.

    :param caller: the vendor
    :param pin: six digits
    :param pin_key: the key that PINs are derived from
    :raises NotFoundError: the caller's store has no such paid order
    :raises IllegalTransitionError: the order is not shipped
    :raises PinLockedError: verification is locked after five wrong PINs
    :raises WrongPinError: the PIN is wrong; the error has the number of attempts left
    """
    order = lock_order_of_vendor(session, order_id=order_id, user_id=caller.id)
    states.ORDER.target(order.status, states.VERIFY_CODE)
    actor = Actor("vendor", caller.id)
    _verify_pin(session, order, pin=pin, pin_key=pin_key, actor=actor, now=now)
    _release_escrow(session, order, trigger=states.VERIFY_CODE, actor=actor, now=now)


def _verify_pin(
    session: Session, order: LockedOrder, *, pin: str, pin_key: str, actor: Actor, now: datetime
) -> None:
    if order.pin_locked_until is not None and order.pin_locked_until > now:
        raise PinLockedError(
            texts.PIN_LOCKED,
            retry_after_seconds=int((order.pin_locked_until - now).total_seconds()) + 1,
        )
    if pin_matches(key=pin_key, order_id=order.id, counter=order.pin_counter, pin=pin):
        return
    failures = order.pin_failures + 1
    locks = failures >= MAX_PIN_ATTEMPTS
    session.execute(
        update(Order)
        .where(Order.id == order.id)
        .values(pin_failures=0 if locks else failures, pin_locked_until=now + PIN_LOCKOUT if locks else None)
    )
    # Wrong PINs are evidence in a dispute.
    session.add(
        OrderEvent(
            order_id=order.id,
            from_status=order.status,
            to_status=order.status,
            trigger=states.WRONG_PIN,
            actor=actor.role,
            actor_id=actor.id,
            at=now,
        )
    )
    raise WrongPinError(texts.WRONG_PIN, extensions={"attemptsLeft": MAX_PIN_ATTEMPTS - failures})


def confirm_receipt(session: Session, *, order_id: UUID, caller: Caller, now: datetime) -> None:
    """Release an order's escrow to the vendor after the buyer confirms receipt.

    :param caller: the buyer
    :raises NotFoundError: the caller has no such order
    :raises AccountNotActiveError: the account is not active, and the order is unpaid
    :raises IllegalTransitionError: the order is not shipped
    """
    if fetch_party_role(session, order_id=order_id, caller=caller) != "buyer":
        raise NotFoundError("Order not found.")
    order = lock_order(session, order_id=order_id)
    ensure_open_to(caller, is_paid=order.status != states.PENDING_PAYMENT)
    _release_escrow(session, order, trigger=states.CONFIRM, actor=Actor("buyer", caller.id), now=now)


def _release_escrow(
    session: Session,
    order: LockedOrder,
    *,
    trigger: str,
    actor: Actor,
    now: datetime,
    note: str | None = None,
) -> None:
    """Release the escrow balance of a locked order to the vendor, less the platform's share.

    After a partial refund, vendor and platform each bear a proportional share of the refund.
    """
    held = order.escrow_balance_minor
    whole = "release" if order.escrow_status == "held" else "release-frozen"
    apply_transition(
        session,
        order=order,
        trigger=trigger,
        actor=actor,
        now=now,
        note=note,
        escrow=EscrowTransition(whole if held == order.total_minor else "release-rest", released_minor=held),
        columns={"delivered_at": now, "pin_failures": 0, "pin_locked_until": None},
    )
    share = split_escrow(order.price, commission_minor=order.commission_minor).scaled_to(held)
    shares = (
        (accounts.vendor_payable(order.vendor_id), share.vendor_minor),
        (accounts.PLATFORM_REVENUE, share.platform_minor),
    )
    post_transaction(
        session,
        kind="release",
        source=f"order:{order.id}",
        description=f"Escrow of order {order.number} released",
        postings=[
            Posting(accounts.ESCROW, "debit", held, order.id),
            *(Posting(account, "credit", minor, order.id) for account, minor in shares if minor),
        ],
        now=now,
    )


# The vendor may cancel an unpaid order too, although unpaid orders are not listed to vendors.
_SELECT_PARTY_ROLE = Statement(
    text(
        """
        SELECT CASE CAST(:user_id AS uuid) WHEN o.buyer_id THEN 'buyer' WHEN v.user_id THEN 'vendor' END AS role
        FROM orders o JOIN vendor_profiles v ON v.id = o.vendor_id WHERE o.id = :order_id
        """
    )
)


def fetch_party_role(session: Session, *, order_id: UUID, caller: Caller) -> str:
    """Return the caller's role in an order: ``buyer`` or ``vendor``.

    :raises NotFoundError: the caller is neither, or the order does not exist
    """
    role: str | None = _SELECT_PARTY_ROLE.scalar(session, order_id=order_id, user_id=caller.id)
    return found(role, "Order not found.")


def _abandoned_payment_columns(order: LockedOrder) -> dict[str, str]:
    """Return the payment columns of an order that ends unpaid.

    A quarantined payment stays quarantined until finance decides.
    """
    return {"payment_status": "abandoned"} if order.payment_status in ("initialized", "pending") else {}


def _return_wallet_part(session: Session, order: LockedOrder, *, now: datetime) -> None:
    if order.wallet_minor:
        post_transaction(
            session,
            kind="wallet_return",
            source=f"order:{order.id}",
            description=f"Wallet part of order {order.number} returned",
            postings=[
                Posting(accounts.ESCROW, "debit", order.wallet_minor, order.id),
                Posting(accounts.wallet(order.buyer_id), "credit", order.wallet_minor, order.id),
            ],
            now=now,
        )
