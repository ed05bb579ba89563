"""Refunds out of escrow: of a cancelled order, and by an officer; what goes where, to the kobo."""

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
from tests.support.finance import REASON, audited, refund, refunds_of, say, sums_of, told
from tests.support.purchases import (
    COMMISSION_BPS,
    DELIVERY_FEE_MINOR,
    NOW,
    PRICE_MINOR,
    SERVICE_FEE_MINOR,
    Shop,
    apply as apply_charge_of,
    assert_books_are_whole,
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


class TestCancellingWhatIsPaid:
    @pytest.mark.parametrize("by", ["buyer", "vendor"])
    @pytest.mark.parametrize("accepted", [False, True])
    def test_all_of_it_goes_back_to_where_it_came_from(
        self, session: Session, shop: Shop, by: str, accepted: bool
    ) -> None:
        product_id = make_product(session, shop, quantity=5)
        order_id = place(session, shop, product_id, quantity=2)
        pay(session, shop, order_id)
        if accepted:
            orders.accept_order(session, order_id=order_id, caller=shop.vendor, now=NOW)
        total = row_of(session, "orders", id=order_id)["total_minor"]

        cancel(session, order_id, getattr(shop, by))

        assert sums_of(session, order_id) == [("gateway", "pending", total)]
        assert balances_of_order(session, order_id) == {"wallet": -total, "refunds_in_transit": total}
        assert escrow_of(session, order_id) == ("refunded", 0)
        assert stock_of(session, product_id) == (5, 0)
        assert row_of(session, "products", id=product_id)["popularity"] == 0
        before = "processing" if accepted else "paid_escrow"
        assert trail_of(session, order_id)[-1] == (before, "cancelled", "cancel", by)
        [made] = refunds_of(session, order_id)
        assert (made["cause"], made["reason"]) == (f"order:{order_id}:cancel", f"Cancelled by the {by}.")
        assert told(session, shop.buyer.id) == ["order_paid", "order_cancelled"]
        assert told(session, shop.vendor.id) == ["order_received", "order_cancelled"]
        assert_books_are_whole(session)

    def test_a_worker_is_told_to_send_it(self, session: Session, shop: Shop) -> None:
        order_id = paid_order(session, shop)
        cancel(session, order_id, shop.buyer)

        [made] = refunds_of(session, order_id)
        events = session.execute(
            text("SELECT queue, topic FROM outbox_events WHERE payload ->> 'refundId' = :id"),
            {"id": str(made["id"])},
        ).all()
        assert [tuple(event) for event in events] == [("webhooks", "refund.send")]

    def test_what_the_wallet_paid_goes_back_to_the_wallet(self, session: Session, shop: Shop) -> None:
        fill_wallet(session, shop.buyer.id, 100_000)
        order_id = place(session, shop, make_product(session, shop), wallet=WalletUse(100_000))
        pay(session, shop, order_id)
        assert wallet_of(session, shop.buyer.id) == 0

        cancel(session, order_id, shop.buyer)

        assert sorted(sums_of(session, order_id)) == [
            ("gateway", "pending", TOTAL - 100_000),
            ("wallet", "processed", 100_000),
        ]
        assert wallet_of(session, shop.buyer.id) == 100_000
        assert_books_are_whole(session)

    def test_what_the_wallet_paid_whole_needs_no_gateway(self, session: Session, shop: Shop) -> None:
        fill_wallet(session, shop.buyer.id, TOTAL)
        order_id = place(session, shop, make_product(session, shop), wallet=WalletUse(TOTAL))
        assert status_of(session, order_id) == "paid_escrow"

        cancel(session, order_id, shop.buyer)

        assert sums_of(session, order_id) == [("wallet", "processed", TOTAL)]
        assert wallet_of(session, shop.buyer.id) == TOTAL
        assert_books_are_whole(session)

    def test_an_unpaid_one_gives_its_wallet_part_back_without_a_refund(
        self, session: Session, shop: Shop
    ) -> None:
        fill_wallet(session, shop.buyer.id, 100_000)
        order_id = place(session, shop, make_product(session, shop), wallet=WalletUse(100_000))

        cancel(session, order_id, shop.vendor)

        assert refunds_of(session, order_id) == []
        assert wallet_of(session, shop.buyer.id) == 100_000
        # The vendor was never shown it.
        assert (told(session, shop.buyer.id), told(session, shop.vendor.id)) == (["order_cancelled"], [])
        assert_books_are_whole(session)

    def test_an_excess_that_is_in_the_wallet_stays_there(self, session: Session, shop: Shop) -> None:
        order_id = place(session, shop, make_product(session, shop))
        pay(session, shop, order_id, amount_minor=TOTAL + 700)

        cancel(session, order_id, shop.buyer)

        assert sums_of(session, order_id) == [("gateway", "pending", TOTAL)]
        assert wallet_of(session, shop.buyer.id) == 700
        assert_books_are_whole(session)

    def test_orders_of_one_charge_go_back_each_for_itself(self, session: Session, shop: Shop) -> None:
        shops = neighbours(session, shop, 3)
        done = check_out(session, shop, [RequestedItem(make_product(session, one), 1) for one in shops])
        assert done.payment is not None
        charge = make_charge(done.payment)
        apply_charge_of(session, charge)
        row = row_of(session, "gateway_charges", gateway_charge_id=charge.id)

        for number, order_id in enumerate(done.order_ids, start=1):
            cancel(session, order_id, shop.buyer)
            assert sums_of(session, order_id) == [("gateway", "pending", TOTAL)]
            left = row_of(session, "gateway_charges", id=row["id"])
            assert left["refunded_minor"] == number * TOTAL
        assert_books_are_whole(session)

    def test_the_rest_of_what_was_refunded_in_part(
        self, session: Session, shop: Shop, officer: Caller
    ) -> None:
        order_id = paid_order(session, shop)
        refund(session, order_id, officer, amount_minor=1_000)

        cancel(session, order_id, shop.vendor)

        assert sums_of(session, order_id) == [
            ("gateway", "pending", 1_000),
            ("gateway", "pending", TOTAL - 1_000),
        ]
        assert escrow_of(session, order_id) == ("refunded", 0)
        assert_books_are_whole(session)


class TestByAnOfficer:
    @pytest.mark.parametrize("destination", ["gateway", "wallet"])
    @pytest.mark.parametrize("shipped", [False, True])
    @pytest.mark.parametrize("frozen", [False, True])
    def test_all_of_it_ends_the_order(
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
        assert sums_of(session, order_id) == [(destination, state, TOTAL)]
        assert [part.amount_minor for part in done.refunds] == [TOTAL]
        assert wallet_of(session, shop.buyer.id) == (TOTAL if destination == "wallet" else 0)
        # What was shipped is out of the vendor's hands.
        assert stock_of(session, product_id) == (4 if shipped else 5, 0)
        assert trail_of(session, order_id)[-1] == (
            "disputed" if frozen else before,
            "refunded",
            "refund",
            "staff",
        )
        assert row_of(session, "orders", id=order_id)["refunded_at"] == NOW
        assert told(session, shop.buyer.id)[-1] == told(session, shop.vendor.id)[-1] == "order_refunded"
        assert_books_are_whole(session)

    def test_a_part_leaves_the_order_where_it_is_and_each_side_bears_its_share(
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
        assert_books_are_whole(session)

    def test_what_the_items_cost_without_an_amount(
        self, session: Session, shop: Shop, officer: Caller
    ) -> None:
        order_id = paid_order(session, shop, quantity=3)
        product_id = row_of(session, "order_items", order_id=order_id)["product_id"]

        done = refund(session, order_id, officer, items=[RefundItem(product_id, 2)])

        assert done.amount_minor == 2 * PRICE_MINOR
        [(_, _, after)] = audited(session, order_id)
        assert after["items"] == [{"productId": str(product_id), "quantity": 2}]

    @pytest.mark.parametrize("difference", [-5, 5])
    def test_an_amount_that_the_items_do_not_cost_is_refused(
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

    def test_items_that_are_not_in_the_order_are_named(
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

        [(action, before, after)] = audited(session, order_id)
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

    def test_more_than_escrow_holds_is_refused_naming_the_amount(
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

    def test_after_release_it_takes_a_clawback(self, session: Session, shop: Shop, officer: Caller) -> None:
        order_id = shipped_order(session, shop)
        release(session, shop, order_id)

        with pytest.raises(AlreadyReleasedError, match="clawback: true"):
            refund(session, order_id, officer)

    def test_what_is_not_paid_or_over_is_refused(self, session: Session, shop: Shop, officer: Caller) -> None:
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

    def test_many_parts_never_exceed_what_came_by_each_way(
        self, session: Session, shop: Shop, officer: Caller
    ) -> None:
        """To the gateway goes at most what came by it; the rest of the parts goes to the wallet."""
        fill_wallet(session, shop.buyer.id, 100_000)
        order_id = place(session, shop, make_product(session, shop), wallet=WalletUse(100_000))
        pay(session, shop, order_id)

        refund(session, order_id, officer, amount_minor=50_000, destination="wallet")
        refund(session, order_id, officer, amount_minor=TOTAL - 100_000 - 1)
        refund(session, order_id, officer, amount_minor=20_000)
        refund(session, order_id, officer)

        by_way: dict[str, int] = {}
        for destination, _, amount in sums_of(session, order_id):
            by_way[destination] = by_way.get(destination, 0) + amount
        assert by_way == {"gateway": TOTAL - 100_000, "wallet": 100_000}
        assert status_of(session, order_id) == "refunded"
        assert_books_are_whole(session)

    def test_a_refund_that_was_processed_leaves_the_books_whole(
        self, session: Session, shop: Shop, officer: Caller
    ) -> None:
        order_id = paid_order(session, shop)
        refund(session, order_id, officer)
        [made] = refunds_of(session, order_id)

        assert say(session, made["id"], "processed") == "processed"

        assert balances_of_order(session, order_id) == {"wallet": -TOTAL, "gateway_clearing": -TOTAL}
        assert_books_are_whole(session)


class TestPieces:
    """Each piece is refunded once; what was not shipped is in stock again, once."""

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

    def refunded(self, session: Session, order_id: UUID) -> list[int]:
        rows = session.execute(
            text("SELECT refunded_quantity FROM order_items WHERE order_id = :id ORDER BY position"),
            {"id": order_id},
        )
        return list(rows.scalars())

    def bodies(self, session: Session, user_id: UUID) -> list[str]:
        rows = session.execute(
            text(
                "SELECT body FROM notifications WHERE user_id = :id AND type = 'order_refunded' ORDER BY id"
            ),
            {"id": user_id},
        )
        return list(rows.scalars())

    def test_none_is_refunded_twice(
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
        assert self.refunded(session, order_id) == [1, 0]
        assert sums_of(session, order_id) == [("gateway", "pending", 170_000)]
        refund(session, order_id, officer, items=[RefundItem(two, 1)])
        refund(session, order_id, officer, items=[RefundItem(two, 1)])
        assert self.refunded(session, order_id) == [1, 2]
        assert_books_are_whole(session)

    def test_both_sides_are_told_which_and_the_vendor_not_to_ship_them(
        self,
        session: Session,
        shop: Shop,
        officer: Caller,
        order_id: UUID,
        products: tuple[UUID, UUID],
    ) -> None:
        titles = [row_of(session, "products", id=product_id)["title"] for product_id in products]

        refund(session, order_id, officer, items=[RefundItem(products[0], 1), RefundItem(products[1], 2)])

        for person, told_stock in ((shop.buyer, False), (shop.vendor, True)):
            [body] = self.bodies(session, person.id)
            assert f"Refunded items: 1 x {titles[0]}, 2 x {titles[1]}." in body
            assert ("Do not ship the refunded items" in body) is told_stock

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
        assert self.refunded(session, order_id) == [1, 2]
        assert_books_are_whole(session)

    @pytest.mark.parametrize("shipped", [False, True])
    def test_what_is_shipped_is_out_of_the_vendors_hands(
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
        assert self.refunded(session, order_id) == [1, 2]
        assert ("back in stock" in self.bodies(session, shop.vendor.id)[0]) is not shipped
        assert_books_are_whole(session)

    def test_money_alone_leaves_the_pieces_as_they_are(
        self,
        session: Session,
        shop: Shop,
        officer: Caller,
        order_id: UUID,
        products: tuple[UUID, UUID],
    ) -> None:
        refund(session, order_id, officer, amount_minor=5)

        assert self.refunded(session, order_id) == [0, 0]
        assert stock_of(session, products[0]) == (9, 0)
        assert "Do not ship" not in self.bodies(session, shop.vendor.id)[0]

    def test_the_database_keeps_to_it(self, session: Session, order_id: UUID) -> None:
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
def test_what_is_left_is_shared_to_the_kobo(
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
        # Within a kobo of its exact share, and never more than it would have had.
        assert abs(part * price.total_minor - of_whole * left) < price.total_minor
        assert 0 <= part <= of_whole


def test_what_came_by_the_gateway_is_bounded_by_the_database(session: Session, shop: Shop) -> None:
    order_id = paid_order(session, shop)
    cancel(session, order_id, shop.buyer)
    [made] = refunds_of(session, order_id)

    values: dict[str, Any] = {"id": made["charge_id"]}
    with pytest.raises(Exception, match="ck_gateway_charges_refunded"), session.begin_nested():
        session.execute(
            text("UPDATE gateway_charges SET refunded_minor = refunded_minor + 1 WHERE id = :id"), values
        )
