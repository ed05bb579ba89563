"""Lost chargebacks: vendor, platform or buyer bears the loss, and the buyer receives the money once."""

from typing import Any
from uuid import UUID

import pytest
from sqlalchemy.orm import Session

from marketplace.identity.queries import Caller
from marketplace.kernel.money import format_naira
from marketplace.ledger import accounts
from marketplace.ledger.queries import fetch_balance, fetch_balances_by_kind
from marketplace.payments.charges import quarantine
from marketplace.payments.guards import ChargedBackError
from marketplace.payments.money_trail.build import build_money_trail
from marketplace.payments.refunds import gateway_refund
from tests.support.alerts import alerts_about
from tests.support.finance import (
    BALANCES_AFTER_MONEY_RETURNED,
    PLATFORM_SHARE,
    TOTAL,
    VENDOR_BALANCES_AFTER_CLAWBACK,
    VENDOR_SHARE,
    act_of,
    buyer_debt_of,
    claw_back,
    delivered_order,
    dispute_charge,
    lose_dispute,
    notification_types_of,
    refund,
    refund_summaries_of,
    refunds_of,
    report_refund_status,
)
from tests.support.purchases import (
    NOW,
    Shop,
    apply,
    assert_ledger_is_consistent,
    balances_of_order,
    make_charge,
    make_intent,
    make_product,
    paid_order,
    place,
    row_of,
    status_of,
    trail_of,
    wallet_of,
)


@pytest.fixture
def delivered(session: Session, shop: Shop) -> UUID:
    """A delivered order with released escrow."""
    return delivered_order(session, shop)


@pytest.fixture(autouse=True)
def _check_invariants(session: Session) -> Any:
    yield
    assert_ledger_is_consistent(session)


def vendor_debt(session: Session, shop: Shop) -> int:
    """Return the vendor debt in kobo."""
    return fetch_balance(session, account=accounts.vendor_receivable(shop.store_id))


def test_lost_dispute_after_release_is_charged_like_a_clawback(
    session: Session, shop: Shop, delivered: UUID
) -> None:
    dispute_id = lose_dispute(session, delivered, amount_minor=TOTAL)

    assert status_of(session, delivered) == "delivered"
    assert (
        balances_of_order(session, delivered)
        == VENDOR_BALANCES_AFTER_CLAWBACK | BALANCES_AFTER_MONEY_RETURNED
    )
    assert vendor_debt(session, shop) == VENDOR_SHARE
    assert trail_of(session, delivered)[-1] == ("delivered", "delivered", "clawback", "gateway")
    assert notification_types_of(session, shop.vendor.id)[-1] == "order_clawed_back"
    [alert] = alerts_about(session, f"charge-dispute:{dispute_id}")
    assert alert["facts"]["booked"] == [
        {
            "orderId": str(delivered),
            "vendorMinor": VENDOR_SHARE,
            "platformMinor": PLATFORM_SHARE,
            "buyerMinor": 0,
            "undecidedMinor": 0,
            "unsentMinor": 0,
        }
    ]
    held = build_money_trail(session, order_id=delivered, caller=shop.buyer).holders
    assert [(one.holder, one.amount_minor) for one in held] == [("buyer", TOTAL)]


@pytest.mark.parametrize("resolution", ["declined", "", "odd"])
def test_dispute_without_lost_outcome_creates_no_vendor_debt(
    session: Session, shop: Shop, delivered: UUID, resolution: str
) -> None:
    lose_dispute(session, delivered, amount_minor=TOTAL, resolution=resolution)
    assert vendor_debt(session, shop) == 0


def test_lost_dispute_without_amount_covers_the_full_charge(
    session: Session, shop: Shop, delivered: UUID
) -> None:
    lose_dispute(session, delivered, amount_minor=None)
    assert vendor_debt(session, shop) == VENDOR_SHARE


def test_lost_dispute_is_capped_at_the_charged_amount(session: Session, shop: Shop, delivered: UUID) -> None:
    lose_dispute(session, delivered, amount_minor=TOTAL * 2)
    assert row_of(session, "escrows", order_id=delivered)["clawed_back_minor"] == TOTAL


def test_clawback_before_lost_dispute_is_taken_back_from_the_wallet(
    session: Session, shop: Shop, officer: Caller, delivered: UUID
) -> None:
    claw_back(session, delivered, officer, amount_minor=100_000)
    lose_dispute(session, delivered, amount_minor=TOTAL)

    assert vendor_debt(session, shop) == VENDOR_SHARE
    # The credit of the clawback was taken from the wallet again.
    assert (buyer_debt_of(session, shop.buyer.id), wallet_of(session, shop.buyer.id)) == (0, 0)
    body = row_of(session, "notifications", user_id=shop.buyer.id, type="payment_taken_back")["body"]
    assert "We took NGN 1,000.00 from your wallet" in body


def test_refund_sent_before_lost_dispute_is_buyer_debt(session: Session, shop: Shop, officer: Caller) -> None:
    order_id = paid_order(session, shop)
    refund(session, order_id, officer)
    report_refund_status(session, refunds_of(session, order_id)[0]["id"], "processed")
    lose_dispute(session, order_id, amount_minor=TOTAL)

    assert (vendor_debt(session, shop), buyer_debt_of(session, shop.buyer.id)) == (0, TOTAL)
    body = row_of(session, "notifications", user_id=shop.buyer.id, type="payment_taken_back")["body"]
    assert f"You owe us {format_naira(TOTAL)}" in body
    entry = build_money_trail(session, order_id=order_id, caller=shop.buyer).entries[-1]
    assert (entry.from_, entry.to, entry.amount_minor) == ("gateway", "buyer", TOTAL)
    assert "owed by the buyer" in entry.what


@pytest.mark.parametrize("status", ["pending", "failed"])
def test_lost_dispute_cancels_unsent_refund(
    session: Session, shop: Shop, officer: Caller, status: str
) -> None:
    order_id = paid_order(session, shop)
    refund(session, order_id, officer)
    if status == "failed":
        report_refund_status(session, refunds_of(session, order_id)[0]["id"], "failed")
    dispute_id = lose_dispute(session, order_id, amount_minor=TOTAL)

    assert refund_summaries_of(session, order_id) == [("gateway", "credited", TOTAL)]
    assert (buyer_debt_of(session, shop.buyer.id), wallet_of(session, shop.buyer.id)) == (0, 0)
    assert balances_of_order(session, order_id) == BALANCES_AFTER_MONEY_RETURNED
    [alert] = alerts_about(session, f"charge-dispute:{dispute_id}")
    [booked] = alert["facts"]["booked"]
    assert (booked["unsentMinor"], booked["buyerMinor"], booked["vendorMinor"]) == (TOTAL, 0, 0)
    body = row_of(session, "notifications", user_id=shop.buyer.id, type="payment_taken_back")["body"]
    assert f"We therefore cancelled refunds of {format_naira(TOTAL)}" in body
    assert "owe" not in body
    assert "wallet" not in body
    held = build_money_trail(session, order_id=order_id, caller=shop.buyer).holders
    assert [(one.holder, one.amount_minor) for one in held] == [("buyer", TOTAL)]


def test_unsent_refund_above_disputed_amount_goes_to_the_wallet(
    session: Session, shop: Shop, officer: Caller
) -> None:
    order_id = paid_order(session, shop)
    refund(session, order_id, officer)
    lose_dispute(session, order_id, amount_minor=100_000)

    assert (buyer_debt_of(session, shop.buyer.id), wallet_of(session, shop.buyer.id)) == (0, TOTAL - 100_000)
    body = row_of(session, "notifications", user_id=shop.buyer.id, type="payment_taken_back")["body"]
    assert (
        f"{format_naira(TOTAL - 100_000)} of these refunds that your bank did not return is in your wallet"
        in body
    )


def test_lost_dispute_consumes_unsent_refund_before_escrow(
    session: Session, shop: Shop, officer: Caller
) -> None:
    """The bank's payment replaces the pending refund. Escrow bears only the rest."""
    order_id = paid_order(session, shop)
    refund(session, order_id, officer, amount_minor=100_000)
    lose_dispute(session, order_id, amount_minor=150_000)

    assert balances_of_order(session, order_id)["lost_disputes"] == 50_000
    assert (buyer_debt_of(session, shop.buyer.id), wallet_of(session, shop.buyer.id)) == (0, 0)


def test_lost_dispute_after_gateway_clawback_charges_vendor_once(
    session: Session, shop: Shop, officer: Caller, delivered: UUID
) -> None:
    claw_back(session, delivered, officer, amount_minor=100_000, destination="gateway")
    lose_dispute(session, delivered, amount_minor=TOTAL)

    assert vendor_debt(session, shop) == VENDOR_SHARE
    assert (buyer_debt_of(session, shop.buyer.id), wallet_of(session, shop.buyer.id)) == (0, 0)
    assert row_of(session, "escrows", order_id=delivered)["clawed_back_minor"] == TOTAL


class TestUnappliedCharges:
    """Lost disputes of charges that paid for no order: the money still leaves the gateway."""

    def second_charge(self, session: Session, shop: Shop) -> tuple[UUID, str]:
        """Pay an order twice, so that the second charge is returned."""
        order_id = place(session, shop, make_product(session, shop))
        intent = make_intent(session, shop, order_id)
        apply(session, make_charge(intent))
        second = make_charge(intent)
        apply(session, second)
        return order_id, second.id

    def test_returned_charge_lost_in_a_dispute_is_not_sent_back(self, session: Session, shop: Shop) -> None:
        order_id, charge_id = self.second_charge(session, shop)
        before = fetch_balances_by_kind(session)
        dispute_charge(session, charge_id)
        dispute_charge(session, charge_id, "merchant-accepted", refund_amount=None)

        after = fetch_balances_by_kind(session)
        assert before["refunds_in_transit"] - after["refunds_in_transit"] == TOTAL
        assert before["gateway_clearing"] - after["gateway_clearing"] == TOTAL
        assert (buyer_debt_of(session, shop.buyer.id), wallet_of(session, shop.buyer.id)) == (0, 0)
        assert status_of(session, order_id) == "paid_escrow"

    def test_lost_charge_already_returned_is_a_receivable(self, session: Session, shop: Shop) -> None:
        order_id, charge_id = self.second_charge(session, shop)
        [made] = refunds_of(session, order_id)
        report_refund_status(session, made["id"], "processed")
        dispute_charge(session, charge_id, "merchant-accepted", refund_amount=None)

        assert buyer_debt_of(session, shop.buyer.id) == TOTAL
        assert status_of(session, order_id) == "paid_escrow"

    def test_lost_second_charge_does_not_block_refund_of_the_first(
        self, session: Session, shop: Shop, officer: Caller
    ) -> None:
        order_id, charge_id = self.second_charge(session, shop)
        dispute_charge(session, charge_id, "merchant-accepted", refund_amount=None)

        refund(session, order_id, officer)

        made = refunds_of(session, order_id)[-1]
        assert gateway_refund.lease_refund(session, refund_id=made["id"], now=NOW) is not None

    def test_lost_quarantined_charge_is_a_receivable_of_the_wallet(
        self, session: Session, shop: Shop, officer: Caller
    ) -> None:
        order_id = place(session, shop, make_product(session, shop))
        charge = make_charge(make_intent(session, shop, order_id), amount_minor=1_000)
        apply(session, charge)
        dispute_charge(session, charge.id, "merchant-accepted", refund_amount=None)
        assert buyer_debt_of(session, shop.buyer.id) == 1_000
        quarantined_id = row_of(session, "quarantined_charges", gateway_charge_id=charge.id)["id"]

        def decide(action: str) -> None:
            quarantine.resolve_quarantined_charge(
                session,
                quarantined_charge_id=quarantined_id,
                action=action,
                note="The bank took it.",
                act=act_of(officer, now=NOW),
            )

        for action in ("accept_rest", "refund"):
            with pytest.raises(ChargedBackError, match="Credit the wallet instead"):
                decide(action)
        decide("wallet")

        assert (buyer_debt_of(session, shop.buyer.id), wallet_of(session, shop.buyer.id)) == (0, 0)
        assert row_of(session, "orders", id=order_id)["payment_status"] is None

    def test_excess_of_lost_charge_is_taken_from_the_wallet(self, session: Session, shop: Shop) -> None:
        order_id = place(session, shop, make_product(session, shop))
        charge = make_charge(make_intent(session, shop, order_id), amount_minor=TOTAL + 700)
        apply(session, charge)
        assert wallet_of(session, shop.buyer.id) == 700

        dispute_charge(session, charge.id, "merchant-accepted", refund_amount=None)

        assert wallet_of(session, shop.buyer.id) == 0
        assert balances_of_order(session, order_id)["lost_disputes"] == TOTAL


def test_lost_dispute_before_release_leaves_escrow_for_a_ruling(session: Session, shop: Shop) -> None:
    order_id = paid_order(session, shop)
    lose_dispute(session, order_id, amount_minor=TOTAL)

    assert status_of(session, order_id) == "disputed"
    assert balances_of_order(session, order_id) == {
        "escrow": TOTAL,
        "wallet": -TOTAL,
        "gateway_clearing": -TOTAL,
        "lost_disputes": TOTAL,
    }
    assert vendor_debt(session, shop) == 0
    last = build_money_trail(session, order_id=order_id, caller=shop.buyer).entries[-1]
    assert (last.from_, last.to, last.amount_minor) == ("gateway", "buyer", TOTAL)
    held = build_money_trail(session, order_id=order_id, caller=shop.vendor)
    assert [(one.holder, one.amount_minor) for one in held.holders] == [("escrow", TOTAL)]
    assert {entry.kind for entry in held.entries} == {"payment"}


def test_lost_amount_above_escrow_balance_is_buyer_debt(
    session: Session, shop: Shop, officer: Caller
) -> None:
    order_id = paid_order(session, shop)
    refund(session, order_id, officer, amount_minor=100_000, destination="wallet")
    lose_dispute(session, order_id, amount_minor=TOTAL - 1_000)
    lose_dispute(session, order_id, amount_minor=5_000)

    assert balances_of_order(session, order_id)["lost_disputes"] == TOTAL - 100_000
    # The wallet covers the duplicate as far as possible. The rest is buyer debt.
    assert (wallet_of(session, shop.buyer.id), buyer_debt_of(session, shop.buyer.id)) == (0, 4_000)


def test_clawback_after_lost_dispute_is_refused(session: Session, officer: Caller, delivered: UUID) -> None:
    lose_dispute(session, delivered, amount_minor=1_000)
    with pytest.raises(ChargedBackError):
        claw_back(session, delivered, officer)


def test_two_lost_disputes_of_same_charge_add_up(session: Session, shop: Shop, delivered: UUID) -> None:
    lose_dispute(session, delivered, amount_minor=1_000)
    lose_dispute(session, delivered, amount_minor=2_000)
    assert vendor_debt(session, shop) == 3_000
