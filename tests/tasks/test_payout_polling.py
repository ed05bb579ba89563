"""Polling of payouts without a final status: schedule, second send and final alert."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta

import pytest
from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.infra.batches import ChangedWhilePolledError
from marketplace.payouts.transfers import polling
from marketplace.payouts.transfers.polling import POLL_DELAYS, TransferPollingResult, poll_transfers
from marketplace.payouts.transfers.void import void_payout
from marketplace.platform.halts import halt_payouts
from marketplace.providers.gateway.payloads import GatewayTransfer
from marketplace.services import Services
from tasks.all_tasks import get_periodic_task
from tasks.dispatcher import Dispatcher
from tests.support.alerts import alerts_about, open_about
from tests.support.dispatched_batches import (
    CrashingTransfers,
    DispatchedBatch,
    KilledError,
    UnreliableTransfers,
    deliver,
)
from tests.support.finance import act_of, make_officer
from tests.support.gateway import MovableClock, TestGateway
from tests.support.payouts import OWED_MINOR, Payee, make_account, payable_balance_of
from tests.support.purchases import NOW, assert_ledger_is_consistent


@pytest.fixture
def case(paying_services: Services, clock: MovableClock, gateway: TestGateway) -> DispatchedBatch:
    assert clock.now == NOW
    return DispatchedBatch(paying_services, gateway)


@pytest.fixture(autouse=True)
def clear_planned_transfers(gateway: TestGateway) -> Iterator[None]:
    """Clear the outcomes that a test planned for the next transfers."""
    yield
    gateway.call("DELETE", "/sandbox/transfers/next")


class TestSweep:
    def test_payouts_are_polled_by_schedule_for_five_days(
        self, relay: Dispatcher, case: DispatchedBatch, gateway: TestGateway
    ) -> None:
        gateway.call(
            "POST",
            "/sandbox/transfers/next",
            json={"outcome": "success", "count": 3, "delaySeconds": 600},
        )
        case.work(relay)
        began = case.transfers[0]["sent_at"]
        polled = []
        for _ in POLL_DELAYS:
            due = case.transfers[0]["ask_at"]
            polled.append(due - began)
            before = self.polled(case)
            case.sweep_at(due - timedelta(seconds=1))
            assert self.polled(case) == before
            case.sweep_at(due)
            assert self.polled(case) == before + 1

        assert polled == list(POLL_DELAYS)
        assert case.transfers[0]["ask_at"] is None
        with case.database.reading() as session:
            about = open_about(session, f"payout:{case.transfers[0]['intent_id']}")
        assert about == {"TRANSFER_UNSETTLED": "SEV-2"}
        # A late event still settles the payout.
        data = gateway.call("GET", f"/transfer/verify/{case.references[0]}") | {"status": "success"}
        deliver(case, data, "transfer.success")
        assert case.transfers[0]["payout_status"] == "success"
        with case.database.reading() as session:
            assert open_about(session, f"payout:{case.transfers[0]['intent_id']}") == {}

    def polled(self, case: DispatchedBatch) -> int:
        """Count the gateway's status requests for the first payout."""
        return case.gateway.calls(case.references[0]).get("GET /transfer/verify", 0)

    def test_payout_unknown_after_last_poll_raises_alert_and_is_not_resent(
        self, case: DispatchedBatch, gateway: TestGateway, relay: Dispatcher
    ) -> None:
        case.work(
            Dispatcher(
                replace(
                    case.services, transfers=UnreliableTransfers(case.services.transfers, gateway, "refuse")
                )
            )
        )
        case.change("payout_transfers", "reference = ANY(:references)", attempts=len(POLL_DELAYS) - 1)

        done = case.sweep(minutes=6)

        assert (done.resubmitted, case.statuses) == (0, {("unknown", "unknown")})
        assert case.known() == []
        with case.database.reading() as session:
            about = open_about(session, f"payout:{case.transfers[0]['intent_id']}")
        assert about == {"TRANSFER_UNSETTLED": "SEV-2"}
        # An officer restarts polling, and the payout is resent.
        payout_id = case.transfers[0]["intent_id"]
        case.database.in_transaction(polling.restart_polling, payout_id=payout_id, now=NOW)
        assert case.sweep(minutes=6).resubmitted == 1

    def test_settled_payout_is_polled_once_after_restart(
        self, case: DispatchedBatch, relay: Dispatcher
    ) -> None:
        case.work(relay)
        for data in case.known():
            deliver(case, data)
        case.assert_paid()
        payout_id, polled = case.transfers[0]["intent_id"], self.polled(case)
        case.database.in_transaction(polling.restart_polling, payout_id=payout_id, now=NOW)

        for minutes in (1, 6, 600):
            case.sweep(minutes=minutes)

        assert self.polled(case) == polled + 1
        assert case.transfers[0]["ask_at"] is None
        case.assert_paid()

    def test_unknown_payout_is_not_resent_while_payouts_are_halted(
        self, case: DispatchedBatch, gateway: TestGateway, relay: Dispatcher
    ) -> None:
        case.work(
            Dispatcher(
                replace(
                    case.services, transfers=UnreliableTransfers(case.services.transfers, gateway, "refuse")
                )
            )
        )
        case.database.in_transaction(halt_payouts, "ESCROW_DRIFT: of this test", NOW)
        try:
            done = case.sweep(minutes=6)
        finally:
            with case.database.transaction() as session:
                session.execute(text("DELETE FROM payout_halts"))

        assert (done.resubmitted, case.statuses, case.known()) == (0, {("unknown", "unknown")}, [])
        assert case.sweep(hours=2).resubmitted == 3

    @pytest.mark.parametrize("moment", ["before the call", "after the call"])
    def test_crash_during_a_second_send_is_recovered(
        self, case: DispatchedBatch, gateway: TestGateway, relay: Dispatcher, moment: str
    ) -> None:
        case.work(
            Dispatcher(
                replace(
                    case.services, transfers=UnreliableTransfers(case.services.transfers, gateway, "refuse")
                )
            )
        )
        mortal = CrashingTransfers(case.services.transfers, moment)
        with pytest.raises(KilledError):
            poll_transfers(case.database, mortal, now=NOW + timedelta(minutes=6))

        for hours in (2, 30):
            case.sweep(hours=hours)

        for data in case.known():
            deliver(case, data)
        case.assert_paid()
        assert max(calls.get("POST /transfer", 0) for calls in case.calls()) == 1

    def test_concurrent_sweeps_resend_each_payout_once(
        self, case: DispatchedBatch, gateway: TestGateway, relay: Dispatcher
    ) -> None:
        case.work(
            Dispatcher(
                replace(
                    case.services, transfers=UnreliableTransfers(case.services.transfers, gateway, "refuse")
                )
            )
        )

        with ThreadPoolExecutor(2) as pool:
            list(pool.map(lambda _: case.sweep(minutes=6), range(2)))

        assert case.statuses <= {("submitted", "submitted"), ("success", "success")}
        for data in case.known():
            deliver(case, data)
        case.assert_paid()

    def test_payout_polling_stops_while_the_gateway_is_down(
        self, case: DispatchedBatch, relay: Dispatcher, gateway: TestGateway
    ) -> None:
        case.work(relay)
        gateway.proxy.fault = "refuse"

        done = case.sweep(minutes=6)

        assert (done.gateway_unreachable, done.polled) == (True, 0)
        assert case.statuses == {("submitted", "submitted")}

    def test_polled_status_is_discarded_when_transfer_changed_meanwhile(
        self, case: DispatchedBatch, relay: Dispatcher
    ) -> None:
        case.work(relay)
        [first, *_] = case.transfers
        with case.database.reading() as session:
            found = polling.find_transfer(session, reference=first["reference"])
        [data] = [one for one in case.known() if one["reference"] == first["reference"]]
        deliver(case, data | {"status": "reversed"}, "transfer.reversed")

        with pytest.raises(ChangedWhilePolledError):
            case.database.in_transaction(
                polling.record_status, found, GatewayTransfer.from_wire(data), now=NOW
            )

    def test_contradicting_event_is_checked_by_polling(
        self, case: DispatchedBatch, relay: Dispatcher
    ) -> None:
        case.work(relay)
        [data, *_] = case.known()
        deliver(case, data | {"status": "failed", "id": data["id"] + 1}, "transfer.failed")
        deliver(case, data)
        with case.database.reading() as session:
            asking = session.execute(
                text(
                    "SELECT id FROM outbox_events WHERE topic = 'payout.ask' AND payload ->> 'reference' = :r"
                ),
                {"r": data["reference"]},
            ).scalar_one()

        relay.run_row("webhooks", "outbox", str(asking))

        # The gateway reports success, so the returned amount is debited from the balance again.
        row = next(row for row in case.transfers if row["reference"] == data["reference"])
        assert row["payout_status"] == "success"
        with case.database.reading() as session:
            assert "TRANSFER_SENT_AFTER_ALL" in open_about(session, f"payout:{row['intent_id']}")
            assert_ledger_is_consistent(session)

    def test_payout_polling_is_a_periodic_task(self, relay: Dispatcher, paying_services: Services) -> None:
        assert isinstance(
            get_periodic_task("requery-transfers").run(paying_services, relay, NOW), TransferPollingResult
        )


def suspend(session: Session, payee: Payee) -> None:
    session.execute(
        text("UPDATE vendor_profiles SET status = 'suspended' WHERE id = :id"), {"id": payee.store_id}
    )


def restrict(session: Session, payee: Payee) -> None:
    session.execute(
        text("UPDATE profiles SET account_status = 'restricted' WHERE id = :id"), {"id": payee.user.id}
    )


def change_account(session: Session, payee: Payee) -> None:
    make_account(session, payee.user.id, created_at=NOW)


def change_account_days_ago(session: Session, payee: Payee) -> None:
    """Replace the account so long ago that the change alone blocks no payout."""
    make_account(session, payee.user.id)


class TestBlockedResend:
    """Payouts whose first call was lost and whose payee was blocked meanwhile."""

    @pytest.fixture
    def payee(self, case: DispatchedBatch, gateway: TestGateway, relay: Dispatcher) -> Payee:
        """The payee of the first payout."""
        case.work(
            Dispatcher(
                replace(
                    case.services, transfers=UnreliableTransfers(case.services.transfers, gateway, "refuse")
                )
            )
        )
        assert (case.statuses, case.known()) == ({("unknown", "unknown")}, [])
        return next(one for one in case.payees if one.user.id == case.transfers[0]["user_id"])

    def apply_change(
        self, case: DispatchedBatch, payee: Payee, change: Callable[[Session, Payee], None]
    ) -> None:
        with case.database.transaction() as session:
            change(session, payee)

    def poll_for_the_last_time(self, case: DispatchedBatch) -> dict[str, object]:
        """Run the last poll of the first payout and return the facts of the alert."""
        case.change("payout_transfers", "reference = ANY(:references)", attempts=len(POLL_DELAYS) - 1)
        case.sweep_at(case.transfers[0]["ask_at"])
        with case.database.reading() as session:
            [alert] = alerts_about(session, f"payout:{case.transfers[0]['intent_id']}")
        facts: dict[str, object] = alert["facts"]
        return facts

    @pytest.mark.parametrize(
        ("change", "reasons"),
        [
            (suspend, ["store_suspended"]),
            (restrict, ["account_restricted"]),
            (change_account, ["account_replaced", "bank_account_changed"]),
            (change_account_days_ago, ["account_replaced"]),
        ],
    )
    def test_blocked_payout_is_not_resent_and_final_alert_names_the_reasons(
        self,
        case: DispatchedBatch,
        payee: Payee,
        change: Callable[[Session, Payee], None],
        reasons: list[str],
    ) -> None:
        self.apply_change(case, payee, change)

        assert case.sweep(minutes=6).resubmitted == 2

        kept, *others = case.transfers
        assert {one["reference"] for one in case.known()} == {one["reference"] for one in others}
        assert (kept["payout_status"], kept["ask_at"]) == ("unknown", kept["sent_at"] + POLL_DELAYS[1])
        facts = self.poll_for_the_last_time(case)
        assert (facts["knownAtGateway"], facts["keptFromSending"]) == (False, reasons)

    def test_payout_is_sent_by_schedule_after_the_obstacle_ends(
        self, case: DispatchedBatch, payee: Payee
    ) -> None:
        self.apply_change(case, payee, suspend)
        assert case.sweep(minutes=6).resubmitted == 2
        with case.database.transaction() as session:
            session.execute(
                text("UPDATE vendor_profiles SET status = 'active' WHERE id = :id"), {"id": payee.store_id}
            )

        assert case.sweep_at(case.transfers[0]["ask_at"]).resubmitted == 1

        for data in case.known():
            deliver(case, data)
        case.assert_paid()

    def test_voided_payout_to_replaced_account_returns_to_payee_balance(
        self, case: DispatchedBatch, payee: Payee
    ) -> None:
        self.apply_change(case, payee, change_account_days_ago)
        self.poll_for_the_last_time(case)
        with case.database.transaction() as session:
            officer = make_officer(session)
            voided = void_payout(
                session,
                payout_id=case.transfers[0]["intent_id"],
                note="The account was changed before it was sent.",
                act=act_of(officer, now=NOW),
            )

        assert voided.status == "failed"
        with case.database.reading() as session:
            assert payable_balance_of(session, payee) == OWED_MINOR
            assert open_about(session, f"payout:{voided.id}") == {}
            assert_ledger_is_consistent(session)
