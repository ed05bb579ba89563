"""Random refunds, clawbacks, disputes and faults: in the end the buyer has each kobo once."""

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
    buyer_debt_of,
    claw_back,
    deliver,
    dispute_charge,
    make_officer,
    recover_refund,
    refund,
)
from tests.support.purchases import (
    NOW,
    apply,
    assert_ledger_is_consistent,
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


class DisputeLifecycle(RuleBasedStateMachine):
    """State machine of a buyer, two stores, a gateway and a bank."""

    database: Database

    def __init__(self) -> None:
        super().__init__()
        self.now = NOW
        self.order_ids: list[UUID] = []
        self.charges: dict[str, int] = {}
        self.disputes: dict[str, str] = {}
        self.disputed_minor: dict[str, int | None] = {}
        self.reports: dict[str, GatewayRefund] = {}

    @initialize()
    def open_shops(self) -> None:
        """Create the stores and a buyer for this run."""
        with self.database.transaction() as session:
            self.shop = with_buyer(session, make_shop(session))
            self.shops = {shop.store_id: shop for shop in neighbours(session, self.shop, 2)}
            self.officer = make_officer(session)
            self.before = fetch_balances_by_kind(session)

    def attempt(self, work: Callable[..., Any], *given: Any, **named: Any) -> None:
        """Run an operation like a route does. A refusal is an expected outcome."""
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
        """Read rows of the buyer."""
        with self.database.reading() as session:
            found = session.execute(text(sql), {"id": self.shop.buyer.id}).mappings()
            return [dict(row) for row in found]

    def pick_refund(self, pick: int, *statuses: str) -> UUID | None:
        """Return a gateway refund in any of the given states."""
        rows = self.rows(
            "SELECT id, status FROM refunds WHERE buyer_id = :id AND charge_id IS NOT NULL ORDER BY id"
        )
        found: list[UUID] = [row["id"] for row in rows if row["status"] in statuses]
        return found[pick % len(found)] if found else None

    @rule(stores=st.integers(1, 2), more=st.sampled_from([0, 0, 700]), times=st.sampled_from([1, 1, 2]))
    def buy(self, stores: int, more: int, times: int) -> None:
        """Buy from the stores with a single charge, an overpayment or a duplicate charge."""
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
        """Deliver an order, which releases escrow."""
        order_id = self.order_ids[pick % len(self.order_ids)]
        [row] = self.rows(f"SELECT vendor_id FROM orders WHERE buyer_id = :id AND id = '{order_id}'")
        self.attempt(deliver, self.shops[row["vendor_id"]], order_id)

    @precondition(lambda self: self.order_ids)
    @rule(pick=PICK, amount=PART, destination=st.sampled_from(["gateway", "gateway", "wallet"]))
    def refund_or_claw_back(self, pick: int, amount: int | None, destination: str) -> None:
        """Refund an order before or after release."""
        order_id = self.order_ids[pick % len(self.order_ids)]
        for work in (refund, claw_back):
            self.attempt(work, order_id, self.officer, amount_minor=amount, destination=destination)

    @precondition(lambda self: self.charges)
    @rule(pick=PICK, end=st.sampled_from([None, None, LOST, LOST, WON, UNCLEAR]), amount=PART)
    def dispute(self, pick: int, end: str | None, amount: int | None) -> None:
        """Report a dispute of a charge or the outcome. Each charge has at most a single dispute."""
        charge_id = list(self.charges)[-1 - pick % min(len(self.charges), 3)]
        state = self.disputes.get(charge_id)
        if state in (WON, LOST, end) or (end is None and state is not None):
            return
        with self.database.transaction() as session:
            dispute_charge(session, charge_id, end, refund_amount=amount)
        self.disputes[charge_id] = end or "open"
        # The last reported amount counts.
        self.disputed_minor[charge_id] = amount or self.disputed_minor.get(charge_id)

    @rule(pick=PICK, answer=st.sampled_from(["pending", "pending", "processed", "failed", "lost", "never"]))
    def send(self, pick: int, answer: str) -> None:
        """Send a refund as a worker that may die before the request or lose the response."""
        refund_id = self.pick_refund(pick, "pending")
        if refund_id is not None:
            self.process_refund(refund_id, answer)

    def process_refund(self, refund_id: UUID, answer: str) -> None:
        """Process a refund's event like a worker."""
        self.now += timedelta(minutes=3)
        found = self.database.in_transaction(gateway_refund.lease_refund, refund_id=refund_id, now=self.now)
        if found is None:
            return
        report = self.reports.get(found.refund_reference) if found.may_be_known_to_gateway else None
        if report is None and not found.has_chargeback:
            [row] = self.rows(
                "SELECT c.gateway_charge_id AS id FROM refunds r JOIN gateway_charges c ON c.id = r.charge_id"
                f" WHERE r.buyer_id = :id AND r.id = '{refund_id}'"
            )
            assert self.disputes.get(row["id"], WON) == WON, "sent while the bank may return the payment"
            if answer == "never":
                return
            status = "processed" if answer == "lost" else answer
            report = GatewayRefund(
                str(uuid4().int % 10**12), status, found.amount_minor, found.refund_reference, ""
            )
            self.reports[found.refund_reference] = report
            if answer == "lost":
                return
        if report is None:
            self.database.in_transaction(
                gateway_refund.record_refund_unknown_to_gateway, pending_refund=found, now=self.now
            )
        else:
            self.database.in_transaction(
                gateway_refund.apply_gateway_status, refund_id=refund_id, reported=report, now=self.now
            )

    @precondition(lambda self: self.reports)
    @rule(pick=PICK, status=st.sampled_from(["processed", "processed", "failed", "needs-attention"]))
    def report_refund_status(self, pick: int, status: str) -> None:
        """Report a new status of a requested refund. A sent refund may be returned."""
        note = list(self.reports)[pick % len(self.reports)]
        before = self.reports[note]
        if before.status != "pending" and (before.status, status) not in (
            ("needs-attention", "processed"),
            ("needs-attention", "failed"),
            ("processed", "failed"),
        ):
            return
        report = GatewayRefund(before.id, status, before.amount_minor, note, "")
        self.reports[note] = report
        named = gateway_refund.parse_refund_reference(note)
        assert named is not None
        self.database.in_transaction(
            gateway_refund.apply_gateway_status, refund_id=named[0], reported=report, now=self.now
        )

    @rule(pick=PICK, trigger=st.sampled_from(["retry", "credit"]))
    def recover_refund(self, pick: int, trigger: str) -> None:
        """Retry or credit a failed refund as finance, after polling the gateway."""
        refund_id = self.pick_refund(pick, "failed", "needs_attention")
        if refund_id is not None:
            report = [
                one
                for note, one in self.reports.items()
                if gateway_refund.parse_refund_reference(note)[0] == refund_id
            ]  # type: ignore[index]
            self.attempt(recover_refund, refund_id, self.officer, trigger, *report)

    @rule()
    def offset_buyer_debt(self) -> None:
        """Offset the buyer debt against the wallet."""
        self.database.in_transaction(
            buyer_accounts.offset_against_wallet, buyer_id=self.shop.buyer.id, now=self.now
        )

    @invariant()
    def ledger_invariants_hold(self) -> None:
        """Check the ledger invariants."""
        with self.database.reading() as session:
            assert_ledger_is_consistent(session)

    def teardown(self) -> None:
        """Finish all refunds and disputes, then check that each kobo is accounted for once."""
        if not hasattr(self, "before"):
            return
        for charge_id, state in self.disputes.items():
            if state not in (WON, LOST):
                with self.database.transaction() as session:
                    dispute_charge(session, charge_id, WON)
                self.disputes[charge_id] = WON
        for note, report in list(self.reports.items()):
            if report.status in ("pending", "needs-attention"):
                self.reports[note] = GatewayRefund(report.id, "processed", report.amount_minor, note, "")
            named = gateway_refund.parse_refund_reference(note)
            assert named is not None
            self.database.in_transaction(
                gateway_refund.apply_gateway_status,
                refund_id=named[0],
                reported=self.reports[note],
                now=self.now,
            )
        while (refund_id := self.pick_refund(0, "pending")) is not None:
            self.process_refund(refund_id, "processed")
        while (refund_id := self.pick_refund(0, "failed", "needs_attention")) is not None:
            before = self.pick_refund(0, "failed", "needs_attention")
            self.recover_refund(0, "credit")
            assert self.pick_refund(0, "failed", "needs_attention") != before
        self.offset_buyer_debt()
        self.ledger_invariants_hold()
        self.check_buyer_received_money_once()

    def check_buyer_received_money_once(self) -> None:
        """Compare the money paid out by gateway and bank with the charges and remaining balances."""
        paid = sum(self.charges.values())
        sent = sum(report.amount_minor for report in self.reports.values() if report.status == "processed")
        lost = [charge_id for charge_id, state in self.disputes.items() if state == LOST]
        taken = sum(min(self.disputed_minor[one] or self.charges[one], self.charges[one]) for one in lost)
        with self.database.reading() as session:
            wallet, owed = wallet_of(session, self.shop.buyer.id), buyer_debt_of(session, self.shop.buyer.id)
            moved = Counter(fetch_balances_by_kind(session))
        moved.subtract(self.before)

        assert moved["gateway_clearing"] == paid - sent - taken
        assert moved["refunds_in_transit"] == 0
        assert not owed or not wallet
        in_escrow = moved["escrow"] - moved["lost_disputes"]
        with_vendors = moved["vendor_payable"] - moved["vendor_receivable"]
        assert min(in_escrow, with_vendors, moved["platform_revenue"]) >= 0
        left = in_escrow + with_vendors + moved["platform_revenue"] - moved["dispute_expenses"]
        assert sent + taken + wallet - owed == paid - left


def test_buyer_receives_each_disputed_kobo_once(own_database: Database) -> None:
    def start() -> DisputeLifecycle:
        machine = DisputeLifecycle()
        machine.database = own_database
        return machine

    run_state_machine_as_test(
        start,
        settings=hypothesis_settings(
            max_examples=case_count(6, deep=100), stateful_step_count=30, deadline=None
        ),
    )
