"""Sending payouts despite crashed workers, lost responses and refusals of the gateway."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.payouts.transfers import submit
from marketplace.platform.halts import halt_payouts
from marketplace.providers.gateway.payloads import GatewayTransfer
from marketplace.providers.gateway.transfers import TransferInstruction, TransferRefusedError
from marketplace.services import Services
from tasks.dispatcher import Dispatcher
from tests.support.alerts import open_about
from tests.support.dispatched_batches import (
    CrashingTransfers,
    DispatchedBatch,
    KilledError,
    UnreliableTransfers,
    deliver,
)
from tests.support.finance import notification_types_of
from tests.support.gateway import MovableClock, TestGateway
from tests.support.payouts import OWED_MINOR, Payee, payable_balance_of
from tests.support.purchases import NOW, assert_ledger_is_consistent, later, row_of
from tests.support.transfers import dispatched_batch, exceptions_of, statuses_in


@pytest.fixture
def case(paying_services: Services, clock: MovableClock, gateway: TestGateway) -> DispatchedBatch:
    assert clock.now == NOW
    return DispatchedBatch(paying_services, gateway)


@pytest.fixture(autouse=True)
def clear_planned_transfers(gateway: TestGateway) -> Iterator[None]:
    """Clear the outcomes that a test planned for the next transfers."""
    yield
    gateway.call("DELETE", "/sandbox/transfers/next")


class TestWorker:
    def test_worker_sends_a_batch_in_a_single_call_and_events_settle_payouts(
        self, relay: Dispatcher, case: DispatchedBatch
    ) -> None:
        case.work(relay, times=3)

        assert case.statuses == {("submitted", "submitted")}
        assert case.calls() == [{"POST /transfer/bulk": 1}] * 3
        assert all(row["transfer_code"] and row["ask_at"] for row in case.transfers)
        assert case.events() == []
        for data in case.known():
            deliver(case, data)
            deliver(case, data)
        case.assert_paid()
        for payee in case.payees:
            with case.database.reading() as session:
                assert notification_types_of(session, payee.user.id)[-1:] == ["payout_sent"]

    def test_transfer_recipient_is_created_once_per_account(
        self, relay: Dispatcher, case: DispatchedBatch
    ) -> None:
        case.work(relay)

        with case.database.reading() as session:
            codes = [
                row_of(session, "payout_accounts", id=payee.account_id)["recipient_code"]
                for payee in case.payees
            ]
        assert all(code.startswith("RCP_") for code in codes)
        assert len(set(codes)) == len(codes)

    def test_more_than_hundred_payouts_are_sent_in_several_calls(
        self, relay: Dispatcher, paying_services: Services, gateway: TestGateway, clock: MovableClock
    ) -> None:
        code = gateway.call(
            "POST",
            "/transferrecipient",
            json={"type": "nuban", "name": "A", "account_number": "0123456789", "bank_code": "058"},
        )["recipient_code"]
        case = DispatchedBatch(paying_services, gateway, payees=101, account={"recipient_code": code})

        case.work(relay)
        assert sorted(row["payout_status"] for row in case.transfers) == ["pending"] + ["submitted"] * 100
        case.work(relay, times=2)

        assert case.statuses == {("submitted", "submitted")}
        case.assert_sent_once()

    @pytest.mark.parametrize("moment", ["before the call", "after the call", "before the commit"])
    def test_crash_while_sending_is_recovered_and_nothing_sent_twice(
        self, relay: Dispatcher, case: DispatchedBatch, moment: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        mortal = Dispatcher(
            replace(case.services, transfers=CrashingTransfers(case.services.transfers, moment))
        )
        if moment == "before the commit":
            noted = submit.record_results

            def die(session: Session, **given: Any) -> None:
                noted(session, **given)
                raise KilledError

            monkeypatch.setattr(submit, "record_results", die)
        with pytest.raises(KilledError):
            case.work(mortal)
        monkeypatch.undo()
        assert case.statuses == {("pending", "pending")}

        # Payouts leased by the crashed worker are polled before another attempt.
        case.work(relay)
        assert case.statuses == {("pending", "pending")}
        assert case.events() == []
        case.sweep(minutes=4)
        assert case.statuses == {("pending", "pending")}
        case.sweep(minutes=6)
        assert case.statuses <= {("submitted", "submitted"), ("success", "success")}

        # Payouts known to the gateway are not resent. The others are resent one by one.
        once = {"POST /transfer": 1} if moment == "before the call" else {"POST /transfer/bulk": 1}
        assert case.calls() == [once] * 3
        for data in case.known():
            deliver(case, data)
        case.assert_paid()

    def test_second_worker_leases_no_leased_payouts(self, relay: Dispatcher, case: DispatchedBatch) -> None:
        with case.database.reading() as session:
            first = submit.lease_payouts(session, batch_id=case.batch_id, now=NOW)
            second = submit.lease_payouts(session, batch_id=case.batch_id, now=NOW)

        assert len(first.claimed) == 3
        assert second.claimed == []

    def test_payee_on_hold_is_not_paid_and_others_are(self, relay: Dispatcher, case: DispatchedBatch) -> None:
        payee = case.payees[0]
        self.put(case, payee, "suspended")

        case.work(relay, times=2)

        by_payee = {row["user_id"]: row for row in case.transfers}
        held = by_payee.pop(payee.user.id)
        assert (held["payout_status"], held["sent_at"]) == ("pending", None)
        assert {row["payout_status"] for row in by_payee.values()} == {"submitted"}
        assert case.gateway.calls(held["reference"]) == {}
        # The sweep enqueues nothing for a payee on hold.
        case.sweep_at(NOW)
        assert case.events() == []

        self.put(case, payee, "active")
        case.sweep_at(NOW)
        case.work(relay)
        assert {row["payout_status"] for row in case.transfers} == {"submitted"}

    def put(self, case: DispatchedBatch, payee: Payee, status: str) -> None:
        with case.database.transaction() as session:
            session.execute(
                text("UPDATE profiles SET account_status = :status WHERE id = :id"),
                {"status": status, "id": payee.user.id},
            )

    def test_event_before_gateway_response_settles_payout(
        self, case: DispatchedBatch, relay: Dispatcher, gateway: TestGateway
    ) -> None:
        class Early(CrashingTransfers):
            def send_bulk(self, instructions: Sequence[TransferInstruction]) -> list[GatewayTransfer]:
                sent = super().send_bulk(instructions)
                for data in case.known():
                    deliver(case, data)
                return sent

        case.work(Dispatcher(replace(case.services, transfers=Early(case.services.transfers, ""))))

        case.assert_paid()

    def test_repr_hides_account_number_and_name(self, case: DispatchedBatch) -> None:
        with case.database.reading() as session:
            found = submit.lease_payouts(session, batch_id=case.batch_id, now=NOW)

        assert found.claimed[0].account_number not in repr(found)
        assert found.claimed[0].account_name not in repr(found)


class TestFailures:
    @pytest.mark.parametrize("fault", ["lose", "garble"])
    def test_payout_with_lost_response_is_unknown_until_polled(
        self, relay: Dispatcher, case: DispatchedBatch, gateway: TestGateway, clock: MovableClock, fault: str
    ) -> None:
        # Recipients exist, so the lost response is that of the transfer.
        case.work(
            Dispatcher(
                replace(case.services, transfers=UnreliableTransfers(case.services.transfers, gateway, fault))
            )
        )

        assert case.statuses == {("unknown", "unknown")}
        # The next event waits, and unknown payouts are not resent meanwhile.
        assert [row["due_at"] for row in self.waiting(case)] == [NOW + submit.RETRY_PAUSE]
        clock.now = later(minutes=6)
        case.work(relay)
        assert case.statuses == {("unknown", "unknown")}

        assert case.sweep(minutes=6).polled >= 3
        for data in case.known():
            deliver(case, data)
        case.assert_paid()
        assert case.calls() == [{"POST /transfer/bulk": 1}] * 3

    def waiting(self, case: DispatchedBatch) -> list[dict[str, Any]]:
        with case.database.reading() as session:
            return [row_of(session, "outbox_events", id=event_id) for event_id in case.events()]

    def test_payout_unknown_to_gateway_is_resent_once_with_same_reference(
        self, relay: Dispatcher, case: DispatchedBatch, gateway: TestGateway
    ) -> None:
        case.work(
            Dispatcher(
                replace(
                    case.services, transfers=UnreliableTransfers(case.services.transfers, gateway, "refuse")
                )
            )
        )
        assert case.statuses == {("unknown", "unknown")}
        assert case.known() == []

        assert case.sweep(minutes=6).resubmitted == 3

        assert case.statuses == {("submitted", "submitted")}
        for data in case.known():
            deliver(case, data)
        case.assert_paid()

    def test_insufficient_gateway_balance_delays_payouts_and_raises_alert(
        self, relay: Dispatcher, case: DispatchedBatch, gateway: TestGateway, clock: MovableClock
    ) -> None:
        held = gateway.call("GET", "/balance")[0]["balance"]
        gateway.call("POST", "/sandbox/settlements", json={"amountMinor": held})

        case.work(relay)

        assert case.statuses == {("pending", "pending")}
        assert all(row["sent_at"] is None and row["ask_at"] is None for row in case.transfers)
        assert case.alerts == {"PAYOUT_FUNDS_SHORT": "SEV-2"}
        gateway.fill(held)
        case.work(relay)
        assert case.statuses == {("pending", "pending")}
        clock.now = later(minutes=5)
        case.work(relay)
        assert case.statuses == {("submitted", "submitted")}
        assert case.alerts == {}
        case.assert_sent_once()

    def test_refused_transfer_does_not_block_others(self, relay: Dispatcher, case: DispatchedBatch) -> None:
        payee = case.payees[1]
        [spoilt] = [row for row in case.transfers if row["user_id"] == payee.user.id]
        self.spoil(case, payee.account_id)

        case.work(relay)

        statuses = {row["reference"]: (row["payout_status"], row["status"]) for row in case.transfers}
        assert statuses.pop(spoilt["reference"]) == ("failed", "pending")
        assert set(statuses.values()) == {("submitted", "submitted")}
        with case.database.reading() as session:
            assert payable_balance_of(session, payee) == OWED_MINOR
            assert exceptions_of(session, spoilt["reference"]) == [("failed", OWED_MINOR)]
            assert notification_types_of(session, payee.user.id)[-1:] == ["payout_failed"]
        for data in case.known():
            deliver(case, data)
        assert case.status == "partially_failed"
        with case.database.reading() as session:
            assert_ledger_is_consistent(session)

    def test_unknown_recipient_is_created_again_for_next_payout(
        self, relay: Dispatcher, case: DispatchedBatch, gateway: TestGateway
    ) -> None:
        payee = case.payees[1]
        self.spoil(case, payee.account_id)
        case.work(relay)
        with case.database.transaction() as session:
            codes = {
                one.account_id: row_of(session, "payout_accounts", id=one.account_id)["recipient_code"]
                for one in case.payees
            }
            next_id = dispatched_batch(session, [payee])
        assert codes.pop(payee.account_id) is None
        assert all(codes.values())
        gateway.fill(OWED_MINOR)

        with case.database.reading() as session:
            [event_id] = session.execute(
                text("SELECT id FROM outbox_events WHERE payload ->> 'batchId' = :id AND done_at IS NULL"),
                {"id": str(next_id)},
            ).scalars()
        relay.run_row("webhooks", "outbox", str(event_id))

        with case.database.reading() as session:
            assert statuses_in(session, next_id) == [("submitted", "submitted")]
            assert row_of(session, "payout_accounts", id=payee.account_id)["recipient_code"]

    def spoil(self, case: DispatchedBatch, account_id: UUID) -> None:
        with case.database.transaction() as session:
            session.execute(
                text("UPDATE payout_accounts SET recipient_code = 'RCP_none' WHERE id = :id"),
                {"id": account_id},
            )

    def test_refused_gateway_key_raises_alert_and_payouts_are_retried(
        self, relay: Dispatcher, case: DispatchedBatch, gateway: TestGateway, clock: MovableClock
    ) -> None:
        wrong = gateway.transfer_adapter(case.services.settings, gateway_secret_key="sk_test_of_another")

        case.work(Dispatcher(replace(case.services, transfers=wrong)))

        assert case.statuses == {("pending", "pending")}
        with case.database.reading() as session:
            assert "GATEWAY_KEY_REFUSED" in open_about(session, "payment gateway")
        clock.now = later(minutes=5)
        case.work(relay)
        assert case.statuses == {("submitted", "submitted")}
        with case.database.reading() as session:
            assert "GATEWAY_KEY_REFUSED" not in open_about(session, "payment gateway")

    def test_halted_payouts_are_sent_after_halt_ends(self, relay: Dispatcher, case: DispatchedBatch) -> None:
        case.database.in_transaction(halt_payouts, "ESCROW_DRIFT: of this test", NOW)
        try:
            case.work(relay)
            assert case.statuses == {("pending", "pending")}
            assert case.events() == []
            assert case.sweep().batches_enqueued == 0
        finally:
            with case.database.transaction() as session:
                session.execute(text("DELETE FROM payout_halts"))

        assert case.sweep().batches_enqueued >= 1
        assert len(case.events()) == 1
        assert case.sweep().batches_enqueued == 0
        case.change("outbox_events", "payload ->> 'batchId' = CAST(:batch_id AS text)", due_at=NOW)
        case.work(relay)
        assert case.statuses == {("submitted", "submitted")}

    @pytest.mark.parametrize("outcome", ["failed", "reversed"])
    def test_failed_transfer_is_found_by_polling(
        self, relay: Dispatcher, case: DispatchedBatch, gateway: TestGateway, outcome: str
    ) -> None:
        gateway.call("POST", "/sandbox/transfers/next", json={"outcome": outcome, "count": 3})
        case.work(relay)
        known = case.known()

        case.sweep(minutes=6)

        assert case.statuses == {(outcome, "submitted")}
        assert case.status == "partially_failed"
        for data in known:
            deliver(case, data)
        with case.database.reading() as session:
            assert [payable_balance_of(session, payee) for payee in case.payees] == [OWED_MINOR] * 3
            # The event repeats the polled status, so only one exception exists.
            assert exceptions_of(session, case.references[0]) == [(outcome, OWED_MINOR)]
            assert_ledger_is_consistent(session)

    def test_payouts_stay_pending_when_gateway_refuses_all_transfers(
        self, relay: Dispatcher, case: DispatchedBatch, clock: MovableClock
    ) -> None:
        class Unwilling(CrashingTransfers):
            def _around(self, call: Any) -> list[GatewayTransfer]:
                raise TransferRefusedError(400)

        case.work(Dispatcher(replace(case.services, transfers=Unwilling(case.services.transfers, ""))))

        assert case.statuses == {("pending", "pending")}
        assert case.alerts == {"PAYOUTS_REFUSED": "SEV-2"}
        clock.now = later(minutes=5)
        case.work(relay)
        assert case.statuses == {("submitted", "submitted")}
        assert case.alerts == {}

    def test_payout_missing_in_bulk_response_is_unknown(
        self, relay: Dispatcher, case: DispatchedBatch
    ) -> None:
        class Forgetful(CrashingTransfers):
            def send_bulk(self, instructions: Sequence[TransferInstruction]) -> list[GatewayTransfer]:
                return super().send_bulk(instructions)[1:]

        case.work(Dispatcher(replace(case.services, transfers=Forgetful(case.services.transfers, ""))))

        found = sorted(row["payout_status"] for row in case.transfers)
        assert found == ["submitted", "submitted", "unknown"]
        case.sweep(minutes=6)
        for data in case.known():
            deliver(case, data)
        case.assert_paid()

    def test_payout_to_nonexistent_account_fails(self, relay: Dispatcher, case: DispatchedBatch) -> None:
        class Closed(CrashingTransfers):
            def create_recipient(self, **account: str) -> str | None:
                return None if account["account_number"] == number else super().create_recipient(**account)

        with case.database.reading() as session:
            account = row_of(session, "payout_accounts", id=case.payees[0].account_id)
        number = account["account_number"]

        case.work(Dispatcher(replace(case.services, transfers=Closed(case.services.transfers, ""))))

        by_payee = {row["user_id"]: row for row in case.transfers}
        refused = by_payee.pop(case.payees[0].user.id)
        assert (refused["payout_status"], refused["failure_reason"]) == (
            "failed",
            "The bank could not find your bank account.",
        )
        assert {row["payout_status"] for row in by_payee.values()} == {"submitted"}
        with case.database.reading() as session:
            assert payable_balance_of(session, case.payees[0]) == OWED_MINOR
            assert_ledger_is_consistent(session)

    def test_nothing_is_sent_when_recipients_cannot_be_created(
        self, relay: Dispatcher, case: DispatchedBatch, gateway: TestGateway
    ) -> None:
        gateway.proxy.fault = "refuse"
        case.work(relay)
        gateway.proxy.fault = None

        assert case.statuses == {("pending", "pending")}
        assert all(row["sent_at"] is None for row in case.transfers)
        assert case.calls() == [{}] * 3
