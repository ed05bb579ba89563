"""A refund whose buyer has the money, and that the gateway sends after all: booked, and owed."""

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
    cancelled_order,
    mend_refund,
    owed_by,
    refund,
    refunds_of,
    say,
    times_to_ask,
)
from tests.support.purchases import (
    NOW,
    Shop,
    assert_books_are_whole,
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
def made(session: Session, officer: Caller, order_id: UUID) -> GatewayRefund:
    """A refund that needed attention, and that its buyer's wallet got; as the gateway tells that it sent it."""
    [row] = refunds_of(session, order_id)
    say(session, row["id"], "needs-attention", id="77")
    mend(session, row["id"], officer, states.CREDIT, "needs-attention")
    return GatewayRefund(
        "77", "processed", row["amount_minor"], gateway_refund.refund_reference(row["id"], 1)
    )


@pytest.fixture
def refund_id(session: Session, order_id: UUID) -> UUID:
    [row] = refunds_of(session, order_id)
    found: UUID = row["id"]
    return found


def mend(session: Session, refund_id: UUID, officer: Caller, trigger: str, word: str) -> None:
    row = row_of(session, "refunds", id=refund_id)
    said = GatewayRefund(
        "77", word, row["amount_minor"], gateway_refund.refund_reference(refund_id, row["attempt"])
    )
    mend_refund(session, refund_id, officer, trigger, said)


def settle(session: Session, refund_id: UUID, told: GatewayRefund) -> str:
    return gateway_refund.apply_gateway_status(session, refund_id=refund_id, reported=told, now=NOW)


def spend(session: Session, shop: Shop, minor: int) -> UUID:
    """Have a buyer put money of their wallet into an order."""
    return place(session, shop, make_product(session, shop, price_minor=1_000_000), wallet=WalletUse(minor))


def bodies_of(session: Session, user_id: UUID, kind: str) -> list[str]:
    found = session.execute(
        text("SELECT body FROM notifications WHERE user_id = :id AND type = :kind ORDER BY id"),
        {"id": user_id, "kind": kind},
    )
    return list(found.scalars())


class TestAfterTheCredit:
    def test_a_wallet_that_has_it_gives_it_back(
        self, session: Session, shop: Shop, refund_id: UUID, made: GatewayRefund
    ) -> None:
        before = fetch_balances_by_kind(session)["gateway_clearing"]
        fill_wallet(session, shop.buyer.id, 500)

        assert settle(session, refund_id, made) == "credited"

        amount = made.amount_minor
        assert wallet_of(session, shop.buyer.id) == 500
        assert owed_by(session, shop.buyer.id) == 0
        # What was filled in came by the gateway too.
        assert fetch_balances_by_kind(session)["gateway_clearing"] == before + 500 - amount
        assert row_of(session, "refunds", id=refund_id)["paid_twice_minor"] == amount
        assert open_about(session, f"refund:{refund_id}") == {"REFUND_SENT_TWICE": "SEV-1"}
        [body] = bodies_of(session, shop.buyer.id, "refund_paid_twice")
        assert f"We took {format_naira(amount)} from your wallet" in body
        assert "owe" not in body
        assert_books_are_whole(session)

    def test_what_was_spent_is_owed(
        self, session: Session, shop: Shop, refund_id: UUID, made: GatewayRefund
    ) -> None:
        spend(session, shop, made.amount_minor - 1_000)

        settle(session, refund_id, made)

        owed = made.amount_minor - 1_000
        assert (wallet_of(session, shop.buyer.id), owed_by(session, shop.buyer.id)) == (0, owed)
        [body] = bodies_of(session, shop.buyer.id, "refund_paid_twice")
        assert f"You owe us {format_naira(owed)}" in body
        assert_books_are_whole(session)

    def test_however_often_it_is_told_it_is_booked_once(
        self, session: Session, shop: Shop, refund_id: UUID, made: GatewayRefund
    ) -> None:
        for _ in range(3):
            settle(session, refund_id, made)

        assert row_of(session, "refunds", id=refund_id)["paid_twice_minor"] == made.amount_minor
        assert wallet_of(session, shop.buyer.id) == 0
        assert len(bodies_of(session, shop.buyer.id, "refund_paid_twice")) == 1
        assert_books_are_whole(session)

    @pytest.mark.parametrize("named", [True, False])
    def test_an_event_has_the_gateway_asked_before_the_wallet_gives_anything_back(
        self, session: Session, shop: Shop, order_id: UUID, refund_id: UUID, made: GatewayRefund, named: bool
    ) -> None:
        session.execute(
            text("UPDATE refunds SET asked_at = :now WHERE id = :id"), {"now": NOW, "id": refund_id}
        )
        reference = row_of(session, "orders", id=order_id)["payment_reference"]
        bare = GatewayRefund("", "processed", made.amount_minor, "", reference)

        assert gateway_reports.handle_refund_event(session, reported=made if named else bare, now=NOW)

        assert row_of(session, "refunds", id=refund_id)["paid_twice_minor"] == 0
        assert times_to_ask(session, refund_id) == 1
        found = gateway_reports.find_refund(session, refund_id=refund_id)
        assert not gateway_reports.record_status(session, found, [made], NOW)
        assert row_of(session, "refunds", id=refund_id)["paid_twice_minor"] == made.amount_minor
        assert_books_are_whole(session)

    @pytest.mark.parametrize("spent", [False, True])
    def test_what_comes_back_is_the_buyers_again(
        self, session: Session, shop: Shop, refund_id: UUID, made: GatewayRefund, spent: bool
    ) -> None:
        amount = made.amount_minor
        if spent:
            spend(session, shop, amount - 100)
        before = {"buyer_receivable": 0} | fetch_balances_by_kind(session)
        charge_id = row_of(session, "refunds", id=refund_id)["charge_id"]
        left = row_of(session, "gateway_charges", id=charge_id)["refunded_minor"]
        settle(session, refund_id, made)
        failed = replace(made, status="failed")

        assert gateway_reports.handle_refund_event(session, reported=failed, now=NOW)
        assert times_to_ask(session, refund_id) == 1
        for _ in range(2):
            assert settle(session, refund_id, failed) == "credited"
        buyer_accounts.offset_against_wallet(session, buyer_id=shop.buyer.id, now=NOW)

        assert wallet_of(session, shop.buyer.id) == (100 if spent else amount)
        assert owed_by(session, shop.buyer.id) == 0
        assert {"buyer_receivable": 0} | fetch_balances_by_kind(session) == before
        assert row_of(session, "refunds", id=refund_id)["paid_twice_minor"] == 0
        assert row_of(session, "gateway_charges", id=charge_id)["refunded_minor"] == left
        assert len(bodies_of(session, shop.buyer.id, "wallet_credited")) == 2
        assert_books_are_whole(session)

    def test_nothing_else_that_is_told_changes_anything(
        self, session: Session, refund_id: UUID, made: GatewayRefund
    ) -> None:
        before = fetch_balances_by_kind(session)

        for word in ("pending", "processing", "failed", "needs-attention"):
            assert say(session, refund_id, word) == "credited"

        assert fetch_balances_by_kind(session) == before
        assert row_of(session, "refunds", id=refund_id)["paid_twice_minor"] == 0

    def test_the_charge_has_nothing_left_to_refund(
        self, session: Session, refund_id: UUID, made: GatewayRefund
    ) -> None:
        charge_id = row_of(session, "refunds", id=refund_id)["charge_id"]
        assert row_of(session, "gateway_charges", id=charge_id)["refunded_minor"] == 0

        settle(session, refund_id, made)

        charge = row_of(session, "gateway_charges", id=charge_id)
        assert charge["refunded_minor"] == charge["principal_minor"]

    def test_finance_sees_it_and_what_is_owed(
        self, session: Session, shop: Shop, officer: Caller, refund_id: UUID, made: GatewayRefund
    ) -> None:
        spend(session, shop, made.amount_minor)
        other = paid_order(session, shop)
        refund(session, other, officer, amount_minor=1_000)
        settle(session, refund_id, made)

        listed = admin_queries.list_refunds(
            session,
            status=admin_queries.PAID_TWICE_FILTER,
            page=TableRequest(number=1, limit=50, sort="created_at", descending=True),
            now=NOW,
        )

        mine = [row for row in listed.items if row.buyer.id == shop.buyer.id]
        assert [(row.id, row.paid_twice_minor, row.buyer_owes_minor) for row in mine] == [
            (refund_id, made.amount_minor, made.amount_minor)
        ]

    def test_the_order_tells_where_the_money_is(
        self, session: Session, shop: Shop, order_id: UUID, refund_id: UUID, made: GatewayRefund
    ) -> None:
        spend(session, shop, made.amount_minor - 1_000)
        settle(session, refund_id, made)

        found = build_money_trail(session, order_id=order_id, caller=shop.buyer)

        last = found.entries[-1]
        assert (last.kind, last.amount_minor, last.from_, last.to) == (
            "refund_sent_twice",
            made.amount_minor,
            "gateway",
            "buyer",
        )


class TestAnEarlierTry:
    """The gateway had told that it failed; it was sent all the same."""

    @pytest.fixture
    def failed(self, session: Session, officer: Caller, refund_id: UUID) -> GatewayRefund:
        """Its second try waits; as the gateway tells that it sent the first one."""
        say(session, refund_id, "failed", id="77")
        mend(session, refund_id, officer, states.RETRY, "failed")
        amount = row_of(session, "refunds", id=refund_id)["amount_minor"]
        return GatewayRefund("77", "processed", amount, gateway_refund.refund_reference(refund_id, 1))

    def test_is_the_refund_if_the_next_one_was_not_asked_for(
        self, session: Session, shop: Shop, refund_id: UUID, failed: GatewayRefund
    ) -> None:
        assert settle(session, refund_id, failed) == "processed"

        assert gateway_refund.lease_refund(session, refund_id=refund_id, now=NOW) is None
        assert settle(session, refund_id, failed) == "processed"
        assert row_of(session, "refunds", id=refund_id)["paid_twice_minor"] == 0
        assert_books_are_whole(session)

    @pytest.mark.parametrize("word", ["failed", "needs-attention"])
    def test_is_the_refund_if_the_next_one_did_not_succeed(
        self, session: Session, refund_id: UUID, failed: GatewayRefund, word: str
    ) -> None:
        gateway_refund.lease_refund(session, refund_id=refund_id, now=NOW)
        say(session, refund_id, word, id="78")

        assert settle(session, refund_id, failed) == "processed"

        assert row_of(session, "refunds", id=refund_id)["paid_twice_minor"] == 0
        assert_books_are_whole(session)

    @pytest.mark.parametrize("first", ["the present one", "the earlier one"])
    def test_is_owed_if_both_are_sent(
        self, session: Session, shop: Shop, refund_id: UUID, failed: GatewayRefund, first: str
    ) -> None:
        gateway_refund.lease_refund(session, refund_id=refund_id, now=NOW)
        second = GatewayRefund(
            "78", "processed", failed.amount_minor, gateway_refund.refund_reference(refund_id, 2)
        )
        told = [second, failed] if first == "the present one" else [failed, second]

        for said in [*told, *told]:
            settle(session, refund_id, said)

        row = row_of(session, "refunds", id=refund_id)
        assert (row["status"], row["paid_twice_minor"]) == ("processed", failed.amount_minor)
        assert owed_by(session, shop.buyer.id) == failed.amount_minor
        assert_books_are_whole(session)

    def test_once_it_is_owed_it_stays_so_though_the_next_one_fails(
        self, session: Session, shop: Shop, officer: Caller, refund_id: UUID, failed: GatewayRefund
    ) -> None:
        """Then finance has the refund still to give, which makes good what is owed."""
        gateway_refund.lease_refund(session, refund_id=refund_id, now=NOW)
        say(session, refund_id, "pending", id="78")
        settle(session, refund_id, failed)
        say(session, refund_id, "failed", id="78")

        assert settle(session, refund_id, failed) == "failed"
        mend(session, refund_id, officer, states.CREDIT, "failed")
        assert settle(session, refund_id, failed) == "credited"

        assert row_of(session, "refunds", id=refund_id)["paid_twice_minor"] == failed.amount_minor
        assert buyer_accounts.offset_against_wallet(session, buyer_id=shop.buyer.id, now=NOW)
        assert (wallet_of(session, shop.buyer.id), owed_by(session, shop.buyer.id)) == (0, 0)
        assert_books_are_whole(session)

    @pytest.mark.parametrize("trigger", [states.RETRY, states.CREDIT])
    def test_once_it_is_owed_it_does_not_keep_the_next_one_from_being_mended(
        self, session: Session, officer: Caller, refund_id: UUID, failed: GatewayRefund, trigger: str
    ) -> None:
        """The gateway tells of it for ever as sent."""
        gateway_refund.lease_refund(session, refund_id=refund_id, now=NOW)
        say(session, refund_id, "pending", id="78")
        settle(session, refund_id, failed)
        second = replace(
            failed, id="78", status="failed", merchant_note=gateway_refund.refund_reference(refund_id, 2)
        )
        settle(session, refund_id, second)

        done = mend_refund(session, refund_id, officer, trigger, failed, second)

        assert done.status == ("pending" if trigger == states.RETRY else "credited")
        assert_books_are_whole(session)


class TestCollecting:
    @pytest.fixture
    def owed(self, session: Session, shop: Shop, refund_id: UUID, made: GatewayRefund) -> int:
        spend(session, shop, made.amount_minor)
        settle(session, refund_id, made)
        return made.amount_minor

    def test_what_the_wallet_receives_goes_to_the_debt(self, session: Session, shop: Shop, owed: int) -> None:
        buyer_id = shop.buyer.id
        fill_wallet(session, buyer_id, owed - 300)

        assert buyer_accounts.offset_against_wallet(session, buyer_id=buyer_id, now=NOW)
        assert (wallet_of(session, buyer_id), owed_by(session, buyer_id)) == (0, 300)
        assert not buyer_accounts.offset_against_wallet(session, buyer_id=buyer_id, now=NOW)
        fill_wallet(session, buyer_id, 1_000)
        assert buyer_accounts.offset_against_wallet(session, buyer_id=buyer_id, now=NOW)

        assert (wallet_of(session, buyer_id), owed_by(session, buyer_id)) == (700, 0)
        bodies = bodies_of(session, buyer_id, "debt_collected")
        assert [body.rsplit(". ", 1)[-1] for body in bodies] == [
            f"You still owe us {format_naira(300)}.",
            "You do not owe us anything more.",
        ]
        assert_books_are_whole(session)


def move(session: Session, source: str, debit: accounts.Account, credit: accounts.Account) -> None:
    postings = [Posting(debit, "debit", 500), Posting(credit, "credit", 500)]
    post_transaction(
        session, kind="debt_collected", source=source, description="Of tests", postings=postings, now=NOW
    )


def test_a_debt_that_can_not_be_collected_keeps_no_other_waiting(database: Database) -> None:
    """The set-off of the first one is posted already, which no set-off of theirs ever was."""
    with database.transaction() as session:
        first, behind = sorted((make_person(session).id for _ in range(2)), key=str)
        for buyer_id in (first, behind):
            fill_wallet(session, buyer_id, 500)
            move(session, f"test:{buyer_id}", accounts.buyer_receivable(buyer_id), accounts.GATEWAY_CLEARING)
        move(session, f"debt:{first}:0", accounts.GATEWAY_CLEARING, accounts.OWN_FUNDS)

    collected = buyer_accounts.offset_buyer_debts(database, now=NOW)

    with database.transaction() as session:
        assert collected == 1
        assert [owed_by(session, buyer_id) for buyer_id in (first, behind)] == [500, 0]
        assert [wallet_of(session, buyer_id) for buyer_id in (first, behind)] == [500, 0]
        # Let it not be in the way of other tests.
        move(session, f"test:{first}:over", accounts.wallet(first), accounts.buyer_receivable(first))


def test_the_gateway_is_asked_about_credited_ones_for_a_month(
    session: Session, refund_id: UUID, made: GatewayRefund
) -> None:
    def quiet(days: int) -> bool:
        now = later(days=days)
        rows = gateway_reports._SELECT_REFUNDS_TO_POLL.all(
            session,
            before=now - gateway_reports.POLL_AFTER,
            day_before=now - timedelta(days=1),
            watched_since=now - timedelta(days=30),
            limit=500,
        )
        return refund_id in {row.id for row in rows}

    assert [quiet(days) for days in (0, 1, 29, 30)] == [False, True, True, False]

    settle(session, refund_id, made)
    assert not quiet(1)
