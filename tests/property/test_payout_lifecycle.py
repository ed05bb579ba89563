"""Random steps of vendors, officers, crashing workers and a faulty gateway: the ledger matches the gateway.

In the end the gateway balance matches the ledger, and each vendor has been paid or still has the earned balance.
Each reference stands for at most a single transfer. No transfer goes to a payee on hold or to a replaced account.
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
from tests.support.payouts import (
    OWED_MINOR,
    Payee,
    credit_balance,
    intents_in,
    make_account,
    make_payees,
    payable_balance_of,
    record_vendor_debt,
)
from tests.support.purchases import NOW, assert_ledger_is_consistent

PICK = st.integers(0, 10**6)
VENDORS = 3
FAULTS = ("", "", "", "down", "lost", "short", "unwilling", "closed")
CRASHES = ("", "", "after the lease", "before recording")
# Sequences of statuses that a transfer goes through at the gateway.
FATES = ((), ("success",), ("success",), ("failed",), ("reversed",), ("success", "reversed"))


class PayoutLifecycle(RuleBasedStateMachine):
    """State machine of three vendors, three officers and a gateway."""

    database: Database

    def __init__(self) -> None:
        super().__init__()
        self.now = NOW
        self.gateway = InMemoryTransfers()
        self.batches: list[UUID] = []
        self.inbox: list[UUID] = []

    @initialize()
    def create_people(self) -> None:
        """Create vendors and officers and exclude payouts of other tests from polling."""
        with self.database.transaction() as session:
            session.execute(text("UPDATE payout_transfers SET ask_at = NULL"))
            self.payees: list[Payee] = make_payees(session, VENDORS)
            self.owed = dict.fromkeys(range(VENDORS), OWED_MINOR)
            self.clawed_back = dict.fromkeys(range(VENDORS), 0)
            self.officers = [make_officer(session) for _ in range(3)]
            self.minimum = int(fetch_platform_settings(session)["minimum_payout_minor"])
            held = fetch_balances_by_kind(session).get("gateway_clearing", 0)
            self.clearing_before = held - sum(self.owed.values())
            self.update_payable_accounts(session)

    def attempt(self, work: Callable[..., Any], **given: Any) -> Any:
        """Run an operation that may be refused in a separate transaction. Some errors keep changes."""
        with suppress(MarketplaceError), self.database.transaction() as session:
            try:
                return work(session, **(given if "act" in given else given | {"now": self.now}))
            except MarketplaceError as error:
                if not error.keeps_changes:
                    raise
        return None

    @rule(index=st.integers(0, VENDORS - 1), minor=st.integers(50_000, 900_000))
    def release(self, index: int, minor: int) -> None:
        """Credit a vendor, like the release of an order."""
        with self.database.transaction() as session:
            credit_balance(session, self.payees[index], minor)
        self.owed[index] += minor

    @rule(index=st.integers(0, VENDORS - 1), minor=st.integers(1, 300_000))
    def claw_back(self, index: int, minor: int) -> None:
        """Add vendor debt, like a refund after release."""
        with self.database.transaction() as session:
            record_vendor_debt(session, self.payees[index], minor)
        self.clawed_back[index] += minor

    @rule(index=st.integers(0, VENDORS - 1), minor=st.integers(100_000, 400_000))
    def withdraw(self, index: int, minor: int) -> None:
        """Request a withdrawal as a vendor."""
        payee = self.payees[index]
        request = PayoutRequest(accounting.Payee(payee.user.id, payee.store_id), payee.account_id, minor)
        self.attempt(
            accounting.reserve_payouts,
            requests=[request],
            batch_id=None,
            minimum_minor=self.minimum,
            requested_by_payee=True,
        )

    @rule(index=st.integers(0, VENDORS - 1))
    def replace_account(self, index: int) -> None:
        """Replace the bank account of a vendor."""
        with self.database.transaction() as session:
            make_account(session, self.payees[index].user.id)
            self.update_payable_accounts(session)

    @rule(index=st.integers(0, VENDORS - 1), status=st.sampled_from(("suspended", "active", "active")))
    def set_store_status(self, index: int, status: str) -> None:
        """Suspend or reactivate a store."""
        self._set_status([self.payees[index]], status)

    def _set_status(self, payees: Sequence[Payee], status: str) -> None:
        with self.database.transaction() as session:
            session.execute(
                text("UPDATE vendor_profiles SET status = :status WHERE id = ANY(:ids)"),
                {"status": status, "ids": [payee.store_id for payee in payees]},
            )
            self.update_payable_accounts(session)

    def update_payable_accounts(self, session: Session) -> None:
        """Update the gateway's list of payable accounts."""
        payable = session.scalars(
            select(PayoutAccount)
            .join(VendorProfile, VendorProfile.user_id == PayoutAccount.user_id)
            .where(
                PayoutAccount.replaced_at.is_(None),
                VendorProfile.status == "active",
                PayoutAccount.user_id.in_([payee.user.id for payee in self.payees]),
            )
        )
        # An account with a permanently refused code is registered as a new recipient.
        self.gateway.recipients = {
            code
            for account in payable
            for code in (account.recipient_code, f"RCP_{account.account_number}")
            if code is not None
        }

    @rule(by_hand=st.booleans(), further=st.sampled_from((0, 1, 2, *[3] * 6)))
    def stage(self, by_hand: bool, further: int) -> None:
        """Stage a batch and move the batch further, so that most batches are dispatched."""
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

    @rule(pick=PICK, index=st.integers(0, 2))
    def approve(self, pick: int, index: int) -> None:
        """Approve a batch as an officer."""
        if self.batches:
            officer = self.officers[index]
            self.attempt(
                decisions.approve_batch,
                batch_id=self.batches[pick % len(self.batches)],
                act=act_of(officer, now=self.now),
            )

    @rule(pick=PICK)
    def reject(self, pick: int) -> None:
        """Reject a batch as an officer."""
        if self.batches:
            self.attempt(
                decisions.reject_batch,
                batch_id=self.batches[pick % len(self.batches)],
                act=act_of(self.officers[1], now=self.now),
                reason="It is not what was agreed upon.",
            )

    @rule(pick=PICK, which=PICK)
    def exclude_payment(self, pick: int, which: int) -> None:
        """Exclude a payment from a batch as an officer."""
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
        """Dispatch a batch as an officer."""
        if self.batches:
            self.attempt(
                dispatch.dispatch_batch,
                batch_id=self.batches[pick % len(self.batches)],
                act=act_of(self.officers[2], now=self.now),
            )

    @rule(
        pick=PICK,
        fault=st.sampled_from(FAULTS),
        crash=st.sampled_from(CRASHES),
        fates=st.lists(st.sampled_from(FATES), min_size=VENDORS, max_size=VENDORS),
    )
    def send(self, pick: int, fault: str, crash: str, fates: list[tuple[str, ...]]) -> None:
        """Send the next payouts of a batch as a worker that may die. The transfers get the drawn statuses."""
        if not self.batches:
            return
        before = set(self.gateway.transfers)
        self.gateway.fault = fault
        with self.database.reading() as session:
            found = submit.lease_payouts(
                session, batch_id=self.batches[pick % len(self.batches)], now=self.now
            )
        if crash != "after the lease":
            answers = submit.submit_payouts(self.gateway, found.claimed)
            if crash != "before recording":
                self.database.in_transaction(
                    submit.record_submission, found=found, answers=answers, now=self.now
                )
        self.gateway.fault = ""
        made = [data for reference, data in self.gateway.transfers.items() if reference not in before]
        for data, fate in zip(made, fates, strict=False):
            for status in fate:
                self.gateway.decide(data, status)

    @rule(pick=PICK, index=st.integers(0, VENDORS - 1), moves=st.booleans())
    def lose_payouts(self, pick: int, index: int, moves: bool) -> None:
        """Lose payouts of a dying worker, change or suspend the vendor, then let the sweep find the payouts."""
        self.send(pick, "", "after the lease", [])
        if moves:
            self.replace_account(index)
        else:
            self.set_store_status(index, "suspended")
        self.sweep(1, "")

    @rule(pick=PICK, status=st.sampled_from(("success", "failed", "reversed")))
    def decide(self, pick: int, status: str) -> None:
        """Set the status of a transfer at the gateway."""
        made = list(self.gateway.transfers.values())
        if made:
            self.gateway.decide(made[pick % len(made)], status)

    @rule(picks=st.lists(PICK, min_size=1, max_size=2 * VENDORS))
    def deliver(self, picks: list[int]) -> None:
        """Deliver events in any order, possibly more than once."""
        for pick in picks:
            if self.gateway.events:
                self._deliver(self.gateway.events[pick % len(self.gateway.events)])

    @rule(hours=st.sampled_from((1, 6, 24, 48)), fault=st.sampled_from(("", "", "down", "lost")))
    def sweep(self, hours: int, fault: str) -> None:
        """Advance the clock and poll the transfers."""
        self.now += timedelta(hours=hours)
        self.gateway.fault = fault
        polling.poll_transfers(self.database, self.gateway, now=self.now)
        self.gateway.fault = ""

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
        """Bring all payouts to a final state and compare the ledger with the gateway."""
        if not hasattr(self, "payees"):
            return
        self._set_status(self.payees, "active")
        for attempts in (0, 0, 0, len(polling.POLL_DELAYS) - 1):
            for batch_id in self.batches:
                with self.database.reading() as session:
                    found = submit.lease_payouts(session, batch_id=batch_id, now=self.now)
                answers = submit.submit_payouts(self.gateway, found.claimed)
                self.database.in_transaction(
                    submit.record_submission, found=found, answers=answers, now=self.now
                )
            for data in list(self.gateway.transfers.values()):
                self.gateway.decide(data, "success")
            for body in list(self.gateway.events):
                self._deliver(body)
            self._poll_all(attempts)
        self._void_unsent_payouts()
        self.database.in_transaction(self.check)

    def _void_unsent_payouts(self) -> None:
        """Void payouts that never reached the gateway because the payee's bank account was replaced."""
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

    def _poll_all(self, attempts: int) -> None:
        """Poll all open transfers after the given number of earlier attempts."""
        with self.database.transaction() as session:
            session.execute(
                text(
                    "UPDATE payout_transfers t SET attempts = :attempts, ask_at = :now FROM payout_transfer_intents i"
                    " WHERE i.id = t.intent_id AND t.sent_at IS NOT NULL"
                    " AND i.status IN ('pending', 'submitted', 'unknown') AND i.batch_id = ANY(:batches)"
                ),
                {"attempts": attempts, "now": self.now, "batches": self.batches},
            )
        polling.poll_transfers(self.database, self.gateway, now=self.now)

    def check(self, session: Session) -> None:
        """Compare the ledger with the gateway and the earned amounts, and check that batches are final."""
        assert_ledger_is_consistent(session)
        assert self.gateway.wrong == []
        rows = session.execute(
            text(
                "SELECT i.vendor_id, i.status, i.amount_minor, t.reference FROM payout_transfer_intents i"
                " JOIN payout_transfers t ON t.intent_id = i.id WHERE i.batch_id = ANY(:batches)"
            ),
            {"batches": self.batches},
        ).all()
        known = {data["reference"]: data["status"] for data in self.gateway.transfers.values()}
        for row in rows:
            assert row.status == known.get(row.reference, "failed"), row
        paid = {payee.store_id: 0 for payee in self.payees}
        for row in rows:
            if row.status == "success":
                paid[row.vendor_id] += row.amount_minor
        for index, payee in enumerate(self.payees):
            assert paid[payee.store_id] <= self.owed[index]
            earned_minor = self.owed[index] - self.clawed_back[index]
            assert paid[payee.store_id] + self.unpaid_balance_of(session, payee) == earned_minor
        assert sum(paid.values()) == self.gateway.left_minor
        clearing = fetch_balances_by_kind(session)["gateway_clearing"] - self.clearing_before
        earned_minor = sum(self.owed.values()) - sum(self.clawed_back.values())
        assert clearing == earned_minor - self.gateway.left_minor
        ended = session.execute(
            text("SELECT DISTINCT status FROM payout_batches WHERE id = ANY(:batches)"),
            {"batches": self.batches},
        ).scalars()
        assert set(ended) <= {"staged", "approved", "rejected", "completed", "partially_failed"}

    def unpaid_balance_of(self, session: Session, payee: Payee) -> int:
        """Return the vendor's balance minus debt plus pending payouts in kobo."""
        assert payee.store_id is not None
        waiting = session.execute(
            text(
                "SELECT coalesce(sum(amount_minor), 0)::bigint FROM payout_transfer_intents"
                " WHERE vendor_id = :id AND status = 'pending'"
            ),
            {"id": payee.store_id},
        ).scalar_one()
        owing = fetch_balance(session, account=accounts.vendor_receivable(payee.store_id))
        return payable_balance_of(session, payee) - owing + int(waiting)


def test_ledger_matches_the_gateway_after_random_payout_steps(own_database: Database) -> None:
    PayoutLifecycle.database = own_database
    run_state_machine_as_test(
        PayoutLifecycle,
        settings=hypothesis_settings(max_examples=case_count(12, deep=200), stateful_step_count=30),
    )
