"""Checking out: an order per vendor and one payment for all, or nothing at all; what charges then make of them."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import permutations
from uuid import UUID, uuid4

import pytest
from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.cart.operations import RequestedItem
from marketplace.catalog.promotions import flash_sales
from marketplace.kernel.errors import ValidationError
from marketplace.orders import operations as orders, queries
from marketplace.orders.deadlines import MAX_UNPAID_ORDERS
from marketplace.orders.placing.order_validation import InsufficientStockError
from marketplace.orders.placing.place_order import PriceChangedError, TooManyUnpaidOrdersError
from marketplace.orders.transitions import SYSTEM, lock_order
from marketplace.payments.charges import quarantine
from marketplace.payments.charges.apply import ChargeOutcome
from marketplace.payments.intents import lifecycle
from marketplace.payments.intents.lifecycle import (
    CheckoutResult,
    Intent,
    NotPayableError,
    PaymentTarget,
    get_or_create_intent,
)
from marketplace.payments.refunds import order_cancellation
from marketplace.payments.refunds.create import summarize_refunds
from tests.support.finance import act_of, make_officer
from tests.support.purchases import (
    DELIVERY_FEE_MINOR,
    NOW,
    PIN_KEY,
    PRICE_MINOR,
    SERVICE_FEE_MINOR,
    Shop,
    apply,
    assert_books_are_whole,
    balances_of_order,
    cart_of,
    check_out,
    later,
    make_charge,
    make_intent,
    make_product,
    make_shop,
    neighbours,
    place,
    put_into_cart,
    row_of,
    status_of,
    stock_of,
    wallet_of,
)

VIEW = queries.OrderViewContext("https://media.example", PIN_KEY, summarize_refunds, now=NOW)
TOTAL = PRICE_MINOR + DELIVERY_FEE_MINOR + SERVICE_FEE_MINOR


@pytest.fixture
def shops(session: Session) -> list[Shop]:
    """Three stores of one campus, and one buyer."""
    return neighbours(session, make_shop(session), 3)


@pytest.fixture
def products(session: Session, shops: list[Shop]) -> list[UUID]:
    """A product of each."""
    return [make_product(session, shop) for shop in shops]


@pytest.fixture
def done(session: Session, shops: list[Shop], products: list[UUID]) -> CheckoutResult:
    """All three checked out together, unpaid."""
    return check_out(session, shops[0], [RequestedItem(product_id, 1) for product_id in products])


def intent_of(done: CheckoutResult) -> Intent:
    assert done.payment is not None
    return done.payment


def again(session: Session, shops: list[Shop], done: CheckoutResult) -> Intent:
    return get_or_create_intent(
        session,
        buyer_id=shops[0].buyer.id,
        target=PaymentTarget(checkout_id=done.checkout_id),
        callback_url=None,
        now=NOW,
    )


def cancel(session: Session, shops: list[Shop], order_id: UUID) -> None:
    order_cancellation.cancel_order(session, order_id=order_id, caller=shops[0].buyer, reason=None, now=NOW)


def expire(session: Session, order_id: UUID) -> None:
    orders.expire_order(session, order=lock_order(session, order_id=order_id), actor=SYSTEM, now=NOW)


def statuses(session: Session, order_ids: Sequence[UUID]) -> list[str]:
    return [status_of(session, order_id) for order_id in order_ids]


def sent_back(session: Session, buyer_id: UUID) -> int:
    """Sum what is on its way back to somebody by the gateway."""
    total: int = session.execute(
        text(
            "SELECT coalesce(sum(amount_minor), 0) FROM refunds"
            " WHERE buyer_id = :id AND destination = 'gateway'"
        ),
        {"id": buyer_id},
    ).scalar_one()
    return int(total)


class TestPlacing:
    def test_each_vendor_gets_an_order_and_one_payment_is_for_all(
        self, session: Session, shops: list[Shop]
    ) -> None:
        first = [make_product(session, shops[0], quantity=9) for _ in range(2)]
        second = make_product(session, shops[1], price_minor=70_000)
        wishes = [RequestedItem(first[0], 2), RequestedItem(second, 3), RequestedItem(first[1], 1)]

        done = check_out(session, shops[0], wishes)

        rows = [row_of(session, "orders", id=order_id) for order_id in done.order_ids]
        assert [row["vendor_id"] for row in rows] == [shops[0].store_id, shops[1].store_id]
        assert {row["checkout_id"] for row in rows} == {done.checkout_id}
        # Each vendor delivers, so each delivery is paid.
        fees = DELIVERY_FEE_MINOR + SERVICE_FEE_MINOR
        assert [row["total_minor"] for row in rows] == [3 * PRICE_MINOR + fees, 210_000 + fees]
        lines = session.execute(
            text("SELECT product_id, quantity FROM order_items WHERE order_id = :id ORDER BY position"),
            {"id": done.order_ids[0]},
        ).all()
        assert [tuple(line) for line in lines] == [(first[0], 2), (first[1], 1)]
        intent = intent_of(done)
        assert intent.order_ids == list(done.order_ids)
        assert intent.amount_minor == sum(row["total_minor"] for row in rows)
        assert {row["payment_reference"] for row in rows} == {intent.reference}
        assert stock_of(session, first[0]) == (9, 2)
        assert_books_are_whole(session)

    def test_the_cart_is_emptied_of_what_was_ordered(
        self, session: Session, shops: list[Shop], products: list[UUID]
    ) -> None:
        buyer = shops[0].buyer
        put_into_cart(session, buyer.id, *((product_id, 2) for product_id in products))

        check_out(session, shops[0], [RequestedItem(products[0], 2), RequestedItem(products[1], 1)])
        assert cart_of(session, buyer.id) == {products[1]: 1, products[2]: 2}

        check_out(session, shops[0])
        assert cart_of(session, buyer.id) == {}
        assert stock_of(session, products[1]) == (5, 2)

    def test_what_is_not_in_the_cart_leaves_it_alone(
        self, session: Session, shops: list[Shop], products: list[UUID]
    ) -> None:
        put_into_cart(session, shops[0].buyer.id, (products[0], 1))

        check_out(session, shops[0], [RequestedItem(products[1], 1)])

        assert cart_of(session, shops[0].buyer.id) == {products[0]: 1}

    def test_an_empty_cart_is_not_checked_out(self, session: Session, shops: list[Shop]) -> None:
        with pytest.raises(ValidationError, match="cart is empty"):
            check_out(session, shops[0])

    def test_each_item_that_is_not_to_be_had_is_named(self, session: Session, shops: list[Shop]) -> None:
        shut = neighbours(session, shops[0], 2)[1]
        session.execute(
            text("UPDATE vendor_profiles SET status = 'closed' WHERE id = :id"), {"id": shut.store_id}
        )
        own = neighbours(session, shops[0], 2)[1]
        session.execute(
            text("UPDATE vendor_profiles SET user_id = :user WHERE id = :id"),
            {"user": shops[0].buyer.id, "id": own.store_id},
        )
        wishes = [
            RequestedItem(make_product(session, shops[0]), 1),
            RequestedItem(make_product(session, own), 1),
            RequestedItem(make_product(session, shut), 1),
            RequestedItem(make_product(session, make_shop(session)), 1),
            RequestedItem(make_product(session, shops[1], status="paused"), 1),
            RequestedItem(uuid4(), 1),
        ]

        with pytest.raises(ValidationError) as refused:
            check_out(session, shops[0], wishes)

        assert refused.value.status == 422
        assert [(fault.name, fault.reason) for fault in refused.value.invalid_params] == [
            ("items[1].productId", "You cannot order from your own store."),
            ("items[2].productId", "The store of this product accepts no orders now."),
            (
                "items[3].productId",
                "This product is sold on another campus. Order products of your own campus only.",
            ),
            ("items[4].productId", "This product is not available."),
            ("items[5].productId", "This product is not available."),
        ]

    def test_what_is_sold_out_is_named_and_nothing_is_placed(
        self, session: Session, shops: list[Shop], products: list[UUID]
    ) -> None:
        few = make_product(session, shops[2], quantity=1)

        with pytest.raises(InsufficientStockError) as refused:
            check_out(session, shops[0], [RequestedItem(products[0], 1), RequestedItem(few, 2)])

        assert [(fault.name, fault.reason) for fault in refused.value.invalid_params] == [
            ("items[1].quantity", "Exceeds the available stock (1).")
        ]
        assert stock_of(session, products[0]) == (5, 0)

    def test_the_expected_total_is_the_sum(
        self, session: Session, shops: list[Shop], products: list[UUID]
    ) -> None:
        wishes = [RequestedItem(product_id, 1) for product_id in products]

        with pytest.raises(PriceChangedError, match=str(3 * TOTAL)):
            check_out(session, shops[0], wishes, expected_total_minor=TOTAL)
        check_out(session, shops[0], wishes, expected_total_minor=3 * TOTAL)

    def test_all_of_its_orders_count_among_the_unpaid(
        self, session: Session, shops: list[Shop], products: list[UUID]
    ) -> None:
        for _ in range(MAX_UNPAID_ORDERS - 2):
            place(session, shops[0], products[0])

        with pytest.raises(TooManyUnpaidOrdersError, match="6 unpaid orders"):
            check_out(session, shops[0], [RequestedItem(product_id, 1) for product_id in products])
        check_out(session, shops[0], [RequestedItem(product_id, 1) for product_id in products[:2]])

    def test_a_flash_sale_is_honoured_in_each_order(
        self, session: Session, shops: list[Shop], products: list[UUID]
    ) -> None:
        sale_id = uuid4()
        session.execute(
            text(
                "INSERT INTO flash_sales (id, product_id, sale_price_minor, starts_at, ends_at, quantity, created_by)"
                " VALUES (:id, :product, 1000, :starts, :ends, 3, :by)"
            ),
            {
                "id": sale_id,
                "product": products[1],
                "starts": later(hours=-1),
                "ends": later(hours=1),
                "by": shops[0].vendor.id,
            },
        )
        flash_sales.on_boundary(session, product_id=products[1], now=NOW)

        done = check_out(session, shops[0], [RequestedItem(products[0], 1), RequestedItem(products[1], 2)])

        assert row_of(session, "orders", id=done.order_ids[1])["subtotal_minor"] == 2_000
        assert row_of(session, "flash_sales", id=sale_id)["sold"] == 2
        cancel(session, shops, done.order_ids[1])
        assert row_of(session, "flash_sales", id=sale_id)["sold"] == 0


class TestItsPayment:
    def test_checkout_keeps_its_payment_while_all_orders_are_unpaid(
        self, session: Session, shops: list[Shop], done: CheckoutResult
    ) -> None:
        assert again(session, shops, done) == intent_of(done)

    def test_after_a_cancellation_it_is_for_the_rest(
        self, session: Session, shops: list[Shop], done: CheckoutResult
    ) -> None:
        cancel(session, shops, done.order_ids[1])

        fresh = again(session, shops, done)

        assert fresh.reference != intent_of(done).reference
        assert fresh.amount_minor == 2 * TOTAL
        assert fresh.order_ids == [done.order_ids[0], done.order_ids[2]]
        assert row_of(session, "payment_intents", id=intent_of(done).id)["status"] == "abandoned"
        assert again(session, shops, done) == fresh

    def test_order_of_a_checkout_may_be_paid_alone(
        self, session: Session, shops: list[Shop], done: CheckoutResult
    ) -> None:
        alone = make_intent(session, shops[0], done.order_ids[0])

        assert (alone.order_ids, alone.amount_minor) == (list(done.order_ids[:1]), TOTAL)
        assert alone.checkout_id == done.checkout_id
        shown = [row_of(session, "orders", id=order_id)["payment_status"] for order_id in done.order_ids]
        assert shown == ["initialized", "abandoned", "abandoned"]
        assert apply(session, make_charge(alone)) is ChargeOutcome.APPLIED
        rest = again(session, shops, done)
        assert rest.order_ids == list(done.order_ids[1:])
        assert apply(session, make_charge(rest)) is ChargeOutcome.APPLIED
        assert statuses(session, done.order_ids) == ["paid_escrow"] * 3
        assert_books_are_whole(session)

    def test_and_all_together_again_after_that(
        self, session: Session, shops: list[Shop], done: CheckoutResult
    ) -> None:
        alone = [make_intent(session, shops[0], order_id) for order_id in done.order_ids[:2]]

        whole = again(session, shops, done)

        assert whole.order_ids == list(done.order_ids)
        for given_up in alone:
            assert row_of(session, "payment_intents", id=given_up.id)["status"] == "abandoned"

    def test_a_callback_that_comes_later_is_kept(
        self, session: Session, shops: list[Shop], done: CheckoutResult
    ) -> None:
        found = get_or_create_intent(
            session,
            buyer_id=shops[0].buyer.id,
            target=PaymentTarget(checkout_id=done.checkout_id),
            callback_url="https://shop.example/paid",
            now=NOW,
        )

        assert found.reference == intent_of(done).reference
        row = row_of(session, "payment_intents", id=found.id)
        assert found.callback_url == row["callback_url"] == "https://shop.example/paid"

    def test_while_money_for_one_of_them_is_held_back_nothing_more_is_taken(
        self, session: Session, shops: list[Shop], done: CheckoutResult
    ) -> None:
        apply(session, make_charge(make_intent(session, shops[0], done.order_ids[0]), amount_minor=5))

        with pytest.raises(NotPayableError, match="under review"):
            again(session, shops, done)
        assert make_intent(session, shops[0], done.order_ids[1]).amount_minor == TOTAL

    def test_what_lacks_nothing_is_not_offered_to_be_paid_alone(
        self, session: Session, shops: list[Shop], done: CheckoutResult
    ) -> None:
        """An officer accepted a payment that was a kobo short: it lacks in one order, and the others wait for that."""
        charge = make_charge(intent_of(done), amount_minor=3 * TOTAL - 1)
        assert apply(session, charge) is ChargeOutcome.QUARANTINED
        officer = make_officer(session)
        quarantine.resolve_quarantined_charge(
            session,
            quarantined_charge_id=row_of(session, "quarantined_charges", gateway_charge_id=charge.id)["id"],
            action="accept_rest",
            note="The bank took a kobo.",
            act=act_of(officer, now=NOW),
        )

        seen = [
            queries.fetch_order_view(session, order_id=order_id, caller=shops[0].buyer, context=VIEW)
            for order_id in done.order_ids
        ]

        assert sorted(order.due_minor for order in seen) == [0, 0, 1]
        for order in seen:
            assert ("pay" in order.next_actions) == (order.due_minor > 0)
            if not order.due_minor:
                with pytest.raises(NotPayableError):
                    make_intent(session, shops[0], order.id)
        rest = again(session, shops, done)
        assert (rest.amount_minor, rest.order_ids) == (1, list(done.order_ids))
        assert apply(session, make_charge(rest)) is ChargeOutcome.APPLIED
        assert statuses(session, done.order_ids) == ["paid_escrow"] * 3
        assert_books_are_whole(session)

    def test_a_page_is_not_recorded_for_more_than_waits(
        self, session: Session, shops: list[Shop], done: CheckoutResult
    ) -> None:
        page = lifecycle.PaymentPage("https://pay.example/abc", "abc")
        cancel(session, shops, done.order_ids[1])

        with pytest.raises(NotPayableError, match="Try again"):
            lifecycle.record_hosted_page(session, intent=intent_of(done), page=page, now=NOW)

        lifecycle.record_hosted_page(session, intent=again(session, shops, done), page=page, now=NOW)


class TestItsCharge:
    def test_all_are_paid_and_their_stock_is_taken(
        self, session: Session, products: list[UUID], done: CheckoutResult
    ) -> None:
        assert apply(session, make_charge(intent_of(done))) is ChargeOutcome.APPLIED

        assert statuses(session, done.order_ids) == ["paid_escrow"] * 3
        assert [stock_of(session, product_id) for product_id in products] == [(4, 0)] * 3
        for order_id in done.order_ids:
            assert balances_of_order(session, order_id)["escrow"] == TOTAL
        assert_books_are_whole(session)

    @pytest.mark.parametrize("short_by", [1, TOTAL, 3 * TOTAL - 1])
    def test_short_charge_pays_no_order_and_is_quarantined(
        self, session: Session, done: CheckoutResult, short_by: int
    ) -> None:
        charge = make_charge(intent_of(done), amount_minor=3 * TOTAL - short_by)

        assert apply(session, charge) is ChargeOutcome.QUARANTINED

        assert statuses(session, done.order_ids) == ["pending_payment"] * 3
        held = row_of(session, "quarantined_charges", gateway_charge_id=charge.id)
        assert (held["reason"], held["amount_minor"]) == ("amount_below_total", 3 * TOTAL - short_by)
        assert_books_are_whole(session)

    @pytest.mark.parametrize("ended", [(0,), (1,), (0, 2), (0, 1, 2)], ids=repr)
    @pytest.mark.parametrize("end", ["cancelled", "expired"])
    def test_the_old_page_pays_what_waits_and_sends_the_rest_back(
        self, session: Session, shops: list[Shop], done: CheckoutResult, ended: tuple[int, ...], end: str
    ) -> None:
        for number in ended:
            if end == "cancelled":
                cancel(session, shops, done.order_ids[number])
            else:
                expire(session, done.order_ids[number])

        outcome = apply(session, make_charge(intent_of(done)))

        assert outcome is (ChargeOutcome.RETURNED if len(ended) == 3 else ChargeOutcome.APPLIED)
        found = statuses(session, done.order_ids)
        assert found == [end if number in ended else "paid_escrow" for number in range(3)]
        assert sent_back(session, shops[0].buyer.id) == len(ended) * TOTAL
        assert wallet_of(session, shops[0].buyer.id) == 0
        assert_books_are_whole(session)

    def test_a_short_one_for_the_old_page_may_still_cover_what_waits(
        self, session: Session, shops: list[Shop], done: CheckoutResult
    ) -> None:
        cancel(session, shops, done.order_ids[2])

        assert (
            apply(session, make_charge(intent_of(done), amount_minor=3 * TOTAL - 7)) is ChargeOutcome.APPLIED
        )

        assert statuses(session, done.order_ids[:2]) == ["paid_escrow"] * 2
        assert sent_back(session, shops[0].buyer.id) == TOTAL - 7
        assert_books_are_whole(session)

    def test_what_is_above_all_of_it_stays_in_the_wallet(
        self, session: Session, shops: list[Shop], done: CheckoutResult
    ) -> None:
        cancel(session, shops, done.order_ids[2])

        apply(session, make_charge(intent_of(done), amount_minor=3 * TOTAL + 7))

        assert sent_back(session, shops[0].buyer.id) == TOTAL
        assert wallet_of(session, shops[0].buyer.id) == 7
        assert_books_are_whole(session)

    @pytest.mark.parametrize("sequence", list(permutations(["old", "new", "cancel"])), ids="-".join)
    def test_charges_on_two_pages_and_a_cancellation_in_any_order(
        self, session: Session, shops: list[Shop], done: CheckoutResult, sequence: tuple[str, ...]
    ) -> None:
        """The first order is paid alone on a page of its own, and all of them on the older one."""
        pages = {"old": intent_of(done), "new": make_intent(session, shops[0], done.order_ids[0])}
        last = done.order_ids[2]

        for step in sequence:
            if step == "cancel":
                cancel(session, shops, last)
            else:
                apply(session, make_charge(pages[step]))

        assert statuses(session, done.order_ids) == ["paid_escrow", "paid_escrow", "cancelled"]
        # Four totals came; two of them are kept, whatever came first.
        assert sent_back(session, shops[0].buyer.id) == 2 * TOTAL
        assert wallet_of(session, shops[0].buyer.id) == 0
        assert_books_are_whole(session)

    def test_told_of_twice_it_pays_once(
        self, session: Session, shops: list[Shop], done: CheckoutResult
    ) -> None:
        cancel(session, shops, done.order_ids[1])
        charge = make_charge(intent_of(done))

        assert [apply(session, charge) for _ in range(3)] == [
            ChargeOutcome.APPLIED,
            ChargeOutcome.DUPLICATE,
            ChargeOutcome.DUPLICATE,
        ]
        assert sent_back(session, shops[0].buyer.id) == TOTAL
        assert_books_are_whole(session)

    def test_a_paid_order_of_it_is_cancelled_alone(
        self, session: Session, shops: list[Shop], done: CheckoutResult, products: list[UUID]
    ) -> None:
        apply(session, make_charge(intent_of(done)))

        cancel(session, shops, done.order_ids[1])

        assert statuses(session, done.order_ids) == ["paid_escrow", "cancelled", "paid_escrow"]
        assert sent_back(session, shops[0].buyer.id) == TOTAL
        assert stock_of(session, products[1]) == (5, 0)
        assert_books_are_whole(session)


class TestTime:
    def open_page(self, session: Session, intent: Intent, *, minutes: float) -> None:
        lifecycle.extend_reservations(session, intent=intent, now=later(minutes=minutes))

    @pytest.mark.parametrize(
        ("opened", "payable_until"), [([0], 30), ([10], 40), ([29.9], 59.9), ([10, 35], 60), ([29, 58], 60)]
    )
    def test_a_page_that_opens_keeps_the_stock_for_half_an_hour_more_within_the_hour(
        self, session: Session, done: CheckoutResult, opened: list[float], payable_until: float
    ) -> None:
        for minutes in opened:
            self.open_page(session, intent_of(done), minutes=minutes)

        found = {row_of(session, "orders", id=order_id)["expires_at"] for order_id in done.order_ids}
        assert found == {later(minutes=payable_until)}

    def test_an_intent_alone_gives_no_time(
        self, session: Session, shops: list[Shop], done: CheckoutResult
    ) -> None:
        get_or_create_intent(
            session,
            buyer_id=shops[0].buyer.id,
            target=PaymentTarget(checkout_id=done.checkout_id),
            callback_url=None,
            now=later(minutes=20),
        )

        assert row_of(session, "orders", id=done.order_ids[0])["expires_at"] == later(minutes=30)

    def test_checkout_is_not_payable_after_an_hour(
        self, session: Session, shops: list[Shop], done: CheckoutResult
    ) -> None:
        self.open_page(session, intent_of(done), minutes=29)
        self.open_page(session, intent_of(done), minutes=55)

        for minutes, payable in ((59.9, True), (60, False)):
            try:
                make_intent(session, shops[0], done.order_ids[0], now=later(minutes=minutes))
                refused = False
            except NotPayableError:
                refused = True
            assert refused != payable


def test_a_buyer_without_a_campus_orders_on_one_at_a_time(session: Session, shops: list[Shop]) -> None:
    """There is one address, so there is one campus: the first item's."""
    elsewhere = make_shop(session)
    nomad = replace(shops[0], buyer=replace(shops[0].buyer, campus_id=None))

    with pytest.raises(ValidationError) as refused:
        check_out(
            session,
            nomad,
            [
                RequestedItem(make_product(session, shops[0]), 1),
                RequestedItem(make_product(session, elsewhere), 1),
            ],
        )

    assert [fault.name for fault in refused.value.invalid_params] == ["items[1].productId"]
