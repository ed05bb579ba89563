"""Proposals that adjust wallets: postings, limits, officers and the ledger invariant."""

from typing import Any
from uuid import UUID, uuid4

import pytest
from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.identity.queries import Caller
from marketplace.kernel.errors import ConflictOfInterestError, NotFoundError, ValidationError
from marketplace.ledger import accounts
from marketplace.ledger.operations import InsufficientFundsError, Posting, post_transaction
from marketplace.ledger.queries import fetch_balance, fetch_balances_by_kind
from marketplace.proposals.invariants import INVARIANTS
from marketplace.proposals.kinds import CHANGES
from marketplace.proposals.operations import approve_proposal
from marketplace.proposals.wallet_adjustment import MAX_ADJUSTMENT_MINOR
from marketplace.reconciliation.ledger_check import verify_ledger
from tests.support.finance import notification_types_of
from tests.support.proposals import act_of, approve, make_admin, proposal_row, propose
from tests.support.purchases import (
    NOW,
    assert_ledger_is_consistent,
    fill_wallet,
    later,
    make_person,
    row_of,
    wallet_of,
)

REASON = "Refund of a fee that was charged twice."


def adjustment(user_id: UUID, amount_minor: int) -> dict[str, Any]:
    return {"user_id": user_id, "amount_minor": amount_minor, "reason": REASON}


def adjust(session: Session, user_id: UUID, amount_minor: int, *, by: Caller | None = None) -> UUID:
    """File a proposal to adjust a wallet."""
    return propose(session, "wallet_adjustment", adjustment(user_id, amount_minor), by=by)


def test_approved_credit_is_a_cost_of_the_platform(session: Session) -> None:
    person = make_person(session)
    cost_minor = fetch_balances_by_kind(session).get("wallet_adjustments", 0)
    proposal_id = adjust(session, person.id, 12_500)
    assert wallet_of(session, person.id) == 0

    approve(session, proposal_id)

    assert wallet_of(session, person.id) == 12_500
    assert fetch_balances_by_kind(session)["wallet_adjustments"] == cost_minor + 12_500
    posted = row_of(session, "ledger_transactions", source=f"proposal:{proposal_id}")
    assert (posted["kind"], posted["description"]) == ("wallet_adjustment", "Adjustment by the platform")
    assert notification_types_of(session, person.id) == ["wallet_adjusted"]
    assert_ledger_is_consistent(session)


def test_approved_debit_lowers_the_cost_of_adjustments(session: Session) -> None:
    person = make_person(session)
    fill_wallet(session, person.id, 50_000)
    cost_minor = fetch_balances_by_kind(session).get("wallet_adjustments", 0)

    approve(session, adjust(session, person.id, -20_000))

    assert wallet_of(session, person.id) == 30_000
    assert fetch_balances_by_kind(session)["wallet_adjustments"] == cost_minor - 20_000
    assert_ledger_is_consistent(session)


def test_debit_above_balance_at_approval_is_refused_and_stays_pending(session: Session) -> None:
    person = make_person(session)
    fill_wallet(session, person.id, 5_000)
    first, second = (adjust(session, person.id, -4_000) for _ in range(2))
    approve(session, first)

    with pytest.raises(InsufficientFundsError), session.begin_nested():
        approve(session, second)

    assert (wallet_of(session, person.id), proposal_row(session, second)["status"]) == (1_000, "pending")


def test_other_movements_of_the_wallet_keep_the_proposal_valid(session: Session) -> None:
    person = make_person(session)
    proposal_id = adjust(session, person.id, 1_000)
    fill_wallet(session, person.id, 700)

    approve(session, proposal_id)

    assert wallet_of(session, person.id) == 1_700


def test_credit_first_pays_the_debt_of_the_owner(session: Session) -> None:
    person = make_person(session)
    post_transaction(
        session,
        kind="refund_sent_twice",
        source="test:debt",
        description="Debt",
        postings=[
            Posting(accounts.buyer_receivable(person.id), "debit", 3_000),
            Posting(accounts.GATEWAY_CLEARING, "credit", 3_000),
        ],
        now=NOW,
    )

    approve(session, adjust(session, person.id, 5_000))

    assert wallet_of(session, person.id) == 2_000
    assert fetch_balance(session, account=accounts.buyer_receivable(person.id)) == 0


@pytest.mark.parametrize(
    "amount_minor", [0, MAX_ADJUSTMENT_MINOR + 1, -MAX_ADJUSTMENT_MINOR - 1, -1], ids=str
)
def test_amount_out_of_range_or_above_balance_is_refused(session: Session, amount_minor: int) -> None:
    with pytest.raises(ValidationError) as refused:
        adjust(session, make_person(session).id, amount_minor)
    assert [fault.name for fault in refused.value.invalid_params] == ["payload.amountMinor"]


def test_largest_credit_is_accepted(session: Session) -> None:
    adjust(session, make_person(session).id, MAX_ADJUSTMENT_MINOR)


def test_unknown_user_is_refused(session: Session) -> None:
    with pytest.raises(ValidationError) as refused:
        adjust(session, uuid4(), 1_000)
    assert [fault.name for fault in refused.value.invalid_params] == ["payload.userId"]


def test_adjustment_cannot_be_scheduled(session: Session) -> None:
    payload = adjustment(make_person(session).id, 1_000)
    with pytest.raises(ValidationError) as refused:
        propose(session, "wallet_adjustment", payload, effective_at=later(hours=1))
    assert [fault.name for fault in refused.value.invalid_params] == ["effectiveAt"]


def test_officer_may_neither_file_nor_approve_adjustment_of_own_wallet(session: Session) -> None:
    officer = make_admin(session)
    with pytest.raises(ConflictOfInterestError):
        adjust(session, officer.id, 1_000, by=officer)
    proposal_id = adjust(session, officer.id, 1_000)
    with pytest.raises(ConflictOfInterestError):
        approve(session, proposal_id, by=officer)
    assert wallet_of(session, officer.id) == 0


def test_finance_officers_are_notified_of_filed_adjustment(session: Session) -> None:
    finance = make_person(session, role="staff", staff_role="finance")

    adjust(session, make_person(session).id, 1_000)

    assert notification_types_of(session, finance.id) == ["proposal_filed"]


def test_proposal_of_a_hidden_kind_is_not_found(session: Session) -> None:
    proposal_id = adjust(session, make_person(session).id, 1_000)
    with pytest.raises(NotFoundError):
        approve_proposal(
            session,
            proposal_id=proposal_id,
            kinds=set(CHANGES) - {"wallet_adjustment"},
            act=act_of(make_admin(session)),
        )


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE platform_proposals SET payload = payload || '{\"amountMinor\": 1}' WHERE id = :id",
        "UPDATE platform_proposals SET kind = 'maintenance' WHERE id = :id",
        "UPDATE ledger_transactions SET source = 'proposal:other' WHERE source = 'proposal:' || CAST(:id AS uuid)",
    ],
)
def test_adjustment_that_differs_from_its_posting_is_reported(session: Session, damage: str) -> None:
    proposal_id = adjust(session, make_person(session).id, 9_000)
    approve(session, proposal_id)
    assert verify_ledger(session) == []
    session.execute(text("SET CONSTRAINTS ALL IMMEDIATE"))
    session.execute(text("SET LOCAL session_replication_role = replica"))

    session.execute(text(damage), {"id": proposal_id})

    assert [violation.rule for violation in verify_ledger(session)] == list(INVARIANTS)
