"""Hypothesis plays refunds, clawbacks, disputes and bad luck: in the end the buyer has each kobo once."""

from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

from hypothesis import settings as hypothesis_settings, strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from sqlalchemy import text

from marketplace.cart.operations import RequestedItem
from marketplace.infra.db import Database
from marketplace.kernel.errors import MarketplaceError
from marketplace.ledger.queries import fetch_balances_by_kind
from marketplace.payments.refunds import buyer_accounts, gateway_refund, order_cancellation
from marketplace.providers.gateway.payloads import GatewayRefund
from tests.support.depth import case_count
from tests.support.finance import (
    claw_back,
    deliver,
    dispute_charge,
    make_officer,
    mend_refund,
    owed_by,
    refund,
)
from tests.support.purchases import (
    NOW,
    apply,
    assert_books_are_whole,
    check_out,
    make_charge,
    make_product,
    make_shop,
    neighbours,
    wallet_of,
    with_buyer,
)

PICK = st.integers(0, 10**6)
PART = st.sampled_from([None, None, 1, 99_999, 200_000])
WON, LOST, UNCLEAR = "declined", "merchant-accepted", "odd"


class LifeOfDisputes(RuleBasedStateMachine):
    """A buyer, two stores, a gateway that sends what it was asked to, and a bank."""

    database: Database

    def __init__(self) -> None:
        super().__init__()
        self.now = NOW
        self.order_ids: list[UUID] = []
        self.charges: dict[str, int] = {}
        self.disputes: dict[str, str] = {}
        self.claimed: dict[str, int | None] = {}
        self.tries: dict[str, GatewayRefund] = {}

    @initialize()
    def open_shops(self) -> None:
        """Make the stores, and a buyer of this life's own."""
        with self.database.transaction() as session:
            self.shop = with_buyer(session, make_shop(session))
            self.shops = {shop.store_id: shop for shop in neighbours(session, self.shop, 2)}
            self.officer = make_officer(session)
            self.before = fetch_balances_by_kind(session)

    def attempt(self, work: Callable[..., Any], *given: Any, **named: Any) -> None:
        """Do something as the edge does; that it may be refused is part of the life."""
        try:
            with self.database.transaction() as session:
                try:
                    work(session, *given, **named)
                except MarketplaceError as error:
                    if not error.keeps_changes:
                        raise
        except MarketplaceError:
            pass

    def rows(self, sql: str) -> list[dict[str, Any]]:
        """Read rows of this buyer's."""
        with self.database.reading() as session:
            found = session.execute(text(sql), {"id": self.shop.buyer.id}).mappings()
            return [dict(row) for row in found]

    def some_refund(self, pick: int, *statuses: str) -> UUID | None:
        """Give a refund by the gateway in one of these states."""
        rows = self.rows(
            "SELECT id, status FROM refunds WHERE buyer_id = :id AND charge_id IS NOT NULL ORDER BY id"
        )
        found: list[UUID] = [row["id"] for row in rows if row["status"] in statuses]
        return found[pick % len(found)] if found else None

    @rule(stores=st.integers(1, 2), more=st.sampled_from([0, 0, 700]), times=st.sampled_from([1, 1, 2]))
    def buy(self, stores: int, more: int, times: int) -> None:
        """Buy of one store or two by one charge, of more than is due, or twice."""
        with self.database.transaction() as session:
            shops = list(self.shops.values())[:stores]
            done = check_out(
                session, self.shop, [RequestedItem(make_product(session, one), 1) for one in shops]
            )
            assert done.payment is not None
            for _ in range(times):
                charge = make_charge(done.payment, amount_minor=done.payment.amount_minor + more)
                apply(session, charge)
                self.charges[charge.id] = charge.amount_minor
        self.order_ids += done.order_ids

    @precondition(lambda self: self.order_ids)
    @rule(pick=PICK)
    def cancel(self, pick: int) -> None:
        """Cancel an order."""
        order_id = self.order_ids[pick % len(self.order_ids)]
        self.attempt(
            order_cancellation.cancel_order, order_id=order_id, caller=self.shop.buyer, reason=None, now=NOW
        )

    @precondition(lambda self: self.order_ids)
    @rule(pick=PICK)
    def deliver(self, pick: int) -> None:
        """Have an order delivered, its money released."""
        order_id = self.order_ids[pick % len(self.order_ids)]
        [row] = self.rows(f"SELECT vendor_id FROM orders WHERE buyer_id = :id AND id = '{order_id}'")
        self.attempt(deliver, self.shops[row["vendor_id"]], order_id)

    @precondition(lambda self: self.order_ids)
    @rule(pick=PICK, amount=PART, destination=st.sampled_from(["gateway", "gateway", "wallet"]))
    def give_back(self, pick: int, amount: int | None, destination: str) -> None:
        """Refund an order, before or after its release."""
        order_id = self.order_ids[pick % len(self.order_ids)]
        for work in (refund, claw_back):
            self.attempt(work, order_id, self.officer, amount_minor=amount, destination=destination)

    @precondition(lambda self: self.charges)
    @rule(pick=PICK, end=st.sampled_from([None, None, LOST, LOST, WON, UNCLEAR]), amount=PART)
    def dispute(self, pick: int, end: str | None, amount: int | None) -> None:
        """Tell of a dispute of a charge, or of its end; each charge has one."""
        charge_id = list(self.charges)[-1 - pick % min(len(self.charges), 3)]
        standing = self.disputes.get(charge_id)
        if standing in (WON, LOST, end) or (end is None and standing is not None):
            return
        with self.database.transaction() as session:
            dispute_charge(session, charge_id, end, refund_amount=amount)
        self.disputes[charge_id] = end or "open"
        # What is told of it last counts, where that is told.
        self.claimed[charge_id] = amount or self.claimed.get(charge_id)

    @rule(pick=PICK, answer=st.sampled_from(["pending", "pending", "processed", "failed", "lost", "never"]))
    def send(self, pick: int, answer: str) -> None:
        """Have a worker send a refund; it may die before its call, or its answer be lost."""
        refund_id = self.some_refund(pick, "pending")
        if refund_id is not None:
            self.work_off(refund_id, answer)

    def work_off(self, refund_id: UUID, answer: str) -> None:
        """Do what a worker does with a refund's event."""
        self.now += timedelta(minutes=3)
        found = self.database.in_transaction(gateway_refund.lease_refund, refund_id=refund_id, now=self.now)
        if found is None:
            return
        told = self.tries.get(found.refund_reference) if found.may_be_known_to_gateway else None
        if told is None and not found.has_chargeback:
            [row] = self.rows(
                "SELECT c.gateway_charge_id AS id FROM refunds r JOIN gateway_charges c ON c.id = r.charge_id"
                f" WHERE r.buyer_id = :id AND r.id = '{refund_id}'"
            )
            assert self.disputes.get(row["id"], WON) == WON, "sent while the bank may give it back"
            if answer == "never":
                return
            status = "processed" if answer == "lost" else answer
            told = GatewayRefund(
                str(uuid4().int % 10**12), status, found.amount_minor, found.refund_reference, ""
            )
            self.tries[found.refund_reference] = told
            if answer == "lost":
                return
        if told is None:
            self.database.in_transaction(
                gateway_refund.record_refund_unknown_to_gateway, pending_refund=found, now=self.now
            )
        else:
            self.database.in_transaction(
                gateway_refund.apply_gateway_status, refund_id=refund_id, reported=told, now=self.now
            )

    @precondition(lambda self: self.tries)
    @rule(pick=PICK, status=st.sampled_from(["processed", "processed", "failed", "needs-attention"]))
    def tell(self, pick: int, status: str) -> None:
        """Have the gateway tell what became of a refund that it took; what it sent may come back."""
        note = list(self.tries)[pick % len(self.tries)]
        before = self.tries[note]
        if before.status != "pending" and (before.status, status) not in (
            ("needs-attention", "processed"),
            ("needs-attention", "failed"),
            ("processed", "failed"),
        ):
            return
        told = GatewayRefund(before.id, status, before.amount_minor, note, "")
        self.tries[note] = told
        named = gateway_refund.parse_refund_reference(note)
        assert named is not None
        self.database.in_transaction(
            gateway_refund.apply_gateway_status, refund_id=named[0], reported=told, now=self.now
        )

    @rule(pick=PICK, trigger=st.sampled_from(["retry", "credit"]))
    def mend(self, pick: int, trigger: str) -> None:
        """Have finance see to a refund that failed, or needs attention; it asks the gateway first."""
        refund_id = self.some_refund(pick, "failed", "needs_attention")
        if refund_id is not None:
            told = [
                one
                for note, one in self.tries.items()
                if gateway_refund.parse_refund_reference(note)[0] == refund_id
            ]  # type: ignore[index]
            self.attempt(mend_refund, refund_id, self.officer, trigger, *told)

    @rule()
    def collect(self) -> None:
        """Set off what the buyer owes."""
        self.database.in_transaction(
            buyer_accounts.offset_against_wallet, buyer_id=self.shop.buyer.id, now=self.now
        )

    @invariant()
    def books_are_whole(self) -> None:
        """Hold the books to their rules."""
        with self.database.reading() as session:
            assert_books_are_whole(session)

    def teardown(self) -> None:
        """See all through: nothing is left on its way, and what came in is with one of them, once."""
        if not hasattr(self, "before"):
            return
        for charge_id, standing in self.disputes.items():
            if standing not in (WON, LOST):
                with self.database.transaction() as session:
                    dispute_charge(session, charge_id, WON)
                self.disputes[charge_id] = WON
        for note, told in list(self.tries.items()):
            if told.status in ("pending", "needs-attention"):
                self.tries[note] = GatewayRefund(told.id, "processed", told.amount_minor, note, "")
            named = gateway_refund.parse_refund_reference(note)
            assert named is not None
            self.database.in_transaction(
                gateway_refund.apply_gateway_status,
                refund_id=named[0],
                reported=self.tries[note],
                now=self.now,
            )
        while (refund_id := self.some_refund(0, "pending")) is not None:
            self.work_off(refund_id, "processed")
        while (refund_id := self.some_refund(0, "failed", "needs_attention")) is not None:
            before = self.some_refund(0, "failed", "needs_attention")
            self.mend(0, "credit")
            assert self.some_refund(0, "failed", "needs_attention") != before
        self.collect()
        self.books_are_whole()
        self.nobody_has_it_twice()

    def nobody_has_it_twice(self) -> None:
        """Compare what the gateway and the bank really gave with what came in, and is left."""
        paid = sum(self.charges.values())
        sent = sum(told.amount_minor for told in self.tries.values() if told.status == "processed")
        lost = [charge_id for charge_id, standing in self.disputes.items() if standing == LOST]
        taken = sum(min(self.claimed[one] or self.charges[one], self.charges[one]) for one in lost)
        with self.database.reading() as session:
            wallet, owed = wallet_of(session, self.shop.buyer.id), owed_by(session, self.shop.buyer.id)
            moved = Counter(fetch_balances_by_kind(session))
        moved.subtract(self.before)

        assert moved["gateway_clearing"] == paid - sent - taken
        assert moved["refunds_in_transit"] == 0
        assert not owed or not wallet
        in_escrow = moved["escrow"] - moved["lost_disputes"]
        with_vendors = moved["vendor_payable"] - moved["vendor_receivable"]
        assert min(in_escrow, with_vendors, moved["platform_revenue"]) >= 0
        left = in_escrow + with_vendors + moved["platform_revenue"]
        assert sent + taken + wallet - owed == paid - left


def test_buyer_receives_each_disputed_kobo_once(own_database: Database) -> None:
    def start() -> LifeOfDisputes:
        machine = LifeOfDisputes()
        machine.database = own_database
        return machine

    run_state_machine_as_test(
        start,
        settings=hypothesis_settings(
            max_examples=case_count(6, deep=100), stateful_step_count=30, deadline=None
        ),
    )
