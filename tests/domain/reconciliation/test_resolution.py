"""Resolution of reconciliation differences by officers: permissions, approvals and postings."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from uuid import uuid4

import pytest
from sqlalchemy import text

from marketplace.identity.queries import Caller
from marketplace.kernel.errors import (
    ConflictError,
    ForbiddenError,
    NotFoundError,
    SecondApproverRequiredError,
)
from marketplace.reconciliation import ledger_check
from marketplace.reconciliation.resolution import (
    DifferenceAlreadyResolvedError,
    InsufficientOwnFundsError,
    ResolutionNotAllowedError,
    SupersededRunError,
)
from sandbox.process import wait_until
from tests.support.finance import make_officer
from tests.support.purchases import assert_ledger_is_consistent
from tests.support.reconciliation import ReconciledService, service
from tests.support.reconciliation_resolution import NOTE, resolve, resolve_in

__all__ = ["service"]

LATER = timedelta(hours=3)


def second_officer(service: ReconciledService) -> Caller:
    with service.database.transaction() as session:
        return make_officer(session)


def test_resolved_difference_is_posted_and_not_reported_again(
    service: ReconciledService,
) -> None:
    service.paid_order()
    service.gateway.fill(100_000)
    service.transfer("somebody-elses-3", 100_000)
    assert service.reconcile().status == "drift"
    assert resolve(service, "own_funds")["bookedMinor"] == -100_000
    assert service.balances()["own_funds"] == 0
    with pytest.raises(DifferenceAlreadyResolvedError):
        resolve(service, "own_funds")
    [audited] = service.rows("SELECT * FROM audit_logs WHERE action = 'reconciliation.resolve'")
    assert (audited["actor_id"], audited["after"]["note"]) == (service.officer.id, NOTE)
    outcome = service.reconcile()
    assert (outcome.status, outcome.drift_minor, service.difference_summaries()) == ("matched", 0, [])
    with service.database.transaction() as session:
        assert_ledger_is_consistent(session)


def test_write_off_above_own_funds_is_refused(service: ReconciledService) -> None:
    service.paid_order()
    service.gateway.fill(49_999)
    service.transfer("somebody-elses-7", 50_000)
    service.reconcile()
    with pytest.raises(InsufficientOwnFundsError, match=r"NGN 499\.99"):
        resolve(service, "own_funds")
    assert service.balances()["own_funds"] == 49_999
    assert service.reconcile().status == "drift"
    # The company bears the loss: a top-up covers the missing amount.
    service.gateway.fill(1)
    service.reconcile()
    assert resolve(service, "own_funds")["state"] == "resolved"
    assert (service.balances()["own_funds"], service.reconcile().status) == (0, "matched")


def test_opening_deficit_does_not_block_a_write_off(
    service: ReconciledService,
) -> None:
    service.paid_order()
    service.transfer("somebody-elses-8", 50_000)
    service.reconcile()
    with service.database.transaction() as session:
        session.execute(text("UPDATE gateway_movements SET difference_minor = -50000 WHERE id = 0"))
    assert resolve(service, "own_funds")["bookedMinor"] == -50_000


def test_write_off_above_the_limit_needs_two_officers(service: ReconciledService) -> None:
    service.paid_order()
    service.gateway.fill(200_000)
    service.transfer("somebody-elses-9", 100_001)
    service.reconcile()
    assert resolve(service, "own_funds") == {
        "exceptionId": service.differences()[0]["id"],
        "state": "proposed",
        "resolution": "own_funds",
        "bookedMinor": 0,
    }
    with pytest.raises(SecondApproverRequiredError):
        resolve(service, "own_funds")
    assert service.balances()["own_funds"] == 200_000
    # The next run finds the same difference and keeps the proposal.
    assert service.reconcile().status == "drift"
    with pytest.raises(SecondApproverRequiredError):
        resolve(service, "own_funds")
    second = second_officer(service)
    assert resolve(service, "own_funds", officer=second)["bookedMinor"] == -100_001
    [found] = service.differences()
    assert (found["proposed_by"], found["resolved_by"]) == (service.officer.id, second.id)
    audited = service.rows("SELECT action, actor_id FROM audit_logs WHERE action LIKE 'reconciliation.%'")
    assert {(row["action"], row["actor_id"]) for row in audited} == {
        ("reconciliation.propose", service.officer.id),
        ("reconciliation.resolve", second.id),
    }
    assert (service.balances()["own_funds"], service.reconcile().status) == (99_999, "matched")


def test_surplus_above_the_limit_needs_two_officers(service: ReconciledService) -> None:
    service.paid_order()
    service.post_nonexistent_money(-100_001, "by-hand:7")
    service.reconcile()
    own = service.balances()["own_funds"]
    assert resolve(service, "own_funds")["state"] == "proposed"
    with pytest.raises(SecondApproverRequiredError):
        resolve(service, "own_funds")
    assert (service.balances()["own_funds"], service.reconcile().status) == (own, "drift")
    done = resolve(service, "own_funds", officer=second_officer(service))
    assert (done["state"], done["bookedMinor"]) == ("resolved", 100_001)
    assert (service.balances()["own_funds"], service.reconcile().status) == (own + 100_001, "matched")


def test_surplus_at_the_limit_needs_a_single_officer(service: ReconciledService) -> None:
    service.paid_order()
    service.post_nonexistent_money(-100_000, "by-hand:8")
    service.reconcile()
    assert resolve(service, "own_funds")["bookedMinor"] == 100_000


def test_changed_amount_discards_the_proposal(service: ReconciledService) -> None:
    service.paid_order()
    service.gateway.fill(500_000)
    service.post_nonexistent_money(-150_000, "by-hand:5")
    service.post_nonexistent_money(300_000, "by-hand:6")
    service.reconcile()
    [large] = [one["id"] for one in service.differences() if one["there_minor"] < one["here_minor"]]
    assert resolve(service, "own_funds", exception_id=large)["state"] == "proposed"
    with service.database.transaction() as session:
        session.execute(text("UPDATE reconciliation_exceptions SET here_minor = here_minor - 1"))
    service.reconcile()
    assert [one["proposed_by"] for one in service.differences()] == [None, None]


def test_small_write_offs_above_the_limit_in_total_need_two_officers(service: ReconciledService) -> None:
    service.paid_order()
    service.gateway.fill(500_000)
    for number in range(2):
        service.transfer(f"somebody-elses-of-many-{number}", 60_000)
    service.reconcile()
    states = [resolve(service, "own_funds", exception_id=one["id"])["state"] for one in service.differences()]
    assert states == ["resolved", "proposed"]


def test_surplus_does_not_offset_a_write_off_in_the_limit(service: ReconciledService) -> None:
    service.paid_order()
    service.gateway.fill(500_000)
    service.transfer("somebody-elses-beside-a-surplus", 60_000)
    service.post_nonexistent_money(-60_000, "by-hand:9")
    assert (service.reconcile().drift_minor, len(service.differences())) == (0, 2)
    states = [resolve(service, "own_funds", exception_id=one["id"])["state"] for one in service.differences()]
    assert states == ["resolved", "proposed"]


def test_concurrent_resolutions_count_together_towards_the_limit(service: ReconciledService) -> None:
    service.paid_order()
    for number in range(2):
        service.post_nonexistent_money(-60_000, f"by-hand-at-once:{number}")
    service.reconcile()
    first, second = (one["id"] for one in service.differences())
    waits = "SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    with ThreadPoolExecutor(1) as pool:
        with service.database.transaction() as session:
            assert resolve_in(session, service, "own_funds", exception_id=first)["state"] == "resolved"
            other = pool.submit(resolve, service, "own_funds", exception_id=second)
            assert wait_until(lambda: other.done() or bool(service.rows(waits)), timeout_seconds=20)
        assert other.result(timeout=20)["state"] == "proposed"


def test_gateway_charge_is_posted_as_gateway_fees(service: ReconciledService) -> None:
    service.paid_order()
    fees = service.balances()["gateway_fees"]
    service.transfer("a-charge-of-the-gateway", 5_000)
    service.reconcile()
    resolve(service, "gateway_cost")
    assert service.balances()["gateway_fees"] == fees + 5_000
    assert service.reconcile().status == "matched"


def test_amount_above_the_limit_cannot_be_a_gateway_cost(service: ReconciledService) -> None:
    service.paid_order()
    service.transfer("a-charge-of-nobody", 100_001)
    service.reconcile()
    with pytest.raises(ResolutionNotAllowedError, match="Use one of: own_funds"):
        resolve(service, "gateway_cost")


def test_officer_cannot_resolve_own_payout(service: ReconciledService) -> None:
    service.paid_order()
    service.plan("transfers", "success")
    intent_id, reference = service.payout()
    service.wait_for_payout(reference, "success")
    service.reconcile(ahead=LATER)
    [payee] = service.rows("SELECT user_id FROM payout_transfer_intents WHERE id = :id", id=intent_id)
    with pytest.raises(ForbiddenError, match="your own payout"):
        resolve(service, "ask", officer=service.caller(payee["user_id"]))
    assert resolve(service, "ask")["state"] == "resolved"


def test_charge_without_event_is_polled_and_applied(service: ReconciledService) -> None:
    order_id, reference, _ = service.order()
    service.gateway.pay(reference)
    service.reconcile(ahead=LATER)
    with pytest.raises(ResolutionNotAllowedError):
        resolve(service, "own_funds")
    resolve(service, "ask")
    service.process_outbox()
    assert service.rows("SELECT status FROM orders WHERE id = :id", id=order_id) == [
        {"status": "paid_escrow"}
    ]
    outcome = service.reconcile(ahead=LATER)
    assert (outcome.status, outcome.in_flight_minor) == ("matched", 0)


def test_refund_without_event_is_polled(service: ReconciledService) -> None:
    order_id, charge = service.paid_order()
    service.plan("refunds", "success")
    service.refunded(order_id)
    service.wait_for_refund(charge.reference, "processed")
    service.reconcile(ahead=LATER)
    resolve(service, "ask")
    service.process_outbox()
    assert service.rows("SELECT status FROM refunds") == [{"status": "processed"}]
    assert service.reconcile(ahead=LATER).status == "matched"


def test_superseded_run_unknown_difference_or_own_order_is_refused(service: ReconciledService) -> None:
    _, charge = service.paid_order()
    service.gateway.call("POST", "/refund", json={"transaction": charge.reference, "amount": 70_000})
    service.reconcile()
    earlier = (service.run_id, service.differences()[0]["id"])
    service.reconcile()
    [order] = service.rows("SELECT buyer_id FROM orders")
    with pytest.raises(SupersededRunError):
        resolve(service, "own_funds", run_id=earlier[0], exception_id=earlier[1])
    with pytest.raises(NotFoundError):
        resolve(service, "own_funds", exception_id=uuid4())
    with pytest.raises(NotFoundError):
        resolve(service, "own_funds", run_id=earlier[0])
    with pytest.raises(ForbiddenError):
        resolve(service, "own_funds", officer=service.caller(order["buyer_id"]))
    with pytest.raises(ConflictError):
        resolve(service, "ask")
    assert service.balances()["own_funds"] == 0


TWO_OFFICERS = "every accepted difference above the single-approver limit has two approvers"
DAMAGE = {
    "every opening or top-up posting equals its movement at the gateway": (
        "UPDATE gateway_movements SET difference_minor = difference_minor + 1 WHERE model = 'Topup'"
    ),
    "every accepted difference is an officer's decision and is posted once": (
        "UPDATE reconciliation_exceptions SET resolution = 'ask'"
    ),
    TWO_OFFICERS: "UPDATE reconciliation_exceptions SET proposed_by = resolved_by",
}


@pytest.mark.parametrize("rule", DAMAGE)
def test_damaged_resolution_violates_the_matching_invariant(service: ReconciledService, rule: str) -> None:
    service.paid_order()
    service.gateway.fill(120_000)
    service.transfer("somebody-elses-6", 120_000)
    service.reconcile()
    resolve(service, "own_funds")
    resolve(service, "own_funds", officer=second_officer(service))
    with service.database.transaction() as session:
        assert_ledger_is_consistent(session)
        assert ledger_check.verify_ledger(session) == []
        session.execute(text(DAMAGE[rule]))
        assert [violation.rule for violation in ledger_check.verify_ledger(session)] == [rule]


def test_every_reconciliation_invariant_has_a_damage_case() -> None:
    assert set(DAMAGE) == set(ledger_check._RECONCILIATION_INVARIANTS)
