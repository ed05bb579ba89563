"""Batches by many hands at once: each balance is claimed once, two officers decide, and one decision wins."""

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
    ask,
    intents_in,
    intents_of,
    make_account,
    make_payees,
    owe,
    owed,
    owes,
    stage,
    staged_batch,
)
from tests.support.purchases import NOW, assert_books_are_whole, row_of
from tests.support.threads import BOUND_SECONDS, at_once, unforeseen
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
        assert_books_are_whole(session)


def batch_of(database: Database, batch_id: UUID) -> dict[str, object]:
    with database.reading() as session:
        return row_of(session, "payout_batches", id=batch_id)


def as_the_edge_does(database: Database, job: Callable[[Session], object]) -> object:
    """Do a job in a transaction that is committed too where it is refused with changes to keep."""
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


def test_stagings_at_once_claim_each_balance_once(database: Database) -> None:
    for _ in range(ROUNDS):
        who = payees(database, 8)
        # Overlapping, and each in another order.
        parts = [who, who[::-1], who[:5], who[3:]]

        results = at_once(lambda part: database.in_transaction(stage, part), parts)

        assert unforeseen(results) == []
        made = [result for result in results if isinstance(result, StagingResult)]
        assert sum(staged.amount_minor for staged in made) == 8 * OWED_MINOR
        with database.reading() as session:
            for payee in who:
                assert [row["amount_minor"] for row in intents_of(session, payee)] == [OWED_MINOR]
                assert owed(session, payee) == 0
    assert_whole(database)


def test_staging_while_payees_ask_withdraw_and_earn_claims_no_kobo_twice(database: Database) -> None:
    for _ in range(ROUNDS):
        who = payees(database, 5)
        with database.transaction() as session:
            waiting = {payee: ask(session, payee, 150_000) for payee in who[:3]}

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

        def wish(session: Session, payee: Payee) -> ReservationResult:
            wanted = PayoutRequest(accounting.Payee(payee.user.id, payee.store_id), payee.account_id, 120_000)
            return accounting.reserve_payouts(
                session, requests=[wanted], batch_id=None, minimum_minor=1, requested_by_payee=True, now=NOW
            )

        jobs: list[Callable[[Session], object]] = [
            *(lambda session, who=who: stage(session, who) for _ in range(3)),
            *(lambda session, payee=payee: withdraw(session, payee) for payee in who[:3]),
            *(lambda session, payee=payee: wish(session, payee) for payee in who),
            *(lambda session, payee=payee: owe(session, payee, 7_000) for payee in who),
            *(lambda session, payee=payee: owes(session, payee, 3_000) for payee in who),
        ]
        results = at_once(database.in_transaction, jobs)

        assert unforeseen(results, InsufficientFundsError) == []
        with database.reading() as session:
            for payee in who:
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
                assert owed(session, payee) + claimed + int(collected) == OWED_MINOR + 7_000
    assert_whole(database)


def test_of_many_approvers_at_once_two_approve_it(database: Database, officers: list[Caller]) -> None:
    for _ in range(ROUNDS):
        batch_id = database.in_transaction(staged_batch, payees(database, 2))

        results = at_once(lambda who, one=batch_id: database.in_transaction(approve, one, who), officers)

        assert unforeseen(results, IllegalTransitionError) == []
        assert sorted(result for result in results if isinstance(result, str)) == ["approved", "staged"]
        assert batch_of(database, batch_id)["status"] == "approved"
    assert_whole(database)


def test_concurrent_approvals_of_one_officer_count_once(database: Database, officers: list[Caller]) -> None:
    for _ in range(ROUNDS):
        batch_id = database.in_transaction(staged_batch, payees(database, 1))

        results = at_once(
            lambda who, one=batch_id: database.in_transaction(approve, one, who), [officers[0]] * 4
        )

        assert unforeseen(results, DuplicateApprovalError) == []
        assert [result for result in results if isinstance(result, str)] == ["staged"]
        assert batch_of(database, batch_id)["status"] == "staged"


def test_an_approver_and_a_rejecter_at_once_end_in_a_rejection_that_gives_all_back_once(
    database: Database, officers: list[Caller]
) -> None:
    for _ in range(ROUNDS):
        who = payees(database, 3)
        batch_id = database.in_transaction(staged_batch, who, officer=officers[0])
        jobs: list[Callable[[Session], object]] = [
            lambda session, one=batch_id: approve(session, one, officers[1]),
            lambda session, one=batch_id: reject(session, one, officers[2]),
            lambda session, one=batch_id: reject(session, one, officers[3]),
        ]

        results = at_once(database.in_transaction, jobs)

        assert unforeseen(results, IllegalTransitionError) == []
        assert results.count("rejected") == 1
        assert batch_of(database, batch_id)["status"] == "rejected"
        with database.reading() as session:
            assert [owed(session, payee) for payee in who] == [OWED_MINOR] * 3
    assert_whole(database)


def test_of_dispatches_and_rejections_at_once_one_wins(database: Database, officers: list[Caller]) -> None:
    won = set()
    for number in range(2 * ROUNDS):
        who = payees(database, 2)
        batch_id = database.in_transaction(approved_batch, who)
        jobs: list[Callable[[Session], object]] = [
            lambda session, one=batch_id: begin(session, one, officers[0]),
            lambda session, one=batch_id: begin(session, one, officers[1]),
            lambda session, one=batch_id: reject(session, one, officers[2]),
            lambda session, one=batch_id: reject(session, one, officers[3]),
        ]

        results = at_once(database.in_transaction, jobs if number % 2 else jobs[::-1])

        assert unforeseen(results, IllegalTransitionError) == []
        [winner] = [result for result in results if isinstance(result, str)]
        won.add(winner)
        assert batch_of(database, batch_id)["status"] == winner
        with database.reading() as session:
            statuses = {row["status"] for row in intents_in(session, batch_id)}
            assert statuses == {"pending" if winner == "dispatching" else "cancelled"}
            assert {owed(session, payee) for payee in who} == {0 if winner == "dispatching" else OWED_MINOR}
    assert won <= {"dispatching", "rejected"}
    assert_whole(database)


def test_an_account_that_changes_during_approval_and_dispatch_is_never_paid_unapproved(
    database: Database, officers: list[Caller]
) -> None:
    for _ in range(2 * ROUNDS):
        who = payees(database, 2)
        batch_id = database.in_transaction(staged_batch, who, officer=officers[0])

        def change(session: Session, payee: Payee = who[0]) -> object:
            return make_account(session, payee.user.id, created_at=NOW - timedelta(days=2))

        jobs: list[Callable[[Session], object]] = [
            lambda session, one=batch_id: approve(session, one, officers[1]),
            lambda session, one=batch_id: approve(session, one, officers[2]),
            change,
            lambda session, one=batch_id: begin(session, one, officers[3]),
        ]
        results = at_once(partial(as_the_edge_does, database), jobs)

        assert unforeseen(results, IllegalTransitionError, ChangedSinceApprovalError) == []
        batch = batch_of(database, batch_id)
        with database.reading() as session:
            [intent] = intents_of(session, who[0])
            current = row_of(session, "payout_accounts", id=results[2])
        if batch["status"] == "dispatching" and intent["account_id"] == current["id"]:
            # Whoever approved it saw the new account: two did so besides the stager, who saw the old one.
            assert batch["approved_hash"] != batch["content_hash"]
        if batch["status"] == "dispatching" and intent["account_id"] == who[0].account_id:
            assert batch["approved_hash"] == batch["content_hash"]
    assert_whole(database)


def test_whoever_begins_the_call_first_or_gives_it_up_first_wins(database: Database) -> None:
    """A worker that claims a payout, and one that finds its account replaced, each with the row in their hands."""

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
        # It finds the payout unsent as yet, and waits for who has it.
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
        assert [owed(session, payee) for payee in (claimed, replaced)] == [0, OWED_MINOR]
    assert_whole(database)
