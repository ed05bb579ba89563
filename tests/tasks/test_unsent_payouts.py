"""Dispatched but unsent payouts after a change of the bank account or during a hold."""

import pytest
from sqlalchemy import text

from marketplace.payouts import texts
from marketplace.services import Services
from tasks.dispatcher import Dispatcher
from tests.support.dispatched_batches import DispatchedBatch
from tests.support.gateway import MovableClock, TestGateway
from tests.support.payouts import OWED_MINOR, make_account, payable_balance_of
from tests.support.purchases import NOW, assert_ledger_is_consistent, later, row_of


@pytest.fixture
def case(paying_services: Services, clock: MovableClock, gateway: TestGateway) -> DispatchedBatch:
    assert clock.now == NOW
    return DispatchedBatch(paying_services, gateway)


def run_short(relay: Dispatcher, case: DispatchedBatch, gateway: TestGateway) -> None:
    held = gateway.call("GET", "/balance")[0]["balance"]
    gateway.call("POST", "/sandbox/settlements", json={"amountMinor": held})
    case.work(relay)
    assert case.alerts == {"PAYOUT_FUNDS_SHORT": "SEV-2"}


def test_payout_to_replaced_account_fails_and_returns_to_payee_balance(
    relay: Dispatcher, case: DispatchedBatch
) -> None:
    payee = case.payees[0]
    with case.database.transaction() as session:
        make_account(session, payee.user.id, created_at=NOW)

    case.work(relay, times=2)

    by_payee = {row["user_id"]: row for row in case.transfers}
    failed = by_payee.pop(payee.user.id)
    assert (failed["payout_status"], failed["sent_at"]) == ("failed", None)
    assert failed["failure_reason"] == texts.FAILED_ACCOUNT_REPLACED
    assert {row["payout_status"] for row in by_payee.values()} == {"submitted"}
    assert case.gateway.calls(failed["reference"]) == {}
    with case.database.reading() as session:
        assert payable_balance_of(session, payee) == OWED_MINOR
        notice = row_of(session, "notifications", user_id=payee.user.id)
        assert_ledger_is_consistent(session)
    assert notice["type"] == "payout_failed"
    assert notice["body"].endswith(
        f"{texts.FAILED_ACCOUNT_REPLACED} The amount is back in your balance. {texts.RETRIED_WITH_NEXT_BATCH}"
    )


def test_payout_waiting_for_funds_fails_when_account_is_replaced(
    relay: Dispatcher, case: DispatchedBatch, gateway: TestGateway
) -> None:
    run_short(relay, case, gateway)
    # The retry event is marked done without effect, so only the sweep can enqueue the batch.
    case.change("outbox_events", "payload ->> 'batchId' = CAST(:batch_id AS text)", done_at=NOW)
    with case.database.transaction() as session:
        for payee in case.payees:
            make_account(session, payee.user.id, created_at=NOW)

    assert case.sweep_at(NOW).batches_enqueued >= 1
    case.work(relay)

    assert case.statuses == {("failed", "pending")}
    assert (case.status, case.alerts) == ("partially_failed", {})
    assert case.calls() == [{"POST /transfer/bulk": 1}] * 3
    case.sweep_at(NOW)
    assert case.events() == []
    with case.database.reading() as session:
        assert [payable_balance_of(session, payee) for payee in case.payees] == [OWED_MINOR] * 3
        assert_ledger_is_consistent(session)


def test_funds_short_alert_is_resolved_when_no_payout_waits_for_funds(
    relay: Dispatcher, case: DispatchedBatch, gateway: TestGateway, clock: MovableClock
) -> None:
    run_short(relay, case, gateway)
    with case.database.transaction() as session:
        session.execute(
            text("UPDATE profiles SET account_status = 'suspended' WHERE id = ANY(:ids)"),
            {"ids": [payee.user.id for payee in case.payees]},
        )

    clock.now = later(minutes=5)
    case.work(relay)

    assert case.statuses == {("pending", "pending")}
    assert case.alerts == {}
