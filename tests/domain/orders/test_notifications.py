"""Notifications about orders and payments: sent once, in the same transaction, readable and without PINs."""

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from uuid import UUID

import pytest
from psycopg2.errors import CheckViolation
from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.cart.operations import RequestedItem
from marketplace.kernel.errors import MarketplaceError
from marketplace.kernel.money import format_naira
from marketplace.orders import operations as orders
from marketplace.orders.placing.place_order import WalletUse
from marketplace.orders.transitions import SYSTEM, lock_order
from marketplace.payments.charges import quarantine
from marketplace.payments.charges.apply import ChargeOutcome
from marketplace.payments.intents import lifecycle
from marketplace.payments.refunds import order_cancellation
from tests.support.finance import act_of, make_officer, refund, refunds_of, report_refund_status
from tests.support.purchases import (
    NOW,
    Shop,
    apply,
    check_out,
    fill_wallet,
    make_charge,
    make_intent,
    make_product,
    neighbours,
    paid_order,
    pin_of,
    place,
    row_of,
)

# Internal codes and identifiers that users must not see.
_CODES = re.compile(r"[a-z]+_[a-z]|[A-Z]{2,}_|checkout-[0-9a-f]|[0-9a-f]{8}-[0-9a-f]{4}|kobo|None")


@pytest.fixture(autouse=True)
def check_readable(session: Session, shop: Shop) -> Iterator[None]:
    """Check after each test that all notifications are readable and contain no PIN."""
    yield
    rows = session.execute(
        text("SELECT title, body FROM notifications WHERE user_id = ANY(:parties)"),
        {"parties": [shop.buyer.id, shop.vendor.id]},
    ).all()
    placed = session.execute(text("SELECT id FROM orders WHERE buyer_id = :id"), {"id": shop.buyer.id})
    pins = {pin_of(order_id) for order_id in placed.scalars()}
    assert rows
    for title, body in rows:
        for words in (title, body):
            assert _CODES.search(words) is None, words
            assert words[0].isupper() or words[0] == "₦"
            assert pins.isdisjoint(re.findall(r"\b\d{6}\b", words))
        assert body.endswith(".")


def notifications_of(session: Session, user_id: UUID) -> list[tuple[str, str]]:
    """Return type and body of a user's notifications, oldest first."""
    rows = session.execute(
        text("SELECT type, body FROM notifications WHERE user_id = :id ORDER BY id"), {"id": user_id}
    )
    return [tuple(row) for row in rows]


def notification_types(session: Session, user_id: UUID) -> list[str]:
    return [kind for kind, _ in notifications_of(session, user_id)]


def number_of(session: Session, order_id: UUID) -> str:
    number: str = row_of(session, "orders", id=order_id)["number"]
    return number


def by_event(session: Session, shop: Shop) -> UUID:
    order_id = place(session, shop, make_product(session, shop))
    charge = make_charge(make_intent(session, shop, order_id))
    apply(session, charge)
    assert apply(session, charge) is ChargeOutcome.DUPLICATE
    return order_id


def by_polling(session: Session, shop: Shop) -> UUID:
    order_id = place(session, shop, make_product(session, shop))
    charge = make_charge(make_intent(session, shop, order_id))
    for _ in range(2):
        lifecycle.apply_reported_charge(
            session, reference=charge.reference, charge=charge, fee_bearer="platform", now=NOW
        )
    return order_id


def by_wallet(session: Session, shop: Shop) -> UUID:
    fill_wallet(session, shop.buyer.id, 1_000_000)
    return place(session, shop, make_product(session, shop), wallet=WalletUse(as_much_as_possible=True))


def by_officer(session: Session, shop: Shop) -> UUID:
    """Pay by an accepted quarantined charge that covers the remaining order of a checkout."""
    shops = neighbours(session, shop, 2)
    checkout = check_out(session, shop, [RequestedItem(make_product(session, seller), 1) for seller in shops])
    assert checkout.payment is not None
    charge = make_charge(checkout.payment, amount_minor=checkout.payment.amount_minor - 1)
    assert apply(session, charge) is ChargeOutcome.QUARANTINED
    own_order_ids = [
        order_id for order_id in checkout.order_ids if store_of(session, order_id) == shop.store_id
    ]
    [other] = set(checkout.order_ids) - set(own_order_ids)
    order_cancellation.cancel_order(session, order_id=other, caller=shop.buyer, reason=None, now=NOW)
    resolve(session, charge.id, "accept_rest")
    return own_order_ids[0]


def store_of(session: Session, order_id: UUID) -> UUID:
    store_id: UUID = row_of(session, "orders", id=order_id)["vendor_id"]
    return store_id


def resolve(session: Session, charge_id: str, action: str) -> None:
    officer = make_officer(session)
    quarantine.resolve_quarantined_charge(
        session,
        quarantined_charge_id=row_of(session, "quarantined_charges", gateway_charge_id=charge_id)["id"],
        action=action,  # type: ignore[arg-type]
        note="Looked into it.",
        act=act_of(officer, now=NOW),
    )


class TestPaid:
    @pytest.mark.parametrize("pay", [by_event, by_polling, by_wallet, by_officer])
    def test_vendor_and_buyer_are_notified_once_for_each_payment_path(
        self, session: Session, shop: Shop, pay: Callable[[Session, Shop], UUID]
    ) -> None:
        order_id = pay(session, shop)

        number = number_of(session, order_id)
        assert row_of(session, "orders", id=order_id)["status"] == "paid_escrow"
        [(kind, words)] = notifications_of(session, shop.vendor.id)
        assert kind == "order_received"
        assert words.startswith(f"Order {number} is paid. Accept the order and prepare the items.")
        [words] = [words for kind, words in notifications_of(session, shop.buyer.id) if kind == "order_paid"]
        assert f"Order {number} is paid" in words
        assert "delivery PIN is shown on the order" in words
        assert row_of(session, "notifications", user_id=shop.vendor.id)["link"] == f"/orders/{order_id}"

    def test_each_vendor_of_checkout_is_notified_of_own_order(self, session: Session, shop: Shop) -> None:
        shops = neighbours(session, shop, 3)
        checkout = check_out(
            session, shop, [RequestedItem(make_product(session, seller), 1) for seller in shops]
        )
        assert checkout.payment is not None

        apply(session, make_charge(checkout.payment))

        for seller in shops:
            [(kind, _)] = notifications_of(session, seller.vendor.id)
            assert kind == "order_received"
        assert notification_types(session, shop.buyer.id) == ["order_paid"] * 3

    def test_rolled_back_payment_sends_no_notification(self, session: Session, shop: Shop) -> None:
        order_id = place(session, shop, make_product(session, shop))
        charge = make_charge(make_intent(session, shop, order_id))
        session.execute(text("UPDATE products SET reserved = 0"))

        def apply_in_savepoint() -> None:
            with session.begin_nested():
                session.connection()  # sets the savepoint
                apply(session, charge)

        with pytest.raises(CheckViolation, match="reserved"):
            apply_in_savepoint()

        assert notifications_of(session, shop.vendor.id) == notifications_of(session, shop.buyer.id) == []
        session.execute(text("UPDATE products SET reserved = 1 WHERE vendor_id = :id"), {"id": shop.store_id})
        apply(session, charge)
        assert notification_types(session, shop.vendor.id) == ["order_received"]


class TestCancelledOrExpired:
    def test_buyer_of_expired_order_is_notified_of_returned_wallet_share(
        self, session: Session, shop: Shop
    ) -> None:
        fill_wallet(session, shop.buyer.id, 5_000)
        order_id = place(session, shop, make_product(session, shop), wallet=WalletUse(5_000))

        orders.expire_order(session, order=lock_order(session, order_id=order_id), actor=SYSTEM, now=NOW)

        [(kind, words)] = notifications_of(session, shop.buyer.id)
        assert kind == "order_expired"
        assert words.startswith(f"Order {number_of(session, order_id)} was not paid in time")
        assert f"{format_naira(5_000)} that your wallet paid is back" in words
        assert notifications_of(session, shop.vendor.id) == []

    @pytest.mark.parametrize("by", ["buyer", "vendor"])
    def test_cancellation_notifies_both_parties_and_buyer_of_refunds(
        self, session: Session, shop: Shop, by: str
    ) -> None:
        fill_wallet(session, shop.buyer.id, 5_000)
        order_id = place(session, shop, make_product(session, shop), wallet=WalletUse(5_000))
        intent = make_intent(session, shop, order_id)
        apply(session, make_charge(intent))

        order_cancellation.cancel_order(
            session, order_id=order_id, caller=getattr(shop, by), reason=None, now=NOW
        )

        number = number_of(session, order_id)
        buyer, vendor = (
            notifications_of(session, shop.buyer.id)[-1],
            notifications_of(session, shop.vendor.id)[-1],
        )
        assert buyer[0] == vendor[0] == "order_cancelled"
        assert buyer[1].startswith(f"Order {number} was cancelled by the {by}.")
        assert (
            f"{format_naira(intent.amount_minor)} is going back to your original payment method" in buyer[1]
        )
        assert f"{format_naira(5_000)} is back in your wallet" in buyer[1]
        assert vendor[1] == f"Order {number} was cancelled by the {by}. The items are back in stock."

    def test_cancellation_of_unpaid_order_notifies_buyer_of_returned_wallet_share(
        self, session: Session, shop: Shop
    ) -> None:
        fill_wallet(session, shop.buyer.id, 5_000)
        order_id = place(session, shop, make_product(session, shop), wallet=WalletUse(5_000))

        order_cancellation.cancel_order(session, order_id=order_id, caller=shop.buyer, reason=None, now=NOW)

        [(kind, words)] = notifications_of(session, shop.buyer.id)
        assert kind == "order_cancelled"
        assert words.endswith(f"{format_naira(5_000)} is back in your wallet.")
        assert notifications_of(session, shop.vendor.id) == []


class TestQuarantined:
    def test_buyer_is_notified_of_received_and_due_amount(self, session: Session, shop: Shop) -> None:
        order_id = place(session, shop, make_product(session, shop))
        intent = make_intent(session, shop, order_id)
        charge = make_charge(intent, amount_minor=70_000)

        apply(session, charge)
        apply(session, charge)

        [(kind, words)] = notifications_of(session, shop.buyer.id)
        assert kind == "payment_held"
        assert words.startswith(
            f"We received {format_naira(70_000)} for {number_of(session, order_id)}, but"
            f" {format_naira(intent.amount_minor)} is due."
        )
        assert "do not pay again" in words
        assert notifications_of(session, shop.vendor.id) == []

    def test_buyer_is_notified_of_payment_in_foreign_currency(self, session: Session, shop: Shop) -> None:
        order_id = place(session, shop, make_product(session, shop))
        charge = replace(make_charge(make_intent(session, shop, order_id)), currency="USD")
        apply(session, charge)

        assert "in a currency other than naira" in notifications_of(session, shop.buyer.id)[-1][1]

        resolve(session, charge.id, "refund")
        kind, words = notifications_of(session, shop.buyer.id)[-1]
        assert kind == "payment_resolved"
        assert words.startswith("We returned your payment in another currency")

    @pytest.mark.parametrize("action", ["accept_rest", "refund", "wallet"])
    def test_resolution_notifies_buyer_of_remaining_amount(
        self, session: Session, shop: Shop, action: str
    ) -> None:
        order_id = place(session, shop, make_product(session, shop))
        intent = make_intent(session, shop, order_id)
        charge = make_charge(intent, amount_minor=intent.amount_minor - 4_500)
        apply(session, charge)

        resolve(session, charge.id, action)

        kind, words = notifications_of(session, shop.buyer.id)[-1]
        assert kind == "payment_resolved"
        due = 4_500 if action == "accept_rest" else intent.amount_minor
        assert format_naira(due) in words
        assert "pen the order" in words
        assert row_of(session, "notifications", user_id=shop.buyer.id, type="payment_resolved")["link"] == (
            f"/orders/{order_id}"
        )


class TestRefunds:
    @pytest.mark.parametrize(
        ("status", "kind"),
        [
            ("processed", "refund_processed"),
            ("failed", "refund_delayed"),
            ("needs-attention", "refund_delayed"),
        ],
    )
    def test_buyer_is_notified_once_of_each_refund_status(
        self, session: Session, shop: Shop, status: str, kind: str
    ) -> None:
        order_id = paid_order(session, shop)
        refund(session, order_id, make_officer(session), amount_minor=1_000)
        [made] = refunds_of(session, order_id)
        before = len(notifications_of(session, shop.vendor.id))

        for _ in range(2):
            report_refund_status(session, made["id"], status)

        found = [
            words for found_kind, words in notifications_of(session, shop.buyer.id) if found_kind == kind
        ]
        assert len(found) == 1
        assert format_naira(1_000) in found[0]
        assert len(notifications_of(session, shop.vendor.id)) == before

    def test_refused_refund_sends_no_notification(self, session: Session, shop: Shop) -> None:
        order_id = paid_order(session, shop)
        before = notifications_of(session, shop.buyer.id)

        with pytest.raises(MarketplaceError), session.begin_nested():
            refund(session, order_id, make_officer(session), amount_minor=10**9)

        assert notifications_of(session, shop.buyer.id) == before
