"""Stateful test of flash sales: random actions of officers, buyers and vendors against a plain model."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from hypothesis import settings as hypothesis_settings, strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from marketplace.cart import operations as cart
from marketplace.cart.operations import RequestedItem
from marketplace.cart.queries import fetch_cart
from marketplace.catalog.browse.product_detail import fetch_product_detail
from marketplace.catalog.models import Product
from marketplace.catalog.promotions import flash_sales
from marketplace.catalog.promotions.flash_sales import Discount
from marketplace.catalog.sale_price import price_at_percent_off
from marketplace.infra.db import Database
from marketplace.kernel.errors import MarketplaceError
from marketplace.orders.deadlines import MAX_UNPAID_ORDERS
from marketplace.payments.refunds import order_cancellation
from tests.support.depth import case_count
from tests.support.flash_sales import act_of_new_officer, item_of, put_on_sale, units_sold_in
from tests.support.purchases import (
    NOW,
    Shop,
    assert_ledger_is_consistent,
    make_product,
    make_shop,
    pay,
    place,
    with_buyer,
)

PICK = st.integers(0, 10**6)
REGULAR = 10_000
# Few values, so that actions often coincide with the start or end of a sale.
SPANS = st.sampled_from([0, 0, 5, 10, 20])


@dataclass
class Sale:
    """The model's view of a flash sale."""

    id: UUID
    product_id: UUID
    price: int
    starts_at: datetime
    ends_at: datetime
    quantity: int | None
    sold: int = 0

    def runs(self, now: datetime) -> bool:
        """Return whether the sale is running."""
        return self.starts_at <= now < self.ends_at

    def has(self, units: int) -> bool:
        """Return whether the sale still has so many units."""
        return self.quantity is None or self.sold + units <= self.quantity


class FlashSaleMachine(RuleBasedStateMachine):
    """A shop with two products, three buyers, and flash sales over a few hours."""

    database: Database

    def __init__(self) -> None:
        super().__init__()
        self.now = NOW
        self.sales: list[Sale] = []
        self.unpaid: list[tuple[Shop, UUID, Sale | None, int]] = []
        self.regular: dict[UUID, int] = {}

    @initialize()
    def open_shop(self) -> None:
        """Create the shop, the buyers and the products."""
        with self.database.transaction() as session:
            shop = make_shop(session)
            self.buyers = [with_buyer(session, shop) for _ in range(3)]
            self.products = [
                make_product(session, shop, price_minor=REGULAR, quantity=10_000) for _ in range(2)
            ]
        self.regular = dict.fromkeys(self.products, REGULAR)

    def running(self, product_id: UUID) -> Sale | None:
        """Return the product's running sale, if the sale price is below the regular price."""
        for sale in self.sales:
            if sale.product_id == product_id and sale.runs(self.now):
                return sale if sale.price < self.regular[product_id] else None
        return None

    # Actions of officers

    @rule(
        product=PICK,
        price=st.integers(1, REGULAR - 1),
        start=SPANS,
        length=SPANS.filter(bool),
        quantity=st.none() | st.integers(1, 5),
    )
    def plan(self, product: int, price: int, start: int, length: int, quantity: int | None) -> None:
        """Create a sale. Only overlapping sales and prices outside the limits are refused."""
        product_id = self.products[product % 2]
        starts_at = self.now + timedelta(minutes=start)
        ends_at = starts_at + timedelta(minutes=length)
        overlaps = any(
            one.product_id == product_id and one.starts_at < ends_at and one.ends_at > starts_at
            for one in self.sales
            if one.ends_at > one.starts_at
        )
        regular = self.regular[product_id]
        cheaper = max(price_at_percent_off(regular, percent=90), 100) <= price < regular
        try:
            with self.database.transaction() as session:
                sale_id = put_on_sale(
                    session,
                    product_id,
                    now=self.now,
                    discount=Discount(price_minor=price),
                    starts_at=starts_at,
                    ends_at=ends_at,
                    quantity=quantity,
                )
        except MarketplaceError:
            assert overlaps or not cheaper
        else:
            assert cheaper
            assert not overlaps
            self.sales.append(Sale(sale_id, product_id, price, starts_at, ends_at, quantity))

    @precondition(lambda self: self.sales)
    @rule(pick=PICK)
    def end(self, pick: int) -> None:
        """End or cancel a sale that has not ended yet."""
        sale = self.sales[pick % len(self.sales)]
        ended = sale.ends_at <= self.now
        try:
            with self.database.transaction() as session:
                flash_sales.end_flash_sale(session, act_of_new_officer(session, self.now), sale_id=sale.id)
        except MarketplaceError:
            assert ended
        else:
            assert not ended
            sale.ends_at = self.now

    @precondition(lambda self: self.sales)
    @rule(pick=PICK, quantity=st.none() | st.integers(1, 8))
    def resize(self, pick: int, quantity: int | None) -> None:
        """Change a sale's quantity, but not below the claimed units."""
        sale = self.sales[pick % len(self.sales)]
        possible = sale.ends_at > self.now and (quantity is None or quantity >= sale.sold)
        try:
            with self.database.transaction() as session:
                flash_sales.update_flash_sale(
                    session,
                    act_of_new_officer(session, self.now),
                    sale_id=sale.id,
                    revision=None,
                    discount=None,
                    changes={"quantity": quantity},
                )
        except MarketplaceError:
            assert not possible
        else:
            assert possible
            sale.quantity = quantity

    # Actions of vendors

    @rule(product=PICK, price=st.integers(100, 2 * REGULAR))
    def reprice(self, product: int, price: int) -> None:
        """Change the regular price."""
        product_id = self.products[product % 2]
        with self.database.transaction() as session:
            found = session.get(Product, product_id)
            assert found is not None
            found.price_minor = price
        self.regular[product_id] = price

    # Actions of buyers

    @rule(buyer=PICK, product=PICK, quantity=st.integers(1, 4))
    def buy(self, buyer: int, product: int, quantity: int) -> None:
        """Place an order and compare the price with the model."""
        shop, product_id = self.buyers[buyer % 3], self.products[product % 2]
        if sum(one == shop for one, *_ in self.unpaid) >= MAX_UNPAID_ORDERS:
            return
        sale = self.running(product_id)
        honoured = sale if sale is not None and sale.has(quantity) else None

        with self.database.transaction() as session:
            order_id = place(session, shop, product_id, quantity=quantity, now=self.now)

        with self.database.reading() as session:
            expected = (honoured.price, honoured.id) if honoured else (self.regular[product_id], None)
            assert item_of(session, order_id) == expected
        if honoured:
            honoured.sold += quantity
        self.unpaid.append((shop, order_id, honoured, quantity))

    @precondition(lambda self: self.unpaid)
    @rule(pick=PICK)
    def cancel(self, pick: int) -> None:
        """Cancel an order and return the units to the sale."""
        shop, order_id, sale, quantity = self.unpaid.pop(pick % len(self.unpaid))
        with self.database.transaction() as session:
            order_cancellation.cancel_order(
                session, order_id=order_id, caller=shop.buyer, reason=None, now=self.now
            )
        if sale:
            sale.sold -= quantity

    @precondition(lambda self: self.unpaid)
    @rule(pick=PICK)
    def pay(self, pick: int) -> None:
        """Pay an order. The units stay claimed."""
        shop, order_id, *_ = self.unpaid.pop(pick % len(self.unpaid))
        with self.database.transaction() as session:
            pay(session, shop, order_id)

    # Time and the worker

    @rule(minutes=st.sampled_from([5, 5, 10, 20]))
    def wait(self, minutes: int) -> None:
        """Let time pass."""
        self.now += timedelta(minutes=minutes)

    @rule(product=PICK, quantity=st.integers(1, 4))
    def look(self, product: int, quantity: int) -> None:
        """Run the boundary event, then compare product detail and cart with the model."""
        product_id, shop = self.products[product % 2], self.buyers[0]
        sale = self.running(product_id)
        with self.database.transaction() as session:
            flash_sales.on_boundary(session, product_id=product_id, now=self.now)
            cart.synchronise_cart(
                session, caller=shop.buyer, lines=[RequestedItem(product_id, quantity)], now=self.now
            )
        with self.database.reading() as session:
            detail = fetch_product_detail(
                session, product_id=product_id, caller=None, now=self.now, media_base_url=""
            )
            [line] = fetch_cart(session, user_id=shop.buyer.id, now=self.now, media_base_url="").items
        shown = detail["flash_sale"]
        if sale is None or not sale.has(1):
            assert shown is None
        else:
            left = None if sale.quantity is None else sale.quantity - sale.sold
            assert (shown["price_minor"], shown["ends_at"], shown["left"]) == (sale.price, sale.ends_at, left)
        honoured = sale is not None and sale.has(quantity)
        assert line.unit_price_minor == (sale.price if sale and honoured else self.regular[product_id])
        assert line.problem is None

    # Checks after each step

    @invariant()
    def check_sold_counts_and_ledger(self) -> None:
        """Compare sold counts with the model and check the ledger."""
        with self.database.reading() as session:
            assert {sale.id: units_sold_in(session, sale.id) for sale in self.sales} == {
                sale.id: sale.sold for sale in self.sales
            }
            assert_ledger_is_consistent(session)


def test_order_has_the_price_valid_at_placement(own_database: Database) -> None:
    def start() -> FlashSaleMachine:
        machine = FlashSaleMachine()
        machine.database = own_database
        return machine

    run_state_machine_as_test(
        start,
        settings=hypothesis_settings(
            max_examples=case_count(5, deep=100), stateful_step_count=40, deadline=None
        ),
    )
