"""Returns before a ruling takes effect, appeals after a ruling, and the hold of the vendor's share."""

from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from marketplace.disputes import appeals, rulings, texts
from marketplace.disputes.second_officer import SECOND_OFFICER_MINOR
from marketplace.ledger.queries import fetch_balances_by_kind
from marketplace.payouts.payees.balances import show_store_balance
from tests.support.audit_and_notifications import audit_of
from tests.support.dispute_parties import DESCRIPTION, DISPUTES, RATIONALE, Parties
from tests.support.finance import charge_of, claw_back, dispute_charge, make_officer
from tests.support.gateway import MovableClock
from tests.support.payouts import make_account
from tests.support.probes import assert_problem, faults
from tests.support.purchases import NOW, shipped_order
from tests.support.shop_client import new_key

WON, LOST = "declined", "merchant-accepted"


def disputed(parties: Parties) -> tuple[UUID, str, int]:
    """Open a dispute about a shipped order.

    :return: the order, the dispute, and the escrow in kobo
    """
    order_id = parties.http.shipped()
    return order_id, parties.opened(order_id), parties.balances(order_id)["escrow"]


def shown(parties: Parties, dispute_id: str) -> Any:
    return parties.http.get(f"{DISPUTES}/{dispute_id}", parties.buyer).json["data"]


def appeal(parties: Parties, dispute_id: str, headers: Any) -> Any:
    return parties.act(dispute_id, "appeal", headers, {"reason": DESCRIPTION})


def decide(parties: Parties, dispute_id: str, headers: Any, decision: str, amount: int | None = None) -> Any:
    body = {"decision": decision, "rationale": RATIONALE}
    return parties.act(
        dispute_id, "appeal/decision", headers, body | ({} if amount is None else {"amountMinor": amount})
    )


def available(parties: Parties, now: Any = NOW) -> tuple[int, int]:
    """Return the balance of the store in kobo: the part without holds, and the held shares."""
    with parties.database.reading() as session:
        balance = show_store_balance(session, vendor_id=parties.shop.store_id, now=now)
        return balance.payable_minor - balance.held_share_minor, balance.held_share_minor


class TestReturns:
    def test_ruling_moves_nothing_before_the_receipt(self, parties: Parties) -> None:
        order_id, dispute_id, total = disputed(parties)
        ruled = parties.rule(dispute_id, "refund_buyer", returnRequired=True)
        assert (ruled.status_code, ruled.json["data"]["state"]) == (202, "awaiting_return")
        assert parties.state(order_id) == ("disputed", "frozen")
        assert shown(parties, dispute_id)["status"] == "under_review"
        assert parties.balances(order_id)["escrow"] == total
        assert parties.notified(parties.shop.buyer.id)[-1] == "Goods must be returned"

        sent = parties.act(dispute_id, "return/sent", parties.buyer, {"trackingNote": "At the hub, shelf 4."})
        assert (sent.json["data"]["return"]["status"], parties.state(order_id)[0]) == ("sent", "disputed")
        received = parties.act(dispute_id, "return/received", parties.vendor).json["data"]
        assert (received["status"], received["return"]["status"]) == ("resolved_buyer", "received")
        assert parties.state(order_id) == ("refunded", "refunded")
        assert parties.balances(order_id)["refunds_in_transit"] == total
        events = [entry["event"] for entry in received["timeline"]]
        assert events == ["opened", "return_requested", "return_sent", "return_received", "ruled"]

    def test_split_with_return_is_executed_by_staff_when_the_vendor_is_silent(self, parties: Parties) -> None:
        order_id, dispute_id, total = disputed(parties)
        parties.rule(dispute_id, "split", returnRequired=True, buyerAmountMinor=40_000)
        received = parties.act(dispute_id, "return/received", parties.officer).json["data"]
        assert (received["buyerMinor"], received["vendorMinor"]) == (40_000, total - 40_000)
        assert parties.state(order_id) == ("delivered", "partially_refunded")
        again = parties.act(dispute_id, "return/received", parties.vendor)
        assert assert_problem(again, 409, "CONCURRENCY_CONFLICT")["reason"] == "no-open-return"

    def test_buyer_sends_and_vendor_receives(self, parties: Parties) -> None:
        _, dispute_id, _ = disputed(parties)
        early = parties.act(dispute_id, "return/sent", parties.buyer, {})
        assert assert_problem(early, 409, "CONCURRENCY_CONFLICT")["reason"] == "no-open-return"
        parties.rule(dispute_id, "refund_buyer", returnRequired=True)
        for act, headers in (("return/sent", parties.vendor), ("return/received", parties.buyer)):
            answer = parties.act(dispute_id, act, headers, {} if act.endswith("sent") else None)
            assert assert_problem(answer, 403, "AUTH_FORBIDDEN")["reason"] == "not-your-turn"
        stranger = parties.act(dispute_id, "return/received", parties.http.stranger)
        assert_problem(stranger, 404, "RESOURCE_NOT_FOUND")
        finance = parties.act(dispute_id, "return/received", parties.http.officer("finance"))
        assert_problem(finance, 404, "RESOURCE_NOT_FOUND")

    def test_later_ruling_replaces_a_return(self, parties: Parties) -> None:
        order_id, dispute_id, total = disputed(parties)
        parties.rule(dispute_id, "refund_buyer", returnRequired=True)
        assert parties.rule(dispute_id, "release_vendor").status_code == 200
        assert shown(parties, dispute_id)["return"]["status"] == "cancelled"
        late = parties.act(dispute_id, "return/received", parties.vendor)
        assert_problem(late, 409, "CONCURRENCY_CONFLICT")
        balances = parties.balances(order_id)
        assert balances["vendor_payable"] + balances["platform_revenue"] == total

    def test_goods_that_were_never_shipped_are_not_returned(self, parties: Parties) -> None:
        dispute_id = parties.opened(parties.http.paid())
        assert faults(parties.rule(dispute_id, "refund_buyer", returnRequired=True)) == ["returnRequired"]
        _, shipped_id, _ = disputed(parties)
        assert faults(parties.rule(shipped_id, "release_vendor", returnRequired=True)) == ["returnRequired"]


class TestShareHold:
    def test_vendors_share_is_paid_out_after_the_appeal_period(self, parties: Parties) -> None:
        before = available(parties)
        order_id, dispute_id, _ = disputed(parties)
        parties.rule(dispute_id, "release_vendor")
        share = parties.balances(order_id)["vendor_payable"]
        assert available(parties) == (before[0], before[1] + share)
        assert available(parties, NOW + rulings.APPEAL_TIME - timedelta(seconds=1))[1] >= share
        assert available(parties, NOW + rulings.APPEAL_TIME) == (before[0] + before[1] + share, 0)

    def test_withdrawal_leaves_the_held_share_in_the_balance(self, parties: Parties) -> None:
        order_id, dispute_id, _ = disputed(parties)
        parties.rule(dispute_id, "release_vendor")
        share = parties.balances(order_id)["vendor_payable"]
        with parties.database.transaction() as session:
            make_account(session, parties.shop.vendor.id)
        answer = parties.http.post(
            "/api/payouts/dispatch",
            parties.vendor,
            {"amountMinor": share + available(parties)[0]},
            key=new_key(),
        )
        problem = assert_problem(answer, 409, "CONCURRENCY_CONFLICT")
        assert problem["reason"] == "insufficient-balance"
        assert "of a ruling is on hold" in problem["detail"]

    def test_settlement_is_not_held(self, parties: Parties) -> None:
        before = available(parties)
        order_id, dispute_id, _ = disputed(parties)
        offer = parties.act(dispute_id, "offers", parties.vendor, {"buyerAmountMinor": 100}).json["data"]
        parties.act(dispute_id, f"offers/{offer['offers'][0]['id']}/accept", parties.buyer)
        share = parties.balances(order_id)["vendor_payable"]
        assert available(parties) == (before[0] + share, before[1])
        refused = appeal(parties, dispute_id, parties.vendor)
        assert assert_problem(refused, 409, "CONCURRENCY_CONFLICT")["reason"] == "not-appealable"


class TestAppeals:
    def test_granted_appeal_of_the_buyer_is_a_clawback(self, parties: Parties) -> None:
        order_id, dispute_id, total = disputed(parties)
        parties.rule(dispute_id, "release_vendor")
        answer = appeal(parties, dispute_id, parties.buyer)
        assert (answer.status_code, answer.json["data"]["appeal"]["status"]) == (201, "pending")
        assert parties.notified(parties.shop.vendor.id)[-1] == "The ruling was appealed"
        held = available(parties, NOW + timedelta(days=5))[1]
        assert held >= parties.balances(order_id)["vendor_payable"]

        decided = decide(parties, dispute_id, parties.make_officer(), "granted", 50_000)
        assert decided.json["data"]["state"] == "executed"
        balances = parties.balances(order_id)
        assert balances["refunds_in_transit"] == 50_000
        assert "escrow" not in balances
        assert balances["vendor_payable"] + balances["platform_revenue"] - balances["vendor_receivable"] == (
            total - 50_000
        )
        assert parties.state(order_id) == ("delivered", "released")
        assert available(parties)[1] == held - balances["vendor_payable"]
        assert (
            shown(parties, dispute_id)["appeal"] | {"status": "granted", "amountMinor": 50_000}
            == (shown(parties, dispute_id)["appeal"])
        )
        actions = [entry["action"] for entry in audit_of(parties.database, dispute_id)]
        assert actions == ["dispute.rule", "dispute.decide_appeal"]

    def test_granted_appeal_of_the_vendor_is_an_expense_of_the_platform(self, parties: Parties) -> None:
        order_id, dispute_id, total = disputed(parties)
        with parties.database.reading() as session:
            spent_minor = fetch_balances_by_kind(session).get("dispute_expenses", 0)
        parties.rule(dispute_id, "refund_buyer")
        appeal(parties, dispute_id, parties.vendor)
        officer = parties.make_officer()
        too_much = decide(parties, dispute_id, officer, "granted", total)
        assert faults(too_much) == ["amountMinor"]
        assert decide(parties, dispute_id, officer, "granted", 70_000).status_code == 200
        balances = parties.balances(order_id)
        assert (balances["vendor_payable"], balances["refunds_in_transit"]) == (70_000, total)
        with parties.database.reading() as session:
            assert fetch_balances_by_kind(session)["dispute_expenses"] == spent_minor + 70_000
        trail = parties.http.get(f"/api/orders/{order_id}/money", parties.vendor).json["data"]
        assert trail["entries"][-1]["kind"] == "appeal_granted"

    def test_rejected_appeal_ends_the_hold_and_moves_nothing(self, parties: Parties) -> None:
        before = available(parties)[1]
        order_id, dispute_id, _ = disputed(parties)
        parties.rule(dispute_id, "release_vendor")
        balances = parties.balances(order_id)
        appeal(parties, dispute_id, parties.buyer)
        assert faults(decide(parties, dispute_id, parties.make_officer(), "rejected", 1)) == ["amountMinor"]
        decide(parties, dispute_id, parties.make_officer(), "rejected")
        assert (parties.balances(order_id), available(parties)[1]) == (balances, before)
        again = appeal(parties, dispute_id, parties.buyer)
        assert assert_problem(again, 409, "CONCURRENCY_CONFLICT")["reason"] == "ruling-already-appealed"
        late = decide(parties, dispute_id, parties.make_officer(), "granted", 100)
        assert assert_problem(late, 409, "CONCURRENCY_CONFLICT")["reason"] == "no-pending-appeal"

    def test_ruling_officer_does_not_decide_the_appeal(self, parties: Parties) -> None:
        _, dispute_id, _ = disputed(parties)
        parties.rule(dispute_id, "release_vendor")
        appeal(parties, dispute_id, parties.buyer)
        own = decide(parties, dispute_id, parties.officer, "rejected")
        assert assert_problem(own, 403, "AUTH_FORBIDDEN")["reason"] == "conflict-of-interest"
        single = decide(parties, dispute_id, parties.make_officer(aal="aal1"), "rejected")
        assert_problem(single, 403, "AUTH_AAL2_REQUIRED")
        assert_problem(decide(parties, dispute_id, parties.buyer, "rejected"), 403, "AUTH_FORBIDDEN")

    def test_appeal_is_possible_for_72_hours_after_a_ruling(
        self, parties: Parties, clock: MovableClock
    ) -> None:
        _, open_id, _ = disputed(parties)
        early = appeal(parties, open_id, parties.buyer)
        assert assert_problem(early, 409, "CONCURRENCY_CONFLICT")["reason"] == "not-appealable"
        parties.rule(open_id, "release_vendor")
        content = appeal(parties, open_id, parties.vendor)
        assert assert_problem(content, 409, "CONCURRENCY_CONFLICT")["reason"] == "not-appealable"
        assert_problem(appeal(parties, open_id, parties.http.stranger), 404, "RESOURCE_NOT_FOUND")
        clock.now = NOW + rulings.APPEAL_TIME + timedelta(seconds=1)
        late = appeal(parties, open_id, parties.buyer)
        assert assert_problem(late, 409, "CONCURRENCY_CONFLICT")["reason"] == "not-appealable"

    def test_large_amount_needs_two_officers(self, parties: Parties) -> None:
        with parties.database.transaction() as session:
            order_id = shipped_order(
                session, parties.shop, quantity=SECOND_OFFICER_MINOR // 100_000 + 1, stock=100
            )
        dispute_id = parties.opened(order_id)
        parties.rule(dispute_id, "release_vendor")
        parties.rule(dispute_id, "release_vendor", parties.make_officer())
        appeal(parties, dispute_id, parties.buyer)
        officers = [parties.make_officer() for _ in range(2)]
        first = decide(parties, dispute_id, officers[0], "granted", SECOND_OFFICER_MINOR)
        assert (first.status_code, first.json["data"]["state"]) == (202, "awaiting_second_officer")
        same = decide(parties, dispute_id, officers[0], "granted", SECOND_OFFICER_MINOR)
        assert_problem(same, 403, "AUTH_FORBIDDEN")
        second = decide(parties, dispute_id, officers[1], "granted", SECOND_OFFICER_MINOR)
        assert (second.status_code, parties.balances(order_id)["refunds_in_transit"]) == (
            200,
            SECOND_OFFICER_MINOR,
        )

    def test_clawback_during_an_appeal_limits_the_amount(self, parties: Parties) -> None:
        order_id, dispute_id, total = disputed(parties)
        parties.rule(dispute_id, "release_vendor")
        appeal(parties, dispute_id, parties.buyer)
        with parties.database.transaction() as session:
            claw_back(session, order_id, make_officer(session), amount_minor=total - 1_000)
        officer = parties.make_officer()
        assert faults(decide(parties, dispute_id, officer, "granted", 1_001)) == ["amountMinor"]
        assert decide(parties, dispute_id, officer, "granted", 1_000).status_code == 200
        parties.balances(order_id)


class TestLostChargebacks:
    """The buyer's bank took the payment back while the order was disputed."""

    def lose(self, parties: Parties, amount_minor: int | None = None) -> tuple[UUID, str, int]:
        order_id, dispute_id, total = disputed(parties)
        values = {} if amount_minor is None else {"refund_amount": amount_minor}
        with parties.database.transaction() as session:
            dispute_charge(session, charge_of(session, order_id), **values)
            dispute_charge(session, charge_of(session, order_id), LOST, **values)
        return order_id, dispute_id, total

    def test_refund_to_the_buyer_pays_nothing_twice(self, parties: Parties) -> None:
        order_id, dispute_id, total = self.lose(parties)
        assert parties.rule(dispute_id, "refund_buyer").json["data"]["buyerMinor"] == total
        balances = parties.balances(order_id)
        assert not balances.keys() & {"escrow", "lost_disputes", "refunds_in_transit"}
        assert balances["wallet"] == -total  # paid, and nothing credited
        assert parties.state(order_id) == ("refunded", "refunded")

    def test_release_to_the_vendor_is_a_loss_of_the_platform(self, parties: Parties) -> None:
        order_id, dispute_id, total = self.lose(parties)
        parties.rule(dispute_id, "release_vendor")
        balances = parties.balances(order_id)
        assert balances["dispute_expenses"] == total
        assert balances["vendor_payable"] + balances["platform_revenue"] == total
        assert "lost_disputes" not in balances

    @pytest.mark.parametrize("taken", [30_000, 60_000])
    def test_split_counts_the_amount_that_the_bank_returned(self, parties: Parties, taken: int) -> None:
        order_id, dispute_id, total = self.lose(parties, taken)
        parties.rule(dispute_id, "split", buyerAmountMinor=45_000)
        balances = parties.balances(order_id)
        assert balances["wallet"] == max(45_000 - taken, 0) - total
        assert balances.get("dispute_expenses", 0) == max(taken - 45_000, 0)
        assert balances["vendor_payable"] + balances["platform_revenue"] == total - 45_000

    def test_won_chargeback_leaves_the_ruling_to_staff(self, parties: Parties) -> None:
        order_id, dispute_id, total = disputed(parties)
        with parties.database.transaction() as session:
            dispute_charge(session, charge_of(session, order_id))
        refused = parties.rule(dispute_id, "refund_buyer")
        assert assert_problem(refused, 409, "CONCURRENCY_CONFLICT")["reason"] == "charged-back"
        with parties.database.transaction() as session:
            dispute_charge(session, charge_of(session, order_id), WON)
        parties.rule(dispute_id, "refund_buyer")
        assert parties.balances(order_id)["refunds_in_transit"] == total

    def test_receipt_of_returned_goods_waits_for_the_bank(self, parties: Parties) -> None:
        order_id, dispute_id, _ = disputed(parties)
        parties.rule(dispute_id, "refund_buyer", returnRequired=True)
        with parties.database.transaction() as session:
            dispute_charge(session, charge_of(session, order_id))
        refused = parties.act(dispute_id, "return/received", parties.vendor)
        assert assert_problem(refused, 409, "CONCURRENCY_CONFLICT")["reason"] == "charged-back"
        assert shown(parties, dispute_id)["return"]["status"] == "requested"


def test_texts_name_the_times_of_appeals() -> None:
    hours = int(rulings.APPEAL_TIME.total_seconds()) // 3600
    assert f"{hours} hours" in texts.APPEAL_TIME_OVER
    assert f"{appeals.DECISION_TIME.days} days" in texts.APPEALED_BODY
