"""Automated review of products: publish or hold exactly once, despite repeats, delays and concurrent changes."""

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest

from marketplace.audit.operations import Act
from marketplace.catalog import texts
from marketplace.catalog.models import BannedTerm, Product
from marketplace.catalog.moderation import automated_review, staff_actions
from marketplace.infra.db import Database
from marketplace.kernel.states import IllegalTransitionError
from tests.support.audit_and_notifications import notifications_of
from tests.support.market import Market, Store
from tests.support.moderation import screen_by_rules_alone
from tests.support.threads import at_once


@pytest.fixture
def market(database: Database) -> Market:
    return Market(database)


@pytest.fixture
def store(market: Market) -> Store:
    return market.store()


def screen(market: Market, product_id: UUID, *, minutes: int = 1) -> str | None:
    return market.database.in_transaction(
        screen_by_rules_alone,
        product_id=product_id,
        now=market.now + timedelta(minutes=minutes),
    )


def read(market: Market, product_id: UUID) -> automated_review.ScreenedListing | None:
    with market.database.reading() as session:
        return automated_review.read_and_screen(session, product_id=product_id)


def publish_or_hold(
    market: Market, found: automated_review.ScreenedListing | None, *doubts: str
) -> str | None:
    return market.database.in_transaction(
        automated_review.publish_or_hold, listing=found, provider_findings=doubts, now=market.now
    )


def notified(market: Market, store: Store) -> list[str]:
    return [row["type"] for row in notifications_of(market.database, store.user_id)]


def test_clean_product_is_published_and_vendor_is_notified(market: Market, store: Store) -> None:
    product_id = market.product(store, status="in_review", status_reason="Before.", title="Reading lamp")

    assert screen(market, product_id) == "published"

    row = market.row(Product, product_id)
    assert (row.status, row.status_reason, row.review_reasons, row.held) == ("published", None, [], False)
    assert row.published_at == row.screened_at == row.moderated_at == market.now + timedelta(minutes=1)
    assert row.revision == 1
    [notification] = notifications_of(market.database, store.user_id)
    assert notification["type"] == "product_published"
    assert "Reading lamp" in notification["body"]
    assert notification["link"] == f"/products/{product_id}"
    assert notification["read_at"] is None


def test_doubtful_product_is_held_for_staff_with_reasons(market: Market, store: Store) -> None:
    product_id = market.product(store, status="in_review", title="12345", description="Call 0803 123 4567")

    assert screen(market, product_id) == "in_review"

    row = market.row(Product, product_id)
    assert (row.status, row.held, row.published_at, row.screened_at) == ("in_review", True, None, None)
    assert row.review_reasons[0] == "The title must describe the product in words."
    assert "phone number" in row.review_reasons[1]
    assert row.status_reason == " ".join(row.review_reasons)
    [notification] = notifications_of(market.database, store.user_id)
    assert notification["type"] == "product_held"
    assert row.status_reason in notification["body"]
    assert "0803" not in notification["body"]


def test_repeated_screening_changes_nothing(market: Market, store: Store) -> None:
    fit, doubtful = (market.product(store, status="in_review", title=title) for title in ("Lamp", "777"))
    for product_id in (fit, doubtful):
        screen(market, product_id)

    assert screen(market, fit, minutes=9) is None
    assert screen(market, doubtful, minutes=9) is None

    assert market.row(Product, fit).published_at == market.now + timedelta(minutes=1)
    assert market.row(Product, doubtful).moderated_at == market.now + timedelta(minutes=1)
    assert sorted(notified(market, store)) == ["product_held", "product_published"]


@pytest.mark.parametrize("status", ["draft", "published", "rejected", "paused", "removed", "deleted"])
def test_late_screening_ignores_product_not_in_review(market: Market, store: Store, status: str) -> None:
    product_id = market.product(store, status=status)
    before = market.row(Product, product_id).updated_at

    assert screen(market, product_id) is None

    row = market.row(Product, product_id)
    assert (row.status, row.updated_at) == (status, before)
    assert notified(market, store) == []


@pytest.mark.parametrize(
    "meanwhile",
    [
        {"status": "rejected"},
        {"status": "removed"},
        {"status": "deleted"},
        {"status": "published", "published_at": datetime(2026, 11, 20, tzinfo=UTC)},
        {"held": True},
        {"review_round": 1, "title": "Another"},
    ],
    ids=repr,
)
def test_product_changed_during_provider_call_is_left_unchanged(
    market: Market, store: Store, meanwhile: dict[str, Any]
) -> None:
    product_id = market.product(store, status="in_review")
    found = read(market, product_id)
    market.change(Product, product_id, **meanwhile)

    assert publish_or_hold(market, found) is None

    row = market.row(Product, product_id)
    assert row.status == meanwhile.get("status", "in_review")
    assert row.published_at == meanwhile.get("published_at")
    assert notified(market, store) == []


def test_product_with_provider_findings_is_held_for_staff(market: Market, store: Store) -> None:
    product_id = market.product(store, status="in_review")

    assert publish_or_hold(market, read(market, product_id), "It was taken amiss.") == "in_review"

    assert market.row(Product, product_id).review_reasons == ["It was taken amiss."]


def test_missing_product_is_not_screened(market: Market) -> None:
    assert screen(market, uuid4()) is None


def test_changed_product_keeps_the_first_publication_time(market: Market, store: Store) -> None:
    first = market.now - timedelta(days=3)
    product_id = market.product(store, status="in_review", published_at=first)

    assert screen(market, product_id) == "published"

    row = market.row(Product, product_id)
    assert row.published_at == first
    assert row.screened_at == market.now + timedelta(minutes=1)


def test_concurrent_screenings_publish_once(market: Market, store: Store) -> None:
    product_id = market.product(store, status="in_review")

    with ThreadPoolExecutor(max_workers=4) as pool:
        states = list(pool.map(lambda _: screen(market, product_id), range(4)))

    assert sorted(states, key=str) == [None, None, None, "published"]
    assert notified(market, store) == ["product_published"]


def test_concurrent_approval_and_screening_publish_once(market: Market, store: Store) -> None:
    officer_id = market.staff("moderator")
    for _ in range(3):
        product_id = market.product(store, status="in_review")
        found = read(market, product_id)

        def approve(product_id: UUID = product_id) -> None:
            market.database.in_transaction(
                staff_actions.approve_product,
                act=Act("moderator", market.now, user_id=officer_id),
                product_id=product_id,
                revision=None,
                note=None,
            )

        def clear(found: automated_review.ScreenedListing | None = found) -> str | None:
            return publish_or_hold(market, found)

        approved, cleared = at_once(lambda work: work(), [approve, clear])

        assert market.row(Product, product_id).status == "published"
        if cleared is None:
            assert approved is None
        else:
            assert (cleared, type(approved)) == ("published", IllegalTransitionError)
    assert notified(market, store) == ["product_published"] * 3


def test_previously_rejected_product_is_held_for_staff(market: Market, store: Store) -> None:
    product_id = market.product(store, status="in_review", needs_staff=True)

    assert screen(market, product_id) == "in_review"

    assert market.row(Product, product_id).review_reasons == [texts.PREVIOUSLY_REJECTED]


def test_price_is_compared_with_prices_of_the_category(market: Market, store: Store) -> None:
    for number in range(20):
        market.product(store, price_minor=100_000 + number)
    elsewhere = market.category()

    def screened(price_minor: int, **columns: Any) -> str | None:
        return screen(market, market.product(store, status="in_review", price_minor=price_minor, **columns))

    assert screened(1_900_000) == "published"
    assert screened(2_500_000) == "in_review"
    assert screened(4_000) == "in_review"
    assert screened(2_500_000, category_id=elsewhere) == "published"


def test_category_with_few_prices_uses_parent_and_root_prices(market: Market, store: Store) -> None:
    root = market.category()
    parent = market.category(below=root)
    leaf, sibling = market.category(below=parent), market.category(below=parent)
    cousin = market.category(below=market.category(below=root))

    def screened(category_id: UUID, price_minor: int) -> str | None:
        product_id = market.product(
            store, status="in_review", price_minor=price_minor, category_id=category_id
        )
        return screen(market, product_id)

    for number in range(19):
        market.product(store, price_minor=100_000 + number, category_id=cousin)
    assert screened(leaf, 90_000_000) == "published"  # 19 prices are too few to compare
    assert screened(leaf, 3_000_000) == "in_review"  # 20 prices in the root's tree are enough
    assert screened(root, 3_000_000) == "in_review"
    assert screened(leaf, 1_500_000) == "published"

    for number in range(20):
        market.product(store, price_minor=10_000_000 + number, category_id=sibling)
    assert screened(leaf, 3_000_000) == "published"  # sibling prices take precedence over cousins
    assert screened(leaf, 400_000) == "in_review"
    assert screened(cousin, 90_000) == "published"


def test_product_with_banned_term_of_the_table_is_held(market: Market, store: Store) -> None:
    word = f"contraband{uuid4().hex[:8]}"
    product_id = market.product(store, status="in_review", description=f"Fresh {word.upper()}s")
    market._save(BannedTerm(term=word, category="other", exceptions=[]))

    assert screen(market, product_id) == "in_review"

    [reason] = market.row(Product, product_id).review_reasons
    assert word in reason


class TestOverdueScreenings:
    def overdue(self, market: Market, *, minutes: int) -> int:
        now = market.now + timedelta(minutes=minutes)
        return market.database.in_transaction(automated_review.hold_overdue_screenings, now=now)

    def test_product_not_screened_within_thirty_minutes_is_held(self, market: Market, store: Store) -> None:
        product_id = market.product(store, status="in_review", moderated_at=market.now)

        self.overdue(market, minutes=29)
        assert not market.row(Product, product_id).held

        assert self.overdue(market, minutes=30) >= 1
        row = market.row(Product, product_id)
        assert (row.status, row.held, row.review_reasons) == (
            "in_review",
            True,
            [texts.NOT_CHECKED_IN_TIME],
        )
        self.overdue(market, minutes=31)
        assert notified(market, store) == ["product_held"]

    def test_product_not_in_review_is_left_unchanged(self, market: Market, store: Store) -> None:
        product_id = market.product(store, status="published", moderated_at=market.now)

        self.overdue(market, minutes=90)

        assert market.row(Product, product_id).status == "published"
