"""Kinds of proposals: displayed effects, applied changes, and refusals during switch-offs and payout halts."""

import re
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.catalog import stock
from marketplace.kernel.clock import iso
from marketplace.ledger import accounts
from marketplace.ledger.queries import fetch_balance
from marketplace.orders.vendor_escrow_balance import fetch_vendor_escrow_balance
from marketplace.payments.integrity.drift import raise_drift_and_halt_payouts
from marketplace.payouts.batches import staging
from marketplace.payouts.withdrawals import request_cash_out, request_payout
from marketplace.platform import features, halts
from marketplace.platform.queries import fetch_platform_settings
from marketplace.proposals import queries
from marketplace.proposals.kinds import CHANGES
from marketplace.proposals.operations import StaleProposalError
from tests.support.payouts import intents_of, make_payee, make_wallet_payee
from tests.support.proposals import (
    FEE,
    approve,
    make_admin,
    proposal_row,
    proposals_filed,
    propose,
    setting,
)
from tests.support.purchases import (
    COMMISSION_BPS,
    NOW,
    SERVICE_FEE_MINOR,
    Shop,
    later,
    make_category,
    make_product,
    place,
    release,
    row_of,
    shipped_order,
)


class TestKinds:
    def test_each_proposal_kind_of_the_database_has_a_handler(self, session: Session) -> None:
        rule = session.execute(
            text("SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conname = :name"),
            {"name": "ck_platform_proposals_kind"},
        ).scalar_one()
        assert set(re.findall(r"'(\w+)'", rule)) == set(CHANGES)

    def test_new_fee_applies_to_later_orders_only(self, session: Session, shop: Shop) -> None:
        running = place(session, shop, make_product(session, shop))
        approve(session, propose(session, "fee", {"key": "commission_bps", "value": 1_000}))
        approve(session, propose(session))
        new = place(session, shop, make_product(session, shop))

        assert [row_of(session, "orders", id=order)["service_fee_minor"] for order in (running, new)] == [
            SERVICE_FEE_MINOR,
            FEE["value"],
        ]
        assert [
            row_of(session, "order_items", order_id=order)["commission_bps"] for order in (running, new)
        ] == [
            COMMISSION_BPS,
            1_000,
        ]

    def test_order_is_released_with_fees_of_placement(self, session: Session, shop: Shop) -> None:
        running = shipped_order(session, shop)
        share_minor = fetch_vendor_escrow_balance(session, vendor_id=shop.store_id).held_minor
        for key, value in (("commission_bps", 1_000), ("service_fee_minor", 0), ("delivery_fee_minor", 0)):
            approve(session, propose(session, "fee", {"key": key, "value": value}))
        payload = {"category_id": shop.category_id, "commission_bps": 2_000}
        approve(session, propose(session, "category_commission", payload))

        release(session, shop, running)

        assert fetch_balance(session, account=accounts.vendor_payable(shop.store_id)) == share_minor

    def test_category_commission_is_set_and_removed(self, session: Session, shop: Shop) -> None:
        def change(bps: int | None) -> dict[str, Any]:
            payload = {"category_id": shop.category_id, "commission_bps": bps}
            proposal_id = propose(session, "category_commission", payload)
            approve(session, proposal_id)
            return proposal_row(session, proposal_id)

        make_product(session, shop)
        running = place(session, shop, make_product(session, shop))
        raised = change(1_200)
        ordered = place(session, shop, make_product(session, shop))
        assert row_of(session, "order_items", order_id=running)["commission_bps"] == COMMISSION_BPS
        assert row_of(session, "order_items", order_id=ordered)["commission_bps"] == 1_200
        assert raised["before"]["commissionBps"] is None
        assert raised["after"]["category"] == "Lamps"
        assert raised["effect"]["publishedProducts"] == 2
        sample = raised["effect"]["sampleOrder"]
        assert [sample[when]["commissionMinor"] for when in ("before", "after")] == [50_000, 120_000]
        assert sample["before"]["totalMinor"] == sample["after"]["totalMinor"]

        dropped = change(None)
        assert dropped["effect"]["sampleOrder"]["after"]["commissionMinor"] == 50_000
        again = place(session, shop, make_product(session, shop))
        assert row_of(session, "order_items", order_id=again)["commission_bps"] == COMMISSION_BPS

    def test_category_commission_is_inherited_unless_overridden(self, session: Session, shop: Shop) -> None:
        def change(category_id: UUID, bps: int | None) -> dict[str, Any]:
            payload = {"category_id": category_id, "commission_bps": bps}
            proposal_id = propose(session, "category_commission", payload)
            approve(session, proposal_id)
            effect = proposal_row(session, proposal_id)["effect"]
            sample = effect["sampleOrder"]
            minor = [sample[when]["commissionMinor"] for when in ("before", "after")]
            return {"products": effect["publishedProducts"], "minor": minor}

        def rates() -> list[int | None]:
            locked = stock.lock_products(session, product_ids=products)
            return [locked[one].commission_bps for one in products]

        root = make_category(session)
        own = make_category(session, below=root, commission_bps=700)
        free = make_category(session, below=root)
        below_own = make_category(session, below=own)
        below_free = make_category(session, below=free)
        listed = (root, own, free, below_own, below_free)
        products = [make_product(session, replace(shop, category_id=one)) for one in listed]
        make_product(session, replace(shop, category_id=below_free), status="draft")

        assert change(root, 300) == {"products": 3, "minor": [50_000, 30_000]}
        assert rates() == [300, 700, 300, 700, 300]
        ordered = place(session, shop, products[-1])
        assert row_of(session, "order_items", order_id=ordered)["commission_bps"] == 300
        assert change(own, None) == {"products": 2, "minor": [70_000, 30_000]}
        assert change(below_own, 0) == {"products": 1, "minor": [30_000, 0]}
        assert change(own, 900) == {"products": 1, "minor": [30_000, 90_000]}
        assert rates() == [300, 900, 300, 0, 300]
        assert change(root, None) == {"products": 3, "minor": [30_000, 50_000]}
        assert rates() == [None, 900, None, 0, None]

    def test_commission_change_keeps_commission_of_other_categories(
        self, session: Session, shop: Shop
    ) -> None:
        other = make_category(session, commission_bps=700)
        payload = {"category_id": shop.category_id, "commission_bps": 100}
        approve(session, propose(session, "category_commission", payload))
        assert row_of(session, "categories", id=other)["commission_bps"] == 700

    def test_referral_proposal_shows_all_terms_and_applies(self, session: Session) -> None:
        key = "referral_monthly_cap"
        proposal_id = propose(session, "fee", {"key": key, "value": 3})

        terms = proposal_row(session, proposal_id)["effect"]["referralTerms"]
        assert (terms["before"][key], terms["after"][key]) == (10, 3)
        assert terms["after"] == terms["before"] | {key: 3}
        approve(session, proposal_id)
        assert setting(session, key) == 3

    def test_minimum_payout_proposal_counts_affected_vendors(self, session: Session) -> None:
        proposal_id = propose(session, "fee", {"key": "minimum_payout_minor", "value": 200_000})
        counts = proposal_row(session, proposal_id)["effect"]["vendorsWithAtLeast"]
        assert counts["after"] <= counts["before"]
        approve(session, proposal_id)
        assert setting(session, "minimum_payout_minor") == 200_000

    def test_disabled_feature_is_refused(self, session: Session, shop: Shop) -> None:
        product = make_product(session, shop)
        approve(session, propose(session, "feature_flag", {"key": "checkout", "enabled": False}))
        with pytest.raises(features.FeatureUnavailableError):
            place(session, shop, product)
        approve(session, propose(session, "feature_flag", {"key": "checkout", "enabled": True}))
        place(session, shop, product)

    def test_unknown_feature_flag_is_stored_for_clients(self, session: Session) -> None:
        proposal_id = propose(session, "feature_flag", {"key": "new-look", "enabled": True})
        approve(session, proposal_id)
        row = proposal_row(session, proposal_id)
        assert row["before"] == {"key": "new-look", "enabled": None}
        assert row["effect"]["usedByService"] is False
        assert features.read_features(fetch_platform_settings(session))["new-look"] is True

    def test_order_is_refused_during_maintenance_until_maintenance_ends(
        self, session: Session, shop: Shop
    ) -> None:
        product = make_product(session, shop)
        payload = {"active": True, "message": "New shelves.", "until": later(hours=2)}
        approve(session, propose(session, "maintenance", payload))

        with pytest.raises(features.FeatureUnavailableError, match="New shelves") as refused:
            place(session, shop, product)
        assert refused.value.retry_after_seconds == 3600
        place(session, shop, product, now=later(hours=2))

    def test_maintenance_proposals_apply_regardless_of_previous_state(self, session: Session) -> None:
        on, off = (propose(session, "maintenance", {"active": active}) for active in (True, False))
        approve(session, on)
        approve(session, off)
        assert setting(session, "maintenance")["active"] is False


class TestResuming:
    def test_two_officers_resume_payouts(self, session: Session) -> None:
        halts.halt_payouts(session, "ESCROW_DRIFT: a rule", NOW)
        proposal_id = propose(session, "payout_resume", {"reason": "Mended."})
        row = proposal_row(session, proposal_id)
        assert (row["before"]["halted"], row["before"]["haltReason"]) == (True, "ESCROW_DRIFT: a rule")
        assert row["effect"] == {"resumes": True, "openDrifts": []}
        assert (row["before"]["findings"], row["after"]["findings"]) == (1, 0)
        assert halts.are_payouts_halted(session)

        approve(session, proposal_id, now=later(hours=1))

        assert not halts.are_payouts_halted(session)
        halt = row_of(session, "payout_halts", proposal_id=proposal_id)
        assert halt["resumed_at"] == later(hours=1)

    def test_resume_proposal_does_not_apply_to_later_halt(self, session: Session) -> None:
        halts.halt_payouts(session, "ESCROW_DRIFT: a rule", NOW)
        before, during = (propose(session, "payout_resume", {"reason": "Mended."}) for _ in range(2))
        approve(session, during)
        halts.halt_payouts(session, "ESCROW_DRIFT: another", later(hours=1))
        again = propose(session, "payout_resume", {"reason": "Mended."})

        with pytest.raises(StaleProposalError):
            approve(session, before)
        assert halts.are_payouts_halted(session)
        approve(session, again)
        assert not halts.are_payouts_halted(session)

    def test_resume_is_refused_while_payouts_are_not_halted(self, session: Session) -> None:
        before = proposals_filed(session)
        with pytest.raises(halts.PayoutsNotHaltedError, match="nothing to resume"):
            propose(session, "payout_resume", {"reason": "In case."})
        assert proposals_filed(session) == before

    @pytest.mark.parametrize("subject", ["a rule", "another"])
    def test_resume_proposal_is_stale_after_new_drift(self, session: Session, subject: str) -> None:
        def drift(of: str, minor: int) -> None:
            facts = {"driftMinor": minor}
            raise_drift_and_halt_payouts(
                session, subject=of, title="Drift", facts=facts, findings=minor, now=NOW
            )

        drift("a rule", 500)
        proposer, other = make_admin(session), make_admin(session)
        proposal_id = propose(session, "payout_resume", {"reason": "Mended."}, by=proposer)
        drift("a rule", 500)
        as_filed = queries.show_proposal(session, proposal_id=proposal_id, caller=other, now=NOW)
        drift(subject, 700)
        shown = queries.show_proposal(session, proposal_id=proposal_id, caller=other, now=NOW)

        assert as_filed.current == as_filed.before
        assert [(item["reason"], item["facts"]) for item in as_filed.before["found"]] == [
            ("ESCROW_DRIFT: a rule", {"driftMinor": 500})
        ]
        assert as_filed.effect == {"resumes": True, "openDrifts": ["a rule"]}
        assert shown.before == as_filed.before
        assert {"reason": f"ESCROW_DRIFT: {subject}", "facts": {"driftMinor": 700}, "foundAt": iso(NOW)} in (
            shown.current["found"]
        )
        assert shown.effect == {"resumes": False, "openDrifts": sorted({"a rule", subject})}
        with pytest.raises(StaleProposalError):
            approve(session, proposal_id, by=other)
        assert halts.are_payouts_halted(session)

        approve(session, propose(session, "payout_resume", {"reason": "Looked at both."}))
        drift(subject, 700)
        assert not halts.are_payouts_halted(session)

    def test_schedule_stages_no_payouts_while_halted(self, session: Session) -> None:
        payee = make_payee(session)
        halts.halt_payouts(session, "ESCROW_DRIFT: a rule", NOW)
        assert staging.stage_on_schedule(session, now=NOW).batch_id is None

        approve(session, propose(session, "payout_resume", {"reason": "Mended."}))

        assert staging.stage_on_schedule(session, now=NOW).batch_id is not None
        assert [intent["status"] for intent in intents_of(session, payee)] == ["pending"]


class TestPayoutSwitch:
    def test_schedule_stages_no_payouts_while_feature_is_off(self, session: Session) -> None:
        make_payee(session)
        approve(session, propose(session, "feature_flag", {"key": "scheduled_payouts", "enabled": False}))
        assert staging.stage_on_schedule(session, now=NOW).batch_id is None
        approve(session, propose(session, "feature_flag", {"key": "scheduled_payouts", "enabled": True}))
        assert staging.stage_on_schedule(session, now=NOW).batch_id is not None

    @pytest.mark.parametrize("by", ["flag", "maintenance"])
    def test_withdrawal_is_refused_while_switched_off(self, session: Session, by: str) -> None:
        vendor, customer = make_payee(session), make_wallet_payee(session)
        if by == "maintenance":
            approve(session, propose(session, "maintenance", {"active": True}))
        else:
            for key in ("early_withdrawals", "wallet_cash_outs"):
                approve(session, propose(session, "feature_flag", {"key": key, "enabled": False}))

        with pytest.raises(features.FeatureUnavailableError):
            request_payout(session, caller=vendor.user, amount_minor=200_000, now=NOW)
        with pytest.raises(features.FeatureUnavailableError):
            request_cash_out(session, caller=customer.user, amount_minor=200_000, now=NOW)
        assert intents_of(session, vendor) == intents_of(session, customer) == []
