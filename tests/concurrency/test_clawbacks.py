"""Concurrent clawbacks: no kobo is returned twice, and no deadlock."""

from uuid import UUID

import pytest

from marketplace.infra.db import Database
from marketplace.ledger import accounts
from marketplace.ledger.queries import fetch_balance
from marketplace.payments.guards import ChargedBackError
from marketplace.payments.refunds.admin_refund import EscrowDeficitError
from marketplace.payouts.batches.staging import NothingToStageError
from tests.support.depth import case_count
from tests.support.finance import claw_back, delivered_order, lose_dispute, make_officer
from tests.support.payouts import Payee, make_account, stage
from tests.support.purchases import (
    Shop,
    assert_ledger_is_consistent,
    make_shop,
    row_of,
    wallet_of,
    with_buyer,
)
from tests.support.threads import at_once, unexpected_errors

ROUNDS = case_count(3, deep=30)


@pytest.fixture
def shop(database: Database) -> Shop:
    return database.in_transaction(make_shop)


def owed(database: Database, shop: Shop) -> int:
    with database.reading() as session:
        return fetch_balance(session, account=accounts.vendor_receivable(shop.store_id))


def assert_whole(database: Database) -> None:
    with database.reading() as session:
        assert_ledger_is_consistent(session)


def test_concurrent_full_clawbacks_of_an_order_take_the_amount_once(database: Database, shop: Shop) -> None:
    officers = [database.in_transaction(make_officer) for _ in range(4)]
    for _ in range(ROUNDS):
        order_id = database.in_transaction(delivered_order, shop)
        results = at_once(
            lambda officer, order_id=order_id: database.in_transaction(claw_back, order_id, officer), officers
        )
        assert unexpected_errors(results, EscrowDeficitError) == []
        assert sum(not isinstance(result, Exception) for result in results) == 1
        with database.reading() as session:
            escrow = row_of(session, "escrows", order_id=order_id)
        assert escrow["clawed_back_minor"] == escrow["released_minor"]
    assert_whole(database)


def test_concurrent_partial_clawbacks_add_up(database: Database, shop: Shop) -> None:
    officer = database.in_transaction(make_officer)
    order_id = database.in_transaction(delivered_order, shop)
    results = at_once(
        lambda minor: database.in_transaction(claw_back, order_id, officer, amount_minor=minor),
        [1_000, 2_000, 3_000, 4_000],
    )
    assert unexpected_errors(results) == []
    assert owed(database, shop) == 10_000
    with database.reading() as session:
        assert wallet_of(session, shop.buyer.id) == 10_000
    assert_whole(database)


def test_concurrent_clawback_and_chargeback_take_no_more_than_released(
    database: Database, shop: Shop
) -> None:
    officer = database.in_transaction(make_officer)
    for _ in range(ROUNDS):
        order_id = database.in_transaction(delivered_order, shop)

        def act(by: str, order_id: UUID = order_id) -> object:
            if by == "bank":
                return database.in_transaction(lose_dispute, order_id, amount_minor=None)
            return database.in_transaction(claw_back, order_id, officer)

        results = at_once(act, ["bank", "officer"])
        assert unexpected_errors(results, ChargedBackError) == []
        with database.reading() as session:
            escrow = row_of(session, "escrows", order_id=order_id)
        assert escrow["clawed_back_minor"] == escrow["released_minor"]
    assert_whole(database)


def test_concurrent_clawbacks_and_payout_staging_keep_receivable_consistent(
    database: Database, shop: Shop
) -> None:
    with database.transaction() as session:
        officer = make_officer(session)
        payee = Payee(shop.vendor, shop.store_id, make_account(session, shop.vendor.id))
    orders = [
        database.in_transaction(delivered_order, database.in_transaction(with_buyer, shop)) for _ in range(4)
    ]

    def act(order_id: UUID | None) -> object:
        if order_id is None:
            return database.in_transaction(stage, [payee])
        return database.in_transaction(claw_back, order_id, officer, amount_minor=50_000)

    results = at_once(act, [*orders, None, None])

    assert unexpected_errors(results, NothingToStageError) == []
    collected = sum(getattr(result, "collected_minor", 0) for result in results)
    assert owed(database, shop) == 4 * 50_000 - collected
    assert_whole(database)
