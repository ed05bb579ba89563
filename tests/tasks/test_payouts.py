"""Payouts in the hands of workers that die at any step, of answers and events that get lost, and of the sweep."""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.payouts import requery, sending
from marketplace.payouts.requery import ASKED_AFTER, Requery, requery_transfers
from marketplace.platform.halts import halt_payouts
from marketplace.providers.gateway_events import GatewayTransfer
from marketplace.providers.transfers import TransferOrder
from marketplace.services import Services
from marketplace.webhooks import operations as webhooks
from sandbox.process import wait_until
from tasks.relay import Relay
from tasks.sweeps import task_named
from tests.support.alerts import open_about
from tests.support.finance import told
from tests.support.gateway import MovableClock, TestGateway, event_of
from tests.support.payouts import OWED_MINOR, make_payees, owed
from tests.support.purchases import NOW, assert_books_are_whole, later, row_of
from tests.support.sending import (
    batch_status,
    dispatched_batch,
    exceptions_of,
    statuses_in,
    transfers_in,
)


class _KilledError(BaseException):
    """Stands for a worker that is killed: nothing catches it."""


class Mortal:
    """The adapter of transfers, in a process that dies before or after a call."""

    def __init__(self, transfers: Any, moment: str) -> None:
        self._transfers = transfers
        self._moment = moment

    def make_recipient(self, **account: str) -> str | None:
        code: str | None = self._transfers.make_recipient(**account)
        return code

    def transfer(self, reference: str) -> GatewayTransfer | None:
        found: GatewayTransfer | None = self._transfers.transfer(reference)
        return found

    def send(self, order: TransferOrder) -> GatewayTransfer:
        [sent] = self._around(lambda: [self._transfers.send(order)])
        return sent

    def send_all(self, orders: Sequence[TransferOrder]) -> list[GatewayTransfer]:
        return self._around(lambda: self._transfers.send_all(orders))

    def _around(self, call: Any) -> list[GatewayTransfer]:
        if self._moment == "before the call":
            raise _KilledError
        sent: list[GatewayTransfer] = call()
        if self._moment == "after the call":
            raise _KilledError
        return sent


class Case:
    """A batch that was dispatched, with its event; nothing of it is sent yet."""

    def __init__(self, services: Services, gateway: TestGateway, *, payees: int = 3, **values: Any) -> None:
        self.services = services
        self.database = services.database
        self.gateway = gateway
        given = {"account": {"recipient_code": None}} | values
        with self.database.transaction() as session:
            self.payees = make_payees(session, payees, **given)
            self.batch_id = dispatched_batch(session, self.payees)
            rows = transfers_in(session, self.batch_id)
        self.references = [row["reference"] for row in rows]
        gateway.fill(payees * OWED_MINOR)

    def change(self, table: str, where: str, **columns: Any) -> None:
        names = ", ".join(f"{name} = :{name}" for name in columns)
        with self.database.transaction() as session:
            session.execute(
                text(f"UPDATE {table} SET {names} WHERE {where}"),  # noqa: S608 - our own text
                {"batch_id": self.batch_id, "references": self.references} | columns,
            )

    def events(self, *, done: bool = False) -> list[UUID]:
        """The events of its sending, those that are done or those that are not."""
        with self.database.reading() as session:
            rows = session.execute(
                text(
                    "SELECT id FROM outbox_events WHERE topic = 'payout.send' AND payload ->> 'batchId' = :id"
                    " AND (done_at IS NOT NULL) = :done ORDER BY id"
                ),
                {"id": str(self.batch_id), "done": done},
            )
            return list(rows.scalars())

    def work(self, relay: Relay, times: int = 1) -> None:
        """Have a worker take up what waits to be sent."""
        for _ in range(times):
            for event_id in self.events():
                relay.run_row("webhooks", "outbox", str(event_id))

    def sweep(self, **delta: float) -> Requery:
        """Have the sweep come so much later than now."""
        return self.sweep_at(datetime.now(UTC) + timedelta(**delta))

    def sweep_at(self, now: datetime) -> Requery:
        """Have the sweep come at a time."""
        return requery_transfers(self.database, self.services.transfers, now=now)

    @property
    def transfers(self) -> list[dict[str, Any]]:
        with self.database.reading() as session:
            return transfers_in(session, self.batch_id)

    @property
    def statuses(self) -> set[tuple[str, str]]:
        with self.database.reading() as session:
            return set(statuses_in(session, self.batch_id))

    @property
    def status(self) -> str:
        with self.database.reading() as session:
            return batch_status(session, self.batch_id)

    @property
    def alerts(self) -> dict[str, str]:
        with self.database.reading() as session:
            return open_about(session, f"payout-batch:{self.batch_id}")

    def known(self) -> list[dict[str, Any]]:
        """What the gateway knows of its transfers, once each has come to its result."""

        def look() -> list[dict[str, Any]]:
            listed: list[dict[str, Any]] = []
            for page in range(1, 50):
                data = self.gateway.call("GET", f"/transfer?perPage=100&page={page}")
                listed += [one for one in data if one["reference"] in self.references]
                if len(data) < 100:
                    break
            return listed

        assert wait_until(lambda: all(one["status"] != "pending" for one in look()), timeout_seconds=20)
        return look()

    def assert_sent_once(self) -> None:
        """Hold the gateway to one transfer for each reference, and of each one's amount."""
        known = self.known()
        assert sorted(one["reference"] for one in known) == sorted(self.references)
        assert {one["amount"] for one in known} == {OWED_MINOR}

    def calls(self) -> list[dict[str, int]]:
        """How often each reference was sent to the gateway."""
        return [
            {name: count for name, count in self.gateway.calls(reference).items() if name.startswith("POST")}
            for reference in self.references
        ]

    def assert_paid(self) -> None:
        """Hold it to having been paid, each payee once, and the books to that."""
        self.assert_sent_once()
        assert self.statuses == {("success", "success")}
        assert self.status == "completed"
        with self.database.reading() as session:
            assert [owed(session, payee) for payee in self.payees] == [0] * len(self.payees)
            assert_books_are_whole(session)


@pytest.fixture
def case(paying_services: Services, clock: MovableClock, gateway: TestGateway) -> Case:
    assert clock.now == NOW
    return Case(paying_services, gateway)


@pytest.fixture(autouse=True)
def as_planned(gateway: TestGateway) -> Iterator[None]:
    """Nothing is left of what a test had planned for the next transfers."""
    yield
    gateway.call("DELETE", "/sandbox/transfers/next")


def deliver(case: Case, data: dict[str, Any], event: str | None = None) -> None:
    """Have the gateway's event about a transfer processed."""
    body = event_of(data, event or f"transfer.{data['status']}")
    inbox_id = case.database.in_transaction(webhooks.receive, provider="gateway", body=body, now=NOW)
    result = webhooks.process(
        case.database, inbox_id=inbox_id, fee_bearer="platform", now=NOW, random=lambda: 0.5
    )
    assert result is not None
    assert result.status in ("processed", "duplicate")


class TestTheWorker:
    def test_it_sends_a_batch_by_one_call_and_the_events_settle_it(self, relay: Relay, case: Case) -> None:
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
                assert told(session, payee.user.id)[-1:] == ["payout_sent"]

    def test_accounts_are_made_recipients_once(self, relay: Relay, case: Case) -> None:
        case.work(relay)

        with case.database.reading() as session:
            codes = [
                row_of(session, "payout_accounts", id=payee.account_id)["recipient_code"]
                for payee in case.payees
            ]
        assert all(code.startswith("RCP_") for code in codes)
        assert len(set(codes)) == len(codes)

    def test_more_than_a_hundred_go_in_several_calls(
        self, relay: Relay, paying_services: Services, gateway: TestGateway, clock: MovableClock
    ) -> None:
        code = gateway.call(
            "POST",
            "/transferrecipient",
            json={"type": "nuban", "name": "A", "account_number": "0123456789", "bank_code": "058"},
        )["recipient_code"]
        case = Case(paying_services, gateway, payees=101, account={"recipient_code": code})

        case.work(relay)
        assert sorted(row["payout_status"] for row in case.transfers) == ["pending"] + ["submitted"] * 100
        case.work(relay, times=2)

        assert case.statuses == {("submitted", "submitted")}
        case.assert_sent_once()

    @pytest.mark.parametrize("moment", ["before the call", "after the call", "before the commit"])
    def test_one_that_dies_is_made_up_for_and_nothing_is_sent_twice(
        self, relay: Relay, case: Case, moment: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        mortal = Relay(replace(case.services, transfers=Mortal(case.services.transfers, moment)))
        if moment == "before the commit":
            noted = sending.note_answers

            def die(session: Session, **given: Any) -> None:
                noted(session, **given)
                raise _KilledError

            monkeypatch.setattr(sending, "note_answers", die)
        with pytest.raises(_KilledError):
            case.work(mortal)
        monkeypatch.undo()
        assert case.statuses == {("pending", "pending")}

        # Another worker sends none of what the dead one had claimed: they are asked about first.
        case.work(relay)
        assert case.statuses == {("pending", "pending")}
        assert case.events() == []
        case.sweep(minutes=4)
        assert case.statuses == {("pending", "pending")}
        case.sweep(minutes=6)
        assert case.statuses <= {("submitted", "submitted"), ("success", "success")}

        # What had arrived was asked about and not sent again; the rest was sent then, by itself.
        once = {"POST /transfer": 1} if moment == "before the call" else {"POST /transfer/bulk": 1}
        assert case.calls() == [once] * 3
        for data in case.known():
            deliver(case, data)
        case.assert_paid()

    def test_two_at_the_same_event_send_different_ones(self, relay: Relay, case: Case) -> None:
        with case.database.reading() as session:
            first = sending.claim(session, batch_id=case.batch_id, now=NOW)
            second = sending.claim(session, batch_id=case.batch_id, now=NOW)

        assert len(first.claimed) == 3
        assert second.claimed == []

    def test_an_event_may_come_before_our_own_answer(
        self, case: Case, relay: Relay, gateway: TestGateway
    ) -> None:
        class Early(Mortal):
            def send_all(self, orders: Sequence[TransferOrder]) -> list[GatewayTransfer]:
                sent = super().send_all(orders)
                for data in case.known():
                    deliver(case, data)
                return sent

        case.work(Relay(replace(case.services, transfers=Early(case.services.transfers, ""))))

        case.assert_paid()

    def test_a_number_and_a_name_are_in_no_repr(self, case: Case) -> None:
        with case.database.reading() as session:
            found = sending.claim(session, batch_id=case.batch_id, now=NOW)

        assert found.claimed[0].account_number not in repr(found)
        assert found.claimed[0].account_name not in repr(found)


class TestTrouble:
    @pytest.mark.parametrize("fault", ["lose", "garble"])
    def test_a_lost_answer_is_unknown_until_the_gateway_is_asked(
        self, relay: Relay, case: Case, gateway: TestGateway, clock: MovableClock, fault: str
    ) -> None:
        # Recipients are known, so that what is lost is the transfer.
        case.work(Relay(replace(case.services, transfers=_Losing(case.services.transfers, gateway, fault))))

        assert case.statuses == {("unknown", "unknown")}
        # The next ones wait for a while, and these are not sent again meanwhile.
        assert [row["due_at"] for row in self.waiting(case)] == [NOW + sending.PAUSE]
        clock.now = later(minutes=6)
        case.work(relay)
        assert case.statuses == {("unknown", "unknown")}

        assert case.sweep(minutes=6).asked >= 3
        for data in case.known():
            deliver(case, data)
        case.assert_paid()
        assert case.calls() == [{"POST /transfer/bulk": 1}] * 3

    def waiting(self, case: Case) -> list[dict[str, Any]]:
        with case.database.reading() as session:
            return [row_of(session, "outbox_events", id=event_id) for event_id in case.events()]

    def test_what_never_arrived_is_sent_once_under_the_same_reference(
        self, relay: Relay, case: Case, gateway: TestGateway
    ) -> None:
        case.work(
            Relay(replace(case.services, transfers=_Losing(case.services.transfers, gateway, "refuse")))
        )
        assert case.statuses == {("unknown", "unknown")}
        assert case.known() == []

        assert case.sweep(minutes=6).sent_again == 3

        assert case.statuses == {("submitted", "submitted")}
        for data in case.known():
            deliver(case, data)
        case.assert_paid()

    def test_too_little_at_the_gateway_waits_and_is_raised(
        self, relay: Relay, case: Case, gateway: TestGateway, clock: MovableClock
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

    def test_one_that_the_gateway_will_not_take_does_not_keep_the_others(
        self, relay: Relay, case: Case
    ) -> None:
        payee = case.payees[1]
        [spoilt] = [row for row in case.transfers if row["user_id"] == payee.user.id]
        self.spoil(case, payee.account_id)

        case.work(relay)

        statuses = {row["reference"]: (row["payout_status"], row["status"]) for row in case.transfers}
        assert statuses.pop(spoilt["reference"]) == ("failed", "pending")
        assert set(statuses.values()) == {("submitted", "submitted")}
        with case.database.reading() as session:
            assert owed(session, payee) == OWED_MINOR
            assert exceptions_of(session, spoilt["reference"]) == [("failed", OWED_MINOR)]
            assert told(session, payee.user.id)[-1:] == ["payout_failed"]
        for data in case.known():
            deliver(case, data)
        assert case.status == "partially_failed"
        with case.database.reading() as session:
            assert_books_are_whole(session)

    def spoil(self, case: Case, account_id: UUID) -> None:
        with case.database.transaction() as session:
            session.execute(
                text("UPDATE payout_accounts SET recipient_code = 'RCP_none' WHERE id = :id"),
                {"id": account_id},
            )

    def test_a_refused_key_is_raised_and_tried_again(
        self, relay: Relay, case: Case, gateway: TestGateway, clock: MovableClock
    ) -> None:
        wrong = gateway.transfer_adapter(case.services.settings, gateway_secret_key="sk_test_of_another")

        case.work(Relay(replace(case.services, transfers=wrong)))

        assert case.statuses == {("pending", "pending")}
        with case.database.reading() as session:
            assert "GATEWAY_KEY_REFUSED" in open_about(session, "payment gateway")
        clock.now = later(minutes=5)
        case.work(relay)
        assert case.statuses == {("submitted", "submitted")}
        with case.database.reading() as session:
            assert "GATEWAY_KEY_REFUSED" not in open_about(session, "payment gateway")

    def test_what_is_halted_stays_and_goes_on_afterwards(self, relay: Relay, case: Case) -> None:
        case.database.in_transaction(halt_payouts, "ESCROW_DRIFT: of this test", NOW)
        try:
            case.work(relay)
            assert case.statuses == {("pending", "pending")}
            assert case.events() == []
            assert case.sweep().handed_on == 0
        finally:
            with case.database.transaction() as session:
                session.execute(text("DELETE FROM payout_halts"))

        assert case.sweep().handed_on >= 1
        assert len(case.events()) == 1
        assert case.sweep().handed_on == 0
        case.change("outbox_events", "payload ->> 'batchId' = CAST(:batch_id AS text)", due_at=NOW)
        case.work(relay)
        assert case.statuses == {("submitted", "submitted")}

    @pytest.mark.parametrize("outcome", ["failed", "reversed"])
    def test_what_fails_at_the_gateway_is_found_by_asking_too(
        self, relay: Relay, case: Case, gateway: TestGateway, outcome: str
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
            assert [owed(session, payee) for payee in case.payees] == [OWED_MINOR] * 3
            # The event tells nothing new: the row is there once.
            assert exceptions_of(session, case.references[0]) == [(outcome, OWED_MINOR)]
            assert_books_are_whole(session)

    def test_what_the_answer_says_nothing_of_is_unknown(self, relay: Relay, case: Case) -> None:
        class Forgetful(Mortal):
            def send_all(self, orders: Sequence[TransferOrder]) -> list[GatewayTransfer]:
                return super().send_all(orders)[1:]

        case.work(Relay(replace(case.services, transfers=Forgetful(case.services.transfers, ""))))

        found = sorted(row["payout_status"] for row in case.transfers)
        assert found == ["submitted", "submitted", "unknown"]
        case.sweep(minutes=6)
        for data in case.known():
            deliver(case, data)
        case.assert_paid()

    def test_an_account_that_there_is_not_is_given_up(self, relay: Relay, case: Case) -> None:
        class Closed(Mortal):
            def make_recipient(self, **account: str) -> str | None:
                return None if account["account_number"] == number else super().make_recipient(**account)

        with case.database.reading() as session:
            account = row_of(session, "payout_accounts", id=case.payees[0].account_id)
        number = account["account_number"]

        case.work(Relay(replace(case.services, transfers=Closed(case.services.transfers, ""))))

        by_payee = {row["user_id"]: row for row in case.transfers}
        refused = by_payee.pop(case.payees[0].user.id)
        assert (refused["payout_status"], refused["failure_reason"]) == (
            "failed",
            "The bank account could not be paid to: the bank does not know it.",
        )
        assert {row["payout_status"] for row in by_payee.values()} == {"submitted"}
        with case.database.reading() as session:
            assert owed(session, case.payees[0]) == OWED_MINOR
            assert_books_are_whole(session)

    def test_while_recipients_can_not_be_made_nothing_is_sent(
        self, relay: Relay, case: Case, gateway: TestGateway
    ) -> None:
        gateway.line.fault = "refuse"
        case.work(relay)
        gateway.line.fault = None

        assert case.statuses == {("pending", "pending")}
        assert all(row["sent_at"] is None for row in case.transfers)
        assert case.calls() == [{}] * 3


class _Losing(Mortal):
    """The adapter, whose line to the gateway fails while it sends."""

    def __init__(self, transfers: Any, gateway: TestGateway, fault: str) -> None:
        super().__init__(transfers, "")
        self._gateway = gateway
        self._fault = fault

    def _around(self, call: Any) -> list[GatewayTransfer]:
        self._gateway.line.fault = self._fault
        try:
            return super()._around(call)
        finally:
            self._gateway.line.fault = None


class TestTheSweep:
    def test_it_asks_by_its_schedule_and_gives_up_after_five_days(
        self, relay: Relay, case: Case, gateway: TestGateway
    ) -> None:
        gateway.call(
            "POST",
            "/sandbox/transfers/next",
            json={"outcome": "success", "count": 3, "delaySeconds": 600},
        )
        case.work(relay)
        began = case.transfers[0]["sent_at"]
        asked = []
        for _ in ASKED_AFTER:
            due = case.transfers[0]["ask_at"]
            asked.append(due - began)
            before = self.asked(case)
            case.sweep_at(due - timedelta(seconds=1))
            assert self.asked(case) == before
            case.sweep_at(due)
            assert self.asked(case) == before + 1

        assert asked == list(ASKED_AFTER)
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
        self, case: Case, gateway: TestGateway, relay: Relay
    ) -> None:
        case.work(
            Relay(replace(case.services, transfers=_Losing(case.services.transfers, gateway, "refuse")))
        )
        case.change("payout_transfers", "reference = ANY(:references)", attempts=len(ASKED_AFTER) - 1)

        done = case.sweep(minutes=6)

        assert (done.sent_again, case.statuses) == (0, {("unknown", "unknown")})
        assert case.known() == []
        with case.database.reading() as session:
            about = open_about(session, f"payout:{case.transfers[0]['intent_id']}")
        assert about == {"TRANSFER_UNSETTLED": "SEV-2"}
        # An officer has it asked about anew, and then it is.
        payout_id = case.transfers[0]["intent_id"]
        case.database.in_transaction(requery.ask_anew, payout_id=payout_id, now=datetime.now(UTC))
        assert case.sweep(minutes=6).sent_again == 1

    def test_nothing_is_sent_again_while_payouts_are_halted(
        self, case: Case, gateway: TestGateway, relay: Relay
    ) -> None:
        case.work(
            Relay(replace(case.services, transfers=_Losing(case.services.transfers, gateway, "refuse")))
        )
        case.database.in_transaction(halt_payouts, "ESCROW_DRIFT: of this test", NOW)
        try:
            done = case.sweep(minutes=6)
        finally:
            with case.database.transaction() as session:
                session.execute(text("DELETE FROM payout_halts"))

        assert (done.sent_again, case.statuses, case.known()) == (0, {("unknown", "unknown")}, [])
        assert case.sweep(hours=2).sent_again == 3

    @pytest.mark.parametrize("moment", ["before the call", "after the call"])
    def test_one_that_dies_while_it_sends_again_is_made_up_for(
        self, case: Case, gateway: TestGateway, relay: Relay, moment: str
    ) -> None:
        case.work(
            Relay(replace(case.services, transfers=_Losing(case.services.transfers, gateway, "refuse")))
        )
        mortal = Mortal(case.services.transfers, moment)
        with pytest.raises(_KilledError):
            requery_transfers(case.database, mortal, now=datetime.now(UTC) + timedelta(minutes=6))

        for hours in (2, 30):
            case.sweep(hours=hours)

        for data in case.known():
            deliver(case, data)
        case.assert_paid()
        assert max(calls.get("POST /transfer", 0) for calls in case.calls()) == 1

    def test_two_sweeps_at_once_make_one_transfer_of_each(
        self, case: Case, gateway: TestGateway, relay: Relay
    ) -> None:
        case.work(
            Relay(replace(case.services, transfers=_Losing(case.services.transfers, gateway, "refuse")))
        )

        with ThreadPoolExecutor(2) as pool:
            list(pool.map(lambda _: case.sweep(minutes=6), range(2)))

        assert case.statuses <= {("submitted", "submitted"), ("success", "success")}
        for data in case.known():
            deliver(case, data)
        case.assert_paid()

    def test_it_stops_while_the_gateway_is_down(self, case: Case, relay: Relay, gateway: TestGateway) -> None:
        case.work(relay)
        gateway.line.fault = "refuse"

        done = case.sweep(minutes=6)

        assert (done.gateway_down, done.asked) == (True, 0)
        assert case.statuses == {("submitted", "submitted")}

    def test_what_changed_while_it_was_asked_stays_as_it_is(self, case: Case, relay: Relay) -> None:
        case.work(relay)
        [first, *_] = case.transfers
        with case.database.reading() as session:
            found = requery.find(session, reference=first["reference"])
        [data] = [one for one in case.known() if one["reference"] == first["reference"]]
        deliver(case, data | {"status": "reversed"}, "transfer.reversed")

        with pytest.raises(requery.ChangedMeanwhileError):
            case.database.in_transaction(requery.note, found, GatewayTransfer.from_wire(data), now=NOW)

    def test_what_contradicts_is_asked_about_by_a_worker(self, case: Case, relay: Relay) -> None:
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

    def test_it_is_a_periodic_task(self, relay: Relay, paying_services: Services) -> None:
        assert isinstance(task_named("requery-transfers").run(paying_services, relay, NOW), Requery)
