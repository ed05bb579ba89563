"""Two concurrent acts on a disputed order: exactly one takes effect, and the ledger stays consistent."""

from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy.orm import Session

from marketplace.disputes import cases, offers, rulings
from marketplace.disputes.cases import Complaint
from marketplace.identity.queries import Caller
from marketplace.infra.db import Database
from marketplace.kernel.errors import MarketplaceError
from marketplace.orders import operations as orders
from tests.support.depth import case_count
from tests.support.finance import act_of, make_officer, refund
from tests.support.purchases import (
    NOW,
    Shop,
    assert_ledger_is_consistent,
    balances_of_order,
    make_shop,
    release,
    row_of,
    shipped_order,
    status_of,
)
from tests.support.threads import at_once, unexpected_errors

ROUNDS = case_count(3, deep=40)
COMPLAINT = Complaint("not_received", "It never came to the hub.", "refund")
RULING = rulings.Ruling("refund_buyer", "The hub has no record of the parcel.")
Act = Callable[[Session, Shop, UUID, UUID | None, Caller], Any]


def open_dispute(session: Session, shop: Shop, order_id: UUID, *_: Any) -> None:
    cases.open_dispute(session, order_id=order_id, caller=shop.buyer, complaint=COMPLAINT, now=NOW)


def open_as_vendor(session: Session, shop: Shop, order_id: UUID, *_: Any) -> None:
    cases.open_dispute(session, order_id=order_id, caller=shop.vendor, complaint=COMPLAINT, now=NOW)


def verify_pin(session: Session, shop: Shop, order_id: UUID, *_: Any) -> None:
    release(session, shop, order_id)


def confirm(session: Session, shop: Shop, order_id: UUID, *_: Any) -> None:
    orders.confirm_receipt(session, order_id=order_id, caller=shop.buyer, now=NOW)


def withdraw(session: Session, shop: Shop, _order_id: UUID, dispute_id: UUID | None, _: Caller) -> None:
    assert dispute_id is not None
    cases.withdraw(session, dispute_id=dispute_id, caller=shop.buyer, now=NOW)


def rule_for_buyer(
    session: Session, _shop: Shop, _order_id: UUID, dispute_id: UUID | None, officer: Caller
) -> None:
    assert dispute_id is not None
    rulings.rule(session, dispute_id=dispute_id, ruling=RULING, act=act_of(officer))


def rule_for_vendor(
    session: Session, _shop: Shop, _order_id: UUID, dispute_id: UUID | None, officer: Caller
) -> None:
    assert dispute_id is not None
    ruling = rulings.Ruling("release_vendor", "The receipt of the hub shows the parcel.")
    rulings.rule(session, dispute_id=dispute_id, ruling=ruling, act=act_of(officer))


def offer_and_accept(
    session: Session, shop: Shop, _order_id: UUID, dispute_id: UUID | None, _: Caller
) -> None:
    assert dispute_id is not None
    offer = offers.make_offer(
        session, dispute_id=dispute_id, caller=shop.vendor, buyer_minor=1_000, note=None, now=NOW
    )
    offers.accept_offer(session, dispute_id=dispute_id, offer_id=offer.id, caller=shop.buyer, now=NOW)


def refund_by_finance(
    session: Session, _shop: Shop, order_id: UUID, _dispute_id: UUID | None, officer: Caller
) -> None:
    refund(session, order_id, officer)


@pytest.mark.parametrize(
    ("is_disputed", "first", "second"),
    [
        (False, open_dispute, verify_pin),
        (False, open_dispute, confirm),
        (False, open_dispute, open_as_vendor),
        (True, rule_for_buyer, withdraw),
        (True, rule_for_buyer, rule_for_vendor),
        (True, rule_for_vendor, rule_for_vendor),
        (True, rule_for_vendor, refund_by_finance),
        (True, withdraw, withdraw),
        (True, offer_and_accept, rule_for_buyer),
        (True, offer_and_accept, offer_and_accept),
    ],
    ids=[
        "dispute and PIN",
        "dispute and confirmation",
        "both sides open",
        "ruling and withdrawal",
        "opposite rulings",
        "two officers",
        "ruling and refund",
        "withdrawal twice",
        "settlement and ruling",
        "settlement twice",
    ],
)
def test_exactly_one_act_takes_effect(database: Database, is_disputed: bool, first: Act, second: Act) -> None:
    for _ in range(ROUNDS):
        with database.transaction() as session:
            shop = make_shop(session)
            order_id = shipped_order(session, shop)
            officers = [make_officer(session), make_officer(session)]
        dispute_id = None
        if is_disputed:
            with database.transaction() as session:
                dispute_id = cases.open_dispute(
                    session, order_id=order_id, caller=shop.buyer, complaint=COMPLAINT, now=NOW
                ).id

        def act(pair: tuple[Act, Caller], parts: Any = (shop, order_id, dispute_id)) -> None:
            work, officer = pair
            database.in_transaction(lambda session: work(session, *parts, officer))

        results = at_once(act, [(first, officers[0]), (second, officers[1])])
        assert unexpected_errors(results, MarketplaceError) == []
        assert sum(result is None for result in results) == 1, results
        with database.transaction() as session:
            assert_ledger_is_consistent(session)
            escrow = row_of(session, "escrows", order_id=order_id)
            left = escrow["amount_minor"] - escrow["released_minor"] - escrow["refunded_minor"]
            assert balances_of_order(session, order_id).get("escrow", 0) == left
            assert (status_of(session, order_id) == "disputed") == (escrow["status"] == "frozen")
