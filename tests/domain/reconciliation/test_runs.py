"""Reconciliation runs: exclusive, restarted after a crash, and halting payouts on drift."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import text

from marketplace.audit.operations import Act
from marketplace.kernel.errors import (
    ProviderUnavailableError,
    ValidationError,
)
from marketplace.platform.halts import are_payouts_halted
from marketplace.providers.gateway.records import BalanceMovement, GatewayRecord, GatewayRecords, RecordKind
from marketplace.reconciliation import ledger_check, run
from marketplace.reconciliation.run import (
    EARLIEST,
    ReconciliationLeasedError,
    ReconciliationRunningError,
    ReconciliationStuckError,
)
from tasks.all_tasks import get_periodic_task
from tasks.dispatcher import Dispatcher
from tests.support.depth import sample
from tests.support.purchases import assert_ledger_is_consistent
from tests.support.reconciliation import ReconciledService, RecordsWrapper, service
from tests.support.reconciliation_resolution import resolve

__all__ = ["service"]

FIRST_OF_ALL = datetime(1, 1, 1, tzinfo=UTC)


class _KilledError(BaseException):
    """Simulate a killed worker: no handler catches this exception."""


class KilledAfterPages(RecordsWrapper):
    """Gateway records in a process that dies after a number of pages."""

    def __init__(self, records: GatewayRecords, pages: int) -> None:
        super().__init__(records)
        self._left = pages

    def _counted(self, pages: Iterator[Any]) -> Iterator[Any]:
        for page in pages:
            if not self._left:
                raise _KilledError
            self._left -= 1
            yield page

    def list_movements(self) -> Iterator[list[BalanceMovement]]:
        return self._counted(super().list_movements())

    def list_records(
        self, kind: RecordKind, *, since: datetime, until: datetime
    ) -> Iterator[list[GatewayRecord]]:
        return self._counted(super().list_records(kind, since=since, until=until))


class RecordsDuringPayments(RecordsWrapper):
    """Gateway records with a payment during each list call."""

    def __init__(self, records: GatewayRecords, pay: Callable[[], None]) -> None:
        super().__init__(records)
        self._pay = pay

    def list_records(
        self, kind: RecordKind, *, since: datetime, until: datetime
    ) -> Iterator[list[GatewayRecord]]:
        self._pay()
        return super().list_records(kind, since=since, until=until)


class FailingRecords(RecordsWrapper):
    """Gateway records that raise an unexpected error."""

    def fetch_balance(self) -> int:
        raise OverflowError("date value out of range")


class MiscountingRecords(RecordsWrapper):
    """Gateway records with a balance that differs from the sum of movements."""

    def fetch_balance(self) -> int:
        return super().fetch_balance() + 7


def start(service: ReconciledService, *, now: datetime | None = None, **values: Any) -> UUID:
    with service.database.transaction() as session:
        return run.start_reconciliation(
            session, started_by=run.OPERATOR, act=Act("operator", now or datetime.now(UTC)), **values
        )


def perform(service: ReconciledService, run_id: UUID, *, ahead: timedelta = timedelta(0)) -> Any:
    now = datetime.now(UTC) + ahead
    return run.perform_reconciliation(
        service.database, service.records, run_id=run_id, now=now, clock=lambda: now
    )


def halted(service: ReconciledService) -> bool:
    with service.database.reading() as session:
        return are_payouts_halted(session)


def drifts(service: ReconciledService) -> list[tuple[str, bool]]:
    rows = service.rows(
        "SELECT subject, resolved_at FROM alerts WHERE identifier = 'ESCROW_DRIFT' ORDER BY id"
    )
    return [(row["subject"], row["resolved_at"] is not None) for row in rows]


def test_drift_raises_an_alert_and_halts_payouts_until_resumed(service: ReconciledService) -> None:
    service.paid_order()
    assert service.reconcile().status == "matched"
    assert (halted(service), drifts(service)) == (False, [])
    service.post_nonexistent_money(1, "by-hand:1")
    assert service.reconcile().drift_minor == -1
    assert (halted(service), len(drifts(service))) == (True, 1)
    assert drifts(service)[0][1] is False
    # Valid ledger invariants do not resolve a drift from the gateway's balance.
    ledger_check.check_ledger(service.database, now=datetime.now(UTC))
    assert drifts(service)[0][1] is False
    service.reconcile()
    resolve(service, "own_funds")
    assert service.reconcile().status == "matched"
    assert (halted(service), drifts(service)[0][1]) == (True, True)


def test_second_reconciliation_is_refused_until_the_first_counts_as_lost(service: ReconciledService) -> None:
    first = start(service)
    with pytest.raises(ReconciliationRunningError, match=str(first)):
        start(service)
    later = datetime.now(UTC) + timedelta(minutes=31)
    assert start(service, now=later) != first
    [lost] = service.rows("SELECT status, failure FROM reconciliations WHERE id = :id", id=first)
    assert lost == {"status": "failed", "failure": "The worker of this run was lost."}
    assert perform(service, first) is None


def test_leased_run_is_refused_to_another_worker(service: ReconciledService) -> None:
    service.paid_order()
    run_id = start(service)
    service.records = KilledAfterPages(service.services.gateway_records, 1)
    with pytest.raises(_KilledError):
        perform(service, run_id)
    service.records = service.services.gateway_records
    with pytest.raises(ReconciliationLeasedError):
        perform(service, run_id)
    assert perform(service, run_id, ahead=timedelta(minutes=6)).status == "matched"
    assert perform(service, run_id, ahead=timedelta(minutes=6)) is None


@pytest.mark.parametrize("pages", sample(range(7), every=3))
def test_run_of_killed_worker_restarts_from_the_beginning(service: ReconciledService, pages: int) -> None:
    """The gateway has three pages of movements and up to two pages of each list."""
    service.paid_order()
    for _ in range(210):
        service.gateway.fill(100)
    service.gateway.call("POST", "/sandbox/settlements", json={"amountMinor": 1_000})
    run_id = start(service)
    service.records = KilledAfterPages(service.services.gateway_records, pages)
    with pytest.raises(_KilledError):
        perform(service, run_id)
    service.records = service.services.gateway_records
    outcome = perform(service, run_id, ahead=timedelta(minutes=6))
    assert (outcome.status, outcome.in_flight_minor) == ("matched", 0)
    assert (service.balances()["own_funds"], service.balances()["bank"]) == (21_000, 1_000)
    assert service.balances()["gateway_clearing"] == service.gateway_balance()
    assert service.rows("SELECT * FROM reconciliation_records") == []
    assert service.rows("SELECT * FROM reconciliation_differences") == []
    with service.database.transaction() as session:
        assert_ledger_is_consistent(session)


def test_next_run_reads_only_new_movements(service: ReconciledService) -> None:
    service.order()
    for _ in range(230):
        service.gateway.fill(100)
    service.reconcile()
    assert service.run()["figures"]["movements"] == 230
    service.gateway.proxy.calls.clear()
    service.gateway.fill(100)
    service.reconcile()
    assert service.run()["figures"]["movements"] == 1
    assert len([call for call in service.gateway.proxy.calls if "/balance/ledger" in call]) == 1


def test_charges_during_a_run_are_no_drift(service: ReconciledService) -> None:
    """Charges are posted before, during and after the comparison with the ledger."""
    for _ in range(2):
        service.paid_order()
    waiting = [service.order() for _ in range(4)]

    def pay() -> None:
        service.apply(service.gateway.charge_of_paid(waiting.pop()[1]))

    service.records = RecordsDuringPayments(service.services.gateway_records, pay)
    outcome = service.reconcile()
    assert waiting == []
    assert (outcome.status, service.difference_summaries()) == ("matched", [])
    service.records = service.services.gateway_records
    assert service.reconcile().in_flight_minor == 0


def test_unavailable_gateway_fails_the_run(service: ReconciledService) -> None:
    service.paid_order()
    service.gateway.proxy.fault = "refuse"
    run_id = start(service)
    assert perform(service, run_id).status == "failed"
    [row] = service.rows("SELECT status, failure, finished_at FROM reconciliations")
    assert row["status"] == "failed"
    assert row["failure"].startswith("The payment gateway")
    assert (halted(service), drifts(service)) == (False, [])
    with pytest.raises(ProviderUnavailableError):
        get_periodic_task("reconcile-escrow").run(
            service.services, Dispatcher(service.services), datetime.now(UTC)
        )
    service.gateway.proxy.fault = None
    assert service.reconcile().status == "matched"


def test_unexpected_error_fails_the_run_and_is_raised(service: ReconciledService) -> None:
    service.paid_order()
    service.records = FailingRecords(service.services.gateway_records)
    run_id = start(service)
    with pytest.raises(OverflowError):
        perform(service, run_id)
    [row] = service.rows("SELECT status, failure, finished_at FROM reconciliations")
    assert (row["status"], row["failure"]) == ("failed", "Unexpected error: OverflowError.")
    assert row["finished_at"] is not None
    # A second delivery of the failed run does nothing, and the next run is not blocked.
    assert perform(service, run_id) is None
    service.records = service.services.gateway_records
    assert service.reconcile().status == "matched"


def test_scheduled_run_fails_when_another_is_stuck_for_an_hour(service: ReconciledService) -> None:
    run_id = start(service)
    now = datetime.now(UTC) + timedelta(minutes=61)
    # Each worker dies in turn, so the run is always leased and never finishes.
    with service.database.transaction() as session:
        session.execute(text("UPDATE reconciliations SET claimed_until = :now"), {"now": now})
    with pytest.raises(ReconciliationStuckError, match=str(run_id)):
        get_periodic_task("reconcile-escrow").run(service.services, Dispatcher(service.services), now)


def test_scheduled_run_is_skipped_while_another_is_running(service: ReconciledService) -> None:
    service.paid_order()
    relay = Dispatcher(service.services)
    outcome = get_periodic_task("reconcile-escrow").run(service.services, relay, datetime.now(UTC))
    assert outcome.status == "matched"
    start(service)
    outcome = get_periodic_task("reconcile-escrow").run(service.services, relay, datetime.now(UTC))
    assert outcome == "another reconciliation is running"
    assert [
        row["started_by"] for row in service.rows("SELECT started_by FROM reconciliations ORDER BY id")
    ] == [
        "schedule",
        "operator",
    ]


def test_gateway_balance_unequal_to_movements_is_reported(service: ReconciledService) -> None:
    service.paid_order()
    service.records = MiscountingRecords(service.services.gateway_records)
    outcome = service.reconcile()
    assert outcome.gateway_minor == service.gateway_balance() + 7
    assert service.difference_summaries() == [("balance", "amounts_differ", "look_up_balance", 7)]


def test_reversed_future_or_too_long_window_is_refused(service: ReconciledService) -> None:
    now = datetime.now(UTC)
    for since, until, name in (
        (now, now - timedelta(days=1), "from"),
        (None, now + timedelta(days=1), "to"),
        (now - timedelta(days=400), None, "from"),
        (FIRST_OF_ALL, FIRST_OF_ALL + timedelta(days=4), "from"),
        (None, FIRST_OF_ALL, "to"),
        (EARLIEST - timedelta(seconds=1), None, "from"),
    ):
        with pytest.raises(ValidationError) as refused:
            start(service, now=now, since=since, until=until)
        assert [param.name for param in refused.value.invalid_params] == [name]
    assert service.reconcile(since=EARLIEST, until=EARLIEST + timedelta(days=1)).status == "matched"
    assert service.reconcile(until=EARLIEST).status == "matched"
    service.reconcile(since=now - timedelta(days=300), until=now)
    assert (service.run()["starts"], service.run()["ends"]) == (now - timedelta(days=300), now)


def test_window_starts_at_the_last_matched_run(service: ReconciledService) -> None:
    service.reconcile()
    agreed = service.run()["ends"]
    service.reconcile(ahead=timedelta(days=5))
    assert service.run()["starts"] == agreed
    service.post_nonexistent_money(5, "by-hand:3")
    for days in (9, 99):
        service.reconcile(ahead=timedelta(days=days))
        assert service.run()["status"] == "drift"
    assert service.run()["starts"] == service.run()["ends"] - timedelta(days=31)
