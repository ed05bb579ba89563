"""Charges that are held back, and what becomes of them when an officer has decided."""

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
    audited,
    dispute_charge,
    make_officer,
    refunds_of,
    say,
    sums_of,
    told,
)
from tests.support.gateway import TestGateway
from tests.support.purchases import (
    NOW,
    Shop,
    apply,
    assert_books_are_whole,
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


def hold_back(session: Session, intent: Intent, amount_minor: int, **charge: object) -> UUID:
    """Have a charge held back, and give its row's id."""
    made = make_charge(intent, amount_minor=amount_minor, **charge)
    assert apply(session, made) is ChargeOutcome.QUARANTINED
    found: UUID = row_of(session, "quarantined_charges", gateway_charge_id=made.id)["id"]
    return found


def resolve(
    session: Session, held_id: UUID, officer: Caller, action: str, **delta: float
) -> quarantine.ResolvedCharge:
    return quarantine.resolve_quarantined_charge(
        session,
        quarantined_charge_id=held_id,
        action=action,  # type: ignore[arg-type]
        note=NOTE,
        act=act_of(officer, now=later(**delta)),
    )


@pytest.fixture
def intent(session: Session, shop: Shop, order_id: UUID) -> Intent:
    return make_intent(session, shop, order_id)


@pytest.mark.parametrize("action", ["accept_rest", "refund", "wallet"])
def test_what_the_bank_may_give_back_is_not_decided_on(
    session: Session, officer: Caller, intent: Intent, action: str
) -> None:
    held_id = hold_back(session, intent, 1_000)
    dispute_charge(session, row_of(session, "quarantined_charges", id=held_id)["gateway_charge_id"])

    with pytest.raises(ChargedBackError, match="retry after the dispute is won"):
        resolve(session, held_id, officer, action)

    assert row_of(session, "quarantined_charges", id=held_id)["status"] == "open"


class TestAcceptingTheRest:
    def test_accepted_charge_is_a_partial_payment_and_a_new_page_asks_the_difference(
        self, session: Session, shop: Shop, officer: Caller, order_id: UUID, intent: Intent
    ) -> None:
        held_id = hold_back(session, intent, intent.amount_minor - 500)
        with pytest.raises(NotPayableError, match="under review"):
            make_intent(session, shop, order_id)

        done = resolve(session, held_id, officer, "accept_rest", hours=5)

        assert done.amount_minor == intent.amount_minor - 500
        order = row_of(session, "orders", id=order_id)
        assert (order["status"], order["payment_status"]) == ("pending_payment", None)
        assert (order["wallet_minor"], order["accepted_minor"]) == (0, intent.amount_minor - 500)
        assert order["expires_at"] == later(hours=29)
        assert balances_of_order(session, order_id)["escrow"] == intent.amount_minor - 500
        assert told(session, shop.buyer.id)[-1] == "payment_resolved"
        assert_books_are_whole(session)
        fresh = make_intent(session, shop, order_id, now=later(hours=6))
        assert (fresh.amount_minor, fresh.reference != intent.reference) == (500, True)

        assert apply(session, make_charge(fresh)) is ChargeOutcome.APPLIED

        assert status_of(session, order_id) == "paid_escrow"
        assert balances_of_order(session, order_id)["escrow"] == intent.amount_minor
        assert_books_are_whole(session)
        # Called off, each charge goes back to where it came from.
        order_cancellation.cancel_order(session, order_id=order_id, caller=shop.buyer, reason=None, now=NOW)
        assert back_by_charge(session, order_id) == {
            charge_of(session, intent): intent.amount_minor - 500,
            charge_of(session, fresh): 500,
        }
        assert wallet_of(session, shop.buyer.id) == 0
        assert_books_are_whole(session)

    def test_several_that_suffice_together_pay_the_order(
        self, session: Session, shop: Shop, officer: Caller, order_id: UUID, intent: Intent
    ) -> None:
        one = hold_back(session, intent, intent.amount_minor - 500)
        other = hold_back(session, intent, 700)
        resolve(session, one, officer, "accept_rest")
        # Something is held back of it still.
        assert row_of(session, "orders", id=order_id)["payment_status"] == "quarantined"

        done = resolve(session, other, officer, "accept_rest")

        assert done.orders[0].status == "paid_escrow"
        product_id = row_of(session, "order_items", order_id=order_id)["product_id"]
        assert stock_of(session, product_id) == (4, 0)
        assert wallet_of(session, shop.buyer.id) == 200
        assert row_of(session, "payment_intents", id=intent.id)["status"] == "succeeded"
        assert_books_are_whole(session)
        order_cancellation.cancel_order(session, order_id=order_id, caller=shop.buyer, reason=None, now=NOW)
        # Both came by the gateway for this order, and go back by it.
        assert [part for part in sums_of(session, order_id) if part[0] == "gateway"] == [
            ("gateway", "pending", intent.amount_minor - 500),
            ("gateway", "pending", 500),
        ]
        assert wallet_of(session, shop.buyer.id) == 200
        assert_books_are_whole(session)

    def test_what_is_more_than_the_order_costs_is_told_of_with_what_it_took(
        self, session: Session, shop: Shop, officer: Caller
    ) -> None:
        done = check_out(
            session,
            shop,
            [RequestedItem(make_product(session, one), 1) for one in neighbours(session, shop, 2)],
        )
        assert done.payment is not None
        held_id = hold_back(session, done.payment, done.payment.amount_minor - 1)
        first, second = (row_of(session, "orders", id=order_id) for order_id in done.order_ids)
        order_cancellation.cancel_order(
            session, order_id=first["id"], caller=shop.buyer, reason=None, now=NOW
        )

        resolve(session, held_id, officer, "accept_rest")

        [body] = [body for body in news_of(session, shop.buyer.id) if "accepted" in body]
        assert body == (
            f"We accepted {format_naira(second['total_minor'])}. Your payment for {second['number']} is complete."
            f" The extra {format_naira(first['total_minor'] - 1)} is in your wallet."
        )
        assert wallet_of(session, shop.buyer.id) == first["total_minor"] - 1
        assert_books_are_whole(session)

    def test_what_the_wallet_paid_goes_back_to_it_and_what_was_accepted_to_its_channel(
        self, session: Session, shop: Shop, officer: Caller
    ) -> None:
        fill_wallet(session, shop.buyer.id, 3_000)
        order_id = place(session, shop, make_product(session, shop), wallet=WalletUse(3_000))
        first = make_intent(session, shop, order_id)
        resolve(session, hold_back(session, first, 7_000), officer, "accept_rest")
        assert apply(session, make_charge(make_intent(session, shop, order_id))) is ChargeOutcome.APPLIED

        order_cancellation.cancel_order(session, order_id=order_id, caller=shop.buyer, reason=None, now=NOW)

        assert sums_of(session, order_id) == [
            ("gateway", "pending", 7_000),
            ("gateway", "pending", first.amount_minor - 7_000),
            ("wallet", "processed", 3_000),
        ]
        assert wallet_of(session, shop.buyer.id) == 3_000
        assert_books_are_whole(session)

    def test_of_a_checkout_each_orders_share_of_it_goes_back_to_its_channel(
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
            hold_back(session, done.payment, done.payment.amount_minor - 100_001),
            officer,
            "accept_rest",
        )
        fresh = make_intent_of_checkout(session, shop, done)
        assert apply(session, make_charge(fresh)) is ChargeOutcome.APPLIED

        for order_id in done.order_ids:
            order_cancellation.cancel_order(
                session, order_id=order_id, caller=shop.buyer, reason=None, now=NOW
            )
            assert {destination for destination, *_ in sums_of(session, order_id)} == {"gateway"}
            assert "to your original payment method" in news_of(session, shop.buyer.id)[-1]
            assert "wallet" not in news_of(session, shop.buyer.id)[-1]
            assert_books_are_whole(session)

        for intent in (done.payment, fresh):
            charge = row_of(session, "gateway_charges", id=charge_of(session, intent))
            assert charge["refunded_minor"] == charge["principal_minor"]

    @pytest.mark.parametrize("party", ["buyer", "vendor"])
    def test_what_was_accepted_for_an_order_that_is_called_off_unpaid_goes_back_to_its_channel(
        self, session: Session, shop: Shop, officer: Caller, party: str
    ) -> None:
        fill_wallet(session, shop.buyer.id, 3_000)
        order_id = place(session, shop, make_product(session, shop), wallet=WalletUse(3_000))
        resolve(
            session, hold_back(session, make_intent(session, shop, order_id), 700), officer, "accept_rest"
        )

        order_cancellation.cancel_order(
            session, order_id=order_id, caller=getattr(shop, party), reason=None, now=NOW
        )

        assert sums_of(session, order_id) == [("gateway", "pending", 700)]
        assert wallet_of(session, shop.buyer.id) == 3_000
        assert "escrow" not in balances_of_order(session, order_id)
        assert "NGN 7.00 is going back to your original payment method" in news_of(session, shop.buyer.id)[-1]
        assert "NGN 30.00 is back in your wallet" in news_of(session, shop.buyer.id)[-1]
        assert_books_are_whole(session)

    @pytest.mark.parametrize("missing", [1, 100_001])
    def test_orders_of_a_checkout_are_paid_in_part_and_then_all_at_once(
        self, session: Session, shop: Shop, officer: Caller, missing: int
    ) -> None:
        done: CheckoutResult = check_out(
            session,
            shop,
            [RequestedItem(make_product(session, one), 1) for one in neighbours(session, shop, 2)],
        )
        assert done.payment is not None
        total = done.payment.amount_minor
        held_id = hold_back(session, done.payment, total - missing)

        resolve(session, held_id, officer, "accept_rest")

        rows = [row_of(session, "orders", id=order_id) for order_id in done.order_ids]
        assert [row["status"] for row in rows] == ["pending_payment"] * 2
        assert sum(row["accepted_minor"] for row in rows) == total - missing
        fresh = make_intent_of_checkout(session, shop, done)
        assert fresh.amount_minor == missing
        assert apply(session, make_charge(fresh)) is ChargeOutcome.APPLIED
        assert [status_of(session, order_id) for order_id in done.order_ids] == ["paid_escrow"] * 2
        assert_books_are_whole(session)

    def test_no_order_that_waits_for_it(
        self, session: Session, shop: Shop, officer: Caller, order_id: UUID, intent: Intent
    ) -> None:
        held_id = hold_back(session, intent, 500)
        order_cancellation.cancel_order(session, order_id=order_id, caller=shop.buyer, reason=None, now=NOW)

        with pytest.raises(QuarantineActionNotAllowedError, match="No order is awaiting"):
            resolve(session, held_id, officer, "accept_rest")

        assert row_of(session, "quarantined_charges", id=held_id)["status"] == "open"

    def test_money_that_is_in_no_book_pays_nothing(
        self, session: Session, officer: Caller, intent: Intent
    ) -> None:
        foreign = hold_back(session, intent, intent.amount_minor, currency="USD")
        nothing = hold_back(session, intent, 0)

        for held_id in (foreign, nothing):
            with pytest.raises(QuarantineActionNotAllowedError, match="no amount"):
                resolve(session, held_id, officer, "accept_rest")

    def test_what_is_not_paid_in_the_end_goes_back_to_its_channel(
        self,
        database: Database,
        gateway: TestGateway,
        settings: Settings,
    ) -> None:
        """The sweep asks the gateway, which tells of the charge that was held back: that is old news."""
        with database.transaction() as session:
            shop, officer = make_shop(session), make_officer(session)
            order_id = place(session, shop, make_product(session, shop))
            intent = make_intent(session, shop, order_id)
            record_hosted_page(session, intent=intent, page=PaymentPage("https://pay/x", "x"), now=NOW)
        gateway.open(intent.reference, intent.amount_minor)
        charge = gateway.charge_of_paid(intent.reference, amountMinor=intent.amount_minor - 500)
        with database.transaction() as session:
            assert apply(session, charge) is ChargeOutcome.QUARANTINED
            held = row_of(session, "quarantined_charges", gateway_charge_id=charge.id)
            resolve(session, held["id"], officer, "accept_rest")

        for hours in (23, 25):
            sweep_abandoned_checkouts(
                database, gateway.adapter(settings), fee_bearer="platform", now=later(hours=hours)
            )
            with database.reading() as session:
                assert status_of(session, order_id) == ("expired" if hours == 25 else "pending_payment")

        with database.reading() as session:
            assert sums_of(session, order_id) == [("gateway", "pending", intent.amount_minor - 500)]
            assert wallet_of(session, shop.buyer.id) == 0
            assert "is being returned the way you paid it" in news_of(session, shop.buyer.id)[-1]
            assert_books_are_whole(session)


def charge_of(session: Session, intent: Intent) -> UUID:
    """Give the row of the one charge of a payment."""
    found: UUID = row_of(session, "gateway_charges", intent_id=intent.id)["id"]
    return found


def back_by_charge(session: Session, order_id: UUID) -> dict[UUID | None, int]:
    return {refund["charge_id"]: refund["amount_minor"] for refund in refunds_of(session, order_id)}


def news_of(session: Session, user_id: UUID) -> list[str]:
    """Give what somebody was told, the earliest first."""
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


class TestGivingBack:
    def test_by_the_gateway(
        self, session: Session, shop: Shop, officer: Caller, order_id: UUID, intent: Intent
    ) -> None:
        held_id = hold_back(session, intent, intent.amount_minor - 500, fees_minor=75)
        before = fetch_balances_by_kind(session)

        resolve(session, held_id, officer, "refund", minutes=50)

        [made] = refunds_of(session, order_id)
        assert (made["destination"], made["status"]) == ("gateway", "pending")
        assert made["amount_minor"] == intent.amount_minor - 500
        after = fetch_balances_by_kind(session)
        assert after["quarantine"] == before["quarantine"] - made["amount_minor"]
        assert after["refunds_in_transit"] == before["refunds_in_transit"] + made["amount_minor"]
        # The order can be paid anew, and there is time for it.
        assert row_of(session, "orders", id=order_id)["expires_at"] == later(minutes=80)
        assert make_intent(session, shop, order_id, now=later(minutes=51)).amount_minor == intent.amount_minor
        assert say(session, made["id"], "processed") == "processed"
        assert_books_are_whole(session)

    def test_to_the_wallet(
        self, session: Session, shop: Shop, officer: Caller, order_id: UUID, intent: Intent
    ) -> None:
        held_id = hold_back(session, intent, intent.amount_minor - 500)

        resolve(session, held_id, officer, "wallet")

        assert sums_of(session, order_id) == [("wallet", "processed", intent.amount_minor - 500)]
        assert wallet_of(session, shop.buyer.id) == intent.amount_minor - 500
        assert_books_are_whole(session)

    def test_fees_that_the_customer_bore_are_not_given_back(
        self, session: Session, shop: Shop, officer: Caller, order_id: UUID, intent: Intent
    ) -> None:
        charge = make_charge(intent, fees_minor=1_500)
        assert apply(session, charge, fee_bearer="customer") is ChargeOutcome.QUARANTINED
        held = row_of(session, "quarantined_charges", gateway_charge_id=charge.id)

        resolve(session, held["id"], officer, "refund")

        assert sums_of(session, order_id) == [("gateway", "pending", intent.amount_minor - 1_500)]
        assert_books_are_whole(session)

    def test_money_of_an_order_that_was_paid_otherwise(
        self, session: Session, officer: Caller, order_id: UUID, intent: Intent
    ) -> None:
        held_id = hold_back(session, intent, 500)
        assert apply(session, make_charge(intent)) is ChargeOutcome.APPLIED

        resolve(session, held_id, officer, "refund")

        order = row_of(session, "orders", id=order_id)
        assert (order["status"], order["payment_status"]) == ("paid_escrow", "succeeded")
        assert_books_are_whole(session)

    def test_what_is_in_no_book_is_noted_alone(
        self, session: Session, shop: Shop, officer: Caller, order_id: UUID, intent: Intent
    ) -> None:
        held_id = hold_back(session, intent, intent.amount_minor, currency="USD")

        assert resolve(session, held_id, officer, "refund").amount_minor == 0

        assert refunds_of(session, order_id) == []
        assert wallet_of(session, shop.buyer.id) == 0
        assert "We returned your payment in another currency" in news_of(session, shop.buyer.id)[-1]

    def test_what_is_in_no_book_is_none_for_the_wallet(
        self, session: Session, shop: Shop, officer: Caller, intent: Intent
    ) -> None:
        held_id = hold_back(session, intent, intent.amount_minor, currency="USD")
        before = news_of(session, shop.buyer.id)

        with pytest.raises(QuarantineActionNotAllowedError, match="in the gateway's dashboard"):
            resolve(session, held_id, officer, "wallet")

        assert row_of(session, "quarantined_charges", id=held_id)["status"] == "open"
        assert news_of(session, shop.buyer.id) == before


class TestDeciding:
    def test_quarantine_decision_is_recorded_with_officer_and_reason(
        self, session: Session, officer: Caller, order_id: UUID, intent: Intent
    ) -> None:
        held_id = hold_back(session, intent, 500)

        resolve(session, held_id, officer, "accept_rest")

        row = row_of(session, "quarantined_charges", id=held_id)
        assert (row["status"], row["resolution"], row["resolution_note"]) == ("resolved", "accept_rest", NOTE)
        assert (row["resolved_by"], row["resolved_at"]) == (officer.id, NOW)
        [(action, before, after)] = audited(session, held_id)
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
    def test_once(self, session: Session, officer: Caller, intent: Intent, first: str, second: str) -> None:
        held_id = hold_back(session, intent, 500)
        resolve(session, held_id, officer, first)
        before = fetch_balances_by_kind(session)

        with pytest.raises(ChargeAlreadyResolvedError):
            resolve(session, held_id, make_officer(session), second)

        assert fetch_balances_by_kind(session) == before

    @pytest.mark.parametrize("party", ["buyer", "vendor"])
    def test_by_nobody_who_is_a_party(self, session: Session, shop: Shop, intent: Intent, party: str) -> None:
        held_id = hold_back(session, intent, 500)

        with pytest.raises(ForbiddenError):
            resolve(session, held_id, getattr(shop, party), "wallet")

    def test_what_there_is(self, session: Session, officer: Caller) -> None:
        with pytest.raises(NotFoundError):
            resolve(session, uuid4(), officer, "refund")

    def test_a_charge_that_got_its_id_later_is_the_same(
        self, session: Session, officer: Caller, order_id: UUID, intent: Intent
    ) -> None:
        held_id = hold_back(session, intent, 500, id=intent.reference)
        named = make_charge(intent, amount_minor=500)
        assert apply(session, named) is ChargeOutcome.DUPLICATE

        resolve(session, held_id, officer, "refund")

        [made] = refunds_of(session, order_id)
        charge = row_of(session, "gateway_charges", id=made["charge_id"])
        assert (charge["gateway_charge_id"], charge["refunded_minor"]) == (named.id, 500)
        assert_books_are_whole(session)

    def test_the_database_knows_no_half_decision(
        self, session: Session, officer: Caller, intent: Intent
    ) -> None:
        held_id = hold_back(session, intent, 500)

        with pytest.raises(Exception, match="resolved_at"), session.begin_nested():
            session.execute(
                text("UPDATE quarantined_charges SET status = 'resolved' WHERE id = :id"), {"id": held_id}
            )
