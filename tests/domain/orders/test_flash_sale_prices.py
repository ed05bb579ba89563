"""Flash sale prices in orders and carts: applied prices, and units claimed and returned."""

from datetime import datetime, timedelta
from uuid import UUID

import pytest
from sqlalchemy import text, update
from sqlalchemy.orm import Session

from marketplace.cart import operations as cart
from marketplace.cart.operations import RequestedItem
from marketplace.cart.queries import CartView, fetch_cart
from marketplace.catalog.models import Product
from marketplace.catalog.promotions import flash_sales
from marketplace.catalog.promotions.flash_sales import Discount
from marketplace.orders import operations
from marketplace.orders.placing.place_order import PriceChangedError
from marketplace.orders.transitions import SYSTEM, lock_order
from marketplace.payments.refunds import order_cancellation
from tests.support.flash_sales import (
    SALE_PRICE,
    act_of_new_officer,
    item_of,
    put_on_sale,
    sale_units_left,
    units_sold_in,
)
from tests.support.purchases import (
    DELIVERY_FEE_MINOR,
    NOW,
    PRICE_MINOR,
    SERVICE_FEE_MINOR,
    Shop,
    assert_ledger_is_consistent,
    later,
    make_product,
    pay,
    place,
    row_of,
)


@pytest.fixture
def product_id(session: Session, shop: Shop) -> UUID:
    return make_product(session, shop, quantity=20)


def test_order_uses_price_of_running_sale(session: Session, shop: Shop, product_id: UUID) -> None:
    sale_id = put_on_sale(session, product_id, quantity=5)

    order_id = place(session, shop, product_id, quantity=2)

    assert item_of(session, order_id) == (SALE_PRICE, sale_id)
    order = row_of(session, "orders", id=order_id)
    assert order["subtotal_minor"] == 2 * SALE_PRICE
    assert order["total_minor"] == 2 * SALE_PRICE + DELIVERY_FEE_MINOR + SERVICE_FEE_MINOR
    assert (units_sold_in(session, sale_id), sale_units_left(session, product_id)) == (2, 3)
    assert_ledger_is_consistent(session)


@pytest.mark.parametrize(
    ("now", "honoured"),
    [
        (NOW + timedelta(minutes=10) - timedelta(microseconds=1), False),
        (NOW + timedelta(minutes=10), True),
        (NOW + timedelta(minutes=20) - timedelta(microseconds=1), True),
        (NOW + timedelta(minutes=20), False),
    ],
)
def test_sale_price_applies_from_start_to_end(
    session: Session, shop: Shop, product_id: UUID, now: datetime, *, honoured: bool
) -> None:
    """The sale window and the request time decide, without a background task."""
    sale_id = put_on_sale(
        session, product_id, starts_at=later(minutes=10), ends_at=later(minutes=20), quantity=5
    )

    order_id = place(session, shop, product_id, now=now)

    assert item_of(session, order_id) == ((SALE_PRICE, sale_id) if honoured else (PRICE_MINOR, None))
    assert units_sold_in(session, sale_id) == (1 if honoured else 0)


def test_following_sale_applies_without_background_task(
    session: Session, shop: Shop, product_id: UUID
) -> None:
    put_on_sale(session, product_id, ends_at=later(minutes=10))
    second = put_on_sale(
        session,
        product_id,
        starts_at=later(minutes=10),
        ends_at=later(minutes=20),
        discount=Discount(percent=50),
        quantity=3,
    )

    order_id = place(session, shop, product_id, quantity=2, now=later(minutes=10))

    assert item_of(session, order_id) == (PRICE_MINOR // 2, second)
    assert (units_sold_in(session, second), sale_units_left(session, product_id)) == (2, 1)


def test_line_exceeding_remaining_sale_units_has_regular_price(
    session: Session, shop: Shop, product_id: UUID
) -> None:
    sale_id = put_on_sale(session, product_id, quantity=3)

    first = place(session, shop, product_id, quantity=2)
    second = place(session, shop, product_id, quantity=2)
    third = place(session, shop, product_id, quantity=1)

    assert [item_of(session, order_id) for order_id in (first, second, third)] == [
        (SALE_PRICE, sale_id),
        (PRICE_MINOR, None),
        (SALE_PRICE, sale_id),
    ]
    assert (units_sold_in(session, sale_id), sale_units_left(session, product_id)) == (3, 0)
    assert item_of(session, place(session, shop, product_id)) == (PRICE_MINOR, None)


def test_order_may_mix_sale_and_regular_prices(session: Session, shop: Shop, product_id: UUID) -> None:
    plain = make_product(session, shop)
    sale_id = put_on_sale(session, product_id, quantity=3)

    order_id = place(session, shop, wishes=[RequestedItem(plain, 1), RequestedItem(product_id, 3)])

    rows = session.execute(
        text(
            "SELECT product_id, unit_price_minor, flash_sale_id FROM order_items WHERE order_id = :id"
            " ORDER BY position"
        ),
        {"id": order_id},
    ).all()
    assert [tuple(row) for row in rows] == [(plain, PRICE_MINOR, None), (product_id, SALE_PRICE, sale_id)]
    assert row_of(session, "orders", id=order_id)["subtotal_minor"] == PRICE_MINOR + 3 * SALE_PRICE


def test_regular_price_not_above_sale_price_applies(session: Session, shop: Shop, product_id: UUID) -> None:
    sale_id = put_on_sale(session, product_id)
    session.execute(update(Product).where(Product.id == product_id).values(price_minor=SALE_PRICE))

    assert item_of(session, place(session, shop, product_id)) == (SALE_PRICE, None)
    assert units_sold_in(session, sale_id) == 0


def test_order_expecting_price_of_ended_sale_is_refused(
    session: Session, shop: Shop, product_id: UUID
) -> None:
    sale_id = put_on_sale(session, product_id)
    expected = SALE_PRICE + DELIVERY_FEE_MINOR + SERVICE_FEE_MINOR
    flash_sales.end_flash_sale(session, act_of_new_officer(session, later(minutes=1)), sale_id=sale_id)

    with pytest.raises(PriceChangedError) as refused:
        place(session, shop, product_id, expected_total_minor=expected, now=later(minutes=1))

    assert refused.value.status == 409
    assert [param.name for param in refused.value.invalid_params] == ["expectedTotalMinor"]
    assert units_sold_in(session, sale_id) == 0
    # Without an expected total the order is placed at the current price.
    assert item_of(session, place(session, shop, product_id, now=later(minutes=1))) == (PRICE_MINOR, None)


@pytest.mark.parametrize("end", ["cancelled", "expired"])
def test_cancelled_or_expired_order_returns_sale_units(
    session: Session, shop: Shop, product_id: UUID, end: str
) -> None:
    sale_id = put_on_sale(session, product_id, quantity=3)
    order_id = place(session, shop, product_id, quantity=3)
    assert sale_units_left(session, product_id) == 0

    if end == "cancelled":
        order_cancellation.cancel_order(session, order_id=order_id, caller=shop.buyer, reason=None, now=NOW)
    else:
        order = lock_order(session, order_id=order_id)
        operations.expire_order(session, order=order, actor=SYSTEM, now=later(minutes=30))

    assert (units_sold_in(session, sale_id), sale_units_left(session, product_id)) == (0, 3)
    assert item_of(session, place(session, shop, product_id, quantity=3)) == (SALE_PRICE, sale_id)


def test_units_of_ended_sale_are_not_returned_to_next_sale(
    session: Session, shop: Shop, product_id: UUID
) -> None:
    first = put_on_sale(session, product_id, quantity=3, ends_at=later(minutes=10))
    order_id = place(session, shop, product_id, quantity=3)
    second = put_on_sale(
        session, product_id, quantity=5, starts_at=later(minutes=10), ends_at=later(minutes=20)
    )
    flash_sales.on_boundary(session, product_id=product_id, now=later(minutes=10))

    order_cancellation.cancel_order(
        session, order_id=order_id, caller=shop.buyer, reason=None, now=later(minutes=11)
    )

    assert (units_sold_in(session, first), units_sold_in(session, second)) == (0, 0)
    assert sale_units_left(session, product_id) == 5


def test_paid_order_keeps_sale_units(session: Session, shop: Shop, product_id: UUID) -> None:
    sale_id = put_on_sale(session, product_id, quantity=3)
    order_id = place(session, shop, product_id, quantity=2)

    pay(session, shop, order_id)

    assert (units_sold_in(session, sale_id), sale_units_left(session, product_id)) == (2, 1)
    assert row_of(session, "orders", id=order_id)["status"] == "paid_escrow"
    assert_ledger_is_consistent(session)


def test_unlimited_sale_counts_sold_units(session: Session, shop: Shop, product_id: UUID) -> None:
    sale_id = put_on_sale(session, product_id)

    place(session, shop, product_id, quantity=4)

    assert (units_sold_in(session, sale_id), sale_units_left(session, product_id)) == (4, None)


def test_placed_order_keeps_price_after_sale_changes(session: Session, shop: Shop, product_id: UUID) -> None:
    sale_id = put_on_sale(session, product_id)
    order_id = place(session, shop, product_id)

    flash_sales.update_flash_sale(
        session,
        act_of_new_officer(session),
        sale_id=sale_id,
        revision=None,
        discount=Discount(percent=10),
        changes={"ends_at": later(minutes=5)},
    )
    flash_sales.end_flash_sale(session, act_of_new_officer(session), sale_id=sale_id)

    assert item_of(session, order_id) == (SALE_PRICE, sale_id)


class TestCart:
    def cart(self, session: Session, shop: Shop, now: datetime = NOW) -> CartView:
        return fetch_cart(session, user_id=shop.buyer.id, now=now, media_base_url="")

    def fill(
        self, session: Session, shop: Shop, product_id: UUID, quantity: int, now: datetime = NOW
    ) -> None:
        cart.synchronise_cart(
            session, caller=shop.buyer, lines=[RequestedItem(product_id, quantity)], now=now
        )

    def test_cart_shows_price_of_resulting_order(
        self, session: Session, shop: Shop, product_id: UUID
    ) -> None:
        put_on_sale(session, product_id, quantity=3)
        self.fill(session, shop, product_id, 3)

        shown = self.cart(session, shop)

        [line] = shown.items
        assert (line.unit_price_minor, line.price_minor) == (SALE_PRICE, PRICE_MINOR)
        assert line.on_sale_until == later(hours=1)
        assert (line.problem, line.previous_price_minor) == (None, None)
        assert shown.subtotal_minor == shown.vendors[0].subtotal_minor == 3 * SALE_PRICE
        order = row_of(session, "orders", id=place(session, shop))
        assert order["subtotal_minor"] == shown.subtotal_minor

    def test_cart_line_exceeding_remaining_sale_units_has_regular_price(
        self, session: Session, shop: Shop, product_id: UUID
    ) -> None:
        put_on_sale(session, product_id, quantity=3)
        self.fill(session, shop, product_id, 4)

        [line] = self.cart(session, shop).items

        assert (line.unit_price_minor, line.on_sale_until) == (PRICE_MINOR, None)
        assert line.problem is None

    def test_sale_ended_since_adding_is_flagged_as_price_change(
        self, session: Session, shop: Shop, product_id: UUID
    ) -> None:
        put_on_sale(session, product_id)
        self.fill(session, shop, product_id, 1)

        [line] = self.cart(session, shop, now=later(hours=1)).items

        assert (line.problem, line.orderable) == ("price_changed", True)
        assert (line.unit_price_minor, line.previous_price_minor) == (PRICE_MINOR, SALE_PRICE)

    def test_sale_started_since_adding_is_flagged_as_price_change(
        self, session: Session, shop: Shop, product_id: UUID
    ) -> None:
        self.fill(session, shop, product_id, 1)
        put_on_sale(session, product_id)

        [line] = self.cart(session, shop).items

        assert (line.problem, line.unit_price_minor) == ("price_changed", SALE_PRICE)
        assert line.previous_price_minor == PRICE_MINOR
