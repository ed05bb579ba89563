"""Concurrent refunds: no kobo is refunded twice, no deadlock, and one decision wins."""

from collections import Counter
from uuid import UUID

import pytest
from sqlalchemy import text

from marketplace.cart.operations import RequestedItem
from marketplace.identity.queries import Caller
from marketplace.infra.db import Database
from marketplace.infra.settings import Settings
from marketplace.kernel.errors import ConflictError
from marketplace.kernel.states import IllegalTransitionError
from marketplace.orders import operations as orders
from marketplace.payments import states
from marketplace.payments.charges import quarantine
from marketplace.payments.charges.apply import ChargeOutcome
from marketplace.payments.refunds import gateway_refund, order_cancellation, recovery
from marketplace.payments.refunds.admin_refund import EscrowDeficitError
from marketplace.payments.refunds.gateway_refund import RefundInProgressError
from tests.support.finance import (
    act_of,
    make_officer,
    refund,
    refund_summaries_of,
    refunds_of,
    report_refund_status,
)
from tests.support.gateway import TestGateway
from tests.support.purchases import (
    NOW,
    Shop,
    apply,
    assert_ledger_is_consistent,
    balances_of_order,
    check_out,
    later,
    make_charge,
    make_intent,
    make_product,
    make_shop,
    neighbours,
    paid_order,
    place,
    release,
    row_of,
    shipped_order,
    status_of,
    stock_of,
    wallet_of,
    with_buyer,
)
from tests.support.threads import at_once, unexpected_errors

ROUNDS = 6


@pytest.fixture
def shop(database: Database) -> Shop:
    with database.transaction() as session:
        return make_shop(session)


@pytest.fixture
def officers(database: Database) -> list[Caller]:
    with database.transaction() as session:
        return [make_officer(session) for _ in range(4)]


def assert_whole(database: Database) -> None:
    with database.reading() as session:
        assert_ledger_is_consistent(session)


def status(database: Database, order_id: UUID) -> str:
    with database.reading() as session:
        return status_of(session, order_id)


def test_concurrent_full_refunds_of_an_order_refund_once(
    database: Database, shop: Shop, officers: list[Caller]
) -> None:
    for _ in range(ROUNDS):
        with database.transaction() as session:
            order_id = paid_order(session, shop)

        results = at_once(
            lambda officer, order_id=order_id: database.in_transaction(refund, order_id, officer), officers
        )

        assert unexpected_errors(results, IllegalTransitionError) == []
        assert sum(not isinstance(result, Exception) for result in results) == 1
        with database.reading() as session:
            assert len(refunds_of(session, order_id)) == 1
    assert_whole(database)


def test_concurrent_partial_refunds_never_exceed_escrow(
    database: Database, shop: Shop, officers: list[Caller]
) -> None:
    with database.transaction() as session:
        order_id = shipped_order(session, shop)
        total = row_of(session, "orders", id=order_id)["total_minor"]
    part = total // 5

    results = at_once(
        lambda number: database.in_transaction(
            refund,
            order_id,
            officers[number % 4],
            amount_minor=part,
            destination=("wallet", "gateway")[number % 2],
        ),
        range(8),
    )

    assert unexpected_errors(results, EscrowDeficitError, IllegalTransitionError) == []
    assert sum(not isinstance(result, Exception) for result in results) == 5
    with database.reading() as session:
        assert sum(amount for _, _, amount in refund_summaries_of(session, order_id)) == 5 * part
        assert balances_of_order(session, order_id).get("escrow", 0) == total - 5 * part
    assert_whole(database)


def test_concurrent_refund_and_release_exclude_each_other(
    database: Database, shop: Shop, officers: list[Caller]
) -> None:
    for _ in range(ROUNDS):
        with database.transaction() as session:
            order_id = shipped_order(session, shop)

        jobs = [
            lambda order_id=order_id: database.in_transaction(refund, order_id, officers[0]),
            lambda order_id=order_id: database.in_transaction(release, shop, order_id),
        ]
        results = at_once(lambda job: job(), jobs)

        assert unexpected_errors(results, ConflictError) == []
        assert sum(isinstance(result, ConflictError) for result in results) == 1
        won = "delivered" if isinstance(results[0], ConflictError) else "refunded"
        assert status(database, order_id) == won
    assert_whole(database)


def test_concurrent_cancellation_and_acceptance_cancel_and_refund_once(
    database: Database, shop: Shop
) -> None:
    """An accepted order can be cancelled, and a cancelled order cannot be accepted."""
    for _ in range(ROUNDS):
        with database.transaction() as session:
            order_id = paid_order(session, shop, stock=3)
            product_id = row_of(session, "order_items", order_id=order_id)["product_id"]

        jobs = [
            lambda order_id=order_id: database.in_transaction(
                order_cancellation.cancel_order, order_id=order_id, caller=shop.buyer, reason=None, now=NOW
            ),
            lambda order_id=order_id: database.in_transaction(
                orders.accept_order, order_id=order_id, caller=shop.vendor, now=NOW
            ),
        ]
        results = at_once(lambda job: job(), jobs)

        assert results[0] is None
        assert unexpected_errors(results, IllegalTransitionError) == []
        assert status(database, order_id) == "cancelled"
        with database.reading() as session:
            assert len(refunds_of(session, order_id)) == 1
            assert stock_of(session, product_id) == (3, 0)
    assert_whole(database)


def test_concurrent_cancellations_and_refund_refund_once(
    database: Database, shop: Shop, officers: list[Caller]
) -> None:
    for _ in range(ROUNDS):
        with database.transaction() as session:
            order_id = paid_order(session, shop)

        def cancel(caller: Caller, order_id: UUID = order_id) -> object:
            return database.in_transaction(
                order_cancellation.cancel_order, order_id=order_id, caller=caller, reason=None, now=NOW
            )

        jobs = [
            lambda: cancel(shop.buyer),
            lambda: cancel(shop.vendor),
            lambda order_id=order_id: database.in_transaction(refund, order_id, officers[0]),
        ]
        results = at_once(lambda job: job(), jobs)

        assert unexpected_errors(results, IllegalTransitionError) == []
        assert sum(isinstance(result, IllegalTransitionError) for result in results) == 2
        with database.reading() as session:
            assert len(refunds_of(session, order_id)) == 1
    assert_whole(database)


def test_concurrent_cancellations_of_orders_of_a_charge_do_not_deadlock(
    database: Database, shop: Shop
) -> None:
    """The orders share the charge, the buyer's wallet and products."""
    for _ in range(3):
        with database.transaction() as session:
            shops = neighbours(session, shop, 4)
            done = check_out(session, shop, [RequestedItem(make_product(session, one), 1) for one in shops])
            assert done.payment is not None
            charge = make_charge(done.payment)
            assert apply(session, charge) is ChargeOutcome.APPLIED

        results = at_once(
            lambda order_id: database.in_transaction(
                order_cancellation.cancel_order, order_id=order_id, caller=shop.buyer, reason=None, now=NOW
            ),
            done.order_ids,
        )

        assert results == [None] * 4
        with database.reading() as session:
            row = row_of(session, "gateway_charges", gateway_charge_id=charge.id)
            assert row["refunded_minor"] == row["principal_minor"]
    assert_whole(database)


class TestInTransit:
    @pytest.fixture
    def refund_id(self, database: Database, shop: Shop, gateway: TestGateway) -> UUID:
        with database.transaction() as session:
            order_id = place(session, shop, make_product(session, shop))
            intent = make_intent(session, shop, order_id)
            gateway.open(intent.reference, intent.amount_minor)
            apply(session, gateway.charge_of_paid(intent.reference))
            order_cancellation.cancel_order(
                session, order_id=order_id, caller=shop.buyer, reason=None, now=NOW
            )
            [made] = refunds_of(session, order_id)
            found: UUID = made["id"]
            return found

    def test_concurrent_workers_send_the_refund_once(
        self, database: Database, gateway: TestGateway, settings: Settings, refund_id: UUID
    ) -> None:
        adapter = gateway.adapter(settings)

        def work(_number: int) -> str | None:
            found = database.in_transaction(gateway_refund.lease_refund, refund_id=refund_id, now=NOW)
            reported = gateway_refund.send_refund(adapter, found)
            assert reported is None or found is not None
            if reported is None:
                return None
            return database.in_transaction(
                gateway_refund.apply_gateway_status, refund_id=refund_id, reported=reported, now=NOW
            )

        results = at_once(work, range(8))

        assert unexpected_errors(results, RefundInProgressError) == []
        with database.reading() as session:
            reference = session.execute(
                text(
                    "SELECT i.reference FROM refunds r JOIN gateway_charges c ON c.id = r.charge_id"
                    " JOIN payment_intents i ON i.id = c.intent_id WHERE r.id = :id"
                ),
                {"id": refund_id},
            ).scalar_one()
        assert gateway.calls(reference)["POST /refund"] == 1

    def test_concurrent_events_and_responses_settle_the_refund_once(
        self, database: Database, refund_id: UUID
    ) -> None:
        words = ["pending", "processed", "processed", "processing", "processed", "failed"]

        results = at_once(
            lambda word: database.in_transaction(report_refund_status, refund_id, word, id="4711"), words[:5]
        )

        assert unexpected_errors(results) == []
        with database.reading() as session:
            assert row_of(session, "refunds", id=refund_id)["status"] == "processed"
            row_of(session, "ledger_transactions", kind="refund_sent", source=f"refund:{refund_id}")
        assert_whole(database)

    def test_failed_refund_is_either_retried_or_credited_by_concurrent_officers(
        self, database: Database, shop: Shop, officers: list[Caller], refund_id: UUID
    ) -> None:
        database.in_transaction(report_refund_status, refund_id, "failed")

        def act(number: int) -> object:
            officer = officers[number]
            trigger, work = (
                (states.RETRY, recovery.retry_failed_refund),
                (states.CREDIT, recovery.credit_failed_refund),
            )[number % 2]
            with database.transaction() as session:
                stuck = recovery.find_failed_refund(
                    session, refund_id=refund_id, trigger=trigger, officer_id=officer.id
                )
            return database.in_transaction(
                work, failed_refund=stuck, attempts=[], act=act_of(officer, now=NOW)
            )

        results = at_once(act, range(4))

        assert unexpected_errors(results, ConflictError) == []
        assert sum(not isinstance(result, Exception) for result in results) == 1
        with database.reading() as session:
            row = row_of(session, "refunds", id=refund_id)
            credited = row["status"] == "credited"
            assert credited or (row["status"], row["attempt"]) == ("pending", 2)
            assert wallet_of(session, shop.buyer.id) == (row["amount_minor"] if credited else 0)
        assert_whole(database)


@pytest.mark.parametrize("with_buyer_action", [False, True])
def test_quarantined_charge_is_resolved_once(
    database: Database, shop: Shop, officers: list[Caller], with_buyer_action: bool
) -> None:
    """While officers decide, the buyer may pay in full or cancel the order."""
    actions = ("accept_rest", "refund", "wallet", "accept_rest")
    for number in range(ROUNDS):
        with database.transaction() as session:
            buying = with_buyer(session, shop)
            order_id = place(session, buying, make_product(session, buying))
            intent = make_intent(session, buying, order_id)
            charge = make_charge(intent, amount_minor=intent.amount_minor - 500)
            assert apply(session, charge) is ChargeOutcome.QUARANTINED
            held_id = row_of(session, "quarantined_charges", gateway_charge_id=charge.id)["id"]

        def decide(index: int, held_id: UUID = held_id) -> object:
            return database.in_transaction(
                quarantine.resolve_quarantined_charge,
                quarantined_charge_id=held_id,
                action=actions[index],  # type: ignore[arg-type]
                note="Decided at once with others.",
                act=act_of(officers[index], now=later(minutes=1)),
            )

        def meanwhile(
            number: int = number, buying: Shop = buying, order_id: UUID = order_id, intent: object = intent
        ) -> object:
            if number % 2:
                return database.in_transaction(
                    order_cancellation.cancel_order,
                    order_id=order_id,
                    caller=buying.buyer,
                    reason=None,
                    now=NOW,
                )
            return database.in_transaction(apply, make_charge(intent))  # type: ignore[arg-type]

        jobs = [lambda index=index: decide(index) for index in range(4)]
        results = at_once(lambda job: job(), jobs + ([meanwhile] if with_buyer_action else []))

        assert unexpected_errors(results, ConflictError) == []
        won = [result for result in results[:4] if not isinstance(result, Exception)]
        assert len(won) == 1
        with database.reading() as session:
            row = row_of(session, "quarantined_charges", id=held_id)
            assert (row["status"], row["resolution"]) == ("resolved", won[0].row.resolution)
    assert_whole(database)


def test_random_refunds_cancellations_and_charges_neither_deadlock_nor_lose_money(
    database: Database, shop: Shop, officers: list[Caller]
) -> None:
    with database.transaction() as session:
        product_ids = [make_product(session, shop, quantity=200) for _ in range(3)]
        placed = []
        for _ in range(12):
            order_id = place(
                session, shop, wishes=[RequestedItem(product_id, 1) for product_id in product_ids]
            )
            intent = make_intent(session, shop, order_id)
            apply(session, make_charge(intent))
            placed.append((order_id, intent))

    def act(job: tuple[int, int]) -> object:
        index, kind = job
        order_id, intent = placed[index]
        with database.transaction() as session:
            if kind == 0:
                return order_cancellation.cancel_order(
                    session, order_id=order_id, caller=shop.buyer, reason=None, now=NOW
                )
            if kind == 1:
                return refund(session, order_id, officers[index % 4], amount_minor=1_000)
            if kind == 2:
                return refund(session, order_id, officers[index % 4], destination="wallet")
            return apply(session, make_charge(intent))

    results = at_once(act, [(index, kind) for index in range(12) for kind in range(4)])

    assert unexpected_errors(results, ConflictError, EscrowDeficitError) == []
    done = Counter(status(database, order_id) for order_id, _ in placed)
    assert set(done) <= {"cancelled", "refunded"}
    assert results[3::4] == [ChargeOutcome.RETURNED] * 12
    assert_whole(database)
