"""Random acts in disputes: of the parties, of officers, and of the buyer's bank."""

from collections.abc import Callable
from datetime import datetime
from random import Random
from typing import Any
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.disputes import appeals, cases, chargebacks, due_times, offers, returns, rulings
from marketplace.disputes.cases import Complaint
from marketplace.identity.queries import Caller
from tests.simulation.crashing_database import CrashingDatabase
from tests.simulation.in_memory_gateway import InMemoryGateway
from tests.support.finance import act_of

_OPEN = """
    SELECT d.id, d.opened_by, d.buyer_id, o.vendor_id, s.amount_minor - s.refunded_minor AS held_minor, r.status
    FROM disputes d JOIN orders o ON o.id = d.order_id JOIN escrows s ON s.order_id = o.id
        LEFT JOIN dispute_returns r ON r.dispute_id = d.id
    WHERE d.resolved_at IS NULL ORDER BY d.id
"""
_RULED = """
    SELECT d.id, d.buyer_id, o.vendor_id, a.status FROM disputes d JOIN orders o ON o.id = d.order_id
        LEFT JOIN dispute_appeals a ON a.dispute_id = d.id
    WHERE d.resolved_at IS NOT NULL ORDER BY d.id
"""
# The events of orders that the disputes area follows. Each may be handled late, or twice.
_ANNOUNCED = """
    SELECT id, topic, payload ->> 'orderId' AS order_id FROM outbox_events
    WHERE topic IN ('order.charged-back', 'order.disputed-refunded') AND done_at IS NULL ORDER BY id
"""
_HANDLERS: dict[str, Callable[..., None]] = {
    "order.charged-back": chargebacks.join_chargebacks,
    "order.disputed-refunded": rulings.resolve_refunded,
}
_WORDS = "The hub has no record of the parcel."


class DisputeActions:
    """Actions of a scenario. The scenario provides the market, the clock and the execution of actions."""

    database: CrashingDatabase
    draw: Random
    gateway: InMemoryGateway
    now: datetime
    officer: Caller
    second_officer: Caller
    attempt: Callable[..., None]
    retry_after_crash: Callable[..., None]
    rows: Callable[..., list[dict[str, Any]]]
    random_order: Callable[..., Any]
    _shop: Callable[..., Any]

    def open_dispute(self) -> None:
        """Dispute an order in any state, by the buyer or the vendor."""
        found = self.random_order("status IN ('paid_escrow', 'processing', 'shipped')") or self.random_order()
        if found is not None:
            shop, row = found
            self.attempt(
                "open dispute",
                cases.open_dispute,
                order_id=row["id"],
                caller=self.draw.choice([shop.buyer, shop.vendor]),
                complaint=Complaint("not_received", _WORDS, "refund"),
                now=self.now,
            )

    def end_dispute(self) -> None:
        """Withdraw, settle or rule on a dispute, or confirm the receipt of returned goods."""
        disputes = self.rows(_OPEN)
        if not disputes:
            return
        row = self.draw.choice(disputes)
        shop = self._shop(row["vendor_id"], row["buyer_id"])
        if row["status"] in ("requested", "sent") and self.draw.random() < 0.7:
            self.attempt(
                "receive return",
                returns.confirm_return,
                dispute_id=row["id"],
                caller=shop.vendor,
                now=self.now,
            )
            return
        self.draw.choice([self._withdraw, self._settle, self._rule, self._rule, self._rule])(row, shop)

    def _withdraw(self, row: dict[str, Any], shop: Any) -> None:
        opener = shop.vendor if row["opened_by"] == "vendor" else shop.buyer
        self.attempt("withdraw", cases.withdraw, dispute_id=row["id"], caller=opener, now=self.now)

    def _settle(self, row: dict[str, Any], shop: Any) -> None:
        amount = self.draw.choice([0, 1, 40_000, row["held_minor"]])
        self.attempt("settle", _settle, dispute_id=row["id"], shop=shop, buyer_minor=amount, now=self.now)

    def _rule(self, row: dict[str, Any], _shop: Any) -> None:
        outcome = self.draw.choice(["refund_buyer", "release_vendor", "split"])
        ruling = rulings.Ruling(
            outcome,
            _WORDS,
            self.draw.choice([1, 40_000]) if outcome == "split" else None,
            return_required=outcome != "release_vendor" and self.draw.random() < 0.3,
        )
        act = act_of(self.officer, now=self.now)
        self.attempt(f"rule {outcome}", rulings.rule, dispute_id=row["id"], ruling=ruling, act=act)

    def appeal(self) -> None:
        """Appeal a ruling, or decide an appeal."""
        ruled = self.rows(_RULED)
        if not ruled:
            return
        row = self.draw.choice(ruled)
        shop = self._shop(row["vendor_id"], row["buyer_id"])
        if row["status"] is None:
            caller = self.draw.choice([shop.buyer, shop.vendor])
            self.attempt(
                "appeal", appeals.appeal, dispute_id=row["id"], caller=caller, reason=_WORDS, now=self.now
            )
            return
        is_granted = self.draw.random() < 0.7
        decision = appeals.AppealDecision(
            appeals.GRANTED if is_granted else appeals.REJECTED,
            _WORDS,
            self.draw.choice([1, 30_000]) if is_granted else None,
        )
        self.attempt(
            f"appeal {decision.decision}",
            appeals.decide_appeal,
            dispute_id=row["id"],
            decision=decision,
            act=act_of(self.second_officer, now=self.now),
        )

    def charge_back(self) -> None:
        """Dispute a charge at the bank, or end such a dispute. The gateway's events are delivered later."""
        self.gateway.charge_back(self.draw)

    def follow(self) -> None:
        """Handle the waiting events of orders, and keep the due times."""
        for event in self.rows(_ANNOUNCED):
            self.retry_after_crash("follow", lambda event=event: self._follow(event))
        if self.draw.random() < 0.3:
            self.retry_after_crash(
                "keep due times", lambda: due_times.keep_due_times(self.database, now=self.now)
            )

    def _follow(self, event: dict[str, Any]) -> None:
        with self.database.transaction() as session:
            _HANDLERS[event["topic"]](session, order_id=UUID(event["order_id"]), now=self.now)
            session.execute(
                text("UPDATE outbox_events SET done_at = :now WHERE id = :id"),
                {"now": self.now, "id": event["id"]},
            )

    def check_disputes(self) -> None:
        """Check that each resolved dispute divided the escrow once."""
        wrong = self.rows(
            """
            SELECT d.number, d.buyer_minor, d.vendor_minor, s.refunded_minor, s.released_minor
            FROM disputes d JOIN escrows s ON s.order_id = d.order_id
            WHERE d.buyer_minor IS NOT NULL
                AND (d.vendor_minor <> s.released_minor OR d.buyer_minor > s.refunded_minor
                    OR s.refunded_minor + s.released_minor <> s.amount_minor)
            """
        )
        assert wrong == [], "a dispute divided another amount than the escrow"


def _settle(session: Session, *, dispute_id: UUID, shop: Any, buyer_minor: int, now: datetime) -> None:
    offer = offers.make_offer(
        session, dispute_id=dispute_id, caller=shop.vendor, buyer_minor=buyer_minor, note=None, now=now
    )
    offers.accept_offer(session, dispute_id=dispute_id, offer_id=offer.id, caller=shop.buyer, now=now)
