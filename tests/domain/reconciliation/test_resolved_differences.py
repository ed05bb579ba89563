"""That what a reconciliation suggests does mend what it found: the next one finds it no more."""

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
from tests.support.reconciliation import Double, Forgetful, ReconciledService, service
from tests.support.reconciliation_resolution import resolve

__all__ = ["service"]

LATER = timedelta(hours=3)
OUT_OF_GATEWAY = "the gateway's outflow for each payout is its amount, if successful, plus the gateway's fee"
BY_TWO = "every accepted difference above the single-approver limit has two approvers"
PAID_MINOR, FEE_MINOR = 200_000, 1_000


class Unaware(Forgetful):
    """Knows nothing of what it moved."""

    def fetch_record(self, kind: RecordKind, gateway_id: str) -> GatewayRecord | None:
        """Give none."""
        return None


class Deleted(Double):
    """Has no transfers any more, and what they moved is back."""

    def list_records(
        self, kind: RecordKind, *, since: datetime, until: datetime
    ) -> Iterator[list[GatewayRecord]]:
        """Give a list, of transfers an empty one."""
        return iter(()) if kind == "transfer" else super().list_records(kind, since=since, until=until)

    def fetch_record(self, kind: RecordKind, gateway_id: str) -> GatewayRecord | None:
        """Give one of it, but no transfer."""
        return None if kind == "transfer" else super().fetch_record(kind, gateway_id)


def charge_of_nobody(service: ReconciledService) -> int:
    """Have somebody pay what no payment here asked for, and give the gateway's fee."""
    service.paid_order()
    service.gateway.open("of-nobody-here", 333_300)
    fee: int = service.gateway.pay("of-nobody-here")["fees"]
    return fee


def refund_of_nobody(service: ReconciledService, minor: int) -> None:
    service.gateway.call("POST", "/refund", json={"transaction": "of-nobody-here", "amount": minor})


def test_a_charge_of_nobody_that_was_refunded_there_is_one_difference_and_a_cost(
    service: ReconciledService,
) -> None:
    fee = charge_of_nobody(service)
    service.reconcile()
    assert service.told() == [("charge", "missing_here", "look_up_charge", 333_300 - fee)]

    refund_of_nobody(service, 333_300)
    assert service.reconcile().drift_minor == -fee
    assert service.told() == [("charge", "missing_here", "bear_refunded_charge", -fee)]
    [found] = service.found()
    assert found["reference"] == "of-nobody-here"

    costs = service.balances()["gateway_fees"]
    assert resolve(service, "gateway_cost")["bookedMinor"] == -fee
    assert service.balances()["gateway_fees"] == costs + fee
    assert (service.reconcile().status, service.told()) == ("matched", [])
    # What the lists told of it is kept: those of later runs do not reach so far back.
    service.records = Unaware(service.services.gateway_records)
    assert (service.reconcile().status, service.told()) == ("matched", [])


def test_of_a_charge_of_nobody_the_rest_is_told_that_was_not_refunded(service: ReconciledService) -> None:
    fee = charge_of_nobody(service)
    refund_of_nobody(service, 300_000)

    service.reconcile()

    assert service.told() == [("charge", "missing_here", "look_up_charge", 33_300 - fee)]


def test_a_fee_that_finance_explained_differs_no_more(service: ReconciledService) -> None:
    _, reference, _ = service.order()
    charge = service.gateway.charge_of_paid(reference)
    service.apply(replace(charge, fees_minor=charge.fees_minor - 700))
    service.reconcile()
    assert service.told() == [("charge", "amounts_differ", "compare_amounts", -700)]

    resolve(service, "gateway_cost")

    outcome = service.reconcile()
    assert (outcome.status, outcome.exceptions, service.told()) == ("matched", 0, [])


@pytest.mark.parametrize("fee_minor", [0, FEE_MINOR])
def test_a_payout_that_the_gateway_has_no_more_comes_back_by_two_officers(
    service: ReconciledService, fee_minor: int
) -> None:
    service.paid_order()
    service.plan("transfers", "reversed")
    intent_id, reference = service.payout(amount_minor=PAID_MINOR)
    service.wait_for_payout(reference, "reversed")
    service.hear_of_payout(intent_id, "success", amount_minor=PAID_MINOR)
    service.keep_fee(intent_id, fee_minor)
    service.reconcile()
    service.records = Deleted(service.services.gateway_records)
    missing = PAID_MINOR + fee_minor
    assert service.reconcile().drift_minor == missing
    assert service.told() == [("transfer", "missing_there", "look_up_payout", missing)]

    # It has said all that it knows: to ask it again would change nothing.
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
    assert (service.reconcile().status, service.told()) == ("matched", [])
    with service.database.reading() as session:
        broken = {one.rule for one in ledger_check.verify_ledger(session)}
    assert not broken & {OUT_OF_GATEWAY, BY_TWO}


def test_what_is_no_success_any_more_does_not_come_back_again(service: ReconciledService) -> None:
    service.paid_order()
    intent_id, _ = service.payout(arrives=False)
    service.hear_of_payout(intent_id, "success")
    service.reconcile()
    service.rows(
        "UPDATE payout_transfer_intents SET status = 'reversed' WHERE id = :id RETURNING id", id=intent_id
    )

    assert resolve(service, "came_back")["state"] == "proposed"
    with service.database.transaction() as session:
        second = make_officer(session)
    with pytest.raises(ResolutionNotAllowedError, match="its status is reversed"):
        resolve(service, "came_back", officer=second)
