"""Concurrent chargeback, refund dispatch and finance action: no double payment and no deadlock."""

from uuid import UUID

import pytest

from marketplace.identity.queries import Caller
from marketplace.infra.db import Database
from marketplace.kernel.errors import ConflictError
from marketplace.kernel.states import IllegalTransitionError
from marketplace.payments.refunds import gateway_refund
from marketplace.payments.refunds.buyer_accounts import offset_against_wallet
from marketplace.payments.refunds.gateway_refund import PendingGatewayRefund, RefundInProgressError
from tests.support.depth import case_count
from tests.support.finance import (
    TOTAL,
    buyer_debt_of,
    cancelled_order,
    charge_of,
    dispute_charge,
    make_officer,
    recover_refund,
    refunds_of,
    report_refund_status,
)
from tests.support.purchases import (
    NOW,
    Shop,
    assert_ledger_is_consistent,
    make_shop,
    row_of,
    wallet_of,
    with_buyer,
)
from tests.support.threads import at_once, unexpected_errors

ROUNDS = case_count(3, deep=30)
LOST = "merchant-accepted"


@pytest.fixture
def shop(database: Database) -> Shop:
    return database.in_transaction(make_shop)


@pytest.fixture
def officer(database: Database) -> Caller:
    return database.in_transaction(make_officer)


class Case:
    """A pending refund and the charge behind the refund."""

    def __init__(self, database: Database, shop: Shop) -> None:
        self.database = database
        with database.transaction() as session:
            self.shop = with_buyer(session, shop)
            order_id = cancelled_order(session, self.shop)
            self.refund_id: UUID = refunds_of(session, order_id)[0]["id"]
            self.charge_id = charge_of(session, order_id)

    def claim(self) -> PendingGatewayRefund | None:
        return self.database.in_transaction(gateway_refund.lease_refund, refund_id=self.refund_id, now=NOW)

    def report_status(self, status: str) -> str:
        return self.database.in_transaction(report_refund_status, self.refund_id, status)

    def dispute(self, resolution: str | None = None) -> UUID:
        return self.database.in_transaction(dispute_charge, self.charge_id, resolution, refund_amount=TOTAL)

    def resolve_failed_refund(self, officer: Caller, trigger: str) -> object:
        return self.database.in_transaction(recover_refund, self.refund_id, officer, trigger)

    def collect(self) -> bool:
        return self.database.in_transaction(offset_against_wallet, buyer_id=self.shop.buyer.id, now=NOW)

    @property
    def status(self) -> str:
        with self.database.reading() as session:
            status: str = row_of(session, "refunds", id=self.refund_id)["status"]
        return status

    def fetch_wallet_and_debt(self) -> tuple[int, int]:
        """Return the buyer's wallet balance and debt."""
        with self.database.reading() as session:
            assert_ledger_is_consistent(session)
            return wallet_of(session, self.shop.buyer.id), buyer_debt_of(session, self.shop.buyer.id)


def test_refund_is_requested_before_the_chargeback_or_not_at_all(database: Database, shop: Shop) -> None:
    for _ in range(ROUNDS):
        case = Case(database, shop)

        results = at_once(lambda act: act(), [case.claim, case.dispute, case.claim, case.claim])

        assert unexpected_errors(results, RefundInProgressError) == []
        claimed = [result for result in results if isinstance(result, PendingGatewayRefund)]
        assert len(claimed) <= 1
        assert not any(found.has_chargeback for found in claimed)
        with database.reading() as session:
            is_requested = row_of(session, "refunds", id=case.refund_id)["asked_at"] is not None
        assert is_requested == bool(claimed)


def test_lost_chargeback_during_refund_dispatch_pays_the_buyer_once(database: Database, shop: Shop) -> None:
    for _ in range(ROUNDS):
        case = Case(database, shop)

        def lose(current_case: Case = case) -> UUID:
            return current_case.dispute(LOST)

        results = at_once(lambda act: act(), [case.claim, lose, case.claim])

        assert unexpected_errors(results, RefundInProgressError) == []
        if any(isinstance(result, PendingGatewayRefund) for result in results):
            # The refund was in transit when the bank took the money, so the buyer was paid twice and owes the amount.
            assert case.status == "pending"
            case.report_status("processed")
            assert case.fetch_wallet_and_debt() == (0, TOTAL)
        else:
            assert case.status == "credited"
            assert case.fetch_wallet_and_debt() == (0, 0)


def test_lost_chargeback_with_concurrent_finance_actions_credits_once(
    database: Database, shop: Shop, officer: Caller
) -> None:
    for _ in range(ROUNDS):
        case = Case(database, shop)
        case.report_status("failed")
        acts = [
            lambda current_case=case: current_case.dispute(LOST),
            lambda current_case=case: current_case.resolve_failed_refund(officer, "credit"),
            lambda current_case=case: current_case.resolve_failed_refund(officer, "retry"),
            lambda current_case=case: current_case.collect(),
        ]

        results = at_once(lambda act: act(), acts)

        assert unexpected_errors(results, ConflictError, IllegalTransitionError) == []
        case.collect()
        if case.status == "pending":
            # The refund was retried first and not requested: the lease finds the charge lost.
            assert case.claim() is None
        assert case.status == "credited"
        assert case.fetch_wallet_and_debt() == (0, 0)


def test_chargeback_resolution_during_gateway_lookup_leaves_no_stuck_refund(
    database: Database, shop: Shop
) -> None:
    for resolution in (LOST, "declined") * 3:
        case = Case(database, shop)
        found = case.claim()
        assert found is not None
        case.dispute()

        def unknown(current_case: Case = case, to_send: PendingGatewayRefund = found) -> None:
            current_case.database.in_transaction(
                gateway_refund.record_refund_unknown_to_gateway, pending_refund=to_send, now=NOW
            )

        def end(current_case: Case = case, word: str = resolution) -> UUID:
            return current_case.dispute(word)

        results = at_once(lambda act: act(), [unknown, end])

        assert unexpected_errors(results) == []
        again = case.database.in_transaction(
            gateway_refund.lease_refund, refund_id=case.refund_id, now=NOW + gateway_refund.SENDING_LEASE
        )
        if resolution == LOST:
            if again is not None:
                unknown()
            assert case.status == "credited"
            assert case.fetch_wallet_and_debt() == (0, 0)
        else:
            assert again is not None
            assert not again.has_chargeback
