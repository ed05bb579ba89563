"""Disputes over HTTP: opening, response, withdrawal, findings, and rulings with their ledger entries."""

from typing import Any
from uuid import UUID, uuid4

import pytest
from sqlalchemy import select

from marketplace.disputes.models import Dispute
from marketplace.disputes.second_officer import PROPOSAL_LIFETIME, SECOND_OFFICER_MINOR
from marketplace.infra.outbox import OutboxEvent
from marketplace.orders.operations import DISPUTED_ORDER_REFUNDED_TOPIC
from marketplace.services import Services
from tasks.support import handle_refund_of_disputed_order
from tests.support.audit_and_notifications import audit_of
from tests.support.dispute_parties import DESCRIPTION, DISPUTES, RATIONALE, Parties
from tests.support.finance import charge_of, dispute_charge, make_officer, refund
from tests.support.gateway import MovableClock
from tests.support.probes import assert_problem, faults
from tests.support.purchases import (
    NOW,
    later,
    make_product,
    pay,
    pin_of,
    place,
    row_of,
    shipped_order,
)
from tests.support.resource_usage import counted_statements
from tests.support.shop_client import new_key


class TestOpening:
    @pytest.mark.parametrize("side", ["buyer", "vendor"])
    def test_dispute_freezes_the_escrow_and_notifies_the_other_side(
        self, parties: Parties, side: str
    ) -> None:
        order_id = parties.http.shipped()
        answer = parties.open(order_id, getattr(parties, side))
        dispute = answer.json["data"]
        assert (answer.status_code, dispute["status"], dispute["openedBy"]) == (
            201,
            "awaiting_response",
            side,
        )
        assert dispute["responseDueAt"] == later(hours=48).isoformat().replace("+00:00", "Z")
        assert [entry["event"] for entry in dispute["timeline"]] == ["opened"]
        assert parties.state(order_id) == ("disputed", "frozen")
        other = parties.shop.vendor.id if side == "buyer" else parties.shop.buyer.id
        assert parties.notified(other) == ["A dispute was opened"]

    def test_frozen_order_is_neither_confirmed_nor_released(self, parties: Parties) -> None:
        order_id = parties.http.shipped()
        parties.opened(order_id)
        confirmed = parties.http.post(f"/api/orders/{order_id}/confirm", parties.buyer)
        assert_problem(confirmed, 409, "CONCURRENCY_CONFLICT")
        body = {"pin": pin_of(order_id)}
        verified = parties.http.post(
            f"/api/orders/{order_id}/verify-code", parties.vendor, body, key=new_key()
        )
        assert_problem(verified, 409, "CONCURRENCY_CONFLICT")
        cancelled = parties.http.post(f"/api/orders/{order_id}/cancel", parties.buyer, {})
        assert_problem(cancelled, 409, "CONCURRENCY_CONFLICT")

    def test_order_has_one_open_dispute(self, parties: Parties) -> None:
        order_id = parties.http.shipped()
        parties.opened(order_id)
        problem = assert_problem(parties.open(order_id, parties.vendor), 409, "CONCURRENCY_CONFLICT")
        assert problem["reason"] == "already-disputed"

    def test_unpaid_and_delivered_orders_are_not_disputed(self, parties: Parties) -> None:
        for order_id in (parties.http.unpaid(), parties.http.delivered()):
            problem = assert_problem(parties.open(order_id), 409, "CONCURRENCY_CONFLICT")
            assert problem["reason"] == "transition-not-allowed"

    def test_order_of_others_is_not_found(self, parties: Parties) -> None:
        order_id = parties.http.shipped()
        assert_problem(parties.open(order_id, parties.http.stranger), 404, "RESOURCE_NOT_FOUND")
        assert_problem(parties.open(uuid4()), 404, "RESOURCE_NOT_FOUND")
        dispute_id = parties.opened(order_id)
        stranger = parties.http.stranger
        path = f"{DISPUTES}/{dispute_id}"
        assert_problem(parties.http.get(path, stranger), 404, "RESOURCE_NOT_FOUND")
        for act, body in (("withdraw", None), ("response", {"response": DESCRIPTION})):
            assert_problem(parties.act(dispute_id, act, stranger, body), 404, "RESOURCE_NOT_FOUND")
        assert parties.http.get(DISPUTES, stranger).json["data"] == []

    @pytest.mark.parametrize(
        ("fields", "fault"),
        [
            ({"itemIds": [str(uuid4())]}, "itemIds"),
            ({"desiredOutcome": "partial_refund"}, "claimedMinor"),
            ({"claimedMinor": 10**9}, "claimedMinor"),
            ({"reason": "bored"}, "reason"),
            ({"description": "short"}, "description"),
            ({"status": "resolved_buyer"}, "status"),
        ],
    )
    def test_invalid_fields_are_named(self, parties: Parties, fields: Any, fault: str) -> None:
        order_id = parties.http.shipped()
        assert faults(parties.open(order_id, **fields)) == [fault]
        assert parties.state(order_id) == ("shipped", "held")


class TestResponse:
    def test_other_side_responds_and_the_case_is_reviewed(self, parties: Parties) -> None:
        dispute_id = parties.opened(parties.http.shipped())
        body = {"response": "I handed it to the hub on Monday."}
        answered = parties.act(dispute_id, "response", parties.vendor, body).json["data"]
        assert (answered["status"], answered["response"]) == ("under_review", body["response"])
        assert parties.notified(parties.shop.buyer.id) == ["The other side responded"]
        parties.act(dispute_id, "response", parties.vendor, {"response": "Here is the receipt number: 7."})
        assert parties.notified(parties.shop.buyer.id) == ["The other side responded"]

    def test_opener_does_not_respond(self, parties: Parties) -> None:
        dispute_id = parties.opened(parties.http.shipped())
        answer = parties.act(dispute_id, "response", parties.buyer, {"response": DESCRIPTION})
        assert assert_problem(answer, 403, "AUTH_FORBIDDEN")["reason"] == "not-your-turn"

    @pytest.mark.parametrize("status", ["paid", "shipped"])
    def test_withdrawal_continues_the_order_where_it_was(self, parties: Parties, status: str) -> None:
        order_id = getattr(parties.http, status)()
        before = parties.state(order_id)
        dispute_id = parties.opened(order_id)
        refused = parties.act(dispute_id, "withdraw", parties.vendor)
        assert assert_problem(refused, 403, "AUTH_FORBIDDEN")["reason"] == "not-your-turn"
        withdrawn = parties.act(dispute_id, "withdraw", parties.buyer).json["data"]
        assert (withdrawn["status"], parties.state(order_id)) == ("withdrawn", before)
        assert parties.notified(parties.shop.vendor.id)[-1] == "The dispute was withdrawn"
        assert_problem(parties.act(dispute_id, "withdraw", parties.buyer), 409, "CONCURRENCY_CONFLICT")
        # The order can be disputed again.
        assert parties.opened(order_id) != dispute_id

    def test_finding_reaches_both_sides(self, parties: Parties) -> None:
        dispute_id = parties.opened(parties.http.shipped())
        body = {"finding": "The hub has no record of the parcel."}
        found = parties.act(dispute_id, "findings", parties.officer, body).json["data"]
        assert (found["status"], found["finding"]) == ("under_review", body["finding"])
        for user_id in (parties.shop.buyer.id, parties.shop.vendor.id):
            assert parties.notified(user_id)[-1] == "Staff wrote a first finding"
        for headers in (parties.buyer, parties.http.officer("finance")):
            assert_problem(parties.act(dispute_id, "findings", headers, body), 403, "AUTH_FORBIDDEN")


class TestRuling:
    def test_full_refund(self, parties: Parties) -> None:
        order_id = parties.http.shipped()
        dispute_id = parties.opened(order_id)
        total = parties.balances(order_id)["escrow"]
        ruled = parties.rule(dispute_id, "refund_buyer").json["data"]
        assert (ruled["state"], ruled["buyerMinor"], ruled["vendorMinor"]) == ("executed", total, 0)
        assert parties.state(order_id) == ("refunded", "refunded")
        balances = parties.balances(order_id)
        assert balances["refunds_in_transit"] == total
        assert "escrow" not in balances
        assert "vendor_payable" not in balances

    def test_release_to_the_vendor(self, parties: Parties) -> None:
        order_id = parties.http.shipped()
        dispute_id = parties.opened(order_id)
        total = parties.balances(order_id)["escrow"]
        ruled = parties.rule(dispute_id, "release_vendor").json["data"]
        assert (ruled["buyerMinor"], ruled["vendorMinor"]) == (0, total)
        assert parties.state(order_id) == ("delivered", "released")
        balances = parties.balances(order_id)
        assert balances["vendor_payable"] + balances["platform_revenue"] == total

    def test_split_by_amount_to_the_kobo(self, parties: Parties) -> None:
        order_id = parties.http.shipped()
        dispute_id = parties.opened(order_id)
        total = parties.balances(order_id)["escrow"]
        ruled = parties.rule(dispute_id, "split", buyerAmountMinor=33_333).json["data"]
        assert (ruled["buyerMinor"], ruled["vendorMinor"]) == (33_333, total - 33_333)
        assert parties.state(order_id) == ("delivered", "partially_refunded")
        balances = parties.balances(order_id)
        assert balances["refunds_in_transit"] == 33_333
        assert balances["vendor_payable"] + balances["platform_revenue"] == total - 33_333
        dispute = parties.http.get(f"{DISPUTES}/{dispute_id}", parties.buyer).json["data"]
        assert (dispute["status"], dispute["rationale"]) == ("resolved_split", RATIONALE)
        assert [entry["event"] for entry in dispute["timeline"]] == ["opened", "ruled"]

    def test_split_by_items_refunds_their_price(self, parties: Parties) -> None:
        with parties.database.transaction() as session:
            product_id = make_product(session, parties.shop)
            order_id = place(session, parties.shop, product_id, quantity=2)
            pay(session, parties.shop, order_id)
        dispute_id = parties.opened(order_id, itemIds=[str(product_id)])
        item = {"productId": str(product_id), "quantity": 1}
        with parties.database.reading() as session:
            price = row_of(session, "order_items", order_id=order_id)["unit_price_minor"]
        ruled = parties.rule(dispute_id, "split", items=[item]).json["data"]
        assert ruled["buyerMinor"] == price
        with parties.database.reading() as session:
            assert row_of(session, "order_items", order_id=order_id)["refunded_quantity"] == 1

    def test_dry_run_shows_the_entries_and_changes_nothing(self, parties: Parties) -> None:
        order_id = parties.http.shipped()
        dispute_id = parties.opened(order_id)
        before = parties.balances(order_id)
        titles = parties.notified(parties.shop.buyer.id)
        preview = parties.rule(dispute_id, "split", dry_run=True, buyerAmountMinor=40_000).json["data"]
        assert parties.balances(order_id) == before
        assert parties.state(order_id) == ("disputed", "frozen")
        assert parties.notified(parties.shop.buyer.id) == titles
        executed = parties.rule(dispute_id, "split", buyerAmountMinor=40_000).json["data"]
        assert preview == executed | {"state": "previewed"}
        escrow = sum(row["amountMinor"] for row in executed["entries"] if row["account"] == "escrow")
        assert escrow == before["escrow"]

    @pytest.mark.parametrize(
        ("outcome", "fields", "fault"),
        [
            ("split", {}, "buyerAmountMinor"),
            ("split", {"buyerAmountMinor": 0}, "buyerAmountMinor"),
            ("refund_buyer", {"buyerAmountMinor": 100}, "buyerAmountMinor"),
            ("release_vendor", {"items": [{"productId": str(uuid4()), "quantity": 1}]}, "items"),
            ("split", {"items": [{"productId": str(uuid4()), "quantity": 1}]}, "items[0].productId"),
            ("split", {"buyerAmountMinor": 100, "rationale": "short"}, "rationale"),
        ],
    )
    def test_unfit_rulings_are_refused(self, parties: Parties, outcome: str, fields: Any, fault: str) -> None:
        order_id = parties.http.shipped()
        assert faults(parties.rule(parties.opened(order_id), outcome, **fields)) == [fault]
        assert parties.state(order_id) == ("disputed", "frozen")

    def test_dry_run_is_a_boolean(self, parties: Parties) -> None:
        order_id = parties.http.shipped()
        path = f"{DISPUTES}/{parties.opened(order_id)}/resolve?dryRun=maybe"
        body = {"outcome": "refund_buyer", "rationale": RATIONALE}
        assert faults(parties.http.post(path, parties.officer, body)) == ["dryRun"]
        assert parties.state(order_id) == ("disputed", "frozen")

    def test_split_must_leave_something_to_the_vendor(self, parties: Parties) -> None:
        order_id = parties.http.shipped()
        dispute_id = parties.opened(order_id)
        total = parties.balances(order_id)["escrow"]
        assert faults(parties.rule(dispute_id, "split", buyerAmountMinor=total)) == ["buyerAmountMinor"]
        above = parties.rule(dispute_id, "split", buyerAmountMinor=total + 1)
        problem = assert_problem(above, 409, "ESCROW_BALANCE_DEFICIT")
        assert [fault["name"] for fault in problem["invalid_params"]] == ["buyerAmountMinor"]

    def test_ruling_is_final(self, parties: Parties) -> None:
        dispute_id = parties.opened(parties.http.shipped())
        parties.rule(dispute_id, "release_vendor")
        assert_problem(parties.rule(dispute_id, "refund_buyer"), 409, "CONCURRENCY_CONFLICT")
        body = {"response": DESCRIPTION}
        assert_problem(parties.act(dispute_id, "response", parties.vendor, body), 409, "CONCURRENCY_CONFLICT")
        assert [entry["action"] for entry in audit_of(parties.database, dispute_id)] == ["dispute.rule"]

    def test_ruling_needs_the_permission_and_two_factors(self, parties: Parties) -> None:
        dispute_id = parties.opened(parties.http.shipped())
        assert_problem(parties.rule(dispute_id, "refund_buyer", parties.buyer), 403, "AUTH_FORBIDDEN")
        single = parties.make_officer(aal="aal1")
        assert_problem(parties.rule(dispute_id, "refund_buyer", single), 403, "AUTH_AAL2_REQUIRED")

    def test_charged_back_payment_is_not_refunded_again(self, parties: Parties) -> None:
        order_id = parties.http.shipped()
        dispute_id = parties.opened(order_id)
        with parties.database.transaction() as session:
            dispute_charge(session, charge_of(session, order_id))
        problem = assert_problem(parties.rule(dispute_id, "refund_buyer"), 409, "CONCURRENCY_CONFLICT")
        assert problem["reason"] == "charged-back"


class TestTwoOfficers:
    def large(self, parties: Parties) -> str:
        with parties.database.transaction() as session:
            order_id = shipped_order(
                session, parties.shop, quantity=SECOND_OFFICER_MINOR // 100_000 + 1, stock=100
            )
        return parties.opened(order_id)

    def test_second_officer_confirms_the_same_ruling(self, parties: Parties) -> None:
        dispute_id, second = self.large(parties), parties.make_officer()
        first = parties.rule(dispute_id, "split", buyerAmountMinor=100)
        assert (first.status_code, first.json["data"]["state"]) == (202, "awaiting_second_officer")
        again = parties.rule(dispute_id, "split", buyerAmountMinor=100)
        assert_problem(again, 403, "AUTH_FORBIDDEN")
        other = parties.rule(dispute_id, "split", second, buyerAmountMinor=200)
        assert assert_problem(other, 409, "CONCURRENCY_CONFLICT")["reason"] == "ruling-differs"
        executed = parties.rule(dispute_id, "split", second, buyerAmountMinor=100)
        assert (executed.status_code, executed.json["data"]["state"]) == (200, "executed")

    def test_proposal_lapses_after_a_day(self, parties: Parties, clock: MovableClock) -> None:
        dispute_id = self.large(parties)
        assert parties.rule(dispute_id, "refund_buyer").status_code == 202
        clock.now = NOW + PROPOSAL_LIFETIME
        assert parties.rule(dispute_id, "release_vendor", parties.make_officer()).status_code == 202


class TestOffers:
    def offer(self, parties: Parties, dispute_id: str, headers: Any, amount: int) -> str:
        answer = parties.act(
            dispute_id, "offers", headers, {"buyerAmountMinor": amount, "note": "Let us share."}
        )
        assert answer.status_code == 201, answer.json
        offer_id: str = answer.json["data"]["offers"][-1]["id"]
        return offer_id

    @pytest.mark.parametrize(
        ("share", "status", "order_status"),
        [
            ("none", "resolved_vendor", "delivered"),
            ("part", "resolved_split", "delivered"),
            ("all", "resolved_buyer", "refunded"),
        ],
    )
    def test_accepted_offer_moves_the_escrow(
        self, parties: Parties, share: str, status: str, order_status: str
    ) -> None:
        order_id = parties.http.shipped()
        dispute_id = parties.opened(order_id)
        total = parties.balances(order_id)["escrow"]
        amount = {"none": 0, "part": 77_777, "all": total}[share]
        offer_id = self.offer(parties, dispute_id, parties.vendor, amount)
        assert parties.notified(parties.shop.buyer.id)[-1] == "A settlement is offered"
        accepted = parties.act(dispute_id, f"offers/{offer_id}/accept", parties.buyer).json["data"]
        assert (accepted["status"], accepted["buyerMinor"], accepted["vendorMinor"]) == (
            status,
            amount,
            total - amount,
        )
        assert parties.state(order_id)[0] == order_status
        balances = parties.balances(order_id)
        assert balances.get("refunds_in_transit", 0) == amount
        assert balances.get("vendor_payable", 0) + balances.get("platform_revenue", 0) == total - amount
        again = parties.act(dispute_id, f"offers/{offer_id}/accept", parties.buyer)
        assert_problem(again, 409, "CONCURRENCY_CONFLICT")
        assert parties.balances(order_id) == balances

    def test_own_offer_is_decided_by_the_other_side(self, parties: Parties) -> None:
        dispute_id = parties.opened(parties.http.shipped())
        offer_id = self.offer(parties, dispute_id, parties.buyer, 100)
        for act in ("accept", "decline"):
            answer = parties.act(dispute_id, f"offers/{offer_id}/{act}", parties.buyer)
            assert assert_problem(answer, 403, "AUTH_FORBIDDEN")["reason"] == "not-your-turn"
        stranger = parties.act(dispute_id, f"offers/{offer_id}/accept", parties.http.stranger)
        assert_problem(stranger, 404, "RESOURCE_NOT_FOUND")

    def test_declined_replaced_and_expired_offers_are_not_accepted(
        self, parties: Parties, clock: MovableClock
    ) -> None:
        order_id = parties.http.shipped()
        dispute_id = parties.opened(order_id)
        declined = self.offer(parties, dispute_id, parties.buyer, 100)
        parties.act(dispute_id, f"offers/{declined}/decline", parties.vendor)
        assert parties.notified(parties.shop.buyer.id)[-1] == "Your offer was declined"
        replaced = self.offer(parties, dispute_id, parties.buyer, 200)
        expired = self.offer(parties, dispute_id, parties.buyer, 300)
        clock.now = later(hours=72)
        for offer_id in (declined, replaced, expired):
            answer = parties.act(dispute_id, f"offers/{offer_id}/accept", parties.vendor)
            assert assert_problem(answer, 409, "CONCURRENCY_CONFLICT")["reason"] == "offer-not-open"
        assert parties.state(order_id) == ("disputed", "frozen")
        shown = parties.http.get(f"{DISPUTES}/{dispute_id}", parties.buyer).json["data"]["offers"]
        assert [offer["status"] for offer in shown] == ["declined", "replaced", "pending"]

    def test_amount_is_limited_to_the_escrow(self, parties: Parties) -> None:
        order_id = parties.http.shipped()
        dispute_id = parties.opened(order_id)
        total = parties.balances(order_id)["escrow"]
        for amount in (total + 1, -1, 0.5):
            answer = parties.act(dispute_id, "offers", parties.vendor, {"buyerAmountMinor": amount})
            assert faults(answer) == ["buyerAmountMinor"]

    def test_offers_end_with_the_dispute(self, parties: Parties) -> None:
        dispute_id = parties.opened(parties.http.shipped())
        offer_id = self.offer(parties, dispute_id, parties.vendor, 100)
        parties.rule(dispute_id, "release_vendor")
        for path, body in ((f"offers/{offer_id}/accept", None), ("offers", {"buyerAmountMinor": 1})):
            assert_problem(parties.act(dispute_id, path, parties.buyer, body), 409, "CONCURRENCY_CONFLICT")


def test_refund_by_finance_resolves_the_dispute(parties: Parties) -> None:
    order_id = parties.http.shipped()
    dispute_id = parties.opened(order_id)
    with parties.database.transaction() as session:
        refund(session, order_id, make_officer(session))
        topics = session.scalars(
            select(OutboxEvent.topic).where(OutboxEvent.payload["orderId"].astext == str(order_id))
        ).all()
        assert DISPUTED_ORDER_REFUNDED_TOPIC in topics
        for _ in range(2):
            handle_refund_of_disputed_order(session, {"orderId": str(order_id)}, NOW)
        dispute = session.get_one(Dispute, UUID(dispute_id))
        assert (dispute.status, dispute.vendor_minor) == ("resolved_buyer", 0)


def test_lists_show_own_disputes_and_all_to_officers(parties: Parties) -> None:
    first = parties.opened(parties.http.shipped())
    second = parties.opened(parties.http.shipped())
    for headers in (parties.buyer, parties.vendor):
        listed = parties.http.get(DISPUTES, headers).json["data"]
        assert [dispute["id"] for dispute in listed] == [second, first]
    parties.rule(first, "release_vendor")
    unresolved = parties.http.get(DISPUTES, parties.officer, status="unresolved", limit=100).json["data"]
    ids = {dispute["id"] for dispute in unresolved}
    assert second in ids
    assert first not in ids
    assert parties.http.get(DISPUTES, parties.http.officer("finance")).json["data"] == []


def test_lists_and_cases_take_a_fixed_number_of_statements(
    parties: Parties, paying_services: Services
) -> None:
    counts: dict[str, set[int]] = {"list": set(), "case": set()}
    for _ in range(3):
        dispute_id = parties.opened(parties.http.shipped())
        parties.act(dispute_id, "offers", parties.vendor, {"buyerAmountMinor": 100})
        for name, path in (("list", DISPUTES), ("case", f"{DISPUTES}/{dispute_id}")):
            with counted_statements(paying_services.database) as seen:
                parties.http.get(path, parties.buyer)
            counts[name].add(len(seen))
    assert [len(found) for found in counts.values()] == [1, 1]
    assert max(counts["case"]) <= 8
