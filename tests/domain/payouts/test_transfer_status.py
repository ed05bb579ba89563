"""Transfer statuses from the gateway: each posted once, in any order, and notified to the payee."""

from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.ledger import accounts
from marketplace.ledger.queries import fetch_balance, fetch_balances_by_kind
from marketplace.payments.refunds import buyer_accounts
from marketplace.payouts import accounting
from marketplace.payouts.accounting import PayoutRequest
from marketplace.payouts.batches import staging
from marketplace.payouts.transfers import apply_status
from marketplace.payouts.transfers.apply_status import UnknownTransferError
from tests.support.alerts import open_about
from tests.support.finance import act_of, make_officer, notification_types_of
from tests.support.payouts import (
    OWED_MINOR,
    Payee,
    approve,
    credit_balance,
    make_payee,
    make_payees,
    make_wallet_payee,
    payable_balance_of,
    request_payout,
    staged_batch,
)
from tests.support.purchases import NOW, assert_ledger_is_consistent, row_of
from tests.support.transfers import (
    apply_status_response,
    batch_status,
    dispatch,
    dispatched_batch,
    exceptions_of,
    handle_transfer_report,
    statuses_in,
    transfers_in,
)

FEE_MINOR = 5_000


class Case:
    """A dispatched batch with a single payee."""

    def __init__(self, session: Session, payee: Payee | None = None) -> None:
        self.session = session
        self.payee = payee or make_payee(session)
        self.before = fetch_balances_by_kind(session)
        self.batch_id = dispatched_batch(session, [self.payee])
        [self.transfer] = transfers_in(session, self.batch_id)

    @property
    def statuses(self) -> tuple[str, str]:
        """The statuses of payout and transfer."""
        [found] = statuses_in(self.session, self.batch_id)
        return found

    @property
    def alert_subject(self) -> str:
        return f"payout:{self.transfer['intent_id']}"

    @property
    def exception_alerts(self) -> list[dict[str, str]]:
        rows = self.session.execute(
            text("SELECT id FROM payout_exceptions WHERE reference = :reference ORDER BY id"),
            {"reference": self.transfer["reference"]},
        )
        return [open_about(self.session, f"payout-exception:{row.id}") for row in rows]

    def receive(self, *outcomes: str, **values: Any) -> None:
        for outcome in outcomes:
            handle_transfer_report(self.session, self.transfer, outcome, **values)

    def poll(self, status: str, **values: Any) -> str:
        return apply_status_response(self.session, self.transfer, status, **values)

    def balance_change(self, kind: str) -> int:
        """Return the change of the ledger balance of an account kind since before staging."""
        return fetch_balances_by_kind(self.session).get(kind, 0) - self.before.get(kind, 0)

    def count_queued_polls(self) -> int:
        """Return the number of queued status polls of the transfer."""
        return int(
            self.session.execute(
                text(
                    "SELECT count(*) FROM outbox_events WHERE topic = 'payout.ask'"
                    " AND payload ->> 'reference' = :reference"
                ),
                {"reference": self.transfer["reference"]},
            ).scalar_one()
        )


@pytest.fixture
def case(session: Session) -> Case:
    return Case(session)


def test_dispatch_gives_each_payout_a_reference_and_sends_nothing(session: Session) -> None:
    payees = make_payees(session, 3)
    batch_id = dispatched_batch(session, payees)

    assert batch_status(session, batch_id) == "dispatching"
    assert statuses_in(session, batch_id) == [("pending", "pending")] * 3
    rows = transfers_in(session, batch_id)
    assert len({row["reference"] for row in rows}) == 3
    assert all(row["sent_at"] is None and row["ask_at"] is None for row in rows)
    event = row_of(session, "outbox_events", topic="payout.send", payload=_json(batch_id))
    assert (event["queue"], event["due_at"], event["done_at"]) == ("webhooks", NOW, None)


def _json(batch_id: UUID) -> str:
    return f'{{"batchId": "{batch_id}"}}'


def test_successful_transfer_is_posted_with_the_fee(session: Session, case: Case) -> None:
    case.receive("success", fee_minor=FEE_MINOR)

    assert case.statuses == ("success", "success")
    assert case.balance_change("gateway_clearing") == -OWED_MINOR - FEE_MINOR
    assert case.balance_change("gateway_fees") == FEE_MINOR
    assert case.balance_change("payouts_in_transit") == 0
    assert payable_balance_of(session, case.payee) == 0
    assert batch_status(session, case.batch_id) == "completed"
    assert notification_types_of(session, case.payee.user.id)[-1:] == ["payout_sent"]
    row = row_of(session, "payout_transfers", id=case.transfer["id"])
    assert (row["fee_minor"], row["ask_at"]) == (FEE_MINOR, None)
    assert row["gateway_transfer_id"] is not None
    assert_ledger_is_consistent(session)


@pytest.mark.parametrize("outcome", ["failed", "reversed"])
def test_failed_or_reversed_transfer_returns_to_the_payee(session: Session, case: Case, outcome: str) -> None:
    case.receive(outcome)

    # The status of the transfer does not change, as specified.
    assert case.statuses == (outcome, "pending")
    assert payable_balance_of(session, case.payee) == OWED_MINOR
    assert case.balance_change("gateway_clearing") == case.balance_change("payouts_in_transit") == 0
    assert batch_status(session, case.batch_id) == "partially_failed"
    assert exceptions_of(session, case.transfer["reference"]) == [(outcome, OWED_MINOR)]
    assert case.exception_alerts == [{"PAYOUT_EXCEPTION": "SEV-2"}]
    assert notification_types_of(session, case.payee.user.id)[-1:] == ["payout_failed"]
    assert_ledger_is_consistent(session)


def test_payee_of_failed_payout_is_notified_with_masked_account(session: Session, case: Case) -> None:
    case.receive("failed")

    news = row_of(session, "notifications", user_id=case.payee.user.id, type="payout_failed")
    number = row_of(session, "payout_accounts", id=case.payee.account_id)["account_number"]
    assert "NGN 5,000.00" in news["body"]
    assert "The bank did not accept the transfer." in news["body"]
    assert news["body"].endswith("or change it. We will include the amount in the next payouts.")
    assert number[-4:] in news["body"]
    assert number not in news["body"]
    intent = row_of(session, "payout_transfer_intents", id=case.transfer["intent_id"])
    assert intent["failure_reason"] == "The bank did not accept the transfer."


def test_failed_wallet_payout_returns_to_the_wallet(session: Session) -> None:
    payee = make_wallet_payee(session)
    batch_id = staged_batch(session, [make_payee(session)])
    request = PayoutRequest(accounting.Payee(payee.user.id, None), payee.account_id, OWED_MINOR)
    accounting.reserve_payouts(session, requests=[request], batch_id=batch_id, minimum_minor=1, now=NOW)
    for _ in range(2):
        approve(session, batch_id, make_officer(session))
    dispatch(session, batch_id)
    [transfer] = [row for row in transfers_in(session, batch_id) if row["user_id"] == payee.user.id]
    assert payable_balance_of(session, payee) == 0

    handle_transfer_report(session, transfer, "failed")

    assert payable_balance_of(session, payee) == OWED_MINOR
    body = row_of(session, "notifications", user_id=payee.user.id)["body"]
    assert "back in your wallet" in body
    # A batch never includes a wallet balance without a request.
    assert body.endswith("or change it. You can request the payout again.")
    apply_status_response(session, transfer, "success")
    assert payable_balance_of(session, payee) == 0
    news = row_of(session, "notifications", user_id=payee.user.id, type="payout_sent")
    assert news["body"].endswith("We therefore took NGN 5,000.00 back from your wallet.")
    assert_ledger_is_consistent(session)


def test_success_reversed_later_returns_to_the_payee(session: Session, case: Case) -> None:
    case.receive("success", fee_minor=FEE_MINOR)
    case.receive("reversed", fee_minor=FEE_MINOR)

    assert case.statuses == ("reversed", "success")
    assert payable_balance_of(session, case.payee) == OWED_MINOR
    assert case.balance_change("gateway_clearing") == -FEE_MINOR
    assert batch_status(session, case.batch_id) == "partially_failed"
    assert exceptions_of(session, case.transfer["reference"]) == [("reversed", OWED_MINOR)]
    assert notification_types_of(session, case.payee.user.id)[-2:] == ["payout_sent", "payout_failed"]
    assert_ledger_is_consistent(session)


@pytest.mark.parametrize(
    ("outcomes", "expected"),
    [
        (("success", "success"), "success"),
        (("failed", "failed"), "failed"),
        (("failed", "reversed"), "failed"),
        (("reversed", "failed"), "reversed"),
        (("success", "reversed", "reversed"), "reversed"),
    ],
)
def test_repeated_status_event_changes_nothing(
    session: Session, case: Case, outcomes: tuple[str, ...], expected: str
) -> None:
    case.receive(*outcomes)

    assert case.statuses[0] == expected
    assert case.balance_change("gateway_clearing") == (-OWED_MINOR if expected == "success" else 0)
    assert case.count_queued_polls() == 0
    assert len(exceptions_of(session, case.transfer["reference"])) == (expected != "success")
    assert_ledger_is_consistent(session)


@pytest.mark.parametrize(
    ("outcomes", "expected"),
    [
        (("failed", "success"), "failed"),
        (("reversed", "success"), "reversed"),
        (("success", "failed"), "success"),
    ],
)
def test_contradicting_event_queues_a_status_poll(
    session: Session, case: Case, outcomes: tuple[str, ...], expected: str
) -> None:
    case.receive(*outcomes)

    assert case.statuses[0] == expected
    assert case.count_queued_polls() == 1
    assert_ledger_is_consistent(session)


def test_success_polled_as_failed_is_reversed(session: Session, case: Case) -> None:
    case.receive("success")

    assert case.poll("failed") == "reversed"

    assert payable_balance_of(session, case.payee) == OWED_MINOR
    assert_ledger_is_consistent(session)


@pytest.mark.parametrize("outcome", ["failed", "reversed"])
def test_failed_transfer_sent_after_all_is_deducted_from_the_balance(
    session: Session, case: Case, outcome: str
) -> None:
    case.receive(outcome)

    assert case.poll("success", fee_minor=FEE_MINOR) == "success"

    assert payable_balance_of(session, case.payee) == 0
    assert case.balance_change("gateway_clearing") == -OWED_MINOR - FEE_MINOR
    news = row_of(session, "notifications", user_id=case.payee.user.id, type="payout_sent")
    assert news["title"] == "Your returned payout was sent after all"
    assert news["body"].endswith(
        " returned the amount to your balance. We therefore took NGN 5,000.00 back from your balance."
    )
    assert open_about(session, case.alert_subject) == {"TRANSFER_SENT_AFTER_ALL": "SEV-1"}
    assert batch_status(session, case.batch_id) == "completed"
    assert_ledger_is_consistent(session)
    # A later reversal returns the amount to the payee again.
    case.receive("reversed")
    assert case.statuses == ("reversed", "success")
    assert payable_balance_of(session, case.payee) == OWED_MINOR
    assert_ledger_is_consistent(session)
    # Each success notifies the payee.
    case.poll("success")
    assert notification_types_of(session, case.payee.user.id).count("payout_sent") == 2


def test_failed_transfer_sent_after_all_leaves_a_debt_above_the_balance(session: Session, case: Case) -> None:
    case.receive("failed")
    dispatched_batch(session, [case.payee])
    credit_balance(session, case.payee, 100)

    assert case.poll("success") == "success"

    assert case.payee.store_id is not None
    debt = accounts.vendor_receivable(case.payee.store_id)
    assert fetch_balance(session, account=debt) == OWED_MINOR - 100
    news = row_of(session, "notifications", user_id=case.payee.user.id, type="payout_sent")
    assert news["body"].endswith(
        " We therefore took NGN 1.00 back from your balance."
        " You owe us NGN 4,999.00. We will deduct it from your next earnings."
    )
    assert_ledger_is_consistent(session)


def test_debt_of_cash_out_sent_after_all_is_collected_from_the_wallet(session: Session) -> None:
    payee = make_wallet_payee(session)
    request_payout(session, payee, OWED_MINOR)
    officer = make_officer(session)
    staged = staging.stage_batch(session, act=act_of(officer, now=NOW))
    assert staged.batch_id is not None
    approve(session, staged.batch_id, make_officer(session))
    dispatch(session, staged.batch_id)
    [transfer] = [row for row in transfers_in(session, staged.batch_id) if row["user_id"] == payee.user.id]
    handle_transfer_report(session, transfer, "failed")
    request_payout(session, payee, OWED_MINOR)
    apply_status_response(session, transfer, "success")
    news = row_of(session, "notifications", user_id=payee.user.id, type="payout_sent")
    assert news["body"].endswith(
        "to your wallet. You owe us NGN 5,000.00."
        " We will deduct it from the next amounts that your wallet receives."
    )

    credit_balance(session, payee, OWED_MINOR)
    assert buyer_accounts.offset_against_wallet(session, buyer_id=payee.user.id, now=NOW)

    news = row_of(session, "notifications", user_id=payee.user.id, type="debt_collected")
    assert "for money that you had received twice. You do not owe us anything more." in news["body"]
    assert "refund" not in news["title"] + news["body"]
    entry = row_of(session, "ledger_transactions", source=news["cause"])
    assert entry["description"] == "Debt deducted from the wallet"
    assert_ledger_is_consistent(session)


@pytest.mark.parametrize("wrong", [{"amount_minor": OWED_MINOR - 1}, {"currency": "GHS"}])
def test_success_with_wrong_amount_or_currency_is_not_posted(
    session: Session, case: Case, wrong: dict[str, Any]
) -> None:
    case.receive("success", **wrong)

    assert case.statuses == ("pending", "pending")
    assert case.balance_change("gateway_clearing") == 0
    assert open_about(session, case.alert_subject) == {"TRANSFER_DIFFERS": "SEV-1"}
    case.receive("success")
    assert case.statuses == ("success", "success")
    assert open_about(session, case.alert_subject) == {}


@pytest.mark.parametrize("status", ["pending", "processing", "received", "otp", ""])
def test_pending_transfer_status_marks_the_payout_as_submitted(
    session: Session, case: Case, status: str
) -> None:
    assert case.poll(status) == "submitted"

    assert case.statuses == ("submitted", "submitted")
    about = open_about(session, f"payout-batch:{case.batch_id}")
    assert about == ({"TRANSFER_WANTS_OTP": "SEV-2"} if status == "otp" else {})
    # The same holds when a later poll reports the OTP.
    assert case.poll("otp") == "submitted"
    assert open_about(session, f"payout-batch:{case.batch_id}") == {"TRANSFER_WANTS_OTP": "SEV-2"}
    case.receive("success")
    assert open_about(session, f"payout-batch:{case.batch_id}") == {}


def test_batch_is_finished_with_the_last_payout(session: Session) -> None:
    batch_id = dispatched_batch(session, make_payees(session, 3))
    first, second, third = transfers_in(session, batch_id)

    handle_transfer_report(session, first, "success")
    handle_transfer_report(session, second, "failed")
    assert batch_status(session, batch_id) == "dispatching"
    handle_transfer_report(session, third, "success")

    assert batch_status(session, batch_id) == "partially_failed"
    apply_status_response(session, second, "success")
    assert batch_status(session, batch_id) == "completed"
    handle_transfer_report(session, first, "reversed")
    assert batch_status(session, batch_id) == "partially_failed"
    assert row_of(session, "payout_batches", id=batch_id)["finished_at"] == NOW


def test_refused_transfer_fails_the_payout(session: Session, case: Case) -> None:
    row = apply_status.lock_payout(session, reference=case.transfer["reference"])
    apply_status.mark_rejected(session, row, refusal_status=400, now=NOW)

    assert case.statuses == ("failed", "pending")
    assert payable_balance_of(session, case.payee) == OWED_MINOR
    assert exceptions_of(session, case.transfer["reference"]) == [("failed", OWED_MINOR)]
    assert batch_status(session, case.batch_id) == "partially_failed"
    assert row_of(session, "payout_transfers", id=case.transfer["id"])["gateway_transfer_id"] is None
    assert_ledger_is_consistent(session)


def test_unrecognized_transfer_locks_no_row(session: Session) -> None:
    with pytest.raises(UnknownTransferError):
        apply_status.lock_payout(session, reference="payout-" + "0" * 32)
