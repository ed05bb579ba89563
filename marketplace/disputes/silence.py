"""Silent sides: remind buyers who do not confirm and vendors who do not accept, and end the waiting.

No timer releases escrow: after the last reminder, staff rule on the order of a silent buyer. The order of a silent
vendor is cancelled and refunded.
"""

from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial
from uuid import UUID

from sqlalchemy import select, tuple_
from sqlalchemy.orm import Session

from marketplace.disputes import cases, texts
from marketplace.infra.batches import process_each
from marketplace.infra.db import Database
from marketplace.kernel.clock import iso
from marketplace.notifications.operations import notify
from marketplace.notifications.phrases import say
from marketplace.orders import operations as orders, states as order_states
from marketplace.orders.models import Order
from marketplace.orders.transitions import SYSTEM, lock_order
from marketplace.payments.refunds.order_cancellation import cancel_unaccepted_order

BUYER_REMINDERS = (timedelta(days=2), timedelta(days=5), timedelta(days=9))
ESCALATED_AFTER = timedelta(days=14)
VENDOR_REMINDER = timedelta(hours=48)
CANCELLED_AFTER = timedelta(hours=96)
# A reminder that could not be sent for a day is left out. The next reminder follows.
_CATCH_UP = timedelta(days=1)
_ORDERS_PER_PAGE = 1_000


def remind_silent_buyers(database: Database, *, now: datetime) -> int:
    """Remind buyers of shipped orders without a confirmation, each time once.

    :return: the number of reminders
    """
    reminders = 0
    for delay in BUYER_REMINDERS:
        reminders += _process_orders(
            database,
            order_states.SHIPPED,
            partial(_remind_buyer_in_transaction, database, delay=delay, now=now),
            after=now - delay - _CATCH_UP,
            until=now - delay,
        )
    return reminders


def _remind_buyer_in_transaction(
    database: Database, order_id: UUID, *, delay: timedelta, now: datetime
) -> bool:
    return database.in_transaction(_remind_buyer, order_id=order_id, delay=delay, now=now)


def _remind_buyer(session: Session, *, order_id: UUID, delay: timedelta, now: datetime) -> bool:
    order = lock_order(session, order_id=order_id)
    if order.status != order_states.SHIPPED or order.shipped_at is None:
        return False
    notified = notify(
        session,
        user_id=order.buyer_id,
        type="order_reminder",
        title=say(texts.BUYER_REMINDER_TITLE),
        body=say(
            texts.BUYER_REMINDER_BODY,
            order_number=order.number,
            day=iso(order.shipped_at + ESCALATED_AFTER)[:10],
        ),
        link=f"/orders/{order.id}",
        cause=f"order:{order.id}:silent-buyer:{delay.days}",
        now=now,
    )
    return notified is not None


def escalate_silent_buyers(database: Database, *, now: datetime) -> int:
    """Open a dispute for a ruling about each order that was shipped ``ESCALATED_AFTER`` ago.

    :return: the number of opened disputes
    """
    return _process_orders(
        database,
        order_states.SHIPPED,
        lambda order_id: database.in_transaction(_escalate, order_id=order_id, now=now),
        after=None,
        until=now - ESCALATED_AFTER,
    )


def _escalate(session: Session, *, order_id: UUID, now: datetime) -> bool:
    order = lock_order(session, order_id=order_id)
    if order.status != order_states.SHIPPED:
        return False
    dispute = cases.open_for_staff(
        session,
        order,
        order_status=order.status,
        description=texts.SILENT_BUYER_DESCRIPTION,
        desired_outcome=cases.RELEASE,
        cause="silent_buyer",
        now=now,
    )
    orders.freeze_order(
        session,
        order=order,
        trigger=order_states.DISPUTE,
        actor=SYSTEM,
        note=texts.SILENT_BUYER_DESCRIPTION,
        now=now,
    )
    cases.notify_parties(
        session,
        dispute,
        order,
        title=texts.ESCALATED_TITLE,
        body=texts.ESCALATED_BODY,
        cause="opened",
        now=now,
    )
    return True


def remind_silent_vendors(database: Database, *, now: datetime) -> int:
    """Remind vendors of paid orders that they have not accepted, once.

    :return: the number of reminders
    """
    until = now - VENDOR_REMINDER
    return _process_orders(
        database,
        order_states.PAID_ESCROW,
        lambda order_id: database.in_transaction(_remind_vendor, order_id=order_id, now=now),
        after=until - _CATCH_UP,
        until=until,
    )


def _remind_vendor(session: Session, *, order_id: UUID, now: datetime) -> bool:
    order = lock_order(session, order_id=order_id)
    if order.status != order_states.PAID_ESCROW:
        return False
    notified = notify(
        session,
        user_id=order.vendor_user_id,
        type="order_reminder",
        title=say(texts.VENDOR_REMINDER_TITLE),
        body=say(texts.VENDOR_REMINDER_BODY, order_number=order.number),
        link=f"/orders/{order.id}",
        cause=f"order:{order.id}:silent-vendor",
        now=now,
    )
    return notified is not None


def cancel_unaccepted_orders(database: Database, *, now: datetime) -> int:
    """Cancel and refund paid orders that no vendor accepted within ``CANCELLED_AFTER``.

    :return: the number of cancelled orders
    """
    return _process_orders(
        database,
        order_states.PAID_ESCROW,
        lambda order_id: database.in_transaction(
            cancel_unaccepted_order, order_id=order_id, reason=texts.SILENT_VENDOR_REASON, now=now
        ),
        after=None,
        until=now - CANCELLED_AFTER,
    )


def _process_orders(
    database: Database,
    status: str,
    work: Callable[[UUID], bool],
    *,
    after: datetime | None,
    until: datetime,
) -> int:
    """Process each order whose current stage began in a period, the longest waiting first, page by page.

    Each order is processed on its own. A failure is left to the next run.

    :return: the number of orders with an effect
    """
    since = Order.shipped_at if status == order_states.SHIPPED else Order.paid_at
    query = select(Order.id, since).where(Order.status == status, since <= until).order_by(since, Order.id)
    if after is not None:
        query = query.where(since > after)
    effects = 0
    last: tuple[datetime | None, UUID] | None = None
    while True:
        page_query = query if last is None else query.where(tuple_(since, Order.id) > tuple_(*last))
        with database.reading() as session:
            page = session.execute(page_query.limit(_ORDERS_PER_PAGE)).all()
        effects += sum(process_each([row[0] for row in page], work, failure="silent order not processed"))
        if len(page) < _ORDERS_PER_PAGE:
            return effects
        last = (page[-1][1], page[-1][0])
