"""Concurrent toggles of favourites, and concurrent announcements."""

from collections import Counter
from datetime import UTC, datetime

from sqlalchemy import text

from marketplace.catalog.favorites import announce, toggle
from marketplace.catalog.models import Product
from marketplace.infra.db import Database
from tests.support.audit_and_notifications import notifications_of
from tests.support.market import Market
from tests.support.threads import at_once, unexpected_errors

TOGGLES = 50


def test_fifty_concurrent_toggles_alternate(database: Database) -> None:
    market = Market(database)
    product_id, user_id = market.product(market.store()), market.person()

    results = at_once(
        lambda _: database.in_transaction(
            toggle.toggle_favorite, user_id=user_id, product_id=product_id, now=datetime.now(UTC)
        ),
        range(TOGGLES),
    )

    assert unexpected_errors(results) == []
    assert Counter(results) == {True: TOGGLES // 2, False: TOGGLES // 2}
    with database.reading() as session:
        left = session.scalar(text("SELECT count(*) FROM favorites WHERE user_id = :id"), {"id": user_id})
    assert left == 0


def test_concurrent_announcements_notify_once(database: Database) -> None:
    market = Market(database)
    product_id, people = (
        market.product(market.store(), price_minor=500_000),
        [market.person() for _ in range(4)],
    )
    for user_id in people:
        database.in_transaction(
            toggle.toggle_favorite, user_id=user_id, product_id=product_id, now=datetime.now(UTC)
        )
    market.change(Product, product_id, price_minor=400_000)

    results = at_once(
        lambda _: database.in_transaction(
            announce.announce_change,
            payload={"productId": str(product_id)},
            now=datetime.now(UTC),
            batch_size=3,
        ),
        range(4),
    )

    assert unexpected_errors(results) == []
    counts = Counter(len(notifications_of(database, user_id)) for user_id in people)
    assert counts[1] >= 3
    assert set(counts) <= {0, 1}
