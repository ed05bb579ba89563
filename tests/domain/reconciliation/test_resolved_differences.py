"""Resolved differences: the next reconciliation does not find a resolved difference again."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from marketplace.kernel.errors import SecondApproverRequiredError
from marketplace.ledger import accounts
from marketplace.providers.gateway.records import GatewayRecord, RecordKind
from marketplace.reconciliation import ledger_check
from marketplace.reconciliation.resolution import ResolutionNotAllowedError
from tests.support.finance import make_officer
from tests.support.reconciliation import ReconciledService, RecordsWithEmptyLists, RecordsWrapper, service
from tests.support.reconciliation_resolution import resolve

__all__ = ["service"]

LATER = timedelta(hours=3)
OUT_OF_GATEWAY = "the gateway's outflow for each payout is its amount, if successful, plus the gateway's fee"
BY_TWO = "every accepted difference above the single-approver limit has two approvers"
PAID_MINOR, FEE_MINOR = 200_000, 1_000


class RecordsWithoutLookup(RecordsWithEmptyLists):
    """Gateway records without any record that can be fetched by id."""

    def fetch_record(self, kind: RecordKind, gateway_id: str) -> GatewayRecord | None:
        """Return no record."""
        return None


class RecordsWithoutTransfers(RecordsWrapper):
    """Gateway records without transfers; the transferred amounts are back in the balance."""

    def list_records(
        self, kind: RecordKind, *, since: datetime, until: datetime
    ) -> Iterator[list[GatewayRecord]]:
        """List the records of a kind, without transfers."""
        return iter(()) if kind == "transfer" else super().list_records(kind, since=since, until=until)

    def fetch_record(self, kind: RecordKind, gateway_id: str) -> GatewayRecord | None:
        """Return a record by id unless the record is a transfer."""
        return None if kind == "transfer" else super().fetch_record(kind, gateway_id)


def make_unrecognized_charge(service: ReconciledService) -> int:
    """Make an unrecognized charge and return the gateway's fee."""
    service.paid_order()
    service.gateway.open("of-nobody-here", 333_300)
    fee: int = service.gateway.pay("of-nobody-here")["fees"]
    return fee


def refund_unrecognized_charge(service: ReconciledService, minor: int) -> None:
    service.gateway.call("POST", "/refund", json={"transaction": "of-nobody-here", "amount": minor})


def test_refunded_unrecognized_charge_is_a_single_difference_and_a_cost(
    service: ReconciledService,
) -> None:
    fee = make_unrecognized_charge(service)
    service.reconcile()
    assert service.difference_summaries() == [("charge", "missing_here", "look_up_charge", 333_300 - fee)]

    refund_unrecognized_charge(service, 333_300)
    assert service.reconcile().drift_minor == -fee
    assert service.difference_summaries() == [("charge", "missing_here", "bear_refunded_charge", -fee)]
    [found] = service.differences()
    assert found["reference"] == "of-nobody-here"

    costs = service.balances()["gateway_fees"]
    assert resolve(service, "gateway_cost")["bookedMinor"] == -fee
    assert service.balances()["gateway_fees"] == costs + fee
    assert (service.reconcile().status, service.difference_summaries()) == ("matched", [])
    # Listed records are stored, because the lists of later runs do not reach so far back.
    service.records = RecordsWithoutLookup(service.services.gateway_records)
    assert (service.reconcile().status, service.difference_summaries()) == ("matched", [])


def test_partially_refunded_unrecognized_charge_is_reported_with_the_rest(service: ReconciledService) -> None:
    fee = make_unrecognized_charge(service)
    refund_unrecognized_charge(service, 300_000)

    service.reconcile()

    assert service.difference_summaries() == [("charge", "missing_here", "look_up_charge", 33_300 - fee)]


def test_fee_resolved_as_gateway_cost_is_not_reported_again(service: ReconciledService) -> None:
    _, reference, _ = service.order()
    charge = service.gateway.charge_of_paid(reference)
    service.apply(replace(charge, fees_minor=charge.fees_minor - 700))
    service.reconcile()
    assert service.difference_summaries() == [("charge", "amounts_differ", "compare_amounts", -700)]

    resolve(service, "gateway_cost")

    outcome = service.reconcile()
    assert (outcome.status, outcome.exceptions, service.difference_summaries()) == ("matched", 0, [])


@pytest.mark.parametrize("fee_minor", [0, FEE_MINOR])
def test_payout_deleted_at_the_gateway_is_returned_by_two_officers(
    service: ReconciledService, fee_minor: int
) -> None:
    service.paid_order()
    service.plan("transfers", "reversed")
    intent_id, reference = service.payout(amount_minor=PAID_MINOR)
    service.wait_for_payout(reference, "reversed")
    service.record_payout_status(intent_id, "success", amount_minor=PAID_MINOR)
    service.keep_fee(intent_id, fee_minor)
    service.reconcile()
    service.records = RecordsWithoutTransfers(service.services.gateway_records)
    missing = PAID_MINOR + fee_minor
    assert service.reconcile().drift_minor == missing
    assert service.difference_summaries() == [("transfer", "missing_there", "look_up_payout", missing)]

    # The gateway has deleted the transfer, so another poll would change nothing.
    with pytest.raises(ResolutionNotAllowedError, match=r"`ask` does not apply .* came_back\."):
        resolve(service, "ask")
    assert resolve(service, "came_back")["state"] == "proposed"
    with pytest.raises(SecondApproverRequiredError):
        resolve(service, "came_back")
    with service.database.transaction() as session:
        second = make_officer(session)
    done = resolve(service, "came_back", officer=second)

    assert (done["state"], done["bookedMinor"]) == ("resolved", missing)
    [payout] = service.rows("SELECT * FROM payout_transfer_intents WHERE id = :id", id=intent_id)
    assert payout["status"] == "reversed"
    payable = accounts.vendor_payable(payout["vendor_id"])
    [balance] = service.rows("SELECT balance_minor FROM ledger_accounts WHERE id = :id", id=payable.id)
    assert balance["balance_minor"] == PAID_MINOR
    [notice] = service.rows("SELECT type FROM notifications WHERE user_id = :id", id=payout["user_id"])
    assert notice["type"] == "payout_failed"
    assert (service.reconcile().status, service.difference_summaries()) == ("matched", [])
    with service.database.reading() as session:
        broken = {one.rule for one in ledger_check.verify_ledger(session)}
    assert not broken & {OUT_OF_GATEWAY, BY_TWO}


def test_already_reversed_payout_cannot_be_resolved_as_returned(service: ReconciledService) -> None:
    service.paid_order()
    intent_id, _ = service.payout(arrives=False)
    service.record_payout_status(intent_id, "success")
    service.reconcile()
    service.rows(
        "UPDATE payout_transfer_intents SET status = 'reversed' WHERE id = :id RETURNING id", id=intent_id
    )

    assert resolve(service, "came_back")["state"] == "proposed"
    with service.database.transaction() as session:
        second = make_officer(session)
    with pytest.raises(ResolutionNotAllowedError, match="its status is reversed"):
        resolve(service, "came_back", officer=second)
