"""Hypothesis plays vendors, officers, workers that die, and a gateway that loses answers, fails and reverses.

In the end what left the gateway is what the books say, nobody was paid more than they were owed, and no reference was
ever more than one transfer.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from datetime import timedelta
from itertools import count
from typing import Any
from uuid import UUID

import pytest
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test
from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.infra.db import Database
from marketplace.kernel.errors import MarketplaceError, ProviderUnavailableError
from marketplace.ledger.queries import balances_by_kind
from marketplace.payouts import approval, calling_off, claims, dispatching, requery, sending, staging
from marketplace.payouts.claims import Wish
from marketplace.payouts.giving_up import give_up
from marketplace.platform.queries import platform_settings
from marketplace.providers.gateway_events import GatewayTransfer
from marketplace.providers.transfers import FundsShortError, TransferOrder, TransferRefusedError
from marketplace.webhooks import operations as webhooks
from tests.support.finance import actor_of, make_officer
from tests.support.gateway import event_of
from tests.support.payouts import OWED_MINOR, Payee, intents_in, make_account, make_payees, owe
from tests.support.purchases import NOW, assert_books_are_whole
from tests.support.servers import Addresses, create_database, drop_database

PICK = st.integers(0, 10**6)
VENDORS = 3
FAULTS = ("", "", "", "down", "lost", "short", "unwilling", "closed")
DEATHS = ("", "", "after the claim", "before the note")
# What becomes of a transfer by and by, in the gateway's words.
FATES = ((), ("success",), ("success",), ("failed",), ("reversed",), ("success", "reversed"))
# An id is an event's name too: no life may have those of another.
_transfer_ids = count(10**9)


class Till:
    """The gateway's transfers in memory: its answers are lost on demand, its events are the test's to deliver."""

    def __init__(self) -> None:
        self.transfers: dict[str, dict[str, Any]] = {}
        self.events: list[bytes] = []
        self.fault = ""

    def make_recipient(self, *, name: str, account_number: str, bank_code: str) -> str | None:
        self._may_be_down()
        return f"RCP_{account_number}"

    def send(self, order: TransferOrder) -> GatewayTransfer:
        self._may_refuse()
        made = self._make(order)
        self._may_lose()
        return GatewayTransfer.from_wire(made)

    def send_all(self, orders: Sequence[TransferOrder]) -> list[GatewayTransfer]:
        self._may_refuse()
        if any(order.reference in self.transfers for order in orders):
            raise TransferRefusedError(404)
        made = [self._make(order) for order in orders]
        self._may_lose()
        return [GatewayTransfer.from_wire(data) for data in made]

    def transfer(self, reference: str) -> GatewayTransfer | None:
        self._may_be_down()
        self._may_lose()
        data = self.transfers.get(reference)
        return GatewayTransfer.from_wire(data) if data else None

    def decide(self, data: dict[str, Any], status: str) -> None:
        """Bring a transfer to a result, or reverse it afterwards; it is told of by an event."""
        follows = {"pending": ("success", "failed", "reversed"), "success": ("reversed",)}
        if status in follows.get(data["status"], ()):
            data["status"] = status
            self.events.append(event_of(dict(data), f"transfer.{status}"))

    @property
    def left_minor(self) -> int:
        """What is gone from it for good, or was not decided on yet."""
        return sum(data["amount"] for data in self.transfers.values() if data["status"] == "success")

    def _make(self, order: TransferOrder) -> dict[str, Any]:
        data = self.transfers.setdefault(
            order.reference,
            {
                "id": next(_transfer_ids),
                "reference": order.reference,
                "amount": order.amount_minor,
                "currency": "NGN",
                "status": "pending",
                "transfer_code": f"TRF_{order.reference}",
                "recipient_code": order.recipient_code,
            },
        )
        assert (data["amount"], data["recipient_code"]) == (order.amount_minor, order.recipient_code)
        return data

    def _may_be_down(self) -> None:
        if self.fault == "down":
            raise ProviderUnavailableError

    def _may_refuse(self) -> None:
        self._may_be_down()
        if self.fault == "short":
            raise FundsShortError
        if self.fault in ("unwilling", "closed"):
            raise TransferRefusedError(400, for_good=self.fault == "closed")

    def _may_lose(self) -> None:
        if self.fault == "lost":
            raise ProviderUnavailableError


class LifeOfPayouts(RuleBasedStateMachine):
    """Three vendors, two officers and a third who sends, one gateway."""

    database: Database

    def __init__(self) -> None:
        super().__init__()
        self.now = NOW
        self.till = Till()
        self.batches: list[UUID] = []
        self.inbox: list[UUID] = []

    @initialize()
    def begin(self) -> None:
        """Make everybody, on a database that others' payouts are out of the way of."""
        with self.database.transaction() as session:
            session.execute(text("UPDATE payout_transfers SET ask_at = NULL"))
            self.payees: list[Payee] = make_payees(session, VENDORS)
            self.owed = dict.fromkeys(range(VENDORS), OWED_MINOR)
            self.officers = [make_officer(session) for _ in range(3)]
            self.minimum = int(platform_settings(session)["minimum_payout_minor"])
            held = balances_by_kind(session).get("gateway_clearing", 0)
            self.clearing_before = held - sum(self.owed.values())

    def attempt(self, work: Callable[..., Any], **given: Any) -> Any:
        """Try what may be refused, in a transaction of its own; a refusal may have changes to keep."""
        with suppress(MarketplaceError), self.database.transaction() as session:
            try:
                return work(session, now=self.now, **given)
            except MarketplaceError as error:
                if not error.keeps_changes:
                    raise
        return None

    @rule(who=st.integers(0, VENDORS - 1), minor=st.integers(50_000, 900_000))
    def release(self, who: int, minor: int) -> None:
        """Owe a vendor more, as the release of an order does."""
        with self.database.transaction() as session:
            owe(session, self.payees[who], minor)
        self.owed[who] += minor

    @rule(who=st.integers(0, VENDORS - 1), minor=st.integers(100_000, 400_000))
    def withdraw(self, who: int, minor: int) -> None:
        """Have a vendor ask for something."""
        payee = self.payees[who]
        wish = Wish(claims.Payee(payee.user.id, payee.store_id), payee.account_id, minor)
        self.attempt(claims.claim, wishes=[wish], batch_id=None, minimum_minor=self.minimum, asked_for=True)

    @rule(who=st.integers(0, VENDORS - 1))
    def move_account(self, who: int) -> None:
        """Have a vendor give another bank account, a while ago."""
        with self.database.transaction() as session:
            make_account(session, self.payees[who].user.id)

    @rule(by_hand=st.booleans(), further=st.sampled_from((0, 1, 2, *[3] * 6)))
    def stage(self, by_hand: bool, further: int) -> None:
        """Stage what can be paid, and go on with it as far as it may go: most batches are sent in the end."""
        officer = self.officers[0] if by_hand else None
        done = self.attempt(
            staging.stage,
            officer=officer,
            actor=actor_of(officer) if officer else staging.SCHEDULE,
            vendor_ids=[payee.store_id for payee in self.payees],
        )
        if done is not None and done.batch_id is not None:
            self.batches.append(done.batch_id)
            latest = len(self.batches) - 1
            for step in range(min(further, 2)):
                self.approve(latest, step + by_hand)
            if further > 2:
                self.approve(latest, 1)
                self.dispatch(latest)

    @rule(pick=PICK, who=st.integers(0, 2))
    def approve(self, pick: int, who: int) -> None:
        """Have an officer approve a batch."""
        if self.batches:
            officer = self.officers[who]
            self.attempt(
                approval.approve,
                batch_id=self.batches[pick % len(self.batches)],
                officer=officer,
                actor=actor_of(officer),
            )

    @rule(pick=PICK)
    def reject(self, pick: int) -> None:
        """Have an officer reject a batch."""
        if self.batches:
            self.attempt(
                calling_off.reject,
                batch_id=self.batches[pick % len(self.batches)],
                officer=self.officers[1],
                actor=actor_of(self.officers[1]),
                reason="It is not what was agreed upon.",
            )

    @rule(pick=PICK, which=PICK)
    def take_out(self, pick: int, which: int) -> None:
        """Have an officer take a payment out of a batch."""
        if self.batches:
            batch_id = self.batches[pick % len(self.batches)]
            with self.database.reading() as session:
                intents = intents_in(session, batch_id)
            self.attempt(
                calling_off.exclude,
                batch_id=batch_id,
                intent_ids=[intents[which % len(intents)]["id"]],
                officer=self.officers[0],
                actor=actor_of(self.officers[0]),
                reason="It is not what was agreed upon.",
            )

    @rule(pick=PICK)
    def dispatch(self, pick: int) -> None:
        """Have an officer dispatch a batch."""
        if self.batches:
            self.attempt(
                dispatching.dispatch,
                batch_id=self.batches[pick % len(self.batches)],
                officer=self.officers[2],
                actor=actor_of(self.officers[2]),
            )

    @rule(
        pick=PICK,
        fault=st.sampled_from(FAULTS),
        death=st.sampled_from(DEATHS),
        fates=st.lists(st.sampled_from(FATES), min_size=VENDORS, max_size=VENDORS),
    )
    def send(self, pick: int, fault: str, death: str, fates: list[tuple[str, ...]]) -> None:
        """Have a worker send the next payouts of a batch; it may die on the way, and they come to something."""
        if not self.batches:
            return
        before = set(self.till.transfers)
        self.till.fault = fault
        with self.database.reading() as session:
            found = sending.claim(session, batch_id=self.batches[pick % len(self.batches)], now=self.now)
        if death != "after the claim":
            answers = sending.send(self.till, found.claimed)
            if death != "before the note":
                self.database.in_transaction(sending.note, found=found, answers=answers, now=self.now)
        self.till.fault = ""
        made = [data for reference, data in self.till.transfers.items() if reference not in before]
        for data, fate in zip(made, fates, strict=False):
            for status in fate:
                self.till.decide(data, status)

    @rule(pick=PICK, status=st.sampled_from(("success", "failed", "reversed")))
    def decide(self, pick: int, status: str) -> None:
        """Have the gateway bring a transfer to a result, or reverse it."""
        made = list(self.till.transfers.values())
        if made:
            self.till.decide(made[pick % len(made)], status)

    @rule(picks=st.lists(PICK, min_size=1, max_size=2 * VENDORS))
    def deliver(self, picks: list[int]) -> None:
        """Deliver events, whichever and in any order, some once more."""
        for pick in picks:
            if self.till.events:
                self._deliver(self.till.events[pick % len(self.till.events)])

    @rule(hours=st.sampled_from((1, 6, 24, 48)), fault=st.sampled_from(("", "", "down", "lost")))
    def sweep(self, hours: int, fault: str) -> None:
        """Let time go by, and have the sweep come."""
        self.now += timedelta(hours=hours)
        self.till.fault = fault
        requery.requery_transfers(self.database, self.till, now=self.now)
        self.till.fault = ""

    def _deliver(self, body: bytes) -> None:
        inbox_id = self.database.in_transaction(webhooks.receive, provider="gateway", body=body, now=self.now)
        done = webhooks.process(
            self.database, inbox_id=inbox_id, fee_bearer="platform", now=self.now, random=lambda: 0.5
        )
        assert done is not None
        assert done.status in ("processed", "duplicate")

    def teardown(self) -> None:
        """Have all come to an end, and compare the books with the gateway."""
        if not hasattr(self, "payees"):
            return
        for _ in range(4):
            for batch_id in self.batches:
                with self.database.reading() as session:
                    found = sending.claim(session, batch_id=batch_id, now=self.now)
                answers = sending.send(self.till, found.claimed)
                self.database.in_transaction(sending.note, found=found, answers=answers, now=self.now)
            for data in list(self.till.transfers.values()):
                self.till.decide(data, "success")
            for body in list(self.till.events):
                self._deliver(body)
            self._ask_about_all()
        self._give_up_what_waits()
        self.database.in_transaction(self.check)

    def _give_up_what_waits(self) -> None:
        """Have an officer give up what is not sent, its payee having another bank account since it was approved."""
        with self.database.transaction() as session:
            waiting = session.execute(
                text(
                    "SELECT i.id FROM payout_transfer_intents i JOIN payout_transfers t ON t.intent_id = i.id"
                    " WHERE i.status = 'pending' AND t.sent_at IS NULL AND i.batch_id = ANY(:batches)"
                ),
                {"batches": self.batches},
            ).scalars()
            for payout_id in list(waiting):
                give_up(
                    session,
                    payout_id=payout_id,
                    note="Another account",
                    officer=self.officers[0],
                    actor=actor_of(self.officers[0]),
                    now=self.now,
                )

    def _ask_about_all(self) -> None:
        """Have officers ask about what the schedule gave up, so that all is known in the end."""
        with self.database.transaction() as session:
            session.execute(
                text(
                    "UPDATE payout_transfers t SET attempts = 0, ask_at = :now FROM payout_transfer_intents i"
                    " WHERE i.id = t.intent_id AND t.sent_at IS NOT NULL"
                    " AND i.status IN ('pending', 'submitted', 'unknown') AND i.batch_id = ANY(:batches)"
                ),
                {"now": self.now, "batches": self.batches},
            )
        requery.requery_transfers(self.database, self.till, now=self.now)

    def check(self, session: Session) -> None:
        """Hold the books to the gateway, each vendor to what they were owed, and each batch to its end."""
        assert_books_are_whole(session)
        rows = session.execute(
            text(
                "SELECT i.vendor_id, i.status, i.amount_minor, t.reference FROM payout_transfer_intents i"
                " JOIN payout_transfers t ON t.intent_id = i.id WHERE i.batch_id = ANY(:batches)"
            ),
            {"batches": self.batches},
        ).all()
        known = {data["reference"]: data["status"] for data in self.till.transfers.values()}
        for row in rows:
            assert row.status == known.get(row.reference, "failed"), row
        paid = {payee.store_id: 0 for payee in self.payees}
        for row in rows:
            if row.status == "success":
                paid[row.vendor_id] += row.amount_minor
        assert all(paid[payee.store_id] <= self.owed[who] for who, payee in enumerate(self.payees))
        assert sum(paid.values()) == self.till.left_minor
        clearing = balances_by_kind(session)["gateway_clearing"] - self.clearing_before
        assert clearing == sum(self.owed.values()) - self.till.left_minor
        ended = session.execute(
            text("SELECT DISTINCT status FROM payout_batches WHERE id = ANY(:batches)"),
            {"batches": self.batches},
        ).scalars()
        assert set(ended) <= {"staged", "approved", "rejected", "completed", "partially_failed"}


@pytest.fixture(scope="module")
def own_database(addresses: Addresses, worker_number: int) -> Iterator[Database]:
    """A database of its own: the machine commits, and counts all there is."""
    name = f"payouts_{worker_number}"
    database = Database(create_database(addresses, name), pool_size=5, application_name="tests")
    yield database
    database.close()
    drop_database(addresses, name)


def test_whatever_happens_the_books_are_what_the_gateway_says(own_database: Database) -> None:
    LifeOfPayouts.database = own_database
    run_state_machine_as_test(
        LifeOfPayouts,
        settings=hypothesis_settings(max_examples=30, stateful_step_count=40),
    )
