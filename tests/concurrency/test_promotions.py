"""Concurrent promotions: the last unit is sold once at the sale price, and no change is overwritten."""

import random
from collections import Counter
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from sqlalchemy.exc import DBAPIError

from marketplace.cart.operations import RequestedItem
from marketplace.catalog.promotions import featured, flash_sales, vibes
from marketplace.catalog.promotions.common import PromotionEndedError
from marketplace.catalog.promotions.featured import AlreadyFeaturedError
from marketplace.catalog.promotions.flash_sales import Discount, OverlappingSaleError, QuantityBelowSoldError
from marketplace.catalog.promotions.vibes import SlugTakenError
from marketplace.infra.db import Database
from marketplace.kernel.errors import MarketplaceError, StaleRevisionError
from marketplace.orders.placing.place_order import PriceChangedError
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
    make_shop,
    place,
    row_of,
    with_buyer,
)
from tests.support.threads import at_once, unexpected_errors


@pytest.fixture
def shop(database: Database) -> Shop:
    with database.transaction() as session:
        return make_shop(session)


def make_sale(database: Database, shop: Shop, **terms: Any) -> tuple[UUID, UUID]:
    with database.transaction() as session:
        product_id = make_product(session, shop, quantity=100)
        return product_id, put_on_sale(session, product_id, **terms)


def buyers(database: Database, shop: Shop, number: int) -> list[Shop]:
    with database.transaction() as session:
        return [with_buyer(session, shop) for _ in range(number)]


def assert_whole(database: Database) -> None:
    with database.reading() as session:
        assert_ledger_is_consistent(session)


def test_last_sale_unit_is_sold_once_at_sale_price(database: Database, shop: Shop) -> None:
    product_id, sale_id = make_sale(database, shop, quantity=1)

    placed = at_once(
        lambda buying: database.in_transaction(place, buying, product_id), buyers(database, shop, 20)
    )

    assert unexpected_errors(placed) == []
    with database.reading() as session:
        prices = Counter(item_of(session, order_id) for order_id in placed)  # type: ignore[arg-type]
        assert prices == {(SALE_PRICE, sale_id): 1, (PRICE_MINOR, None): 19}
        assert (units_sold_in(session, sale_id), sale_units_left(session, product_id)) == (1, 0)
    assert_whole(database)


def test_late_buyer_gets_price_changed_error(database: Database, shop: Shop) -> None:
    product_id, sale_id = make_sale(database, shop, quantity=3)
    expected = SALE_PRICE + DELIVERY_FEE_MINOR + SERVICE_FEE_MINOR

    results = at_once(
        lambda buying: database.in_transaction(place, buying, product_id, expected_total_minor=expected),
        buyers(database, shop, 16),
    )

    assert Counter(type(result) for result in results) == {UUID: 3, PriceChangedError: 13}
    with database.reading() as session:
        assert units_sold_in(session, sale_id) == 3
    assert_whole(database)


def test_only_first_of_overlapping_concurrent_sales_is_created(database: Database, shop: Shop) -> None:
    with database.transaction() as session:
        product_id = make_product(session, shop)

    results = at_once(
        lambda minutes: database.in_transaction(
            put_on_sale, product_id, starts_at=later(minutes=minutes), ends_at=later(hours=2)
        ),
        range(8),
    )

    assert Counter(type(result) for result in results) == {UUID: 1, OverlappingSaleError: 7}


def test_only_first_concurrent_change_to_same_revision_is_applied(database: Database, shop: Shop) -> None:
    _, sale_id = make_sale(database, shop)

    def change(percent: int) -> None:
        with database.transaction() as session:
            flash_sales.update_flash_sale(
                session,
                act_of_new_officer(session),
                sale_id=sale_id,
                revision=1,
                discount=Discount(percent=percent),
                changes={},
            )

    results = at_once(change, range(10, 18))

    assert Counter(type(result) for result in results) == {type(None): 1, StaleRevisionError: 7}
    with database.reading() as session:
        assert row_of(session, "flash_sales", id=sale_id)["revision"] == 2


def test_sale_is_ended_once_by_concurrent_requests(database: Database, shop: Shop) -> None:
    _, sale_id = make_sale(database, shop)

    def end(_: int) -> None:
        with database.transaction() as session:
            flash_sales.end_flash_sale(session, act_of_new_officer(session), sale_id=sale_id)

    results = at_once(end, range(6))

    assert Counter(type(result) for result in results) == {type(None): 1, PromotionEndedError: 5}


def test_product_is_featured_once_by_concurrent_requests(database: Database, shop: Shop) -> None:
    with database.transaction() as session:
        product_id = make_product(session, shop)

    def feature(_: int) -> UUID:
        with database.transaction() as session:
            return featured.create_featured_product(
                session,
                act_of_new_officer(session),
                product_id=product_id,
                position=0,
                starts_at=None,
                ends_at=None,
            )

    results = at_once(feature, range(6))

    assert Counter(type(result) for result in results) == {UUID: 1, AlreadyFeaturedError: 5}


def test_slug_is_taken_once_by_concurrent_requests(database: Database) -> None:
    fields = {"slug": f"vibe-{uuid4().hex[:12]}", "title": "Exams"}

    def make(_: int) -> UUID:
        with database.transaction() as session:
            return vibes.create_vibe(session, act_of_new_officer(session), fields=fields, product_ids=[])

    results = at_once(make, range(6))

    assert Counter(type(result) for result in results) == {UUID: 1, SlugTakenError: 5}


def test_random_actions_on_sales_neither_deadlock_nor_oversell(database: Database, shop: Shop) -> None:
    """Orders, cancellations, officers and the worker act on the same two products without retries."""
    made = [make_sale(database, shop, quantity=10) for _ in range(2)]
    crowd = buyers(database, shop, 8)

    def act_at_random(number: int) -> Counter[str]:
        draw = random.Random(number)  # noqa: S311 - the same in every run
        buying, placed = crowd[number], list[UUID]()
        done: Counter[str] = Counter()

        def order() -> None:
            wishes = [RequestedItem(product_id, draw.randint(1, 3)) for product_id, _ in draw.sample(made, 2)]
            with database.transaction() as session:
                placed.append(place(session, buying, wishes=wishes))

        def cancel() -> None:
            if placed:
                with database.transaction() as session:
                    order_cancellation.cancel_order(
                        session, order_id=placed.pop(), caller=buying.buyer, reason=None, now=NOW
                    )

        def change() -> None:
            _, sale_id = draw.choice(made)
            changes = {
                "quantity": draw.randint(5, 30),
                "ends_at": NOW + timedelta(minutes=draw.randint(1, 90)),
            }
            with database.transaction() as session:
                flash_sales.update_flash_sale(
                    session,
                    act_of_new_officer(session),
                    sale_id=sale_id,
                    revision=None,
                    discount=None,
                    changes=changes,
                )

        def turn() -> None:
            product_id, _ = draw.choice(made)
            with database.transaction() as session:
                flash_sales.on_boundary(session, product_id=product_id, now=NOW)

        for _ in range(25):
            step = draw.choice((order, order, order, cancel, cancel, change, turn))
            try:
                step()
                done[step.__name__] += 1
            except MarketplaceError as error:
                done[type(error).__name__] += 1
        return done

    results = at_once(act_at_random, range(8))

    assert [found for found in results if isinstance(found, DBAPIError)] == []
    assert unexpected_errors(results) == []
    done: Counter[str] = sum(results, Counter())  # type: ignore[arg-type]
    assert done.keys() >= {"order", "cancel", "change", "turn"}
    assert done.keys() - {"order", "cancel", "change", "turn"} <= {
        QuantityBelowSoldError.__name__,
        "TooManyUnpaidOrdersError",
    }
    assert_whole(database)
