"""Concurrent decisions on proposals: one decision wins, and no change is overwritten."""

from collections.abc import Iterator
from uuid import UUID

import pytest
from sqlalchemy import text

from marketplace.infra.db import Database
from marketplace.kernel.states import IllegalTransitionError
from marketplace.ledger.operations import InsufficientFundsError
from marketplace.platform.halts import fetch_current_halt, halt_payouts, list_findings
from marketplace.proposals.operations import StaleProposalError, apply_due_proposals
from tests.support.proposals import approve, proposal_row, propose, reject, setting
from tests.support.purchases import NOW, SERVICE_FEE_MINOR, fill_wallet, later, make_person
from tests.support.threads import at_once, unexpected_errors

ROUNDS = 6
KEY = "service_fee_minor"


@pytest.fixture(autouse=True)
def _restore_platform_settings(database: Database) -> Iterator[None]:
    yield
    with database.transaction() as session:
        session.execute(
            text("UPDATE platform_settings SET value = to_jsonb(CAST(:fee AS bigint)) WHERE key = :key"),
            {"fee": SERVICE_FEE_MINOR, "key": KEY},
        )
        session.execute(text("DELETE FROM payout_halts"))
        # An adjustment in force belongs to its ledger transaction.
        session.execute(text("DELETE FROM platform_proposals WHERE kind <> 'wallet_adjustment'"))


def status(database: Database, proposal_id: UUID) -> str:
    with database.reading() as session:
        found: str = proposal_row(session, proposal_id)["status"]
        return found


def test_only_first_of_concurrent_approvals_takes_effect(database: Database) -> None:
    for _ in range(ROUNDS):
        proposal_id = database.in_transaction(propose)
        results = at_once(
            lambda _, proposal_id=proposal_id: database.in_transaction(approve, proposal_id), range(4)
        )
        assert unexpected_errors(results, IllegalTransitionError) == []
        assert results.count(None) == 1
        assert status(database, proposal_id) == "active"


def test_only_first_of_approvals_and_rejections_takes_effect(database: Database) -> None:
    for _ in range(ROUNDS):
        with database.reading() as session:
            before = setting(session, KEY)
        payload = {"key": KEY, "value": before + 1}
        proposal_id = database.in_transaction(propose, "fee", payload)
        results = at_once(
            lambda decide, proposal_id=proposal_id: database.in_transaction(decide, proposal_id),
            [approve, reject, approve, reject],
        )
        assert unexpected_errors(results, IllegalTransitionError) == []
        assert results.count(None) == 1
        with database.reading() as session:
            carried = proposal_row(session, proposal_id)["status"] == "active"
            assert setting(session, KEY) == before + carried


def test_concurrent_approvals_of_debits_never_overdraw_the_wallet(database: Database) -> None:
    def file_debits() -> list[UUID]:
        with database.transaction() as session:
            person = make_person(session)
            fill_wallet(session, person.id, 1_000)
            payload = {"user_id": person.id, "amount_minor": -600, "reason": "Paid in error."}
            return [propose(session, "wallet_adjustment", payload) for _ in range(3)]

    for _ in range(ROUNDS):
        results = at_once(lambda proposal_id: database.in_transaction(approve, proposal_id), file_debits())

        assert unexpected_errors(results, InsufficientFundsError) == []
        assert results.count(None) == 1


def test_only_first_concurrent_change_of_same_fee_is_applied(database: Database) -> None:
    for round_number in range(ROUNDS):
        made = [
            database.in_transaction(propose, "fee", {"key": KEY, "value": 100 * round_number + number})
            for number in range(3)
        ]
        results = at_once(lambda proposal_id: database.in_transaction(approve, proposal_id), made)
        assert unexpected_errors(results, StaleProposalError) == []
        assert results.count(None) == 1
        with database.reading() as session:
            assert setting(session, KEY) == 100 * round_number + results.index(None)


def test_concurrent_schedulers_apply_each_due_proposal_once(database: Database) -> None:
    for round_number in range(ROUNDS):
        payload = {"key": KEY, "value": 5_000 + round_number}

        proposal_id = database.in_transaction(propose, "fee", payload, effective_at=later(hours=1))
        database.in_transaction(approve, proposal_id)
        results = at_once(lambda _: apply_due_proposals(database, now=later(hours=1)), range(3))
        assert unexpected_errors(results) == []
        assert sum(result.activated for result in results if not isinstance(result, Exception)) == 1
        assert status(database, proposal_id) == "active"


def test_new_finding_during_resume_keeps_payouts_halted(database: Database) -> None:
    for round_number in range(ROUNDS):
        first, second = f"{round_number}: one", f"{round_number}: two"
        database.in_transaction(halt_payouts, "ESCROW_DRIFT: a rule", NOW, finding=first)
        proposal_id = database.in_transaction(propose, "payout_resume", {"reason": "Mended."})

        def decide(drift: bool, proposal_id: UUID = proposal_id, finding: str = second) -> object:
            if drift:
                return database.in_transaction(halt_payouts, "ESCROW_DRIFT: another", NOW, finding=finding)
            return database.in_transaction(approve, proposal_id)

        results = at_once(decide, [True, False])
        assert unexpected_errors(results, StaleProposalError) == []
        with database.reading() as session:
            halt = fetch_current_halt(session)
        assert halt is not None
        assert "ESCROW_DRIFT: another" in [item["reason"] for item in list_findings(halt)]
        # Either payouts were resumed and halted again, or the new finding made the proposal stale.
        if status(database, proposal_id) == "active":
            assert results == [True, None]
        else:
            assert results[0] is False
            assert isinstance(results[1], StaleProposalError)
        database.in_transaction(
            approve, database.in_transaction(propose, "payout_resume", {"reason": "Both."})
        )


def test_concurrent_halts_create_a_single_halt(database: Database) -> None:
    results = at_once(
        lambda number: database.in_transaction(
            halt_payouts, "ESCROW_DRIFT: a rule", NOW, finding=str(number % 2)
        ),
        range(6),
    )
    assert unexpected_errors(results) == []
    assert results.count(True) == 1
    with database.reading() as session:
        [row] = session.execute(text("SELECT findings FROM payout_halts")).all()
    assert sorted(row[0]) == ["0", "1"]
