"""Random disputes, rulings, returns, appeals and chargebacks: escrow out is refund plus release, nothing twice."""

from collections.abc import Callable
from typing import Any
from uuid import UUID

from hypothesis import settings as hypothesis_settings, strategies as st
from hypothesis.stateful import initialize, precondition, rule, run_state_machine_as_test

from marketplace.disputes import appeals, cases, chargebacks, offers, returns, rulings
from marketplace.disputes.cases import Complaint
from marketplace.infra.db import Database
from marketplace.orders import operations as orders
from tests.property.test_dispute_lifecycle import PICK, DisputeLifecycle
from tests.support.depth import case_count
from tests.support.finance import act_of, make_officer
from tests.support.purchases import NOW, Shop

WORDS = "The hub has no record of the parcel."
OUTCOMES = st.sampled_from(["refund_buyer", "release_vendor", "split"])
AMOUNT = st.sampled_from([1, 40_000, 99_999])


class CaseLifecycle(DisputeLifecycle):
    """The state machine of charges and refunds, with disputes of orders."""

    @initialize()
    def make_second_officer(self) -> None:
        """Create an officer who decides appeals."""
        with self.database.transaction() as session:
            self.second_officer = make_officer(session)

    def cases(self, where: str) -> list[dict[str, Any]]:
        """Read the buyer's disputes."""
        return self.rows(
            "SELECT d.id, d.order_id, d.opened_by, o.vendor_id FROM disputes d JOIN orders o ON o.id = d.order_id"
            f" WHERE d.buyer_id = :id AND {where} ORDER BY d.id"
        )

    def pick_case(self, pick: int, where: str) -> tuple[dict[str, Any], Shop] | None:
        """Return a dispute and the shop of its order."""
        found = self.cases(where)
        if not found:
            return None
        row = found[pick % len(found)]
        return row, self.shops[row["vendor_id"]]

    def act_on_case(self, pick: int, where: str, act: Callable[[dict[str, Any], Shop], None]) -> None:
        """Act on a dispute, if there is any."""
        found = self.pick_case(pick, where)
        if found is not None:
            act(*found)

    @precondition(lambda self: self.order_ids)
    @rule(pick=PICK, by_vendor=st.booleans())
    def open_case(self, pick: int, by_vendor: bool) -> None:
        """Dispute an order as buyer or vendor."""
        order_id = self.order_ids[pick % len(self.order_ids)]
        [row] = self.rows(f"SELECT vendor_id FROM orders WHERE buyer_id = :id AND id = '{order_id}'")
        caller = self.shops[row["vendor_id"]].vendor if by_vendor else self.shop.buyer
        complaint = Complaint("damaged", WORDS, "refund")
        self.attempt(cases.open_dispute, order_id=order_id, caller=caller, complaint=complaint, now=NOW)

    @precondition(lambda self: self.order_ids)
    @rule(pick=PICK)
    def ship(self, pick: int) -> None:
        """Accept and ship an order, so that goods can be returned."""
        order_id = self.order_ids[pick % len(self.order_ids)]
        [row] = self.rows(f"SELECT vendor_id FROM orders WHERE buyer_id = :id AND id = '{order_id}'")
        vendor = self.shops[row["vendor_id"]].vendor
        self.attempt(orders.accept_order, order_id=order_id, caller=vendor, now=NOW)
        self.attempt(orders.ship_order, order_id=order_id, caller=vendor, tracking_note=None, now=NOW)

    @rule(pick=PICK)
    def withdraw_case(self, pick: int) -> None:
        """Withdraw a dispute."""

        def act(row: dict[str, Any], shop: Shop) -> None:
            opener = shop.vendor if row["opened_by"] == "vendor" else self.shop.buyer
            self.attempt(cases.withdraw, dispute_id=row["id"], caller=opener, now=NOW)

        self.act_on_case(pick, "d.resolved_at IS NULL", act)

    @rule(pick=PICK, amount=AMOUNT)
    def settle_case(self, pick: int, amount: int) -> None:
        """Offer a settlement and accept it."""

        def act(row: dict[str, Any], shop: Shop) -> None:
            self.attempt(self._settle, row["id"], shop, amount)

        self.act_on_case(pick, "d.resolved_at IS NULL", act)

    def _settle(self, session: Any, dispute_id: UUID, shop: Shop, amount: int) -> None:
        offer = offers.make_offer(
            session, dispute_id=dispute_id, caller=shop.vendor, buyer_minor=amount, note=None, now=NOW
        )
        offers.accept_offer(
            session, dispute_id=dispute_id, offer_id=offer.id, caller=self.shop.buyer, now=NOW
        )

    @rule(pick=PICK, outcome=OUTCOMES, amount=AMOUNT, needs_return=st.sampled_from([False, False, True]))
    def rule_on_case(self, pick: int, outcome: str, amount: int, needs_return: bool) -> None:
        """Rule on a dispute, with or without a return."""

        def act(row: dict[str, Any], _shop: Shop) -> None:
            ruling = rulings.Ruling(
                outcome, WORDS, amount if outcome == "split" else None, return_required=needs_return
            )
            self.attempt(rulings.rule, dispute_id=row["id"], ruling=ruling, act=act_of(self.officer, now=NOW))

        self.act_on_case(pick, "d.resolved_at IS NULL", act)

    @rule(pick=PICK)
    def receive_return(self, pick: int) -> None:
        """Confirm the receipt of returned goods."""

        def act(row: dict[str, Any], shop: Shop) -> None:
            self.attempt(returns.confirm_return, dispute_id=row["id"], caller=shop.vendor, now=NOW)

        self.act_on_case(
            pick, "d.id IN (SELECT dispute_id FROM dispute_returns WHERE status = 'requested')", act
        )

    @rule(pick=PICK, by_vendor=st.booleans())
    def appeal(self, pick: int, by_vendor: bool) -> None:
        """Appeal a ruling."""

        def act(row: dict[str, Any], shop: Shop) -> None:
            caller = shop.vendor if by_vendor else self.shop.buyer
            self.attempt(appeals.appeal, dispute_id=row["id"], caller=caller, reason=WORDS, now=NOW)

        self.act_on_case(pick, "d.resolved_at IS NOT NULL", act)

    @rule(pick=PICK, amount=st.sampled_from([None, 1, 40_000]))
    def decide_appeal(self, pick: int, amount: int | None) -> None:
        """Grant or reject an appeal."""

        def act(row: dict[str, Any], _shop: Shop) -> None:
            decision = appeals.AppealDecision(
                appeals.REJECTED if amount is None else appeals.GRANTED, WORDS, amount
            )
            self.attempt(
                appeals.decide_appeal,
                dispute_id=row["id"],
                decision=decision,
                act=act_of(self.second_officer, now=NOW),
            )

        self.act_on_case(
            pick, "d.id IN (SELECT dispute_id FROM dispute_appeals WHERE status = 'pending')", act
        )

    @precondition(lambda self: self.order_ids)
    @rule(pick=PICK)
    def follow_chargebacks(self, pick: int) -> None:
        """Join the chargebacks of an order, once more or for the first time."""
        order_id = self.order_ids[pick % len(self.order_ids)]
        self.attempt(chargebacks.join_chargebacks, order_id=order_id, now=NOW)

    def check_buyer_received_money_once(self) -> None:
        """Check that disputes divided the escrow once, and that each kobo is accounted for."""
        for row in self.rows(
            "SELECT d.buyer_minor, d.vendor_minor, s.amount_minor, s.refunded_minor, s.released_minor"
            " FROM disputes d JOIN escrows s ON s.order_id = d.order_id"
            " WHERE d.buyer_id = :id AND d.buyer_minor IS NOT NULL"
        ):
            assert row["refunded_minor"] + row["released_minor"] == row["amount_minor"]
            assert row["vendor_minor"] == row["released_minor"]
            assert row["buyer_minor"] <= row["refunded_minor"]
        super().check_buyer_received_money_once()


def test_disputes_divide_each_escrow_once(own_database: Database) -> None:
    def start() -> CaseLifecycle:
        machine = CaseLifecycle()
        machine.database = own_database
        return machine

    run_state_machine_as_test(
        start,
        settings=hypothesis_settings(
            max_examples=case_count(8, deep=150), stateful_step_count=40, deadline=None
        ),
    )
