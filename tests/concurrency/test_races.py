"""Two at the same order at once: exactly one of them has an effect, and the books are whole."""

from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy.orm import Session

from marketplace.infra.db import Database
from marketplace.kernel.states import IllegalTransitionError
from marketplace.orders import operations as orders
from marketplace.orders.transitions import SYSTEM, lock_order
from marketplace.payments import cancelling
from marketplace.payments.charges import Outcome
from tests.simulation.life import freeze
from tests.support.purchases import (
    NOW,
    Shop,
    apply,
    assert_books_are_whole,
    balances_of_order,
    make_charge,
    make_intent,
    make_product,
    make_shop,
    paid_order,
    place,
    release,
    row_of,
    shipped_order,
    status_of,
    trail_of,
)
from tests.support.threads import at_once, unforeseen

ROUNDS = 8
Work = Callable[[Session, Shop, UUID], Any]


def pin(session: Session, shop: Shop, order_id: UUID) -> None:
    release(session, shop, order_id)


def confirm(session: Session, shop: Shop, order_id: UUID) -> None:
    orders.confirm(session, order_id=order_id, caller=shop.buyer, now=NOW)


def cancel(session: Session, shop: Shop, order_id: UUID) -> None:
    cancelling.cancel(session, order_id=order_id, caller=shop.buyer, reason=None, now=NOW)


def cancel_as_vendor(session: Session, shop: Shop, order_id: UUID) -> None:
    cancelling.cancel(session, order_id=order_id, caller=shop.vendor, reason=None, now=NOW)


def ship(session: Session, shop: Shop, order_id: UUID) -> None:
    orders.ship(session, order_id=order_id, caller=shop.vendor, tracking_note=None, now=NOW)


def expire(session: Session, shop: Shop, order_id: UUID) -> None:
    orders.expire(session, order=lock_order(session, order_id=order_id), actor=SYSTEM, now=NOW)


def freeze_order(session: Session, shop: Shop, order_id: UUID) -> None:
    freeze(session, order_id=order_id, now=NOW)


def processing_order(session: Session, shop: Shop) -> UUID:
    order_id = paid_order(session, shop)
    orders.accept(session, order_id=order_id, caller=shop.vendor, now=NOW)
    return order_id


RACES: dict[str, tuple[Callable[[Session, Shop], UUID], Work, Work, set[str]]] = {
    "double PIN": (shipped_order, pin, pin, {"delivered"}),
    "double confirm": (shipped_order, confirm, confirm, {"delivered"}),
    "PIN and confirm": (shipped_order, pin, confirm, {"delivered"}),
    "PIN and freeze": (shipped_order, pin, freeze_order, {"delivered", "disputed"}),
    "confirm and freeze": (shipped_order, confirm, freeze_order, {"delivered", "disputed"}),
    "cancel and ship": (processing_order, cancel, ship, {"cancelled", "shipped"}),
    "cancel by both sides": (paid_order, cancel, cancel_as_vendor, {"cancelled"}),
    "cancel and freeze": (paid_order, cancel, freeze_order, {"cancelled", "disputed"}),
}


@pytest.fixture
def shop(database: Database) -> Shop:
    return database.in_transaction(make_shop)


def race(database: Database, shop: Shop, order_id: UUID, *works: Work) -> list[Any]:
    # Not retried: a deadlock would show.
    def run(work: Work) -> Any:
        with database.transaction() as session:
            return work(session, shop, order_id)

    return at_once(run, works)


@pytest.mark.parametrize("name", RACES)
def test_one_of_two_has_an_effect(database: Database, shop: Shop, name: str) -> None:
    prepare, one, other, ends = RACES[name]
    for _ in range(ROUNDS):
        order_id = database.in_transaction(prepare, shop)
        with database.reading() as session:
            steps = len(trail_of(session, order_id))

        results = race(database, shop, order_id, one, other)

        assert unforeseen(results, IllegalTransitionError) == []
        assert sum(result is None for result in results) == 1
        with database.reading() as session:
            status = status_of(session, order_id)
            assert status in ends
            assert len(trail_of(session, order_id)) == steps + 1
            held = balances_of_order(session, order_id).get("escrow", 0)
            total = row_of(session, "orders", id=order_id)["total_minor"]
            assert held == (total if status in ("shipped", "disputed") else 0)
    with database.reading() as session:
        assert_books_are_whole(session)


def test_accepting_what_is_being_cancelled_loses_no_money(database: Database, shop: Shop) -> None:
    """Accepted first, it is cancelled all the same: an order can be called off until it is shipped."""

    def accept(session: Session, shop: Shop, order_id: UUID) -> None:
        orders.accept(session, order_id=order_id, caller=shop.vendor, now=NOW)

    for _ in range(ROUNDS):
        order_id = database.in_transaction(paid_order, shop)

        cancelled, accepted = race(database, shop, order_id, cancel, accept)

        assert cancelled is None
        assert accepted is None or isinstance(accepted, IllegalTransitionError)
        with database.reading() as session:
            assert status_of(session, order_id) == "cancelled"
            assert "escrow" not in balances_of_order(session, order_id)
    with database.reading() as session:
        assert_books_are_whole(session)


@pytest.mark.parametrize(
    ("ending", "status"), [(cancel, "cancelled"), (expire, "expired")], ids=["cancel", "expire"]
)
def test_a_charge_that_meets_an_end_is_applied_or_goes_back(
    database: Database, shop: Shop, ending: Work, status: str
) -> None:
    for _ in range(ROUNDS):
        with database.transaction() as session:
            order_id = place(session, shop, make_product(session, shop))
            charge = make_charge(make_intent(session, shop, order_id))

        ended, outcome = race(
            database, shop, order_id, ending, lambda session, _shop, _order_id, c=charge: apply(session, c)
        )

        assert outcome in (Outcome.APPLIED, Outcome.RETURNED)
        with database.reading() as session:
            now = status_of(session, order_id)
            balances = balances_of_order(session, order_id)
        if outcome is Outcome.RETURNED or status == "cancelled":
            assert ended is None
            # Sent back either way: as a late charge, or because a paid order was cancelled.
            assert now == status
            assert balances["refunds_in_transit"] == charge.amount_minor
            assert "escrow" not in balances
        else:
            assert isinstance(ended, IllegalTransitionError)
            assert (now, balances["escrow"]) == ("paid_escrow", charge.amount_minor)
    with database.reading() as session:
        assert_books_are_whole(session)
