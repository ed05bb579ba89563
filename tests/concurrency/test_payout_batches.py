"""Concurrent payout batch actions: each balance is reserved once, two officers approve, one decision wins."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import partial
from uuid import UUID

import pytest
from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.identity.queries import Caller
from marketplace.infra.db import Database
from marketplace.kernel.errors import MarketplaceError
from marketplace.kernel.states import IllegalTransitionError
from marketplace.ledger.operations import InsufficientFundsError
from marketplace.payouts import accounting
from marketplace.payouts.accounting import PayoutRequest, Reservation, ReservationResult
from marketplace.payouts.batches import decisions
from marketplace.payouts.batches.decisions import DuplicateApprovalError
from marketplace.payouts.batches.staging import StagingResult
from marketplace.payouts.transfers import dispatch, submit, void
from marketplace.payouts.transfers.dispatch import ChangedSinceApprovalError
from sandbox.process import wait_until
from tests.support.finance import act_of, make_officer
from tests.support.payouts import (
    OWED_MINOR,
    Payee,
    approve,
    approved_batch,
    credit_balance,
    intents_in,
    intents_of,
    make_account,
    make_payees,
    payable_balance_of,
    record_vendor_debt,
    request_payout,
    stage,
    staged_batch,
)
from tests.support.purchases import NOW, assert_ledger_is_consistent, row_of
from tests.support.threads import BOUND_SECONDS, at_once, unexpected_errors
from tests.support.transfers import dispatched_batch

ROUNDS = 6
REASON = "Decided at once with others."


@pytest.fixture
def officers(database: Database) -> list[Caller]:
    with database.transaction() as session:
        return [make_officer(session) for _ in range(6)]


def payees(database: Database, number: int) -> list[Payee]:
    return database.in_transaction(make_payees, number)


def assert_whole(database: Database) -> None:
    with database.reading() as session:
        assert_ledger_is_consistent(session)


def batch_of(database: Database, batch_id: UUID) -> dict[str, object]:
    with database.reading() as session:
        return row_of(session, "payout_batches", id=batch_id)


def run_like_the_edge(database: Database, job: Callable[[Session], object]) -> object:
    """Run a job in a transaction that also commits if the error keeps changes, like the HTTP edge."""
    with database.transaction() as session:
        try:
            return job(session)
        except MarketplaceError as error:
            if not error.keeps_changes:
                raise
            return error


def reject(session: Session, batch_id: UUID, officer: Caller) -> str:
    decisions.reject_batch(session, batch_id=batch_id, act=act_of(officer, now=NOW), reason=REASON)
    return "rejected"


def begin(session: Session, batch_id: UUID, officer: Caller) -> str:
    dispatch.dispatch_batch(session, batch_id=batch_id, act=act_of(officer, now=NOW))
    return "dispatching"


def test_concurrent_staging_reserves_each_balance_once(database: Database) -> None:
    for _ in range(ROUNDS):
        batch_payees = payees(database, 8)
        # Overlapping payees in different order.
        parts = [batch_payees, batch_payees[::-1], batch_payees[:5], batch_payees[3:]]

        results = at_once(lambda part: database.in_transaction(stage, part), parts)

        assert unexpected_errors(results) == []
        made = [result for result in results if isinstance(result, StagingResult)]
        assert sum(staged.amount_minor for staged in made) == 8 * OWED_MINOR
        with database.reading() as session:
            for payee in batch_payees:
                assert [row["amount_minor"] for row in intents_of(session, payee)] == [OWED_MINOR]
                assert payable_balance_of(session, payee) == 0
    assert_whole(database)


def test_staging_with_concurrent_withdrawals_and_earnings_reserves_each_kobo_once(database: Database) -> None:
    for _ in range(ROUNDS):
        batch_payees = payees(database, 5)
        with database.transaction() as session:
            waiting = {payee: request_payout(session, payee, 150_000) for payee in batch_payees[:3]}

        def withdraw(session: Session, payee: Payee, waiting: dict[Payee, UUID] = waiting) -> object:
            rows = session.execute(
                text(
                    "SELECT batch_id, id, user_id, vendor_id, amount_minor, status FROM payout_transfer_intents"
                    " WHERE id = :id FOR NO KEY UPDATE"
                ),
                {"id": waiting[payee]},
            )
            [(batch_id, *intent)] = rows
            if batch_id is not None:
                return "in a batch"
            return accounting.cancel_reservations(session, payouts=[Reservation(*intent)], now=NOW)

        def request_withdrawal(session: Session, payee: Payee) -> ReservationResult:
            wanted = PayoutRequest(accounting.Payee(payee.user.id, payee.store_id), payee.account_id, 120_000)
            return accounting.reserve_payouts(
                session, requests=[wanted], batch_id=None, minimum_minor=1, requested_by_payee=True, now=NOW
            )

        jobs: list[Callable[[Session], object]] = [
            *(lambda session, batch_payees=batch_payees: stage(session, batch_payees) for _ in range(3)),
            *(lambda session, payee=payee: withdraw(session, payee) for payee in batch_payees[:3]),
            *(lambda session, payee=payee: request_withdrawal(session, payee) for payee in batch_payees),
            *(lambda session, payee=payee: credit_balance(session, payee, 7_000) for payee in batch_payees),
            *(
                lambda session, payee=payee: record_vendor_debt(session, payee, 3_000)
                for payee in batch_payees
            ),
        ]
        results = at_once(database.in_transaction, jobs)

        assert unexpected_errors(results, InsufficientFundsError) == []
        with database.reading() as session:
            for payee in batch_payees:
                rows = [row for row in intents_of(session, payee) if row["status"] == "pending"]
                assert len(rows) <= 1
                collected = session.execute(
                    text(
                        "SELECT coalesce(sum(e.amount_minor), 0) FROM ledger_entries e"
                        " JOIN ledger_accounts a ON a.id = e.account_id"
                        " WHERE a.kind = 'vendor_receivable' AND a.owner_id = :id AND e.direction = 'credit'"
                    ),
                    {"id": payee.store_id},
                ).scalar_one()
                claimed = sum(row["amount_minor"] for row in rows)
                assert payable_balance_of(session, payee) + claimed + int(collected) == OWED_MINOR + 7_000
    assert_whole(database)


def test_two_of_many_concurrent_approvers_approve_the_batch(
    database: Database, officers: list[Caller]
) -> None:
    for _ in range(ROUNDS):
        batch_id = database.in_transaction(staged_batch, payees(database, 2))

        results = at_once(
            lambda officer, one=batch_id: database.in_transaction(approve, one, officer), officers
        )

        assert unexpected_errors(results, IllegalTransitionError) == []
        assert sorted(result for result in results if isinstance(result, str)) == ["approved", "staged"]
        assert batch_of(database, batch_id)["status"] == "approved"
    assert_whole(database)


def test_concurrent_approvals_of_same_officer_count_once(database: Database, officers: list[Caller]) -> None:
    for _ in range(ROUNDS):
        batch_id = database.in_transaction(staged_batch, payees(database, 1))

        results = at_once(
            lambda officer, one=batch_id: database.in_transaction(approve, one, officer), [officers[0]] * 4
        )

        assert unexpected_errors(results, DuplicateApprovalError) == []
        assert [result for result in results if isinstance(result, str)] == ["staged"]
        assert batch_of(database, batch_id)["status"] == "staged"


def test_concurrent_approval_and_rejection_reject_batch_and_release_balances_once(
    database: Database, officers: list[Caller]
) -> None:
    for _ in range(ROUNDS):
        batch_payees = payees(database, 3)
        batch_id = database.in_transaction(staged_batch, batch_payees, officer=officers[0])
        jobs: list[Callable[[Session], object]] = [
            lambda session, one=batch_id: approve(session, one, officers[1]),
            lambda session, one=batch_id: reject(session, one, officers[2]),
            lambda session, one=batch_id: reject(session, one, officers[3]),
        ]

        results = at_once(database.in_transaction, jobs)

        assert unexpected_errors(results, IllegalTransitionError) == []
        assert results.count("rejected") == 1
        assert batch_of(database, batch_id)["status"] == "rejected"
        with database.reading() as session:
            assert [payable_balance_of(session, payee) for payee in batch_payees] == [OWED_MINOR] * 3
    assert_whole(database)


def test_first_of_concurrent_dispatches_and_rejections_wins(
    database: Database, officers: list[Caller]
) -> None:
    won = set()
    for number in range(2 * ROUNDS):
        batch_payees = payees(database, 2)
        batch_id = database.in_transaction(approved_batch, batch_payees)
        jobs: list[Callable[[Session], object]] = [
            lambda session, one=batch_id: begin(session, one, officers[0]),
            lambda session, one=batch_id: begin(session, one, officers[1]),
            lambda session, one=batch_id: reject(session, one, officers[2]),
            lambda session, one=batch_id: reject(session, one, officers[3]),
        ]

        results = at_once(database.in_transaction, jobs if number % 2 else jobs[::-1])

        assert unexpected_errors(results, IllegalTransitionError) == []
        [winner] = [result for result in results if isinstance(result, str)]
        won.add(winner)
        assert batch_of(database, batch_id)["status"] == winner
        with database.reading() as session:
            statuses = {row["status"] for row in intents_in(session, batch_id)}
            assert statuses == {"pending" if winner == "dispatching" else "cancelled"}
            assert {payable_balance_of(session, payee) for payee in batch_payees} == {
                0 if winner == "dispatching" else OWED_MINOR
            }
    assert won <= {"dispatching", "rejected"}
    assert_whole(database)


def test_account_changed_during_approval_and_dispatch_is_never_paid_unapproved(
    database: Database, officers: list[Caller]
) -> None:
    for _ in range(2 * ROUNDS):
        batch_payees = payees(database, 2)
        batch_id = database.in_transaction(staged_batch, batch_payees, officer=officers[0])

        def change(session: Session, payee: Payee = batch_payees[0]) -> object:
            return make_account(session, payee.user.id, created_at=NOW - timedelta(days=2))

        jobs: list[Callable[[Session], object]] = [
            lambda session, one=batch_id: approve(session, one, officers[1]),
            lambda session, one=batch_id: approve(session, one, officers[2]),
            change,
            lambda session, one=batch_id: begin(session, one, officers[3]),
        ]
        results = at_once(partial(run_like_the_edge, database), jobs)

        assert unexpected_errors(results, IllegalTransitionError, ChangedSinceApprovalError) == []
        batch = batch_of(database, batch_id)
        with database.reading() as session:
            [intent] = intents_of(session, batch_payees[0])
            current = row_of(session, "payout_accounts", id=results[2])
        if batch["status"] == "dispatching" and intent["account_id"] == current["id"]:
            # Two officers besides the stager approved the new account. The stager saw the old account.
            assert batch["approved_hash"] != batch["content_hash"]
        if batch["status"] == "dispatching" and intent["account_id"] == batch_payees[0].account_id:
            assert batch["approved_hash"] == batch["content_hash"]
    assert_whole(database)


def test_first_of_concurrent_payout_lease_and_void_wins(database: Database) -> None:
    """A worker leases a payout while another voids payouts to replaced accounts. Each holds the row lock first once."""

    def give_up(session: Session, batch_id: UUID) -> int:
        return void.void_payouts_to_replaced_accounts(session, batch_id=batch_id, now=NOW)

    def waiting() -> bool:
        with database.reading() as looking:
            found = looking.execute(
                text(
                    "SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
                )
            )
            return found.first() is not None

    claimed, replaced = payees(database, 2)
    batch_id = database.in_transaction(dispatched_batch, [claimed])
    with ThreadPoolExecutor(1) as pool, database.transaction() as session:
        assert len(submit.lease_payouts(session, batch_id=batch_id, now=NOW).claimed) == 1
        with database.transaction() as payee:
            make_account(payee, claimed.user.id)
        # The second worker finds the payout unsent and waits for the row lock.
        second = pool.submit(database.in_transaction, give_up, batch_id)
        assert wait_until(waiting, timeout_seconds=BOUND_SECONDS)
        session.commit()
        assert second.result(BOUND_SECONDS) == 0

    other_id = database.in_transaction(dispatched_batch, [replaced])
    with database.transaction() as session, database.reading() as other:
        make_account(session, replaced.user.id)
        assert give_up(session, other_id) == 1
        assert submit.lease_payouts(other, batch_id=other_id, now=NOW).claimed == []

    with database.reading() as session:
        [kept], [given_up] = intents_in(session, batch_id), intents_in(session, other_id)
        assert [kept["status"], given_up["status"]] == ["pending", "failed"]
        assert [payable_balance_of(session, payee) for payee in (claimed, replaced)] == [0, OWED_MINOR]
    assert_whole(database)
