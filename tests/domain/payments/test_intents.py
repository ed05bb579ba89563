"""Payment intents: a single live intent per order, replaced after failure, never reverted by late reports."""

from dataclasses import replace
from datetime import timedelta
from uuid import UUID, uuid4

import pytest
from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.kernel.errors import NotFoundError
from marketplace.payments.intents import lifecycle
from marketplace.payments.intents.lifecycle import (
    INITIALIZATION_LEASE,
    Intent,
    NotPayableError,
    PaymentTarget,
)
from marketplace.payments.refunds import order_cancellation
from marketplace.providers.gateway.payments import PaymentPage
from tests.support.purchases import (
    NOW,
    Shop,
    apply,
    later,
    make_charge,
    make_intent,
    make_person,
    make_product,
    pay,
    place,
    row_of,
)

PAGE = PaymentPage("https://pay.example/abc", "abc")


@pytest.fixture
def order_id(session: Session, shop: Shop) -> UUID:
    return place(session, shop, make_product(session, shop))


@pytest.fixture
def intent(session: Session, shop: Shop, order_id: UUID) -> Intent:
    return make_intent(session, shop, order_id)


def cancel(session: Session, shop: Shop, order_id: UUID) -> None:
    order_cancellation.cancel_order(session, order_id=order_id, caller=shop.buyer, reason=None, now=NOW)


def test_order_has_a_single_live_intent(session: Session, shop: Shop, order_id: UUID, intent: Intent) -> None:
    order = row_of(session, "orders", id=order_id)

    assert intent.amount_minor == order["total_minor"]
    assert intent.order_ids == [order_id]
    assert (intent.status, order["payment_status"]) == ("initialized", "initialized")
    assert order["payment_reference"] == intent.reference
    for target in (PaymentTarget(order_id=order_id), PaymentTarget(reference=intent.reference)):
        again = lifecycle.get_or_create_intent(
            session, buyer_id=shop.buyer.id, target=target, callback_url=None, now=NOW
        )
        assert again == intent


@pytest.mark.parametrize("target", ["order", "reference", "checkout", "unknown"])
def test_buyer_cannot_pay_for_another_buyers_order(
    session: Session, order_id: UUID, intent: Intent, target: str
) -> None:
    targets = {
        "order": PaymentTarget(order_id=order_id),
        "reference": PaymentTarget(reference=intent.reference),
        "checkout": PaymentTarget(checkout_id=uuid4()),
        "unknown": PaymentTarget(order_id=uuid4()),
    }
    with pytest.raises(NotFoundError):
        lifecycle.get_or_create_intent(
            session, buyer_id=make_person(session).id, target=targets[target], callback_url=None, now=NOW
        )


def test_order_is_payable_until_the_payment_deadline(session: Session, shop: Shop, order_id: UUID) -> None:
    make_intent(session, shop, order_id, now=later(minutes=29, seconds=59))

    with pytest.raises(NotPayableError, match="time to pay for this order is over"):
        make_intent(session, shop, order_id, now=later(minutes=30))


@pytest.mark.parametrize("end", ["cancelled", "paid_escrow"])
def test_cancelled_or_paid_order_is_not_payable(
    session: Session, shop: Shop, order_id: UUID, end: str
) -> None:
    if end == "cancelled":
        cancel(session, shop, order_id)
    else:
        pay(session, shop, order_id)

    with pytest.raises(NotPayableError, match=f"Current status: {end}") as refused:
        make_intent(session, shop, order_id)
    assert refused.value.status == 409


class TestInitialization:
    def test_initialization_lease_is_exclusive_until_expiry(self, session: Session, intent: Intent) -> None:
        def lease(seconds: float) -> bool:
            until = row_of(session, "payment_intents", id=intent.id)["opening_until"]
            fresh = replace(intent, opening_until=until)
            return lifecycle.lease_initialization(session, intent=fresh, now=later(seconds=seconds))

        assert lease(0)
        assert not lease(1)
        assert not lease(INITIALIZATION_LEASE / timedelta(seconds=1) - 0.001)
        assert lease(INITIALIZATION_LEASE / timedelta(seconds=1))
        lifecycle.release_initialization(session, intent_id=intent.id)
        assert lease(46)

    @pytest.mark.parametrize("leases", [True, False])
    def test_only_leased_intent_extends_the_reservation(
        self, session: Session, shop: Shop, order_id: UUID, *, leases: bool
    ) -> None:
        created = lifecycle.get_or_create_intent(
            session,
            buyer_id=shop.buyer.id,
            target=PaymentTarget(order_id=order_id),
            callback_url=None,
            now=later(minutes=10),
            leases=leases,
        )

        assert created.is_leased is leases
        assert created.opening_until == (later(minutes=10) + INITIALIZATION_LEASE if leases else None)
        expiry = row_of(session, "orders", id=order_id)["expires_at"]
        assert expiry == later(minutes=40 if leases else 30)

    def test_lease_of_creator_excludes_other_requests(
        self, session: Session, shop: Shop, order_id: UUID
    ) -> None:
        created = lifecycle.get_or_create_intent(
            session,
            buyer_id=shop.buyer.id,
            target=PaymentTarget(order_id=order_id),
            callback_url=None,
            now=NOW,
            leases=True,
        )
        found = make_intent(session, shop, order_id)

        assert lifecycle.lease_initialization(session, intent=created, now=NOW)
        assert not lifecycle.lease_initialization(session, intent=found, now=NOW)

    def test_hosted_page_is_stored(
        self, session: Session, shop: Shop, order_id: UUID, intent: Intent
    ) -> None:
        answer = lifecycle.record_hosted_page(session, intent=intent, page=PAGE, now=NOW)

        assert (answer.reference, answer.amount_minor) == (intent.reference, intent.amount_minor)
        assert (answer.authorization_url, answer.access_code) == (PAGE.authorization_url, PAGE.access_code)
        found = make_intent(session, shop, order_id)
        assert (found.status, found.page) == ("pending", PAGE)
        assert row_of(session, "orders", id=order_id)["payment_status"] == "pending"

    def test_cancelled_order_opens_no_payment(
        self, session: Session, shop: Shop, order_id: UUID, intent: Intent
    ) -> None:
        cancel(session, shop, order_id)

        with pytest.raises(NotPayableError):
            lifecycle.record_hosted_page(session, intent=intent, page=PAGE, now=NOW)

    def test_paid_order_opens_no_payment(self, session: Session, intent: Intent) -> None:
        apply(session, make_charge(intent))

        with pytest.raises(NotPayableError, match="payment status: succeeded"):
            lifecycle.record_hosted_page(session, intent=intent, page=PAGE, now=NOW)
        assert row_of(session, "payment_intents", id=intent.id)["authorization_url"] is None


class TestFailedAttempts:
    def test_failed_attempt_allows_a_new_intent(
        self, session: Session, shop: Shop, order_id: UUID, intent: Intent
    ) -> None:
        lifecycle.record_failed_attempt(session, reference=intent.reference, now=NOW)

        assert row_of(session, "payment_intents", id=intent.id)["status"] == "failed"
        assert make_intent(session, shop, order_id).reference != intent.reference

    def test_late_failure_report_does_not_undo_success(self, session: Session, intent: Intent) -> None:
        apply(session, make_charge(intent))

        lifecycle.record_failed_attempt(session, reference=intent.reference, now=NOW)
        lifecycle.abandon_intent(session, intent_id=intent.id, now=NOW)

        assert row_of(session, "payment_intents", id=intent.id)["status"] == "succeeded"

    def test_late_failure_report_keeps_quarantined_intent_live(
        self, session: Session, shop: Shop, order_id: UUID, intent: Intent
    ) -> None:
        apply(session, make_charge(intent, amount_minor=100))

        lifecycle.record_failed_attempt(session, reference=intent.reference, now=NOW)

        assert row_of(session, "payment_intents", id=intent.id)["status"] == "quarantined"
        assert row_of(session, "payment_allocations", intent_id=intent.id)["live"]
        with pytest.raises(NotPayableError, match="under review"):
            make_intent(session, shop, order_id)

    def test_quarantined_charge_of_earlier_attempt_blocks_new_payments(
        self, session: Session, shop: Shop, order_id: UUID, intent: Intent
    ) -> None:
        lifecycle.record_failed_attempt(session, reference=intent.reference, now=NOW)
        fresh = make_intent(session, shop, order_id)
        apply(session, make_charge(intent, amount_minor=100))

        with pytest.raises(NotPayableError, match="under review"):
            make_intent(session, shop, order_id)
        with pytest.raises(NotPayableError):
            lifecycle.record_hosted_page(session, intent=fresh, page=PAGE, now=NOW)

        assert row_of(session, "orders", id=order_id)["payment_status"] == "quarantined"


class TestReportedCharge:
    def apply_report(self, session: Session, intent: Intent, **charge: object) -> lifecycle.PaymentStatus:
        given = make_charge(intent, **charge) if charge else None
        return lifecycle.apply_reported_charge(
            session, reference=intent.reference, charge=given, fee_bearer="platform", now=NOW
        )

    def test_successful_charge_is_applied_and_shown(
        self, session: Session, order_id: UUID, intent: Intent
    ) -> None:
        shown = self.apply_report(session, intent, channel="bank_transfer")

        assert (shown.status, shown.channel, shown.paid_at) == ("succeeded", "bank_transfer", NOW)
        number = row_of(session, "orders", id=order_id)["number"]
        assert shown.orders == [lifecycle.PaymentOrder(str(order_id), number, "paid_escrow")]

    @pytest.mark.parametrize(
        ("status", "shown"),
        [("failed", "failed"), ("pending", "initialized"), ("abandoned", "initialized")],
    )
    def test_unsuccessful_charge_moves_no_money(
        self, session: Session, order_id: UUID, intent: Intent, status: str, shown: str
    ) -> None:
        assert self.apply_report(session, intent, status=status).status == shown
        assert row_of(session, "orders", id=order_id)["status"] == "pending_payment"

    def test_reference_unknown_to_the_gateway_changes_nothing(self, session: Session, intent: Intent) -> None:
        assert self.apply_report(session, intent).status == "initialized"


def test_database_rejects_second_live_intent_of_order(
    session: Session, order_id: UUID, intent: Intent
) -> None:
    with pytest.raises(Exception, match="uq_payment_allocations_live"), session.begin_nested():
        session.execute(
            text(
                """
                WITH another AS (
                    INSERT INTO payment_intents (buyer_id, amount_minor, status)
                    SELECT buyer_id, amount_minor, 'initialized' FROM payment_intents WHERE id = :intent
                    RETURNING id
                )
                INSERT INTO payment_allocations (intent_id, order_id, amount_minor)
                SELECT another.id, :order, 5 FROM another
                """
            ),
            {"intent": intent.id, "order": order_id},
        )
