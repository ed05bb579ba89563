"""Due times of disputes: reminders, missed responses and alerts; and chargebacks that open or join a dispute."""

from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import select, update

from marketplace.alerts.models import Alert
from marketplace.disputes import due_times, rulings
from marketplace.disputes.cases import FINDING_TIME, RESPONSE_TIME, RULING_TIME
from marketplace.disputes.chargebacks import join_chargebacks
from marketplace.disputes.evidence.files import EVIDENCE_TIME
from marketplace.disputes.models import Dispute, DisputeAppeal, DisputeReturn
from marketplace.infra.outbox import OutboxEvent
from marketplace.payments.chargebacks.intake import ORDER_CHARGED_BACK_TOPIC
from tests.support.dispute_parties import DESCRIPTION, DISPUTES, Parties
from tests.support.finance import charge_of, dispute_charge
from tests.support.probes import assert_problem
from tests.support.purchases import NOW, row_of

WON, LOST = "declined", "merchant-accepted"
HOUR = timedelta(hours=1)
NEVER = NOW + timedelta(days=9999)


def shown(parties: Parties, dispute_id: str) -> Any:
    return parties.http.get(f"{DISPUTES}/{dispute_id}", parties.officer).json["data"]


def events(parties: Parties, dispute_id: str) -> list[str]:
    return [entry["event"] for entry in shown(parties, dispute_id)["timeline"]]


class TestResponseTime:
    def test_silent_side_is_reminded_once_and_then_recorded_as_silent(self, parties: Parties) -> None:
        dispute_id = parties.opened(parties.http.shipped())
        vendor = parties.shop.vendor.id
        due_times.keep_due_times(parties.database, now=NOW + RESPONSE_TIME - 13 * HOUR)
        assert "Your response is due" not in parties.notified(vendor)
        for _ in range(2):
            due_times.keep_due_times(parties.database, now=NOW + RESPONSE_TIME - 12 * HOUR)
        assert parties.notified(vendor).count("Your response is due") == 1
        assert shown(parties, dispute_id)["responseMissedAt"] is None

        for _ in range(2):
            due_times.keep_due_times(parties.database, now=NOW + RESPONSE_TIME)
        dispute = shown(parties, dispute_id)
        assert (dispute["status"], dispute["responseMissedAt"] is not None) == ("under_review", True)
        assert [entry["note"] for entry in dispute["timeline"] if entry["event"] == "response_missed"] == [
            "vendor"
        ]
        for person in (vendor, parties.shop.buyer.id):
            assert parties.notified(person).count("The time for the response is over") == 1

    def test_response_in_time_is_not_missed(self, parties: Parties) -> None:
        dispute_id = parties.opened(parties.http.shipped())
        parties.act(dispute_id, "response", parties.vendor, {"response": DESCRIPTION})
        due_times.keep_due_times(parties.database, now=NOW + RESPONSE_TIME)
        assert shown(parties, dispute_id)["responseMissedAt"] is None

    def test_both_sides_are_reminded_before_evidence_is_sealed(self, parties: Parties) -> None:
        dispute_id = parties.opened(parties.http.shipped())
        for _ in range(2):
            due_times.keep_due_times(parties.database, now=NOW + EVIDENCE_TIME - HOUR)
        for person in (parties.shop.vendor.id, parties.shop.buyer.id):
            assert parties.notified(person).count("Evidence is sealed soon") == 1
        ended = parties.opened(parties.http.shipped())
        parties.rule(ended, "release_vendor")
        due_times.keep_due_times(parties.database, now=NOW + EVIDENCE_TIME - HOUR)
        assert parties.notified(parties.shop.buyer.id).count("Evidence is sealed soon") == 1
        assert shown(parties, dispute_id)["status"] == "under_review"


class TestAlerts:
    def alerted(self, parties: Parties, number: str, now: Any) -> dict[str, set[str]]:
        """Update the alerts at a time, and return the stages that name the dispute by identifier."""
        found: dict[str, set[str]] = {"DISPUTES_DUE": set(), "DISPUTES_OVERDUE": set()}
        with parties.database.transaction() as session:
            # The facts name 20 disputes, so the disputes of other tests are set aside.
            others = select(Dispute.id).where(Dispute.number != number)
            session.execute(
                update(Dispute)
                .where(Dispute.number != number)
                .values(finding_due_at=NEVER, ruling_due_at=NEVER)
            )
            session.execute(
                update(DisputeReturn)
                .where(DisputeReturn.dispute_id.in_(others))
                .values(send_due_at=NEVER, sent_at=NEVER)
            )
            session.execute(
                update(DisputeAppeal)
                .where(DisputeAppeal.dispute_id.in_(others))
                .values(decision_due_at=NEVER)
            )
            due_times.update_alerts(session, now=now)
            alerts = session.scalars(
                select(Alert).where(Alert.identifier.in_(found), Alert.resolved_at.is_(None))
            )
            for alert in alerts:
                if number in alert.latest_facts["numbers"]:
                    found[alert.identifier].add(alert.subject.removeprefix("disputes:"))
            session.rollback()
        return found

    def test_each_stage_is_alerted_before_and_after_its_time(self, parties: Parties) -> None:
        dispute_id = parties.opened(parties.http.shipped())
        number = shown(parties, dispute_id)["number"]
        early = NOW + FINDING_TIME - 13 * HOUR
        assert self.alerted(parties, number, early) == {"DISPUTES_DUE": set(), "DISPUTES_OVERDUE": set()}
        soon = NOW + FINDING_TIME - HOUR
        assert self.alerted(parties, number, soon) == {
            "DISPUTES_DUE": {"finding"},
            "DISPUTES_OVERDUE": set(),
        }
        parties.act(dispute_id, "findings", parties.officer, {"finding": DESCRIPTION})
        assert self.alerted(parties, number, soon)["DISPUTES_DUE"] == set()
        late = NOW + RULING_TIME
        assert self.alerted(parties, number, late)["DISPUTES_OVERDUE"] == {"ruling"}
        parties.rule(dispute_id, "refund_buyer", returnRequired=True)
        assert self.alerted(parties, number, late)["DISPUTES_OVERDUE"] == {"return"}
        assert self.alerted(parties, number, NOW + rulings.RETURN_TIME - HOUR)["DISPUTES_DUE"] == {"return"}
        parties.rule(dispute_id, "release_vendor")
        assert self.alerted(parties, number, late)["DISPUTES_OVERDUE"] == set()
        parties.act(dispute_id, "appeal", parties.buyer, {"reason": DESCRIPTION})
        assert self.alerted(parties, number, late)["DISPUTES_OVERDUE"] == {"appeal"}


class TestChargebacks:
    def charge_back(self, parties: Parties, order_id: UUID, resolution: str | None = None) -> None:
        with parties.database.transaction() as session:
            dispute_charge(session, charge_of(session, order_id), resolution)
        # The event is handled twice, as after a crash.
        for _ in range(2):
            with parties.database.transaction() as session:
                join_chargebacks(session, order_id=order_id, now=NOW)

    def only_dispute(self, parties: Parties, order_id: UUID) -> str:
        with parties.database.reading() as session:
            return str(session.scalars(select(Dispute.id).where(Dispute.order_id == order_id)).one())

    def test_chargeback_is_announced_to_disputes(self, parties: Parties) -> None:
        order_id = parties.http.shipped()
        with parties.database.transaction() as session:
            dispute_charge(session, charge_of(session, order_id))
            payloads = session.scalars(
                select(OutboxEvent.payload).where(OutboxEvent.topic == ORDER_CHARGED_BACK_TOPIC)
            ).all()
        assert {"orderId": str(order_id)} in payloads

    @pytest.mark.parametrize("status", ["paid", "shipped"])
    def test_chargeback_opens_a_dispute_for_staff(self, parties: Parties, status: str) -> None:
        order_id = getattr(parties.http, status)()
        self.charge_back(parties, order_id)
        dispute_id = self.only_dispute(parties, order_id)
        dispute = shown(parties, dispute_id)
        assert (dispute["openedBy"], dispute["status"], dispute["hasChargeback"]) == (
            "system",
            "under_review",
            True,
        )
        assert events(parties, dispute_id) == ["opened", "chargeback_opened"]
        assert parties.notified(parties.shop.vendor.id)[-1] == "The buyer's bank disputes the payment"
        refused = parties.act(dispute_id, "withdraw", parties.buyer)
        assert assert_problem(refused, 403, "AUTH_FORBIDDEN")["reason"] == "not-your-turn"

    def test_chargeback_joins_the_open_dispute_until_the_outcome(self, parties: Parties) -> None:
        order_id = parties.http.shipped()
        dispute_id = parties.opened(order_id)
        self.charge_back(parties, order_id)
        assert events(parties, dispute_id) == ["opened", "chargeback_opened"]
        for answer in (
            parties.act(dispute_id, "withdraw", parties.buyer),
            parties.rule(dispute_id, "release_vendor"),
        ):
            assert assert_problem(answer, 409, "CONCURRENCY_CONFLICT")["reason"] == "charged-back"
        self.charge_back(parties, order_id, LOST)
        assert events(parties, dispute_id)[-1] == "chargeback_lost"
        withdrawn = parties.act(dispute_id, "withdraw", parties.buyer)
        assert assert_problem(withdrawn, 409, "CONCURRENCY_CONFLICT")["reason"] == "charged-back"
        assert parties.rule(dispute_id, "refund_buyer").status_code == 200
        parties.balances(order_id)

    def test_won_chargeback_lets_the_buyer_withdraw(self, parties: Parties) -> None:
        order_id = parties.http.shipped()
        dispute_id = parties.opened(order_id)
        self.charge_back(parties, order_id)
        self.charge_back(parties, order_id, WON)
        assert events(parties, dispute_id)[-1] == "chargeback_won"
        parties.act(dispute_id, "withdraw", parties.buyer)
        assert parties.state(order_id) == ("shipped", "held")

    def test_chargeback_of_a_delivered_order_opens_no_dispute(self, parties: Parties) -> None:
        order_id = parties.http.delivered()
        self.charge_back(parties, order_id)
        with parties.database.reading() as session:
            assert session.scalar(select(Dispute.id).where(Dispute.order_id == order_id)) is None


class TestHistory:
    def test_staff_see_the_earlier_disputes_of_both_sides(self, parties: Parties) -> None:
        lost = parties.opened(parties.http.shipped())
        parties.rule(lost, "release_vendor")
        missed = parties.opened(parties.http.shipped())
        due_times.keep_due_times(parties.database, now=NOW + RESPONSE_TIME)
        parties.rule(missed, "split", buyerAmountMinor=100)
        dispute_id = parties.open(parties.http.shipped(), parties.vendor).json["data"]["id"]
        buyer, vendor = shown(parties, dispute_id)["riskNotes"]
        assert buyer == {
            "side": "buyer",
            "disputes": 2,
            "opened": 2,
            "lost": 2,
            "missed": 0,
            "chargebacks": 0,
        }
        assert (vendor["disputes"], vendor["opened"], vendor["lost"], vendor["missed"]) == (2, 0, 1, 1)
        for headers in (parties.buyer, parties.vendor):
            answer = parties.http.get(f"{DISPUTES}/{dispute_id}", headers).json["data"]
            assert answer["riskNotes"] is None

    @pytest.mark.parametrize(
        ("outcome", "failed", "completed"), [("refund_buyer", 1, 0), ("release_vendor", 0, 1)]
    )
    def test_ruling_counts_in_the_completion_of_the_store(
        self, parties: Parties, outcome: str, failed: int, completed: int
    ) -> None:
        parties.rule(parties.opened(parties.http.shipped()), outcome)
        with parties.database.reading() as session:
            store = row_of(session, "vendor_profiles", id=parties.shop.store_id)
        assert (store["failed_orders"], store["completed_orders"]) == (failed, completed)

    def test_settled_refund_counts_in_the_completion_of_the_store(self, parties: Parties) -> None:
        order_id = parties.http.shipped()
        dispute_id, total = parties.opened(order_id), parties.balances(order_id)["escrow"]
        offer = parties.act(dispute_id, "offers", parties.vendor, {"buyerAmountMinor": total}).json["data"]
        parties.act(dispute_id, f"offers/{offer['offers'][0]['id']}/accept", parties.buyer)
        with parties.database.reading() as session:
            assert row_of(session, "vendor_profiles", id=parties.shop.store_id)["failed_orders"] == 1
