"""Duplicate refunds: the gateway sends money that the buyer already has, and the buyer owes the duplicate."""

from dataclasses import replace
from datetime import timedelta
from uuid import UUID

import pytest
from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.identity.queries import Caller
from marketplace.infra.db import Database
from marketplace.kernel.money import format_naira
from marketplace.kernel.paging import TableRequest
from marketplace.ledger import accounts
from marketplace.ledger.operations import Posting, post_transaction
from marketplace.ledger.queries import fetch_balances_by_kind
from marketplace.orders.placing.place_order import WalletUse
from marketplace.payments import admin_queries, states
from marketplace.payments.money_trail.build import build_money_trail
from marketplace.payments.refunds import buyer_accounts, gateway_refund, gateway_reports
from marketplace.providers.gateway.payloads import GatewayRefund
from tests.support.alerts import open_about
from tests.support.finance import (
    buyer_debt_of,
    cancelled_order,
    count_status_requests,
    recover_refund,
    refund,
    refunds_of,
    report_refund_status,
)
from tests.support.purchases import (
    NOW,
    Shop,
    assert_ledger_is_consistent,
    fill_wallet,
    later,
    make_person,
    make_product,
    paid_order,
    place,
    row_of,
    wallet_of,
)


@pytest.fixture
def order_id(session: Session, shop: Shop) -> UUID:
    return cancelled_order(session, shop)


@pytest.fixture
def late_report(session: Session, officer: Caller, order_id: UUID) -> GatewayRefund:
    """The late success report of a refund that was already credited to the wallet."""
    [row] = refunds_of(session, order_id)
    report_refund_status(session, row["id"], "needs-attention", id="77")
    resolve_refund(session, row["id"], officer, states.CREDIT, "needs-attention")
    return GatewayRefund(
        "77", "processed", row["amount_minor"], gateway_refund.refund_reference(row["id"], 1)
    )


@pytest.fixture
def refund_id(session: Session, order_id: UUID) -> UUID:
    [row] = refunds_of(session, order_id)
    found: UUID = row["id"]
    return found


def resolve_refund(session: Session, refund_id: UUID, officer: Caller, trigger: str, status: str) -> None:
    row = row_of(session, "refunds", id=refund_id)
    report = GatewayRefund(
        "77", status, row["amount_minor"], gateway_refund.refund_reference(refund_id, row["attempt"])
    )
    recover_refund(session, refund_id, officer, trigger, report)


def apply_report(session: Session, refund_id: UUID, report: GatewayRefund) -> str:
    return gateway_refund.apply_gateway_status(session, refund_id=refund_id, reported=report, now=NOW)


def spend(session: Session, shop: Shop, minor: int) -> UUID:
    """Spend an amount of the buyer's wallet on a new order."""
    return place(session, shop, make_product(session, shop, price_minor=1_000_000), wallet=WalletUse(minor))


def bodies_of(session: Session, user_id: UUID, kind: str) -> list[str]:
    found = session.execute(
        text("SELECT body FROM notifications WHERE user_id = :id AND type = :kind ORDER BY id"),
        {"id": user_id, "kind": kind},
    )
    return list(found.scalars())


class TestCreditedRefundSentLater:
    def test_duplicate_is_taken_from_the_wallet(
        self, session: Session, shop: Shop, refund_id: UUID, late_report: GatewayRefund
    ) -> None:
        before = fetch_balances_by_kind(session)["gateway_clearing"]
        fill_wallet(session, shop.buyer.id, 500)

        assert apply_report(session, refund_id, late_report) == "credited"

        amount = late_report.amount_minor
        assert wallet_of(session, shop.buyer.id) == 500
        assert buyer_debt_of(session, shop.buyer.id) == 0
        # The initial 500 kobo of the wallet came through the gateway too.
        assert fetch_balances_by_kind(session)["gateway_clearing"] == before + 500 - amount
        assert row_of(session, "refunds", id=refund_id)["paid_twice_minor"] == amount
        assert open_about(session, f"refund:{refund_id}") == {"REFUND_SENT_TWICE": "SEV-1"}
        [body] = bodies_of(session, shop.buyer.id, "refund_paid_twice")
        assert f"We took {format_naira(amount)} from your wallet" in body
        assert "owe" not in body
        assert_ledger_is_consistent(session)

    def test_spent_part_of_duplicate_is_buyer_debt(
        self, session: Session, shop: Shop, refund_id: UUID, late_report: GatewayRefund
    ) -> None:
        spend(session, shop, late_report.amount_minor - 1_000)

        apply_report(session, refund_id, late_report)

        debt = late_report.amount_minor - 1_000
        assert (wallet_of(session, shop.buyer.id), buyer_debt_of(session, shop.buyer.id)) == (0, debt)
        [body] = bodies_of(session, shop.buyer.id, "refund_paid_twice")
        assert f"You owe us {format_naira(debt)}" in body
        assert_ledger_is_consistent(session)

    def test_repeated_report_posts_duplicate_once(
        self, session: Session, shop: Shop, refund_id: UUID, late_report: GatewayRefund
    ) -> None:
        for _ in range(3):
            apply_report(session, refund_id, late_report)

        assert row_of(session, "refunds", id=refund_id)["paid_twice_minor"] == late_report.amount_minor
        assert wallet_of(session, shop.buyer.id) == 0
        assert len(bodies_of(session, shop.buyer.id, "refund_paid_twice")) == 1
        assert_ledger_is_consistent(session)

    @pytest.mark.parametrize("named", [True, False])
    def test_event_polls_the_gateway_before_debiting_the_wallet(
        self,
        session: Session,
        shop: Shop,
        order_id: UUID,
        refund_id: UUID,
        late_report: GatewayRefund,
        named: bool,
    ) -> None:
        session.execute(
            text("UPDATE refunds SET asked_at = :now WHERE id = :id"), {"now": NOW, "id": refund_id}
        )
        reference = row_of(session, "orders", id=order_id)["payment_reference"]
        bare = GatewayRefund("", "processed", late_report.amount_minor, "", reference)

        assert gateway_reports.handle_refund_event(session, reported=late_report if named else bare, now=NOW)

        assert row_of(session, "refunds", id=refund_id)["paid_twice_minor"] == 0
        assert count_status_requests(session, refund_id) == 1
        found = gateway_reports.find_refund(session, refund_id=refund_id)
        assert not gateway_reports.record_status(session, found, [late_report], NOW)
        assert row_of(session, "refunds", id=refund_id)["paid_twice_minor"] == late_report.amount_minor
        assert_ledger_is_consistent(session)

    @pytest.mark.parametrize("spent", [False, True])
    def test_returned_duplicate_is_credited_to_the_buyer_again(
        self, session: Session, shop: Shop, refund_id: UUID, late_report: GatewayRefund, spent: bool
    ) -> None:
        amount = late_report.amount_minor
        if spent:
            spend(session, shop, amount - 100)
        before = {"buyer_receivable": 0} | fetch_balances_by_kind(session)
        charge_id = row_of(session, "refunds", id=refund_id)["charge_id"]
        left = row_of(session, "gateway_charges", id=charge_id)["refunded_minor"]
        apply_report(session, refund_id, late_report)
        failure = replace(late_report, status="failed")

        assert gateway_reports.handle_refund_event(session, reported=failure, now=NOW)
        assert count_status_requests(session, refund_id) == 1
        for _ in range(2):
            assert apply_report(session, refund_id, failure) == "credited"
        buyer_accounts.offset_against_wallet(session, buyer_id=shop.buyer.id, now=NOW)

        assert wallet_of(session, shop.buyer.id) == (100 if spent else amount)
        assert buyer_debt_of(session, shop.buyer.id) == 0
        assert {"buyer_receivable": 0} | fetch_balances_by_kind(session) == before
        assert row_of(session, "refunds", id=refund_id)["paid_twice_minor"] == 0
        assert row_of(session, "gateway_charges", id=charge_id)["refunded_minor"] == left
        assert len(bodies_of(session, shop.buyer.id, "wallet_credited")) == 2
        assert_ledger_is_consistent(session)

    def test_reports_other_than_success_change_nothing(
        self, session: Session, refund_id: UUID, late_report: GatewayRefund
    ) -> None:
        before = fetch_balances_by_kind(session)

        for status in ("pending", "processing", "failed", "needs-attention"):
            assert report_refund_status(session, refund_id, status) == "credited"

        assert fetch_balances_by_kind(session) == before
        assert row_of(session, "refunds", id=refund_id)["paid_twice_minor"] == 0

    def test_duplicate_uses_up_refundable_amount_of_charge(
        self, session: Session, refund_id: UUID, late_report: GatewayRefund
    ) -> None:
        charge_id = row_of(session, "refunds", id=refund_id)["charge_id"]
        assert row_of(session, "gateway_charges", id=charge_id)["refunded_minor"] == 0

        apply_report(session, refund_id, late_report)

        charge = row_of(session, "gateway_charges", id=charge_id)
        assert charge["refunded_minor"] == charge["principal_minor"]

    def test_refund_list_shows_duplicate_and_buyer_debt(
        self, session: Session, shop: Shop, officer: Caller, refund_id: UUID, late_report: GatewayRefund
    ) -> None:
        spend(session, shop, late_report.amount_minor)
        other = paid_order(session, shop)
        refund(session, other, officer, amount_minor=1_000)
        apply_report(session, refund_id, late_report)

        listed = admin_queries.list_refunds(
            session,
            status=admin_queries.PAID_TWICE_FILTER,
            page=TableRequest(number=1, limit=50, sort="created_at", descending=True),
            now=NOW,
        )

        mine = [row for row in listed.items if row.buyer.id == shop.buyer.id]
        assert [(row.id, row.paid_twice_minor, row.buyer_owes_minor) for row in mine] == [
            (refund_id, late_report.amount_minor, late_report.amount_minor)
        ]

    def test_money_trail_shows_duplicate_as_last_entry(
        self, session: Session, shop: Shop, order_id: UUID, refund_id: UUID, late_report: GatewayRefund
    ) -> None:
        spend(session, shop, late_report.amount_minor - 1_000)
        apply_report(session, refund_id, late_report)

        found = build_money_trail(session, order_id=order_id, caller=shop.buyer)

        last = found.entries[-1]
        assert (last.kind, last.amount_minor, last.from_, last.to) == (
            "refund_sent_twice",
            late_report.amount_minor,
            "gateway",
            "buyer",
        )


class TestEarlierAttemptSentLate:
    """Attempts that the gateway first reports as failed and later as sent."""

    @pytest.fixture
    def first_attempt_report(self, session: Session, officer: Caller, refund_id: UUID) -> GatewayRefund:
        """The late success report of the first attempt, while the second attempt is pending."""
        report_refund_status(session, refund_id, "failed", id="77")
        resolve_refund(session, refund_id, officer, states.RETRY, "failed")
        amount = row_of(session, "refunds", id=refund_id)["amount_minor"]
        return GatewayRefund("77", "processed", amount, gateway_refund.refund_reference(refund_id, 1))

    def test_unrequested_second_attempt_is_skipped_when_first_attempt_was_sent(
        self, session: Session, shop: Shop, refund_id: UUID, first_attempt_report: GatewayRefund
    ) -> None:
        assert apply_report(session, refund_id, first_attempt_report) == "processed"

        assert gateway_refund.lease_refund(session, refund_id=refund_id, now=NOW) is None
        assert apply_report(session, refund_id, first_attempt_report) == "processed"
        assert row_of(session, "refunds", id=refund_id)["paid_twice_minor"] == 0
        assert_ledger_is_consistent(session)

    @pytest.mark.parametrize("status", ["failed", "needs-attention"])
    def test_first_attempt_settles_refund_if_second_attempt_was_unsuccessful(
        self, session: Session, refund_id: UUID, first_attempt_report: GatewayRefund, status: str
    ) -> None:
        gateway_refund.lease_refund(session, refund_id=refund_id, now=NOW)
        report_refund_status(session, refund_id, status, id="78")

        assert apply_report(session, refund_id, first_attempt_report) == "processed"

        assert row_of(session, "refunds", id=refund_id)["paid_twice_minor"] == 0
        assert_ledger_is_consistent(session)

    @pytest.mark.parametrize("first", ["second attempt", "first attempt"])
    def test_buyer_owes_duplicate_if_both_attempts_are_sent(
        self, session: Session, shop: Shop, refund_id: UUID, first_attempt_report: GatewayRefund, first: str
    ) -> None:
        gateway_refund.lease_refund(session, refund_id=refund_id, now=NOW)
        second = GatewayRefund(
            "78",
            "processed",
            first_attempt_report.amount_minor,
            gateway_refund.refund_reference(refund_id, 2),
        )
        reports = (
            [second, first_attempt_report] if first == "second attempt" else [first_attempt_report, second]
        )

        for report in [*reports, *reports]:
            apply_report(session, refund_id, report)

        row = row_of(session, "refunds", id=refund_id)
        assert (row["status"], row["paid_twice_minor"]) == ("processed", first_attempt_report.amount_minor)
        assert buyer_debt_of(session, shop.buyer.id) == first_attempt_report.amount_minor
        assert_ledger_is_consistent(session)

    def test_duplicate_stays_recorded_when_second_attempt_fails(
        self,
        session: Session,
        shop: Shop,
        officer: Caller,
        refund_id: UUID,
        first_attempt_report: GatewayRefund,
    ) -> None:
        """Finance then credits the failed refund, and the credit settles the buyer debt."""
        gateway_refund.lease_refund(session, refund_id=refund_id, now=NOW)
        report_refund_status(session, refund_id, "pending", id="78")
        apply_report(session, refund_id, first_attempt_report)
        report_refund_status(session, refund_id, "failed", id="78")

        assert apply_report(session, refund_id, first_attempt_report) == "failed"
        resolve_refund(session, refund_id, officer, states.CREDIT, "failed")
        assert apply_report(session, refund_id, first_attempt_report) == "credited"

        assert (
            row_of(session, "refunds", id=refund_id)["paid_twice_minor"] == first_attempt_report.amount_minor
        )
        assert buyer_accounts.offset_against_wallet(session, buyer_id=shop.buyer.id, now=NOW)
        assert (wallet_of(session, shop.buyer.id), buyer_debt_of(session, shop.buyer.id)) == (0, 0)
        assert_ledger_is_consistent(session)

    @pytest.mark.parametrize("trigger", [states.RETRY, states.CREDIT])
    def test_second_attempt_can_be_retried_or_credited_after_duplicate(
        self,
        session: Session,
        officer: Caller,
        refund_id: UUID,
        first_attempt_report: GatewayRefund,
        trigger: str,
    ) -> None:
        """The gateway keeps reporting the first attempt as sent."""
        gateway_refund.lease_refund(session, refund_id=refund_id, now=NOW)
        report_refund_status(session, refund_id, "pending", id="78")
        apply_report(session, refund_id, first_attempt_report)
        second = replace(
            first_attempt_report,
            id="78",
            status="failed",
            merchant_note=gateway_refund.refund_reference(refund_id, 2),
        )
        apply_report(session, refund_id, second)

        done = recover_refund(session, refund_id, officer, trigger, first_attempt_report, second)

        assert done.status == ("pending" if trigger == states.RETRY else "credited")
        assert_ledger_is_consistent(session)


class TestDebtCollection:
    @pytest.fixture
    def debt(self, session: Session, shop: Shop, refund_id: UUID, late_report: GatewayRefund) -> int:
        spend(session, shop, late_report.amount_minor)
        apply_report(session, refund_id, late_report)
        return late_report.amount_minor

    def test_wallet_credits_are_offset_against_buyer_debt(
        self, session: Session, shop: Shop, debt: int
    ) -> None:
        buyer_id = shop.buyer.id
        fill_wallet(session, buyer_id, debt - 300)

        assert buyer_accounts.offset_against_wallet(session, buyer_id=buyer_id, now=NOW)
        assert (wallet_of(session, buyer_id), buyer_debt_of(session, buyer_id)) == (0, 300)
        assert not buyer_accounts.offset_against_wallet(session, buyer_id=buyer_id, now=NOW)
        fill_wallet(session, buyer_id, 1_000)
        assert buyer_accounts.offset_against_wallet(session, buyer_id=buyer_id, now=NOW)

        assert (wallet_of(session, buyer_id), buyer_debt_of(session, buyer_id)) == (700, 0)
        bodies = bodies_of(session, buyer_id, "debt_collected")
        assert [body.rsplit(". ", 1)[-1] for body in bodies] == [
            f"You still owe us {format_naira(300)}.",
            "You do not owe us anything more.",
        ]
        assert_ledger_is_consistent(session)


def move(session: Session, source: str, debit: accounts.Account, credit: accounts.Account) -> None:
    postings = [Posting(debit, "debit", 500), Posting(credit, "credit", 500)]
    post_transaction(
        session, kind="debt_collected", source=source, description="Of tests", postings=postings, now=NOW
    )


def test_failed_debt_collection_does_not_block_other_buyers(database: Database) -> None:
    """The first buyer's offset fails, because a transaction with the same source already exists."""
    with database.transaction() as session:
        first, second = sorted((make_person(session).id for _ in range(2)), key=str)
        for buyer_id in (first, second):
            fill_wallet(session, buyer_id, 500)
            move(session, f"test:{buyer_id}", accounts.buyer_receivable(buyer_id), accounts.GATEWAY_CLEARING)
        move(session, f"debt:{first}:0", accounts.GATEWAY_CLEARING, accounts.OWN_FUNDS)

    collected = buyer_accounts.offset_buyer_debts(database, now=NOW)

    with database.transaction() as session:
        assert collected == 1
        assert [buyer_debt_of(session, buyer_id) for buyer_id in (first, second)] == [500, 0]
        assert [wallet_of(session, buyer_id) for buyer_id in (first, second)] == [500, 0]
        # Clean up: other tests share this database.
        move(session, f"test:{first}:over", accounts.wallet(first), accounts.buyer_receivable(first))


def test_credited_refund_is_polled_for_30_days(
    session: Session, refund_id: UUID, late_report: GatewayRefund
) -> None:
    def is_due_for_poll(days: int) -> bool:
        now = later(days=days)
        rows = gateway_reports._SELECT_REFUNDS_TO_POLL.all(
            session,
            before=now - gateway_reports.POLL_AFTER,
            day_before=now - timedelta(days=1),
            watched_since=now - timedelta(days=30),
            limit=500,
        )
        return refund_id in {row.id for row in rows}

    assert [is_due_for_poll(days) for days in (0, 1, 29, 30)] == [False, True, True, False]

    apply_report(session, refund_id, late_report)
    assert not is_due_for_poll(1)
