"""What officers do about what a reconciliation found: what they may, and what is booked of it."""

from datetime import timedelta
from uuid import uuid4

import pytest
from sqlalchemy import text

from marketplace.kernel.errors import ConflictError, ForbiddenError, NotFoundError
from marketplace.payouts import books, reconciliation_books
from marketplace.payouts.reconciliation_desk import AlreadyResolvedError, OutdatedError, UnfittingError
from tests.support.purchases import assert_books_are_whole
from tests.support.reconciling import Service, service
from tests.support.resolving import NOTE, resolve

__all__ = ["service"]

LATER = timedelta(hours=3)


def test_a_difference_that_an_officer_explained_is_booked_and_told_no_more(service: Service) -> None:
    service.paid_order()
    service.transfer("somebody-elses-3", 120_000)
    assert service.reconcile().status == "drift"
    assert resolve(service, "own_funds")["bookedMinor"] == -120_000
    assert service.balances()["own_funds"] == -120_000
    with pytest.raises(AlreadyResolvedError):
        resolve(service, "own_funds")
    [audited] = service.rows("SELECT * FROM audit_logs WHERE action = 'reconciliation.resolve'")
    assert (audited["actor_id"], audited["after"]["note"]) == (service.officer.id, NOTE)
    outcome = service.reconcile()
    assert (outcome.status, outcome.drift_minor, service.told()) == ("matched", 0, [])
    with service.database.transaction() as session:
        assert_books_are_whole(session)


def test_what_the_gateway_charged_is_a_cost(service: Service) -> None:
    service.paid_order()
    fees = service.balances()["gateway_fees"]
    service.transfer("a-charge-of-the-gateway", 5_000)
    service.reconcile()
    resolve(service, "gateway_cost")
    assert service.balances()["gateway_fees"] == fees + 5_000
    assert service.reconcile().status == "matched"


def test_a_charge_whose_event_never_came_is_asked_about_and_applied(service: Service) -> None:
    order_id, reference, _ = service.order()
    service.gateway.pay(reference)
    service.reconcile(ahead=LATER)
    with pytest.raises(UnfittingError):
        resolve(service, "own_funds")
    resolve(service, "ask")
    service.work_off_outbox()
    assert service.rows("SELECT status FROM orders WHERE id = :id", id=order_id) == [
        {"status": "paid_escrow"}
    ]
    outcome = service.reconcile(ahead=LATER)
    assert (outcome.status, outcome.in_flight_minor) == ("matched", 0)


def test_a_refund_whose_event_never_came_is_asked_about(service: Service) -> None:
    order_id, charge = service.paid_order()
    service.plan("refunds", "success")
    service.refunded(order_id)
    service.wait_for_refund(charge.reference, "processed")
    service.reconcile(ahead=LATER)
    resolve(service, "ask")
    service.work_off_outbox()
    assert service.rows("SELECT status FROM refunds") == [{"status": "processed"}]
    assert service.reconcile(ahead=LATER).status == "matched"


def test_only_what_the_latest_run_found_is_resolved_by_who_is_no_party(service: Service) -> None:
    _, charge = service.paid_order()
    service.gateway.call("POST", "/refund", json={"transaction": charge.reference, "amount": 70_000})
    service.reconcile()
    earlier = (service.run_id, service.found()[0]["id"])
    service.reconcile()
    [order] = service.rows("SELECT buyer_id FROM orders")
    with pytest.raises(OutdatedError):
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


DAMAGE = {
    "own money at the gateway is booked as the gateway moved it": (
        "UPDATE gateway_movements SET difference_minor = difference_minor + 1 WHERE model = 'Topup'"
    ),
    "each difference to the gateway that was accepted is an officer's decision, booked once": (
        "UPDATE reconciliation_exceptions SET resolution = 'ask'"
    ),
}


@pytest.mark.parametrize("rule", DAMAGE)
def test_what_it_booked_is_held_to_the_rules_of_the_books(service: Service, rule: str) -> None:
    service.paid_order()
    service.gateway.fill(1_000)
    service.transfer("somebody-elses-6", 120_000)
    service.reconcile()
    resolve(service, "own_funds")
    with service.database.transaction() as session:
        assert_books_are_whole(session)
        assert books.verify(session) == []
        session.execute(text(DAMAGE[rule]))
        assert [violation.rule for violation in books.verify(session)] == [rule]


def test_every_rule_is_broken_here_once() -> None:
    assert set(DAMAGE) == set(reconciliation_books._CHECKS)
