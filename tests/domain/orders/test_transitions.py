"""Every order operation in every state: applied where the state table allows, otherwise refused without effect."""

from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.kernel.errors import MarketplaceError, NotFoundError
from marketplace.kernel.states import IllegalTransitionError
from marketplace.orders import operations as orders, states
from marketplace.orders.transitions import SYSTEM, lock_order
from marketplace.payments.refunds import order_cancellation
from marketplace.payments.refunds.admin_refund import AlreadyReleasedError
from tests.support.finance import make_officer, refund
from tests.support.purchases import (
    NOW,
    Shop,
    assert_ledger_is_consistent,
    make_product,
    make_shop,
    paid_order,
    place,
    release,
    shipped_order,
    status_of,
)

Operation = Callable[[Session, Shop, UUID], Any]


def mark_paid(session: Session, shop: Shop, order_id: UUID) -> None:
    orders.mark_paid(
        session,
        order=lock_order(session, order_id=order_id),
        reference="checkout-by-hand",
        channel="card",
        paid_at=NOW,
        actor=SYSTEM,
        now=NOW,
    )


def accept(session: Session, shop: Shop, order_id: UUID) -> None:
    orders.accept_order(session, order_id=order_id, caller=shop.vendor, now=NOW)


def ship(session: Session, shop: Shop, order_id: UUID) -> None:
    orders.ship_order(session, order_id=order_id, caller=shop.vendor, tracking_note=None, now=NOW)


def confirm(session: Session, shop: Shop, order_id: UUID) -> None:
    orders.confirm_receipt(session, order_id=order_id, caller=shop.buyer, now=NOW)


def cancel(session: Session, shop: Shop, order_id: UUID) -> None:
    order_cancellation.cancel_order(session, order_id=order_id, caller=shop.buyer, reason=None, now=NOW)


def expire(session: Session, shop: Shop, order_id: UUID) -> None:
    orders.expire_order(session, order=lock_order(session, order_id=order_id), actor=SYSTEM, now=NOW)


def freeze_by(trigger: str) -> Operation:
    """Return an operation that freezes an order by the given trigger."""

    def freeze(session: Session, shop: Shop, order_id: UUID) -> None:
        order = lock_order(session, order_id=order_id)
        orders.freeze_order(session, order=order, trigger=trigger, actor=SYSTEM, note="", now=NOW)

    return freeze


def refund_fully(session: Session, shop: Shop, order_id: UUID) -> None:
    refund(session, order_id, make_officer(session))


def rule_for_vendor(session: Session, shop: Shop, order_id: UUID) -> None:
    order = lock_order(session, order_id=order_id)
    orders.release_by_ruling(session, order=order, actor=SYSTEM, note="", now=NOW)


def resume_as(status: str) -> Operation:
    """Return an operation that continues a disputed order with the given status."""

    def resume(session: Session, shop: Shop, order_id: UUID) -> None:
        order = lock_order(session, order_id=order_id)
        orders.resume_order(session, order=order, status=status, actor=SYSTEM, now=NOW)

    return resume


OPERATIONS: dict[str, Operation] = {
    states.PAY: mark_paid,
    states.CANCEL: cancel,
    states.EXPIRE: expire,
    states.ACCEPT: accept,
    states.SHIP: ship,
    states.VERIFY_CODE: release,
    states.CONFIRM: confirm,
    states.DISPUTE: freeze_by(states.DISPUTE),
    states.CHARGE_DISPUTE: freeze_by(states.CHARGE_DISPUTE),
    states.REFUND: refund_fully,
    states.RULE_FOR_VENDOR: rule_for_vendor,
    **{trigger: resume_as(status) for status, trigger in states.RESUME.items()},
}


def order_in_state(session: Session, shop: Shop, state: str) -> UUID:
    """Create an order and bring the order into the given state by operations."""
    if state in (states.PENDING_PAYMENT, states.EXPIRED):
        order_id = place(session, shop, make_product(session, shop))
    elif state in (states.SHIPPED, states.DELIVERED):
        order_id = shipped_order(session, shop)
    else:
        order_id = paid_order(session, shop)
    last_operation: dict[str, Operation] = {
        states.PROCESSING: accept,
        states.DELIVERED: confirm,
        states.DISPUTED: freeze_by(states.DISPUTE),
        states.CANCELLED: cancel,
        states.EXPIRED: expire,
        states.REFUNDED: refund_fully,
    }
    if state in last_operation:
        last_operation[state](session, shop, order_id)
    assert status_of(session, order_id) == state
    return order_id


def snapshot(session: Session, order_id: UUID) -> list[Any]:
    """Read all rows that an operation on the order could change."""
    queries = (
        "SELECT * FROM orders WHERE id = :id",
        "SELECT * FROM escrows WHERE order_id = :id",
        "SELECT * FROM order_events WHERE order_id = :id ORDER BY id",
        "SELECT * FROM refunds WHERE order_id = :id ORDER BY id",
        "SELECT * FROM ledger_entries WHERE order_id = :id ORDER BY id",
        "SELECT p.* FROM products p JOIN order_items i ON i.product_id = p.id WHERE i.order_id = :id",
        "SELECT v.* FROM vendor_profiles v JOIN orders o ON o.vendor_id = v.id WHERE o.id = :id",
        (
            "SELECT a.* FROM ledger_accounts a JOIN orders o ON a.owner_id IN (o.buyer_id, o.vendor_id)"
            " WHERE o.id = :id ORDER BY a.id"
        ),
    )
    return [session.execute(text(query), {"id": order_id}).all() for query in queries]


CASES = [(state, trigger) for state in sorted(states.ORDER.states) for trigger in OPERATIONS]


def test_every_trigger_has_an_operation() -> None:
    assert set(OPERATIONS) == states.ORDER.triggers


@pytest.mark.parametrize(("state", "trigger"), CASES)
def test_operation_succeeds_only_where_state_table_allows(session: Session, state: str, trigger: str) -> None:
    shop = make_shop(session)
    order_id = order_in_state(session, shop, state)
    before = snapshot(session, order_id)

    refused: MarketplaceError | None = None
    try:
        with session.begin_nested():
            OPERATIONS[trigger](session, shop, order_id)
    except MarketplaceError as error:
        refused = error

    if states.ORDER.allows(state, trigger):
        assert refused is None
        assert status_of(session, order_id) == states.ORDER.target(state, trigger)
    else:
        if trigger == states.REFUND and state == states.DELIVERED:
            assert isinstance(refused, AlreadyReleasedError)
        elif state in (states.PENDING_PAYMENT, states.EXPIRED) and trigger in (
            states.ACCEPT,
            states.SHIP,
            states.VERIFY_CODE,
        ):
            # An unpaid order is hidden from the vendor.
            assert isinstance(refused, NotFoundError)
        else:
            assert isinstance(refused, IllegalTransitionError)
            assert refused.status == 409
        assert snapshot(session, order_id) == before
    if trigger != states.PAY:
        assert_ledger_is_consistent(session)
