"""Payouts that nothing was heard of: asked about by their schedule, sent again once, and given up in the end."""

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
    Case,
    CrashingTransfers,
    KilledError,
    UnreliableTransfers,
    deliver,
)
from tests.support.finance import act_of, make_officer
from tests.support.gateway import MovableClock, TestGateway
from tests.support.payouts import OWED_MINOR, Payee, make_account, owed
from tests.support.purchases import NOW, assert_books_are_whole


@pytest.fixture
def case(paying_services: Services, clock: MovableClock, gateway: TestGateway) -> Case:
    assert clock.now == NOW
    return Case(paying_services, gateway)


@pytest.fixture(autouse=True)
def as_planned(gateway: TestGateway) -> Iterator[None]:
    """Nothing is left of what a test had planned for the next transfers."""
    yield
    gateway.call("DELETE", "/sandbox/transfers/next")


class TestTheSweep:
    def test_payouts_are_polled_by_schedule_for_five_days(
        self, relay: Dispatcher, case: Case, gateway: TestGateway
    ) -> None:
        gateway.call(
            "POST",
            "/sandbox/transfers/next",
            json={"outcome": "success", "count": 3, "delaySeconds": 600},
        )
        case.work(relay)
        began = case.transfers[0]["sent_at"]
        asked = []
        for _ in POLL_DELAYS:
            due = case.transfers[0]["ask_at"]
            asked.append(due - began)
            before = self.asked(case)
            case.sweep_at(due - timedelta(seconds=1))
            assert self.asked(case) == before
            case.sweep_at(due)
            assert self.asked(case) == before + 1

        assert asked == list(POLL_DELAYS)
        assert case.transfers[0]["ask_at"] is None
        with case.database.reading() as session:
            about = open_about(session, f"payout:{case.transfers[0]['intent_id']}")
        assert about == {"TRANSFER_UNSETTLED": "SEV-2"}
        # Its event settles it still.
        data = gateway.call("GET", f"/transfer/verify/{case.references[0]}") | {"status": "success"}
        deliver(case, data, "transfer.success")
        assert case.transfers[0]["payout_status"] == "success"
        with case.database.reading() as session:
            assert open_about(session, f"payout:{case.transfers[0]['intent_id']}") == {}

    def asked(self, case: Case) -> int:
        """How often the gateway was asked about the first one."""
        return case.gateway.calls(case.references[0]).get("GET /transfer/verify", 0)

    def test_what_the_gateway_never_knows_is_raised_and_not_sent_any_more(
        self, case: Case, gateway: TestGateway, relay: Dispatcher
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
        # An officer has it asked about anew, and then it is.
        payout_id = case.transfers[0]["intent_id"]
        case.database.in_transaction(polling.restart_polling, payout_id=payout_id, now=NOW)
        assert case.sweep(minutes=6).resubmitted == 1

    def test_what_is_settled_is_asked_about_once(self, case: Case, relay: Dispatcher) -> None:
        case.work(relay)
        for data in case.known():
            deliver(case, data)
        case.assert_paid()
        payout_id, asked = case.transfers[0]["intent_id"], self.asked(case)
        case.database.in_transaction(polling.restart_polling, payout_id=payout_id, now=NOW)

        for minutes in (1, 6, 600):
            case.sweep(minutes=minutes)

        assert self.asked(case) == asked + 1
        assert case.transfers[0]["ask_at"] is None
        case.assert_paid()

    def test_nothing_is_sent_again_while_payouts_are_halted(
        self, case: Case, gateway: TestGateway, relay: Dispatcher
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
        self, case: Case, gateway: TestGateway, relay: Dispatcher, moment: str
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

    def test_two_sweeps_at_once_make_one_transfer_of_each(
        self, case: Case, gateway: TestGateway, relay: Dispatcher
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
        self, case: Case, relay: Dispatcher, gateway: TestGateway
    ) -> None:
        case.work(relay)
        gateway.line.fault = "refuse"

        done = case.sweep(minutes=6)

        assert (done.gateway_unreachable, done.polled) == (True, 0)
        assert case.statuses == {("submitted", "submitted")}

    def test_what_changed_while_it_was_asked_stays_as_it_is(self, case: Case, relay: Dispatcher) -> None:
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

    def test_what_contradicts_is_asked_about_by_a_worker(self, case: Case, relay: Dispatcher) -> None:
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

        # The gateway says that it was sent, so it was: the balance gave it back.
        row = next(row for row in case.transfers if row["reference"] == data["reference"])
        assert row["payout_status"] == "success"
        with case.database.reading() as session:
            assert "TRANSFER_SENT_AFTER_ALL" in open_about(session, f"payout:{row['intent_id']}")
            assert_books_are_whole(session)

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
    """Change it so long ago that it holds nothing by itself."""
    make_account(session, payee.user.id)


class TestWhatMayNotBeSentAnyMore:
    """The first call never arrived, and meanwhile something befell a payee."""

    @pytest.fixture
    def payee(self, case: Case, gateway: TestGateway, relay: Dispatcher) -> Payee:
        """Whom it befalls: the one of the first payout."""
        case.work(
            Dispatcher(
                replace(
                    case.services, transfers=UnreliableTransfers(case.services.transfers, gateway, "refuse")
                )
            )
        )
        assert (case.statuses, case.known()) == ({("unknown", "unknown")}, [])
        return next(one for one in case.payees if one.user.id == case.transfers[0]["user_id"])

    def befall(self, case: Case, payee: Payee, what: Callable[[Session, Payee], None]) -> None:
        with case.database.transaction() as session:
            what(session, payee)

    def ask_for_the_last_time(self, case: Case) -> dict[str, object]:
        """Have the sweep ask about the first payout for the last time, and give the facts of its alert."""
        case.change("payout_transfers", "reference = ANY(:references)", attempts=len(POLL_DELAYS) - 1)
        case.sweep_at(case.transfers[0]["ask_at"])
        with case.database.reading() as session:
            [alert] = alerts_about(session, f"payout:{case.transfers[0]['intent_id']}")
        facts: dict[str, object] = alert["facts"]
        return facts

    @pytest.mark.parametrize(
        ("befallen", "reasons"),
        [
            (suspend, ["store_suspended"]),
            (restrict, ["account_restricted"]),
            (change_account, ["account_replaced", "bank_account_changed"]),
            (change_account_days_ago, ["account_replaced"]),
        ],
    )
    def test_void_payout_is_not_sent_again_and_the_last_poll_says_why(
        self, case: Case, payee: Payee, befallen: Callable[[Session, Payee], None], reasons: list[str]
    ) -> None:
        self.befall(case, payee, befallen)

        assert case.sweep(minutes=6).resubmitted == 2

        kept, *others = case.transfers
        assert {one["reference"] for one in case.known()} == {one["reference"] for one in others}
        assert (kept["payout_status"], kept["ask_at"]) == ("unknown", kept["sent_at"] + POLL_DELAYS[1])
        facts = self.ask_for_the_last_time(case)
        assert (facts["knownAtGateway"], facts["keptFromSending"]) == (False, reasons)

    def test_payout_is_sent_by_schedule_after_the_obstacle_ends(self, case: Case, payee: Payee) -> None:
        self.befall(case, payee, suspend)
        assert case.sweep(minutes=6).resubmitted == 2
        with case.database.transaction() as session:
            session.execute(
                text("UPDATE vendor_profiles SET status = 'active' WHERE id = :id"), {"id": payee.store_id}
            )

        assert case.sweep_at(case.transfers[0]["ask_at"]).resubmitted == 1

        for data in case.known():
            deliver(case, data)
        case.assert_paid()

    def test_what_was_meant_for_another_account_is_given_up_and_paid_anew(
        self, case: Case, payee: Payee
    ) -> None:
        self.befall(case, payee, change_account_days_ago)
        self.ask_for_the_last_time(case)
        with case.database.transaction() as session:
            officer = make_officer(session)
            given_up = void_payout(
                session,
                payout_id=case.transfers[0]["intent_id"],
                note="The account was changed before it was sent.",
                act=act_of(officer, now=NOW),
            )

        assert given_up.status == "failed"
        with case.database.reading() as session:
            assert owed(session, payee) == OWED_MINOR
            assert open_about(session, f"payout:{given_up.id}") == {}
            assert_books_are_whole(session)
