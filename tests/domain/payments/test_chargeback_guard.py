"""Refunds that wait to be sent while the buyer's bank disputes their charge, and what becomes of them."""

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
    cancelled_order,
    charge_of,
    dispute_charge,
    mend_refund,
    owed_by,
    refund,
    refunds_of,
    say,
)
from tests.support.gateway import TestGateway
from tests.support.gateway_events import dispute_data
from tests.support.purchases import (
    NOW,
    Shop,
    apply,
    assert_books_are_whole,
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
    """A refund that waits to be sent."""
    found: UUID = refunds_of(session, order_id)[0]["id"]
    return found


@pytest.fixture(autouse=True)
def _books_stay_whole(session: Session) -> Any:
    yield
    assert_books_are_whole(session)


def status_of(session: Session, refund_id: UUID) -> str:
    status: str = row_of(session, "refunds", id=refund_id)["status"]
    return status


def handed_on(session: Session, refund_id: UUID) -> int:
    """Tell how often a worker was told to see to a refund."""
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


def work_off(session: Session, refund_id: UUID, gateway: Any) -> gateway_refund.PendingGatewayRefund | None:
    """Do what a worker does whose event it is."""
    found = gateway_refund.lease_refund(session, refund_id=refund_id, now=later(minutes=3))
    told = gateway_refund.send_refund(gateway, found)
    if found is not None and told is None:
        gateway_refund.record_refund_unknown_to_gateway(session, pending_refund=found, now=later(minutes=3))
    elif found is not None and told is not None:
        gateway_refund.apply_gateway_status(session, refund_id=refund_id, reported=told, now=later(minutes=3))
    return found


class TestWhileItIsOpen:
    @pytest.fixture(autouse=True)
    def dispute_id(self, session: Session, order_id: UUID, refund_id: UUID) -> UUID:
        assert status_of(session, refund_id) == "pending"
        return dispute_charge(session, charge_of(session, order_id))

    def test_refund_is_not_requested_during_a_dispute(self, session: Session, refund_id: UUID) -> None:
        assert gateway_refund.lease_refund(session, refund_id=refund_id, now=NOW) is None

        row = row_of(session, "refunds", id=refund_id)
        assert (row["status"], row["asked_at"], row["asking_until"]) == ("pending", None, None)

    def test_finance_and_the_buyer_see_why(
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
    def test_an_end_that_does_not_say_who_won_is_none(
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
        before = handed_on(session, refund_id)

        dispute_charge(session, charge_of(session, order_id), WON)

        assert handed_on(session, refund_id) == before + 1
        found = gateway_refund.lease_refund(session, refund_id=refund_id, now=NOW)
        assert found is not None
        assert (found.may_be_known_to_gateway, found.has_chargeback) == (False, False)

    def test_of_two_disputes_both_must_be_won(
        self, session: Session, order_id: UUID, refund_id: UUID
    ) -> None:
        charge_id = charge_of(session, order_id)
        dispute_charge(session, charge_id, id="another")
        dispute_charge(session, charge_id, WON)
        assert gateway_refund.lease_refund(session, refund_id=refund_id, now=NOW) is None

        dispute_charge(session, charge_id, WON, id="another")
        assert gateway_refund.lease_refund(session, refund_id=refund_id, now=NOW) is not None

    def test_the_amount_told_first_counts_if_the_end_names_none(
        self, session: Session, shop: Shop, order_id: UUID, refund_id: UUID
    ) -> None:
        charge_id = charge_of(session, order_id)
        dispute_charge(session, charge_id, id="part", refund_amount=50_000)
        dispute_charge(session, charge_id, LOST, id="part", refund_amount=None, transaction=None,
            transaction_reference=row_of(session, "orders", id=order_id)["payment_reference"])  # fmt: skip

        assert status_of(session, refund_id) == "credited"
        assert wallet_of(session, shop.buyer.id) == TOTAL - 50_000


class TestWhatItIsAbout:
    def test_an_order_of_the_checkout_that_the_wallet_paid_is_not_held_up(
        self, session: Session, shop: Shop, officer: Caller
    ) -> None:
        fill_wallet(session, shop.buyer.id, TOTAL)
        shops = neighbours(session, shop, 2)
        wishes = [RequestedItem(make_product(session, one), 1) for one in shops]
        done = check_out(session, shop, wishes, wallet=WalletUse(TOTAL))
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

    def test_a_charge_that_was_told_of_without_its_id_is_meant_by_any(
        self, session: Session, shop: Shop
    ) -> None:
        order_id = place(session, shop, make_product(session, shop))
        intent = make_intent(session, shop, order_id)
        apply(session, make_charge(intent, id=intent.reference))
        told = GatewayDispute.from_wire(dispute_data(intent.reference, 4711))

        assert record_chargeback(session, reported=told, is_final=False, now=NOW)

        assert row_of(session, "orders", id=order_id)["status"] == "disputed"
        apply(session, make_charge(intent, id="4711"))
        charge = row_of(session, "gateway_charges", gateway_charge_id="4711")
        assert find_chargeback_state(session, charge_id=charge["id"]) == "open"


class TestThatWasAskedFor:
    """The answer was lost: whether the gateway sends it is not known."""

    @pytest.fixture
    def lost_answer(
        self, session: Session, gateway: TestGateway, settings: Settings, order_id: UUID, refund_id: UUID
    ) -> str:
        """Open its page at the gateway, pay there, and lose the answer to our call."""
        reference: str = row_of(session, "orders", id=order_id)["payment_reference"]
        gateway.open(reference, TOTAL)
        gateway.pay(reference)
        found = gateway_refund.lease_refund(session, refund_id=refund_id, now=NOW)
        gateway.line.fault = "lose"
        with pytest.raises(ProviderUnavailableError):
            gateway_refund.send_refund(gateway.adapter(settings), found)
        gateway.line.fault = None
        return reference

    @pytest.fixture
    def never_arrived(self, session: Session, gateway: TestGateway, order_id: UUID, refund_id: UUID) -> str:
        """Have a worker die before its call."""
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
        lost_answer: str,
    ) -> None:
        dispute_charge(session, charge_of(session, order_id))

        found = work_off(session, refund_id, gateway.adapter(settings))

        assert found is not None
        assert found.has_chargeback
        assert status_of(session, refund_id) in ("submitted", "processed")
        assert gateway.calls(lost_answer)["POST /refund"] == 1

    def test_refund_unknown_to_the_gateway_is_not_sent_again(
        self,
        session: Session,
        gateway: TestGateway,
        settings: Settings,
        order_id: UUID,
        refund_id: UUID,
        never_arrived: str,
    ) -> None:
        dispute_charge(session, charge_of(session, order_id))

        for _ in range(2):
            assert work_off(session, refund_id, gateway.adapter(settings)) is not None
            assert status_of(session, refund_id) == "pending"
        assert "POST /refund" not in gateway.calls(never_arrived)

        dispute_charge(session, charge_of(session, order_id), WON)
        work_off(session, refund_id, gateway.adapter(settings))
        assert gateway.calls(never_arrived)["POST /refund"] == 1

    def test_of_a_lost_charge_it_pays_what_the_buyer_owes_by_then(
        self,
        session: Session,
        shop: Shop,
        gateway: TestGateway,
        settings: Settings,
        order_id: UUID,
        refund_id: UUID,
        never_arrived: str,
    ) -> None:
        before = handed_on(session, refund_id)
        dispute_charge(session, charge_of(session, order_id), LOST, refund_amount=TOTAL)
        # It may have been sent, so for all that is known its buyer has it twice.
        assert owed_by(session, shop.buyer.id) == TOTAL
        assert handed_on(session, refund_id) == before + 1

        work_off(session, refund_id, gateway.adapter(settings))

        assert status_of(session, refund_id) == "credited"
        assert (owed_by(session, shop.buyer.id), wallet_of(session, shop.buyer.id)) == (0, 0)
        assert "POST /refund" not in gateway.calls(never_arrived)
        assert "Your bank has already returned this payment" in body_of(session, shop, "wallet_credited")

    def test_a_dispute_that_ends_while_the_gateway_is_asked_has_it_handed_on(
        self, session: Session, gateway: TestGateway, order_id: UUID, refund_id: UUID, never_arrived: str
    ) -> None:
        dispute_charge(session, charge_of(session, order_id))
        found = gateway_refund.lease_refund(session, refund_id=refund_id, now=later(minutes=3))
        assert found is not None
        dispute_charge(session, charge_of(session, order_id), WON)
        before = handed_on(session, refund_id)

        gateway_refund.record_refund_unknown_to_gateway(session, pending_refund=found, now=later(minutes=3))

        assert handed_on(session, refund_id) == before + 1
        assert gateway_refund.lease_refund(session, refund_id=refund_id, now=later(minutes=3)) is not None


class TestAfterALoss:
    def test_refund_after_a_loss_goes_to_the_wallet(
        self, session: Session, shop: Shop, officer: Caller
    ) -> None:
        """A charge was accepted as a part of an order, taken by the bank, and the order called off."""
        order_id = place(session, shop, make_product(session, shop))
        charge = make_charge(make_intent(session, shop, order_id), amount_minor=1_000)
        apply(session, charge)
        held_id = row_of(session, "quarantined_charges", gateway_charge_id=charge.id)["id"]
        decided = {"action": "accept_rest", "note": "Part of it."}
        quarantine.resolve_quarantined_charge(
            session, quarantined_charge_id=held_id, act=act_of(officer, now=NOW), **decided
        )
        dispute_charge(session, charge.id, LOST, refund_amount=1_000)
        assert owed_by(session, shop.buyer.id) == 1_000
        order_cancellation.cancel_order(session, order_id=order_id, caller=shop.buyer, reason=None, now=NOW)
        [made] = refunds_of(session, order_id)
        assert made["status"] == "pending"

        assert gateway_refund.lease_refund(session, refund_id=made["id"], now=NOW) is None

        assert status_of(session, made["id"]) == "credited"
        assert (owed_by(session, shop.buyer.id), wallet_of(session, shop.buyer.id)) == (0, 0)

    def test_refund_that_fails_after_a_loss_is_credited_and_not_retried(
        self, session: Session, shop: Shop, officer: Caller, order_id: UUID, refund_id: UUID
    ) -> None:
        gateway_refund.lease_refund(session, refund_id=refund_id, now=NOW)
        say(session, refund_id, "pending")
        dispute_charge(session, charge_of(session, order_id), LOST, refund_amount=TOTAL)
        assert owed_by(session, shop.buyer.id) == TOTAL
        say(session, refund_id, "failed")

        with pytest.raises(ChargedBackError, match="Credit the wallet instead"):
            mend_refund(session, refund_id, officer, "retry")
        mend_refund(session, refund_id, officer, "credit")

        assert (owed_by(session, shop.buyer.id), wallet_of(session, shop.buyer.id)) == (0, 0)
        assert open_about(session, f"refund:{refund_id}") == {}

    def test_credited_refund_sent_by_the_gateway_is_a_receivable(
        self, session: Session, shop: Shop, order_id: UUID, refund_id: UUID
    ) -> None:
        say(session, refund_id, "failed")
        dispute_charge(session, charge_of(session, order_id), LOST, refund_amount=TOTAL)
        assert owed_by(session, shop.buyer.id) == 0

        assert say(session, refund_id, "processed") == "credited"

        assert owed_by(session, shop.buyer.id) == TOTAL
        assert open_about(session, f"refund:{refund_id}") == {"REFUND_SENT_TWICE": "SEV-1"}
