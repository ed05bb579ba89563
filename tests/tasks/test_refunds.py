"""Refunds despite crashed workers and lost events, and the sweep that recovers refunds."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.cart.operations import RequestedItem
from marketplace.infra.db import Database
from marketplace.payments.refunds import gateway_refund, gateway_reports, order_cancellation
from marketplace.payments.refunds.gateway_reports import poll_refunds
from marketplace.providers.client import ProviderRefusedError
from marketplace.providers.gateway.payloads import GatewayRefund
from marketplace.services import Services
from marketplace.webhooks import inbox as webhooks
from sandbox.process import wait_until
from tasks.all_tasks import get_periodic_task
from tasks.dispatcher import Dispatcher
from tests.support.finance import dispute_charge, refunds_of
from tests.support.gateway import MovableClock, TestGateway, event_of
from tests.support.purchases import (
    NOW,
    apply,
    assert_ledger_is_consistent,
    check_out,
    later,
    make_product,
    make_shop,
    neighbours,
    row_of,
)


class _KilledError(BaseException):
    """Simulate the kill of a worker. No handler catches this error."""


class CrashingGateway:
    """The gateway's adapter in a worker that crashes before or after a call."""

    def __init__(self, gateway: Any, moment: str) -> None:
        self._gateway = gateway
        self._moment = moment

    def create_refund(self, **given: Any) -> GatewayRefund:
        if self._moment == "before the call":
            raise _KilledError
        told: GatewayRefund = self._gateway.create_refund(**given)
        if self._moment == "after the call":
            raise _KilledError
        return told

    def list_refunds(self, reference: str) -> list[GatewayRefund]:
        found: list[GatewayRefund] = self._gateway.list_refunds(reference)
        return found


class Case:
    """A refund that waits to be sent, with the event that sends it."""

    def __init__(self, services: Services, gateway: TestGateway, orders: int = 1) -> None:
        self.database = services.database
        with self.database.transaction() as session:
            shop = make_shop(session)
            shops = neighbours(session, shop, orders)
            done = check_out(session, shop, [RequestedItem(make_product(session, one), 1) for one in shops])
            intent = done.payment
            assert intent is not None
            gateway.open(intent.reference, intent.amount_minor)
            apply(session, gateway.charge_of_paid(intent.reference))
        self.ids: list[UUID] = []
        with self.database.transaction() as session:
            for order_id in done.order_ids:
                order_cancellation.cancel_order(
                    session, order_id=order_id, caller=shop.buyer, reason=None, now=NOW
                )
                [made] = refunds_of(session, order_id)
                self.ids.append(made["id"])
        self.id = self.ids[0]
        self.amount_minor: int = made["amount_minor"]
        self.reference = intent.reference
        self.event_id = self.one("SELECT id FROM outbox_events WHERE payload ->> 'refundId' = :id")

    def one(self, sql: str) -> Any:
        with self.database.reading() as session:
            return session.execute(text(sql), {"id": str(self.id)}).scalar_one()

    def change(self, **columns: Any) -> None:
        names = ", ".join(f"{name} = :{name}" for name in columns)
        with self.database.transaction() as session:
            session.execute(text(f"UPDATE refunds SET {names} WHERE id = :id"), {"id": self.id} | columns)

    @property
    def row(self) -> dict[str, Any]:
        with self.database.reading() as session:
            return row_of(session, "refunds", id=self.id)

    def run(self, relay: Dispatcher) -> None:
        """Run the sending event now."""
        with self.database.transaction() as session:
            session.execute(
                text("UPDATE outbox_events SET due_at = :now WHERE id = :id AND done_at IS NULL"),
                {"now": NOW, "id": self.event_id},
            )
        relay.run_row("webhooks", "outbox", str(self.event_id))

    def assert_sent_once(self, gateway: TestGateway) -> None:
        assert gateway.calls(self.reference).get("POST /refund") == 1
        assert self.row["status"] in ("submitted", "processed")
        with self.database.reading() as session:
            assert row_of(session, "outbox_events", id=self.event_id)["done_at"] is not None
            assert_ledger_is_consistent(session)


@pytest.fixture
def case(paying_services: Services, clock: MovableClock, gateway: TestGateway) -> Case:
    assert clock.now == NOW
    return Case(paying_services, gateway)


def test_refund_with_repeated_events_is_sent_once(
    relay: Dispatcher, gateway: TestGateway, case: Case
) -> None:
    for _ in range(3):
        relay.run_row("webhooks", "outbox", str(case.event_id))

    case.assert_sent_once(gateway)


@pytest.mark.parametrize("moment", ["before the call", "after the call", "before the commit"])
def test_refund_of_crashed_worker_is_sent_once(
    relay: Dispatcher,
    paying_services: Services,
    gateway: TestGateway,
    case: Case,
    moment: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    mortal = Dispatcher(replace(paying_services, gateway=CrashingGateway(paying_services.gateway, moment)))
    if moment == "before the commit":
        settled = gateway_refund.apply_gateway_status

        def die(session: Session, **given: Any) -> str:
            settled(session, **given)
            raise _KilledError

        monkeypatch.setattr(gateway_refund, "apply_gateway_status", die)
    with pytest.raises(_KilledError):
        case.run(mortal)
    monkeypatch.undo()
    assert case.row["status"] == "pending"

    # Workers wait until the lease ends, because the gateway may still process the call.
    case.run(relay)
    assert case.row["status"] == "pending"
    case.change(asking_until=NOW - timedelta(seconds=1))
    case.run(relay)

    case.assert_sent_once(gateway)


def test_event_before_gateway_response_is_applied(
    relay: Dispatcher, gateway: TestGateway, case: Case, paying_services: Services
) -> None:
    """The event is processed between the gateway's response and the worker's commit."""

    class Early(CrashingGateway):
        def create_refund(self, **given: Any) -> GatewayRefund:
            told = super().create_refund(**given)
            deliver(paying_services, case, told.id, "refund.processed")
            assert case.row["status"] == "processed"
            return told

    case.run(Dispatcher(replace(paying_services, gateway=Early(paying_services.gateway, ""))))

    case.assert_sent_once(gateway)
    assert case.row["status"] == "processed"


def deliver(services: Services, case: Case, gateway_id: str, event: str, **values: Any) -> str:
    """Receive and process an event of the gateway."""
    data = {
        "id": int(gateway_id),
        "status": event.removeprefix("refund."),
        "amount": str(case.amount_minor),
        "currency": "NGN",
        "transaction_reference": case.reference,
        "merchant_note": f"marketplace refund {case.id}",
    } | values
    inbox_id = services.database.in_transaction(
        webhooks.receive_event, provider="gateway", body=event_of(data, event), now=NOW
    )
    result = webhooks.process_event(
        services.database, inbox_id=inbox_id, fee_bearer="platform", now=NOW, random=lambda: 0.5
    )
    assert result is not None
    return result.status


def work_off(relay: Dispatcher, database: Database, refund_id: UUID, topic: str = "refund.ask") -> None:
    """Run the unfinished events of a refund and topic."""
    with database.reading() as session:
        waiting = session.execute(
            text(
                "SELECT id FROM outbox_events WHERE payload ->> 'refundId' = :id AND topic = :topic"
                " AND done_at IS NULL ORDER BY id"
            ),
            {"id": str(refund_id), "topic": topic},
        )
        found = list(waiting.scalars())
    assert found
    for event_id in found:
        relay.run_row("webhooks", "outbox", str(event_id))
    with database.reading() as session:
        assert all(row_of(session, "outbox_events", id=event_id)["done_at"] for event_id in found)


def settled(gateway: TestGateway, refund_id: UUID) -> str:
    """Wait until the gateway has settled a refund and return the final status."""

    def status() -> str:
        [found] = [
            data
            for data in gateway.call("GET", "/refund?perPage=100")
            if data["merchant_note"] == gateway_refund.refund_reference(refund_id, 1)
        ]
        told: str = found["status"]
        return told

    assert wait_until(lambda: status() != "pending", timeout_seconds=20)
    return status()


class TestEvents:
    def test_repeated_refund_event_counts_once(self, paying_services: Services, case: Case) -> None:
        number = str(case.id.int % 10**12)

        done = [deliver(paying_services, case, number, "refund.processed") for _ in range(2)]

        assert done == ["processed", "duplicate"]
        assert case.row["status"] == "processed"

    def test_refund_event_without_id_and_note_polls_the_gateway(
        self, relay: Dispatcher, gateway: TestGateway, paying_services: Services, case: Case
    ) -> None:
        case.run(relay)
        settled(gateway, case.id)
        bare = {"id": None, "merchant_note": None}

        done = [
            deliver(paying_services, case, "1", event, **bare, refund_reference=reference)
            for event, reference in (("refund.pending", None), ("refund.processed", f"R-{case.id}"))
        ]

        assert done == ["processed", "processed"]
        assert case.row["status"] == "submitted"
        work_off(relay, case.database, case.id)
        assert case.row["status"] == "processed"
        with case.database.reading() as session:
            assert_ledger_is_consistent(session)

    def test_event_of_another_refund_settles_no_refund(
        self, relay: Dispatcher, gateway: TestGateway, paying_services: Services, case: Case
    ) -> None:
        """The event is about a manual refund of the same amount at the gateway."""
        gateway.call("POST", "/sandbox/refunds/next", json={"outcome": "failed"})
        case.run(relay)
        ours = case.row["gateway_refund_id"]
        settled(gateway, case.id)

        deliver(paying_services, case, "7777594", "refund.processed", merchant_note=None)
        work_off(relay, case.database, case.id)

        assert (case.row["status"], case.row["gateway_refund_id"]) == ("failed", ours)
        deliver(paying_services, case, ours, "refund.failed", merchant_note=None)
        assert case.row["status"] == "failed"
        with case.database.reading() as session:
            assert_ledger_is_consistent(session)

    def test_events_of_equal_refunds_are_distinguished_by_polling(
        self, relay: Dispatcher, gateway: TestGateway, paying_services: Services, clock: MovableClock
    ) -> None:
        case = Case(paying_services, gateway, orders=2)
        first, second = case.ids
        gateway.call("POST", "/sandbox/refunds/next", json={"outcome": "failed"})
        for refund_id in (first, second):
            work_off(relay, case.database, refund_id, topic="refund.send")
        assert [settled(gateway, refund_id) for refund_id in (first, second)] == ["failed", "processed"]

        for event, reference in (("refund.processed", "TRF-B"), ("refund.failed", "TRF-A")):
            bare = {"id": None, "merchant_note": None, "refund_reference": f"{reference}-{case.id}"}
            assert deliver(paying_services, case, "1", event, **bare) == "processed"
            for refund_id in (first, second):
                work_off(relay, case.database, refund_id)

        with case.database.reading() as session:
            states = [row_of(session, "refunds", id=refund_id)["status"] for refund_id in (first, second)]
            assert states == ["failed", "processed"]
            assert_ledger_is_consistent(session)

    def test_unrecognized_refund_event_is_recorded_as_ignored(
        self, paying_services: Services, case: Case
    ) -> None:
        number = str(case.id.int % 10**12)
        other = {"merchant_note": "by hand", "transaction_reference": "elsewhere"}

        assert deliver(paying_services, case, number, "refund.processed", **other) == "ignored"
        assert case.row["status"] == "pending"

    def test_unreadable_refund_event_is_a_dead_letter_at_once(
        self, paying_services: Services, case: Case
    ) -> None:
        number = str(case.id.int % 10**12)

        assert deliver(paying_services, case, number, "refund.processed", amount="all") == "dead"


class TestSweep:
    def sweep(self, services: Services, **delta: float) -> gateway_reports.RefundPollingResult:
        return poll_refunds(services.database, services.gateway, now=later(**delta))

    def test_sweep_polls_refunds_without_events(
        self, relay: Dispatcher, gateway: TestGateway, paying_services: Services, case: Case
    ) -> None:
        """The event with the refund's result was lost."""
        case.run(relay)
        self.until(
            lambda: gateway.call("GET", f"/refund/{case.row['gateway_refund_id']}")["status"] == "processed"
        )

        assert self.sweep(paying_services, minutes=59).changed == 0
        assert case.row["status"] == "submitted"
        done = self.sweep(paying_services, minutes=61)

        assert done.polled >= done.changed >= 1
        assert case.row["status"] == "processed"
        with case.database.reading() as session:
            assert_ledger_is_consistent(session)

    def until(self, look: Callable[[], bool]) -> None:
        assert wait_until(look, timeout_seconds=20)

    def test_sweep_enqueues_refund_with_failed_outbox_event_again(
        self, relay: Dispatcher, gateway: TestGateway, paying_services: Services, case: Case
    ) -> None:
        with case.database.transaction() as session:
            session.execute(
                text("UPDATE outbox_events SET failed_at = :now WHERE id = :id"),
                {"now": NOW, "id": case.event_id},
            )

        assert self.sweep(paying_services, minutes=61).enqueued >= 1
        assert self.sweep(paying_services, minutes=150).enqueued == 0

        case.event_id = case.one(
            "SELECT id FROM outbox_events WHERE payload ->> 'refundId' = :id AND failed_at IS NULL"
        )
        case.run(relay)
        case.assert_sent_once(gateway)

    def test_refund_waits_until_chargeback_dispute_is_final(
        self, relay: Dispatcher, gateway: TestGateway, paying_services: Services, case: Case
    ) -> None:
        with case.database.transaction() as session:
            charge_id = row_of(session, "gateway_charges", id=case.row["charge_id"])["gateway_charge_id"]
            dispute_charge(session, charge_id)
        case.run(relay)
        assert (case.row["status"], case.row["asked_at"]) == ("pending", None)
        assert "POST /refund" not in gateway.calls(case.reference)

        self.sweep(paying_services, minutes=61)
        waiting = "SELECT count(*) FROM outbox_events WHERE payload ->> 'refundId' = :id AND done_at IS NULL"
        assert case.one(waiting) == 0

        with case.database.transaction() as session:
            dispute_charge(session, charge_id, "declined")
        work_off(relay, case.database, case.id, topic="refund.send")
        assert gateway.calls(case.reference)["POST /refund"] == 1
        assert case.row["status"] in ("submitted", "processed")

    def test_possibly_sent_refund_is_polled_and_not_resent_during_dispute(
        self,
        relay: Dispatcher,
        gateway: TestGateway,
        paying_services: Services,
        clock: MovableClock,
        case: Case,
    ) -> None:
        """A worker crashed before the call."""
        mortal = Dispatcher(
            replace(paying_services, gateway=CrashingGateway(paying_services.gateway, "before the call"))
        )
        with pytest.raises(_KilledError):
            case.run(mortal)
        with case.database.transaction() as session:
            charge_id = row_of(session, "gateway_charges", id=case.row["charge_id"])["gateway_charge_id"]
            dispute_charge(session, charge_id)
        case.change(asking_until=None)

        case.run(relay)
        assert case.row["status"] == "pending"
        self.sweep(paying_services, minutes=61)
        clock.now = later(minutes=61)
        work_off(relay, case.database, case.id, topic="refund.send")

        assert (case.row["status"], case.row["asking_until"]) == ("pending", None)
        assert "POST /refund" not in gateway.calls(case.reference)

    def test_unknown_refund_does_not_block_the_sweep(
        self, relay: Dispatcher, gateway: TestGateway, paying_services: Services, case: Case
    ) -> None:
        case.run(relay)
        self.until(
            lambda: gateway.call("GET", f"/refund/{case.row['gateway_refund_id']}")["status"] == "processed"
        )
        other = Case(paying_services, gateway)
        other.run(relay)
        # The refund that the gateway refuses is polled first.
        other.change(updated_at=NOW - timedelta(minutes=5))

        class Refusing(CrashingGateway):
            def list_refunds(self, reference: str) -> list[GatewayRefund]:
                if reference == other.reference:
                    raise ProviderRefusedError("gateway", 400, "Transaction not found")
                return super().list_refunds(reference)

        refusing: Any = Refusing(paying_services.gateway, "")
        done = poll_refunds(case.database, refusing, now=later(minutes=61))

        assert done.failed == 1
        assert case.row["status"] == "processed"
        assert other.row["status"] == "submitted"

    def test_refund_sweep_stops_while_the_gateway_is_down(
        self, relay: Dispatcher, gateway: TestGateway, paying_services: Services, case: Case
    ) -> None:
        case.run(relay)
        gateway.proxy.fault = "refuse"

        done = self.sweep(paying_services, minutes=61)

        assert (done.gateway_down, done.polled, case.row["status"]) == (True, 0, "submitted")

    def test_refund_sweep_is_a_periodic_task(self, relay: Dispatcher, paying_services: Services) -> None:
        assert isinstance(
            get_periodic_task("requery-refunds").run(paying_services, relay, NOW),
            gateway_reports.RefundPollingResult,
        )
