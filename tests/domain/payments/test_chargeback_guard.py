"""Chargeback guard: a pending refund waits while the buyer's bank disputes the charge."""

from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.cart.operations import RequestedItem
from marketplace.identity.queries import Caller
from marketplace.infra.settings import Settings
from marketplace.kernel.errors import ProviderUnavailableError
from marketplace.kernel.money import format_naira
from marketplace.kernel.paging import TableRequest
from marketplace.orders.placing.place_order import WalletUse
from marketplace.payments.admin_queries import list_refunds
from marketplace.payments.chargebacks.intake import record_chargeback
from marketplace.payments.charges import quarantine
from marketplace.payments.guards import ChargedBackError, find_chargeback_state
from marketplace.payments.money_trail.build import build_money_trail
from marketplace.payments.refunds import gateway_refund, order_cancellation
from marketplace.providers.gateway.payloads import GatewayDispute
from tests.support.alerts import alerts_about, open_about
from tests.support.finance import (
    TOTAL,
    act_of,
    buyer_debt_of,
    cancelled_order,
    charge_of,
    dispute_charge,
    recover_refund,
    refund,
    refunds_of,
    report_refund_status,
)
from tests.support.gateway import TestGateway
from tests.support.gateway_events import dispute_data
from tests.support.purchases import (
    NOW,
    Shop,
    apply,
    assert_ledger_is_consistent,
    check_out,
    fill_wallet,
    later,
    make_charge,
    make_intent,
    make_product,
    neighbours,
    place,
    row_of,
    wallet_of,
)

LOST, WON = "merchant-accepted", "declined"


@pytest.fixture
def order_id(session: Session, shop: Shop) -> UUID:
    return cancelled_order(session, shop)


@pytest.fixture
def refund_id(session: Session, order_id: UUID) -> UUID:
    """A pending refund of a cancelled order."""
    found: UUID = refunds_of(session, order_id)[0]["id"]
    return found


@pytest.fixture(autouse=True)
def _check_invariants(session: Session) -> Any:
    yield
    assert_ledger_is_consistent(session)


def status_of(session: Session, refund_id: UUID) -> str:
    status: str = row_of(session, "refunds", id=refund_id)["status"]
    return status


def count_send_events(session: Session, refund_id: UUID) -> int:
    """Count the events that ask a worker to send the refund."""
    found: int = session.execute(
        text(
            "SELECT count(*) FROM outbox_events WHERE topic = 'refund.send' AND payload ->> 'refundId' = :id"
        ),
        {"id": str(refund_id)},
    ).scalar_one()
    return found


def body_of(session: Session, shop: Shop, kind: str) -> str:
    body: str = row_of(session, "notifications", user_id=shop.buyer.id, type=kind)["body"]
    return body


def process_refund(
    session: Session, refund_id: UUID, gateway: Any
) -> gateway_refund.PendingGatewayRefund | None:
    """Send a refund like a worker that received the refund's event."""
    found = gateway_refund.lease_refund(session, refund_id=refund_id, now=later(minutes=3))
    report = gateway_refund.send_refund(gateway, found)
    if found is not None and report is None:
        gateway_refund.record_refund_unknown_to_gateway(session, pending_refund=found, now=later(minutes=3))
    elif found is not None and report is not None:
        gateway_refund.apply_gateway_status(
            session, refund_id=refund_id, reported=report, now=later(minutes=3)
        )
    return found


class TestOpenDispute:
    @pytest.fixture(autouse=True)
    def dispute_id(self, session: Session, order_id: UUID, refund_id: UUID) -> UUID:
        assert status_of(session, refund_id) == "pending"
        return dispute_charge(session, charge_of(session, order_id))

    def test_refund_is_not_requested_during_a_dispute(self, session: Session, refund_id: UUID) -> None:
        assert gateway_refund.lease_refund(session, refund_id=refund_id, now=NOW) is None

        row = row_of(session, "refunds", id=refund_id)
        assert (row["status"], row["asked_at"], row["asking_until"]) == ("pending", None, None)

    def test_delayed_refund_is_explained_to_finance_and_buyer(
        self, session: Session, shop: Shop, officer: Caller, order_id: UUID, refund_id: UUID, dispute_id: UUID
    ) -> None:
        page = TableRequest(number=1, limit=100, sort="created_at", descending=True)
        listed = list_refunds(session, status="open", page=page, now=NOW)
        assert [row.dispute for row in listed.items if row.id == refund_id] == ["open"]
        [alert] = alerts_about(session, f"charge-dispute:{dispute_id}")
        assert alert["facts"]["refundsWaiting"] == [{"id": str(refund_id), "amountMinor": TOTAL}]
        assert format_naira(TOTAL) in body_of(session, shop, "refund_delayed")
        [holder] = build_money_trail(session, order_id=order_id, caller=shop.buyer).holders
        assert holder.holder == "on_the_way_back"
        assert "bank was asked" in holder.why

    @pytest.mark.parametrize("resolution", ["", "auto-something"])
    def test_unrecognized_outcome_keeps_the_dispute_open(
        self, session: Session, order_id: UUID, refund_id: UUID, resolution: str
    ) -> None:
        dispute_charge(session, charge_of(session, order_id), resolution)
        assert gateway_refund.lease_refund(session, refund_id=refund_id, now=NOW) is None
        assert status_of(session, refund_id) == "pending"

        dispute_charge(session, charge_of(session, order_id), WON)
        assert gateway_refund.lease_refund(session, refund_id=refund_id, now=NOW) is not None

    def test_refund_is_sent_when_the_dispute_is_won(
        self, session: Session, order_id: UUID, refund_id: UUID
    ) -> None:
        before = count_send_events(session, refund_id)

        dispute_charge(session, charge_of(session, order_id), WON)

        assert count_send_events(session, refund_id) == before + 1
        found = gateway_refund.lease_refund(session, refund_id=refund_id, now=NOW)
        assert found is not None
        assert (found.may_be_known_to_gateway, found.has_chargeback) == (False, False)

    def test_refund_waits_until_both_disputes_are_won(
        self, session: Session, order_id: UUID, refund_id: UUID
    ) -> None:
        charge_id = charge_of(session, order_id)
        dispute_charge(session, charge_id, id="another")
        dispute_charge(session, charge_id, WON)
        assert gateway_refund.lease_refund(session, refund_id=refund_id, now=NOW) is None

        dispute_charge(session, charge_id, WON, id="another")
        assert gateway_refund.lease_refund(session, refund_id=refund_id, now=NOW) is not None

    def test_dispute_outcome_without_amount_uses_the_first_reported_amount(
        self, session: Session, shop: Shop, order_id: UUID, refund_id: UUID
    ) -> None:
        charge_id = charge_of(session, order_id)
        dispute_charge(session, charge_id, id="part", refund_amount=50_000)
        dispute_charge(session, charge_id, LOST, id="part", refund_amount=None, transaction=None,
            transaction_reference=row_of(session, "orders", id=order_id)["payment_reference"])  # fmt: skip

        assert status_of(session, refund_id) == "credited"
        assert wallet_of(session, shop.buyer.id) == TOTAL - 50_000


class TestAffectedOrders:
    def test_dispute_does_not_affect_checkout_order_paid_by_wallet(
        self, session: Session, shop: Shop, officer: Caller
    ) -> None:
        fill_wallet(session, shop.buyer.id, TOTAL)
        shops = neighbours(session, shop, 2)
        items = [RequestedItem(make_product(session, one), 1) for one in shops]
        done = check_out(session, shop, items, wallet=WalletUse(TOTAL))
        assert done.payment is not None
        charge = make_charge(done.payment)
        apply(session, charge)
        orders = [row_of(session, "orders", id=order_id) for order_id in done.order_ids]
        [by_wallet] = [order for order in orders if order["wallet_minor"] == order["total_minor"]]
        [by_charge] = [order for order in orders if order["id"] != by_wallet["id"]]

        dispute_charge(session, charge.id)

        assert row_of(session, "orders", id=by_charge["id"])["status"] == "disputed"
        assert row_of(session, "orders", id=by_wallet["id"])["status"] == "paid_escrow"
        refund(session, by_wallet["id"], officer)
        assert wallet_of(session, shop.buyer.id) == TOTAL

    def test_dispute_matches_charge_that_was_reported_without_id(self, session: Session, shop: Shop) -> None:
        order_id = place(session, shop, make_product(session, shop))
        intent = make_intent(session, shop, order_id)
        apply(session, make_charge(intent, id=intent.reference))
        report = GatewayDispute.from_wire(dispute_data(intent.reference, 4711))

        assert record_chargeback(session, reported=report, is_final=False, now=NOW)

        assert row_of(session, "orders", id=order_id)["status"] == "disputed"
        apply(session, make_charge(intent, id="4711"))
        charge = row_of(session, "gateway_charges", gateway_charge_id="4711")
        assert find_chargeback_state(session, charge_id=charge["id"]) == "open"


class TestRequestedRefund:
    """Refunds with a lost response: the gateway may or may not have received the request."""

    @pytest.fixture
    def lost_response(
        self, session: Session, gateway: TestGateway, settings: Settings, order_id: UUID, refund_id: UUID
    ) -> str:
        """Request the refund, lose the response, and return the payment reference."""
        reference: str = row_of(session, "orders", id=order_id)["payment_reference"]
        gateway.open(reference, TOTAL)
        gateway.pay(reference)
        found = gateway_refund.lease_refund(session, refund_id=refund_id, now=NOW)
        gateway.proxy.fault = "lose"
        with pytest.raises(ProviderUnavailableError):
            gateway_refund.send_refund(gateway.adapter(settings), found)
        gateway.proxy.fault = None
        return reference

    @pytest.fixture
    def unsent_request(self, session: Session, gateway: TestGateway, order_id: UUID, refund_id: UUID) -> str:
        """Lease the refund without a request, like a dying worker, and return the payment reference."""
        reference: str = row_of(session, "orders", id=order_id)["payment_reference"]
        gateway.open(reference, TOTAL)
        gateway.pay(reference)
        assert gateway_refund.lease_refund(session, refund_id=refund_id, now=NOW) is not None
        return reference

    def test_refund_known_to_the_gateway_proceeds(
        self,
        session: Session,
        gateway: TestGateway,
        settings: Settings,
        order_id: UUID,
        refund_id: UUID,
        lost_response: str,
    ) -> None:
        dispute_charge(session, charge_of(session, order_id))

        found = process_refund(session, refund_id, gateway.adapter(settings))

        assert found is not None
        assert found.has_chargeback
        assert status_of(session, refund_id) in ("submitted", "processed")
        assert gateway.calls(lost_response)["POST /refund"] == 1

    def test_refund_unknown_to_the_gateway_is_not_sent_again(
        self,
        session: Session,
        gateway: TestGateway,
        settings: Settings,
        order_id: UUID,
        refund_id: UUID,
        unsent_request: str,
    ) -> None:
        dispute_charge(session, charge_of(session, order_id))

        for _ in range(2):
            assert process_refund(session, refund_id, gateway.adapter(settings)) is not None
            assert status_of(session, refund_id) == "pending"
        assert "POST /refund" not in gateway.calls(unsent_request)

        dispute_charge(session, charge_of(session, order_id), WON)
        process_refund(session, refund_id, gateway.adapter(settings))
        assert gateway.calls(unsent_request)["POST /refund"] == 1

    def test_unsent_refund_of_lost_charge_settles_buyer_debt(
        self,
        session: Session,
        shop: Shop,
        gateway: TestGateway,
        settings: Settings,
        order_id: UUID,
        refund_id: UUID,
        unsent_request: str,
    ) -> None:
        before = count_send_events(session, refund_id)
        dispute_charge(session, charge_of(session, order_id), LOST, refund_amount=TOTAL)
        # The refund may have been sent, so the buyer may have the money twice.
        assert buyer_debt_of(session, shop.buyer.id) == TOTAL
        assert count_send_events(session, refund_id) == before + 1

        process_refund(session, refund_id, gateway.adapter(settings))

        assert status_of(session, refund_id) == "credited"
        assert (buyer_debt_of(session, shop.buyer.id), wallet_of(session, shop.buyer.id)) == (0, 0)
        assert "POST /refund" not in gateway.calls(unsent_request)
        assert "Your bank has already returned this payment" in body_of(session, shop, "wallet_credited")

    def test_dispute_won_during_poll_enqueues_the_refund_again(
        self, session: Session, gateway: TestGateway, order_id: UUID, refund_id: UUID, unsent_request: str
    ) -> None:
        dispute_charge(session, charge_of(session, order_id))
        found = gateway_refund.lease_refund(session, refund_id=refund_id, now=later(minutes=3))
        assert found is not None
        dispute_charge(session, charge_of(session, order_id), WON)
        before = count_send_events(session, refund_id)

        gateway_refund.record_refund_unknown_to_gateway(session, pending_refund=found, now=later(minutes=3))

        assert count_send_events(session, refund_id) == before + 1
        assert gateway_refund.lease_refund(session, refund_id=refund_id, now=later(minutes=3)) is not None


class TestLostDispute:
    def test_refund_after_a_loss_goes_to_the_wallet(
        self, session: Session, shop: Shop, officer: Caller
    ) -> None:
        """The charge was accepted as a partial payment and lost in a dispute. Then the order was cancelled."""
        order_id = place(session, shop, make_product(session, shop))
        charge = make_charge(make_intent(session, shop, order_id), amount_minor=1_000)
        apply(session, charge)
        quarantined_id = row_of(session, "quarantined_charges", gateway_charge_id=charge.id)["id"]
        decision = {"action": "accept_rest", "note": "Part of it."}
        quarantine.resolve_quarantined_charge(
            session, quarantined_charge_id=quarantined_id, act=act_of(officer, now=NOW), **decision
        )
        dispute_charge(session, charge.id, LOST, refund_amount=1_000)
        assert buyer_debt_of(session, shop.buyer.id) == 1_000
        order_cancellation.cancel_order(session, order_id=order_id, caller=shop.buyer, reason=None, now=NOW)
        [made] = refunds_of(session, order_id)
        assert made["status"] == "pending"

        assert gateway_refund.lease_refund(session, refund_id=made["id"], now=NOW) is None

        assert status_of(session, made["id"]) == "credited"
        assert (buyer_debt_of(session, shop.buyer.id), wallet_of(session, shop.buyer.id)) == (0, 0)

    def test_refund_that_fails_after_a_loss_is_credited_and_not_retried(
        self, session: Session, shop: Shop, officer: Caller, order_id: UUID, refund_id: UUID
    ) -> None:
        gateway_refund.lease_refund(session, refund_id=refund_id, now=NOW)
        report_refund_status(session, refund_id, "pending")
        dispute_charge(session, charge_of(session, order_id), LOST, refund_amount=TOTAL)
        assert buyer_debt_of(session, shop.buyer.id) == TOTAL
        report_refund_status(session, refund_id, "failed")

        with pytest.raises(ChargedBackError, match="Credit the wallet instead"):
            recover_refund(session, refund_id, officer, "retry")
        recover_refund(session, refund_id, officer, "credit")

        assert (buyer_debt_of(session, shop.buyer.id), wallet_of(session, shop.buyer.id)) == (0, 0)
        assert open_about(session, f"refund:{refund_id}") == {}

    def test_credited_refund_sent_by_the_gateway_is_a_receivable(
        self, session: Session, shop: Shop, order_id: UUID, refund_id: UUID
    ) -> None:
        report_refund_status(session, refund_id, "failed")
        dispute_charge(session, charge_of(session, order_id), LOST, refund_amount=TOTAL)
        assert buyer_debt_of(session, shop.buyer.id) == 0

        assert report_refund_status(session, refund_id, "processed") == "credited"

        assert buyer_debt_of(session, shop.buyer.id) == TOTAL
        assert open_about(session, f"refund:{refund_id}") == {"REFUND_SENT_TWICE": "SEV-1"}
