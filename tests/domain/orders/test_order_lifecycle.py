"""Order lifecycle after placing: stock, cancellation, vendor steps, PIN release and visibility."""

from typing import Any
from uuid import UUID, uuid4

import pytest
from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.identity.queries import Caller
from marketplace.kernel.errors import NotFoundError
from marketplace.kernel.paging import PageRequest
from marketplace.kernel.states import IllegalTransitionError
from marketplace.orders import operations, queries
from marketplace.orders.deadlines import MAX_PIN_ATTEMPTS, PIN_LOCKOUT
from marketplace.orders.operations import PinLockedError, WrongPinError
from marketplace.payments.refunds import order_cancellation
from marketplace.payments.refunds.create import summarize_refunds
from tests.support.finance import make_officer, refund
from tests.support.purchases import (
    COMMISSION_BPS,
    DELIVERY_FEE_MINOR,
    NOW,
    PIN_KEY,
    PRICE_MINOR,
    SERVICE_FEE_MINOR,
    Shop,
    assert_ledger_is_consistent,
    balances_of_order,
    later,
    make_person,
    make_product,
    make_shop,
    paid_order,
    pay,
    pin_of,
    place,
    release,
    row_of,
    shipped_order,
    status_of,
    stock_of,
    trail_of,
    with_buyer,
    wrong_pin_of,
)

VIEW = queries.OrderViewContext("https://media.example", PIN_KEY, summarize_refunds, now=NOW)


def cancel(session: Session, order_id: UUID, caller: Caller, reason: str | None = None) -> None:
    order_cancellation.cancel_order(session, order_id=order_id, caller=caller, reason=reason, now=NOW)


def fetch_view(session: Session, order_id: UUID, caller: Caller) -> queries.OrderView:
    return queries.fetch_order_view(session, order_id=order_id, caller=caller, context=VIEW)


class TestStock:
    def test_stock_is_reserved_then_consumed(self, session: Session, shop: Shop) -> None:
        product_id = make_product(session, shop, quantity=3)

        order_id = place(session, shop, product_id, quantity=2)
        assert stock_of(session, product_id) == (3, 2)

        pay(session, shop, order_id)
        assert stock_of(session, product_id) == (1, 0)
        assert row_of(session, "products", id=product_id)["popularity"] == 2

    def test_cancelled_order_frees_reserved_stock(self, session: Session, shop: Shop) -> None:
        product_id = make_product(session, shop, quantity=3)
        order_id = place(session, shop, product_id, quantity=3)

        cancel(session, order_id, shop.buyer)

        assert stock_of(session, product_id) == (3, 0)
        place(session, shop, product_id, quantity=3)

    def test_paid_order_consumes_stock_of_deleted_product(self, session: Session, shop: Shop) -> None:
        product_id = make_product(session, shop, quantity=1)
        order_id = place(session, shop, product_id)
        session.execute(text("UPDATE products SET status = 'deleted' WHERE id = :id"), {"id": product_id})

        pay(session, shop, order_id)

        assert stock_of(session, product_id) == (0, 0)


class TestCancelling:
    def test_buyer_cancels_unpaid_order(self, session: Session, shop: Shop) -> None:
        order_id = place(session, shop, make_product(session, shop))

        cancel(session, order_id, shop.buyer, "Found it cheaper")

        order = row_of(session, "orders", id=order_id)
        assert (order["status"], order["cancelled_by"]) == ("cancelled", "buyer")
        assert (order["cancelled_at"], order["cancellation_reason"]) == (NOW, "Found it cheaper")
        assert trail_of(session, order_id)[-1] == ("pending_payment", "cancelled", "cancel", "buyer")
        assert_ledger_is_consistent(session)

    def test_unpaid_order_is_hidden_from_vendor_and_other_users(self, session: Session, shop: Shop) -> None:
        order_id = place(session, shop, make_product(session, shop))
        other_user = make_person(session)

        for caller in (shop.vendor, other_user):
            with pytest.raises(NotFoundError):
                fetch_view(session, order_id, caller)
        with pytest.raises(NotFoundError):
            cancel(session, order_id, other_user)
        with pytest.raises(NotFoundError):
            operations.accept_order(session, order_id=order_id, caller=shop.vendor, now=NOW)

    def test_vendor_may_cancel_unpaid_order_and_then_see_cancellation(
        self, session: Session, shop: Shop
    ) -> None:
        order_id = place(session, shop, make_product(session, shop))

        cancel(session, order_id, shop.vendor)

        seen = fetch_view(session, order_id, shop.vendor)
        assert (seen.status, seen.cancellation.by) == ("cancelled", "vendor")

    def test_second_cancellation_is_refused_with_current_state(self, session: Session, shop: Shop) -> None:
        order_id = place(session, shop, make_product(session, shop))
        cancel(session, order_id, shop.buyer)

        with pytest.raises(IllegalTransitionError, match="The order is cancelled, but cancel requires"):
            cancel(session, order_id, shop.buyer)

    def test_shipped_order_cannot_be_cancelled(self, session: Session, shop: Shop) -> None:
        order_id = shipped_order(session, shop)

        for party in (shop.buyer, shop.vendor):
            with pytest.raises(IllegalTransitionError, match="The order is shipped"):
                cancel(session, order_id, party)


class TestVendorSteps:
    def test_released_order_pays_vendor_and_platform(self, session: Session, shop: Shop) -> None:
        order_id = shipped_order(session, shop, quantity=2)
        release(session, shop, order_id)

        subtotal = 2 * PRICE_MINOR
        commission = subtotal * COMMISSION_BPS // 10_000
        assert balances_of_order(session, order_id) == {
            "wallet": -(subtotal + DELIVERY_FEE_MINOR + SERVICE_FEE_MINOR),
            "vendor_payable": subtotal - commission + DELIVERY_FEE_MINOR,
            "platform_revenue": commission + SERVICE_FEE_MINOR,
        }
        escrow = row_of(session, "escrows", order_id=order_id)
        assert (escrow["status"], escrow["released_minor"]) == ("released", escrow["amount_minor"])
        assert row_of(session, "vendor_profiles", id=shop.store_id)["completed_orders"] == 1
        order = row_of(session, "orders", id=order_id)
        times = [order[f"{step}_at"] for step in ("paid", "accepted", "shipped", "delivered")]
        assert times == [NOW] * 4
        assert order["revision"] == 5
        assert [step[1:] for step in trail_of(session, order_id)] == [
            ("pending_payment", "place", "buyer"),
            ("paid_escrow", "pay", "gateway"),
            ("processing", "accept", "vendor"),
            ("shipped", "ship", "vendor"),
            ("delivered", "verify-code", "vendor"),
        ]
        assert_ledger_is_consistent(session)

    def test_store_sums_response_times_of_accepted_orders(self, session: Session, shop: Shop) -> None:
        """The payment time may be ahead of the server clock: a negative response time counts as zero."""
        for minutes in (3, 90, -2):
            order_id = paid_order(session, shop)
            operations.accept_order(
                session, order_id=order_id, caller=shop.vendor, now=later(minutes=minutes)
            )

        store = row_of(session, "vendor_profiles", id=shop.store_id)
        assert (store["response_seconds_sum"], store["response_count"]) == (93 * 60, 3)

    def test_store_counts_paid_orders_that_the_store_or_staff_ended(
        self, session: Session, shop: Shop
    ) -> None:
        cancel(session, place(session, shop, make_product(session, shop)), shop.buyer)
        cancel(session, paid_order(session, shop), shop.buyer)
        assert row_of(session, "vendor_profiles", id=shop.store_id)["failed_orders"] == 0

        cancel(session, paid_order(session, shop), shop.vendor)
        refund(session, shipped_order(session, shop), make_officer(session))
        assert row_of(session, "vendor_profiles", id=shop.store_id)["failed_orders"] == 2

    def test_vendor_steps_out_of_sequence_are_refused(self, session: Session, shop: Shop) -> None:
        order_id = paid_order(session, shop)

        with pytest.raises(IllegalTransitionError, match="is paid_escrow, but ship requires processing"):
            operations.ship_order(session, order_id=order_id, caller=shop.vendor, tracking_note=None, now=NOW)
        with pytest.raises(IllegalTransitionError, match="is paid_escrow, but verify-code requires"):
            release(session, shop, order_id)
        operations.accept_order(session, order_id=order_id, caller=shop.vendor, now=NOW)
        with pytest.raises(IllegalTransitionError, match="is processing, but accept requires"):
            operations.accept_order(session, order_id=order_id, caller=shop.vendor, now=NOW)

    def test_other_vendor_cannot_process_order(self, session: Session, shop: Shop) -> None:
        order_id, other = shipped_order(session, shop), make_shop(session)

        for step in (
            lambda: operations.accept_order(session, order_id=order_id, caller=other.vendor, now=NOW),
            lambda: operations.ship_order(
                session, order_id=order_id, caller=other.vendor, tracking_note=None, now=NOW
            ),
            lambda: release(session, other, order_id),
        ):
            with pytest.raises(NotFoundError):
                step()

    def test_unknown_order_is_not_found(self, session: Session, shop: Shop) -> None:
        for caller in (shop.buyer, shop.vendor):
            with pytest.raises(NotFoundError):
                fetch_view(session, uuid4(), caller)
        with pytest.raises(NotFoundError):
            operations.accept_order(session, order_id=uuid4(), caller=shop.vendor, now=NOW)

    def test_commission_is_rounded_down_line_by_line(self, session: Session) -> None:
        shop = make_shop(session, commission_bps=333)
        order_id = place(session, shop, make_product(session, shop, price_minor=101, quantity=9), quantity=3)
        pay(session, shop, order_id)
        operations.accept_order(session, order_id=order_id, caller=shop.vendor, now=NOW)
        operations.ship_order(session, order_id=order_id, caller=shop.vendor, tracking_note=None, now=NOW)

        release(session, shop, order_id)

        assert balances_of_order(session, order_id)["platform_revenue"] == 10 + SERVICE_FEE_MINOR


class TestPin:
    def test_wrong_pin_is_counted_and_reports_attempts_left(self, session: Session, shop: Shop) -> None:
        order_id = shipped_order(session, shop)

        for left in (4, 3, 2, 1, 0):
            with pytest.raises(WrongPinError) as refused:
                release(session, shop, order_id, wrong_pin_of(order_id))
            assert refused.value.status == 400
            assert refused.value.extensions == {"attemptsLeft": left}
            assert refused.value.keeps_changes

        assert status_of(session, order_id) == "shipped"
        assert row_of(session, "escrows", order_id=order_id)["status"] == "held"

    def test_five_wrong_pins_lock_order_for_quarter_hour(self, session: Session, shop: Shop) -> None:
        order_id = shipped_order(session, shop)
        for _ in range(MAX_PIN_ATTEMPTS):
            with pytest.raises(WrongPinError):
                release(session, shop, order_id, wrong_pin_of(order_id))

        for seconds, retry_after in ((0, 901), (1, 900), (899.5, 1)):
            with pytest.raises(PinLockedError) as locked:
                release(session, shop, order_id, now=later(seconds=seconds))
            assert locked.value.status == 429
            assert locked.value.retry_after_seconds == retry_after

        release(session, shop, order_id, now=NOW + PIN_LOCKOUT)
        assert status_of(session, order_id) == "delivered"

    def test_expired_lock_allows_five_more_attempts(self, session: Session, shop: Shop) -> None:
        order_id, after = shipped_order(session, shop), NOW + PIN_LOCKOUT
        for _ in range(MAX_PIN_ATTEMPTS):
            with pytest.raises(WrongPinError):
                release(session, shop, order_id, wrong_pin_of(order_id))

        for left in (4, 3, 2, 1, 0):
            with pytest.raises(WrongPinError) as refused:
                release(session, shop, order_id, wrong_pin_of(order_id), now=after)
            assert refused.value.extensions == {"attemptsLeft": left}
        with pytest.raises(PinLockedError):
            release(session, shop, order_id, now=after)

    def test_pin_attempts_are_counted_per_order(self, session: Session, shop: Shop) -> None:
        first, second = shipped_order(session, shop), shipped_order(session, shop)
        for _ in range(MAX_PIN_ATTEMPTS):
            with pytest.raises(WrongPinError):
                release(session, shop, first, wrong_pin_of(first))

        release(session, shop, second)
        assert status_of(session, second) == "delivered"

    def test_pin_of_another_order_is_wrong(self, session: Session, shop: Shop) -> None:
        first, second = shipped_order(session, shop), shipped_order(session, shop)
        assert pin_of(first) != pin_of(second)

        with pytest.raises(WrongPinError):
            release(session, shop, first, pin_of(second))

    def test_released_order_cannot_be_released_again(self, session: Session, shop: Shop) -> None:
        order_id = shipped_order(session, shop)
        release(session, shop, order_id)

        with pytest.raises(IllegalTransitionError, match="The order is delivered"):
            release(session, shop, order_id)
        assert_ledger_is_consistent(session)


class TestVisibility:
    def test_pin_is_shown_only_to_buyer_between_payment_and_delivery(
        self, session: Session, shop: Shop
    ) -> None:
        unpaid = place(session, shop, make_product(session, shop))
        assert fetch_view(session, unpaid, shop.buyer).delivery_pin is None

        order_id = paid_order(session, shop)
        officer = make_person(session, role="staff", staff_role="orders")
        assert fetch_view(session, order_id, shop.buyer).delivery_pin == pin_of(order_id)
        assert fetch_view(session, order_id, shop.vendor).delivery_pin is None
        assert fetch_view(session, order_id, officer).delivery_pin is None

        operations.accept_order(session, order_id=order_id, caller=shop.vendor, now=NOW)
        operations.ship_order(session, order_id=order_id, caller=shop.vendor, tracking_note=None, now=NOW)
        assert fetch_view(session, order_id, shop.buyer).delivery_pin == pin_of(order_id)
        release(session, shop, order_id)
        assert fetch_view(session, order_id, shop.buyer).delivery_pin is None

    def test_campus_representative_sees_only_orders_of_own_campus(self, session: Session, shop: Shop) -> None:
        order_id = paid_order(session, shop)
        representative = make_person(session, role="staff", staff_role="campus_rep")

        with pytest.raises(NotFoundError):
            fetch_view(session, order_id, representative)
        of_campus = Caller(**{**_fields(representative), "campus_id": shop.campus_id})
        assert fetch_view(session, order_id, of_campus).next_actions == []

    def test_next_actions_depend_on_party_and_status(self, session: Session, shop: Shop) -> None:
        unpaid, paid = place(session, shop, make_product(session, shop)), paid_order(session, shop)

        assert fetch_view(session, unpaid, shop.buyer).next_actions == ["pay", "cancel"]
        assert fetch_view(session, paid, shop.buyer).next_actions == ["cancel"]
        assert fetch_view(session, paid, shop.vendor).next_actions == ["cancel", "accept"]

    def test_order_with_quarantined_charge_offers_no_payment(self, session: Session, shop: Shop) -> None:
        order_id = place(session, shop, make_product(session, shop))
        pay(session, shop, order_id, amount_minor=100)

        assert fetch_view(session, order_id, shop.buyer).next_actions == ["cancel"]

    def test_lists_contain_only_orders_of_caller(self, session: Session, shop: Shop) -> None:
        unpaid = place(session, shop, make_product(session, shop))
        paid = paid_order(session, shop)
        other_buyers_order = paid_order(session, with_buyer(session, shop))
        page = PageRequest(10)

        own = queries.list_orders(
            session, role="buyer", owner_id=shop.buyer.id, status=None, page=page, context=VIEW
        )
        assert [order.id for order in own.items] == [paid, unpaid]
        inbound = queries.list_orders(
            session, role="vendor", owner_id=shop.store_id, status=None, page=page, context=VIEW
        )
        assert [order.id for order in inbound.items] == [other_buyers_order, paid]
        assert {order.delivery_pin for order in inbound.items} == {None}
        waiting = queries.list_orders(
            session, role="buyer", owner_id=shop.buyer.id, status="pending_payment", page=page, context=VIEW
        )
        assert [order.id for order in waiting.items] == [unpaid]

    def test_consecutive_pages_have_no_gap_or_overlap(self, session: Session, shop: Shop) -> None:
        placed = [paid_order(session, shop) for _ in range(5)]
        seen, position = [], None
        for _ in range(4):
            page = queries.list_orders(
                session,
                role="buyer",
                owner_id=shop.buyer.id,
                status=None,
                page=PageRequest(2, position),
                context=VIEW,
            )
            seen += [order.id for order in page.items]
            position = page.next_position
            if position is None:
                break
            paid_order(session, with_buyer(session, shop))

        assert seen == placed[::-1]


def _fields(caller: Caller) -> dict[str, Any]:
    return {name: getattr(caller, name) for name in Caller.__dataclass_fields__}
