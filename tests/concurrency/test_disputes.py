"""Two concurrent acts on a disputed order: the escrow is divided once, and the ledger stays consistent."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import select
from sqlalchemy.orm import Session

from marketplace.disputes import appeals, cases, offers, returns, rulings
from marketplace.disputes.cases import Complaint
from marketplace.disputes.models import Dispute
from marketplace.identity.queries import Caller
from marketplace.infra.db import Database
from marketplace.kernel.errors import MarketplaceError
from marketplace.orders import operations as orders
from tests.support.depth import case_count
from tests.support.finance import act_of, charge_of, claw_back, dispute_charge, make_officer, refund
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


def rule_with_return(
    session: Session, _shop: Shop, _order_id: UUID, dispute_id: UUID | None, officer: Caller
) -> None:
    assert dispute_id is not None
    rulings.rule(
        session, dispute_id=dispute_id, ruling=replace(RULING, return_required=True), act=act_of(officer)
    )


def receive_return(session: Session, shop: Shop, _order_id: UUID, dispute_id: UUID | None, _: Caller) -> None:
    assert dispute_id is not None
    returns.confirm_return(session, dispute_id=dispute_id, caller=shop.vendor, now=NOW)


def appeal(session: Session, shop: Shop, _order_id: UUID, dispute_id: UUID | None, _: Caller) -> None:
    assert dispute_id is not None
    appeals.appeal(session, dispute_id=dispute_id, caller=shop.buyer, reason=RULING.rationale, now=NOW)


def grant_appeal(
    session: Session, _shop: Shop, _order_id: UUID, dispute_id: UUID | None, officer: Caller
) -> None:
    assert dispute_id is not None
    decision = appeals.AppealDecision(appeals.GRANTED, RULING.rationale, 200_000)
    appeals.decide_appeal(session, dispute_id=dispute_id, decision=decision, act=act_of(officer))


def claw_back_all(
    session: Session, _shop: Shop, order_id: UUID, _dispute_id: UUID | None, officer: Caller
) -> None:
    claw_back(session, order_id, officer)


def open_chargeback(
    session: Session, _shop: Shop, order_id: UUID, _dispute_id: UUID | None, _: Caller
) -> None:
    dispute_charge(session, charge_of(session, order_id))


def lose_chargeback(
    session: Session, _shop: Shop, order_id: UUID, _dispute_id: UUID | None, _: Caller
) -> None:
    dispute_charge(session, charge_of(session, order_id), "merchant-accepted")


# The acts that lead to the stage of the order before the race.
STAGES: dict[str, tuple[Act, ...]] = {
    "shipped": (),
    "disputed": (open_dispute,),
    "returning": (open_dispute, rule_with_return),
    "ruled": (open_dispute, rule_for_vendor),
    "appealed": (open_dispute, rule_for_vendor, appeal),
}
ONE, ONE_OR_BOTH = {1}, {1, 2}


@pytest.mark.parametrize(
    ("stage", "first", "second", "effects"),
    [
        pytest.param("shipped", open_dispute, verify_pin, ONE, id="dispute and PIN"),
        pytest.param("shipped", open_dispute, confirm, ONE, id="dispute and confirmation"),
        pytest.param("shipped", open_dispute, open_as_vendor, ONE, id="both sides open"),
        pytest.param("disputed", rule_for_buyer, withdraw, ONE, id="ruling and withdrawal"),
        pytest.param("disputed", rule_for_buyer, rule_for_vendor, ONE, id="opposite rulings"),
        pytest.param("disputed", rule_for_vendor, rule_for_vendor, ONE, id="two officers"),
        pytest.param("disputed", rule_for_vendor, refund_by_finance, ONE, id="ruling and refund"),
        pytest.param("disputed", withdraw, withdraw, ONE, id="withdrawal twice"),
        pytest.param("disputed", offer_and_accept, rule_for_buyer, ONE, id="settlement and ruling"),
        pytest.param("disputed", offer_and_accept, offer_and_accept, ONE, id="settlement twice"),
        # After a ruling, a chargeback takes released money back. Before, it refuses the ruling.
        pytest.param("disputed", rule_for_vendor, open_chargeback, ONE_OR_BOTH, id="ruling and chargeback"),
        pytest.param("disputed", rule_for_vendor, lose_chargeback, {2}, id="ruling and lost chargeback"),
        pytest.param("disputed", rule_for_buyer, lose_chargeback, {2}, id="refund and lost chargeback"),
        pytest.param("returning", receive_return, receive_return, ONE, id="receipt twice"),
        pytest.param("returning", receive_return, rule_for_vendor, ONE, id="receipt and another ruling"),
        pytest.param("returning", receive_return, withdraw, ONE, id="receipt and withdrawal"),
        pytest.param("ruled", appeal, appeal, ONE, id="appeal twice"),
        pytest.param("appealed", grant_appeal, grant_appeal, ONE, id="appeal decided twice"),
        pytest.param("appealed", grant_appeal, claw_back_all, ONE_OR_BOTH, id="appeal and clawback"),
        pytest.param("appealed", grant_appeal, lose_chargeback, ONE_OR_BOTH, id="appeal and chargeback"),
    ],
)
def test_concurrent_acts_divide_the_escrow_once(
    database: Database, stage: str, first: Act, second: Act, effects: set[int]
) -> None:
    for _ in range(ROUNDS):
        with database.transaction() as session:
            shop = make_shop(session)
            order_id = shipped_order(session, shop)
            officers = [make_officer(session) for _ in range(3)]
        dispute_id = None
        for act_before in STAGES[stage]:
            with database.transaction() as session:
                act_before(session, shop, order_id, dispute_id, officers[2])
                dispute_id = session.scalars(select(Dispute.id).where(Dispute.order_id == order_id)).one()

        def act(pair: tuple[Act, Caller], parts: Any = (shop, order_id, dispute_id)) -> None:
            work, officer = pair
            database.in_transaction(lambda session: work(session, *parts, officer))

        results = at_once(act, [(first, officers[0]), (second, officers[1])])
        assert unexpected_errors(results, MarketplaceError) == []
        assert sum(result is None for result in results) in effects, results
        with database.transaction() as session:
            assert_ledger_is_consistent(session)
            escrow = row_of(session, "escrows", order_id=order_id)
            left = escrow["amount_minor"] - escrow["released_minor"] - escrow["refunded_minor"]
            balances = balances_of_order(session, order_id)
            assert balances.get("escrow", 0) == left
            assert (status_of(session, order_id) == "disputed") == (escrow["status"] == "frozen")
            assert escrow["clawed_back_minor"] <= escrow["released_minor"]
