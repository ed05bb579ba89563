"""Concurrent checkouts: a cart is ordered once, a wallet balance is spent once, a unit is sold once."""

import random
import threading
from collections import Counter
from collections.abc import Callable
from datetime import datetime
from typing import Any
from uuid import UUID, uuid4

import pytest
from flask import Flask
from sqlalchemy import text
from werkzeug.test import TestResponse

from marketplace.cart.operations import RequestedItem
from marketplace.infra.db import Database
from marketplace.kernel.errors import MarketplaceError
from marketplace.kernel.states import IllegalTransitionError
from marketplace.ledger.operations import InsufficientFundsError
from marketplace.orders import operations as orders
from marketplace.orders.deadlines import MAX_UNPAID_ORDERS
from marketplace.orders.placing.order_validation import InsufficientStockError
from marketplace.orders.placing.place_order import TooManyUnpaidOrdersError, WalletUse
from marketplace.payments.charges.apply import apply_charge
from marketplace.payments.intents import lifecycle
from marketplace.payments.intents.expiry import sweep_abandoned_checkouts
from marketplace.payments.intents.lifecycle import CheckoutResult, Intent, PaymentTarget
from marketplace.payments.refunds import order_cancellation
from marketplace.providers.gateway.payloads import Charge
from tests.support.purchases import (
    DELIVERY_FEE_MINOR,
    NOW,
    PRICE_MINOR,
    SERVICE_FEE_MINOR,
    Shop,
    assert_ledger_is_consistent,
    balances_of_order,
    cart_of,
    check_out,
    fill_wallet,
    later,
    make_charge,
    make_intent,
    make_product,
    make_shop,
    neighbours,
    place,
    put_into_cart,
    release,
    row_of,
    shipped_order,
    status_of,
    stock_of,
    wallet_of,
    with_buyer,
)
from tests.support.threads import at_once, unexpected_errors

Bearer = Callable[[UUID], dict[str, str]]
TOTAL = PRICE_MINOR + DELIVERY_FEE_MINOR + SERVICE_FEE_MINOR
AS_MUCH = WalletUse(as_much_as_possible=True)


@pytest.fixture
def shops(database: Database) -> list[Shop]:
    """Three stores of a campus, with the same buyer."""
    with database.transaction() as session:
        return neighbours(session, make_shop(session), 3)


def products_of(database: Database, shops: list[Shop], *, quantity: int = 50) -> list[UUID]:
    with database.transaction() as session:
        return [make_product(session, shop, quantity=quantity) for shop in shops]


def assert_whole(database: Database) -> None:
    with database.reading() as session:
        assert_ledger_is_consistent(session)


def orders_of(database: Database, buyer_id: UUID) -> list[dict[str, Any]]:
    with database.reading() as session:
        rows = session.execute(
            text("SELECT * FROM orders WHERE buyer_id = :id ORDER BY id"), {"id": buyer_id}
        )
        return [dict(row) for row in rows.mappings()]


class TestCart:
    def test_concurrent_checkouts_with_different_keys_order_the_cart_once(
        self, database: Database, crowded_app: Flask, shops: list[Shop], bearer: Bearer
    ) -> None:
        products = products_of(database, shops)
        buyer_id = shops[0].buyer.id
        database.in_transaction(put_into_cart, buyer_id, *((product_id, 2) for product_id in products))

        def post_checkout(_: int) -> TestResponse:
            headers = {**bearer(buyer_id), "Idempotency-Key": str(uuid4())}
            body = {"shippingAddress": {"hostel": "Moremi"}}
            return crowded_app.test_client().post("/api/orders/checkout", json=body, headers=headers)

        answers = at_once(post_checkout, range(8))

        assert unexpected_errors(answers) == []
        assert Counter(answer.status_code for answer in answers) == {201: 1, 422: 7}  # type: ignore[union-attr]
        assert len(orders_of(database, buyer_id)) == 3
        with database.reading() as session:
            assert cart_of(session, buyer_id) == {}
            assert [stock_of(session, product_id) for product_id in products] == [(50, 2)] * 3
        assert_whole(database)

    def test_concurrent_checkouts_do_not_exceed_limit_of_unpaid_orders(
        self, database: Database, shops: list[Shop]
    ) -> None:
        wishes = [RequestedItem(product_id, 1) for product_id in products_of(database, shops)]

        results = at_once(
            lambda number: database.in_transaction(check_out, shops[0], wishes[: number % 3 + 1]), range(9)
        )

        assert unexpected_errors(results, TooManyUnpaidOrdersError) == []
        assert len(orders_of(database, shops[0].buyer.id)) <= MAX_UNPAID_ORDERS
        assert sum(isinstance(result, CheckoutResult) for result in results) >= 1
        assert_whole(database)


class TestStock:
    def test_last_unit_is_sold_once_and_other_checkouts_order_nothing(
        self, database: Database, shops: list[Shop]
    ) -> None:
        products = products_of(database, shops)
        last = products_of(database, shops[2:], quantity=1)[0]
        with database.transaction() as session:
            buyers = [with_buyer(session, shops[0]) for _ in range(10)]

        def buy(number: int) -> CheckoutResult:
            wanted = [*products, last]
            random.Random(number).shuffle(wanted)  # noqa: S311 - the same in every run
            wishes = [RequestedItem(product_id, 1) for product_id in wanted]
            # No transaction is retried here, so a deadlock would be visible.
            with database.transaction() as session:
                return check_out(session, buyers[number], wishes)

        results = at_once(buy, range(10))

        assert Counter(type(result) for result in results) == {CheckoutResult: 1, InsufficientStockError: 9}
        with database.reading() as session:
            assert stock_of(session, last) == (1, 1)
            assert [stock_of(session, product_id) for product_id in products] == [(50, 1)] * 3
        assert_whole(database)


class TestWallet:
    def test_wallet_balance_is_spent_once(self, database: Database, shops: list[Shop]) -> None:
        buyer_id = shops[0].buyer.id
        products = products_of(database, shops)
        database.in_transaction(fill_wallet, buyer_id, TOTAL)

        results = at_once(
            lambda number: database.in_transaction(
                place, shops[number % 3], products[number % 3], wallet=WalletUse(TOTAL)
            ),
            range(6),
        )

        assert Counter(type(result) for result in results) == {UUID: 1, InsufficientFundsError: 5}
        with database.reading() as session:
            assert wallet_of(session, buyer_id) == 0
        assert [order["status"] for order in orders_of(database, buyer_id)] == ["paid_escrow"]
        assert_whole(database)

    def test_concurrent_maximum_wallet_payments_spend_exactly_the_balance(
        self, database: Database, shops: list[Shop]
    ) -> None:
        buyer_id = shops[0].buyer.id
        wishes = [RequestedItem(product_id, 1) for product_id in products_of(database, shops)]
        database.in_transaction(fill_wallet, buyer_id, 4 * TOTAL + 77)

        results = at_once(
            lambda _: database.in_transaction(check_out, shops[0], wishes, wallet=AS_MUCH), range(3)
        )

        assert unexpected_errors(results) == []
        parts = [order["wallet_minor"] for order in orders_of(database, buyer_id)]
        assert sorted(parts, reverse=True) == [TOTAL] * 4 + [77] + [0] * 4
        with database.reading() as session:
            assert wallet_of(session, buyer_id) == 0
        assert_whole(database)

    def test_wallet_parts_are_returned_and_reused_without_loss(
        self, database: Database, shops: list[Shop]
    ) -> None:
        """Cancellations return wallet parts that new orders use again, without loss or deadlock."""
        buyer_id = shops[0].buyer.id
        products = products_of(database, shops)
        database.in_transaction(fill_wallet, buyer_id, 3 * TOTAL - 10)

        def turn(number: int) -> int:
            done = 0
            for step in range(6):
                chosen = (number + step) % 3
                try:
                    with database.transaction() as session:
                        order_id = place(session, shops[chosen], products[chosen], wallet=AS_MUCH)
                    with database.transaction() as session:
                        order_cancellation.cancel_order(
                            session, order_id=order_id, caller=shops[0].buyer, reason=None, now=NOW
                        )
                    done += 1
                except TooManyUnpaidOrdersError:
                    continue
            return done

        results = at_once(turn, range(6))

        assert unexpected_errors(results) == []
        assert sum(results) > 6  # type: ignore[arg-type]
        with database.reading() as session:
            assert wallet_of(session, buyer_id) == 3 * TOTAL - 10
        assert_whole(database)


class TestConcurrentActionsOnCheckout:
    """Concurrent payments and cancellations of a whole checkout and of single orders."""

    def test_checkout_is_paid_once_and_surplus_is_returned(
        self, database: Database, shops: list[Shop]
    ) -> None:
        wishes = [RequestedItem(product_id, 1) for product_id in products_of(database, shops)]
        for _ in range(4):
            with database.transaction() as session:
                buyer = with_buyer(session, shops[0])
            self.pay_and_cancel_concurrently(database, buyer, wishes)
        assert_whole(database)

    def pay_and_cancel_concurrently(
        self, database: Database, shop: Shop, wishes: list[RequestedItem]
    ) -> None:
        done = database.in_transaction(check_out, shop, wishes)
        charged: list[Charge] = []
        lock = threading.Lock()

        def pay(target: PaymentTarget) -> None:
            with database.transaction() as session:
                intent: Intent = lifecycle.get_or_create_intent(
                    session, buyer_id=shop.buyer.id, target=target, callback_url=None, now=NOW
                )
            charge = make_charge(intent)
            with lock:
                charged.append(charge)
            for _ in range(2):
                with database.transaction() as session:
                    apply_charge(session, charge=charge, fee_bearer="platform", now=NOW)

        def cancel() -> None:
            with database.transaction() as session:
                order_cancellation.cancel_order(
                    session, order_id=done.order_ids[2], caller=shop.buyer, reason=None, now=NOW
                )

        whole = PaymentTarget(checkout_id=done.checkout_id)
        work: list[Callable[[], None]] = [lambda: pay(whole)] * 3
        work += [
            lambda: pay(PaymentTarget(order_id=done.order_ids[0])),
            lambda: pay(PaymentTarget(order_id=done.order_ids[1])),
        ]
        work += [cancel]

        results = at_once(lambda act: act(), work)

        assert unexpected_errors(results, MarketplaceError) == []
        with database.reading() as session:
            statuses = [status_of(session, order_id) for order_id in done.order_ids]
            kept = sum(balances_of_order(session, order_id).get("escrow", 0) for order_id in done.order_ids)
            back = session.execute(
                text("SELECT coalesce(sum(amount_minor), 0) FROM refunds WHERE buyer_id = :id"),
                {"id": shop.buyer.id},
            ).scalar_one()
            held_back = session.execute(
                text(
                    "SELECT count(*) FROM quarantined_charges q JOIN payment_intents i ON i.id = q.intent_id"
                    " WHERE i.buyer_id = :id"
                ),
                {"id": shop.buyer.id},
            ).scalar_one()
            wallet = wallet_of(session, shop.buyer.id)
        assert set(statuses[:2]) <= {"paid_escrow"}
        assert statuses[2] in {"paid_escrow", "cancelled"}
        assert kept == statuses.count("paid_escrow") * TOTAL
        # Every kobo received is in escrow or refunded, not in a wallet or quarantined.
        assert (wallet, held_back) == (0, 0)
        assert sum(charge.amount_minor for charge in charged) == kept + back


class TestDelivery:
    def test_concurrent_pin_and_confirmation_release_escrow_once(
        self, database: Database, shops: list[Shop]
    ) -> None:
        shop = shops[0]
        placed = [database.in_transaction(shipped_order, shop) for _ in range(5)]

        def end(given: tuple[UUID, str]) -> None:
            order_id, how = given
            with database.transaction() as session:
                if how == "pin":
                    release(session, shop, order_id)
                else:
                    orders.confirm_receipt(session, order_id=order_id, caller=shop.buyer, now=NOW)

        given = [(order_id, how) for order_id in placed for how in ("pin", "confirm", "pin", "confirm")]
        results = at_once(end, given)

        assert Counter(type(result) for result in results) == {type(None): 5, IllegalTransitionError: 15}
        with database.reading() as session:
            for order_id in placed:
                escrow = row_of(session, "escrows", order_id=order_id)
                assert (escrow["status"], escrow["released_minor"]) == ("released", escrow["amount_minor"])
            assert row_of(session, "vendor_profiles", id=shop.store_id)["completed_orders"] == 5
        assert_whole(database)


class _ReopeningGateway:
    """A gateway without the charge, which lets the buyer open the payment page again during the request."""

    def __init__(self, work: Callable[[], None]) -> None:
        self._work = work

    def fetch_charge(self, _reference: str) -> Charge | None:
        """Run the work and report no charge."""
        self._work()
        return None


def test_order_does_not_expire_if_payment_page_opens_during_sweep(
    database: Database, shops: list[Shop]
) -> None:
    product_id = products_of(database, shops)[0]
    order_id = database.in_transaction(place, shops[0], product_id)
    opened_at: datetime = later(minutes=29, seconds=59)

    def open_page(session: Any) -> None:
        intent = make_intent(session, shops[0], order_id, now=opened_at)
        lifecycle.lease_initialization(session, intent=intent, now=opened_at)

    with database.transaction() as session:
        intent = make_intent(session, shops[0], order_id)
        session.execute(
            text("UPDATE payment_intents SET opening_until = :until WHERE id = :id"),
            {"until": NOW, "id": intent.id},
        )
    gateway: Any = _ReopeningGateway(lambda: database.in_transaction(open_page))
    sweep_abandoned_checkouts(database, gateway, fee_bearer="platform", now=later(minutes=30))

    with database.reading() as session:
        order = row_of(session, "orders", id=order_id)
    assert (order["status"], order["expires_at"]) == ("pending_payment", later(minutes=59, seconds=59))
