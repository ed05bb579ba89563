"""Random carts of several vendors, wallets and charges: totals are exact and ledger invariants hold."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from uuid import UUID

from hypothesis import HealthCheck, given, settings as hypothesis_settings, strategies as st
from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.cart.operations import RequestedItem
from marketplace.infra.db import Database
from marketplace.orders import operations as orders
from marketplace.orders.placing.place_order import WalletUse
from marketplace.payments.charges.apply import ChargeOutcome
from marketplace.payments.intents.lifecycle import CheckoutResult
from marketplace.payments.refunds import order_cancellation
from tests.support.depth import case_count
from tests.support.purchases import (
    COMMISSION_BPS,
    DELIVERY_FEE_MINOR,
    NOW,
    SERVICE_FEE_MINOR,
    Shop,
    apply,
    assert_ledger_is_consistent,
    balances_of_order,
    check_out,
    fill_wallet,
    make_charge,
    make_product,
    make_shop,
    neighbours,
    row_of,
    status_of,
    wallet_of,
)

VENDORS = 4
FEES = DELIVERY_FEE_MINOR + SERVICE_FEE_MINOR


@dataclass(frozen=True)
class Line:
    """A cart line with vendor, price in kobo and quantity."""

    vendor: int
    price_minor: int
    quantity: int


@dataclass(frozen=True)
class Case:
    """A cart with wallet balance, requested wallet amount, cancelled orders and charge difference."""

    cart: list[Line]
    balance_minor: int
    requested_minor: int | None
    cancelled: set[int]
    difference_minor: int


LINES = st.builds(
    Line, vendor=st.integers(0, VENDORS - 1), price_minor=st.integers(100, 10**9), quantity=st.integers(1, 20)
)


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Draw a case with a sufficient wallet balance. No requested amount means as much as possible."""
    cart = draw(st.lists(LINES, min_size=1, max_size=7))
    total = sum(totals_of(cart))
    edges = st.sampled_from([0, 1, *totals_of(cart), total - 1, total, total + 1])
    balance = draw(st.one_of(edges, st.integers(0, total + 10**6)))
    requested = draw(st.one_of(st.none(), st.integers(0, min(balance, total)), st.just(min(balance, total))))
    cancelled = draw(st.sets(st.integers(0, VENDORS - 1)))
    difference = draw(st.sampled_from([0, 0, 0, 1, 12_345, -1, -(10**6)]))
    return Case(cart, balance, requested, cancelled, difference)


def vendors_of(cart: list[Line]) -> list[int]:
    """List the vendors in cart order."""
    return list(dict.fromkeys(line.vendor for line in cart))


def totals_of(cart: list[Line]) -> list[int]:
    """Compute the total of each vendor's order independently of the service."""
    return [
        sum(line.price_minor * line.quantity for line in cart if line.vendor == vendor) + FEES
        for vendor in vendors_of(cart)
    ]


@contextmanager
def rolled_back(database: Database) -> Iterator[Session]:
    """Open a session, check deferred constraints at the end and roll back."""

    class RollbackError(Exception):
        pass

    with suppress(RollbackError), database.transaction() as session:
        yield session
        session.execute(text("SET CONSTRAINTS ALL IMMEDIATE"))
        raise RollbackError


def place_case(session: Session, case: Case) -> tuple[list[Shop], CheckoutResult]:
    shops = neighbours(session, make_shop(session), VENDORS)
    items = [
        RequestedItem(
            make_product(session, shops[line.vendor], price_minor=line.price_minor, quantity=20),
            line.quantity,
        )
        for line in case.cart
    ]
    if case.balance_minor:
        fill_wallet(session, shops[0].buyer.id, case.balance_minor)
    use = (
        WalletUse(as_much_as_possible=True)
        if case.requested_minor is None
        else WalletUse(case.requested_minor)
    )
    done = check_out(session, shops[0], items, wallet=use, expected_total_minor=sum(totals_of(case.cart)))
    return shops, done


@hypothesis_settings(
    max_examples=case_count(15, deep=200), suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(case=cases())
def test_checkout_totals_add_up_to_the_kobo(database: Database, case: Case) -> None:
    with rolled_back(database) as session:
        shops, done = place_case(session, case)
        buyer_id, totals = shops[0].buyer.id, totals_of(case.cart)

        rows = [row_of(session, "orders", id=order_id) for order_id in done.order_ids]
        assert [row["total_minor"] for row in rows] == totals
        assert [row["vendor_id"] for row in rows] == [
            shops[vendor].store_id for vendor in vendors_of(case.cart)
        ]
        parts = [row["wallet_minor"] for row in rows]
        wanted = (
            min(case.balance_minor, sum(totals)) if case.requested_minor is None else case.requested_minor
        )
        assert sum(parts) == wanted
        assert wallet_of(session, buyer_id) == case.balance_minor - wanted
        for number, (part, total) in enumerate(zip(parts, totals, strict=True)):
            assert part == total or not any(parts[number + 1 :])
            assert rows[number]["status"] == ("paid_escrow" if part == total else "pending_payment")
        due = [total - part for part, total in zip(parts, totals, strict=True)]
        assert (done.payment.amount_minor if done.payment else 0) == sum(due)
        assert_ledger_is_consistent(session)


@hypothesis_settings(
    max_examples=case_count(15, deep=200), suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(case=cases())
def test_cancellation_and_charge_neither_create_nor_lose_a_kobo(database: Database, case: Case) -> None:
    with rolled_back(database) as session:
        shops, done = place_case(session, case)
        buyer = shops[0].buyer
        due = dues(session, done.order_ids)
        cancelled_ids = [
            order_id for number, order_id in enumerate(done.order_ids) if number in case.cancelled
        ]
        for order_id in cancelled_ids:
            order_cancellation.cancel_order(session, order_id=order_id, caller=buyer, reason=None, now=NOW)
        waiting = [order_id for order_id in done.order_ids if due[order_id] and order_id not in cancelled_ids]
        needed = sum(due[order_id] for order_id in waiting)
        paid_in = 0
        if done.payment is not None:
            paid_in = max(done.payment.amount_minor + case.difference_minor, 1)
            outcome = apply(session, make_charge(done.payment, amount_minor=paid_in))
            if not waiting:
                assert outcome is ChargeOutcome.RETURNED
            else:
                assert outcome is (ChargeOutcome.APPLIED if paid_in >= needed else ChargeOutcome.QUARANTINED)
            # The charge pays all waiting orders or none.
            assert len({status_of(session, order_id) for order_id in waiting}) <= 1

        escrow_minor = sum(
            balances_of_order(session, order_id).get("escrow", 0) for order_id in done.order_ids
        )
        assert case.balance_minor + paid_in == (
            escrow_minor
            + wallet_of(session, buyer.id)
            + refunds_in_transit(session, buyer.id)
            + quarantined_minor(session, buyer.id)
        )
        assert_ledger_is_consistent(session)
        deliver_and_check_shares(session, shops, done.order_ids)
        assert_ledger_is_consistent(session)


def dues(session: Session, order_ids: tuple[UUID, ...]) -> dict[UUID, int]:
    """Return the due amount of each order."""
    rows = [row_of(session, "orders", id=order_id) for order_id in order_ids]
    return {row["id"]: row["total_minor"] - row["wallet_minor"] for row in rows}


def refunds_in_transit(session: Session, buyer_id: UUID) -> int:
    """Sum the gateway refunds of a buyer in kobo."""
    found = session.execute(
        text(
            "SELECT coalesce(sum(amount_minor), 0) FROM refunds"
            " WHERE buyer_id = :id AND destination = 'gateway'"
        ),
        {"id": buyer_id},
    ).scalar_one()
    return int(found)


def quarantined_minor(session: Session, buyer_id: UUID) -> int:
    """Sum the quarantined charges of a buyer in kobo."""
    found = session.execute(
        text(
            "SELECT coalesce(sum(q.amount_minor), 0) FROM quarantined_charges q"
            " JOIN payment_intents i ON i.id = q.intent_id WHERE i.buyer_id = :id AND q.status = 'open'"
        ),
        {"id": buyer_id},
    ).scalar_one()
    return int(found)


def deliver_and_check_shares(session: Session, shops: list[Shop], order_ids: tuple[UUID, ...]) -> None:
    """Deliver the paid orders and compare the shares with the rates stored per line."""
    vendors = {shop.store_id: shop.vendor for shop in shops}
    for order_id in order_ids:
        order = row_of(session, "orders", id=order_id)
        if order["status"] != "paid_escrow":
            continue
        vendor = vendors[order["vendor_id"]]
        orders.accept_order(session, order_id=order_id, caller=vendor, now=NOW)
        orders.ship_order(session, order_id=order_id, caller=vendor, tracking_note=None, now=NOW)
        orders.confirm_receipt(session, order_id=order_id, caller=shops[0].buyer, now=NOW)
        lines = session.execute(
            text("SELECT line_total_minor FROM order_items WHERE order_id = :id"), {"id": order_id}
        ).scalars()
        commission = sum(minor * COMMISSION_BPS // 10_000 for minor in lines)
        balances = balances_of_order(session, order_id)
        assert balances["platform_revenue"] == commission + SERVICE_FEE_MINOR
        assert balances["vendor_payable"] == order["total_minor"] - commission - SERVICE_FEE_MINOR
        assert "escrow" not in balances
