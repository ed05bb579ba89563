"""Two concurrent actions on an order: exactly one takes effect, and the ledger stays consistent."""

from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy.orm import Session

from marketplace.identity.queries import Caller
from marketplace.infra.db import Database
from marketplace.kernel.errors import ConflictError
from marketplace.kernel.states import IllegalTransitionError
from marketplace.ledger import accounts
from marketplace.ledger.queries import fetch_balance
from marketplace.orders import operations as orders
from marketplace.orders.placing.place_order import WalletUse
from marketplace.orders.states import DISPUTE
from marketplace.orders.transitions import SYSTEM, lock_order
from marketplace.payments import states
from marketplace.payments.charges import quarantine
from marketplace.payments.charges.apply import ChargeOutcome
from marketplace.payments.refunds import order_cancellation, recovery
from marketplace.payments.refunds.gateway_reports import PolledRefund
from tests.support.depth import case_count
from tests.support.finance import act_of, make_officer, refund, refunds_of, report_refund_status
from tests.support.purchases import (
    NOW,
    Shop,
    apply,
    assert_ledger_is_consistent,
    balances_of_order,
    make_charge,
    make_intent,
    make_product,
    make_shop,
    paid_order,
    place,
    release,
    row_of,
    shipped_order,
    status_of,
    trail_of,
    wallet_of,
    with_buyer,
)
from tests.support.threads import at_once, unexpected_errors

ROUNDS = case_count(4, deep=50)
Work = Callable[[Session, Shop, UUID], Any]


def pin(session: Session, shop: Shop, order_id: UUID) -> None:
    release(session, shop, order_id)


def confirm(session: Session, shop: Shop, order_id: UUID) -> None:
    orders.confirm_receipt(session, order_id=order_id, caller=shop.buyer, now=NOW)


def cancel(session: Session, shop: Shop, order_id: UUID) -> None:
    order_cancellation.cancel_order(session, order_id=order_id, caller=shop.buyer, reason=None, now=NOW)


def cancel_as_vendor(session: Session, shop: Shop, order_id: UUID) -> None:
    order_cancellation.cancel_order(session, order_id=order_id, caller=shop.vendor, reason=None, now=NOW)


def ship(session: Session, shop: Shop, order_id: UUID) -> None:
    orders.ship_order(session, order_id=order_id, caller=shop.vendor, tracking_note=None, now=NOW)


def expire(session: Session, shop: Shop, order_id: UUID) -> None:
    orders.expire_order(session, order=lock_order(session, order_id=order_id), actor=SYSTEM, now=NOW)


def freeze_order(session: Session, shop: Shop, order_id: UUID) -> None:
    orders.freeze_order(
        session,
        order=lock_order(session, order_id=order_id),
        trigger=DISPUTE,
        actor=SYSTEM,
        note="damaged",
        now=NOW,
    )


def processing_order(session: Session, shop: Shop) -> UUID:
    order_id = paid_order(session, shop)
    orders.accept_order(session, order_id=order_id, caller=shop.vendor, now=NOW)
    return order_id


def refund_whole(session: Session, shop: Shop, order_id: UUID) -> None:
    """Refund the full order by a new officer each time."""
    refund(session, order_id, make_officer(session))


def refund_to_wallet(session: Session, shop: Shop, order_id: UUID) -> None:
    refund(session, order_id, make_officer(session), destination="wallet")


RACES: dict[str, tuple[Callable[[Session, Shop], UUID], Work, Work, set[str]]] = {
    "double PIN": (shipped_order, pin, pin, {"delivered"}),
    "double confirm": (shipped_order, confirm, confirm, {"delivered"}),
    "PIN and confirm": (shipped_order, pin, confirm, {"delivered"}),
    "PIN and freeze": (shipped_order, pin, freeze_order, {"delivered", "disputed"}),
    "confirm and freeze": (shipped_order, confirm, freeze_order, {"delivered", "disputed"}),
    "cancel and ship": (processing_order, cancel, ship, {"cancelled", "shipped"}),
    "cancel by both sides": (paid_order, cancel, cancel_as_vendor, {"cancelled"}),
    "cancel and freeze": (paid_order, cancel, freeze_order, {"cancelled", "disputed"}),
    "double refund by two officers": (shipped_order, refund_whole, refund_whole, {"refunded"}),
    "refund to the bank and to the wallet": (paid_order, refund_whole, refund_to_wallet, {"refunded"}),
    "refund and cancel": (paid_order, refund_whole, cancel, {"refunded", "cancelled"}),
    "refund and cancel by the vendor": (
        paid_order,
        refund_to_wallet,
        cancel_as_vendor,
        {"refunded", "cancelled"},
    ),
}


@pytest.fixture
def shop(database: Database) -> Shop:
    return database.in_transaction(make_shop)


def race(database: Database, shop: Shop, order_id: UUID, *works: Work) -> list[Any]:
    # Without retries, so that a deadlock is visible.
    def run(work: Work) -> Any:
        with database.transaction() as session:
            return work(session, shop, order_id)

    return at_once(run, works)


@pytest.mark.parametrize("name", RACES)
def test_only_first_of_two_concurrent_actions_takes_effect(database: Database, shop: Shop, name: str) -> None:
    prepare, one, other, ends = RACES[name]
    for _ in range(ROUNDS):
        order_id = database.in_transaction(prepare, shop)
        with database.reading() as session:
            steps = len(trail_of(session, order_id))

        results = race(database, shop, order_id, one, other)

        assert unexpected_errors(results, IllegalTransitionError) == []
        assert sum(result is None for result in results) == 1
        with database.reading() as session:
            status = status_of(session, order_id)
            assert status in ends
            assert len(trail_of(session, order_id)) == steps + 1
            held = balances_of_order(session, order_id).get("escrow", 0)
            total = row_of(session, "orders", id=order_id)["total_minor"]
            assert held == (total if status in ("shipped", "disputed") else 0)
            given_back = sum(row["amount_minor"] for row in refunds_of(session, order_id))
            assert given_back == (total if status in ("refunded", "cancelled") else 0)
    with database.reading() as session:
        assert_ledger_is_consistent(session)


def test_order_accepted_during_cancellation_is_cancelled_and_refunded(database: Database, shop: Shop) -> None:
    """An accepted order can still be cancelled until shipment."""

    def accept(session: Session, shop: Shop, order_id: UUID) -> None:
        orders.accept_order(session, order_id=order_id, caller=shop.vendor, now=NOW)

    for _ in range(ROUNDS):
        order_id = database.in_transaction(paid_order, shop)

        cancelled, accepted = race(database, shop, order_id, cancel, accept)

        assert cancelled is None
        assert accepted is None or isinstance(accepted, IllegalTransitionError)
        with database.reading() as session:
            assert status_of(session, order_id) == "cancelled"
            assert "escrow" not in balances_of_order(session, order_id)
    with database.reading() as session:
        assert_ledger_is_consistent(session)


@pytest.mark.parametrize(
    ("ending", "status"), [(cancel, "cancelled"), (expire, "expired")], ids=["cancel", "expire"]
)
def test_charge_during_cancellation_or_expiry_is_applied_or_returned(
    database: Database, shop: Shop, ending: Work, status: str
) -> None:
    for _ in range(ROUNDS):
        with database.transaction() as session:
            order_id = place(session, shop, make_product(session, shop))
            charge = make_charge(make_intent(session, shop, order_id))

        ended, outcome = race(
            database, shop, order_id, ending, lambda session, _shop, _order_id, c=charge: apply(session, c)
        )

        assert outcome in (ChargeOutcome.APPLIED, ChargeOutcome.RETURNED)
        with database.reading() as session:
            now = status_of(session, order_id)
            balances = balances_of_order(session, order_id)
        if outcome is ChargeOutcome.RETURNED or status == "cancelled":
            assert ended is None
            # Refunded either way: as a late charge, or because a paid order was cancelled.
            assert now == status
            assert balances["refunds_in_transit"] == charge.amount_minor
            assert "escrow" not in balances
        else:
            assert isinstance(ended, IllegalTransitionError)
            assert (now, balances["escrow"]) == ("paid_escrow", charge.amount_minor)
    with database.reading() as session:
        assert_ledger_is_consistent(session)


@pytest.fixture
def officers(database: Database) -> list[Caller]:
    with database.transaction() as session:
        return [make_officer(session) for _ in range(2)]


def failed_refund(session: Session, shop: Shop, word: str = "failed") -> UUID:
    """Insert a refund that the gateway could not send."""
    order_id = paid_order(session, shop)
    cancel(session, shop, order_id)
    [made] = refunds_of(session, order_id)
    report_refund_status(session, made["id"], word, id="")
    refund_id: UUID = made["id"]
    return refund_id


def test_concurrent_credit_and_retry_of_failed_refund_pay_once(
    database: Database, shop: Shop, officers: list[Caller]
) -> None:
    works = {states.CREDIT: recovery.credit_failed_refund, states.RETRY: recovery.retry_failed_refund}
    for _ in range(ROUNDS):
        buying = database.in_transaction(with_buyer, shop)
        refund_id = database.in_transaction(failed_refund, buying)
        with database.reading() as session:
            stuck = [
                recovery.find_failed_refund(
                    session, refund_id=refund_id, trigger=trigger, officer_id=officer.id
                )
                for trigger, officer in zip(works, officers, strict=True)
            ]

        def act(number: int, stuck: list[PolledRefund] = stuck) -> object:
            return database.in_transaction(
                list(works.values())[number],
                failed_refund=stuck[number],
                attempts=[],
                act=act_of(officers[number], now=NOW),
            )

        results = at_once(act, [0, 1])

        assert unexpected_errors(results, ConflictError) == []
        assert sum(not isinstance(result, Exception) for result in results) == 1
        with database.reading() as session:
            row = row_of(session, "refunds", id=refund_id)
            won = "credited" if not isinstance(results[0], Exception) else "pending"
            assert row["status"] == won
            assert wallet_of(session, buying.buyer.id) == (row["amount_minor"] if won == "credited" else 0)
    with database.reading() as session:
        assert_ledger_is_consistent(session)


def test_credit_and_late_gateway_success_are_both_posted(
    database: Database, shop: Shop, officers: list[Caller]
) -> None:
    """The buyer spends the credit meanwhile. The wallet stays at zero or above, and the rest is buyer debt."""
    for _ in range(ROUNDS):
        buying = database.in_transaction(with_buyer, shop)
        refund_id = database.in_transaction(failed_refund, buying)
        with database.transaction() as session:
            stuck = recovery.find_failed_refund(
                session, refund_id=refund_id, trigger=states.CREDIT, officer_id=officers[0].id
            )
            product_id = make_product(session, buying, price_minor=1_000_000)
            amount = row_of(session, "refunds", id=refund_id)["amount_minor"]

        def credit(stuck: PolledRefund = stuck) -> object:
            return database.in_transaction(
                recovery.credit_failed_refund,
                failed_refund=stuck,
                attempts=[],
                act=act_of(officers[0], now=NOW),
            )

        def report_processed(refund_id: UUID = refund_id) -> object:
            return database.in_transaction(report_refund_status, refund_id, "processed", id="")

        def spend(buying: Shop = buying, product_id: UUID = product_id) -> object:
            return database.in_transaction(
                place, buying, product_id, wallet=WalletUse(as_much_as_possible=True)
            )

        results = at_once(lambda work: work(), [credit, report_processed, spend, report_processed])

        assert unexpected_errors(results, ConflictError) == []
        with database.reading() as session:
            row = row_of(session, "refunds", id=refund_id)
            wallet = wallet_of(session, buying.buyer.id)
            owed = fetch_balance(session, account=accounts.buyer_receivable(buying.buyer.id))
            spent = row_of(session, "orders", id=results[2])["wallet_minor"]
            if row["status"] == "processed":
                assert (row["paid_twice_minor"], wallet, owed, spent) == (0, 0, 0, 0)
                assert isinstance(results[0], ConflictError)
            else:
                assert (row["status"], row["paid_twice_minor"]) == ("credited", amount)
                # The wallet was credited once, then spent or offset, and the missing amount is buyer debt.
                assert wallet + spent - owed == 0
    with database.reading() as session:
        assert_ledger_is_consistent(session)


def test_quarantined_charge_is_either_accepted_or_refunded_by_concurrent_officers(
    database: Database, shop: Shop, officers: list[Caller]
) -> None:
    for _ in range(ROUNDS):
        with database.transaction() as session:
            buying = with_buyer(session, shop)
            order_id = place(session, buying, make_product(session, buying))
            intent = make_intent(session, buying, order_id)
            charge = make_charge(intent, amount_minor=intent.amount_minor - 500)
            assert apply(session, charge) is ChargeOutcome.QUARANTINED
            held_id = row_of(session, "quarantined_charges", gateway_charge_id=charge.id)["id"]

        def decide(number: int, held_id: UUID = held_id) -> object:
            return database.in_transaction(
                quarantine.resolve_quarantined_charge,
                quarantined_charge_id=held_id,
                action=("accept_rest", "refund")[number],  # type: ignore[arg-type]
                note="Decided at once with another officer.",
                act=act_of(officers[number], now=NOW),
            )

        results = at_once(decide, [0, 1])

        assert unexpected_errors(results, ConflictError) == []
        assert sum(not isinstance(result, Exception) for result in results) == 1
        with database.reading() as session:
            accepted = not isinstance(results[0], Exception)
            kept = row_of(session, "orders", id=order_id)["accepted_minor"]
            assert kept == (charge.amount_minor if accepted else 0)
            sent = [(row["status"], row["amount_minor"]) for row in refunds_of(session, order_id)]
            assert sent == ([] if accepted else [("pending", charge.amount_minor)])
    with database.reading() as session:
        assert_ledger_is_consistent(session)
