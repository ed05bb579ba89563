"""Clawbacks after release: vendor and platform bear the amount, and the buyer receives each kobo once."""

from typing import Any
from uuid import UUID, uuid4

import pytest
from sqlalchemy import text
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from marketplace.identity.queries import Caller
from marketplace.kernel.errors import ForbiddenError, NotFoundError, ValidationError
from marketplace.kernel.paging import TableRequest
from marketplace.kernel.states import IllegalTransitionError
from marketplace.ledger import accounts
from marketplace.ledger.queries import fetch_balance
from marketplace.orders.placing.place_order import WalletUse
from marketplace.payments.admin_queries import list_refunds
from marketplace.payments.money_trail.build import build_money_trail
from marketplace.payments.refunds import order_cancellation
from marketplace.payments.refunds.admin_refund import ClawbackShares, EscrowDeficitError, RefundItem
from tests.support.finance import (
    BALANCES_AFTER_MONEY_RETURNED,
    PLATFORM_SHARE,
    TOTAL,
    VENDOR_BALANCES_AFTER_CLAWBACK,
    VENDOR_SHARE,
    audit_entries_of,
    claw_back,
    deliver,
    delivered_order,
    notification_types_of,
    refund,
    refund_summaries_of,
    refunds_of,
    report_refund_status,
)
from tests.support.purchases import (
    NOW,
    PRICE_MINOR,
    Shop,
    assert_ledger_is_consistent,
    balances_of_order,
    fill_wallet,
    make_product,
    paid_order,
    pay,
    place,
    release,
    row_of,
    shipped_order,
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
    return fetch_balance(session, account=accounts.vendor_receivable(shop.store_id))


def vendor_balance(session: Session, shop: Shop) -> int:
    return fetch_balance(session, account=accounts.vendor_payable(shop.store_id))


class TestOfficerClawback:
    def test_partial_clawback_is_charged_to_vendor(
        self, session: Session, shop: Shop, officer: Caller, delivered: UUID
    ) -> None:
        done = claw_back(session, delivered, officer, amount_minor=100_000)

        assert done.clawback == ClawbackShares(100_000, 0, 100_000)
        assert (done.order.status, done.order.escrow_status, done.order.escrow_balance_minor) == (
            "delivered",
            "released",
            0,
        )
        assert (vendor_debt(session, shop), vendor_balance(session, shop)) == (100_000, VENDOR_SHARE)
        assert wallet_of(session, shop.buyer.id) == 100_000
        assert refund_summaries_of(session, delivered) == [("wallet", "processed", 100_000)]
        assert row_of(session, "escrows", order_id=delivered)["clawed_back_minor"] == 100_000
        assert trail_of(session, delivered)[-1] == ("delivered", "delivered", "clawback", "staff")

    def test_full_clawback_charges_vendor_and_platform_the_released_shares(
        self, session: Session, shop: Shop, officer: Caller, delivered: UUID
    ) -> None:
        done = claw_back(session, delivered, officer)

        assert done.amount_minor == TOTAL
        assert done.clawback == ClawbackShares(VENDOR_SHARE, PLATFORM_SHARE, VENDOR_SHARE)
        assert balances_of_order(session, delivered) == VENDOR_BALANCES_AFTER_CLAWBACK
        assert wallet_of(session, shop.buyer.id) == TOTAL

    def test_sum_of_clawbacks_cannot_exceed_released_amount(
        self, session: Session, shop: Shop, officer: Caller, delivered: UUID
    ) -> None:
        first = claw_back(session, delivered, officer, amount_minor=VENDOR_SHARE - 10)
        second = claw_back(session, delivered, officer, amount_minor=30)
        with pytest.raises(EscrowDeficitError) as refused:
            claw_back(session, delivered, officer, amount_minor=TOTAL)
        rest = claw_back(session, delivered, officer)

        assert first.clawback.platform_minor == 0
        assert second.clawback == ClawbackShares(10, 20, VENDOR_SHARE)
        assert [param.name for param in refused.value.invalid_params] == ["amountMinor"]
        assert rest.clawback.vendor_minor == 0
        assert rest.amount_minor == PLATFORM_SHARE - 20
        assert wallet_of(session, shop.buyer.id) == TOTAL
        for amount in (1, None):
            with pytest.raises(EscrowDeficitError):
                claw_back(session, delivered, officer, amount_minor=amount)

    def test_gateway_clawback_refunds_the_original_charge(
        self, session: Session, shop: Shop, officer: Caller, delivered: UUID
    ) -> None:
        claw_back(session, delivered, officer, destination="gateway")
        assert refund_summaries_of(session, delivered) == [("gateway", "pending", TOTAL)]
        [row] = refunds_of(session, delivered)
        report_refund_status(session, row["id"], "processed")

        assert (
            balances_of_order(session, delivered)
            == VENDOR_BALANCES_AFTER_CLAWBACK | BALANCES_AFTER_MONEY_RETURNED
        )
        assert row_of(session, "gateway_charges", id=row["charge_id"])["refunded_minor"] == TOTAL

    def test_gateway_clawback_returns_wallet_part_to_wallet(
        self, session: Session, shop: Shop, officer: Caller
    ) -> None:
        fill_wallet(session, shop.buyer.id, 60_000)
        order_id = place(session, shop, make_product(session, shop), wallet=WalletUse(60_000))
        pay(session, shop, order_id)
        deliver(session, shop, order_id)

        claw_back(session, order_id, officer, destination="gateway")

        assert refund_summaries_of(session, order_id) == [
            ("gateway", "pending", TOTAL - 60_000),
            ("wallet", "processed", 60_000),
        ]
        assert vendor_debt(session, shop) == VENDOR_SHARE

    def test_clawback_after_partial_refund_covers_only_released_amount(
        self, session: Session, shop: Shop, officer: Caller
    ) -> None:
        order_id = shipped_order(session, shop)
        refund(session, order_id, officer, amount_minor=100_000)
        release(session, shop, order_id)
        had = vendor_balance(session, shop)

        done = claw_back(session, order_id, officer, destination="gateway")

        assert done.amount_minor == TOTAL - 100_000
        assert done.clawback.vendor_minor == had
        assert sum(row["amount_minor"] for row in refunds_of(session, order_id)) == TOTAL

    def test_clawback_of_unit_cannot_repeat_and_leaves_stock_unchanged(
        self, session: Session, shop: Shop, officer: Caller, delivered: UUID
    ) -> None:
        product_id = row_of(session, "order_items", order_id=delivered)["product_id"]
        stock = row_of(session, "products", id=product_id)["quantity"]
        done = claw_back(session, delivered, officer, items=[RefundItem(product_id, 1)])

        assert done.amount_minor == PRICE_MINOR
        assert row_of(session, "order_items", order_id=delivered)["refunded_quantity"] == 1
        assert row_of(session, "products", id=product_id)["quantity"] == stock
        with pytest.raises(ValidationError, match="items left to refund"):
            claw_back(session, delivered, officer, items=[RefundItem(product_id, 1)])

    def test_clawback_notifies_both_parties_and_is_audited(
        self, session: Session, shop: Shop, officer: Caller, delivered: UUID
    ) -> None:
        done = claw_back(session, delivered, officer, amount_minor=100_000)

        for person in (shop.buyer, shop.vendor):
            assert notification_types_of(session, person.id)[-1] == "order_clawed_back"
        body = row_of(session, "notifications", user_id=shop.vendor.id, type="order_clawed_back")["body"]
        assert "NGN 1,000.00" in body
        assert "next payouts" in body
        action, before, after = audit_entries_of(session, delivered)[-1]
        assert action == "order.clawback"
        assert before == {"clawedBackMinor": 0, "releasedMinor": TOTAL}
        assert (after["clawedBackMinor"], after["vendorMinor"], after["platformMinor"]) == (
            100_000,
            100_000,
            0,
        )
        assert after["refundIds"] == [str(done.refunds[0].id)]

    def test_clawback_before_release_is_refused(self, session: Session, shop: Shop, officer: Caller) -> None:
        for order_id in (paid_order(session, shop), shipped_order(session, shop)):
            with pytest.raises(ValidationError, match="clawback"):
                claw_back(session, order_id, officer)

    def test_clawback_of_unpaid_cancelled_or_refunded_order_is_refused(
        self, session: Session, shop: Shop, officer: Caller
    ) -> None:
        unpaid = place(session, shop, make_product(session, shop))
        cancelled, refunded = paid_order(session, shop), paid_order(session, shop)
        order_cancellation.cancel_order(session, order_id=cancelled, caller=shop.buyer, reason=None, now=NOW)
        refund(session, refunded, officer)
        for order_id in (unpaid, cancelled, refunded):
            with pytest.raises(IllegalTransitionError):
                claw_back(session, order_id, officer)
        with pytest.raises(NotFoundError):
            claw_back(session, uuid4(), officer)

    def test_officer_cannot_claw_back_for_own_order(
        self, session: Session, shop: Shop, delivered: UUID
    ) -> None:
        for party in (shop.buyer, shop.vendor):
            with pytest.raises(ForbiddenError):
                claw_back(session, delivered, party)

    def test_database_rejects_clawback_above_released_amount(self, session: Session, delivered: UUID) -> None:
        with pytest.raises(IntegrityError, match="clawed_back"), session.begin_nested():
            session.execute(
                text("UPDATE escrows SET clawed_back_minor = released_minor + 1 WHERE order_id = :id"),
                {"id": delivered},
            )

    def test_refund_list_filters_clawbacks_by_cause(
        self, session: Session, officer: Caller, delivered: UUID
    ) -> None:
        claw_back(session, delivered, officer, amount_minor=5)
        page = TableRequest(number=1, limit=100, sort="created_at", descending=True)
        found = list_refunds(session, cause="clawback", page=page, now=NOW)
        assert delivered in {row.order_id for row in found.items}
        others = list_refunds(session, cause="order", page=page, now=NOW)
        assert delivered not in {row.order_id for row in others.items}


class TestMoneyTrail:
    @pytest.mark.parametrize("destination", ["wallet", "gateway"])
    def test_money_trail_shows_clawback_to_buyer_and_vendor(
        self, session: Session, shop: Shop, officer: Caller, delivered: UUID, destination: str
    ) -> None:
        claw_back(session, delivered, officer, amount_minor=100_000, destination=destination)

        def seen(caller: Caller) -> tuple[dict[str, int], dict[str, Any]]:
            found = build_money_trail(session, order_id=delivered, caller=caller)
            held = {holder.holder: holder.amount_minor for holder in found.holders}
            return held, found.entries[-1]

        held, last = seen(shop.buyer)
        back = "buyer" if destination == "wallet" else "on_the_way_back"
        assert held == {"vendor": TOTAL - 100_000, back: 100_000}
        assert (last.from_, last.to, last.amount_minor) == ("vendor", back, 100_000)
        held, last = seen(shop.vendor)
        assert held == {"vendor": VENDOR_SHARE - 100_000, "platform": PLATFORM_SHARE, "buyer": 100_000}
        assert (last.from_, last.to, last.amount_minor) == ("vendor", "buyer", 100_000)
        assert "next payouts" in last.what
