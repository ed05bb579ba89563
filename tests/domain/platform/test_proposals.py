"""Proposals of platform changes: filed and approved by two officers, applied when due."""

from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from sqlalchemy import text
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from marketplace.infra.db import Database
from marketplace.kernel.clock import iso
from marketplace.kernel.errors import ForbiddenError, NotFoundError, ValidationError
from marketplace.kernel.states import IllegalTransitionError
from marketplace.orders.pricing import Fees, OrderLine, price_order
from marketplace.platform import halts
from marketplace.proposals import operations, queries, states
from marketplace.proposals.operations import DueProposalsResult, ProposalExpiredError, StaleProposalError
from tests.support.finance import audit_entries_of, notification_types_of
from tests.support.proposals import (
    FEE,
    REASON,
    approve,
    make_admin,
    proposal_row,
    proposals_filed,
    propose,
    reject,
    setting,
)
from tests.support.purchases import (
    COMMISSION_BPS,
    DELIVERY_FEE_MINOR,
    NOW,
    SERVICE_FEE_MINOR,
    Shop,
    later,
)

KEY = "service_fee_minor"


def status(session: Session, proposal_id: UUID) -> str:
    found: str = proposal_row(session, proposal_id)["status"]
    return found


class TestFiling:
    def test_filed_proposal_shows_change_and_effect(self, session: Session) -> None:
        proposal_id = propose(session)

        row = proposal_row(session, proposal_id)
        assert (row["status"], row["target"], row["reason"]) == ("pending", KEY, REASON)
        assert row["before"] == {"key": KEY, "value": SERVICE_FEE_MINOR}
        assert row["after"] == FEE
        assert row["expires_at"] == NOW + timedelta(days=7)
        assert setting(session, KEY) == SERVICE_FEE_MINOR

        sample = row["effect"]["sampleOrder"]
        fees = Fees(COMMISSION_BPS, SERVICE_FEE_MINOR, DELIVERY_FEE_MINOR)
        price = price_order([OrderLine(1_000_000, 1, COMMISSION_BPS)], fees=fees, is_delivery=True)
        assert sample["before"]["totalMinor"] == price.total_minor
        assert sample["before"]["commissionMinor"] == 50_000
        assert sample["before"]["vendorMinor"] == 1_000_000 - 50_000 + DELIVERY_FEE_MINOR
        rise = FEE["value"] - SERVICE_FEE_MINOR
        assert sample["after"]["totalMinor"] == price.total_minor + rise
        assert sample["after"]["platformMinor"] == sample["before"]["platformMinor"] + rise
        assert sample["after"]["vendorMinor"] == sample["before"]["vendorMinor"]

    @pytest.mark.parametrize(
        ("kind", "payload", "name"),
        [
            ("fee", {"key": KEY, "value": -1}, "payload.value"),
            ("fee", {"key": KEY, "value": 1_000_001}, "payload.value"),
            ("fee", {"key": "commission_bps", "value": 5_001}, "payload.value"),
            ("fee", {"key": "minimum_payout_minor", "value": 0}, "payload.value"),
            ("fee", {"key": "maintenance", "value": 1}, "payload.key"),
            ("fee", {"key": "feature:checkout", "value": 0}, "payload.key"),
            ("category_commission", {"category_id": uuid4(), "commission_bps": 100}, "payload.categoryId"),
            ("feature_flag", {"key": "no spaces", "enabled": True}, "payload.key"),
            ("feature_flag", {"key": "x", "enabled": True}, "payload.key"),
            ("maintenance", {"active": True, "until": NOW}, "payload.until"),
        ],
    )
    def test_invalid_proposal_is_refused_and_not_filed(
        self, session: Session, kind: str, payload: dict[str, Any], name: str
    ) -> None:
        before = proposals_filed(session)
        with pytest.raises(ValidationError) as refused:
            propose(session, kind, payload)
        assert [param.name for param in refused.value.invalid_params] == [name]
        assert proposals_filed(session) == before

    def test_category_commission_outside_bounds_is_refused(self, session: Session, shop: Shop) -> None:
        for bps in (-1, 5_001):
            with pytest.raises(ValidationError, match="commissionBps"):
                propose(
                    session,
                    "category_commission",
                    {"category_id": shop.category_id, "commission_bps": bps},
                )

    def test_proposals_of_minimum_and_maximum_values_are_accepted(self, session: Session, shop: Shop) -> None:
        before = proposals_filed(session)

        for value in (0, 1_000_000):
            propose(session, "fee", {"key": KEY, "value": value})
        for bps in (None, 0, 5_000):
            propose(session, "category_commission", {"category_id": shop.category_id, "commission_bps": bps})

        assert proposals_filed(session) == before + 5

    @pytest.mark.parametrize("days", [-1, 91])
    def test_proposal_starts_neither_in_the_past_nor_in_the_far_future(
        self, session: Session, days: int
    ) -> None:
        with pytest.raises(ValidationError, match="effectiveAt"):
            propose(session, effective_at=NOW + timedelta(days=days))

    def test_maintenance_that_ends_before_start_is_refused(self, session: Session) -> None:
        payload = {"active": True, "until": later(hours=1)}
        with pytest.raises(ValidationError, match="until"):
            propose(session, "maintenance", payload, effective_at=later(hours=2))

    def test_other_officers_are_notified_of_filed_proposal(self, session: Session) -> None:
        proposer, other = make_admin(session), make_admin(session)
        propose(session, by=proposer)
        assert notification_types_of(session, other.id) == ["proposal_filed"]
        assert notification_types_of(session, proposer.id) == []


class TestDeciding:
    def test_approval_by_another_officer_activates_proposal(self, session: Session) -> None:
        proposer, other = make_admin(session), make_admin(session)
        proposal_id = propose(session, by=proposer)

        approve(session, proposal_id, by=other, now=later(hours=1))

        row = proposal_row(session, proposal_id)
        assert (row["status"], row["approved_by"]) == ("active", other.id)
        assert row["approved_at"] == row["activated_at"] == later(hours=1)
        assert setting(session, KEY) == FEE["value"]
        assert notification_types_of(session, proposer.id) == ["proposal_active"]

    def test_each_step_is_audited_with_change(self, session: Session) -> None:
        proposal_id = propose(session)
        approve(session, proposal_id)

        steps = audit_entries_of(session, proposal_id)
        assert [action for action, _, _ in steps] == [
            "proposal.file",
            "proposal.approve",
            "proposal.activate",
        ]
        _, before, after = steps[-1]
        assert before == {"status": "approved", "change": {"key": KEY, "value": SERVICE_FEE_MINOR}}
        assert after == {"status": "active", "change": FEE}

    def test_proposer_may_not_approve_own_proposal(self, session: Session) -> None:
        proposer = make_admin(session)
        proposal_id = propose(session, by=proposer)
        with pytest.raises(ForbiddenError):
            approve(session, proposal_id, by=proposer)
        assert status(session, proposal_id) == "pending"
        assert setting(session, KEY) == SERVICE_FEE_MINOR

    def test_database_refuses_approval_by_proposer(self, session: Session) -> None:
        proposal_id = propose(session)
        with pytest.raises(IntegrityError, match="four_eyes"), session.begin_nested():
            session.execute(
                text(
                    "UPDATE platform_proposals SET status = 'approved', approved_at = now(),"
                    " approved_by = proposed_by WHERE id = :id"
                ),
                {"id": proposal_id},
            )

    def test_decided_proposal_may_not_be_decided_again(self, session: Session) -> None:
        approved, rejected = propose(session), propose(session, "fee", FEE | {"value": 1})
        approve(session, approved)
        reject(session, rejected)
        for proposal_id in (approved, rejected):
            for decide in (approve, reject):
                with pytest.raises(IllegalTransitionError):
                    decide(session, proposal_id)
        assert setting(session, KEY) == FEE["value"]

    def test_decision_on_missing_proposal_is_refused(self, session: Session) -> None:
        for decide in (approve, reject):
            with pytest.raises(NotFoundError):
                decide(session, uuid4())

    def test_rejected_proposal_changes_nothing(self, session: Session) -> None:
        proposer = make_admin(session)
        proposal_id = propose(session, by=proposer)
        reject(session, proposal_id)

        row = proposal_row(session, proposal_id)
        assert (row["status"], row["rejection_reason"]) == ("rejected", "Not now.")
        assert setting(session, KEY) == SERVICE_FEE_MINOR
        assert notification_types_of(session, proposer.id) == ["proposal_rejected"]
        assert [action for action, _, _ in audit_entries_of(session, proposal_id)][-1] == "proposal.reject"

    def test_proposer_may_withdraw_own_proposal(self, session: Session) -> None:
        proposer = make_admin(session)
        proposal_id = propose(session, by=proposer)
        reject(session, proposal_id, by=proposer)
        assert status(session, proposal_id) == "rejected"

    def test_proposal_with_outdated_value_may_not_be_approved(self, session: Session) -> None:
        first, second = propose(session), propose(session, "fee", FEE | {"value": 30_000})
        approve(session, first)
        with pytest.raises(StaleProposalError):
            approve(session, second)
        assert setting(session, KEY) == FEE["value"]

    def test_approval_after_seven_days_expires_proposal(self, session: Session) -> None:
        in_time, too_late = propose(session), propose(session, "fee", FEE | {"key": "delivery_fee_minor"})
        approve(session, in_time, now=NOW + timedelta(days=7) - timedelta(seconds=1))
        with pytest.raises(ProposalExpiredError):
            approve(session, too_late, now=NOW + timedelta(days=7))
        assert status(session, in_time) == "active"
        assert status(session, too_late) == "expired"
        assert [action for action, _, _ in audit_entries_of(session, too_late)][-1] == "proposal.expire"


class TestReading:
    def test_open_proposal_is_shown_with_current_values(self, session: Session) -> None:
        proposer, other = make_admin(session), make_admin(session)
        proposal_id = propose(session, by=proposer)
        approve(session, propose(session, "fee", {"key": "delivery_fee_minor", "value": 60_000}))

        shown = queries.show_proposal(session, proposal_id=proposal_id, caller=other, now=NOW)
        assert shown.current == {"key": KEY, "value": SERVICE_FEE_MINOR}
        assert shown.effect["sampleOrder"]["after"]["deliveryFeeMinor"] == 60_000
        assert shown.next_actions == ["approve", "reject"]
        own = queries.show_proposal(session, proposal_id=proposal_id, caller=proposer, now=NOW)
        assert own.next_actions == ["reject"]

    def test_final_proposal_is_shown_unchanged(self, session: Session) -> None:
        proposal_id = propose(session)
        approve(session, proposal_id)
        shown = queries.show_proposal(session, proposal_id=proposal_id, caller=make_admin(session), now=NOW)
        assert (shown.status, shown.current, shown.next_actions) == ("active", None, [])


class TestSchedule:
    @pytest.fixture
    def database(self, committed_database: Database) -> Database:
        return committed_database

    @pytest.fixture(autouse=True)
    def _restore_platform(self, database: Database) -> Any:
        """Restore platform settings after each test, because these tests commit changes."""
        with database.reading() as session:
            fee = setting(session, KEY)
        yield
        with database.transaction() as session:
            session.execute(text("DELETE FROM payout_halts"))
            # Other modules commit adjustments to this database, which belong to their ledger transactions.
            session.execute(text("DELETE FROM platform_proposals WHERE kind <> 'wallet_adjustment'"))
            session.execute(
                text("UPDATE platform_settings SET value = to_jsonb(CAST(:fee AS bigint)) WHERE key = :key"),
                {"fee": fee, "key": KEY},
            )

    def file(self, database: Database, value: int, hours: int) -> UUID:
        """File and approve a fee proposal that takes effect after some hours."""
        payload = {"key": KEY, "value": value}

        def work(session: Session) -> UUID:
            proposal_id = propose(session, "fee", payload, effective_at=later(hours=hours))
            approve(session, proposal_id)
            return proposal_id

        return database.in_transaction(work)

    def test_approved_proposal_takes_effect_when_due(self, database: Database) -> None:
        proposal_id = self.file(database, 15_000, hours=2)

        assert operations.apply_due_proposals(database, now=later(hours=1)) == DueProposalsResult(0, 0, 0)
        with database.reading() as session:
            assert (status(session, proposal_id), setting(session, KEY)) == ("approved", SERVICE_FEE_MINOR)
        assert operations.apply_due_proposals(database, now=later(hours=2)) == DueProposalsResult(1, 0, 0)
        assert operations.apply_due_proposals(database, now=later(hours=3)) == DueProposalsResult(0, 0, 0)
        with database.reading() as session:
            row = proposal_row(session, proposal_id)
            assert (row["status"], row["activated_at"]) == ("active", later(hours=2))
            assert setting(session, KEY) == 15_000
            assert audit_entries_of(session, proposal_id)[-1][0] == "proposal.activate"

    def test_due_proposal_takes_effect_on_approval(self, database: Database) -> None:
        with database.transaction() as session:
            proposal_id = propose(session, effective_at=later(hours=1))
            approve(session, proposal_id, now=later(hours=2))
            assert status(session, proposal_id) == "active"

    def test_outdated_proposal_is_rejected_and_both_officers_notified(self, database: Database) -> None:
        proposal_id = self.file(database, 15_000, hours=2)
        with database.transaction() as session:
            approve(session, propose(session, "fee", {"key": KEY, "value": 12_000}))

        assert operations.apply_due_proposals(database, now=later(hours=2)) == DueProposalsResult(0, 1, 0)
        with database.reading() as session:
            row = proposal_row(session, proposal_id)
            assert (row["status"], row["rejected_by"]) == ("rejected", None)
            assert setting(session, KEY) == 12_000
            for officer_id in (row["proposed_by"], row["approved_by"]):
                assert notification_types_of(session, officer_id)[-1] == "proposal_rejected"

    def test_failing_proposal_does_not_block_others(self, database: Database) -> None:
        """The first proposal has an empty payload, as after a faulty migration."""
        stuck, overdue = self.file(database, 15_000, hours=1), database.in_transaction(propose)
        behind = self.file(database, 16_000, hours=2)
        lapsed = database.in_transaction(propose)
        with database.transaction() as session:
            session.execute(
                text("UPDATE platform_proposals SET payload = '{}', expires_at = :at WHERE id = :id"),
                {"id": stuck, "at": later(days=7)},
            )

        result = operations.apply_due_proposals(database, now=later(days=7))
        # Adjustments of other modules can expire too.
        assert (result, result.expired >= 2) == (DueProposalsResult(1, 0, result.expired), True)

        with database.reading() as session:
            found = [status(session, one) for one in (stuck, behind, overdue, lapsed)]
        assert found == ["approved", "active", "expired", "expired"]

    def test_approved_resume_is_rejected_after_new_drift(self, database: Database) -> None:
        def work(session: Session) -> UUID:
            halts.halt_payouts(session, "ESCROW_DRIFT: a rule", NOW, finding="one")
            payload = {"reason": "Mended."}
            proposal_id = propose(session, "payout_resume", payload, effective_at=later(hours=1))
            approve(session, proposal_id)
            return proposal_id

        proposal_id = database.in_transaction(work)
        database.in_transaction(halts.halt_payouts, "ESCROW_DRIFT: another", NOW, finding="two")

        assert operations.apply_due_proposals(database, now=later(hours=1)) == DueProposalsResult(0, 1, 0)
        with database.reading() as session:
            row = proposal_row(session, proposal_id)
            assert (row["status"], row["rejected_by"]) == ("rejected", None)
            assert halts.are_payouts_halted(session)
            for officer_id in (row["proposed_by"], row["approved_by"]):
                assert notification_types_of(session, officer_id)[-1] == "proposal_rejected"

    def test_approved_proposal_can_be_withdrawn_before_due_time(self, database: Database) -> None:
        proposal_id = self.file(database, 15_000, hours=2)
        database.in_transaction(reject, proposal_id)
        assert operations.apply_due_proposals(database, now=later(hours=2)) == DueProposalsResult(0, 0, 0)
        with database.reading() as session:
            assert setting(session, KEY) == SERVICE_FEE_MINOR

    def test_unapproved_proposal_expires_after_seven_days(self, database: Database) -> None:
        # Other tests leave proposals with the same deadline.
        operations.apply_due_proposals(database, now=NOW + timedelta(days=7))
        proposal_id = database.in_transaction(propose)
        just_before = NOW + timedelta(days=7) - timedelta(microseconds=1)

        assert operations.apply_due_proposals(database, now=just_before) == DueProposalsResult(0, 0, 0)
        assert operations.apply_due_proposals(database, now=NOW + timedelta(days=7)) == DueProposalsResult(
            0, 0, 1
        )
        with database.reading() as session:
            row = proposal_row(session, proposal_id)
            assert (row["status"], iso(row["expired_at"])) == (states.EXPIRED, iso(NOW + timedelta(days=7)))
