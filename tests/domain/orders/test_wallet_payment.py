"""Wallet payments at placing: moved to escrow immediately, returned with the order, never overdrawn."""

from uuid import UUID

import pytest
from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.cart.operations import RequestedItem
from marketplace.kernel.errors import ValidationError
from marketplace.ledger.operations import InsufficientFundsError
from marketplace.orders import operations as orders
from marketplace.orders.deadlines import MAX_UNPAID_ORDERS
from marketplace.orders.placing.place_order import WalletUse
from marketplace.orders.transitions import SYSTEM, lock_order
from marketplace.payments.charges.apply import ChargeOutcome
from marketplace.payments.intents.lifecycle import NotPayableError
from marketplace.payments.refunds import order_cancellation
from tests.support.purchases import (
    DELIVERY_FEE_MINOR,
    NOW,
    PRICE_MINOR,
    SERVICE_FEE_MINOR,
    Shop,
    apply,
    assert_ledger_is_consistent,
    balances_of_order,
    check_out,
    fill_wallet,
    make_charge,
    make_intent,
    make_product,
    neighbours,
    place,
    release,
    row_of,
    status_of,
    stock_of,
    trail_of,
    wallet_of,
)

TOTAL = PRICE_MINOR + DELIVERY_FEE_MINOR + SERVICE_FEE_MINOR
AS_MUCH = WalletUse(as_much_as_possible=True)


@pytest.fixture
def product_id(session: Session, shop: Shop) -> UUID:
    return make_product(session, shop)


def cancel(session: Session, shop: Shop, order_id: UUID) -> None:
    order_cancellation.cancel_order(session, order_id=order_id, caller=shop.buyer, reason=None, now=NOW)


def refunds_of(session: Session, order_id: UUID) -> list[tuple[str, int]]:
    rows = session.execute(
        text("SELECT destination, amount_minor FROM refunds WHERE order_id = :id ORDER BY destination"),
        {"id": order_id},
    )
    return [tuple(row) for row in rows]


class TestPartialPayment:
    def test_wallet_share_moves_to_escrow_at_placing(
        self, session: Session, shop: Shop, product_id: UUID
    ) -> None:
        fill_wallet(session, shop.buyer.id, 100_000)

        order_id = place(session, shop, product_id, wallet=WalletUse(60_001))

        order = row_of(session, "orders", id=order_id)
        assert (order["status"], order["wallet_minor"], order["paid_at"]) == ("pending_payment", 60_001, None)
        assert wallet_of(session, shop.buyer.id) == 39_999
        assert balances_of_order(session, order_id) == {"wallet": -60_001, "escrow": 60_001}
        assert row_of(session, "ledger_transactions", kind="wallet_payment", source=f"order:{order_id}")
        assert row_of(session, "escrows", order_id=order_id)["status"] == "pending"
        assert_ledger_is_consistent(session)

    def test_payment_covers_remaining_amount(self, session: Session, shop: Shop, product_id: UUID) -> None:
        fill_wallet(session, shop.buyer.id, 60_001)
        order_id = place(session, shop, product_id, wallet=AS_MUCH)

        intent = make_intent(session, shop, order_id)
        assert intent.amount_minor == TOTAL - 60_001
        assert row_of(session, "payment_allocations", intent_id=intent.id)["amount_minor"] == TOTAL - 60_001
        assert apply(session, make_charge(intent, amount_minor=TOTAL - 60_001)) is ChargeOutcome.APPLIED

        assert balances_of_order(session, order_id)["escrow"] == TOTAL
        orders.accept_order(session, order_id=order_id, caller=shop.vendor, now=NOW)
        orders.ship_order(session, order_id=order_id, caller=shop.vendor, tracking_note=None, now=NOW)
        release(session, shop, order_id)
        assert "escrow" not in balances_of_order(session, order_id)
        assert_ledger_is_consistent(session)

    def test_charge_below_remaining_amount_is_quarantined(
        self, session: Session, shop: Shop, product_id: UUID
    ) -> None:
        fill_wallet(session, shop.buyer.id, 60_001)
        order_id = place(session, shop, product_id, wallet=AS_MUCH)

        charge = make_charge(make_intent(session, shop, order_id), amount_minor=TOTAL - 60_002)

        assert apply(session, charge) is ChargeOutcome.QUARANTINED
        assert_ledger_is_consistent(session)

    @pytest.mark.parametrize("end", ["cancelled", "expired"])
    def test_wallet_share_returns_when_order_ends_unpaid(
        self, session: Session, shop: Shop, product_id: UUID, end: str
    ) -> None:
        fill_wallet(session, shop.buyer.id, 100_000)
        order_id = place(session, shop, product_id, wallet=WalletUse(60_000))

        if end == "cancelled":
            cancel(session, shop, order_id)
        else:
            orders.expire_order(session, order=lock_order(session, order_id=order_id), actor=SYSTEM, now=NOW)

        assert wallet_of(session, shop.buyer.id) == 100_000
        assert balances_of_order(session, order_id) == {}
        assert_ledger_is_consistent(session)

    def test_late_charge_of_cancelled_order_is_refunded_without_wallet_share(
        self, session: Session, shop: Shop, product_id: UUID
    ) -> None:
        fill_wallet(session, shop.buyer.id, 60_000)
        order_id = place(session, shop, product_id, wallet=AS_MUCH)
        intent = make_intent(session, shop, order_id)
        cancel(session, shop, order_id)

        assert apply(session, make_charge(intent)) is ChargeOutcome.RETURNED

        assert refunds_of(session, order_id) == [("gateway", TOTAL - 60_000)]
        assert wallet_of(session, shop.buyer.id) == 60_000
        assert_ledger_is_consistent(session)

    def test_cancelled_paid_order_refunds_gateway_and_wallet_separately(
        self, session: Session, shop: Shop, product_id: UUID
    ) -> None:
        fill_wallet(session, shop.buyer.id, 60_000)
        order_id = place(session, shop, product_id, wallet=AS_MUCH)
        apply(session, make_charge(make_intent(session, shop, order_id)))

        cancel(session, shop, order_id)

        assert refunds_of(session, order_id) == [("gateway", TOTAL - 60_000), ("wallet", 60_000)]
        assert wallet_of(session, shop.buyer.id) == 60_000
        assert_ledger_is_consistent(session)


class TestFullPayment:
    @pytest.mark.parametrize("use", [WalletUse(TOTAL), AS_MUCH], ids=["amount", "maximum"])
    def test_order_fully_covered_by_wallet_is_paid_immediately(
        self, session: Session, shop: Shop, product_id: UUID, use: WalletUse
    ) -> None:
        fill_wallet(session, shop.buyer.id, TOTAL + 5)

        order_id = place(session, shop, product_id, quantity=1, wallet=use)

        order = row_of(session, "orders", id=order_id)
        assert (order["status"], order["paid_at"], order["wallet_minor"]) == ("paid_escrow", NOW, TOTAL)
        assert (order["payment_channel"], order["payment_status"]) == ("wallet", "succeeded")
        assert order["payment_reference"] == f"wallet-{order_id.hex}"
        assert row_of(session, "escrows", order_id=order_id)["status"] == "held"
        assert trail_of(session, order_id) == [
            (None, "pending_payment", "place", "buyer"),
            ("pending_payment", "paid_escrow", "pay", "buyer"),
        ]
        assert stock_of(session, product_id) == (4, 0)
        assert wallet_of(session, shop.buyer.id) == 5
        assert_ledger_is_consistent(session)

    def test_order_fully_paid_by_wallet_is_not_payable(
        self, session: Session, shop: Shop, product_id: UUID
    ) -> None:
        fill_wallet(session, shop.buyer.id, TOTAL)
        order_id = place(session, shop, product_id, wallet=AS_MUCH)

        with pytest.raises(NotPayableError, match="paid_escrow"):
            make_intent(session, shop, order_id)

    def test_cancelled_wallet_payment_returns_to_wallet(
        self, session: Session, shop: Shop, product_id: UUID
    ) -> None:
        fill_wallet(session, shop.buyer.id, TOTAL)
        order_id = place(session, shop, product_id, wallet=AS_MUCH)

        cancel(session, shop, order_id)

        assert (status_of(session, order_id), wallet_of(session, shop.buyer.id)) == ("cancelled", TOTAL)
        assert refunds_of(session, order_id) == [("wallet", TOTAL)]
        assert stock_of(session, product_id) == (5, 0)
        assert_ledger_is_consistent(session)

    def test_order_paid_by_wallet_can_be_delivered(
        self, session: Session, shop: Shop, product_id: UUID
    ) -> None:
        fill_wallet(session, shop.buyer.id, TOTAL)
        order_id = place(session, shop, product_id, wallet=AS_MUCH)
        orders.accept_order(session, order_id=order_id, caller=shop.vendor, now=NOW)
        orders.ship_order(session, order_id=order_id, caller=shop.vendor, tracking_note=None, now=NOW)

        orders.confirm_receipt(session, order_id=order_id, caller=shop.buyer, now=NOW)

        assert status_of(session, order_id) == "delivered"
        assert_ledger_is_consistent(session)

    def test_order_paid_by_wallet_does_not_count_as_unpaid(
        self, session: Session, shop: Shop, product_id: UUID
    ) -> None:
        fill_wallet(session, shop.buyer.id, TOTAL)
        for _ in range(MAX_UNPAID_ORDERS):
            place(session, shop, make_product(session, shop))

        assert status_of(session, place(session, shop, product_id, wallet=AS_MUCH)) == "paid_escrow"


class TestLimits:
    @pytest.mark.parametrize(("balance", "requested"), [(0, 1), (59_999, 60_000)])
    def test_wallet_cannot_be_overdrawn(
        self, session: Session, shop: Shop, product_id: UUID, balance: int, requested: int
    ) -> None:
        if balance:
            fill_wallet(session, shop.buyer.id, balance)

        with pytest.raises(InsufficientFundsError) as refused:
            place(session, shop, product_id, wallet=WalletUse(requested))

        assert refused.value.status == 409
        assert [(fault.name, fault.reason) for fault in refused.value.invalid_params] == [
            ("walletMinor", f"Exceeds the wallet balance ({balance}).")
        ]
        assert wallet_of(session, shop.buyer.id) == balance

    def test_wallet_amount_above_total_is_refused(
        self, session: Session, shop: Shop, product_id: UUID
    ) -> None:
        fill_wallet(session, shop.buyer.id, 2 * TOTAL)

        with pytest.raises(ValidationError) as refused:
            place(session, shop, product_id, wallet=WalletUse(TOTAL + 1))

        assert [fault.name for fault in refused.value.invalid_params] == ["walletMinor"]

    def test_empty_wallet_contributes_nothing(self, session: Session, shop: Shop, product_id: UUID) -> None:
        order_id = place(session, shop, product_id, wallet=AS_MUCH)

        assert row_of(session, "orders", id=order_id)["wallet_minor"] == 0
        assert make_intent(session, shop, order_id).amount_minor == TOTAL

    def test_database_constraints_refuse_invalid_wallet_amounts(
        self, session: Session, shop: Shop, product_id: UUID
    ) -> None:
        order_id = place(session, shop, product_id)

        for amount in (-1, TOTAL + 1):
            with pytest.raises(Exception, match="ck_orders_parts_within_total"), session.begin_nested():
                session.execute(
                    text("UPDATE orders SET wallet_minor = :amount WHERE id = :id"),
                    {"amount": amount, "id": order_id},
                )
        fill_wallet(session, shop.buyer.id, 5)
        with pytest.raises(Exception, match="balance_not_negative"), session.begin_nested():
            session.execute(
                text("UPDATE ledger_accounts SET balance_minor = -1 WHERE owner_id = :id"),
                {"id": shop.buyer.id},
            )


class TestCheckout:
    @pytest.fixture
    def requested_items(self, session: Session, shop: Shop) -> list[RequestedItem]:
        return [RequestedItem(make_product(session, seller), 1) for seller in neighbours(session, shop, 3)]

    @pytest.mark.parametrize(
        ("balance", "parts"),
        [
            (1, [1, 0, 0]),
            (TOTAL, [TOTAL, 0, 0]),
            (TOTAL + 1, [TOTAL, 1, 0]),
            (3 * TOTAL - 1, [TOTAL, TOTAL, TOTAL - 1]),
            (3 * TOTAL, [TOTAL, TOTAL, TOTAL]),
            (4 * TOTAL, [TOTAL, TOTAL, TOTAL]),
        ],
    )
    def test_wallet_pays_orders_of_checkout_in_sequence(
        self,
        session: Session,
        shop: Shop,
        requested_items: list[RequestedItem],
        balance: int,
        parts: list[int],
    ) -> None:
        fill_wallet(session, shop.buyer.id, balance)

        checkout = check_out(session, shop, requested_items, wallet=AS_MUCH)

        rows = [row_of(session, "orders", id=order_id) for order_id in checkout.order_ids]
        assert [row["wallet_minor"] for row in rows] == parts
        assert [row["status"] for row in rows] == [
            "paid_escrow" if part == TOTAL else "pending_payment" for part in parts
        ]
        assert wallet_of(session, shop.buyer.id) == balance - sum(parts)
        rest = 3 * TOTAL - sum(parts)
        assert (checkout.payment.amount_minor if checkout.payment else 0) == rest
        if checkout.payment:
            waiting = [
                order_id for order_id, part in zip(checkout.order_ids, parts, strict=True) if part < TOTAL
            ]
            assert checkout.payment.order_ids == waiting
            assert apply(session, make_charge(checkout.payment)) is ChargeOutcome.APPLIED
        assert {status_of(session, order_id) for order_id in checkout.order_ids} == {"paid_escrow"}
        assert_ledger_is_consistent(session)

    def test_cancelled_order_of_checkout_returns_only_own_wallet_share(
        self, session: Session, shop: Shop, requested_items: list[RequestedItem]
    ) -> None:
        fill_wallet(session, shop.buyer.id, TOTAL + 700)
        checkout = check_out(session, shop, requested_items, wallet=AS_MUCH)

        cancel(session, shop, checkout.order_ids[1])

        assert wallet_of(session, shop.buyer.id) == 700
        assert apply(session, make_charge(checkout.payment)) is ChargeOutcome.APPLIED
        assert [status_of(session, order_id) for order_id in checkout.order_ids] == [
            "paid_escrow",
            "cancelled",
            "paid_escrow",
        ]
        assert refunds_of(session, checkout.order_ids[1]) == [("gateway", TOTAL - 700)]
        assert_ledger_is_consistent(session)
