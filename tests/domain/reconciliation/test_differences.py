"""Differences found by reconciliation: matched, in flight, missing or different records."""

from dataclasses import replace
from datetime import timedelta

import pytest

from tests.support.purchases import assert_ledger_is_consistent
from tests.support.reconciliation import ReconciledService, service

__all__ = ["service"]

# After this time every event of the gateway counts as overdue.
LATER = timedelta(hours=3)


def test_equal_records_are_matched(service: ReconciledService) -> None:
    for _ in range(3):
        service.paid_order()
    outcome = service.reconcile()
    assert (outcome.status, outcome.drift_minor, outcome.in_flight_minor) == ("matched", 0, 0)
    assert outcome.gateway_minor == outcome.books_minor == service.gateway_balance() > 0
    assert service.difference_summaries() == []
    assert service.balances()["gateway_fees"] > 0
    figures = service.run()["figures"]
    assert (figures["movements"], figures["charges"], figures["in_flight"]) == (3, 3, 0)


def test_charge_with_pending_event_is_in_flight_not_drift(service: ReconciledService) -> None:
    service.paid_order()
    _, reference, amount = service.order()
    charge = service.gateway.charge_of_paid(reference)
    outcome = service.reconcile()
    assert (outcome.status, outcome.in_flight_minor) == ("matched", amount - charge.fees_minor)
    assert service.difference_summaries() == []
    service.apply(charge)
    assert service.reconcile().in_flight_minor == 0


def test_charge_with_overdue_event_is_missing_here(service: ReconciledService) -> None:
    order_id, reference, amount = service.order()
    charge = service.gateway.charge_of_paid(reference)
    outcome = service.reconcile(ahead=LATER)
    assert (outcome.status, outcome.drift_minor) == ("drift", amount - charge.fees_minor)
    assert service.difference_summaries() == [
        ("charge", "missing_here", "apply_charge", amount - charge.fees_minor)
    ]
    [found] = service.differences()
    assert (found["order_id"], found["reference"], found["gateway_id"]) == (order_id, reference, charge.id)
    [order] = service.rows("SELECT number FROM orders WHERE id = :id", id=order_id)
    [alert] = service.rows("SELECT facts FROM alerts WHERE identifier = 'ESCROW_DRIFT'")
    # The gateway's ten-digit id would be redacted like an account number.
    assert alert["facts"]["first"] == [
        {
            "exceptionId": str(found["id"]),
            "kind": "charge",
            "problem": "missing_here",
            "reference": reference,
            "orderNumber": order["number"],
            "differenceMinor": outcome.drift_minor,
        }
    ]


def test_unrecognized_charge_is_reported_at_once(service: ReconciledService) -> None:
    service.gateway.open("of-another-service", 500_000)
    fees = service.gateway.pay("of-another-service")["fees"]
    service.order()
    service.gateway.open("of-another-one", 300_000)
    more = 300_000 - service.gateway.pay("of-another-one")["fees"]
    outcome = service.reconcile()
    # The opening balance covers charges from before the service's first day.
    assert service.difference_summaries() == [("charge", "missing_here", "look_up_charge", more)]
    assert outcome.drift_minor == more
    assert service.balances()["own_funds"] == 500_000 - fees


def test_charge_posted_with_another_amount_is_reported(service: ReconciledService) -> None:
    order_id, reference, _ = service.order()
    charge = service.gateway.charge_of_paid(reference)
    service.apply(replace(charge, fees_minor=charge.fees_minor - 1))
    assert service.reconcile().drift_minor == -1
    assert service.difference_summaries() == [("charge", "amounts_differ", "compare_amounts", -1)]
    [found] = service.differences()
    assert (found["order_id"], found["here_status"], found["there_status"]) == (
        order_id,
        "applied",
        "success",
    )


def test_returned_charge_of_cancelled_order_is_matched(service: ReconciledService) -> None:
    order_id, reference, _ = service.order()
    service.cancel(order_id)
    service.apply(service.gateway.charge_of_paid(reference))
    assert service.rows("SELECT outcome FROM gateway_charges") == [{"outcome": "returned"}]
    outcome = service.reconcile()
    assert (outcome.status, outcome.in_flight_minor, service.difference_summaries()) == ("matched", 0, [])


def test_refund_pending_at_the_gateway_stays_in_flight(service: ReconciledService) -> None:
    order_id, charge = service.paid_order()
    service.plan("refunds", "success", delay_seconds=3600)
    service.refunded(order_id)
    for ahead in (timedelta(0), LATER, timedelta(days=20)):
        outcome = service.reconcile(ahead=ahead)
        assert (outcome.status, outcome.in_flight_minor) == ("matched", -charge.amount_minor)
        assert service.difference_summaries() == []


def test_processed_refund_without_event_is_reported_as_drift(service: ReconciledService) -> None:
    order_id, charge = service.paid_order()
    service.plan("refunds", "success")
    refund_id = service.refunded(order_id)
    service.wait_for_refund(charge.reference, "processed")
    assert service.reconcile().status == "matched"
    assert service.reconcile(ahead=LATER).drift_minor == -charge.amount_minor
    assert service.difference_summaries() == [
        ("refund", "status_differs", "ask_about_refund", -charge.amount_minor)
    ]
    [found] = service.differences()
    assert (found["refund_id"], found["order_id"]) == (refund_id, order_id)
    assert (found["here_status"], found["there_status"]) == ("submitted", "processed")
    assert service.record_refund_status(refund_id, charge.reference) == "processed"
    assert service.reconcile(ahead=LATER).status == "matched"


def test_failed_refund_without_event_is_reported_without_drift(
    service: ReconciledService,
) -> None:
    order_id, charge = service.paid_order()
    service.plan("refunds", "failed")
    service.refunded(order_id)
    service.wait_for_refund(charge.reference, "failed")
    assert (service.reconcile().status, service.difference_summaries()) == ("matched", [])
    outcome = service.reconcile(ahead=LATER)
    assert (outcome.status, outcome.drift_minor, outcome.exceptions) == ("matched", 0, 1)
    assert service.difference_summaries() == [("refund", "status_differs", "ask_about_refund", 0)]


def test_refund_made_at_the_gateway_is_reported_with_the_order(service: ReconciledService) -> None:
    order_id, charge = service.paid_order()
    service.gateway.call("POST", "/refund", json={"transaction": charge.reference, "amount": 70_000})
    assert service.reconcile().status == "drift"
    assert service.difference_summaries() == [("refund", "missing_here", "look_up_refund", -70_000)]
    assert service.differences()[0]["order_id"] == order_id


@pytest.mark.parametrize("outcome", ["failed", "reversed"])
def test_failed_or_reversed_payout_without_event_is_reported(
    service: ReconciledService, outcome: str
) -> None:
    service.paid_order()
    service.plan("transfers", outcome)
    intent_id, reference = service.payout()
    service.wait_for_payout(reference, outcome)
    assert (service.reconcile().status, service.difference_summaries()) == ("matched", [])
    assert service.reconcile(ahead=LATER).drift_minor == 0
    assert service.difference_summaries() == [("transfer", "status_differs", "ask_about_payout", 0)]
    [found] = service.differences()
    assert (found["intent_id"], found["reference"], found["there_status"]) == (intent_id, reference, outcome)


def test_successful_payout_without_event_is_in_flight_until_overdue(service: ReconciledService) -> None:
    service.paid_order()
    service.plan("transfers", "success")
    intent_id, reference = service.payout()
    service.wait_for_payout(reference, "success")
    assert service.reconcile().in_flight_minor == -200_000
    assert service.reconcile(ahead=LATER).drift_minor == -200_000
    assert service.difference_summaries() == [("transfer", "status_differs", "ask_about_payout", -200_000)]
    service.record_payout_status(intent_id, "success")
    outcome = service.reconcile(ahead=LATER)
    assert (outcome.status, outcome.in_flight_minor, service.difference_summaries()) == ("matched", 0, [])


def test_payout_reversed_after_posting_is_reported(service: ReconciledService) -> None:
    service.paid_order()
    service.plan("transfers", "reversed")
    intent_id, reference = service.payout()
    service.record_payout_status(intent_id, "success")
    service.wait_for_payout(reference, "reversed")
    assert service.reconcile().status == "matched"
    assert service.reconcile(ahead=LATER).drift_minor == 200_000
    assert service.difference_summaries() == [("transfer", "status_differs", "ask_about_payout", 200_000)]


def test_payout_unknown_to_the_gateway_is_missing_there(service: ReconciledService) -> None:
    service.paid_order()
    intent_id, _ = service.payout(arrives=False)
    assert (service.reconcile().status, service.difference_summaries()) == ("matched", [])
    assert service.reconcile(ahead=LATER).status == "matched"
    assert service.difference_summaries() == [("transfer", "missing_there", "ask_about_payout", 0)]
    # An open payout is reported at any age.
    service.reconcile(ahead=timedelta(days=6))
    assert service.difference_summaries() == [("transfer", "missing_there", "ask_about_payout", 0)]
    service.record_payout_status(intent_id, "success")
    assert service.reconcile().drift_minor == 200_000
    assert service.difference_summaries() == [("transfer", "missing_there", "look_up_payout", 200_000)]


def test_unrecognized_transfer_is_reported_at_once(service: ReconciledService) -> None:
    service.paid_order()
    service.transfer("somebody-elses-1", 120_000)
    assert service.reconcile().drift_minor == -120_000
    assert service.difference_summaries() == [("transfer", "missing_here", "look_up_transfer", -120_000)]
    assert service.differences()[0]["reference"] == "somebody-elses-1"


def test_settlements_are_posted_to_the_bank_once(service: ReconciledService) -> None:
    service.paid_order()
    service.gateway.call("POST", "/sandbox/settlements", json={"amountMinor": 150_000})
    service.gateway.call("POST", "/sandbox/settlements", json={})
    for booked in (2, 0):
        outcome = service.reconcile()
        assert (outcome.status, outcome.gateway_minor, outcome.books_minor) == ("matched", 0, 0)
        assert service.run()["figures"]["settlements_booked"] == booked
    balances = service.balances()
    assert (balances["gateway_clearing"], balances["own_funds"]) == (0, 0)
    assert balances["bank"] == sum(row["total_amount"] for row in service.gateway.call("GET", "/settlement"))
    with service.database.transaction() as session:
        assert_ledger_is_consistent(session)


def test_settlement_long_before_the_first_run_is_posted(service: ReconciledService) -> None:
    service.paid_order()
    service.gateway.call("POST", "/sandbox/settlements", json={"amountMinor": 150_000})
    assert service.reconcile(ahead=timedelta(days=200)).status == "matched"
    assert service.balances()["bank"] == 150_000


def test_gateway_top_ups_are_posted_to_own_funds_once(service: ReconciledService) -> None:
    service.gateway.fill(900_000)
    service.paid_order()
    service.gateway.fill(40_000)
    for booked in (2, 0):
        assert service.reconcile().status == "matched"
        assert service.run()["figures"]["own_funds_booked"] == booked
    assert service.balances()["own_funds"] == 940_000
    assert service.balances()["gateway_clearing"] == service.gateway_balance()


def test_posting_without_gateway_record_is_missing_there(service: ReconciledService) -> None:
    service.paid_order()
    service.post_nonexistent_money(33_000, "by-hand:1")
    assert service.reconcile().drift_minor == -33_000
    assert service.difference_summaries() == [("booking", "missing_there", "look_up_booking", -33_000)]


def test_differences_with_a_sum_of_zero_are_drift(service: ReconciledService) -> None:
    service.paid_order()
    service.transfer("somebody-elses-2", 33_000)
    service.post_nonexistent_money(-33_000, "by-hand:2")
    outcome = service.reconcile()
    assert (outcome.status, outcome.drift_minor, outcome.exceptions) == ("drift", 0, 2)


def test_charge_older_than_the_listed_period_is_in_flight(service: ReconciledService) -> None:
    """A hosted page may be paid days after opening, so the charge may predate the listed period."""
    _, reference, amount = service.order()
    charge = service.gateway.charge_of_paid(reference)
    service.empty_record_lists()
    outcome = service.reconcile()
    assert (outcome.status, outcome.in_flight_minor) == ("matched", amount - charge.fees_minor)
    assert service.run()["figures"]["charges"] == 0


def test_chargeback_at_the_gateway_is_matched_with_the_dispute(service: ReconciledService) -> None:
    order_id, charge = service.paid_order()
    service.charge_back_at_bank(charge, dispute_id="77123", minor=60_000)
    # The dispute event has not arrived yet.
    assert (service.reconcile().status, service.difference_summaries()) == ("matched", [])
    assert service.reconcile(ahead=LATER).drift_minor == -60_000
    assert service.difference_summaries() == [("refund", "missing_here", "look_up_refund", -60_000)]
    # The chargeback is posted when the dispute is final. A posting missing days later is a difference.
    service.record_open_dispute(charge, dispute_id="77123")
    outcome = service.reconcile(ahead=timedelta(days=9))
    assert (outcome.status, outcome.in_flight_minor) == ("matched", -60_000)
    service.resolve_dispute()
    assert service.reconcile(ahead=timedelta(days=2)).status == "matched"
    assert service.reconcile(ahead=timedelta(days=9)).drift_minor == -60_000
    assert service.difference_summaries() == [("dispute", "missing_here", "compare_amounts", -60_000)]
    service.post_chargeback(60_000, order_id)
    assert service.reconcile().in_flight_minor == 0
