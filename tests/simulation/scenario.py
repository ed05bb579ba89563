"""A random scenario of shops and buyers. The same seed gives the same scenario, step by step."""

from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from random import Random
from typing import Any
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.cart.operations import RequestedItem
from marketplace.kernel.errors import MarketplaceError
from marketplace.ledger.queries import fetch_balances_by_kind
from marketplace.orders import operations as orders, states
from marketplace.orders.placing.place_order import WalletUse
from marketplace.payments.charges import quarantine
from marketplace.payments.intents import lifecycle as payments
from marketplace.payments.intents.expiry import sweep_abandoned_checkouts
from marketplace.payments.intents.lifecycle import PaymentTarget
from marketplace.payments.intents.payment_methods import open_hosted_page
from marketplace.payments.refunds import gateway_refund, gateway_reports, order_cancellation, recovery
from marketplace.payments.refunds.buyer_accounts import offset_buyer_debts
from marketplace.payments.refunds.gateway_reports import poll_refunds
from marketplace.webhooks import inbox as webhooks
from tests.simulation.crashing_database import CrashingDatabase, ProcessCrashedError
from tests.simulation.dispute_actions import DisputeActions
from tests.simulation.in_memory_gateway import InMemoryGateway
from tests.support.finance import act_of, claw_back, make_officer, refund
from tests.support.purchases import (
    NOW,
    Shop,
    assert_ledger_is_consistent,
    check_out,
    fill_wallet,
    make_product,
    make_shop,
    neighbours,
    pin_of,
    place,
    release,
    with_buyer,
    wrong_pin_of,
)

STEPS = 18
CRASH_PROBABILITY = 0.04
DEPOSIT_MINOR = 700_000
STOCKED = 9
# Only the worker of the outbox event sends the refund.
_WAITING = """
    SELECT id, payload ->> 'refundId' AS refund_id FROM outbox_events
    WHERE topic = 'refund.send' AND done_at IS NULL AND failed_at IS NULL ORDER BY id
"""
_UNCLEAR = """
    SELECT id, payload ->> 'refundId' AS refund_id FROM outbox_events
    WHERE topic = 'refund.ask' AND done_at IS NULL ORDER BY id
"""
_LIVE = "id, status, buyer_id, vendor_id, total_minor, checkout_id"


class Scenario(DisputeActions):
    """Shops, buyers, random actions, and the rules that must hold at the end."""

    def __init__(self, database: CrashingDatabase, seed: int) -> None:
        self.database, self.draw = database, Random(seed)  # noqa: S311 - reproducible
        database.draw = self.draw
        self.gateway, self.now = InMemoryGateway(), NOW
        self.done: Counter[str] = Counter()
        self.trace: list[str] = []
        with database.transaction() as session:
            first = make_shop(session)
            shops = neighbours(session, first, 2)
            other = with_buyer(session, first).buyer
            self.shops = {shop.store_id: shop for shop in shops}
            self.buyers = {buyer.id: buyer for buyer in (first.buyer, other)}
            self.products = {
                shop.store_id: [
                    make_product(session, shop, quantity=STOCKED, price_minor=price)
                    for price in (99_999, 250_050)
                ]
                for shop in shops
            }
            self.officer, self.second_officer = make_officer(session), make_officer(session)
            fill_wallet(session, first.buyer.id, DEPOSIT_MINOR)
            self.money_before = self._gateway_balance(session)

    def run(self, steps: int = STEPS) -> None:
        """Run random steps, finish all waiting work, and check the rules."""
        acts: dict[Callable[[], None], int] = {
            self.place: 4, self.check_out: 3, self.open: 6, self.pay: 7, self.deliver: 9, self.verify: 2,
            self.cancel: 4, self.advance: 9, self.pin: 4, self.confirm: 2, self.refund: 4,
            self.claw_back: 2, self.send: 7, self.decide: 9, self.poll_unclear_refunds: 3,
            self.resolve_failed_refund: 4, self.resolve: 2, self.sweep: 2, self.wait: 2,
            self.open_dispute: 4, self.end_dispute: 5, self.appeal: 3, self.charge_back: 2, self.follow: 3,
        }  # fmt: skip
        # Most scenarios start with a paid order, half of them with a dispute, and the random actions follow.
        begun = [self.draw.choice([self.place, self.check_out]), self.open, self.pay, self.deliver]
        if self.draw.random() < 0.5:
            begun += [self.advance, self.advance, self.open_dispute]
            begun += [self.end_dispute, self.end_dispute, self.appeal, self.appeal]
        for act in (*begun, *self.draw.choices(list(acts), list(acts.values()), k=steps)):
            self.database.crash_probability = CRASH_PROBABILITY
            try:
                self.trace.append(act.__name__)
                act()
            finally:
                self.database.crash_probability = 0.0
                self.gateway.fault = ""
        self.finish()
        self.check()

    # Execution of actions

    def attempt(self, name: str, work: Callable[..., Any], **arguments: Any) -> None:
        """Run work in a transaction like the HTTP edge. A client without a response repeats the request."""

        def once() -> None:
            with self.database.transaction() as session:
                try:
                    work(session, **arguments)
                except MarketplaceError as error:
                    if not error.keeps_changes:
                        raise
                    self.done[f"{name} refused"] += 1
                    return
            self.done[name] += 1

        self.retry_after_crash(name, once)

    def retry_after_crash(self, name: str, work: Callable[[], Any]) -> None:
        """Repeat work while the process crashes, and count refusals."""
        try:
            while self._crashes(work):
                self.done["crashed"] += 1
        except MarketplaceError as error:
            self.done[f"{name} refused"] += 1
            self.trace.append(f"  {type(error).__name__}")

    @staticmethod
    def _crashes(work: Callable[[], Any]) -> bool:
        try:
            work()
        except ProcessCrashedError:
            return True
        return False

    def rows(self, sql: str, **values: Any) -> list[dict[str, Any]]:
        """Read rows without a crash."""
        crash_probability, self.database.crash_probability = self.database.crash_probability, 0.0
        with self.database.reading() as session:
            found = [dict(row) for row in session.execute(text(sql), values).mappings()]
        self.database.crash_probability = crash_probability
        return found

    def random_order(self, where: str = "true") -> tuple[Shop, dict[str, Any]] | None:
        """Choose a random order and return the order with shop and buyer."""
        found = self.rows(f"SELECT {_LIVE} FROM orders WHERE {where} ORDER BY id")
        if not found:
            return None
        row = self.draw.choice(found)
        return self._shop(row["vendor_id"], row["buyer_id"]), row

    def _shop(self, store_id: UUID, buyer_id: UUID) -> Shop:
        shop = self.shops[store_id]
        return Shop(shop.campus_id, shop.category_id, shop.store_id, shop.vendor, self.buyers[buyer_id])

    # Actions of buyers

    def _wallet(self) -> WalletUse:
        return self.draw.choice(
            [WalletUse(), WalletUse(), WalletUse(1_000), WalletUse(as_much_as_possible=True)]
        )

    def _random_item(self, store_id: UUID) -> RequestedItem:
        return RequestedItem(self.draw.choice(self.products[store_id]), self.draw.randint(1, 2))

    def _random_buyer_id(self) -> UUID:
        return self.draw.choice(list(self.buyers))

    def place(self) -> None:
        """Place an order with a single vendor, paid from the wallet not at all, partially or fully."""
        store_id = self.draw.choice(list(self.shops))
        shop = self._shop(store_id, self._random_buyer_id())
        self.attempt(
            "place",
            place,
            shop=shop,
            wishes=[self._random_item(store_id)],
            wallet=self._wallet(),
            now=self.now,
        )

    def check_out(self) -> None:
        """Check out items of several vendors."""
        wishes = [self._random_item(store_id) for store_id in self.shops]
        shop = self._shop(next(iter(self.shops)), self._random_buyer_id())
        self.attempt("check out", check_out, shop=shop, wishes=wishes, wallet=self._wallet(), now=self.now)

    def open(self) -> None:
        """Open a hosted page for an order or the checkout. The gateway's response may be lost."""
        found = self.random_order("status = 'pending_payment'")
        if found is None:
            return
        shop, row = found
        checkout = row["checkout_id"] and self.draw.random() < 0.7
        target = (
            PaymentTarget(checkout_id=row["checkout_id"]) if checkout else PaymentTarget(order_id=row["id"])
        )
        self.gateway.fault = self.draw.choice(["", "", "", "", "lost", "down"])

        def work() -> None:
            intent, page = open_hosted_page(
                self.database,
                self.gateway,
                buyer_id=shop.buyer.id,
                email="ada@example.com",
                target=target,
                callback_url=None,
                clock=lambda: self.now,
                # Waiting for a crashed process advances the simulated clock.
                sleep=lambda seconds: setattr(self, "now", self.now + timedelta(seconds=seconds + 15)),
            )
            self.database.in_transaction(payments.record_hosted_page, intent=intent, page=page, now=self.now)
            self.done["open"] += 1

        self.retry_after_crash("open", work)

    def pay(self) -> None:
        """Pay on any recent page: the exact amount, too little, too much, or again."""
        if self.gateway.pages:
            reference = self.draw.choice(sorted(self.gateway.pages, key=list(self.gateway.pages).index)[-5:])
            self.gateway.pay(reference, self.draw.choice([0, 0, 0, 0, 0, 700, -1, -50_000]))
            self.done["pay"] += 1

    def verify(self) -> None:
        """Verify a payment like a client."""
        if self.gateway.pages:
            reference = self.draw.choice(list(self.gateway.pages))
            charge = self.gateway.fetch_charge(reference)
            self.attempt(
                "verify",
                payments.apply_reported_charge,
                reference=reference,
                charge=charge,
                fee_bearer="platform",
                now=self.now,
            )

    def cancel(self) -> None:
        """Cancel an order in any state, by the buyer or the vendor."""
        found = self.random_order()
        if found is not None:
            shop, row = found
            caller = self.draw.choice([shop.buyer, shop.vendor])
            self.attempt(
                "cancel",
                order_cancellation.cancel_order,
                order_id=row["id"],
                caller=caller,
                reason=None,
                now=self.now,
            )

    def confirm(self) -> None:
        """Confirm receipt of a paid order in any state."""
        found = self.random_order("paid_at IS NOT NULL")
        if found is not None:
            shop, row = found
            self.attempt(
                "confirm", orders.confirm_receipt, order_id=row["id"], caller=shop.buyer, now=self.now
            )

    # Actions of vendors

    def advance(self) -> None:
        """Accept or ship an order."""
        found = self.random_order("status IN ('paid_escrow', 'processing')")
        if found is None or self.draw.random() < 0.1:
            found = self.random_order()
        if found is None:
            return
        shop, row = found
        given = {"order_id": row["id"], "caller": shop.vendor, "now": self.now}
        if row["status"] == "processing":
            self.attempt("ship", orders.ship_order, tracking_note=None, **given)
        else:
            self.attempt("accept", orders.accept_order, **given)

    def pin(self) -> None:
        """Submit a PIN, more often the correct PIN."""
        found = self.random_order("status = 'shipped'") or self.random_order()
        if found is not None:
            shop, row = found
            right = self.draw.random() < 0.7
            pin = pin_of(row["id"]) if right else wrong_pin_of(row["id"])
            name = "right pin" if right else "wrong pin"
            self.attempt(name, release, shop=shop, order_id=row["id"], pin=pin, now=self.now)

    # Actions of the gateway, the bank and the workers

    def deliver(self) -> None:
        """Deliver any event, for the first time or again, in any order."""
        if self.gateway.events:
            recent = self.gateway.events[-3:] if self.draw.random() < 0.7 else self.gateway.events
            self.take(self.draw.choice(recent))

    def take(self, body: bytes) -> None:
        """Receive an event and process the event in a worker."""
        received: list[UUID] = []
        self.retry_after_crash(
            "receive",
            lambda: received.append(
                self.database.in_transaction(
                    webhooks.receive_event, provider="gateway", body=body, now=self.now
                )
            ),
        )
        self.retry_after_crash("process", lambda: self._process(received[-1]))

    def _process(self, inbox_id: UUID) -> None:
        webhooks.process_event(
            self.database, inbox_id=inbox_id, fee_bearer="platform", now=self.now, random=lambda: 0.5
        )
        self.done["deliver"] += 1

    def send(self) -> None:
        """Send a pending refund in a worker. The gateway's response may be lost."""
        waiting = self.rows(_WAITING)
        if waiting:
            self.gateway.fault = self.draw.choice(["", "", "", "lost", "down"])
            event = self.draw.choice(waiting)
            self.retry_after_crash("send", lambda: self._send(event))

    def _send(self, event: dict[str, Any]) -> None:
        """Process an outbox event in the same phases as the worker."""
        with self.database.transaction() as session:
            found = gateway_refund.lease_refund(session, refund_id=UUID(event["refund_id"]), now=self.now)
        reported = gateway_refund.send_refund(self.gateway, found)
        with self.database.transaction() as session:
            if found is not None and reported is not None:
                gateway_refund.apply_gateway_status(
                    session, refund_id=found.id, reported=reported, now=self.now
                )
                self.done["send"] += 1
            elif found is not None:
                gateway_refund.record_refund_unknown_to_gateway(session, pending_refund=found, now=self.now)
            session.execute(
                text("UPDATE outbox_events SET done_at = :now WHERE id = :id"),
                {"now": self.now, "id": event["id"]},
            )

    def poll_unclear_refunds(self) -> None:
        """Poll the gateway for refunds that an event left unclear."""
        for event in self.rows(_UNCLEAR):
            self.retry_after_crash("poll refund", lambda event=event: self._poll_unclear_refund(event))

    def _poll_unclear_refund(self, event: dict[str, Any]) -> None:
        with self.database.reading() as session:
            found = gateway_reports.find_refund(session, refund_id=UUID(event["refund_id"]))
        known = gateway_reports.fetch_status(self.gateway, found)
        with self.database.transaction() as session:
            gateway_reports.record_status(session, found, known, self.now)
            session.execute(
                text("UPDATE outbox_events SET done_at = :now WHERE id = :id"),
                {"now": self.now, "id": event["id"]},
            )
        self.done["polled refund"] += 1

    def decide(self) -> None:
        """Decide a refund at the gateway, or send a failed refund after all."""
        if self.gateway.refunds:
            status = self.draw.choice(["processed", "failed", "needs-attention", "late success", "returned"])
            self.gateway.decide(self.draw.choice(self.gateway.refunds), status)
            self.done[status] += 1

    def sweep(self) -> None:
        """Run the sweeps of unpaid orders and of refunds without a final status."""
        self.gateway.fault = self.draw.choice(["", "", "down"])
        self.retry_after_crash("sweep", self._sweep)

    def _sweep(self) -> None:
        done = sweep_abandoned_checkouts(self.database, self.gateway, fee_bearer="platform", now=self.now)
        assert done.failed == 0
        self.done["expired"] += done.expired
        poll_refunds(self.database, self.gateway, now=self.now)
        self.done["debts collected"] += offset_buyer_debts(self.database, now=self.now)

    def wait(self) -> None:
        """Advance the clock."""
        self.now += timedelta(minutes=self.draw.choice([1, 5, 20, 70]))

    # Actions of finance

    def refund(self) -> None:
        """Refund an order from escrow, partially or fully."""
        found = self.random_order("paid_at IS NOT NULL")
        if found is not None:
            given = {
                "destination": self.draw.choice(["gateway", "gateway", "wallet"]),
                "amount_minor": self.draw.choice([None, 1, 40_000]),
            }
            self.attempt("refund", refund, order_id=found[1]["id"], officer=self.officer, **given)

    def claw_back(self) -> None:
        """Refund an order after release, partially or fully."""
        found = self.random_order("status = 'delivered'")
        if found is not None:
            given = {
                "destination": self.draw.choice(["gateway", "wallet"]),
                "amount_minor": self.draw.choice([None, 1, 40_000]),
            }
            self.attempt("claw back", claw_back, order_id=found[1]["id"], officer=self.officer, **given)

    def resolve_failed_refund(self) -> None:
        """Retry a failed refund, or credit the wallet."""
        stuck = self.rows("SELECT id FROM refunds WHERE status IN ('failed', 'needs_attention') ORDER BY id")
        if not stuck:
            return
        refund_id, retries = self.draw.choice(stuck)["id"], self.draw.random() < 0.5
        trigger = "retry" if retries else "credit"

        def work() -> None:
            with self.database.reading() as session:
                found = recovery.find_failed_refund(
                    session, refund_id=refund_id, trigger=trigger, officer_id=self.officer.id
                )
            known = gateway_reports.fetch_status(self.gateway, found)
            self.attempt(
                trigger,
                recovery.retry_failed_refund if retries else recovery.credit_failed_refund,
                failed_refund=found,
                attempts=known,
                act=act_of(self.officer, now=self.now),
            )

        self.retry_after_crash(trigger, work)

    def resolve(self) -> None:
        """Resolve a quarantined charge."""
        held = self.rows("SELECT id FROM quarantined_charges WHERE status = 'open' ORDER BY id")
        if held:
            action = self.draw.choice(["accept_rest", "refund", "wallet"])
            self.attempt(
                action,
                quarantine.resolve_quarantined_charge,
                quarantined_charge_id=self.draw.choice(held)["id"],
                action=action,
                note="Looked into.",
                act=act_of(self.officer, now=self.now),
            )

    # Final checks

    def finish(self) -> None:
        """Finish all waiting work: process the outbox and deliver every event."""
        self.now += timedelta(hours=2)
        seen = 0
        for _ in range(4):
            seen = self._finish_refunds_and_events(seen, ["processed", "failed", "needs-attention"])
            self.resolve_failed_refund()
            if self.gateway.refunds and self.draw.random() < 0.3:
                self.gateway.decide(self.draw.choice(self.gateway.refunds), "late success")
        for dispute in self.gateway.chargebacks.values():
            self.gateway.end_chargeback(dispute, "declined")
        for _ in range(2):
            seen = self._finish_refunds_and_events(seen, ["processed"])
            self.follow()
        self._sweep()

    def _finish_refunds_and_events(self, seen: int, words: list[str]) -> int:
        """Send and decide all refunds, deliver events from an index on, and return the number of events."""
        for event in self.rows(_WAITING):
            self.retry_after_crash("send", lambda event=event: self._send(event))
        for data in self.gateway.refunds:
            if data["status"] == "pending":
                self.gateway.decide(data, self.draw.choice(words))
        for body in self.gateway.events[seen:]:
            self.take(body)
        self.poll_unclear_refunds()
        return len(self.gateway.events)

    def check(self) -> None:
        """Check all rules."""
        with self.database.reading() as session:
            assert_ledger_is_consistent(session)
            held = self._gateway_balance(session) - self.money_before
        self._check_gateway(held)
        both = self.rows(
            """
            SELECT o.number FROM orders o JOIN ledger_transactions t ON t.kind = 'release'
                AND t.source = 'order:' || o.id WHERE o.status IN ('refunded', 'cancelled')
            """
        )
        assert both == [], "a released order was refunded or cancelled"
        after = self.rows(
            """
            SELECT r.cause FROM refunds r JOIN ledger_transactions t ON t.kind = 'release'
                AND t.source = 'order:' || r.order_id
            WHERE r.cause LIKE 'order:%' AND r.id > t.id
            """
        )
        assert after == [], "an order was refunded after its release"
        self.done["duplicate refund"] += len(self.rows("SELECT id FROM refunds WHERE paid_twice_minor > 0"))
        self._check_stock()
        self._check_trails()
        self.check_disputes()

    def _check_stock(self) -> None:
        """Check that the stock is the initial stock less the units that were paid and not returned."""
        torn = self.rows(
            """
            SELECT p.id, p.quantity, sold.units FROM products p CROSS JOIN LATERAL (
                SELECT coalesce(sum(i.quantity), 0)::int AS units
                FROM order_items i JOIN orders o ON o.id = i.order_id
                WHERE i.product_id = p.id AND o.paid_at IS NOT NULL AND o.status <> 'cancelled'
                    AND (o.status <> 'refunded' OR o.shipped_at IS NOT NULL)
            ) sold WHERE p.quantity <> :stocked - sold.units
            """,
            stocked=STOCKED,
        )
        assert torn == [], "units were lost or sold twice"

    def _check_gateway(self, held: int) -> None:
        """Check that each paid kobo is in the ledger once, and that each refunded kobo left once."""
        paid = sum(data["amount"] for made in self.gateway.charges.values() for data in made)
        sent = [data for data in self.gateway.refunds if data["status"] == "processed"]
        taken = sum(
            data["refund_amount"]
            for data in self.gateway.chargebacks.values()
            if data["resolution"] == "merchant-accepted"
        )
        assert held == paid - sum(data["amount"] for data in sent) - taken
        notes = [data["merchant_note"] for data in self.gateway.refunds]
        assert len(notes) == len(set(notes)), "the gateway received a duplicate refund request"
        # All work is done, so every refund is known to the gateway and has the same status here, or was credited.
        known = {note: data["status"] for note, data in zip(notes, self.gateway.refunds, strict=True)}
        for row in self.rows("SELECT id, status, attempt FROM refunds WHERE destination = 'gateway'"):
            reported = known.get(gateway_refund.refund_reference(row["id"], row["attempt"]))
            assert reported is not None, f"a refund with status {row['status']} never reached the gateway"
            expected = {"failed": "failed", "needs_attention": "needs-attention", "processed": "processed"}
            assert row["status"] == "credited" or reported == expected.get(row["status"]), (
                row["status"],
                reported,
            )

    def _check_trails(self) -> None:
        reached: dict[UUID, str] = {}
        trails = self.rows(
            'SELECT order_id, from_status, to_status, "trigger" FROM order_events ORDER BY order_id, id'
        )
        for step in trails:
            source, target = step["from_status"], step["to_status"]
            assert source == reached.get(step["order_id"])
            if source is None:
                assert target == states.ORDER.initial
            elif source != target:
                assert target == states.ORDER.target(source, step["trigger"])
            reached[step["order_id"]] = target
        assert reached == {row["id"]: row["status"] for row in self.rows("SELECT id, status FROM orders")}

    @staticmethod
    def _gateway_balance(session: Session) -> int:
        balances = fetch_balances_by_kind(session)
        return balances["gateway_clearing"] + balances["gateway_fees"]
