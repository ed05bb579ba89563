"""Silent buyers and vendors: reminders by day, disputes for staff, and cancelled orders."""

from datetime import timedelta
from uuid import UUID

import pytest
from sqlalchemy import select

from marketplace.disputes import silence
from marketplace.disputes.models import Dispute
from marketplace.infra.db import Database
from tests.support.audit_and_notifications import notifications_of
from tests.support.purchases import (
    NOW,
    Shop,
    assert_ledger_is_consistent,
    balances_of_order,
    make_shop,
    paid_order,
    row_of,
    shipped_order,
    status_of,
    trail_of,
)


@pytest.fixture
def shop(database: Database) -> Shop:
    return database.in_transaction(make_shop)


def reminders(database: Database, user_id: UUID) -> int:
    return sum(row["type"] == "order_reminder" for row in notifications_of(database, user_id))


def test_buyer_is_reminded_on_days_2_5_and_9(database: Database, shop: Shop) -> None:
    database.in_transaction(shipped_order, shop)
    counts = []
    for hours in range(0, 13 * 24, 12):
        # Runs twice, as after a lost acknowledgement.
        for _ in range(2):
            silence.remind_silent_buyers(database, now=NOW + timedelta(hours=hours))
        counts.append(reminders(database, shop.buyer.id))
    days = [counts.index(number) / 2 for number in (1, 2, 3)]
    assert days == [2, 5, 9]
    assert counts[-1] == 3


def test_silent_buyer_leads_to_a_dispute_for_staff(database: Database, shop: Shop) -> None:
    order_id = database.in_transaction(shipped_order, shop)
    silence.escalate_silent_buyers(database, now=NOW + timedelta(days=13, hours=23))
    with database.reading() as session:
        assert status_of(session, order_id) == "shipped"
    for _ in range(2):
        silence.escalate_silent_buyers(database, now=NOW + timedelta(days=14))
    with database.transaction() as session:
        [dispute] = session.scalars(select(Dispute).where(Dispute.order_id == order_id))
        assert (dispute.opened_by, dispute.status) == ("system", "under_review")
        assert row_of(session, "escrows", order_id=order_id)["status"] == "frozen"
        assert_ledger_is_consistent(session)
    for user_id in (shop.buyer.id, shop.vendor.id):
        assert "order_disputed" in [row["type"] for row in notifications_of(database, user_id)]


def test_silent_vendor_is_reminded_once_after_two_days(database: Database, shop: Shop) -> None:
    database.in_transaction(paid_order, shop)
    for hours in (47, 48, 49, 60):
        silence.remind_silent_vendors(database, now=NOW + timedelta(hours=hours))
        assert reminders(database, shop.vendor.id) == (0 if hours < 48 else 1)


def test_order_of_a_silent_vendor_is_cancelled_and_refunded(database: Database, shop: Shop) -> None:
    order_id = database.in_transaction(paid_order, shop)
    silence.cancel_unaccepted_orders(database, now=NOW + timedelta(hours=95))
    with database.reading() as session:
        total = balances_of_order(session, order_id)["escrow"]
    for _ in range(2):
        silence.cancel_unaccepted_orders(database, now=NOW + timedelta(hours=96))
    with database.transaction() as session:
        assert status_of(session, order_id) == "cancelled"
        assert balances_of_order(session, order_id)["refunds_in_transit"] == total
        assert trail_of(session, order_id)[-1] == ("paid_escrow", "cancelled", "cancel", "system")
        assert_ledger_is_consistent(session)
    bodies = [row["body"] for row in notifications_of(database, shop.buyer.id)]
    assert any("did not accept it in time" in body for body in bodies)


def test_accepted_and_confirmed_orders_are_left_alone(database: Database, shop: Shop) -> None:
    order_id = database.in_transaction(shipped_order, shop)
    silence.cancel_unaccepted_orders(database, now=NOW + timedelta(days=5))
    silence.remind_silent_vendors(database, now=NOW + timedelta(hours=48))
    assert reminders(database, shop.vendor.id) == 0
    with database.reading() as session:
        assert status_of(session, order_id) == "shipped"
