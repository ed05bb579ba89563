"""Quarantined charges and the effects of an officer's decision."""

from uuid import UUID, uuid4

import pytest
from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.cart.operations import RequestedItem
from marketplace.identity.queries import Caller
from marketplace.infra.db import Database
from marketplace.infra.settings import Settings
from marketplace.kernel.errors import ForbiddenError, NotFoundError
from marketplace.kernel.money import format_naira
from marketplace.ledger.queries import fetch_balances_by_kind
from marketplace.orders.placing.place_order import WalletUse
from marketplace.payments.charges import quarantine
from marketplace.payments.charges.apply import ChargeOutcome
from marketplace.payments.charges.quarantine import (
    ChargeAlreadyResolvedError,
    QuarantineActionNotAllowedError,
)
from marketplace.payments.guards import ChargedBackError
from marketplace.payments.intents.expiry import sweep_abandoned_checkouts
from marketplace.payments.intents.lifecycle import (
    CheckoutResult,
    Intent,
    NotPayableError,
    PaymentTarget,
    get_or_create_intent,
    record_hosted_page,
)
from marketplace.payments.refunds import order_cancellation
from marketplace.providers.gateway.payments import PaymentPage
from tests.support.finance import (
    act_of,
    audit_entries_of,
    dispute_charge,
    make_officer,
    notification_types_of,
    refund_summaries_of,
    refunds_of,
    report_refund_status,
)
from tests.support.gateway import TestGateway
from tests.support.purchases import (
    NOW,
    Shop,
    apply,
    assert_ledger_is_consistent,
    balances_of_order,
    check_out,
    fill_wallet,
    later,
    make_charge,
    make_intent,
    make_product,
    make_shop,
    neighbours,
    place,
    row_of,
    status_of,
    stock_of,
    wallet_of,
)

NOTE = "The buyer's bank took its fee out of it."


@pytest.fixture
def order_id(session: Session, shop: Shop) -> UUID:
    return place(session, shop, make_product(session, shop))


def quarantine_charge(session: Session, intent: Intent, amount_minor: int, **charge: object) -> UUID:
    """Quarantine a charge and return the id of the quarantined charge."""
    made = make_charge(intent, amount_minor=amount_minor, **charge)
    assert apply(session, made) is ChargeOutcome.QUARANTINED
    found: UUID = row_of(session, "quarantined_charges", gateway_charge_id=made.id)["id"]
    return found


def resolve(
    session: Session, quarantined_id: UUID, officer: Caller, action: str, **delta: float
) -> quarantine.ResolvedCharge:
    return quarantine.resolve_quarantined_charge(
        session,
        quarantined_charge_id=quarantined_id,
        action=action,  # type: ignore[arg-type]
        note=NOTE,
        act=act_of(officer, now=later(**delta)),
    )


@pytest.fixture
def intent(session: Session, shop: Shop, order_id: UUID) -> Intent:
    return make_intent(session, shop, order_id)


@pytest.mark.parametrize("action", ["accept_rest", "refund", "wallet"])
def test_charge_with_open_dispute_cannot_be_resolved(
    session: Session, officer: Caller, intent: Intent, action: str
) -> None:
    quarantined_id = quarantine_charge(session, intent, 1_000)
    dispute_charge(session, row_of(session, "quarantined_charges", id=quarantined_id)["gateway_charge_id"])

    with pytest.raises(ChargedBackError, match="retry after the dispute is won"):
        resolve(session, quarantined_id, officer, action)

    assert row_of(session, "quarantined_charges", id=quarantined_id)["status"] == "open"


class TestAcceptance:
    def test_accepted_charge_is_partial_payment_and_new_intent_covers_difference(
        self, session: Session, shop: Shop, officer: Caller, order_id: UUID, intent: Intent
    ) -> None:
        quarantined_id = quarantine_charge(session, intent, intent.amount_minor - 500)
        with pytest.raises(NotPayableError, match="under review"):
            make_intent(session, shop, order_id)

        done = resolve(session, quarantined_id, officer, "accept_rest", hours=5)

        assert done.amount_minor == intent.amount_minor - 500
        order = row_of(session, "orders", id=order_id)
        assert (order["status"], order["payment_status"]) == ("pending_payment", None)
        assert (order["wallet_minor"], order["accepted_minor"]) == (0, intent.amount_minor - 500)
        assert order["expires_at"] == later(hours=29)
        assert balances_of_order(session, order_id)["escrow"] == intent.amount_minor - 500
        assert notification_types_of(session, shop.buyer.id)[-1] == "payment_resolved"
        assert_ledger_is_consistent(session)
        fresh = make_intent(session, shop, order_id, now=later(hours=6))
        assert (fresh.amount_minor, fresh.reference != intent.reference) == (500, True)

        assert apply(session, make_charge(fresh)) is ChargeOutcome.APPLIED

        assert status_of(session, order_id) == "paid_escrow"
        assert balances_of_order(session, order_id)["escrow"] == intent.amount_minor
        assert_ledger_is_consistent(session)
        # Cancellation refunds each charge separately through the gateway.
        order_cancellation.cancel_order(session, order_id=order_id, caller=shop.buyer, reason=None, now=NOW)
        assert refunded_by_charge(session, order_id) == {
            charge_of(session, intent): intent.amount_minor - 500,
            charge_of(session, fresh): 500,
        }
        assert wallet_of(session, shop.buyer.id) == 0
        assert_ledger_is_consistent(session)

    def test_accepted_charges_that_cover_the_total_pay_the_order(
        self, session: Session, shop: Shop, officer: Caller, order_id: UUID, intent: Intent
    ) -> None:
        one = quarantine_charge(session, intent, intent.amount_minor - 500)
        other = quarantine_charge(session, intent, 700)
        resolve(session, one, officer, "accept_rest")
        # Another charge of the order is still quarantined.
        assert row_of(session, "orders", id=order_id)["payment_status"] == "quarantined"

        done = resolve(session, other, officer, "accept_rest")

        assert done.orders[0].status == "paid_escrow"
        product_id = row_of(session, "order_items", order_id=order_id)["product_id"]
        assert stock_of(session, product_id) == (4, 0)
        assert wallet_of(session, shop.buyer.id) == 200
        assert row_of(session, "payment_intents", id=intent.id)["status"] == "succeeded"
        assert_ledger_is_consistent(session)
        order_cancellation.cancel_order(session, order_id=order_id, caller=shop.buyer, reason=None, now=NOW)
        # Both charges came through the gateway, so both are refunded through the gateway.
        assert [part for part in refund_summaries_of(session, order_id) if part[0] == "gateway"] == [
            ("gateway", "pending", intent.amount_minor - 500),
            ("gateway", "pending", 500),
        ]
        assert wallet_of(session, shop.buyer.id) == 200
        assert_ledger_is_consistent(session)

    def test_excess_of_accepted_charge_is_credited_and_notified(
        self, session: Session, shop: Shop, officer: Caller
    ) -> None:
        done = check_out(
            session,
            shop,
            [RequestedItem(make_product(session, one), 1) for one in neighbours(session, shop, 2)],
        )
        assert done.payment is not None
        quarantined_id = quarantine_charge(session, done.payment, done.payment.amount_minor - 1)
        first, second = (row_of(session, "orders", id=order_id) for order_id in done.order_ids)
        order_cancellation.cancel_order(
            session, order_id=first["id"], caller=shop.buyer, reason=None, now=NOW
        )

        resolve(session, quarantined_id, officer, "accept_rest")

        [body] = [body for body in notification_bodies(session, shop.buyer.id) if "accepted" in body]
        assert body == (
            f"We accepted {format_naira(second['total_minor'])}. Your payment for {second['number']} is complete."
            f" The extra {format_naira(first['total_minor'] - 1)} is in your wallet."
        )
        assert wallet_of(session, shop.buyer.id) == first["total_minor"] - 1
        assert_ledger_is_consistent(session)

    def test_cancellation_refunds_wallet_part_and_accepted_charge_separately(
        self, session: Session, shop: Shop, officer: Caller
    ) -> None:
        fill_wallet(session, shop.buyer.id, 3_000)
        order_id = place(session, shop, make_product(session, shop), wallet=WalletUse(3_000))
        first = make_intent(session, shop, order_id)
        resolve(session, quarantine_charge(session, first, 7_000), officer, "accept_rest")
        assert apply(session, make_charge(make_intent(session, shop, order_id))) is ChargeOutcome.APPLIED

        order_cancellation.cancel_order(session, order_id=order_id, caller=shop.buyer, reason=None, now=NOW)

        assert refund_summaries_of(session, order_id) == [
            ("gateway", "pending", 7_000),
            ("gateway", "pending", first.amount_minor - 7_000),
            ("wallet", "processed", 3_000),
        ]
        assert wallet_of(session, shop.buyer.id) == 3_000
        assert_ledger_is_consistent(session)

    def test_cancelled_checkout_refunds_accepted_shares_to_payment_method(
        self, session: Session, shop: Shop, officer: Caller
    ) -> None:
        done = check_out(
            session,
            shop,
            [RequestedItem(make_product(session, one), 1) for one in neighbours(session, shop, 2)],
        )
        assert done.payment is not None
        resolve(
            session,
            quarantine_charge(session, done.payment, done.payment.amount_minor - 100_001),
            officer,
            "accept_rest",
        )
        fresh = make_intent_of_checkout(session, shop, done)
        assert apply(session, make_charge(fresh)) is ChargeOutcome.APPLIED

        for order_id in done.order_ids:
            order_cancellation.cancel_order(
                session, order_id=order_id, caller=shop.buyer, reason=None, now=NOW
            )
            assert {destination for destination, *_ in refund_summaries_of(session, order_id)} == {"gateway"}
            assert "to your original payment method" in notification_bodies(session, shop.buyer.id)[-1]
            assert "wallet" not in notification_bodies(session, shop.buyer.id)[-1]
            assert_ledger_is_consistent(session)

        for intent in (done.payment, fresh):
            charge = row_of(session, "gateway_charges", id=charge_of(session, intent))
            assert charge["refunded_minor"] == charge["principal_minor"]

    @pytest.mark.parametrize("party", ["buyer", "vendor"])
    def test_cancelled_unpaid_order_refunds_accepted_charge_to_payment_method(
        self, session: Session, shop: Shop, officer: Caller, party: str
    ) -> None:
        fill_wallet(session, shop.buyer.id, 3_000)
        order_id = place(session, shop, make_product(session, shop), wallet=WalletUse(3_000))
        resolve(
            session,
            quarantine_charge(session, make_intent(session, shop, order_id), 700),
            officer,
            "accept_rest",
        )

        order_cancellation.cancel_order(
            session, order_id=order_id, caller=getattr(shop, party), reason=None, now=NOW
        )

        assert refund_summaries_of(session, order_id) == [("gateway", "pending", 700)]
        assert wallet_of(session, shop.buyer.id) == 3_000
        assert "escrow" not in balances_of_order(session, order_id)
        assert (
            "NGN 7.00 is going back to your original payment method"
            in notification_bodies(session, shop.buyer.id)[-1]
        )
        assert "NGN 30.00 is back in your wallet" in notification_bodies(session, shop.buyer.id)[-1]
        assert_ledger_is_consistent(session)

    @pytest.mark.parametrize("missing", [1, 100_001])
    def test_checkout_with_accepted_charge_is_paid_by_the_difference(
        self, session: Session, shop: Shop, officer: Caller, missing: int
    ) -> None:
        done: CheckoutResult = check_out(
            session,
            shop,
            [RequestedItem(make_product(session, one), 1) for one in neighbours(session, shop, 2)],
        )
        assert done.payment is not None
        total = done.payment.amount_minor
        quarantined_id = quarantine_charge(session, done.payment, total - missing)

        resolve(session, quarantined_id, officer, "accept_rest")

        rows = [row_of(session, "orders", id=order_id) for order_id in done.order_ids]
        assert [row["status"] for row in rows] == ["pending_payment"] * 2
        assert sum(row["accepted_minor"] for row in rows) == total - missing
        fresh = make_intent_of_checkout(session, shop, done)
        assert fresh.amount_minor == missing
        assert apply(session, make_charge(fresh)) is ChargeOutcome.APPLIED
        assert [status_of(session, order_id) for order_id in done.order_ids] == ["paid_escrow"] * 2
        assert_ledger_is_consistent(session)

    def test_acceptance_without_awaiting_order_is_refused(
        self, session: Session, shop: Shop, officer: Caller, order_id: UUID, intent: Intent
    ) -> None:
        quarantined_id = quarantine_charge(session, intent, 500)
        order_cancellation.cancel_order(session, order_id=order_id, caller=shop.buyer, reason=None, now=NOW)

        with pytest.raises(QuarantineActionNotAllowedError, match="No order is awaiting"):
            resolve(session, quarantined_id, officer, "accept_rest")

        assert row_of(session, "quarantined_charges", id=quarantined_id)["status"] == "open"

    def test_acceptance_of_charge_without_ledger_amount_is_refused(
        self, session: Session, officer: Caller, intent: Intent
    ) -> None:
        in_dollars = quarantine_charge(session, intent, intent.amount_minor, currency="USD")
        zero = quarantine_charge(session, intent, 0)

        for quarantined_id in (in_dollars, zero):
            with pytest.raises(QuarantineActionNotAllowedError, match="no amount"):
                resolve(session, quarantined_id, officer, "accept_rest")

    def test_expired_order_refunds_accepted_charge_to_payment_method(
        self,
        database: Database,
        gateway: TestGateway,
        settings: Settings,
    ) -> None:
        """The sweep polls the gateway, which reports the resolved charge again as a duplicate."""
        with database.transaction() as session:
            shop, officer = make_shop(session), make_officer(session)
            order_id = place(session, shop, make_product(session, shop))
            intent = make_intent(session, shop, order_id)
            record_hosted_page(session, intent=intent, page=PaymentPage("https://pay/x", "x"), now=NOW)
        gateway.open(intent.reference, intent.amount_minor)
        charge = gateway.charge_of_paid(intent.reference, amountMinor=intent.amount_minor - 500)
        with database.transaction() as session:
            assert apply(session, charge) is ChargeOutcome.QUARANTINED
            quarantined = row_of(session, "quarantined_charges", gateway_charge_id=charge.id)
            resolve(session, quarantined["id"], officer, "accept_rest")

        for hours in (23, 25):
            sweep_abandoned_checkouts(
                database, gateway.adapter(settings), fee_bearer="platform", now=later(hours=hours)
            )
            with database.reading() as session:
                assert status_of(session, order_id) == ("expired" if hours == 25 else "pending_payment")

        with database.reading() as session:
            assert refund_summaries_of(session, order_id) == [
                ("gateway", "pending", intent.amount_minor - 500)
            ]
            assert wallet_of(session, shop.buyer.id) == 0
            assert "is being returned the way you paid it" in notification_bodies(session, shop.buyer.id)[-1]
            assert_ledger_is_consistent(session)


def charge_of(session: Session, intent: Intent) -> UUID:
    """Return the charge id of a payment with a single charge."""
    found: UUID = row_of(session, "gateway_charges", intent_id=intent.id)["id"]
    return found


def refunded_by_charge(session: Session, order_id: UUID) -> dict[UUID | None, int]:
    return {refund["charge_id"]: refund["amount_minor"] for refund in refunds_of(session, order_id)}


def notification_bodies(session: Session, user_id: UUID) -> list[str]:
    """Return the notification bodies of a user, oldest first."""
    find = text("SELECT body FROM notifications WHERE user_id = :user_id ORDER BY id")
    return list(session.execute(find, {"user_id": user_id}).scalars())


def make_intent_of_checkout(session: Session, shop: Shop, done: CheckoutResult) -> Intent:
    return get_or_create_intent(
        session,
        buyer_id=shop.buyer.id,
        target=PaymentTarget(checkout_id=done.checkout_id),
        callback_url=None,
        now=NOW,
    )


class TestReturn:
    def test_charge_is_refunded_through_the_gateway(
        self, session: Session, shop: Shop, officer: Caller, order_id: UUID, intent: Intent
    ) -> None:
        quarantined_id = quarantine_charge(session, intent, intent.amount_minor - 500, fees_minor=75)
        before = fetch_balances_by_kind(session)

        resolve(session, quarantined_id, officer, "refund", minutes=50)

        [made] = refunds_of(session, order_id)
        assert (made["destination"], made["status"]) == ("gateway", "pending")
        assert made["amount_minor"] == intent.amount_minor - 500
        after = fetch_balances_by_kind(session)
        assert after["quarantine"] == before["quarantine"] - made["amount_minor"]
        assert after["refunds_in_transit"] == before["refunds_in_transit"] + made["amount_minor"]
        # The buyer can pay again until the extended deadline.
        assert row_of(session, "orders", id=order_id)["expires_at"] == later(minutes=80)
        assert make_intent(session, shop, order_id, now=later(minutes=51)).amount_minor == intent.amount_minor
        assert report_refund_status(session, made["id"], "processed") == "processed"
        assert_ledger_is_consistent(session)

    def test_charge_is_credited_to_the_wallet(
        self, session: Session, shop: Shop, officer: Caller, order_id: UUID, intent: Intent
    ) -> None:
        quarantined_id = quarantine_charge(session, intent, intent.amount_minor - 500)

        resolve(session, quarantined_id, officer, "wallet")

        assert refund_summaries_of(session, order_id) == [("wallet", "processed", intent.amount_minor - 500)]
        assert wallet_of(session, shop.buyer.id) == intent.amount_minor - 500
        assert_ledger_is_consistent(session)

    def test_customer_fees_are_not_refunded(
        self, session: Session, shop: Shop, officer: Caller, order_id: UUID, intent: Intent
    ) -> None:
        charge = make_charge(intent, fees_minor=1_500)
        assert apply(session, charge, fee_bearer="customer") is ChargeOutcome.QUARANTINED
        quarantined = row_of(session, "quarantined_charges", gateway_charge_id=charge.id)

        resolve(session, quarantined["id"], officer, "refund")

        assert refund_summaries_of(session, order_id) == [("gateway", "pending", intent.amount_minor - 1_500)]
        assert_ledger_is_consistent(session)

    def test_refund_leaves_order_paid_by_other_charge_unchanged(
        self, session: Session, officer: Caller, order_id: UUID, intent: Intent
    ) -> None:
        quarantined_id = quarantine_charge(session, intent, 500)
        assert apply(session, make_charge(intent)) is ChargeOutcome.APPLIED

        resolve(session, quarantined_id, officer, "refund")

        order = row_of(session, "orders", id=order_id)
        assert (order["status"], order["payment_status"]) == ("paid_escrow", "succeeded")
        assert_ledger_is_consistent(session)

    def test_refund_of_foreign_currency_charge_is_recorded_without_posting(
        self, session: Session, shop: Shop, officer: Caller, order_id: UUID, intent: Intent
    ) -> None:
        quarantined_id = quarantine_charge(session, intent, intent.amount_minor, currency="USD")

        assert resolve(session, quarantined_id, officer, "refund").amount_minor == 0

        assert refunds_of(session, order_id) == []
        assert wallet_of(session, shop.buyer.id) == 0
        assert (
            "We returned your payment in another currency" in notification_bodies(session, shop.buyer.id)[-1]
        )

    def test_foreign_currency_charge_cannot_be_credited_to_the_wallet(
        self, session: Session, shop: Shop, officer: Caller, intent: Intent
    ) -> None:
        quarantined_id = quarantine_charge(session, intent, intent.amount_minor, currency="USD")
        before = notification_bodies(session, shop.buyer.id)

        with pytest.raises(QuarantineActionNotAllowedError, match="in the gateway's dashboard"):
            resolve(session, quarantined_id, officer, "wallet")

        assert row_of(session, "quarantined_charges", id=quarantined_id)["status"] == "open"
        assert notification_bodies(session, shop.buyer.id) == before


class TestDecision:
    def test_quarantine_decision_is_recorded_with_officer_and_reason(
        self, session: Session, officer: Caller, order_id: UUID, intent: Intent
    ) -> None:
        quarantined_id = quarantine_charge(session, intent, 500)

        resolve(session, quarantined_id, officer, "accept_rest")

        row = row_of(session, "quarantined_charges", id=quarantined_id)
        assert (row["status"], row["resolution"], row["resolution_note"]) == ("resolved", "accept_rest", NOTE)
        assert (row["resolved_by"], row["resolved_at"]) == (officer.id, NOW)
        [(action, before, after)] = audit_entries_of(session, quarantined_id)
        assert action == "quarantine.resolve"
        order = {"id": str(order_id), "status": "pending_payment", "acceptedMinor": 0}
        assert before == {"status": "open", "orders": [order]}
        assert after == {
            "status": "resolved",
            "resolution": "accept_rest",
            "note": NOTE,
            "amountMinor": 500,
            "orders": [order | {"acceptedMinor": 500}],
        }

    @pytest.mark.parametrize("first", ["accept_rest", "refund", "wallet"])
    @pytest.mark.parametrize("second", ["accept_rest", "refund", "wallet"])
    def test_charge_cannot_be_resolved_twice(
        self, session: Session, officer: Caller, intent: Intent, first: str, second: str
    ) -> None:
        quarantined_id = quarantine_charge(session, intent, 500)
        resolve(session, quarantined_id, officer, first)
        before = fetch_balances_by_kind(session)

        with pytest.raises(ChargeAlreadyResolvedError):
            resolve(session, quarantined_id, make_officer(session), second)

        assert fetch_balances_by_kind(session) == before

    @pytest.mark.parametrize("party", ["buyer", "vendor"])
    def test_party_of_the_order_cannot_resolve_the_charge(
        self, session: Session, shop: Shop, intent: Intent, party: str
    ) -> None:
        quarantined_id = quarantine_charge(session, intent, 500)

        with pytest.raises(ForbiddenError):
            resolve(session, quarantined_id, getattr(shop, party), "wallet")

    def test_unknown_charge_is_not_found(self, session: Session, officer: Caller) -> None:
        with pytest.raises(NotFoundError):
            resolve(session, uuid4(), officer, "refund")

    def test_charge_reported_again_with_id_is_refunded_once(
        self, session: Session, officer: Caller, order_id: UUID, intent: Intent
    ) -> None:
        quarantined_id = quarantine_charge(session, intent, 500, id=intent.reference)
        named = make_charge(intent, amount_minor=500)
        assert apply(session, named) is ChargeOutcome.DUPLICATE

        resolve(session, quarantined_id, officer, "refund")

        [made] = refunds_of(session, order_id)
        charge = row_of(session, "gateway_charges", id=made["charge_id"])
        assert (charge["gateway_charge_id"], charge["refunded_minor"]) == (named.id, 500)
        assert_ledger_is_consistent(session)

    def test_database_rejects_resolved_status_without_resolution_time(
        self, session: Session, officer: Caller, intent: Intent
    ) -> None:
        quarantined_id = quarantine_charge(session, intent, 500)

        with pytest.raises(Exception, match="resolved_at"), session.begin_nested():
            session.execute(
                text("UPDATE quarantined_charges SET status = 'resolved' WHERE id = :id"),
                {"id": quarantined_id},
            )
