"""Refunds from escrow by cancellation or by an officer, with exact destinations and amounts."""

from typing import Any
from uuid import UUID, uuid4

import pytest
from hypothesis import given, strategies as st
from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.cart.operations import RequestedItem
from marketplace.identity.queries import Caller
from marketplace.kernel.errors import ForbiddenError, NotFoundError, ValidationError
from marketplace.kernel.states import IllegalTransitionError
from marketplace.orders import operations as orders
from marketplace.orders.placing.place_order import WalletUse
from marketplace.orders.pricing import Price, split_escrow
from marketplace.orders.transitions import SYSTEM, EscrowTransition, apply_transition, lock_order
from marketplace.payments.refunds import order_cancellation
from marketplace.payments.refunds.admin_refund import AlreadyReleasedError, EscrowDeficitError, RefundItem
from tests.support.finance import (
    REASON,
    audit_entries_of,
    notification_types_of,
    refund,
    refund_summaries_of,
    refunds_of,
    report_refund_status,
)
from tests.support.purchases import (
    COMMISSION_BPS,
    DELIVERY_FEE_MINOR,
    NOW,
    PRICE_MINOR,
    SERVICE_FEE_MINOR,
    Shop,
    apply as apply_charge_of,
    assert_ledger_is_consistent,
    balances_of_order,
    check_out,
    fill_wallet,
    make_charge,
    make_product,
    neighbours,
    paid_order,
    pay,
    place,
    release,
    row_of,
    shipped_order,
    status_of,
    stock_of,
    trail_of,
    wallet_of,
)

TOTAL = PRICE_MINOR + DELIVERY_FEE_MINOR + SERVICE_FEE_MINOR


def escrow_of(session: Session, order_id: UUID) -> tuple[str, int]:
    row = row_of(session, "escrows", order_id=order_id)
    return row["status"], row["amount_minor"] - row["released_minor"] - row["refunded_minor"]


def cancel(session: Session, order_id: UUID, caller: Caller) -> None:
    order_cancellation.cancel_order(
        session, order_id=order_id, caller=caller, reason="Changed my mind", now=NOW
    )


def freeze(session: Session, order_id: UUID) -> None:
    order = lock_order(session, order_id=order_id)
    apply_transition(
        session, order=order, trigger="dispute", actor=SYSTEM, now=NOW, escrow=EscrowTransition("freeze")
    )


class TestCancellation:
    @pytest.mark.parametrize("by", ["buyer", "vendor"])
    @pytest.mark.parametrize("accepted", [False, True])
    def test_cancellation_refunds_full_amount_through_the_gateway(
        self, session: Session, shop: Shop, by: str, accepted: bool
    ) -> None:
        product_id = make_product(session, shop, quantity=5)
        order_id = place(session, shop, product_id, quantity=2)
        pay(session, shop, order_id)
        if accepted:
            orders.accept_order(session, order_id=order_id, caller=shop.vendor, now=NOW)
        total = row_of(session, "orders", id=order_id)["total_minor"]

        cancel(session, order_id, getattr(shop, by))

        assert refund_summaries_of(session, order_id) == [("gateway", "pending", total)]
        assert balances_of_order(session, order_id) == {"wallet": -total, "refunds_in_transit": total}
        assert escrow_of(session, order_id) == ("refunded", 0)
        assert stock_of(session, product_id) == (5, 0)
        assert row_of(session, "products", id=product_id)["popularity"] == 0
        before = "processing" if accepted else "paid_escrow"
        assert trail_of(session, order_id)[-1] == (before, "cancelled", "cancel", by)
        [made] = refunds_of(session, order_id)
        assert (made["cause"], made["reason"]) == (f"order:{order_id}:cancel", f"Cancelled by the {by}.")
        assert notification_types_of(session, shop.buyer.id) == ["order_paid", "order_cancelled"]
        assert notification_types_of(session, shop.vendor.id) == ["order_received", "order_cancelled"]
        assert_ledger_is_consistent(session)

    def test_cancellation_enqueues_the_refund_for_sending(self, session: Session, shop: Shop) -> None:
        order_id = paid_order(session, shop)
        cancel(session, order_id, shop.buyer)

        [made] = refunds_of(session, order_id)
        events = session.execute(
            text("SELECT queue, topic FROM outbox_events WHERE payload ->> 'refundId' = :id"),
            {"id": str(made["id"])},
        ).all()
        assert [tuple(event) for event in events] == [("webhooks", "refund.send")]

    def test_wallet_part_is_refunded_to_the_wallet(self, session: Session, shop: Shop) -> None:
        fill_wallet(session, shop.buyer.id, 100_000)
        order_id = place(session, shop, make_product(session, shop), wallet=WalletUse(100_000))
        pay(session, shop, order_id)
        assert wallet_of(session, shop.buyer.id) == 0

        cancel(session, order_id, shop.buyer)

        assert sorted(refund_summaries_of(session, order_id)) == [
            ("gateway", "pending", TOTAL - 100_000),
            ("wallet", "processed", 100_000),
        ]
        assert wallet_of(session, shop.buyer.id) == 100_000
        assert_ledger_is_consistent(session)

    def test_order_fully_paid_by_wallet_is_refunded_without_gateway(
        self, session: Session, shop: Shop
    ) -> None:
        fill_wallet(session, shop.buyer.id, TOTAL)
        order_id = place(session, shop, make_product(session, shop), wallet=WalletUse(TOTAL))
        assert status_of(session, order_id) == "paid_escrow"

        cancel(session, order_id, shop.buyer)

        assert refund_summaries_of(session, order_id) == [("wallet", "processed", TOTAL)]
        assert wallet_of(session, shop.buyer.id) == TOTAL
        assert_ledger_is_consistent(session)

    def test_unpaid_order_returns_wallet_part_without_a_refund(self, session: Session, shop: Shop) -> None:
        fill_wallet(session, shop.buyer.id, 100_000)
        order_id = place(session, shop, make_product(session, shop), wallet=WalletUse(100_000))

        cancel(session, order_id, shop.vendor)

        assert refunds_of(session, order_id) == []
        assert wallet_of(session, shop.buyer.id) == 100_000
        # The vendor never saw the unpaid order.
        assert (
            notification_types_of(session, shop.buyer.id),
            notification_types_of(session, shop.vendor.id),
        ) == (["order_cancelled"], [])
        assert_ledger_is_consistent(session)

    def test_excess_in_wallet_is_not_refunded(self, session: Session, shop: Shop) -> None:
        order_id = place(session, shop, make_product(session, shop))
        pay(session, shop, order_id, amount_minor=TOTAL + 700)

        cancel(session, order_id, shop.buyer)

        assert refund_summaries_of(session, order_id) == [("gateway", "pending", TOTAL)]
        assert wallet_of(session, shop.buyer.id) == 700
        assert_ledger_is_consistent(session)

    def test_orders_of_shared_charge_are_refunded_separately(self, session: Session, shop: Shop) -> None:
        shops = neighbours(session, shop, 3)
        done = check_out(session, shop, [RequestedItem(make_product(session, one), 1) for one in shops])
        assert done.payment is not None
        charge = make_charge(done.payment)
        apply_charge_of(session, charge)
        row = row_of(session, "gateway_charges", gateway_charge_id=charge.id)

        for number, order_id in enumerate(done.order_ids, start=1):
            cancel(session, order_id, shop.buyer)
            assert refund_summaries_of(session, order_id) == [("gateway", "pending", TOTAL)]
            left = row_of(session, "gateway_charges", id=row["id"])
            assert left["refunded_minor"] == number * TOTAL
        assert_ledger_is_consistent(session)

    def test_cancellation_after_partial_refund_returns_the_rest(
        self, session: Session, shop: Shop, officer: Caller
    ) -> None:
        order_id = paid_order(session, shop)
        refund(session, order_id, officer, amount_minor=1_000)

        cancel(session, order_id, shop.vendor)

        assert refund_summaries_of(session, order_id) == [
            ("gateway", "pending", 1_000),
            ("gateway", "pending", TOTAL - 1_000),
        ]
        assert escrow_of(session, order_id) == ("refunded", 0)
        assert_ledger_is_consistent(session)


class TestOfficerRefund:
    @pytest.mark.parametrize("destination", ["gateway", "wallet"])
    @pytest.mark.parametrize("shipped", [False, True])
    @pytest.mark.parametrize("frozen", [False, True])
    def test_full_refund_ends_the_order(
        self,
        session: Session,
        shop: Shop,
        officer: Caller,
        destination: str,
        shipped: bool,
        frozen: bool,
    ) -> None:
        order_id = (shipped_order if shipped else paid_order)(session, shop, stock=5)
        product_id = row_of(session, "order_items", order_id=order_id)["product_id"]
        before = status_of(session, order_id)
        if frozen:
            freeze(session, order_id)

        done = refund(session, order_id, officer, destination=destination)

        assert (done.order.status, done.order.escrow_status, done.order.escrow_balance_minor) == (
            "refunded",
            "refunded",
            0,
        )
        state = "processed" if destination == "wallet" else "pending"
        assert refund_summaries_of(session, order_id) == [(destination, state, TOTAL)]
        assert [part.amount_minor for part in done.refunds] == [TOTAL]
        assert wallet_of(session, shop.buyer.id) == (TOTAL if destination == "wallet" else 0)
        # Shipped units do not return to stock.
        assert stock_of(session, product_id) == (4 if shipped else 5, 0)
        assert trail_of(session, order_id)[-1] == (
            "disputed" if frozen else before,
            "refunded",
            "refund",
            "staff",
        )
        assert row_of(session, "orders", id=order_id)["refunded_at"] == NOW
        assert (
            notification_types_of(session, shop.buyer.id)[-1]
            == notification_types_of(session, shop.vendor.id)[-1]
            == "order_refunded"
        )
        assert_ledger_is_consistent(session)

    def test_partial_refund_keeps_order_status_and_reduces_both_shares(
        self, session: Session, shop: Shop, officer: Caller
    ) -> None:
        order_id = shipped_order(session, shop)

        done = refund(session, order_id, officer, amount_minor=10_001, destination="wallet")

        assert (done.order.status, done.order.escrow_status) == ("shipped", "held")
        assert done.order.escrow_balance_minor == TOTAL - 10_001
        release(session, shop, order_id)
        assert escrow_of(session, order_id) == ("partially_refunded", 0)
        balances = balances_of_order(session, order_id)
        platform = PRICE_MINOR * COMMISSION_BPS // 10_000 + SERVICE_FEE_MINOR
        exact = platform * (TOTAL - 10_001) / TOTAL
        assert abs(balances["platform_revenue"] - exact) < 1
        assert balances["vendor_payable"] + balances["platform_revenue"] == TOTAL - 10_001
        assert wallet_of(session, shop.buyer.id) == 10_001
        assert_ledger_is_consistent(session)

    def test_item_refund_without_amount_refunds_item_price(
        self, session: Session, shop: Shop, officer: Caller
    ) -> None:
        order_id = paid_order(session, shop, quantity=3)
        product_id = row_of(session, "order_items", order_id=order_id)["product_id"]

        done = refund(session, order_id, officer, items=[RefundItem(product_id, 2)])

        assert done.amount_minor == 2 * PRICE_MINOR
        [(_, _, after)] = audit_entries_of(session, order_id)
        assert after["items"] == [{"productId": str(product_id), "quantity": 2}]

    @pytest.mark.parametrize("difference", [-5, 5])
    def test_amount_different_from_item_price_is_refused(
        self, session: Session, shop: Shop, officer: Caller, difference: int
    ) -> None:
        order_id = paid_order(session, shop)
        product_id = row_of(session, "order_items", order_id=order_id)["product_id"]

        with pytest.raises(ValidationError) as refused:
            refund(
                session,
                order_id,
                officer,
                items=[RefundItem(product_id, 1)],
                amount_minor=PRICE_MINOR + difference,
            )

        assert [param.name for param in refused.value.invalid_params] == ["amountMinor"]
        done = refund(session, order_id, officer, items=[RefundItem(product_id, 1)], amount_minor=PRICE_MINOR)
        assert done.amount_minor == PRICE_MINOR

    def test_invalid_items_are_reported_by_position(
        self, session: Session, shop: Shop, officer: Caller
    ) -> None:
        order_id = paid_order(session, shop)
        product_id = row_of(session, "order_items", order_id=order_id)["product_id"]

        with pytest.raises(ValidationError) as refused:
            refund(session, order_id, officer, items=[RefundItem(uuid4(), 1), RefundItem(product_id, 2)])

        assert [param.name for param in refused.value.invalid_params] == [
            "items[0].productId",
            "items[1].quantity",
        ]

    def test_refund_is_audited_with_before_and_after(
        self, session: Session, shop: Shop, officer: Caller
    ) -> None:
        order_id = paid_order(session, shop)

        done = refund(session, order_id, officer, amount_minor=1_000)

        [(action, before, after)] = audit_entries_of(session, order_id)
        assert action == "order.refund"
        assert before == {
            "status": "paid_escrow",
            "escrowStatus": "held",
            "heldMinor": TOTAL,
            "refundedMinor": 0,
        }
        assert after == before | {
            "heldMinor": TOTAL - 1_000,
            "refundedMinor": 1_000,
            "amountMinor": 1_000,
            "destination": "gateway",
            "reason": REASON,
            "items": [],
            "refundIds": [str(done.refunds[0].id)],
        }

    def test_refund_above_escrow_balance_is_refused(
        self, session: Session, shop: Shop, officer: Caller
    ) -> None:
        order_id = paid_order(session, shop)
        refund(session, order_id, officer, amount_minor=1_000)

        with pytest.raises(EscrowDeficitError) as refused:
            refund(session, order_id, officer, amount_minor=TOTAL - 999)

        assert (refused.value.status, refused.value.code) == (409, "ESCROW_BALANCE_DEFICIT")
        assert [param.name for param in refused.value.invalid_params] == ["amountMinor"]
        refund(session, order_id, officer, amount_minor=TOTAL - 1_000)
        assert status_of(session, order_id) == "refunded"

    def test_refund_after_release_requires_clawback(
        self, session: Session, shop: Shop, officer: Caller
    ) -> None:
        order_id = shipped_order(session, shop)
        release(session, shop, order_id)

        with pytest.raises(AlreadyReleasedError, match="clawback: true"):
            refund(session, order_id, officer)

    def test_refund_of_unpaid_cancelled_or_refunded_order_is_refused(
        self, session: Session, shop: Shop, officer: Caller
    ) -> None:
        unpaid = place(session, shop, make_product(session, shop))
        cancelled, refunded = paid_order(session, shop), paid_order(session, shop)
        cancel(session, cancelled, shop.buyer)
        refund(session, refunded, officer)

        for order_id in (unpaid, cancelled, refunded):
            with pytest.raises(IllegalTransitionError, match="but refund requires"):
                refund(session, order_id, officer, amount_minor=1)
        with pytest.raises(NotFoundError):
            refund(session, uuid4(), officer)

    @pytest.mark.parametrize("party", ["buyer", "vendor"])
    def test_officer_cannot_refund_own_order(self, session: Session, shop: Shop, party: str) -> None:
        order_id = paid_order(session, shop)

        with pytest.raises(ForbiddenError, match="a party"):
            refund(session, order_id, getattr(shop, party))

    def test_partial_refunds_never_exceed_amount_paid_per_method(
        self, session: Session, shop: Shop, officer: Caller
    ) -> None:
        """The gateway receives at most the charged amount. The wallet receives the rest."""
        fill_wallet(session, shop.buyer.id, 100_000)
        order_id = place(session, shop, make_product(session, shop), wallet=WalletUse(100_000))
        pay(session, shop, order_id)

        refund(session, order_id, officer, amount_minor=50_000, destination="wallet")
        refund(session, order_id, officer, amount_minor=TOTAL - 100_000 - 1)
        refund(session, order_id, officer, amount_minor=20_000)
        refund(session, order_id, officer)

        by_destination: dict[str, int] = {}
        for destination, _, amount in refund_summaries_of(session, order_id):
            by_destination[destination] = by_destination.get(destination, 0) + amount
        assert by_destination == {"gateway": TOTAL - 100_000, "wallet": 100_000}
        assert status_of(session, order_id) == "refunded"
        assert_ledger_is_consistent(session)

    def test_processed_refund_keeps_ledger_invariants(
        self, session: Session, shop: Shop, officer: Caller
    ) -> None:
        order_id = paid_order(session, shop)
        refund(session, order_id, officer)
        [made] = refunds_of(session, order_id)

        assert report_refund_status(session, made["id"], "processed") == "processed"

        assert balances_of_order(session, order_id) == {"wallet": -TOTAL, "gateway_clearing": -TOTAL}
        assert_ledger_is_consistent(session)


class TestRefundedUnits:
    """Refunded units: refunded once and, unless shipped, restocked once."""

    @pytest.fixture
    def products(self, session: Session, shop: Shop) -> tuple[UUID, UUID]:
        one, two = (
            make_product(session, shop, quantity=10, price_minor=price) for price in (170_000, 60_000)
        )
        return one, two

    @pytest.fixture
    def order_id(self, session: Session, shop: Shop, products: tuple[UUID, UUID]) -> UUID:
        one, two = products
        order_id = place(session, shop, wishes=[RequestedItem(one, 1), RequestedItem(two, 2)])
        pay(session, shop, order_id)
        return order_id

    def refunded_quantities(self, session: Session, order_id: UUID) -> list[int]:
        rows = session.execute(
            text("SELECT refunded_quantity FROM order_items WHERE order_id = :id ORDER BY position"),
            {"id": order_id},
        )
        return list(rows.scalars())

    def notification_bodies(self, session: Session, user_id: UUID) -> list[str]:
        rows = session.execute(
            text(
                "SELECT body FROM notifications WHERE user_id = :id AND type = 'order_refunded' ORDER BY id"
            ),
            {"id": user_id},
        )
        return list(rows.scalars())

    def test_unit_cannot_be_refunded_twice(
        self,
        session: Session,
        shop: Shop,
        officer: Caller,
        order_id: UUID,
        products: tuple[UUID, UUID],
    ) -> None:
        one, two = products
        refund(session, order_id, officer, items=[RefundItem(one, 1)])

        with pytest.raises(ValidationError) as refused:
            refund(session, order_id, officer, items=[RefundItem(two, 1), RefundItem(one, 1)])

        assert [(param.name, param.reason) for param in refused.value.invalid_params] == [
            ("items[1].quantity", "Must not exceed 0, the units left to refund.")
        ]
        assert self.refunded_quantities(session, order_id) == [1, 0]
        assert refund_summaries_of(session, order_id) == [("gateway", "pending", 170_000)]
        refund(session, order_id, officer, items=[RefundItem(two, 1)])
        refund(session, order_id, officer, items=[RefundItem(two, 1)])
        assert self.refunded_quantities(session, order_id) == [1, 2]
        assert_ledger_is_consistent(session)

    def test_item_refund_notifications_name_items_and_stop_vendor_shipment(
        self,
        session: Session,
        shop: Shop,
        officer: Caller,
        order_id: UUID,
        products: tuple[UUID, UUID],
    ) -> None:
        titles = [row_of(session, "products", id=product_id)["title"] for product_id in products]

        refund(session, order_id, officer, items=[RefundItem(products[0], 1), RefundItem(products[1], 2)])

        for person, is_vendor in ((shop.buyer, False), (shop.vendor, True)):
            [body] = self.notification_bodies(session, person.id)
            assert f"Refunded items: 1 x {titles[0]}, 2 x {titles[1]}." in body
            assert ("Do not ship the refunded items" in body) is is_vendor

    def test_refunded_units_return_to_stock(
        self,
        session: Session,
        shop: Shop,
        officer: Caller,
        order_id: UUID,
        products: tuple[UUID, UUID],
    ) -> None:
        one, two = products
        refund(session, order_id, officer, items=[RefundItem(two, 1)])
        assert (stock_of(session, one), stock_of(session, two)) == ((9, 0), (9, 0))

        cancel(session, order_id, shop.buyer)

        assert (stock_of(session, one), stock_of(session, two)) == ((10, 0), (10, 0))
        assert self.refunded_quantities(session, order_id) == [1, 2]
        assert_ledger_is_consistent(session)

    @pytest.mark.parametrize("shipped", [False, True])
    def test_refunded_units_return_to_stock_only_before_shipment(
        self,
        session: Session,
        shop: Shop,
        officer: Caller,
        order_id: UUID,
        products: tuple[UUID, UUID],
        shipped: bool,
    ) -> None:
        one, two = products
        if shipped:
            orders.accept_order(session, order_id=order_id, caller=shop.vendor, now=NOW)
            orders.ship_order(session, order_id=order_id, caller=shop.vendor, tracking_note=None, now=NOW)

        refund(session, order_id, officer, items=[RefundItem(two, 1)])
        refund(session, order_id, officer)

        left = ((9, 0), (8, 0)) if shipped else ((10, 0), (10, 0))
        assert (stock_of(session, one), stock_of(session, two)) == left
        assert self.refunded_quantities(session, order_id) == [1, 2]
        assert ("back in stock" in self.notification_bodies(session, shop.vendor.id)[0]) is not shipped
        assert_ledger_is_consistent(session)

    def test_refund_by_amount_leaves_units_unchanged(
        self,
        session: Session,
        shop: Shop,
        officer: Caller,
        order_id: UUID,
        products: tuple[UUID, UUID],
    ) -> None:
        refund(session, order_id, officer, amount_minor=5)

        assert self.refunded_quantities(session, order_id) == [0, 0]
        assert stock_of(session, products[0]) == (9, 0)
        assert "Do not ship" not in self.notification_bodies(session, shop.vendor.id)[0]

    def test_database_rejects_refunded_quantity_out_of_range(self, session: Session, order_id: UUID) -> None:
        for change in ("quantity + 1", "-1"):
            with (
                pytest.raises(Exception, match="ck_order_items_refunded_quantity"),
                session.begin_nested(),
            ):
                session.execute(
                    text(f"UPDATE order_items SET refunded_quantity = {change} WHERE order_id = :id"),
                    {"id": order_id},
                )


AMOUNT = st.integers(0, 10**9)


@given(
    subtotal=st.integers(1, 10**9),
    delivery=AMOUNT,
    service=AMOUNT,
    commission=st.integers(0, 10_000),
    held=st.integers(0, 10_000),
)
def test_remaining_escrow_is_split_exactly(
    subtotal: int, delivery: int, service: int, commission: int, held: int
) -> None:
    price = Price(subtotal, delivery, service, 0)
    whole = split_escrow(price, commission_minor=subtotal * commission // 10_000)
    left = price.total_minor * held // 10_000

    share = whole.scaled_to(left)

    assert share.vendor_minor + share.platform_minor == left
    for part, of_whole in (
        (share.vendor_minor, whole.vendor_minor),
        (share.platform_minor, whole.platform_minor),
    ):
        # Each part is within a kobo of the exact share and never exceeds the original share.
        assert abs(part * price.total_minor - of_whole * left) < price.total_minor
        assert 0 <= part <= of_whole


def test_database_rejects_refunds_above_charged_amount(session: Session, shop: Shop) -> None:
    order_id = paid_order(session, shop)
    cancel(session, order_id, shop.buyer)
    [made] = refunds_of(session, order_id)

    values: dict[str, Any] = {"id": made["charge_id"]}
    with pytest.raises(Exception, match="ck_gateway_charges_refunded"), session.begin_nested():
        session.execute(
            text("UPDATE gateway_charges SET refunded_minor = refunded_minor + 1 WHERE id = :id"), values
        )
