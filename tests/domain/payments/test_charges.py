"""Charges: applied once or quarantined with a reason, with each kobo in the ledger."""

from uuid import UUID, uuid4

import pytest
from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.ledger.queries import fetch_balances_by_kind
from marketplace.orders import operations as orders
from marketplace.orders.transitions import SYSTEM, lock_order
from marketplace.payments.charges.apply import ChargeOutcome, UnknownReferenceError
from marketplace.payments.intents import lifecycle
from marketplace.payments.intents.lifecycle import Intent, PaymentTarget, get_or_create_intent
from marketplace.payments.refunds import order_cancellation
from tests.support.purchases import (
    NOW,
    Shop,
    apply,
    assert_ledger_is_consistent,
    balances_of_order,
    later,
    make_charge,
    make_intent,
    make_product,
    place,
    row_of,
    status_of,
    stock_of,
)


@pytest.fixture
def order_id(session: Session, shop: Shop) -> UUID:
    return place(session, shop, make_product(session, shop))


@pytest.fixture
def intent(session: Session, shop: Shop, order_id: UUID) -> Intent:
    return make_intent(session, shop, order_id)


def balance_changes(session: Session, before: dict[str, int]) -> dict[str, int]:
    after = fetch_balances_by_kind(session)
    return {
        kind: minor - before.get(kind, 0) for kind, minor in after.items() if minor != before.get(kind, 0)
    }


def quarantined_rows(session: Session, intent: Intent) -> list[dict[str, object]]:
    rows = session.execute(
        text("SELECT * FROM quarantined_charges WHERE intent_id = :id ORDER BY id"), {"id": intent.id}
    )
    return [dict(row) for row in rows.mappings()]


def test_exact_charge_goes_through_the_wallet_to_escrow(
    session: Session, order_id: UUID, intent: Intent
) -> None:
    before, total = fetch_balances_by_kind(session), intent.amount_minor

    outcome = apply(
        session, make_charge(intent, channel="ussd", paid_at=later(minutes=3)), now=later(minutes=4)
    )

    assert outcome is ChargeOutcome.APPLIED
    assert balance_changes(session, before) == {"gateway_clearing": total, "escrow": total}
    assert balances_of_order(session, order_id) == {"wallet": -total, "escrow": total}
    order = row_of(session, "orders", id=order_id)
    assert (order["status"], order["paid_at"]) == ("paid_escrow", later(minutes=3))
    assert (order["payment_reference"], order["payment_channel"]) == (intent.reference, "ussd")
    assert order["payment_status"] == "succeeded"
    assert row_of(session, "payment_intents", id=intent.id)["status"] == "succeeded"
    assert row_of(session, "escrows", order_id=order_id)["status"] == "held"
    assert_ledger_is_consistent(session)


def test_charge_without_paid_at_uses_processing_time(
    session: Session, order_id: UUID, intent: Intent
) -> None:
    apply(session, make_charge(intent, paid_at=None), now=later(minutes=4))

    assert row_of(session, "orders", id=order_id)["paid_at"] == later(minutes=4)


def test_repeated_charge_is_duplicate_and_changes_nothing(
    session: Session, order_id: UUID, intent: Intent
) -> None:
    charge = make_charge(intent)
    apply(session, charge)
    before, revision = fetch_balances_by_kind(session), row_of(session, "orders", id=order_id)["revision"]

    assert [apply(session, charge, now=later(days=1)) for _ in range(3)] == [ChargeOutcome.DUPLICATE] * 3

    assert balance_changes(session, before) == {}
    assert row_of(session, "orders", id=order_id)["revision"] == revision


def test_excess_above_order_total_stays_in_the_wallet(session: Session, shop: Shop, intent: Intent) -> None:
    before = fetch_balances_by_kind(session)

    outcome = apply(session, make_charge(intent, amount_minor=intent.amount_minor + 700))

    assert outcome is ChargeOutcome.APPLIED
    assert balance_changes(session, before) == {
        "gateway_clearing": intent.amount_minor + 700,
        "escrow": intent.amount_minor,
        "wallet": 700,
    }
    wallet = row_of(session, "ledger_accounts", kind="wallet", owner_id=shop.buyer.id)
    assert wallet["balance_minor"] == 700
    assert_ledger_is_consistent(session)


class TestFees:
    def test_fees_borne_by_platform_are_posted_as_cost(self, session: Session, intent: Intent) -> None:
        before, total = fetch_balances_by_kind(session), intent.amount_minor

        apply(session, make_charge(intent, fees_minor=1_500))

        assert balance_changes(session, before) == {
            "gateway_clearing": total - 1_500,
            "gateway_fees": 1_500,
            "escrow": total,
        }
        assert_ledger_is_consistent(session)

    def test_fees_borne_by_customer_are_paid_on_top(self, session: Session, intent: Intent) -> None:
        before, total = fetch_balances_by_kind(session), intent.amount_minor

        outcome = apply(
            session,
            make_charge(intent, amount_minor=total + 1_500, fees_minor=1_500),
            fee_bearer="customer",
        )

        assert outcome is ChargeOutcome.APPLIED
        assert balance_changes(session, before) == {"gateway_clearing": total, "escrow": total}
        assert_ledger_is_consistent(session)

    def test_charge_without_the_customer_fees_is_quarantined(self, session: Session, intent: Intent) -> None:
        before, total = fetch_balances_by_kind(session), intent.amount_minor

        outcome = apply(session, make_charge(intent, fees_minor=1_500), fee_bearer="customer")

        assert outcome is ChargeOutcome.QUARANTINED
        assert balance_changes(session, before) == {
            "gateway_clearing": total - 1_500,
            "quarantine": total - 1_500,
        }
        assert_ledger_is_consistent(session)

    def test_fees_of_a_quarantined_charge_are_posted(self, session: Session, intent: Intent) -> None:
        before = fetch_balances_by_kind(session)

        apply(session, make_charge(intent, amount_minor=5_000, fees_minor=75))

        assert balance_changes(session, before) == {
            "gateway_clearing": 4_925,
            "gateway_fees": 75,
            "quarantine": 5_000,
        }
        assert_ledger_is_consistent(session)


class TestQuarantine:
    @pytest.mark.parametrize("missing", [1, 100_000])
    def test_charge_below_total_is_quarantined(
        self, session: Session, order_id: UUID, intent: Intent, missing: int
    ) -> None:
        before, short = fetch_balances_by_kind(session), intent.amount_minor - missing
        charge = make_charge(intent, amount_minor=short)

        assert apply(session, charge) is ChargeOutcome.QUARANTINED
        assert apply(session, charge) is ChargeOutcome.DUPLICATE

        assert balance_changes(session, before) == {"gateway_clearing": short, "quarantine": short}
        [row] = quarantined_rows(session, intent)
        assert (row["reason"], row["amount_minor"], row["status"]) == ("amount_below_total", short, "open")
        assert row["ledger_transaction_id"] is not None
        assert row["details"]["expectedMinor"] == intent.amount_minor  # type: ignore[index]
        order = row_of(session, "orders", id=order_id)
        assert (order["status"], order["payment_status"]) == ("pending_payment", "quarantined")
        assert row_of(session, "payment_intents", id=intent.id)["status"] == "quarantined"
        assert_ledger_is_consistent(session)

    def test_zero_charge_is_quarantined_without_posting(self, session: Session, intent: Intent) -> None:
        before = fetch_balances_by_kind(session)

        assert apply(session, make_charge(intent, amount_minor=0)) is ChargeOutcome.QUARANTINED

        assert balance_changes(session, before) == {}
        [row] = quarantined_rows(session, intent)
        assert (row["amount_minor"], row["ledger_transaction_id"]) == (0, None)

    def test_charge_in_another_currency_is_quarantined_without_posting(
        self, session: Session, order_id: UUID, intent: Intent
    ) -> None:
        before = fetch_balances_by_kind(session)

        assert apply(session, make_charge(intent, currency="USD")) is ChargeOutcome.QUARANTINED

        assert balance_changes(session, before) == {}
        [row] = quarantined_rows(session, intent)
        assert (row["reason"], row["currency"], row["ledger_transaction_id"]) == ("currency", "USD", None)
        assert status_of(session, order_id) == "pending_payment"

    def test_full_charge_after_quarantined_charge_pays_the_order(
        self, session: Session, order_id: UUID, intent: Intent
    ) -> None:
        apply(session, make_charge(intent, amount_minor=100))

        assert apply(session, make_charge(intent)) is ChargeOutcome.APPLIED

        assert status_of(session, order_id) == "paid_escrow"
        assert row_of(session, "payment_intents", id=intent.id)["status"] == "succeeded"
        assert [row["status"] for row in quarantined_rows(session, intent)] == ["open"]
        assert_ledger_is_consistent(session)

    def test_second_charge_in_another_currency_leaves_payment_succeeded(
        self, session: Session, order_id: UUID, intent: Intent
    ) -> None:
        apply(session, make_charge(intent))

        assert apply(session, make_charge(intent, currency="USD")) is ChargeOutcome.QUARANTINED

        assert row_of(session, "payment_intents", id=intent.id)["status"] == "succeeded"
        assert row_of(session, "orders", id=order_id)["payment_status"] == "succeeded"


def refund_rows(session: Session, intent: Intent) -> list[dict[str, object]]:
    rows = session.execute(
        text(
            "SELECT r.*, c.gateway_charge_id, c.outcome, c.refunded_minor FROM refunds r"
            " JOIN gateway_charges c ON c.id = r.charge_id WHERE c.intent_id = :id ORDER BY r.id"
        ),
        {"id": intent.id},
    )
    return [dict(row) for row in rows.mappings()]


def notification_types(session: Session, user_id: UUID) -> list[str]:
    rows = session.execute(
        text("SELECT type FROM notifications WHERE user_id = :id ORDER BY id"), {"id": user_id}
    )
    return list(rows.scalars())


class TestFeesAboveTheAmount:
    """Charges with fees above the amount: quarantined without paying an order or posting a fee."""

    @pytest.mark.parametrize("bearer", ["platform", "customer"])
    @pytest.mark.parametrize("cancelled", [False, True])
    def test_charge_with_fees_above_amount_is_fully_quarantined(
        self, session: Session, shop: Shop, order_id: UUID, intent: Intent, bearer: str, cancelled: bool
    ) -> None:
        if cancelled:
            order_cancellation.cancel_order(
                session, order_id=order_id, caller=shop.buyer, reason=None, now=NOW
            )
        before = fetch_balances_by_kind(session)

        charge = make_charge(intent, fees_minor=10**9)
        assert apply(session, charge, fee_bearer=bearer) is ChargeOutcome.QUARANTINED

        held = row_of(session, "quarantined_charges", gateway_charge_id=charge.id)
        assert (held["reason"], held["fees_minor"]) == ("fees_above_amount", 10**9)
        after = fetch_balances_by_kind(session)
        moved = {kind: after[kind] - before[kind] for kind in after if after[kind] != before[kind]}
        assert moved == {"gateway_clearing": intent.amount_minor, "quarantine": intent.amount_minor}
        assert status_of(session, order_id) == ("cancelled" if cancelled else "pending_payment")
        notification = row_of(session, "notifications", user_id=shop.buyer.id, type="payment_held")
        assert "incorrect fee data" in notification["body"]
        assert_ledger_is_consistent(session)

    def test_charge_with_fees_equal_to_amount_is_applied(
        self, session: Session, order_id: UUID, intent: Intent
    ) -> None:
        assert apply(session, make_charge(intent, fees_minor=intent.amount_minor)) is ChargeOutcome.APPLIED
        assert_ledger_is_consistent(session)

    @pytest.mark.parametrize("fees", [0, 1])
    def test_zero_charge_with_or_without_fees_is_quarantined(
        self, session: Session, order_id: UUID, intent: Intent, fees: int
    ) -> None:
        charge = make_charge(intent, amount_minor=0, fees_minor=fees)
        assert apply(session, charge) is ChargeOutcome.QUARANTINED

        held = row_of(session, "quarantined_charges", gateway_charge_id=charge.id)
        assert held["reason"] == ("fees_above_amount" if fees else "amount_below_total")
        assert held["ledger_transaction_id"] is None
        assert_ledger_is_consistent(session)


class TestReturned:
    def test_second_charge_for_paid_order_is_returned(
        self, session: Session, shop: Shop, order_id: UUID, intent: Intent
    ) -> None:
        apply(session, make_charge(intent))
        before, again = fetch_balances_by_kind(session), make_charge(intent)

        assert apply(session, again) is ChargeOutcome.RETURNED
        assert apply(session, again) is ChargeOutcome.DUPLICATE

        assert balance_changes(session, before) == {
            "gateway_clearing": intent.amount_minor,
            "refunds_in_transit": intent.amount_minor,
        }
        [refund] = refund_rows(session, intent)
        assert (refund["gateway_charge_id"], refund["outcome"]) == (again.id, "returned")
        assert (refund["amount_minor"], refund["status"]) == (intent.amount_minor, "pending")
        assert (refund["order_id"], refund["buyer_id"]) == (order_id, shop.buyer.id)
        assert refund["reason"] == "The order was already paid."
        order = row_of(session, "orders", id=order_id)
        assert (order["status"], order["payment_status"]) == ("paid_escrow", "succeeded")
        assert row_of(session, "payment_intents", id=intent.id)["status"] == "succeeded"
        assert notification_types(session, shop.buyer.id) == ["order_paid", "payment_returned"]
        assert quarantined_rows(session, intent) == []
        assert_ledger_is_consistent(session)

    @pytest.mark.parametrize("end", ["cancelled", "expired"])
    @pytest.mark.parametrize("difference", [-100, 0, 700])
    def test_late_charge_is_returned(
        self, session: Session, shop: Shop, order_id: UUID, intent: Intent, end: str, difference: int
    ) -> None:
        if end == "cancelled":
            order_cancellation.cancel_order(
                session, order_id=order_id, caller=shop.buyer, reason=None, now=NOW
            )
        else:
            orders.expire_order(session, order=lock_order(session, order_id=order_id), actor=SYSTEM, now=NOW)
        before, paid = fetch_balances_by_kind(session), intent.amount_minor + difference

        assert apply(session, make_charge(intent, amount_minor=paid, fees_minor=75)) is ChargeOutcome.RETURNED

        # The gateway keeps the fee, so the platform bears that cost.
        assert balance_changes(session, before) == {
            "gateway_clearing": paid - 75,
            "gateway_fees": 75,
            "refunds_in_transit": paid,
        }
        [refund] = refund_rows(session, intent)
        assert (refund["amount_minor"], refund["refunded_minor"]) == (paid, paid)
        assert "payment arrived" in str(refund["reason"])
        assert status_of(session, order_id) == end
        assert row_of(session, "escrows", order_id=order_id)["status"] == "pending"
        assert_ledger_is_consistent(session)

    def test_late_charge_is_returned_without_the_customer_fees(
        self, session: Session, shop: Shop, order_id: UUID, intent: Intent
    ) -> None:
        order_cancellation.cancel_order(session, order_id=order_id, caller=shop.buyer, reason=None, now=NOW)
        before, total = fetch_balances_by_kind(session), intent.amount_minor

        charge = make_charge(intent, amount_minor=total + 1_500, fees_minor=1_500)
        assert apply(session, charge, fee_bearer="customer") is ChargeOutcome.RETURNED

        assert balance_changes(session, before) == {"gateway_clearing": total, "refunds_in_transit": total}
        assert [refund["amount_minor"] for refund in refund_rows(session, intent)] == [total]
        assert_ledger_is_consistent(session)

    @pytest.mark.parametrize("amount", [0, 50])
    def test_late_charge_consumed_by_fees_creates_no_refund(
        self, session: Session, shop: Shop, order_id: UUID, intent: Intent, amount: int
    ) -> None:
        order_cancellation.cancel_order(session, order_id=order_id, caller=shop.buyer, reason=None, now=NOW)

        charge = make_charge(intent, amount_minor=amount, fees_minor=amount)
        assert apply(session, charge, fee_bearer="customer") is ChargeOutcome.RETURNED

        assert row_of(session, "gateway_charges", gateway_charge_id=charge.id)["outcome"] == "returned"
        assert refund_rows(session, intent) == []
        assert_ledger_is_consistent(session)


def test_charge_for_overdue_unexpired_order_is_applied(
    session: Session, order_id: UUID, intent: Intent
) -> None:
    assert apply(session, make_charge(intent), now=later(hours=2)) is ChargeOutcome.APPLIED
    assert status_of(session, order_id) == "paid_escrow"


@pytest.mark.parametrize("missing", [0, 100])
@pytest.mark.parametrize("first_has_id", [True, False])
def test_charge_reported_with_and_without_id_is_duplicate(
    session: Session, intent: Intent, missing: int, first_has_id: bool
) -> None:
    """The gateway may omit the charge id in an event and report the id when polled."""
    before, amount = fetch_balances_by_kind(session), intent.amount_minor - missing
    named = make_charge(intent, amount_minor=amount)
    nameless = make_charge(intent, amount_minor=amount, id=intent.reference)
    first, second = (named, nameless) if first_has_id else (nameless, named)

    assert apply(session, first) is (ChargeOutcome.QUARANTINED if missing else ChargeOutcome.APPLIED)
    assert apply(session, second) is ChargeOutcome.DUPLICATE
    assert apply(session, first) is ChargeOutcome.DUPLICATE

    assert balance_changes(session, before)["gateway_clearing"] == amount
    assert_ledger_is_consistent(session)


def test_charge_with_different_id_is_returned_as_second_payment(session: Session, intent: Intent) -> None:
    nameless, named = make_charge(intent, id=intent.reference), make_charge(intent)
    assert apply(session, nameless) is ChargeOutcome.APPLIED
    assert apply(session, named) is ChargeOutcome.DUPLICATE
    assert row_of(session, "payment_intents", id=intent.id)["gateway_charge_id"] == named.id

    assert apply(session, make_charge(intent)) is ChargeOutcome.RETURNED
    assert [apply(session, charge) for charge in (nameless, named)] == [ChargeOutcome.DUPLICATE] * 2
    assert_ledger_is_consistent(session)


def test_charge_with_unknown_reference_is_refused(session: Session, intent: Intent) -> None:
    charge = make_charge(intent, reference=f"checkout-{'0' * 32}")

    with pytest.raises(UnknownReferenceError):
        apply(session, charge)


def test_charge_of_abandoned_attempt_pays_the_order(
    session: Session, shop: Shop, order_id: UUID, intent: Intent
) -> None:
    lifecycle.abandon_intent(session, intent_id=intent.id, now=NOW)
    fresh = make_intent(session, shop, order_id)
    assert fresh.reference != intent.reference

    assert apply(session, make_charge(intent)) is ChargeOutcome.APPLIED
    assert apply(session, make_charge(fresh)) is ChargeOutcome.RETURNED

    assert status_of(session, order_id) == "paid_escrow"
    assert row_of(session, "orders", id=order_id)["payment_reference"] == intent.reference
    assert [refund["amount_minor"] for refund in refund_rows(session, fresh)] == [fresh.amount_minor]
    assert_ledger_is_consistent(session)


def checkout(session: Session, shop: Shop, number: int = 3) -> tuple[list[UUID], list[UUID], UUID]:
    """Place orders of a checkout and return the product ids, order ids and checkout id."""
    products = [make_product(session, shop, quantity=3) for _ in range(number)]
    placed, checkout_id = [place(session, shop, product) for product in products], uuid4()
    session.execute(
        text("UPDATE orders SET checkout_id = :checkout WHERE id = ANY(:ids)"),
        {"checkout": checkout_id, "ids": placed},
    )
    return products, placed, checkout_id


def intent_of_checkout(session: Session, shop: Shop, checkout_id: UUID) -> Intent:
    return get_or_create_intent(
        session,
        buyer_id=shop.buyer.id,
        target=PaymentTarget(checkout_id=checkout_id),
        callback_url=None,
        now=NOW,
    )


def test_charge_pays_several_orders_of_a_checkout(session: Session, shop: Shop) -> None:
    products, placed, checkout_id = checkout(session, shop)
    intent = intent_of_checkout(session, shop, checkout_id)
    before = fetch_balances_by_kind(session)

    assert apply(session, make_charge(intent, amount_minor=intent.amount_minor + 9)) is ChargeOutcome.APPLIED

    assert balance_changes(session, before)["escrow"] == intent.amount_minor
    assert [status_of(session, order_id) for order_id in placed] == ["paid_escrow"] * 3
    assert [stock_of(session, product) for product in products] == [(2, 0)] * 3
    assert notification_types(session, shop.buyer.id) == ["order_paid"] * 3 + ["wallet_credited"]
    assert_ledger_is_consistent(session)


@pytest.mark.parametrize("short", [False, True])
def test_checkout_charge_returns_share_of_cancelled_order(session: Session, shop: Shop, short: bool) -> None:
    _, placed, checkout_id = checkout(session, shop)
    intent = intent_of_checkout(session, shop, checkout_id)
    order_cancellation.cancel_order(session, order_id=placed[1], caller=shop.buyer, reason=None, now=NOW)
    before, each = fetch_balances_by_kind(session), intent.amount_minor // 3

    # A shortfall reduces the returned amount, so the waiting orders can still be paid.
    missing = 50 if short else 0
    assert (
        apply(session, make_charge(intent, amount_minor=intent.amount_minor - missing))
        is ChargeOutcome.APPLIED
    )

    assert balance_changes(session, before) == {
        "gateway_clearing": 3 * each - missing,
        "escrow": 2 * each,
        "refunds_in_transit": each - missing,
    }
    [refund] = refund_rows(session, intent)
    assert (refund["order_id"], refund["amount_minor"]) == (placed[1], each - missing)
    assert [status_of(session, order_id) for order_id in placed] == [
        "paid_escrow",
        "cancelled",
        "paid_escrow",
    ]
    assert_ledger_is_consistent(session)


def test_charge_below_due_total_of_checkout_pays_no_order(session: Session, shop: Shop) -> None:
    _, placed, checkout_id = checkout(session, shop)
    intent = intent_of_checkout(session, shop, checkout_id)
    order_cancellation.cancel_order(session, order_id=placed[1], caller=shop.buyer, reason=None, now=NOW)

    charge = make_charge(intent, amount_minor=2 * intent.amount_minor // 3 - 1)
    assert apply(session, charge) is ChargeOutcome.QUARANTINED

    assert [row_of(session, "orders", id=order_id)["payment_status"] for order_id in placed] == [
        "quarantined",
        "abandoned",
        "quarantined",
    ]
    assert_ledger_is_consistent(session)


def test_checkout_charge_returns_share_of_separately_paid_order(session: Session, shop: Shop) -> None:
    _, placed, checkout_id = checkout(session, shop)
    intent = intent_of_checkout(session, shop, checkout_id)
    lifecycle.abandon_intent(session, intent_id=intent.id, now=NOW)
    alone = make_intent(session, shop, placed[0])
    apply(session, make_charge(alone))

    assert apply(session, make_charge(intent)) is ChargeOutcome.APPLIED

    assert [status_of(session, order_id) for order_id in placed] == ["paid_escrow"] * 3
    [refund] = refund_rows(session, intent)
    assert (refund["order_id"], refund["amount_minor"]) == (placed[0], alone.amount_minor)
    assert refund_rows(session, alone) == []
    assert_ledger_is_consistent(session)


def test_charge_for_fully_cancelled_checkout_is_returned_per_order(session: Session, shop: Shop) -> None:
    _, placed, checkout_id = checkout(session, shop)
    intent = intent_of_checkout(session, shop, checkout_id)
    for order_id in placed:
        order_cancellation.cancel_order(session, order_id=order_id, caller=shop.buyer, reason=None, now=NOW)
    each = intent.amount_minor // 3

    charge = make_charge(intent, amount_minor=intent.amount_minor + 9)
    assert apply(session, charge) is ChargeOutcome.RETURNED

    refunds = refund_rows(session, intent)
    assert {refund["order_id"]: refund["amount_minor"] for refund in refunds} == {
        placed[0]: each,
        placed[1]: each,
        placed[2]: each + 9,
    }
    assert {refund["refunded_minor"] for refund in refunds} == {intent.amount_minor + 9}
    assert_ledger_is_consistent(session)
