"""Ratings of stores: the figures equal a recount of the reviews after any sequence of changes."""

from collections import Counter
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, strategies
from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.audit.operations import Act
from marketplace.catalog.vendor_products import create_product
from marketplace.infra.db import Database
from marketplace.kernel.errors import MarketplaceError
from marketplace.orders.transitions import REFUNDED_IN_FULL_TOPIC
from marketplace.reviews import moderation, submit
from marketplace.reviews.rating import RATING_CHANGED_TOPIC, copy_rating_to_products
from marketplace.reviews.refunds import mark_refunded
from marketplace.reviews.verification import RatingDifference, find_differences, repair_rating
from marketplace.services import Services
from tasks.all_tasks import HANDLERS
from tests.support.finance import claw_back, delivered_order, make_officer
from tests.support.purchases import (
    NOW,
    Shop,
    make_product,
    make_shop,
    row_of,
)

TEXT = "The lamp came the same day and works well."
SYSTEM = Act("system", NOW)
NO_RATING = (0, 0, [0, 0, 0, 0, 0])


def review_order(session: Session, shop: Shop, order_id: UUID, rating: int = 4) -> UUID:
    """Review an order."""
    return submit.submit_review(
        session,
        author_id=shop.buyer.id,
        vendor_id=shop.store_id,
        order_id=order_id,
        rating=rating,
        text=TEXT,
        now=NOW,
    )


def rating_of(session: Session, shop: Shop) -> tuple[int, int, list[int]]:
    """Return the stored figures of a shop's rating."""
    row = row_of(session, "vendor_profiles", id=shop.store_id)
    return row["rating_sum"], row["rating_count"], row["rating_counts"]


def refund(session: Session, order_id: UUID, amount_minor: int | None = None) -> None:
    """Claw back a delivered order, by default in full, without the event's effect."""
    claw_back(session, order_id, make_officer(session), amount_minor=amount_minor)


def refund_events(session: Session, order_id: UUID) -> list[dict[str, Any]]:
    """List the events of an order's full refund."""
    rows = session.execute(
        text("SELECT payload FROM outbox_events WHERE topic = :topic AND payload ->> 'orderId' = :id"),
        {"topic": REFUNDED_IN_FULL_TOPIC, "id": str(order_id)},
    )
    return [payload for (payload,) in rows]


class TestFullRefund:
    """The effect of refunds on a review."""

    def test_full_refund_takes_stars_out_once(self, session: Session, shop: Shop) -> None:
        order_id = delivered_order(session, shop)
        review_id = review_order(session, shop, order_id)

        refund(session, order_id)
        [payload] = refund_events(session, order_id)
        for _ in range(2):
            HANDLERS[REFUNDED_IN_FULL_TOPIC](session, payload, NOW)

        assert rating_of(session, shop) == NO_RATING
        row = row_of(session, "reviews", id=review_id)
        assert (row["status"], row["refunded"], row["counted"]) == ("visible", True, False)

    def test_partial_refunds_count_together(self, session: Session, shop: Shop) -> None:
        order_id = delivered_order(session, shop)
        review_order(session, shop, order_id)

        refund(session, order_id, amount_minor=1_000)

        assert refund_events(session, order_id) == []
        assert not mark_refunded(session, order_id=order_id, now=NOW)
        refund(session, order_id)
        assert len(refund_events(session, order_id)) == 1
        assert mark_refunded(session, order_id=order_id, now=NOW)
        assert rating_of(session, shop) == NO_RATING

    def test_event_of_order_without_review_has_no_effect(self, session: Session, shop: Shop) -> None:
        order_id = delivered_order(session, shop)
        refund(session, order_id)

        assert not mark_refunded(session, order_id=order_id, now=NOW)

    def test_restored_review_of_refunded_order_does_not_count(self, session: Session, shop: Shop) -> None:
        order_id = delivered_order(session, shop)
        review_id = review_order(session, shop, order_id)
        moderation.hide_review(session, review_id=review_id, act=SYSTEM)
        refund(session, order_id)
        mark_refunded(session, order_id=order_id, now=NOW)

        moderation.restore_review(session, review_id=review_id, act=SYSTEM)

        assert rating_of(session, shop) == NO_RATING


class TestModeration:
    """Hiding and restoring, for reports."""

    def test_hidden_review_does_not_count_until_restored(self, session: Session, shop: Shop) -> None:
        review_id = review_order(session, shop, delivered_order(session, shop))

        assert moderation.hide_review(session, review_id=review_id, act=SYSTEM)
        assert not moderation.hide_review(session, review_id=review_id, act=SYSTEM)
        assert rating_of(session, shop) == NO_RATING
        assert moderation.restore_review(session, review_id=review_id, act=SYSTEM)
        assert not moderation.restore_review(session, review_id=review_id, act=SYSTEM)
        assert rating_of(session, shop) == (4, 1, [0, 0, 0, 1, 0])

    def test_changes_are_audited_and_author_is_notified(self, session: Session, shop: Shop) -> None:
        review_id = review_order(session, shop, delivered_order(session, shop))

        moderation.hide_review(session, review_id=review_id, act=SYSTEM)
        moderation.restore_review(session, review_id=review_id, act=SYSTEM)

        entries = session.execute(
            text("SELECT action, before, after FROM audit_logs WHERE target_id = :id ORDER BY id"),
            {"id": str(review_id)},
        )
        assert [tuple(entry) for entry in entries] == [
            ("review.hide", {"status": "visible"}, {"status": "hidden"}),
            ("review.restore", {"status": "hidden"}, {"status": "visible"}),
        ]
        for kind in ("review_hidden", "review_restored"):
            row_of(session, "notifications", user_id=shop.buyer.id, type=kind)

    def test_target_describes_review(self, session: Session, shop: Shop) -> None:
        review_id = review_order(session, shop, delivered_order(session, shop))

        target = moderation.find_review_target(session, review_id=review_id)

        assert target is not None
        assert target.author_id == shop.buyer.id
        assert (target.vendor_id, target.vendor_user_id) == (shop.store_id, shop.vendor.id)
        assert (target.text, target.rating, target.is_visible) == (TEXT, 4, True)

    def test_deleted_review_is_no_target(self, session: Session, shop: Shop) -> None:
        review_id = review_order(session, shop, delivered_order(session, shop))
        moderation.hide_review(session, review_id=review_id, act=SYSTEM)

        submit.delete_review(session, author_id=shop.buyer.id, review_id=review_id, now=NOW)

        assert moderation.find_review_target(session, review_id=review_id) is None
        assert not moderation.restore_review(session, review_id=review_id, act=SYSTEM)
        assert rating_of(session, shop) == NO_RATING


class TestProducts:
    """The copy of a store's rating on its products."""

    def test_products_follow_rating_of_store(self, session: Session, shop: Shop) -> None:
        order_id = delivered_order(session, shop)
        review_order(session, shop, order_id)
        deleted = make_product(session, shop, status="deleted")

        HANDLERS[RATING_CHANGED_TOPIC](session, {"vendorId": str(shop.store_id)}, NOW)

        rows = session.execute(
            text("SELECT id, rating_sum, rating_count FROM products WHERE vendor_id = :id"),
            {"id": shop.store_id},
        )
        ratings = {product_id: (stars, number) for product_id, stars, number in rows}
        assert ratings.pop(deleted) == (0, 0)
        assert list(ratings.values()) == [(4, 1)]
        assert copy_rating_to_products(session, vendor_id=shop.store_id) == 0

    def test_each_change_enqueues_the_copy(self, session: Session, shop: Shop) -> None:
        review_id = review_order(session, shop, delivered_order(session, shop))
        moderation.hide_review(session, review_id=review_id, act=SYSTEM)

        events = session.scalar(
            text("SELECT count(*) FROM outbox_events WHERE topic = :topic AND payload ->> 'vendorId' = :id"),
            {"topic": RATING_CHANGED_TOPIC, "id": str(shop.store_id)},
        )
        assert events == 2

    def test_new_product_starts_with_rating_of_store(self, session: Session) -> None:
        shop = make_shop(session, rating_sum=9, rating_count=2, rating_counts=[0, 0, 0, 1, 1])

        product_id = create_product(
            session,
            caller=shop.vendor,
            vendor_id=None,
            fields={
                "title": "Desk lamp",
                "description": "",
                "price_minor": 10_000,
                "category_id": shop.category_id,
                "condition": "new",
                "quantity": 1,
                "tags": [],
            },
            image_ids=(),
            status="draft",
            now=NOW,
        )

        row = row_of(session, "products", id=product_id)
        assert (row["rating_sum"], row["rating_count"]) == (9, 2)


class TestVerification:
    """The comparison of stored ratings with the reviews."""

    def test_wrong_rating_is_found_and_repaired(self, session: Session, shop: Shop) -> None:
        review_order(session, shop, delivered_order(session, shop), rating=5)
        copy_rating_to_products(session, vendor_id=shop.store_id)
        assert differences_of(session, shop) == []
        session.execute(
            text(
                "UPDATE vendor_profiles SET rating_sum = 3, rating_count = 2, rating_counts = '{1,1,0,0,0}'"
                " WHERE id = :id"
            ),
            {"id": shop.store_id},
        )

        [difference] = differences_of(session, shop)
        repair_rating(session, vendor_id=shop.store_id)

        assert difference.stored_counts == [1, 1, 0, 0, 0]
        assert difference.counted_counts == [0, 0, 0, 0, 1]
        assert rating_of(session, shop) == (5, 1, [0, 0, 0, 0, 1])
        assert differences_of(session, shop) == []

    def test_product_with_other_rating_is_found_and_repaired(self, session: Session, shop: Shop) -> None:
        review_order(session, shop, delivered_order(session, shop))

        [difference] = differences_of(session, shop)
        repair_rating(session, vendor_id=shop.store_id)

        assert difference.products == 1
        assert differences_of(session, shop) == []


def differences_of(session: Session, shop: Shop) -> list[RatingDifference]:
    """List the differences of a shop."""
    return [found for found in find_differences(session) if found.vendor_id == shop.store_id]


@pytest.fixture(scope="module")
def delivered_orders(services: Services) -> tuple[Database, Shop, list[UUID]]:
    """A shop with delivered orders, which every example starts with."""
    with services.database.transaction() as session:
        shop = make_shop(session)
        return services.database, shop, [delivered_order(session, shop) for _ in range(3)]


_STEP = strategies.tuples(
    strategies.sampled_from(("post", "edit", "hide", "restore", "refund", "event", "delete")),
    strategies.integers(0, 2),
    strategies.integers(1, 5),
)


@given(steps=strategies.lists(_STEP, min_size=1, max_size=14))
def test_any_sequence_of_changes_equals_recount(
    delivered_orders: tuple[Database, Shop, list[UUID]], steps: list[tuple[str, int, int]]
) -> None:
    database, shop, order_ids = delivered_orders
    with database.transaction() as session, session.begin_nested() as example:
        for step, number, rating in steps:
            try:
                with session.begin_nested():
                    take_step(session, shop, step, order_ids[number], rating)
            except MarketplaceError:
                pass  # The state does not allow the step.
        stored, counted = rating_of(session, shop), recount(session, shop)
        example.rollback()
    assert stored == counted


def take_step(session: Session, shop: Shop, step: str, order_id: UUID, rating: int) -> None:
    """Take a step of a review's life."""
    review_id = session.scalar(text("SELECT id FROM reviews WHERE order_id = :id"), {"id": order_id})
    if step == "post":
        review_order(session, shop, order_id, rating)
    elif step == "refund":
        refund(session, order_id)
    elif step == "event":
        mark_refunded(session, order_id=order_id, now=NOW)
    elif review_id is None:
        return
    elif step == "edit":
        submit.update_review(
            session,
            author_id=shop.buyer.id,
            review_id=review_id,
            changes={"rating": rating},
            revision=None,
            now=NOW,
        )
    elif step == "delete":
        submit.delete_review(session, author_id=shop.buyer.id, review_id=review_id, now=NOW)
    else:
        change = moderation.hide_review if step == "hide" else moderation.restore_review
        change(session, review_id=review_id, act=SYSTEM)


def recount(session: Session, shop: Shop) -> tuple[int, int, list[int]]:
    """Count the visible reviews of orders whose refund was not recorded."""
    rows = session.execute(
        text("SELECT rating FROM reviews WHERE vendor_id = :id AND status = 'visible' AND NOT refunded"),
        {"id": shop.store_id},
    )
    stars = Counter(rating for (rating,) in rows)
    counts = [stars[rating] for rating in range(1, 6)]
    return sum(rating * number for rating, number in stars.items()), sum(counts), counts
