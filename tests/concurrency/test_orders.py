"""Concurrent orders: the last unit is sold once, a PIN has five tries, an idempotency key creates a single order."""

import random
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from uuid import UUID, uuid4

import pytest
from flask import Flask
from psycopg2.errors import DeadlockDetected
from sqlalchemy.exc import DBAPIError
from werkzeug.test import TestResponse

from marketplace.cart.models import CartItem
from marketplace.cart.operations import RequestedItem
from marketplace.infra.db import Database
from marketplace.kernel.errors import MarketplaceError
from marketplace.kernel.states import IllegalTransitionError
from marketplace.orders import operations as orders
from marketplace.orders.deadlines import MAX_UNPAID_ORDERS
from marketplace.orders.placing.order_validation import InsufficientStockError
from marketplace.orders.placing.place_order import EmptyCartError, TooManyUnpaidOrdersError
from marketplace.orders.transitions import SYSTEM, lock_order
from marketplace.payments.intents import lifecycle as payments
from marketplace.payments.refunds import order_cancellation
from marketplace.providers.gateway.payments import PaymentPage
from tests.support.purchases import (
    NOW,
    Shop,
    apply,
    assert_ledger_is_consistent,
    balances_of_order,
    make_charge,
    make_intent,
    make_product,
    make_shop,
    make_store,
    paid_order,
    pin_of,
    place,
    release,
    row_of,
    shipped_order,
    status_of,
    stock_of,
    with_buyer,
    wrong_pin_of,
)
from tests.support.threads import at_once, unexpected_errors

Bearer = Callable[[UUID], dict[str, str]]


@pytest.fixture
def shop(database: Database) -> Shop:
    with database.transaction() as session:
        return make_shop(session)


def assert_whole(database: Database) -> None:
    with database.reading() as session:
        assert_ledger_is_consistent(session)


def place_committed(database: Database, shop: Shop, *arguments: Any, **more: Any) -> UUID:
    return database.in_transaction(place, shop, *arguments, **more)


class TestPlacingOrders:
    def test_last_unit_is_sold_once_to_twenty_concurrent_buyers(self, database: Database, shop: Shop) -> None:
        with database.transaction() as session:
            product_id = make_product(session, shop, quantity=1)
            buyers = [with_buyer(session, shop) for _ in range(20)]

        results = at_once(lambda buying: place_committed(database, buying, product_id), buyers)

        assert Counter(type(result) for result in results) == {UUID: 1, InsufficientStockError: 19}
        with database.reading() as session:
            assert stock_of(session, product_id) == (1, 1)
        assert_whole(database)

    def test_orders_of_same_products_in_any_sequence_do_not_deadlock(
        self, database: Database, shop: Shop
    ) -> None:
        with database.transaction() as session:
            products = [make_product(session, shop, quantity=100) for _ in range(6)]
            buyers = [with_buyer(session, shop) for _ in range(20)]

        def buy(number: int) -> UUID:
            wanted = random.Random(number).sample(products, 5)  # noqa: S311 - the same in every run
            with database.transaction() as session:
                return place(
                    session, buyers[number], wishes=[RequestedItem(product_id, 2) for product_id in wanted]
                )

        assert unexpected_errors(at_once(buy, range(20))) == []
        with database.reading() as session:
            assert sum(stock_of(session, product_id)[1] for product_id in products) == 200
        assert_whole(database)

    def test_cart_is_ordered_once_by_concurrent_requests(self, database: Database, shop: Shop) -> None:
        with database.transaction() as session:
            product_id = make_product(session, shop, quantity=50)
            session.add(
                CartItem(
                    user_id=shop.buyer.id, product_id=product_id, quantity=2, price_minor_seen=1, position=0
                )
            )

        results = at_once(lambda _: place_committed(database, shop), range(8))

        assert Counter(type(result) for result in results) == {UUID: 1, EmptyCartError: 7}
        with database.reading() as session:
            assert stock_of(session, product_id) == (50, 2)

    def test_buyer_has_at_most_five_unpaid_orders(self, database: Database, shop: Shop) -> None:
        with database.transaction() as session:
            product_id = make_product(session, shop, quantity=50)

        results = at_once(lambda _: place_committed(database, shop, product_id), range(12))

        assert Counter(type(result) for result in results) == {
            UUID: MAX_UNPAID_ORDERS,
            TooManyUnpaidOrdersError: 12 - MAX_UNPAID_ORDERS,
        }


class TestSameIdempotencyKey:
    def make_order_request(
        self, app: Flask, shop: Shop, product_id: UUID, bearer: Bearer, key: str
    ) -> Callable[[int], TestResponse]:
        body = {
            "items": [{"productId": str(product_id), "quantity": 1}],
            "shippingAddress": {"hostel": "Moremi"},
        }
        headers = {**bearer(shop.buyer.id), "Idempotency-Key": key}
        return lambda _: app.test_client().post("/api/orders", json=body, headers=headers)

    def test_concurrent_requests_with_same_key_create_a_single_order(
        self, database: Database, crowded_app: Flask, shop: Shop, bearer: Bearer
    ) -> None:
        with database.transaction() as session:
            product_id = make_product(session, shop, quantity=50)
        make_order_request = self.make_order_request(crowded_app, shop, product_id, bearer, str(uuid4()))

        answers = at_once(make_order_request, range(12))

        assert unexpected_errors(answers) == []
        made = [answer for answer in answers if answer.status_code == 201]  # type: ignore[union-attr]
        refused = [answer for answer in answers if answer.status_code == 409]  # type: ignore[union-attr]
        assert len(made) + len(refused) == 12
        assert made
        assert len({answer.data for answer in made}) == 1  # type: ignore[union-attr]
        assert sum("X-Cache-Lookup" not in answer.headers for answer in made) == 1  # type: ignore[union-attr]
        for answer in refused:
            assert answer.json["code"] == "CONCURRENCY_CONFLICT"  # type: ignore[union-attr,index]
            assert int(answer.headers["Retry-After"]) > 0  # type: ignore[union-attr]
        with database.reading() as session:
            assert stock_of(session, product_id) == (50, 1)
        assert make_order_request(0).headers["X-Cache-Lookup"] == "HIT"


class TestPin:
    def submit(self, app: Flask, shop: Shop, order_id: UUID, bearer: Bearer) -> Callable[[str], TestResponse]:
        headers = bearer(shop.vendor.id)
        return lambda pin: app.test_client().post(
            f"/api/orders/{order_id}/verify-code", json={"pin": pin}, headers=headers
        )

    def test_concurrent_wrong_pins_share_five_tries(
        self, database: Database, crowded_app: Flask, shop: Shop, bearer: Bearer
    ) -> None:
        order_id = database.in_transaction(shipped_order, shop)
        pins = [wrong_pin_of(order_id, step=step) for step in range(1, 21)]

        answers = at_once(self.submit(crowded_app, shop, order_id, bearer), pins)

        assert unexpected_errors(answers) == []
        assert Counter(answer.status_code for answer in answers) == {400: 5, 429: 15}  # type: ignore[union-attr]
        left = [answer.json["attemptsLeft"] for answer in answers if answer.status_code == 400]  # type: ignore[union-attr,index]
        assert sorted(left) == [0, 1, 2, 3, 4]
        assert self.submit(crowded_app, shop, order_id, bearer)(pin_of(order_id)).status_code == 429
        with database.reading() as session:
            assert status_of(session, order_id) == "shipped"

    def test_concurrent_correct_pins_release_escrow_once(self, database: Database, shop: Shop) -> None:
        placed = [database.in_transaction(shipped_order, shop) for _ in range(6)]

        results = at_once(
            lambda order_id: database.in_transaction(release, shop, order_id),
            [order_id for order_id in placed for _ in range(3)],
        )

        assert Counter(type(result) for result in results) == {
            type(None): 6,
            IllegalTransitionError: 12,
        }
        with database.reading() as session:
            for order_id in placed:
                escrow = row_of(session, "escrows", order_id=order_id)
                assert escrow["released_minor"] == escrow["amount_minor"]
                assert "escrow" not in balances_of_order(session, order_id)
            assert row_of(session, "vendor_profiles", id=shop.store_id)["completed_orders"] == 6
        assert_whole(database)


@dataclass
class RandomActions:
    """Random actions of several buyers and shops on the same orders, from several threads."""

    database: Database
    shops: list[Shop]
    products: dict[UUID, list[UUID]]
    placed: list[tuple[Shop, UUID]]
    lock: threading.Lock

    def act(self, seed: int) -> Counter[str]:
        """Run 45 random actions without retries and count the outcomes."""
        draw = random.Random(seed)  # noqa: S311 - the same in every run
        done: Counter[str] = Counter()
        steps = (
            *(self.place,) * 3,
            *(self.pay,) * 4,
            self.open,
            self.fail,
            self.cancel,
            self.expire,
            *(self.advance,) * 6,
        )
        for _ in range(45):
            step = draw.choice(steps)
            try:
                step(draw)
                done[step.__name__] += 1
            except MarketplaceError:
                done["refused"] += 1
        return done

    def random_placed_order(self, draw: random.Random) -> tuple[Shop, UUID]:
        with self.lock:
            # Only the latest orders, so that several threads act on the same order.
            return draw.choice(self.placed[-10:])

    def place(self, draw: random.Random) -> None:
        shop = draw.choice(self.shops)
        wanted = draw.sample(self.products[shop.store_id], 3)
        with self.database.transaction() as session:
            order_id = place(session, shop, wishes=[RequestedItem(product_id, 1) for product_id in wanted])
        with self.lock:
            self.placed.append((shop, order_id))

    def pay(self, draw: random.Random) -> None:
        shop, order_id = self.random_placed_order(draw)
        with self.database.transaction() as session:
            intent = make_intent(session, shop, order_id)
        charge = make_charge(intent, amount_minor=intent.amount_minor + draw.choice((0, 0, 0, 5, -5)))
        for _ in range(draw.choice((1, 2))):
            with self.database.transaction() as session:
                apply(session, charge)

    def open(self, draw: random.Random) -> None:
        shop, order_id = self.random_placed_order(draw)
        with self.database.transaction() as session:
            intent = make_intent(session, shop, order_id)
            payments.lease_initialization(session, intent=intent, now=NOW)
        with self.database.transaction() as session:
            payments.record_hosted_page(
                session, intent=intent, page=PaymentPage("https://pay/x", "x"), now=NOW
            )

    def fail(self, draw: random.Random) -> None:
        shop, order_id = self.random_placed_order(draw)
        with self.database.transaction() as session:
            intent = make_intent(session, shop, order_id)
        with self.database.transaction() as session:
            payments.record_failed_attempt(session, reference=intent.reference, now=NOW)

    def cancel(self, draw: random.Random) -> None:
        shop, order_id = self.random_placed_order(draw)
        with self.database.transaction() as session:
            order_cancellation.cancel_order(
                session, order_id=order_id, caller=shop.buyer, reason=None, now=NOW
            )

    def expire(self, draw: random.Random) -> None:
        _, order_id = self.random_placed_order(draw)
        with self.database.transaction() as session:
            orders.expire_order(session, order=lock_order(session, order_id=order_id), actor=SYSTEM, now=NOW)

    def advance(self, draw: random.Random) -> None:
        """Take the vendor's next step for the status read before."""
        shop, order_id = self.random_placed_order(draw)
        with self.database.reading() as session:
            status = status_of(session, order_id)
        with self.database.transaction() as session:
            if status == "paid_escrow":
                orders.accept_order(session, order_id=order_id, caller=shop.vendor, now=NOW)
            elif status == "processing":
                orders.ship_order(session, order_id=order_id, caller=shop.vendor, tracking_note=None, now=NOW)
            else:
                release(session, shop, order_id)


def test_random_concurrent_actions_neither_deadlock_nor_lose_money(database: Database) -> None:
    """Locks have a global order. No transaction is retried, so a deadlock is visible."""
    with database.transaction() as session:
        first = make_shop(session)
        other_store, other_vendor = make_store(session, campus_id=first.campus_id)
        second = Shop(first.campus_id, first.category_id, other_store, other_vendor, first.buyer)
        shops = [with_buyer(session, shop) for shop in (first, second) for _ in range(4)]
        products = {
            shop.store_id: [make_product(session, shop, quantity=1_000) for _ in range(5)]
            for shop in (first, second)
        }
        seeded = [(shop, paid_order(session, shop)) for shop in shops[:3]]
    random_actions = RandomActions(database, shops, products, seeded, threading.Lock())

    results = at_once(random_actions.act, range(8))

    deadlocks = [
        found
        for found in results
        if isinstance(found, DBAPIError) and isinstance(found.orig, DeadlockDetected)
    ]
    assert deadlocks == []
    assert unexpected_errors(results) == []
    done: Counter[str] = sum(results, Counter())  # type: ignore[arg-type]
    assert sum(done.values()) == 8 * 45
    assert done.keys() >= {"place", "pay", "advance", "refused"}
    assert_whole(database)
    with database.reading() as session:
        for _, order_id in random_actions.placed:
            order = row_of(session, "orders", id=order_id)
            escrow = row_of(session, "escrows", order_id=order_id)
            held = balances_of_order(session, order_id).get("escrow", 0)
            paid = order["status"] in ("paid_escrow", "processing", "shipped")
            assert held == (escrow["amount_minor"] if paid else 0), order["status"]
