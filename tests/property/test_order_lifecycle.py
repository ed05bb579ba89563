"""Random steps of buyers, vendors, gateway and faults: ledger invariants hold after each step."""

from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from itertools import count
from typing import Any
from uuid import UUID

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

from marketplace.infra.db import Database
from marketplace.kernel.errors import MarketplaceError, ProviderUnavailableError
from marketplace.ledger.queries import fetch_balances_by_kind
from marketplace.orders import operations as orders
from marketplace.orders.deadlines import MAX_PIN_ATTEMPTS, MAX_UNPAID_ORDERS
from marketplace.orders.operations import PinLockedError, WrongPinError
from marketplace.orders.states import ORDER
from marketplace.payments.intents import lifecycle as payments
from marketplace.payments.intents.expiry import sweep_abandoned_checkouts
from marketplace.payments.intents.lifecycle import PaymentTarget
from marketplace.payments.intents.payment_methods import open_hosted_page
from marketplace.payments.refunds import order_cancellation
from marketplace.providers.client import ProviderRefusedError
from marketplace.providers.gateway.payloads import Charge
from marketplace.providers.gateway.payments import PaymentPage
from marketplace.webhooks import inbox as webhooks
from tests.support.depth import case_count
from tests.support.finance import claw_back, make_officer
from tests.support.gateway import event_of
from tests.support.gateway_events import dispute_data
from tests.support.purchases import (
    NOW,
    Shop,
    assert_ledger_is_consistent,
    make_product,
    make_shop,
    pin_of,
    place,
    release,
    row_of,
    status_of,
    stock_of,
    trail_of,
    with_buyer,
    wrong_pin_of,
)

PICK = st.integers(0, 10**6)
STOCK = 12
_charge_ids = count(10**9)


class InMemoryGateway:
    """In-memory gateway that loses responses on demand."""

    def __init__(self) -> None:
        self.pages: dict[str, int] = {}
        self.charges: dict[str, list[dict[str, Any]]] = {}
        self.fault = ""

    def initialize_payment(
        self, *, reference: str, amount_minor: int, email: str, callback_url: str | None, metadata: Any
    ) -> PaymentPage:
        """Open a hosted page and refuse a known reference, like the gateway."""
        if self.fault == "down":
            raise ProviderUnavailableError
        if reference in self.pages:
            raise ProviderRefusedError("till", 400, "Duplicate Transaction Reference")
        self.pages[reference] = amount_minor
        if self.fault == "lost":
            raise ProviderUnavailableError
        return PaymentPage(f"https://till.example/{reference}", reference)

    def fetch_charge(self, reference: str) -> Charge | None:
        """Return the first charge of a reference, an unpaid page or nothing."""
        if self.fault in ("down", "lost"):
            raise ProviderUnavailableError
        if reference not in self.pages:
            return None
        made = self.charges.get(reference)
        return Charge.from_wire(made[0] if made else self._data(reference, 0, status="abandoned"))

    def pay(self, reference: str, difference: int) -> dict[str, Any]:
        """Pay the requested amount plus a difference in kobo."""
        data = self._data(reference, max(self.pages[reference] + difference, 1), status="success")
        self.charges.setdefault(reference, []).append(data)
        return data

    def _data(self, reference: str, amount_minor: int, *, status: str) -> dict[str, Any]:
        return {
            "id": next(_charge_ids),
            "reference": reference,
            "status": status,
            "amount": amount_minor,
            "fees": min(100, amount_minor),
            "currency": "NGN",
            "channel": "card",
            "paid_at": None,
        }


class OrderLifecycle(RuleBasedStateMachine):
    """State machine of a shop with three buyers, two products and a gateway."""

    database: Database

    def __init__(self) -> None:
        super().__init__()
        self.now = NOW
        self.gateway = InMemoryGateway()
        self.placed: list[tuple[Shop, UUID]] = []
        self.events: list[tuple[dict[str, Any], bytes]] = []
        self.inbox: list[UUID] = []
        self.failures: dict[UUID, int] = {}

    @initialize()
    def open_shop(self) -> None:
        """Create the shop."""
        with self.database.transaction() as session:
            shop = make_shop(session)
            self.buyers = [with_buyer(session, shop) for _ in range(3)]
            self.products = [make_product(session, shop, quantity=STOCK) for _ in range(2)]
            self.officer = make_officer(session)
            self.clearing_before = self.clearing(session)

    @staticmethod
    def clearing(session: Any) -> int:
        """Return the gateway balance including fees in kobo."""
        balances = fetch_balances_by_kind(session)
        return balances["gateway_clearing"] + balances["gateway_fees"]

    def charged_back(self, session: Any) -> int:
        """Return the amount that banks charged back for orders of this run."""
        minor: int = session.execute(
            text(
                "SELECT coalesce(sum(e.amount_minor), 0)::bigint FROM ledger_entries e"
                " JOIN ledger_accounts a ON a.id = e.account_id AND a.kind = 'gateway_clearing'"
                " WHERE e.kind = 'chargeback' AND e.order_id = ANY(:ids)"
            ),
            {"ids": [order_id for _, order_id in self.placed]},
        ).scalar_one()
        return minor

    def status(self, order_id: UUID) -> str:
        """Return the status of an order."""
        with self.database.reading() as session:
            return status_of(session, order_id)

    def attempt(self, work: Callable[..., Any], **arguments: Any) -> MarketplaceError | None:
        """Run an operation in a separate transaction, like a route, and return the error, if any."""
        try:
            with self.database.transaction() as session:
                try:
                    work(session, **arguments)
                except MarketplaceError as error:
                    if not error.keeps_changes:
                        raise
                    return error
        except MarketplaceError as error:
            return error
        return None

    def pick_order(self, pick: int) -> tuple[Shop, UUID]:
        """Pick an order among the latest four."""
        return self.placed[-1 - pick % min(len(self.placed), 4)]

    # Steps of the buyer

    @rule(buyer=PICK, product=PICK, quantity=st.integers(1, 3))
    def place(self, buyer: int, product: int, quantity: int) -> None:
        """Place an order. Only missing stock or the limit of unpaid orders refuses the order."""
        shop = self.buyers[buyer % 3]
        product_id = self.products[product % 2]
        with self.database.reading() as session:
            held, reserved = stock_of(session, product_id)
        unpaid = sum(
            1 for one, order_id in self.placed if one == shop and self.status(order_id) == "pending_payment"
        )
        made: list[UUID] = []

        def work(session: Any) -> None:
            made.append(place(session, shop, product_id, quantity=quantity, now=self.now))

        refused = self.attempt(work)

        assert (refused is None) == (held - reserved >= quantity and unpaid < MAX_UNPAID_ORDERS)
        if refused is None:
            self.placed.append((shop, made[0]))

    @precondition(lambda self: self.placed)
    @rule(pick=PICK, fault=st.sampled_from(["", "", "", "", "lost", "down"]), crash=st.booleans())
    def open(self, pick: int, fault: str, crash: bool) -> None:
        """Open a hosted page. The process may die after the gateway's response."""
        shop, order_id = self.pick_order(pick)
        self.gateway.fault = fault
        with suppress(MarketplaceError):
            intent, page = open_hosted_page(
                self.database,
                self.gateway,
                buyer_id=shop.buyer.id,
                email="ada@example.com",
                target=PaymentTarget(order_id=order_id),
                callback_url=None,
                clock=lambda: self.now,
                # Waiting for the lease of a dead process advances the test clock.
                sleep=lambda seconds: setattr(self, "now", self.now + timedelta(seconds=seconds)),
            )
            if not crash:
                self.database.in_transaction(
                    payments.record_hosted_page, intent=intent, page=page, now=self.now
                )
        self.gateway.fault = ""

    @precondition(lambda self: self.gateway.pages)
    @rule(pick=PICK, difference=st.sampled_from([0, 0, 0, 0, 700, -1, -(10**9)]))
    def pay(self, pick: int, difference: int) -> None:
        """Pay on a hosted page, even an old or paid page."""
        references = list(self.gateway.pages)
        data = self.gateway.pay(references[-1 - pick % min(len(references), 4)], difference)
        self.events.append((data, event_of(data)))

    @precondition(lambda self: self.gateway.pages)
    @rule(pick=PICK)
    def verify(self, pick: int) -> None:
        """Verify a payment as the buyer's client."""
        references = list(self.gateway.pages)
        reference = references[pick % len(references)]
        self.database.in_transaction(
            payments.apply_reported_charge,
            reference=reference,
            charge=self.gateway.fetch_charge(reference),
            fee_bearer="platform",
            now=self.now,
        )

    @rule(buyer=PICK, product=PICK, shipped_at_once=st.booleans())
    def purchase(self, buyer: int, product: int, shipped_at_once: bool) -> None:
        """Buy without faults. The vendor may ship at once."""
        before = len(self.placed)
        self.place(buyer=buyer, product=product, quantity=1)
        if len(self.placed) == before:
            return
        _, order_id = self.placed[-1]
        pages = len(self.gateway.pages)
        self.open(pick=0, fault="", crash=False)
        assert len(self.gateway.pages) == pages + 1
        self.pay(pick=0, difference=0)
        self.deliver(pick=len(self.events) - 1, crash=False)
        assert self.status(order_id) == "paid_escrow"
        if shipped_at_once:
            self.advance(pick=0)
            self.advance(pick=0)
            assert self.status(order_id) == "shipped"

    @precondition(lambda self: self.placed)
    @rule(pick=PICK)
    def cancel(self, pick: int) -> None:
        """Cancel an order, which only works before shipment."""
        shop, order_id = self.pick_order(pick)
        before = self.status(order_id)

        refused = self.attempt(
            order_cancellation.cancel_order, order_id=order_id, caller=shop.buyer, reason=None, now=self.now
        )

        assert (refused is None) == (before in ("pending_payment", "paid_escrow", "processing"))

    # Steps of the gateway

    @precondition(lambda self: self.events)
    @rule(pick=PICK, crash=st.booleans())
    def deliver(self, pick: int, crash: bool) -> None:
        """Deliver an event in any order, possibly again. The worker may die before the commit."""
        _, body = self.events[pick % len(self.events)]
        inbox_id = self.database.in_transaction(
            webhooks.receive_event, provider="gateway", body=body, now=self.now
        )
        self.inbox.append(inbox_id)
        if crash:
            with suppress(_KilledError), self.database.transaction() as session:
                webhooks.process_event_in_transaction(
                    session, inbox_id=inbox_id, fee_bearer="platform", now=self.now
                )
                raise _KilledError
        else:
            self.process(inbox_id)

    @precondition(lambda self: self.events)
    @rule(pick=PICK, event=st.sampled_from(["create", "create", "remind", "resolve"]), won=st.booleans())
    def dispute(self, pick: int, event: str, won: bool) -> None:
        """Report a dispute of a delivered or undelivered charge. Each charge has at most a single dispute."""
        charge, _ = self.events[pick % len(self.events)]
        end = {"status": "resolved", "resolution": "declined" if won else "merchant-accepted"}
        data = dispute_data(charge["reference"], charge["id"], id=charge["id"])
        body = event_of(data | (end if event == "resolve" else {}), f"charge.dispute.{event}")
        inbox_id = self.database.in_transaction(
            webhooks.receive_event, provider="gateway", body=body, now=self.now
        )
        self.inbox.append(inbox_id)
        self.process(inbox_id)

    def process(self, inbox_id: UUID) -> None:
        """Process an inbox row as a worker."""
        webhooks.process_event(
            self.database, inbox_id=inbox_id, fee_bearer="platform", now=self.now, random=lambda: 0.5
        )

    # Steps of finance

    @precondition(lambda self: self.placed)
    @rule(pick=PICK, amount=st.sampled_from([None, 1, 100_000, 10**9]))
    def claw_back(self, pick: int, amount: int | None) -> None:
        """Claw back up to the released amount, but never while a bank disputes the payment."""
        _, order_id = self.pick_order(pick)
        with self.database.reading() as session:
            escrow = row_of(session, "escrows", order_id=order_id)
            disputed = session.execute(
                text(
                    "SELECT count(*) FROM charge_disputes d JOIN payment_allocations a ON a.intent_id = d.intent_id"
                    " WHERE a.order_id = :id AND (d.status = 'open' OR d.resolution <> 'declined')"
                ),
                {"id": order_id},
            ).scalar_one()
        left = escrow["released_minor"] - escrow["clawed_back_minor"]

        refused = self.attempt(claw_back, order_id=order_id, officer=self.officer, amount_minor=amount)

        assert (refused is None) == (0 < (amount or left) <= left and not disputed)

    # Passing time and background tasks

    @rule(minutes=st.sampled_from([1, 1, 5, 10, 20]))
    def wait(self, minutes: int) -> None:
        """Let time pass."""
        self.now += timedelta(minutes=minutes)

    @rule(fault=st.sampled_from(["", "", "down"]))
    def sweep(self, fault: str) -> None:
        """Expire unpaid orders, but no order with a hosted page while the gateway is down."""
        waiting = {
            order_id
            for _, order_id in self.placed
            if self.status(order_id) == "pending_payment" and self.has_hosted_page(order_id)
        }
        self.gateway.fault = fault
        done = sweep_abandoned_checkouts(self.database, self.gateway, fee_bearer="platform", now=self.now)
        self.gateway.fault = ""

        assert done.failed == 0
        if fault:
            assert {self.status(order_id) for order_id in waiting} <= {"pending_payment"}

    def has_hosted_page(self, order_id: UUID) -> bool:
        """Tell whether an order has a recorded hosted page."""
        with self.database.reading() as session:
            rows = session.connection().exec_driver_sql(
                "SELECT i.authorization_url FROM payment_intents i JOIN payment_allocations a"
                " ON a.intent_id = i.id WHERE a.order_id = %(id)s AND i.authorization_url IS NOT NULL",
                {"id": str(order_id)},
            )
            return rows.first() is not None

    @rule()
    def relay(self) -> None:
        """Process the inbox rows that killed workers left behind."""
        for inbox_id in self.inbox:
            self.process(inbox_id)

    # Steps of the vendor

    @precondition(lambda self: self.placed)
    @rule(pick=PICK)
    def advance(self, pick: int) -> None:
        """Accept or ship an order, depending on the status."""
        shop, order_id = self.pick_order(pick)
        before = self.status(order_id)

        accepted = self.attempt(orders.accept_order, order_id=order_id, caller=shop.vendor, now=self.now)
        assert (accepted is None) == (before == "paid_escrow")
        if accepted is not None:
            shipped = self.attempt(
                orders.ship_order, order_id=order_id, caller=shop.vendor, tracking_note=None, now=self.now
            )
            assert (shipped is None) == (before == "processing")

    @precondition(lambda self: self.placed)
    @rule(pick=PICK, right=st.booleans())
    def submit_pin(self, pick: int, right: bool) -> None:
        """Submit a PIN. Five wrong PINs lock the order, and the right PIN releases escrow."""
        shop, order_id = self.pick_order(pick)
        with self.database.reading() as session:
            before = row_of(session, "orders", id=order_id)
        locked = before["pin_locked_until"] is not None and before["pin_locked_until"] > self.now
        pin = pin_of(order_id) if right else wrong_pin_of(order_id)

        refused = self.attempt(release, shop=shop, order_id=order_id, pin=pin, now=self.now)

        if before["status"] != "shipped":
            assert refused is not None
            assert refused.status in (404, 409)
        elif locked:
            assert isinstance(refused, PinLockedError)
        elif right:
            assert refused is None
        else:
            assert isinstance(refused, WrongPinError)
            failures = self.failures.get(order_id, 0) + 1
            assert refused.extensions == {"attemptsLeft": MAX_PIN_ATTEMPTS - failures}
            self.failures[order_id] = failures % MAX_PIN_ATTEMPTS

    # Invariants after each step

    @invariant()
    def ledger_invariants_hold(self) -> None:
        """Check the invariants of ledger, escrow and stock."""
        with self.database.reading() as session:
            assert_ledger_is_consistent(session)

    @invariant()
    def order_histories_follow_the_transition_table(self) -> None:
        """Compare each order's history with the transition table, up to the current status."""
        with self.database.reading() as session:
            for _, order_id in self.placed:
                reached = None
                for source, target, trigger, _ in trail_of(session, order_id):
                    assert source == reached
                    # A clawback leaves the order delivered, and a wrong PIN leaves it shipped.
                    if source != target:
                        assert target == (ORDER.initial if source is None else ORDER.target(source, trigger))
                    else:
                        assert (source, trigger) in (("delivered", "clawback"), ("shipped", "wrong-pin"))
                    reached = target
                assert reached == status_of(session, order_id)

    @invariant()
    def ledger_holds_no_more_than_was_paid(self) -> None:
        """Check that the ledger holds no more money than was paid."""
        if not hasattr(self, "clearing_before"):
            return
        paid = sum(data["amount"] for data, _ in self.events)
        with self.database.reading() as session:
            assert self.clearing(session) - self.clearing_before <= paid

    def teardown(self) -> None:
        """Deliver all events, then check that the ledger holds each paid kobo once."""
        if not hasattr(self, "clearing_before"):
            return
        for _, body in self.events:
            self.inbox.append(
                self.database.in_transaction(
                    webhooks.receive_event, provider="gateway", body=body, now=self.now
                )
            )
        self.relay()
        self.ledger_invariants_hold()
        with self.database.reading() as session:
            paid = sum(data["amount"] for data, _ in self.events)
            assert self.clearing(session) - self.clearing_before == paid - self.charged_back(session)
            sold = sum(STOCK - stock_of(session, product_id)[0] for product_id in self.products)
            bought = 0
            for _, order_id in self.placed:
                order = row_of(session, "orders", id=order_id)
                if order["paid_at"] is not None and order["status"] != "cancelled":
                    bought += row_of(session, "order_items", order_id=order_id)["quantity"]
            assert sold == bought


class _KilledError(Exception):
    """A process that dies before the commit."""


def test_ledger_is_consistent_after_random_order_steps(own_database: Database) -> None:
    def start() -> OrderLifecycle:
        machine = OrderLifecycle()
        machine.database = own_database
        return machine

    run_state_machine_as_test(
        start,
        settings=hypothesis_settings(
            max_examples=case_count(5, deep=100), stateful_step_count=40, deadline=None
        ),
    )
