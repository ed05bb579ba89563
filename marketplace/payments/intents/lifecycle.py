"""The lifecycle of payment intents: create, check out, initialize at the gateway, verify and close."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from uuid import UUID

from sqlalchemy import select, text, update
from sqlalchemy.orm import Session

from marketplace.infra.sql.statements import Prepared, Statement
from marketplace.kernel.errors import ConflictError, NotFoundError
from marketplace.kernel.money import CURRENCY
from marketplace.orders import states as order_states
from marketplace.orders.deadlines import MAX_PAYMENT_WINDOW, PAYMENT_WINDOW
from marketplace.orders.placing.place_order import OrderRequest, place_checkout
from marketplace.orders.transitions import LockedOrder, lock_checkout_of_order, lock_orders
from marketplace.payments import states, texts
from marketplace.payments.charges.apply import apply_charge
from marketplace.payments.charges.charge_context import LockedIntent
from marketplace.payments.models import PaymentAllocation, PaymentIntent
from marketplace.providers.gateway.payloads import Charge
from marketplace.providers.gateway.payments import PaymentPage

# Longer than the gateway's response timeout: an expired lease was left by a process that died.
INITIALIZATION_LEASE = timedelta(seconds=45)


class NotPayableError(ConflictError):
    """The order is not awaiting payment."""

    reason = "order-not-payable"


@dataclass(frozen=True)
class PaymentTarget:
    """An order, a checkout or a payment reference to pay for. Exactly one field is set."""

    order_id: UUID | None = None
    checkout_id: UUID | None = None
    reference: str | None = None


@dataclass(frozen=True)
class Intent(LockedIntent):
    """A live payment intent, read with its row locked.

    ``is_leased`` tells that this transaction created the intent together with a lease on the initialization.
    """

    checkout_id: UUID | None
    authorization_url: str | None
    access_code: str | None
    opening_until: datetime | None
    callback_url: str | None
    is_leased: bool
    order_ids: list[UUID]

    currency = CURRENCY

    @property
    def page(self) -> PaymentPage | None:
        """The hosted payment page, if the gateway has opened a page."""
        if self.authorization_url is None or self.access_code is None:
            return None
        return PaymentPage(self.authorization_url, self.access_code)


@dataclass(frozen=True)
class PaymentOrder:
    """An order of a payment."""

    id: str
    number: str
    status: str


@dataclass(frozen=True)
class PaymentStatus:
    """A payment as shown to the buyer."""

    reference: str
    status: str
    amount_minor: int
    currency: str
    channel: str | None
    paid_at: datetime | None
    _orders: list[dict[str, str]]

    @property
    def orders(self) -> list[PaymentOrder]:
        """The orders of the payment."""
        return [PaymentOrder(**order) for order in self._orders]


@dataclass(frozen=True)
class CheckoutResult:
    """The orders of a checkout and the payment, which is none if the wallet paid in full."""

    checkout_id: UUID
    order_ids: tuple[UUID, ...]
    payment: Intent | None


_INTENT_COLUMNS = """i.id, i.reference, i.buyer_id, i.amount_minor, i.status, i.checkout_id, i.authorization_url,
    i.access_code, i.opening_until, i.callback_url"""
_LOCK_LIVE_INTENTS = Prepared(
    text(
        f"""
        SELECT {_INTENT_COLUMNS}, false AS is_leased,
            (SELECT array_agg(p.order_id ORDER BY p.order_id) FROM payment_allocations p
                WHERE p.intent_id = i.id) AS order_ids
        FROM payment_intents i WHERE i.id IN (
            SELECT a.intent_id FROM payment_allocations a WHERE a.live AND a.order_id = ANY(:order_ids)
        ) ORDER BY i.id FOR NO KEY UPDATE OF i
        """
    ),
    row=Intent,
)
# A stock reservation never gets shorter. Each change of an order's row costs its indexes, so a lease is written and
# the reservation extended in the statement that creates the intent.
_EXTENDED_EXPIRY_SQL = """greatest(expires_at,
    least(CAST(:reserved_until AS timestamptz), created_at + CAST(:max_window AS interval)))"""
_INSERT_INTENT = Prepared(
    text(
        f"""
        WITH intent AS (
            INSERT INTO payment_intents AS i
                (buyer_id, checkout_id, amount_minor, status, callback_url, opening_until, created_at, updated_at)
            VALUES (:buyer_id, :checkout_id, :amount_minor, :status, :callback_url, :leased_until, :now, :now)
            RETURNING {_INTENT_COLUMNS}, i.opening_until IS NOT NULL AS is_leased
        ), allocated AS (
            INSERT INTO payment_allocations (intent_id, order_id, amount_minor)
            SELECT intent.id, a.order_id, a.amount_minor
            FROM intent, unnest(CAST(:order_ids AS uuid[]), CAST(:amounts AS bigint[])) AS a (order_id, amount_minor)
        ), shown AS (
            UPDATE orders SET payment_reference = intent.reference, payment_status = :status,
                expires_at = {_EXTENDED_EXPIRY_SQL}
            FROM intent WHERE orders.id = ANY(:order_ids)
        )
        SELECT *, CAST(:order_ids AS uuid[]) AS order_ids FROM intent
        """
    ),
    row=Intent,
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


def get_or_create_intent(
    session: Session,
    *,
    buyer_id: UUID,
    target: PaymentTarget,
    callback_url: str | None,
    now: datetime,
    leases: bool = False,
) -> Intent:
    """Get or create the live intent of a target.

    The intent covers exactly the target's orders that await payment, less the amounts that the buyer's wallet paid.
    A live intent of other orders is abandoned.

    :param callback_url: the page to which the hosted page redirects the buyer
    :param leases: whether a new intent is leased at once, as by ``lease_initialization``
    :raises NotFoundError: the target does not exist or belongs to another buyer
    :raises NotPayableError: the target is paid, closed or expired, or has a quarantined charge
    """
    payable = _lock_payable_orders(session, buyer_id=buyer_id, target=target, now=now)
    order_ids = [order.id for order in payable]
    if any(order.payment_status == states.QUARANTINED for order in payable):
        raise NotPayableError(texts.PAYMENT_UNDER_REVIEW)
    due_minor = sum(order.due_minor for order in payable)
    matching = None
    for live in _LOCK_LIVE_INTENTS.all(session, order_ids=order_ids):
        if live.order_ids == order_ids and live.amount_minor == due_minor:
            matching = live
        else:
            # The hosted page of an abandoned intent may stay open, and a late charge is still matched to the orders.
            _CLOSE_INTENT.run(
                session, intent_id=live.id, status=states.INTENT.target(live.status, "abandon"), now=now
            )
    if matching is not None:
        if callback_url in (None, matching.callback_url) or matching.page is not None:
            return matching
        session.execute(
            update(PaymentIntent).where(PaymentIntent.id == matching.id).values(callback_url=callback_url)
        )
        return replace(matching, callback_url=callback_url)
    if not due_minor:
        raise NotPayableError("The wallet covers the full amount, so there is nothing left to pay.")
    return _INSERT_INTENT.one(
        session,
        buyer_id=buyer_id,
        checkout_id=payable[0].checkout_id,
        amount_minor=due_minor,
        status=states.INTENT.initial,
        callback_url=callback_url,
        order_ids=order_ids,
        amounts=[order.due_minor for order in payable],
        leased_until=now + INITIALIZATION_LEASE if leases else None,
        reserved_until=now + PAYMENT_WINDOW if leases else None,
        max_window=MAX_PAYMENT_WINDOW if leases else None,
        now=now,
    )


def check_out(session: Session, *, placement: OrderRequest, now: datetime) -> CheckoutResult:
    """Place an order with each vendor of a checkout, and create one payment for all orders.

    :raises ValidationError: items are not available; the error names each item, and no order is placed
    :raises ConflictError: insufficient stock, changed total, insufficient wallet balance or too many unpaid orders
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


# All orders of the target's checkout are locked. A payment covers orders of a single checkout, so the holder of these
# locks may abandon a payment and create another.
_SELECT_ORDERS_BY_TARGET = {
    target: Statement(
        text(
            f"""
            WITH wanted AS ({wanted_orders})
            SELECT id, true AS wanted FROM wanted
            UNION ALL
            SELECT o.id, false FROM orders o
            WHERE o.checkout_id = (SELECT checkout_id FROM wanted LIMIT 1) AND o.id NOT IN (SELECT id FROM wanted)
            """
        )
    )
    for target, wanted_orders in {
        "checkout_id": "SELECT id, checkout_id FROM orders WHERE checkout_id = :checkout_id AND buyer_id = :buyer_id",
        "reference": """
            SELECT o.id, o.checkout_id FROM payment_intents i
                JOIN payment_allocations a ON a.intent_id = i.id JOIN orders o ON o.id = a.order_id
            WHERE i.reference = :reference AND i.buyer_id = :buyer_id
            """,
    }.items()
}


def _lock_payable_orders(
    session: Session, *, buyer_id: UUID, target: PaymentTarget, now: datetime
) -> list[LockedOrder]:
    if target.order_id is not None:
        checkout = lock_checkout_of_order(session, order_id=target.order_id, buyer_id=buyer_id)
        locked_orders = [order for order in checkout if order.id == target.order_id]
    else:
        [(name, value)] = [(name, value) for name, value in vars(target).items() if value is not None]
        wanted = dict(_SELECT_ORDERS_BY_TARGET[name].tuples(session, buyer_id=buyer_id, **{name: value}))
        locked_orders = [order for order in lock_orders(session, order_ids=list(wanted)) if wanted[order.id]]
    if not locked_orders:
        raise NotFoundError("Order or payment not found.")
    unpaid = [order for order in locked_orders if order.status == order_states.PENDING_PAYMENT]
    payable = [order for order in unpaid if order.expires_at > now]
    if payable:
        return payable
    if unpaid:
        raise NotPayableError(texts.PAYMENT_WINDOW_OVER)
    statuses = ", ".join(sorted({order.status for order in locked_orders}))
    raise NotPayableError(texts.ORDER_NOT_PAYABLE.format(statuses=statuses))


_LEASE_INITIALIZATION = Statement(
    text(
        f"""
        WITH leased AS (UPDATE payment_intents SET opening_until = :leased_until WHERE id = :intent_id)
        UPDATE orders SET expires_at = {_EXTENDED_EXPIRY_SQL} WHERE id = ANY(:order_ids)
        """
    )
)


def lease_initialization(session: Session, *, intent: Intent, now: datetime) -> bool:
    """Lease the initialization of an intent at the gateway, so that only one request calls the gateway.

    The stock reservations of the orders are extended, because the buyer is about to pay.

    :param intent: locked in this transaction
    :return: false if another request holds the lease
    """
    if intent.is_leased:
        return True
    if intent.opening_until is not None and intent.opening_until > now:
        return False
    _LEASE_INITIALIZATION.run(
        session,
        intent_id=intent.id,
        leased_until=now + INITIALIZATION_LEASE,
        order_ids=intent.order_ids,
        reserved_until=now + PAYMENT_WINDOW,
        max_window=MAX_PAYMENT_WINDOW,
    )
    return True


def release_initialization(session: Session, *, intent_id: UUID) -> None:
    """Release the lease after a failed call to the gateway."""
    session.execute(update(PaymentIntent).where(PaymentIntent.id == intent_id).values(opening_until=None))


_EXTEND_RESERVATIONS = Statement(
    text(f"UPDATE orders SET expires_at = {_EXTENDED_EXPIRY_SQL} WHERE id = ANY(:order_ids)")
)


def extend_reservations(session: Session, *, intent: Intent, now: datetime) -> None:
    """Extend the stock reservations of an intent's orders to 30 minutes from now.

    The extension ends at most 60 minutes after the order was placed. A later expiry stays unchanged.

    :param intent: an intent whose orders are locked in this transaction
    """
    _EXTEND_RESERVATIONS.run(
        session,
        order_ids=intent.order_ids,
        reserved_until=now + PAYMENT_WINDOW,
        max_window=MAX_PAYMENT_WINDOW,
    )


_RECORD_HOSTED_PAGE = Prepared(
    text(
        """
        WITH opened AS (
            UPDATE payment_intents SET status = 'pending', authorization_url = :url, access_code = :access_code,
                opening_until = NULL, updated_at = :now
            WHERE id = :intent_id AND status IN ('initialized', 'pending')
            RETURNING id
        ), shown AS (
            UPDATE orders SET payment_status = 'pending' FROM opened WHERE orders.id = ANY(:order_ids)
        )
        SELECT id FROM opened
        """
    )
)


_LOCK_INTENT = Statement(text("SELECT status FROM payment_intents WHERE id = :intent_id FOR NO KEY UPDATE"))


def record_hosted_page(session: Session, *, intent: Intent, page: PaymentPage, now: datetime) -> Intent:
    """Record the hosted page that the gateway opened.

    :return: the intent with its page
    :raises NotPayableError: an order was paid, cancelled or expired during the call to the gateway. The page's amount
        is outdated, and orders that still await payment get another page.
    """
    orders = lock_orders(session, order_ids=intent.order_ids)
    opened = _are_payable(orders) and _RECORD_HOSTED_PAGE.scalar(
        session,
        intent_id=intent.id,
        order_ids=intent.order_ids,
        url=page.authorization_url,
        access_code=page.access_code,
        now=now,
    )
    if not opened:
        status = _LOCK_INTENT.scalar(session, intent_id=intent.id)
        raise NotPayableError(texts.PAYMENT_CHANGED.format(status=status))
    return replace(intent, authorization_url=page.authorization_url, access_code=page.access_code)


def ensure_intent_payable(session: Session, *, intent: Intent) -> None:
    """Lock an intent with its orders, and check that all orders still await payment.

    :raises NotPayableError: an order does not await payment, or the intent is closed
    """
    status, orders = _lock_intent_and_orders(session, intent_id=intent.id, order_ids=intent.order_ids)
    if not (_are_payable(orders) and states.INTENT.allows(status, "open")):
        raise NotPayableError(texts.PAYMENT_CHANGED.format(status=status))


def _are_payable(orders: Iterable[LockedOrder]) -> bool:
    return all(
        order.status == order_states.PENDING_PAYMENT and order.payment_status != states.QUARANTINED
        for order in orders
    )


def _lock_intent_and_orders(
    session: Session, *, intent_id: UUID, order_ids: list[UUID]
) -> tuple[str, list[LockedOrder]]:
    """Lock an intent after its orders.

    :return: the status of the intent, and the orders
    """
    orders = lock_orders(session, order_ids=order_ids)
    return _LOCK_INTENT.scalar(session, intent_id=intent_id), orders


_SELECT_PAYMENT_STATUS = Statement(
    text(
        """
        SELECT i.reference, i.status, i.amount_minor, i.currency, i.channel, i.settled_at AS paid_at,
            (SELECT json_agg(json_build_object('id', o.id, 'number', o.number, 'status', o.status) ORDER BY o.id)
                FROM payment_allocations a JOIN orders o ON o.id = a.order_id WHERE a.intent_id = i.id) AS _orders
        FROM payment_intents i WHERE i.reference = :reference
        """
    ),
    row=PaymentStatus,
)


def apply_reported_charge(
    session: Session, *, reference: str, charge: Charge | None, fee_bearer: str, now: datetime
) -> PaymentStatus:
    """Apply the gateway's report on a payment reference, and return the payment's status.

    :param charge: none if the gateway does not know the reference
    :param fee_bearer: ``platform`` or ``customer``
    """
    if charge is not None and charge.is_successful:
        apply_charge(session, charge=charge, fee_bearer=fee_bearer, now=now)
    elif charge is not None and charge.status == "failed":
        record_failed_attempt(session, reference=reference, now=now)
    return _SELECT_PAYMENT_STATUS.one(session, reference=reference)


def record_failed_attempt(session: Session, *, reference: str, now: datetime) -> None:
    """Record a failed payment attempt, so that the orders can get another intent."""
    intent_id = session.scalars(select(PaymentIntent.id).filter_by(reference=reference)).one()
    _close_intent(session, intent_id=intent_id, trigger="fail", now=now)


def abandon_intent(session: Session, *, intent_id: UUID, now: datetime) -> None:
    """Abandon an intent, so that the orders can get another."""
    _close_intent(session, intent_id=intent_id, trigger="abandon", now=now)


def _close_intent(session: Session, *, intent_id: UUID, trigger: str, now: datetime) -> None:
    """Close an intent and free its orders for another intent, unless the intent's status no longer allows that."""
    order_ids = session.scalars(
        select(PaymentAllocation.order_id).where(PaymentAllocation.intent_id == intent_id)
    )
    status, _ = _lock_intent_and_orders(session, intent_id=intent_id, order_ids=list(order_ids))
    if states.INTENT.allows(status, trigger):
        _CLOSE_INTENT.run(session, intent_id=intent_id, status=states.INTENT.target(status, trigger), now=now)


def ensure_reference_belongs_to_buyer(session: Session, *, buyer_id: UUID, reference: str) -> None:
    """Check that a payment reference belongs to the buyer.

    :raises NotFoundError: the reference is unknown or belongs to another buyer
    """
    if session.scalar(select(PaymentIntent.id).filter_by(reference=reference, buyer_id=buyer_id)) is None:
        raise NotFoundError("Payment not found.")
