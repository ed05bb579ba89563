"""Concurrent reviews: one review per order, and a rating that equals the reviews."""

from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import text

from marketplace.audit.operations import Act
from marketplace.infra.db import Database
from marketplace.kernel.states import IllegalTransitionError
from marketplace.reviews import moderation, submit
from marketplace.reviews.rating import copy_rating_to_products
from marketplace.reviews.refunds import mark_refunded
from marketplace.reviews.verification import find_differences
from tests.support.depth import case_count
from tests.support.finance import claw_back, delivered_order, make_officer
from tests.support.purchases import NOW, Shop, make_shop, row_of
from tests.support.threads import at_once, unexpected_errors

ROUNDS = case_count(3, deep=30)
SYSTEM = Act("system", NOW)
TEXT = "The lamp came the same day and works well."


@pytest.fixture
def shop(database: Database) -> Shop:
    return database.in_transaction(make_shop)


def review(database: Database, shop: Shop, order_id: UUID, rating: int) -> UUID:
    return database.in_transaction(
        submit.submit_review,
        author_id=shop.buyer.id,
        vendor_id=shop.store_id,
        order_id=order_id,
        rating=rating,
        text=TEXT,
        now=NOW,
    )


def change(database: Database, shop: Shop, review_id: UUID, rating: int) -> None:
    database.in_transaction(
        submit.update_review,
        author_id=shop.buyer.id,
        review_id=review_id,
        changes={"rating": rating},
        revision=None,
        now=NOW,
    )


def run_all(calls: list[Callable[[], Any]]) -> list[Any]:
    return at_once(lambda call: call(), calls)


def assert_rating_equals_reviews(database: Database, shop: Shop) -> None:
    database.in_transaction(copy_rating_to_products, vendor_id=shop.store_id)
    with database.transaction() as session:
        assert [one for one in find_differences(session) if one.vendor_id == shop.store_id] == []


def rating_count(database: Database, shop: Shop) -> int:
    with database.reading() as session:
        count: int = row_of(session, "vendor_profiles", id=shop.store_id)["rating_count"]
    return count


def test_concurrent_reviews_of_an_order_leave_one(database: Database, shop: Shop) -> None:
    for number in range(1, ROUNDS + 1):
        order_id = database.in_transaction(delivered_order, shop)
        results = at_once(
            lambda rating, order_id=order_id: review(database, shop, order_id, rating), [1, 2, 4, 5]
        )
        assert unexpected_errors(results, submit.AlreadyReviewedError) == []
        assert sum(not isinstance(result, Exception) for result in results) == 1
        assert rating_count(database, shop) == number
    assert_rating_equals_reviews(database, shop)


def test_concurrent_reviews_of_a_store_add_up(database: Database, shop: Shop) -> None:
    order_ids = [database.in_transaction(delivered_order, shop) for _ in range(6)]
    results = at_once(lambda order_id: review(database, shop, order_id, 5), order_ids)
    assert unexpected_errors(results) == []
    assert rating_count(database, shop) == 6
    assert_rating_equals_reviews(database, shop)


def test_review_at_the_time_of_a_full_refund_does_not_count(database: Database, shop: Shop) -> None:
    officer = database.in_transaction(make_officer)
    for _ in range(ROUNDS):
        order_id = database.in_transaction(delivered_order, shop)
        results = run_all(
            [
                lambda order_id=order_id: review(database, shop, order_id, 5),
                lambda order_id=order_id: database.in_transaction(claw_back, order_id, officer),
            ]
        )
        assert unexpected_errors(results, submit.OrderRefundedInFullError) == []
        with database.transaction() as session:
            events = session.scalar(
                text("SELECT count(*) FROM outbox_events WHERE payload ->> 'orderId' = :id"),
                {"id": str(order_id)},
            )
        assert events == 1
        # The event's handler may run in two workers.
        run_all([lambda order_id=order_id: database.in_transaction(
            mark_refunded, order_id=order_id, now=NOW)] * 2)  # fmt: skip
        assert rating_count(database, shop) == 0
    assert_rating_equals_reviews(database, shop)


def test_concurrent_changes_of_a_review_keep_the_rating(database: Database, shop: Shop) -> None:
    for _ in range(ROUNDS):
        order_id = database.in_transaction(delivered_order, shop)
        review_id = review(database, shop, order_id, 3)
        results = run_all(
            [
                lambda review_id=review_id: change(database, shop, review_id, 1),
                lambda review_id=review_id: change(database, shop, review_id, 5),
                lambda review_id=review_id: database.in_transaction(
                    moderation.hide_review, review_id=review_id, act=SYSTEM
                ),
                lambda review_id=review_id: database.in_transaction(
                    moderation.restore_review, review_id=review_id, act=SYSTEM
                ),
            ]
        )
        assert unexpected_errors(results, IllegalTransitionError) == []
        run_all(
            [
                lambda review_id=review_id: database.in_transaction(
                    submit.delete_review, author_id=shop.buyer.id, review_id=review_id, now=NOW
                ),
                lambda review_id=review_id: database.in_transaction(
                    moderation.hide_review, review_id=review_id, act=SYSTEM
                ),
            ]
        )
        assert rating_count(database, shop) == 0
    assert_rating_equals_reviews(database, shop)
