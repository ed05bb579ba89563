"""Payment intents: made, opened at the gateway, verified."""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.infra.db import Statement
from marketplace.kernel.errors import ConflictError, NotFoundError
from marketplace.orders import states as order_states
from marketplace.orders.deadlines import MAX_PAYMENT_WINDOW, PAYMENT_WINDOW
from marketplace.orders.transitions import LockedOrder, lock_orders
from marketplace.payments import states
from marketplace.payments.charges.apply import apply_charge
from marketplace.providers.gateway.payloads import Charge
from marketplace.providers.gateway.payments import PaymentPage

# Longer than the gateway may take to answer: a claim that ran out was left by somebody who died.
INITIALIZATION_LEASE = timedelta(seconds=45)

# What shares a checkout with what is to be paid is locked with it: a payment is of a checkout's orders at most, so
# whoever has them locked may give up one payment and make another.
_WITH_ORDERS_OF_SAME_CHECKOUT = """
    WITH wanted AS ({wanted})
    SELECT id, true AS wanted FROM wanted
    UNION ALL
    SELECT o.id, false FROM orders o
    WHERE o.checkout_id = (SELECT checkout_id FROM wanted LIMIT 1) AND o.id NOT IN (SELECT id FROM wanted)
"""
_SELECT_ORDER_OF_BUYER = Statement(
    text(
        _WITH_ORDERS_OF_SAME_CHECKOUT.format(
            wanted="SELECT id, checkout_id FROM orders WHERE id = :order_id AND buyer_id = :buyer_id"
        )
    )
)
_SELECT_ORDERS_OF_CHECKOUT = Statement(
    text("SELECT id, true AS wanted FROM orders WHERE checkout_id = :checkout_id AND buyer_id = :buyer_id")
)
_SELECT_ORDERS_OF_REFERENCE = Statement(
    text(
        _WITH_ORDERS_OF_SAME_CHECKOUT.format(
            wanted="""
                SELECT o.id, o.checkout_id FROM payment_intents i
                    JOIN payment_allocations a ON a.intent_id = i.id JOIN orders o ON o.id = a.order_id
                WHERE i.reference = :reference AND i.buyer_id = :buyer_id
                """
        )
    )
)
_SELECT_INTENT_OF_BUYER = Statement(
    text("SELECT id FROM payment_intents WHERE reference = :reference AND buyer_id = :buyer_id")
)
_INTENT_COLUMNS = """i.id, i.reference, i.buyer_id, i.checkout_id, i.amount_minor, i.status, i.authorization_url,
    i.access_code, i.opening_until, i.callback_url"""
_LOCK_LIVE_INTENTS = Statement(
    text(
        f"""
        SELECT {_INTENT_COLUMNS}, (SELECT array_agg(p.order_id ORDER BY p.order_id) FROM payment_allocations p
            WHERE p.intent_id = i.id) AS order_ids
        FROM payment_intents i WHERE EXISTS (
            SELECT FROM payment_allocations a WHERE a.intent_id = i.id AND a.live AND a.order_id = ANY(:order_ids)
        ) ORDER BY i.id FOR NO KEY UPDATE OF i
        """
    )
)
_SELECT_INTENT_BY_REFERENCE = Statement(text("SELECT id FROM payment_intents WHERE reference = :reference"))
_SELECT_ORDERS_OF_INTENT = Statement(
    text("SELECT order_id AS id FROM payment_allocations WHERE intent_id = :intent_id")
)
_LOCK_INTENT = Statement(text("SELECT status FROM payment_intents WHERE id = :intent_id FOR NO KEY UPDATE"))
_INSERT_INTENT = Statement(
    text(
        f"""
        WITH intent AS (
            INSERT INTO payment_intents AS i
                (buyer_id, checkout_id, amount_minor, status, callback_url, created_at, updated_at)
            VALUES (:buyer_id, :checkout_id, :amount_minor, :status, :callback_url, :now, :now)
            RETURNING {_INTENT_COLUMNS}
        ), allocated AS (
            INSERT INTO payment_allocations (intent_id, order_id, amount_minor)
            SELECT intent.id, a.order_id, a.amount_minor
            FROM intent, unnest(CAST(:order_ids AS uuid[]), CAST(:amounts AS bigint[])) AS a (order_id, amount_minor)
        ), shown AS (
            UPDATE orders SET payment_reference = intent.reference, payment_status = :status
            FROM intent WHERE orders.id = ANY(:order_ids)
        )
        SELECT * FROM intent
        """
    )
)
_UPDATE_CALLBACK_URL = Statement(
    text("UPDATE payment_intents SET callback_url = :callback_url WHERE id = :intent_id")
)
_EXTEND_RESERVATIONS = Statement(
    text(
        """
        UPDATE orders SET expires_at = greatest(expires_at, least(:until, created_at + :at_most))
        WHERE id = ANY(:order_ids)
        """
    )
)
_SET_INITIALIZATION_LEASE = Statement(
    text("UPDATE payment_intents SET opening_until = :until WHERE id = :intent_id")
)
_RECORD_HOSTED_PAGE = Statement(
    text(
        """
        WITH shown AS (
            UPDATE orders SET payment_status = 'pending' FROM payment_allocations a
            WHERE a.intent_id = :intent_id AND a.live AND orders.id = a.order_id
                AND orders.status = 'pending_payment'
        )
        UPDATE payment_intents SET status = 'pending', authorization_url = :url, access_code = :access_code,
            opening_until = NULL, updated_at = :now
        WHERE id = :intent_id
        """
    )
)
_CLOSE_INTENT = Statement(
    text(
        """
        WITH freed AS (
            UPDATE payment_allocations SET live = false WHERE intent_id = :intent_id RETURNING order_id
        ), shown AS (
            UPDATE orders SET payment_status = :status
            FROM freed, payment_intents i
            WHERE orders.id = freed.order_id AND i.id = :intent_id AND orders.payment_reference = i.reference
                AND orders.status = 'pending_payment'
        )
        UPDATE payment_intents SET status = :status, opening_until = NULL, updated_at = :now
        WHERE id = :intent_id
        """
    )
)
_SELECT_PAYMENT_STATUS = Statement(
    text(
        """
        SELECT i.reference, i.status, i.amount_minor AS "amountMinor", i.currency, i.channel,
            i.settled_at AS "paidAt",
            (SELECT json_agg(json_build_object('id', o.id, 'number', o.number, 'status', o.status) ORDER BY o.id)
                FROM payment_allocations a JOIN orders o ON o.id = a.order_id WHERE a.intent_id = i.id) AS orders
        FROM payment_intents i WHERE i.reference = :reference
        """
    )
)


class NotPayableError(ConflictError):
    """The order is not awaiting payment."""

    reason = "order-not-payable"


@dataclass(frozen=True)
class PaymentTarget:
    """What is to be paid: an order, a checkout, or what a reference was made for."""

    order_id: UUID | None = None
    checkout_id: UUID | None = None
    reference: str | None = None


@dataclass(frozen=True)
class Intent:
    """A live payment intent; its row was locked when it was read."""

    id: UUID
    reference: str
    buyer_id: UUID
    checkout_id: UUID | None
    amount_minor: int
    status: str
    authorization_url: str | None
    access_code: str | None
    opening_until: datetime | None
    callback_url: str | None
    order_ids: tuple[UUID, ...]

    @property
    def page(self) -> PaymentPage | None:
        """Give the payment page, if it was opened."""
        if self.authorization_url is None or self.access_code is None:
            return None
        return PaymentPage(self.authorization_url, self.access_code)


def get_or_create_intent(
    session: Session, *, buyer_id: UUID, target: PaymentTarget, callback_url: str | None, now: datetime
) -> Intent:
    """Give the live intent of what is to be paid, made now if there is none.

    It is for exactly those of the target's orders that still wait, each with what its buyer's wallet did not pay
    when it was placed. A live intent of more or fewer orders is given up for it.

    :param buyer_id: who pays
    :param target: what for
    :param callback_url: where the payment page sends the buyer afterwards
    :param now: the time of the request
    :raises NotFoundError: it is not the buyer's
    :raises NotPayableError: it is paid, over, out of time, or its money is held back
    """
    payable = _lock_payable_orders(session, buyer_id=buyer_id, target=target, now=now)
    order_ids = tuple(order.id for order in payable)
    if any(order.payment_status == states.QUARANTINED for order in payable):
        raise NotPayableError("A payment for this is held back; our finance officers look into it.")
    due_minor = sum(order.due_minor for order in payable)
    matching = None
    for row in _LOCK_LIVE_INTENTS.all(session, order_ids=list(order_ids)):
        live = Intent(**row | {"order_ids": tuple(row["order_ids"])})
        if live.order_ids == order_ids and live.amount_minor == due_minor:
            matching = live
        else:
            # One of more or of fewer orders, or of another amount. Its page may stay open: what is paid on it still
            # finds its orders.
            _close_intent(session, intent_id=live.id, status=live.status, trigger="abandon", now=now)
    if matching is not None:
        return _update_callback_url(session, matching, callback_url)
    if not due_minor:
        raise NotPayableError("The wallet covers it: there is nothing left to pay on a page.")
    row = _INSERT_INTENT.one(
        session,
        buyer_id=buyer_id,
        checkout_id=payable[0].checkout_id,
        amount_minor=due_minor,
        status=states.INTENT.initial,
        callback_url=callback_url,
        order_ids=list(order_ids),
        amounts=[order.due_minor for order in payable],
        now=now,
    )
    return Intent(**row, order_ids=order_ids)


def _update_callback_url(session: Session, intent: Intent, callback_url: str | None) -> Intent:
    """Have a page that is not opened yet send its buyer to where they want by now."""
    if callback_url is None or intent.page is not None or callback_url == intent.callback_url:
        return intent
    _UPDATE_CALLBACK_URL.run(session, intent_id=intent.id, callback_url=callback_url)
    return replace(intent, callback_url=callback_url)


def lease_initialization(session: Session, *, intent: Intent, now: datetime) -> bool:
    """Claim the opening of an intent's page, so that one caller alone asks the gateway.

    Its orders have as much time again from now on, so that no stock is freed while its buyer is about to pay.

    :param intent: locked in this transaction
    :return: whether it is ours to open; otherwise somebody else is at it
    """
    if intent.opening_until is not None and intent.opening_until > now:
        return False
    _SET_INITIALIZATION_LEASE.run(session, intent_id=intent.id, until=now + INITIALIZATION_LEASE)
    extend_reservations(session, intent=intent, now=now)
    return True


def extend_reservations(session: Session, *, intent: Intent, now: datetime) -> None:
    """Keep an intent's orders reserved, its page being opened, or shown once more.

    :param intent: its orders are locked in this transaction
    :param now: they have 30 minutes from it, but at most 60 after they were placed
    """
    _EXTEND_RESERVATIONS.run(
        session, order_ids=list(intent.order_ids), until=now + PAYMENT_WINDOW, at_most=MAX_PAYMENT_WINDOW
    )


def release_initialization(session: Session, *, intent_id: UUID) -> None:
    """Give a claim back, the gateway not having answered."""
    _SET_INITIALIZATION_LEASE.run(session, intent_id=intent_id, until=None)


def abandon_intent(session: Session, *, intent_id: UUID, now: datetime) -> None:
    """Give an intent up, so that its orders can have another."""
    _close_intent_if_allowed(session, intent_id=intent_id, trigger="abandon", now=now)


def ensure_intent_payable(session: Session, *, intent: Intent) -> None:
    """Lock an intent with its orders, and make sure that all of them still wait for it.

    :raises NotPayableError: one does not, or the intent is over
    """
    status, orders = _lock_intent_and_orders(session, intent_id=intent.id)
    payable = [
        order
        for order in orders
        if order.status == order_states.PENDING_PAYMENT and order.payment_status != states.QUARANTINED
    ]
    if len(payable) < len(orders) or not states.INTENT.allows(status, "open"):
        raise NotPayableError(
            f"The payment is {status} by now, or an order of it no longer waits for it. Try again."
        )


def record_hosted_page(
    session: Session, *, intent: Intent, page: PaymentPage, now: datetime
) -> dict[str, Any]:
    """Keep the page that the gateway opened, and give it as clients see it.

    :raises NotPayableError: an order of it was paid, cancelled or given up while the gateway was asked: whoever
        paid on that page would pay for nothing, or too much; another page is for what still waits
    """
    ensure_intent_payable(session, intent=intent)
    _RECORD_HOSTED_PAGE.run(
        session, intent_id=intent.id, url=page.authorization_url, access_code=page.access_code, now=now
    )
    return {
        "reference": intent.reference,
        "authorizationUrl": page.authorization_url,
        "accessCode": page.access_code,
        "amountMinor": intent.amount_minor,
    }


def apply_reported_charge(
    session: Session, *, reference: str, charge: Charge | None, fee_bearer: str, now: datetime
) -> dict[str, Any]:
    """Apply what the gateway told of a reference, and give the payment's state.

    :param reference: ours
    :param charge: none if the gateway does not know the reference
    :param fee_bearer: ``platform`` or ``customer``
    :return: the payment as clients see it
    """
    if charge is not None and charge.is_successful:
        apply_charge(session, charge=charge, fee_bearer=fee_bearer, now=now)
    elif charge is not None and charge.status == "failed":
        record_failed_attempt(session, reference=reference, now=now)
    return _SELECT_PAYMENT_STATUS.one(session, reference=reference)


def record_failed_attempt(session: Session, *, reference: str, now: datetime) -> None:
    """Note that an attempt to pay failed; the orders can have another."""
    intent = _SELECT_INTENT_BY_REFERENCE.one(session, reference=reference)
    _close_intent_if_allowed(session, intent_id=intent["id"], trigger="fail", now=now)


def ensure_reference_belongs_to_buyer(session: Session, *, buyer_id: UUID, reference: str) -> str:
    """Make sure that a reference is the buyer's.

    :raises NotFoundError: it is not
    """
    if _SELECT_INTENT_OF_BUYER.first(session, reference=reference, buyer_id=buyer_id) is None:
        raise NotFoundError("There is no such payment.")
    return reference


def _close_intent_if_allowed(session: Session, *, intent_id: UUID, trigger: str, now: datetime) -> None:
    """Free the orders of an intent, unless money came for it meanwhile: what we were told is old news then."""
    status, _ = _lock_intent_and_orders(session, intent_id=intent_id)
    if states.INTENT.allows(status, trigger):
        _close_intent(session, intent_id=intent_id, status=status, trigger=trigger, now=now)


def _close_intent(session: Session, *, intent_id: UUID, status: str, trigger: str, now: datetime) -> None:
    """Free the orders of an intent; they and it are locked."""
    target = states.INTENT.target(status, trigger)
    _CLOSE_INTENT.run(session, intent_id=intent_id, status=target, now=now)


def _lock_intent_and_orders(session: Session, *, intent_id: UUID) -> tuple[str, list[LockedOrder]]:
    """Lock an intent in the order that all keep to: its orders first. Give its status, and them."""
    rows = _SELECT_ORDERS_OF_INTENT.all(session, intent_id=intent_id)
    orders = lock_orders(session, order_ids=[row["id"] for row in rows])
    return _LOCK_INTENT.one(session, intent_id=intent_id)["status"], orders


def _lock_payable_orders(
    session: Session, *, buyer_id: UUID, target: PaymentTarget, now: datetime
) -> list[LockedOrder]:
    if target.reference is not None:
        rows = _SELECT_ORDERS_OF_REFERENCE.all(session, reference=target.reference, buyer_id=buyer_id)
    elif target.checkout_id is not None:
        rows = _SELECT_ORDERS_OF_CHECKOUT.all(session, checkout_id=target.checkout_id, buyer_id=buyer_id)
    else:
        rows = _SELECT_ORDER_OF_BUYER.all(session, order_id=target.order_id, buyer_id=buyer_id)
    if not rows:
        raise NotFoundError("There is no such order to pay.")
    target_ids = {row["id"] for row in rows if row["wanted"]}
    locked_orders = [
        order
        for order in lock_orders(session, order_ids=[row["id"] for row in rows])
        if order.id in target_ids
    ]
    payable = [
        order
        for order in locked_orders
        if order.status == order_states.PENDING_PAYMENT and order.expires_at > now
    ]
    if not payable:
        if any(order.status == order_states.PENDING_PAYMENT for order in locked_orders):
            raise NotPayableError(
                "The order is pending_payment, but its time to pay is over: place it again."
            )
        states_shown = ", ".join(sorted({order.status for order in locked_orders}))
        raise NotPayableError(f"The order is {states_shown}; paying takes one that is pending_payment.")
    return payable
