"""Hypothesis plays vendors, officers, workers that die, and a gateway that loses answers, fails and reverses.

In the end what left the gateway is what the books say, each vendor has been paid or has in the books what they earned,
no reference was ever more than one transfer, and none began while its payee was on hold or to an account of before.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any
from uuid import UUID

from hypothesis import settings as hypothesis_settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test
from sqlalchemy import select, text
from sqlalchemy.orm import Session

from marketplace.audit.operations import Act
from marketplace.infra.db import Database
from marketplace.kernel.errors import MarketplaceError
from marketplace.ledger import accounts
from marketplace.ledger.queries import fetch_balance, fetch_balances_by_kind
from marketplace.payouts import accounting
from marketplace.payouts.accounting import PayoutRequest
from marketplace.payouts.batches import decisions, staging
from marketplace.payouts.models import PayoutAccount
from marketplace.payouts.transfers import dispatch, polling, submit
from marketplace.payouts.transfers.void import void_payout
from marketplace.platform.queries import fetch_platform_settings
from marketplace.vendors.models import VendorProfile
from marketplace.webhooks import inbox as webhooks
from tests.support.depth import case_count
from tests.support.finance import act_of, make_officer
from tests.support.in_memory_transfers import InMemoryTransfers
from tests.support.payouts import OWED_MINOR, Payee, intents_in, make_account, make_payees, owe, owed, owes
from tests.support.purchases import NOW, assert_books_are_whole

PICK = st.integers(0, 10**6)
VENDORS = 3
FAULTS = ("", "", "", "down", "lost", "short", "unwilling", "closed")
DEATHS = ("", "", "after the claim", "before the note")
# What becomes of a transfer by and by, in the gateway's words.
FATES = ((), ("success",), ("success",), ("failed",), ("reversed",), ("success", "reversed"))


class LifeOfPayouts(RuleBasedStateMachine):
    """Three vendors, two officers and a third who sends, one gateway."""

    database: Database

    def __init__(self) -> None:
        super().__init__()
        self.now = NOW
        self.till = InMemoryTransfers()
        self.batches: list[UUID] = []
        self.inbox: list[UUID] = []

    @initialize()
    def begin(self) -> None:
        """Make everybody, on a database that others' payouts are out of the way of."""
        with self.database.transaction() as session:
            session.execute(text("UPDATE payout_transfers SET ask_at = NULL"))
            self.payees: list[Payee] = make_payees(session, VENDORS)
            self.owed = dict.fromkeys(range(VENDORS), OWED_MINOR)
            self.clawed_back = dict.fromkeys(range(VENDORS), 0)
            self.officers = [make_officer(session) for _ in range(3)]
            self.minimum = int(fetch_platform_settings(session)["minimum_payout_minor"])
            held = fetch_balances_by_kind(session).get("gateway_clearing", 0)
            self.clearing_before = held - sum(self.owed.values())
            self.look_at_accounts(session)

    def attempt(self, work: Callable[..., Any], **given: Any) -> Any:
        """Try what may be refused, in a transaction of its own; a refusal may have changes to keep."""
        with suppress(MarketplaceError), self.database.transaction() as session:
            try:
                return work(session, **(given if "act" in given else given | {"now": self.now}))
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

    @rule(who=st.integers(0, VENDORS - 1), minor=st.integers(1, 300_000))
    def claw_back(self, who: int, minor: int) -> None:
        """Have a vendor owe us, as a refund after the release does."""
        with self.database.transaction() as session:
            owes(session, self.payees[who], minor)
        self.clawed_back[who] += minor

    @rule(who=st.integers(0, VENDORS - 1), minor=st.integers(100_000, 400_000))
    def withdraw(self, who: int, minor: int) -> None:
        """Have a vendor ask for something."""
        payee = self.payees[who]
        wish = PayoutRequest(accounting.Payee(payee.user.id, payee.store_id), payee.account_id, minor)
        self.attempt(
            accounting.reserve_payouts,
            requests=[wish],
            batch_id=None,
            minimum_minor=self.minimum,
            requested_by_payee=True,
        )

    @rule(who=st.integers(0, VENDORS - 1))
    def move_account(self, who: int) -> None:
        """Have a vendor give another bank account, a while ago."""
        with self.database.transaction() as session:
            make_account(session, self.payees[who].user.id)
            self.look_at_accounts(session)

    @rule(who=st.integers(0, VENDORS - 1), status=st.sampled_from(("suspended", "active", "active")))
    def look_into(self, who: int, status: str) -> None:
        """Suspend a store, or have done with that."""
        self._set_status([self.payees[who]], status)

    def _set_status(self, payees: Sequence[Payee], status: str) -> None:
        with self.database.transaction() as session:
            session.execute(
                text("UPDATE vendor_profiles SET status = :status WHERE id = ANY(:ids)"),
                {"status": status, "ids": [payee.store_id for payee in payees]},
            )
            self.look_at_accounts(session)

    def look_at_accounts(self, session: Session) -> None:
        """Tell the gateway which accounts may be paid to."""
        payable = session.scalars(
            select(PayoutAccount)
            .join(VendorProfile, VendorProfile.user_id == PayoutAccount.user_id)
            .where(
                PayoutAccount.replaced_at.is_(None),
                VendorProfile.status == "active",
                PayoutAccount.user_id.in_([payee.user.id for payee in self.payees]),
            )
        )
        # An account whose code was refused for good becomes a recipient anew.
        self.till.recipients = {
            code
            for account in payable
            for code in (account.recipient_code, f"RCP_{account.account_number}")
            if code is not None
        }

    @rule(by_hand=st.booleans(), further=st.sampled_from((0, 1, 2, *[3] * 6)))
    def stage(self, by_hand: bool, further: int) -> None:
        """Stage what can be paid, and go on with it as far as it may go: most batches are sent in the end."""
        officer = self.officers[0] if by_hand else None
        done = self.attempt(
            staging.stage_batch,
            act=act_of(officer) if officer else Act("schedule", self.now),
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
                decisions.approve_batch,
                batch_id=self.batches[pick % len(self.batches)],
                act=act_of(officer, now=self.now),
            )

    @rule(pick=PICK)
    def reject(self, pick: int) -> None:
        """Have an officer reject a batch."""
        if self.batches:
            self.attempt(
                decisions.reject_batch,
                batch_id=self.batches[pick % len(self.batches)],
                act=act_of(self.officers[1], now=self.now),
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
                decisions.exclude_payments,
                batch_id=batch_id,
                payout_ids=[intents[which % len(intents)]["id"]],
                act=act_of(self.officers[0], now=self.now),
                reason="It is not what was agreed upon.",
            )

    @rule(pick=PICK)
    def dispatch(self, pick: int) -> None:
        """Have an officer dispatch a batch."""
        if self.batches:
            self.attempt(
                dispatch.dispatch_batch,
                batch_id=self.batches[pick % len(self.batches)],
                act=act_of(self.officers[2], now=self.now),
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
            found = submit.lease_payouts(
                session, batch_id=self.batches[pick % len(self.batches)], now=self.now
            )
        if death != "after the claim":
            answers = submit.submit_payouts(self.till, found.claimed)
            if death != "before the note":
                self.database.in_transaction(
                    submit.record_submission, found=found, answers=answers, now=self.now
                )
        self.till.fault = ""
        made = [data for reference, data in self.till.transfers.items() if reference not in before]
        for data, fate in zip(made, fates, strict=False):
            for status in fate:
                self.till.decide(data, status)

    @rule(pick=PICK, who=st.integers(0, VENDORS - 1), moves=st.booleans())
    def lose(self, pick: int, who: int, moves: bool) -> None:
        """Have a worker die before its call, something befall a vendor, and the sweep find what never arrived."""
        self.send(pick, "", "after the claim", [])
        if moves:
            self.move_account(who)
        else:
            self.look_into(who, "suspended")
        self.sweep(1, "")

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
        polling.poll_transfers(self.database, self.till, now=self.now)
        self.till.fault = ""

    def _deliver(self, body: bytes) -> None:
        inbox_id = self.database.in_transaction(
            webhooks.receive_event, provider="gateway", body=body, now=self.now
        )
        done = webhooks.process_event(
            self.database, inbox_id=inbox_id, fee_bearer="platform", now=self.now, random=lambda: 0.5
        )
        assert done is not None
        assert done.status in ("processed", "duplicate")

    def teardown(self) -> None:
        """Have all come to an end, and compare the books with the gateway."""
        if not hasattr(self, "payees"):
            return
        self._set_status(self.payees, "active")
        for attempts in (0, 0, 0, len(polling.POLL_DELAYS) - 1):
            for batch_id in self.batches:
                with self.database.reading() as session:
                    found = submit.lease_payouts(session, batch_id=batch_id, now=self.now)
                answers = submit.submit_payouts(self.till, found.claimed)
                self.database.in_transaction(
                    submit.record_submission, found=found, answers=answers, now=self.now
                )
            for data in list(self.till.transfers.values()):
                self.till.decide(data, "success")
            for body in list(self.till.events):
                self._deliver(body)
            self._ask_about_all(attempts)
        self._give_up_what_waits()
        self.database.in_transaction(self.check)

    def _give_up_what_waits(self) -> None:
        """Have an officer give up what never arrived, its payee having another bank account since it was approved."""
        with self.database.transaction() as session:
            waiting = session.execute(
                text(
                    "SELECT i.id FROM payout_transfer_intents i JOIN payout_transfers t ON t.intent_id = i.id"
                    " JOIN payout_accounts a ON a.id = i.account_id AND a.replaced_at IS NOT NULL"
                    " WHERE (i.status = 'pending' AND t.sent_at IS NULL OR i.status = 'unknown')"
                    " AND i.batch_id = ANY(:batches)"
                ),
                {"batches": self.batches},
            ).scalars()
            for payout_id in list(waiting):
                void_payout(
                    session,
                    payout_id=payout_id,
                    note="Another account",
                    act=act_of(self.officers[0], now=self.now),
                )

    def _ask_about_all(self, attempts: int) -> None:
        """Have all be asked about that is open, and was asked about so often, so that all is known in the end."""
        with self.database.transaction() as session:
            session.execute(
                text(
                    "UPDATE payout_transfers t SET attempts = :attempts, ask_at = :now FROM payout_transfer_intents i"
                    " WHERE i.id = t.intent_id AND t.sent_at IS NOT NULL"
                    " AND i.status IN ('pending', 'submitted', 'unknown') AND i.batch_id = ANY(:batches)"
                ),
                {"attempts": attempts, "now": self.now, "batches": self.batches},
            )
        polling.poll_transfers(self.database, self.till, now=self.now)

    def check(self, session: Session) -> None:
        """Hold the books to the gateway, each vendor to what they were owed, and each batch to its end."""
        assert_books_are_whole(session)
        assert self.till.wrong == []
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
        for who, payee in enumerate(self.payees):
            assert paid[payee.store_id] <= self.owed[who]
            earned_minor = self.owed[who] - self.clawed_back[who]
            assert paid[payee.store_id] + self.kept_of(session, payee) == earned_minor
        assert sum(paid.values()) == self.till.left_minor
        clearing = fetch_balances_by_kind(session)["gateway_clearing"] - self.clearing_before
        earned_minor = sum(self.owed.values()) - sum(self.clawed_back.values())
        assert clearing == earned_minor - self.till.left_minor
        ended = session.execute(
            text("SELECT DISTINCT status FROM payout_batches WHERE id = ANY(:batches)"),
            {"batches": self.batches},
        ).scalars()
        assert set(ended) <= {"staged", "approved", "rejected", "completed", "partially_failed"}

    def kept_of(self, session: Session, payee: Payee) -> int:
        """Give what a vendor has in the books: the balance, less what they owe, and what waits to be paid."""
        assert payee.store_id is not None
        waiting = session.execute(
            text(
                "SELECT coalesce(sum(amount_minor), 0)::bigint FROM payout_transfer_intents"
                " WHERE vendor_id = :id AND status = 'pending'"
            ),
            {"id": payee.store_id},
        ).scalar_one()
        owing = fetch_balance(session, account=accounts.vendor_receivable(payee.store_id))
        return owed(session, payee) - owing + int(waiting)


def test_ledger_matches_the_gateway_after_random_payout_steps(own_database: Database) -> None:
    LifeOfPayouts.database = own_database
    run_state_machine_as_test(
        LifeOfPayouts,
        settings=hypothesis_settings(max_examples=case_count(12, deep=200), stateful_step_count=30),
    )
