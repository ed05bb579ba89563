"""Approval by two officers, rejection, exclusion of payments and dispatch of a payout batch."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.identity.queries import Caller
from marketplace.kernel.errors import ConflictError, ForbiddenError, NotFoundError, ValidationError
from marketplace.kernel.states import IllegalTransitionError
from marketplace.payouts.batches import decisions
from marketplace.payouts.batches.decisions import (
    BatchChangedError,
    DuplicateApprovalError,
    EmptyBatchError,
    compute_fingerprint,
)
from marketplace.payouts.transfers import dispatch
from marketplace.payouts.transfers.dispatch import ChangedSinceApprovalError, PayeesOnHoldError
from marketplace.platform.halts import PayoutsHaltedError, halt_payouts
from tests.support.finance import act_of, audit_entries_of, make_officer, notification_types_of
from tests.support.payouts import (
    OWED_MINOR,
    Payee,
    approve,
    approved_batch,
    credit_balance,
    intents_in,
    intents_of,
    make_account,
    make_payee,
    make_payees,
    make_wallet_payee,
    payable_balance_of,
    request_payout,
    staged_batch,
)
from tests.support.purchases import NOW, assert_ledger_is_consistent, later, row_of

REASON = "The amounts are not what they were last week."


def reject(session: Session, batch_id: UUID, officer: Caller, reason: str = REASON) -> None:
    decisions.reject_batch(session, batch_id=batch_id, act=act_of(officer, now=NOW), reason=reason)


def exclude(session: Session, batch_id: UUID, officer: Caller, *intent_ids: UUID) -> str:
    return decisions.exclude_payments(
        session,
        batch_id=batch_id,
        payout_ids=intent_ids,
        act=act_of(officer, now=NOW),
        reason=REASON,
    )


def dispatch_batch(session: Session, batch_id: UUID, officer: Caller, *, now: datetime = NOW) -> int:
    return dispatch.dispatch_batch(session, batch_id=batch_id, act=act_of(officer, now=now)).payments


def status(session: Session, batch_id: UUID) -> str:
    found: str = row_of(session, "payout_batches", id=batch_id)["status"]
    return found


def change_account(session: Session, payee: Payee, *, at: datetime = NOW) -> UUID:
    return make_account(session, payee.user.id, created_at=at)


def test_scheduled_batch_needs_approval_of_two_officers(session: Session) -> None:
    batch_id = staged_batch(session, make_payees(session, 2))
    first, second = make_officer(session), make_officer(session)

    assert approve(session, batch_id, first, comment="As expected.") == "staged"
    assert approve(session, batch_id, second) == "approved"

    batch = row_of(session, "payout_batches", id=batch_id)
    assert batch["approved_hash"] == compute_fingerprint(session, batch_id=batch_id) == batch["content_hash"]
    assert batch["approved_at"] == NOW
    assert (
        row_of(session, "payout_approvals", batch_id=batch_id, officer_id=first.id)["comment"]
        == "As expected."
    )
    assert [act for act, _, _ in audit_entries_of(session, batch_id)] == [
        "payout_batch.stage",
        "payout_batch.approve",
        "payout_batch.approve",
    ]
    assert_ledger_is_consistent(session)


def test_stager_counts_as_first_approver(session: Session) -> None:
    stager, other = make_officer(session), make_officer(session)
    batch_id = staged_batch(session, make_payees(session, 1), officer=stager)

    with pytest.raises(DuplicateApprovalError):
        approve(session, batch_id, stager)
    assert status(session, batch_id) == "staged"
    assert approve(session, batch_id, other) == "approved"


@pytest.mark.parametrize("change", ["account_status = 'suspended'", "staff_role = 'support'"])
def test_approval_of_a_former_finance_officer_does_not_count(session: Session, change: str) -> None:
    stager, one, other = (make_officer(session) for _ in range(3))
    batch_id = staged_batch(session, make_payees(session, 1), officer=stager)
    session.execute(text(f"UPDATE profiles SET {change} WHERE id = :id"), {"id": stager.id})

    assert approve(session, batch_id, one) == "staged"
    assert approve(session, batch_id, other) == "approved"


def test_second_approval_by_same_officer_is_refused(session: Session) -> None:
    batch_id = staged_batch(session, make_payees(session, 1))
    officer = make_officer(session)
    approve(session, batch_id, officer)

    with pytest.raises(DuplicateApprovalError):
        approve(session, batch_id, officer)

    assert status(session, batch_id) == "staged"


def test_officer_cannot_decide_on_a_batch_with_own_payout(session: Session) -> None:
    officer, other = make_officer(session), make_officer(session)
    own = Payee(officer, None, make_account(session, officer.id))
    credit_balance(session, own, OWED_MINOR)
    intent_id = request_payout(session, own, OWED_MINOR)
    batch_id = staged_batch(session, make_payees(session, 1), officer=other)
    session.execute(
        text("UPDATE payout_transfer_intents SET batch_id = :batch WHERE id = :id"),
        {"batch": batch_id, "id": intent_id},
    )

    acts: list[Callable[[], Any]] = [
        lambda: approve(session, batch_id, officer),
        lambda: reject(session, batch_id, officer),
        lambda: exclude(session, batch_id, officer, intent_id),
        lambda: dispatch_batch(session, batch_id, officer),
    ]
    for act in acts:
        with pytest.raises(ForbiddenError):
            act()


def test_approved_batch_cannot_be_approved_again(session: Session) -> None:
    batch_id = approved_batch(session, make_payees(session, 1))

    with pytest.raises(IllegalTransitionError):
        approve(session, batch_id, make_officer(session))


def test_approval_with_an_outdated_fingerprint_is_refused(session: Session) -> None:
    payee = make_payee(session)
    batch_id = staged_batch(session, [payee])
    read = compute_fingerprint(session, batch_id=batch_id)
    change_account(session, payee)

    with pytest.raises(BatchChangedError):
        approve(session, batch_id, make_officer(session), expected_fingerprint=read)
    seen = compute_fingerprint(session, batch_id=batch_id)
    assert seen != read
    assert approve(session, batch_id, make_officer(session), expected_fingerprint=seen) == "staged"


def test_account_change_before_approval_requires_two_new_approvals(session: Session) -> None:
    payee, stager, first, second = make_payee(session), *(make_officer(session) for _ in range(3))
    batch_id = staged_batch(session, [payee], officer=stager)
    account_id = change_account(session, payee)

    assert approve(session, batch_id, first) == "staged"
    assert approve(session, batch_id, stager) == "approved"

    [intent] = intents_in(session, batch_id)
    assert intent["account_id"] == account_id
    with pytest.raises(IllegalTransitionError):
        approve(session, batch_id, second)


def test_account_change_after_approval_requires_two_new_approvals(session: Session) -> None:
    payee = make_payee(session)
    batch_id = approved_batch(session, [payee])
    first = make_officer(session)
    change_account(session, payee)

    assert approve(session, batch_id, first) == "staged"
    assert row_of(session, "payout_batches", id=batch_id)["approved_hash"] is None
    with pytest.raises(DuplicateApprovalError):
        approve(session, batch_id, first)
    assert approve(session, batch_id, make_officer(session)) == "approved"


def test_dispatch_of_batch_changed_after_approval_is_refused_and_reopens_batch(
    session: Session,
) -> None:
    payees = make_payees(session, 2)
    batch_id = approved_batch(session, payees)
    change_account(session, payees[0], at=NOW - timedelta(days=2))

    with pytest.raises(ChangedSinceApprovalError) as refusal:
        dispatch_batch(session, batch_id, make_officer(session))

    assert refusal.value.keeps_changes
    assert status(session, batch_id) == "staged"
    assert [row["status"] for row in intents_in(session, batch_id)] == ["pending", "pending"]
    assert audit_entries_of(session, batch_id)[-1][0] == "payout_batch.reopen"


_FIRST_INTENT = "(SELECT {column} FROM payout_transfer_intents WHERE batch_id = :id LIMIT 1)"
_UPDATE_FIRST_ACCOUNT = (
    f"UPDATE payout_accounts SET {{change}} WHERE id = {_FIRST_INTENT.format(column='account_id')}"
)
_UPDATE_FIRST_INTENT = (
    f"UPDATE payout_transfer_intents SET {{change}} WHERE id = {_FIRST_INTENT.format(column='id')}"
)


@pytest.mark.parametrize(
    "change",
    [
        _UPDATE_FIRST_INTENT.format(change="amount_minor = amount_minor + 1"),
        _UPDATE_FIRST_INTENT.format(change="status = 'cancelled'"),
        _UPDATE_FIRST_ACCOUNT.format(change="account_number_index = sha256('0000000001')"),
        _UPDATE_FIRST_ACCOUNT.format(change="bank_code = '999'"),
        _UPDATE_FIRST_ACCOUNT.format(change="recipient_code = 'RCP_other_' || id"),
        _UPDATE_FIRST_ACCOUNT.format(change="replaced_at = now()"),
    ],
)
def test_each_change_of_a_batch_changes_the_fingerprint(session: Session, change: str) -> None:
    batch_id = staged_batch(session, make_payees(session, 2))
    before = compute_fingerprint(session, batch_id=batch_id)

    session.execute(text(change), {"id": batch_id})

    assert compute_fingerprint(session, batch_id=batch_id) != before


def test_rejected_batch_returns_every_amount_to_the_payees(session: Session) -> None:
    payees = make_payees(session, 3)
    asking = make_wallet_payee(session)
    intent_id = request_payout(session, asking, 200_000)
    batch_id = staged_batch(session, payees)
    session.execute(
        text("UPDATE payout_transfer_intents SET batch_id = :batch WHERE id = :id"),
        {"batch": batch_id, "id": intent_id},
    )

    reject(session, batch_id, make_officer(session))

    batch = row_of(session, "payout_batches", id=batch_id)
    assert (batch["status"], batch["rejection_reason"], batch["rejected_at"]) == ("rejected", REASON, NOW)
    assert {row["status"] for row in intents_in(session, batch_id)} == {"cancelled"}
    assert [payable_balance_of(session, payee) for payee in (*payees, asking)] == [OWED_MINOR] * 4
    assert notification_types_of(session, asking.user.id) == ["payout_called_off"]
    assert [notification_types_of(session, payee.user.id) for payee in payees] == [[], [], []]
    assert audit_entries_of(session, batch_id)[-1][2]["amountMinor"] == 3 * OWED_MINOR + 200_000
    assert_ledger_is_consistent(session)


def test_amounts_returned_by_a_rejected_batch_are_staged_again(session: Session) -> None:
    payee = make_payee(session)
    reject(session, staged_batch(session, [payee]), make_officer(session))

    batch_id = staged_batch(session, [payee])

    assert [row["amount_minor"] for row in intents_in(session, batch_id)] == [OWED_MINOR]
    assert [row["status"] for row in intents_of(session, payee)] == ["cancelled", "pending"]
    assert_ledger_is_consistent(session)


def test_single_officer_can_permanently_reject_an_approved_batch(session: Session) -> None:
    batch_id = approved_batch(session, make_payees(session, 1))

    reject(session, batch_id, make_officer(session))

    for act in (dispatch_batch, reject):
        with pytest.raises(IllegalTransitionError):
            act(session, batch_id, make_officer(session))


def test_exclusion_returns_the_payment_and_requires_two_new_approvals(session: Session) -> None:
    payees = make_payees(session, 2)
    batch_id = approved_batch(session, payees)
    [taken] = intents_of(session, payees[0])

    assert exclude(session, batch_id, make_officer(session), taken["id"]) == "staged"

    assert (payable_balance_of(session, payees[0]), payable_balance_of(session, payees[1])) == (OWED_MINOR, 0)
    with pytest.raises(IllegalTransitionError):
        dispatch_batch(session, batch_id, make_officer(session))
    assert approve(session, batch_id, make_officer(session)) == "staged"
    assert approve(session, batch_id, make_officer(session)) == "approved"
    assert dispatch_batch(session, batch_id, make_officer(session)) == 1
    assert_ledger_is_consistent(session)


def test_payment_outside_the_batch_cannot_be_excluded(session: Session) -> None:
    payees = make_payees(session, 3)
    batch_id, other = staged_batch(session, payees[:2]), staged_batch(session, payees[2:])
    [unrelated] = intents_in(session, other)
    officer = make_officer(session)
    [first] = intents_of(session, payees[0])
    exclude(session, batch_id, officer, first["id"])

    for intent_id in (uuid4(), unrelated["id"], first["id"]):
        with pytest.raises(ValidationError) as refusal:
            exclude(session, batch_id, officer, intent_id)
        assert [fault.name for fault in refusal.value.invalid_params] == ["intentIds[0]"]


def test_last_payment_cannot_be_excluded(session: Session) -> None:
    payee = make_payee(session)
    batch_id = staged_batch(session, [payee])
    [intent] = intents_of(session, payee)

    with pytest.raises(EmptyBatchError):
        exclude(session, batch_id, make_officer(session), intent["id"])


def test_approved_batch_is_dispatched_once(session: Session) -> None:
    batch_id = approved_batch(session, make_payees(session, 3))
    officer = make_officer(session)

    assert dispatch_batch(session, batch_id, officer) == 3

    batch = row_of(session, "payout_batches", id=batch_id)
    assert (batch["status"], batch["dispatched_by"], batch["dispatched_at"]) == (
        "dispatching",
        officer.id,
        NOW,
    )
    for act in (dispatch_batch, approve, reject):
        with pytest.raises(IllegalTransitionError):
            act(session, batch_id, make_officer(session))


def test_batch_with_a_single_approval_cannot_be_dispatched(session: Session) -> None:
    batch_id = staged_batch(session, make_payees(session, 1))
    approve(session, batch_id, make_officer(session))

    with pytest.raises(IllegalTransitionError, match="after two officers have approved it"):
        dispatch_batch(session, batch_id, make_officer(session))


def test_dispatching_batch_cannot_be_dispatched_again(session: Session) -> None:
    batch_id = approved_batch(session, make_payees(session, 1))
    dispatch_batch(session, batch_id, make_officer(session))

    with pytest.raises(IllegalTransitionError) as refused:
        dispatch_batch(session, batch_id, make_officer(session))

    assert refused.value.detail.startswith("The payout batch is dispatching, but")
    assert refused.value.detail.endswith("A batch is sent once, after two officers have approved it.")


def test_dispatch_is_refused_while_payouts_are_halted(session: Session) -> None:
    batch_id = approved_batch(session, make_payees(session, 1))
    halt_payouts(session, "ESCROW_DRIFT: a test", NOW)

    with pytest.raises(PayoutsHaltedError):
        dispatch_batch(session, batch_id, make_officer(session))

    assert status(session, batch_id) == "approved"


def test_new_bank_account_blocks_dispatch_for_a_day(session: Session) -> None:
    payee = make_payee(session)
    batch_id = staged_batch(session, [payee])
    change_account(session, payee)
    for _ in range(2):
        approve(session, batch_id, make_officer(session))

    with pytest.raises(PayeesOnHoldError, match="2026-11-21T09:30:00"):
        dispatch_batch(session, batch_id, make_officer(session), now=later(hours=23))
    assert dispatch_batch(session, batch_id, make_officer(session), now=later(hours=24)) == 1


def test_store_suspended_after_approval_blocks_dispatch(session: Session) -> None:
    payees = make_payees(session, 2)
    batch_id = approved_batch(session, payees)
    session.execute(
        text("UPDATE vendor_profiles SET status = 'suspended' WHERE id = :id"), {"id": payees[0].store_id}
    )

    with pytest.raises(PayeesOnHoldError, match="Payees on hold: 1"):
        dispatch_batch(session, batch_id, make_officer(session))


def test_unknown_batch_is_not_found(session: Session) -> None:
    officer = make_officer(session)

    for act in (approve, reject, dispatch_batch):
        with pytest.raises(NotFoundError):
            act(session, uuid4(), officer)


def test_batch_with_only_cancelled_payments_cannot_be_approved(session: Session) -> None:
    batch_id = staged_batch(session, make_payees(session, 1))
    session.execute(
        text("UPDATE payout_transfer_intents SET status = 'cancelled' WHERE batch_id = :id"), {"id": batch_id}
    )

    with pytest.raises(ConflictError, match="no payments to send"):
        approve(session, batch_id, make_officer(session))
