"""What happens to an order once it is placed."""

from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from typing import ClassVar
from uuid import UUID

from sqlalchemy import text, update
from sqlalchemy.orm import Session

from marketplace.catalog import stock
from marketplace.identity.queries import Caller
from marketplace.infra.db import Statement
from marketplace.kernel.errors import MarketplaceError, NotFoundError, RateLimitError, found
from marketplace.ledger import accounts
from marketplace.ledger.operations import Posting, post_transaction
from marketplace.orders import inventory, notifications, states
from marketplace.orders.deadlines import MAX_PIN_ATTEMPTS, PIN_LOCKOUT
from marketplace.orders.models import Order
from marketplace.orders.pin import pin_matches
from marketplace.orders.pricing import split_escrow
from marketplace.orders.transitions import (
    Actor,
    EscrowTransition,
    LockedOrder,
    apply_transition,
    fetch_remaining_units,
    lock_order,
    lock_order_of_vendor,
)


class WrongPinError(MarketplaceError):
    """The PIN is not this order's. The count of attempts is kept although the request is refused."""

    code = "DELIVERY_PIN_INVALID"
    reason = "wrong-pin"
    keeps_changes: ClassVar[bool] = True


class PinLockedError(RateLimitError):
    """Too many wrong PINs: the order's verification is locked for a while."""

    reason = "pin-locked"


def cancel_order(
    session: Session, *, order: LockedOrder, actor: Actor, reason: str | None, now: datetime
) -> None:
    """Cancel a locked order that is not shipped, and give its pieces back.

    What its buyer's wallet paid of an unpaid one goes back at once; what was accepted of held charges for it is the
    payments area's to send, which calls this in the same transaction. Of a paid one the escrow's record is emptied
    here; the money itself is the payments area's too.

    :param actor: its buyer or its vendor
    :param reason: for the trail
    :raises IllegalTransitionError: it is shipped, or over
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
        inventory.mark_all_units_refunded(session, order=order, restock=True)
    else:
        inventory.release_reservation(session, order=order)
        _return_wallet_part(session, order, now=now)


def freeze_order(
    session: Session, *, order: LockedOrder, trigger: str, actor: Actor, note: str, now: datetime
) -> None:
    """Freeze a locked order and its escrow until it is ruled on.

    :param trigger: of the order's table, one that leads to ``disputed``
    :param actor: whose doing it is
    :param note: why, for the trail
    :raises IllegalTransitionError: it is not paid, or its escrow is released or refunded
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


def refund_fully(session: Session, *, order: LockedOrder, actor: Actor, reason: str, now: datetime) -> None:
    """End a locked order whose escrow goes back to its buyer whole.

    The money itself is the payments area's to send, which calls this in the same transaction. Pieces that were not
    shipped can be had again. What was shipped is out of the vendor's hands: whether it comes back, and can be sold
    again, the vendor alone can tell, and raises the listing's quantity then.

    :param actor: who refunds
    :param reason: for the trail
    :raises IllegalTransitionError: it is not paid, or over
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
    inventory.mark_all_units_refunded(session, order=order, restock=order.shipped_at is None)


def expire_order(session: Session, *, order: LockedOrder, actor: Actor, now: datetime) -> None:
    """Expire a locked order that nobody paid, free its stock, and tell its buyer.

    What was accepted of held charges for it is the payments area's to send back, which calls this in the same
    transaction.

    :raises IllegalTransitionError: it is not waiting for payment
    """
    apply_transition(
        session,
        order=order,
        trigger=states.EXPIRE,
        actor=actor,
        now=now,
        columns={"expired_at": now} | _abandoned_payment_columns(order),
    )
    inventory.release_reservation(session, order=order)
    _return_wallet_part(session, order, now=now)
    notifications.notify_order_expired(session, order=order, now=now)


_RECORD_RESPONSE_TIME = Statement(
    text(
        """
        UPDATE vendor_profiles v SET response_count = v.response_count + 1,
            response_seconds_sum = v.response_seconds_sum
                + greatest(extract(epoch FROM :now - o.paid_at), 0)::bigint
        FROM orders o WHERE o.id = :order_id AND v.id = o.vendor_id
        """
    )
)


def accept_order(session: Session, *, order_id: UUID, caller: Caller, now: datetime) -> None:
    """Have the vendor accept a paid order.

    :raises NotFoundError: it is no paid order of the caller's store
    :raises IllegalTransitionError: it was accepted already, or is over
    """
    apply_transition(
        session,
        order=lock_order_of_vendor(session, order_id=order_id, user_id=caller.id),
        trigger=states.ACCEPT,
        actor=Actor("vendor", caller.id),
        now=now,
        columns={"accepted_at": now},
    )
    _RECORD_RESPONSE_TIME.run(session, order_id=order_id, now=now)


def ship_order(
    session: Session, *, order_id: UUID, caller: Caller, tracking_note: str | None, now: datetime
) -> None:
    """Have the vendor hand an accepted order over for delivery.

    :param tracking_note: shown to the buyer
    :raises NotFoundError: it is no paid order of the caller's store
    :raises IllegalTransitionError: it is not in processing
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
    """Move a locked order to paid, hold its escrow, and tell its vendor and its buyer.

    The ledger's transaction is the payments area's, which calls this in the same database transaction, and
    ``consume_stock`` when it is through with all orders of the payment.

    :param reference: the payment's
    :param channel: how it was paid: card, bank_transfer, ussd, ...
    :param paid_at: when, as the gateway says
    :raises IllegalTransitionError: it is not waiting for payment
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
    """Take the stock of orders that were just paid out for good, all of it at once.

    Products are locked by id over all the orders together, so that two payments can't deadlock.
    """
    quantities: Counter[UUID] = Counter()
    for order in paid_orders:
        quantities.update(fetch_remaining_units(session, order_id=order.id).by_product)
    stock.consume_stock(session, quantities=quantities)


def release_on_pin(
    session: Session, *, order_id: UUID, caller: Caller, pin: str, pin_key: str, now: datetime
) -> None:
    """Release an order's escrow to its vendor, who submitted the buyer's PIN.

    :param caller: the vendor
    :param pin: six digits
    :param pin_key: the key that PINs are derived with
    :raises NotFoundError: it is no paid order of the caller's store
    :raises IllegalTransitionError: it is not shipped
    :raises PinLockedError: five wrong PINs came within the lock's time
    :raises WrongPinError: the PIN is another; the error tells how many tries are left
    """
    order = lock_order_of_vendor(session, order_id=order_id, user_id=caller.id)
    states.ORDER.target(order.status, states.VERIFY_CODE)
    _verify_pin(session, order, pin=pin, pin_key=pin_key, now=now)
    _release_escrow(session, order, trigger=states.VERIFY_CODE, actor=Actor("vendor", caller.id), now=now)


def _verify_pin(session: Session, order: LockedOrder, *, pin: str, pin_key: str, now: datetime) -> None:
    if order.pin_locked_until is not None and order.pin_locked_until > now:
        raise PinLockedError(
            "Too many wrong PINs: verification of this order is locked for a while.",
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
    raise WrongPinError(
        "The PIN is not this order's.", extensions={"attemptsLeft": MAX_PIN_ATTEMPTS - failures}
    )


def confirm_receipt(session: Session, *, order_id: UUID, caller: Caller, now: datetime) -> None:
    """Release an order's escrow to its vendor, the buyer having confirmed the receipt.

    :param caller: the buyer
    :raises NotFoundError: it is no order of the caller's
    :raises IllegalTransitionError: it is not shipped
    """
    if fetch_party_role(session, order_id=order_id, caller=caller) != "buyer":
        raise NotFoundError("There is no such order.")
    order = lock_order(session, order_id=order_id)
    _release_escrow(session, order, trigger=states.CONFIRM, actor=Actor("buyer", caller.id), now=now)


def _release_escrow(
    session: Session, order: LockedOrder, *, trigger: str, actor: Actor, now: datetime
) -> None:
    """Release what escrow holds of a locked order: to the vendor less commission, the rest is ours.

    Of an order that was refunded in part, each side bears its share of that.
    """
    held = order.escrow_balance_minor
    apply_transition(
        session,
        order=order,
        trigger=trigger,
        actor=actor,
        now=now,
        escrow=EscrowTransition(
            "release" if held == order.total_minor else "release-rest", released_minor=held
        ),
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


# A vendor may cancel an order before it is paid too, although it is not listed to the vendor.
_SELECT_PARTY_ROLE = Statement(
    text(
        """
        SELECT CASE CAST(:user_id AS uuid) WHEN o.buyer_id THEN 'buyer' WHEN v.user_id THEN 'vendor' END AS role
        FROM orders o JOIN vendor_profiles v ON v.id = o.vendor_id WHERE o.id = :order_id
        """
    )
)


def fetch_party_role(session: Session, *, order_id: UUID, caller: Caller) -> str:
    """Tell whether the caller is the buyer of an order or its vendor.

    :raises NotFoundError: neither
    """
    role: str | None = _SELECT_PARTY_ROLE.scalar(session, order_id=order_id, user_id=caller.id)
    return found(role, "There is no such order.")


def _abandoned_payment_columns(order: LockedOrder) -> dict[str, str]:
    """Give what to show of the payment of an order that ends unpaid: it waits for nothing any more.

    Money that came and is held back stays so until finance has decided on it.
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
