"""Checkout: an order per vendor and a single payment for all, and the effects of charges."""

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
    assert_ledger_is_consistent,
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
    """Three stores of the same campus with the same buyer."""
    return neighbours(session, make_shop(session), 3)


@pytest.fixture
def products(session: Session, shops: list[Shop]) -> list[UUID]:
    """A product of each store."""
    return [make_product(session, shop) for shop in shops]


@pytest.fixture
def checkout(session: Session, shops: list[Shop], products: list[UUID]) -> CheckoutResult:
    """An unpaid checkout of all three products."""
    return check_out(session, shops[0], [RequestedItem(product_id, 1) for product_id in products])


def intent_of(checkout: CheckoutResult) -> Intent:
    assert checkout.payment is not None
    return checkout.payment


def current_intent(session: Session, shops: list[Shop], checkout: CheckoutResult) -> Intent:
    return get_or_create_intent(
        session,
        buyer_id=shops[0].buyer.id,
        target=PaymentTarget(checkout_id=checkout.checkout_id),
        callback_url=None,
        now=NOW,
    )


def cancel(session: Session, shops: list[Shop], order_id: UUID) -> None:
    order_cancellation.cancel_order(session, order_id=order_id, caller=shops[0].buyer, reason=None, now=NOW)


def expire(session: Session, order_id: UUID) -> None:
    orders.expire_order(session, order=lock_order(session, order_id=order_id), actor=SYSTEM, now=NOW)


def statuses(session: Session, order_ids: Sequence[UUID]) -> list[str]:
    return [status_of(session, order_id) for order_id in order_ids]


def refunded_minor(session: Session, buyer_id: UUID) -> int:
    """Sum the refunds to a buyer through the gateway."""
    total: int = session.execute(
        text(
            "SELECT coalesce(sum(amount_minor), 0) FROM refunds"
            " WHERE buyer_id = :id AND destination = 'gateway'"
        ),
        {"id": buyer_id},
    ).scalar_one()
    return int(total)


class TestPlacing:
    def test_checkout_creates_order_per_vendor_and_single_payment(
        self, session: Session, shops: list[Shop]
    ) -> None:
        first = [make_product(session, shops[0], quantity=9) for _ in range(2)]
        second = make_product(session, shops[1], price_minor=70_000)
        requested_items = [RequestedItem(first[0], 2), RequestedItem(second, 3), RequestedItem(first[1], 1)]

        checkout = check_out(session, shops[0], requested_items)

        rows = [row_of(session, "orders", id=order_id) for order_id in checkout.order_ids]
        assert [row["vendor_id"] for row in rows] == [shops[0].store_id, shops[1].store_id]
        assert {row["checkout_id"] for row in rows} == {checkout.checkout_id}
        # Each vendor delivers separately, so each order has a delivery fee.
        fees = DELIVERY_FEE_MINOR + SERVICE_FEE_MINOR
        assert [row["total_minor"] for row in rows] == [3 * PRICE_MINOR + fees, 210_000 + fees]
        lines = session.execute(
            text("SELECT product_id, quantity FROM order_items WHERE order_id = :id ORDER BY position"),
            {"id": checkout.order_ids[0]},
        ).all()
        assert [tuple(line) for line in lines] == [(first[0], 2), (first[1], 1)]
        intent = intent_of(checkout)
        assert intent.order_ids == list(checkout.order_ids)
        assert intent.amount_minor == sum(row["total_minor"] for row in rows)
        assert {row["payment_reference"] for row in rows} == {intent.reference}
        assert stock_of(session, first[0]) == (9, 2)
        assert_ledger_is_consistent(session)

    def test_ordered_quantities_are_removed_from_cart(
        self, session: Session, shops: list[Shop], products: list[UUID]
    ) -> None:
        buyer = shops[0].buyer
        put_into_cart(session, buyer.id, *((product_id, 2) for product_id in products))

        check_out(session, shops[0], [RequestedItem(products[0], 2), RequestedItem(products[1], 1)])
        assert cart_of(session, buyer.id) == {products[1]: 1, products[2]: 2}

        check_out(session, shops[0])
        assert cart_of(session, buyer.id) == {}
        assert stock_of(session, products[1]) == (5, 2)

    def test_items_outside_cart_leave_cart_unchanged(
        self, session: Session, shops: list[Shop], products: list[UUID]
    ) -> None:
        put_into_cart(session, shops[0].buyer.id, (products[0], 1))

        check_out(session, shops[0], [RequestedItem(products[1], 1)])

        assert cart_of(session, shops[0].buyer.id) == {products[0]: 1}

    def test_empty_cart_is_refused(self, session: Session, shops: list[Shop]) -> None:
        with pytest.raises(ValidationError, match="cart is empty"):
            check_out(session, shops[0])

    def test_each_unavailable_item_is_named_with_reason(self, session: Session, shops: list[Shop]) -> None:
        closed = neighbours(session, shops[0], 2)[1]
        session.execute(
            text("UPDATE vendor_profiles SET status = 'closed' WHERE id = :id"), {"id": closed.store_id}
        )
        own = neighbours(session, shops[0], 2)[1]
        session.execute(
            text("UPDATE vendor_profiles SET user_id = :user WHERE id = :id"),
            {"user": shops[0].buyer.id, "id": own.store_id},
        )
        requested_items = [
            RequestedItem(make_product(session, shops[0]), 1),
            RequestedItem(make_product(session, own), 1),
            RequestedItem(make_product(session, closed), 1),
            RequestedItem(make_product(session, make_shop(session)), 1),
            RequestedItem(make_product(session, shops[1], status="paused"), 1),
            RequestedItem(uuid4(), 1),
        ]

        with pytest.raises(ValidationError) as refused:
            check_out(session, shops[0], requested_items)

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

    def test_insufficient_stock_is_named_and_places_no_order(
        self, session: Session, shops: list[Shop], products: list[UUID]
    ) -> None:
        scarce = make_product(session, shops[2], quantity=1)

        with pytest.raises(InsufficientStockError) as refused:
            check_out(session, shops[0], [RequestedItem(products[0], 1), RequestedItem(scarce, 2)])

        assert [(fault.name, fault.reason) for fault in refused.value.invalid_params] == [
            ("items[1].quantity", "Exceeds the available stock (1).")
        ]
        assert stock_of(session, products[0]) == (5, 0)

    def test_expected_total_must_equal_sum_of_orders(
        self, session: Session, shops: list[Shop], products: list[UUID]
    ) -> None:
        requested_items = [RequestedItem(product_id, 1) for product_id in products]

        with pytest.raises(PriceChangedError, match=str(3 * TOTAL)):
            check_out(session, shops[0], requested_items, expected_total_minor=TOTAL)
        check_out(session, shops[0], requested_items, expected_total_minor=3 * TOTAL)

    def test_each_order_of_checkout_counts_towards_unpaid_limit(
        self, session: Session, shops: list[Shop], products: list[UUID]
    ) -> None:
        for _ in range(MAX_UNPAID_ORDERS - 2):
            place(session, shops[0], products[0])

        with pytest.raises(TooManyUnpaidOrdersError, match="6 unpaid orders"):
            check_out(session, shops[0], [RequestedItem(product_id, 1) for product_id in products])
        check_out(session, shops[0], [RequestedItem(product_id, 1) for product_id in products[:2]])

    def test_flash_sale_price_applies_within_checkout(
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

        checkout = check_out(
            session, shops[0], [RequestedItem(products[0], 1), RequestedItem(products[1], 2)]
        )

        assert row_of(session, "orders", id=checkout.order_ids[1])["subtotal_minor"] == 2_000
        assert row_of(session, "flash_sales", id=sale_id)["sold"] == 2
        cancel(session, shops, checkout.order_ids[1])
        assert row_of(session, "flash_sales", id=sale_id)["sold"] == 0


class TestPayment:
    def test_checkout_keeps_payment_while_all_orders_are_unpaid(
        self, session: Session, shops: list[Shop], checkout: CheckoutResult
    ) -> None:
        assert current_intent(session, shops, checkout) == intent_of(checkout)

    def test_payment_after_cancellation_covers_remaining_orders(
        self, session: Session, shops: list[Shop], checkout: CheckoutResult
    ) -> None:
        cancel(session, shops, checkout.order_ids[1])

        renewed = current_intent(session, shops, checkout)

        assert renewed.reference != intent_of(checkout).reference
        assert renewed.amount_minor == 2 * TOTAL
        assert renewed.order_ids == [checkout.order_ids[0], checkout.order_ids[2]]
        assert row_of(session, "payment_intents", id=intent_of(checkout).id)["status"] == "abandoned"
        assert current_intent(session, shops, checkout) == renewed

    def test_order_of_checkout_may_be_paid_separately(
        self, session: Session, shops: list[Shop], checkout: CheckoutResult
    ) -> None:
        separate = make_intent(session, shops[0], checkout.order_ids[0])

        assert (separate.order_ids, separate.amount_minor) == (list(checkout.order_ids[:1]), TOTAL)
        assert separate.checkout_id == checkout.checkout_id
        shown = [row_of(session, "orders", id=order_id)["payment_status"] for order_id in checkout.order_ids]
        assert shown == ["initialized", "abandoned", "abandoned"]
        assert apply(session, make_charge(separate)) is ChargeOutcome.APPLIED
        rest = current_intent(session, shops, checkout)
        assert rest.order_ids == list(checkout.order_ids[1:])
        assert apply(session, make_charge(rest)) is ChargeOutcome.APPLIED
        assert statuses(session, checkout.order_ids) == ["paid_escrow"] * 3
        assert_ledger_is_consistent(session)

    def test_combined_payment_replaces_separate_intents(
        self, session: Session, shops: list[Shop], checkout: CheckoutResult
    ) -> None:
        separate = [make_intent(session, shops[0], order_id) for order_id in checkout.order_ids[:2]]

        combined = current_intent(session, shops, checkout)

        assert combined.order_ids == list(checkout.order_ids)
        for intent in separate:
            assert row_of(session, "payment_intents", id=intent.id)["status"] == "abandoned"

    def test_later_callback_url_is_stored_on_intent(
        self, session: Session, shops: list[Shop], checkout: CheckoutResult
    ) -> None:
        found = get_or_create_intent(
            session,
            buyer_id=shops[0].buyer.id,
            target=PaymentTarget(checkout_id=checkout.checkout_id),
            callback_url="https://shop.example/paid",
            now=NOW,
        )

        assert found.reference == intent_of(checkout).reference
        row = row_of(session, "payment_intents", id=found.id)
        assert found.callback_url == row["callback_url"] == "https://shop.example/paid"

    def test_quarantined_charge_of_order_blocks_payment_of_whole_checkout(
        self, session: Session, shops: list[Shop], checkout: CheckoutResult
    ) -> None:
        apply(session, make_charge(make_intent(session, shops[0], checkout.order_ids[0]), amount_minor=5))

        with pytest.raises(NotPayableError, match="under review"):
            current_intent(session, shops, checkout)
        assert make_intent(session, shops[0], checkout.order_ids[1]).amount_minor == TOTAL

    def test_only_order_with_amount_due_offers_payment_after_accepted_shortfall(
        self, session: Session, shops: list[Shop], checkout: CheckoutResult
    ) -> None:
        """An accepted payment was a kobo short, so a single order has an amount due and the others wait."""
        charge = make_charge(intent_of(checkout), amount_minor=3 * TOTAL - 1)
        assert apply(session, charge) is ChargeOutcome.QUARANTINED
        officer = make_officer(session)
        quarantine.resolve_quarantined_charge(
            session,
            quarantined_charge_id=row_of(session, "quarantined_charges", gateway_charge_id=charge.id)["id"],
            action="accept_rest",
            note="The bank took a kobo.",
            act=act_of(officer, now=NOW),
        )

        views = [
            queries.fetch_order_view(session, order_id=order_id, caller=shops[0].buyer, context=VIEW)
            for order_id in checkout.order_ids
        ]

        assert sorted(order.due_minor for order in views) == [0, 0, 1]
        for order in views:
            assert ("pay" in order.next_actions) == (order.due_minor > 0)
            if not order.due_minor:
                with pytest.raises(NotPayableError):
                    make_intent(session, shops[0], order.id)
        rest = current_intent(session, shops, checkout)
        assert (rest.amount_minor, rest.order_ids) == (1, list(checkout.order_ids))
        assert apply(session, make_charge(rest)) is ChargeOutcome.APPLIED
        assert statuses(session, checkout.order_ids) == ["paid_escrow"] * 3
        assert_ledger_is_consistent(session)

    def test_payment_page_of_outdated_intent_is_not_recorded(
        self, session: Session, shops: list[Shop], checkout: CheckoutResult
    ) -> None:
        page = lifecycle.PaymentPage("https://pay.example/abc", "abc")
        cancel(session, shops, checkout.order_ids[1])

        with pytest.raises(NotPayableError, match="Try again"):
            lifecycle.record_hosted_page(session, intent=intent_of(checkout), page=page, now=NOW)

        lifecycle.record_hosted_page(
            session, intent=current_intent(session, shops, checkout), page=page, now=NOW
        )


class TestCharge:
    def test_charge_pays_all_orders_and_consumes_stock(
        self, session: Session, products: list[UUID], checkout: CheckoutResult
    ) -> None:
        assert apply(session, make_charge(intent_of(checkout))) is ChargeOutcome.APPLIED

        assert statuses(session, checkout.order_ids) == ["paid_escrow"] * 3
        assert [stock_of(session, product_id) for product_id in products] == [(4, 0)] * 3
        for order_id in checkout.order_ids:
            assert balances_of_order(session, order_id)["escrow"] == TOTAL
        assert_ledger_is_consistent(session)

    @pytest.mark.parametrize("short_by", [1, TOTAL, 3 * TOTAL - 1])
    def test_short_charge_pays_no_order_and_is_quarantined(
        self, session: Session, checkout: CheckoutResult, short_by: int
    ) -> None:
        charge = make_charge(intent_of(checkout), amount_minor=3 * TOTAL - short_by)

        assert apply(session, charge) is ChargeOutcome.QUARANTINED

        assert statuses(session, checkout.order_ids) == ["pending_payment"] * 3
        quarantined_charge = row_of(session, "quarantined_charges", gateway_charge_id=charge.id)
        assert (quarantined_charge["reason"], quarantined_charge["amount_minor"]) == (
            "amount_below_total",
            3 * TOTAL - short_by,
        )
        assert_ledger_is_consistent(session)

    @pytest.mark.parametrize("ended", [(0,), (1,), (0, 2), (0, 1, 2)], ids=repr)
    @pytest.mark.parametrize("end", ["cancelled", "expired"])
    def test_charge_on_old_page_pays_open_orders_and_refunds_rest(
        self, session: Session, shops: list[Shop], checkout: CheckoutResult, ended: tuple[int, ...], end: str
    ) -> None:
        for number in ended:
            if end == "cancelled":
                cancel(session, shops, checkout.order_ids[number])
            else:
                expire(session, checkout.order_ids[number])

        outcome = apply(session, make_charge(intent_of(checkout)))

        assert outcome is (ChargeOutcome.RETURNED if len(ended) == 3 else ChargeOutcome.APPLIED)
        found = statuses(session, checkout.order_ids)
        assert found == [end if number in ended else "paid_escrow" for number in range(3)]
        assert refunded_minor(session, shops[0].buyer.id) == len(ended) * TOTAL
        assert wallet_of(session, shops[0].buyer.id) == 0
        assert_ledger_is_consistent(session)

    def test_short_charge_on_old_page_may_cover_open_orders(
        self, session: Session, shops: list[Shop], checkout: CheckoutResult
    ) -> None:
        cancel(session, shops, checkout.order_ids[2])

        assert (
            apply(session, make_charge(intent_of(checkout), amount_minor=3 * TOTAL - 7))
            is ChargeOutcome.APPLIED
        )

        assert statuses(session, checkout.order_ids[:2]) == ["paid_escrow"] * 2
        assert refunded_minor(session, shops[0].buyer.id) == TOTAL - 7
        assert_ledger_is_consistent(session)

    def test_excess_over_checkout_total_is_credited_to_wallet(
        self, session: Session, shops: list[Shop], checkout: CheckoutResult
    ) -> None:
        cancel(session, shops, checkout.order_ids[2])

        apply(session, make_charge(intent_of(checkout), amount_minor=3 * TOTAL + 7))

        assert refunded_minor(session, shops[0].buyer.id) == TOTAL
        assert wallet_of(session, shops[0].buyer.id) == 7
        assert_ledger_is_consistent(session)

    @pytest.mark.parametrize("sequence", list(permutations(["old", "new", "cancel"])), ids="-".join)
    def test_charges_on_two_pages_and_cancellation_give_same_result_in_any_sequence(
        self, session: Session, shops: list[Shop], checkout: CheckoutResult, sequence: tuple[str, ...]
    ) -> None:
        """The new page pays the first order alone; the old page pays all orders."""
        pages = {"old": intent_of(checkout), "new": make_intent(session, shops[0], checkout.order_ids[0])}
        last = checkout.order_ids[2]

        for step in sequence:
            if step == "cancel":
                cancel(session, shops, last)
            else:
                apply(session, make_charge(pages[step]))

        assert statuses(session, checkout.order_ids) == ["paid_escrow", "paid_escrow", "cancelled"]
        # Four order totals were paid; two are kept and two refunded, in any sequence.
        assert refunded_minor(session, shops[0].buyer.id) == 2 * TOTAL
        assert wallet_of(session, shops[0].buyer.id) == 0
        assert_ledger_is_consistent(session)

    def test_repeated_charge_is_applied_once(
        self, session: Session, shops: list[Shop], checkout: CheckoutResult
    ) -> None:
        cancel(session, shops, checkout.order_ids[1])
        charge = make_charge(intent_of(checkout))

        assert [apply(session, charge) for _ in range(3)] == [
            ChargeOutcome.APPLIED,
            ChargeOutcome.DUPLICATE,
            ChargeOutcome.DUPLICATE,
        ]
        assert refunded_minor(session, shops[0].buyer.id) == TOTAL
        assert_ledger_is_consistent(session)

    def test_paid_order_of_checkout_is_cancelled_separately(
        self, session: Session, shops: list[Shop], checkout: CheckoutResult, products: list[UUID]
    ) -> None:
        apply(session, make_charge(intent_of(checkout)))

        cancel(session, shops, checkout.order_ids[1])

        assert statuses(session, checkout.order_ids) == ["paid_escrow", "cancelled", "paid_escrow"]
        assert refunded_minor(session, shops[0].buyer.id) == TOTAL
        assert stock_of(session, products[1]) == (5, 0)
        assert_ledger_is_consistent(session)


class TestExpiry:
    def open_payment_page(self, session: Session, intent: Intent, *, minutes: float) -> None:
        lifecycle.extend_reservations(session, intent=intent, now=later(minutes=minutes))

    @pytest.mark.parametrize(
        ("opened_minutes", "payable_until"),
        [([0], 30), ([10], 40), ([29.9], 59.9), ([10, 35], 60), ([29, 58], 60)],
    )
    def test_opening_payment_page_extends_expiry_by_half_hour_within_first_hour(
        self, session: Session, checkout: CheckoutResult, opened_minutes: list[float], payable_until: float
    ) -> None:
        for minutes in opened_minutes:
            self.open_payment_page(session, intent_of(checkout), minutes=minutes)

        found = {row_of(session, "orders", id=order_id)["expires_at"] for order_id in checkout.order_ids}
        assert found == {later(minutes=payable_until)}

    def test_intent_without_payment_page_does_not_extend_expiry(
        self, session: Session, shops: list[Shop], checkout: CheckoutResult
    ) -> None:
        get_or_create_intent(
            session,
            buyer_id=shops[0].buyer.id,
            target=PaymentTarget(checkout_id=checkout.checkout_id),
            callback_url=None,
            now=later(minutes=20),
        )

        assert row_of(session, "orders", id=checkout.order_ids[0])["expires_at"] == later(minutes=30)

    def test_checkout_is_not_payable_after_an_hour(
        self, session: Session, shops: list[Shop], checkout: CheckoutResult
    ) -> None:
        self.open_payment_page(session, intent_of(checkout), minutes=29)
        self.open_payment_page(session, intent_of(checkout), minutes=55)

        for minutes, payable in ((59.9, True), (60, False)):
            try:
                make_intent(session, shops[0], checkout.order_ids[0], now=later(minutes=minutes))
                refused = False
            except NotPayableError:
                refused = True
            assert refused != payable


def test_buyer_without_campus_cannot_mix_campuses(session: Session, shops: list[Shop]) -> None:
    """A checkout has a single address, so all items must be of the first item's campus."""
    elsewhere = make_shop(session)
    without_campus = replace(shops[0], buyer=replace(shops[0].buyer, campus_id=None))

    with pytest.raises(ValidationError) as refused:
        check_out(
            session,
            without_campus,
            [
                RequestedItem(make_product(session, shops[0]), 1),
                RequestedItem(make_product(session, elsewhere), 1),
            ],
        )

    assert [fault.name for fault in refused.value.invalid_params] == ["items[1].productId"]
