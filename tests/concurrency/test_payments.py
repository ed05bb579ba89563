"""Concurrent payments: no charge is applied twice, and no money is lost."""

import random
from collections import Counter
from uuid import UUID

import pytest
from sqlalchemy import text

from marketplace.infra.db import Database
from marketplace.infra.settings import Settings
from marketplace.kernel.errors import ProviderUnavailableError
from marketplace.payments.charges.apply import ChargeOutcome
from marketplace.payments.intents import lifecycle
from marketplace.payments.intents.expiry import sweep_abandoned_checkouts
from marketplace.payments.intents.lifecycle import Intent, PaymentTarget
from marketplace.payments.intents.payment_methods import open_hosted_page
from marketplace.payments.refunds import order_cancellation
from marketplace.providers.gateway.payments import PaymentPage
from marketplace.webhooks import inbox as webhooks
from tests.support.gateway import TestGateway, charge_data, event_of
from tests.support.purchases import (
    NOW,
    Shop,
    apply,
    assert_ledger_is_consistent,
    later,
    make_charge,
    make_intent,
    make_product,
    make_shop,
    place,
    row_of,
    status_of,
    with_buyer,
)
from tests.support.threads import at_once, unexpected_errors


@pytest.fixture
def shop(database: Database) -> Shop:
    with database.transaction() as session:
        return make_shop(session)


@pytest.fixture
def order_id(database: Database, shop: Shop) -> UUID:
    with database.transaction() as session:
        return place(session, shop, make_product(session, shop))


@pytest.fixture
def intent(database: Database, shop: Shop, order_id: UUID) -> Intent:
    with database.transaction() as session:
        return make_intent(session, shop, order_id)


def statuses(database: Database, order_ids: list[UUID]) -> list[str]:
    with database.reading() as session:
        return [status_of(session, order_id) for order_id in order_ids]


def count(database: Database, table: str, **key: object) -> int:
    where = " AND ".join(f"{name} = :{name}" for name in key)
    with database.reading() as session:
        found: int = session.execute(text(f"SELECT count(*) FROM {table} WHERE {where}"), key).scalar_one()
        return found


def assert_whole(database: Database) -> None:
    with database.reading() as session:
        assert_ledger_is_consistent(session)


class TestWebhooks:
    def test_event_delivered_fifty_times_is_applied_once(
        self, database: Database, order_id: UUID, intent: Intent
    ) -> None:
        data = charge_data(intent.reference, intent.amount_minor)
        with database.transaction() as session:
            inbox = [
                webhooks.receive_event(session, provider="gateway", body=event_of(data), now=NOW)
                for _ in range(50)
            ]

        results = at_once(
            lambda inbox_id: webhooks.process_event(
                database, inbox_id=inbox_id, fee_bearer="platform", now=NOW, random=random.random
            ),
            inbox,
        )

        assert Counter(result.status for result in results) == {"processed": 1, "duplicate": 49}  # type: ignore[union-attr]
        assert count(database, "ledger_transactions", source=f"charge:{data['id']}") == 1
        assert count(database, "processed_webhook_events", id=f"charge.success:{data['id']}") == 1
        assert count(database, "order_events", order_id=order_id, trigger="pay") == 1
        assert_whole(database)

    def test_delivery_is_processed_by_a_single_worker(self, database: Database, intent: Intent) -> None:
        body = event_of(charge_data(intent.reference, intent.amount_minor))
        inbox_id = database.in_transaction(webhooks.receive_event, provider="gateway", body=body, now=NOW)

        results = at_once(
            lambda _: webhooks.process_event(
                database, inbox_id=inbox_id, fee_bearer="platform", now=NOW, random=random.random
            ),
            range(12),
        )

        assert [result for result in results if result is not None] == [
            webhooks.ProcessingResult("processed")
        ]
        with database.reading() as session:
            assert row_of(session, "webhook_inbox", id=inbox_id)["attempts"] == 1

    def test_shuffled_events_of_many_orders_pay_each_order_once(self, database: Database, shop: Shop) -> None:
        """Short, exact, excessive and repeated charges, each delivered several times in random order."""
        shuffle = random.Random(7)  # noqa: S311 - the same order in every run
        placed, bodies = [], []
        with database.transaction() as session:
            product_id = make_product(session, shop, quantity=100)
            for number in range(12):
                buying = with_buyer(session, shop)
                order_id = place(session, buying, product_id)
                intent = make_intent(session, buying, order_id)
                placed.append(order_id)
                difference = (-1, 0, 700)[number % 3]
                deliveries = [
                    event_of(charge_data(intent.reference, intent.amount_minor + difference)),
                    event_of(charge_data(intent.reference, intent.amount_minor)),
                ]
                bodies += deliveries * 2
            shuffle.shuffle(bodies)
            inbox = [
                webhooks.receive_event(session, provider="gateway", body=body, now=NOW) for body in bodies
            ]

        results = at_once(
            lambda inbox_id: webhooks.process_event(
                database, inbox_id=inbox_id, fee_bearer="platform", now=NOW, random=random.random
            ),
            inbox,
        )

        assert Counter(result.status for result in results) == {"processed": 24, "duplicate": 24}  # type: ignore[union-attr]
        assert statuses(database, placed) == ["paid_escrow"] * 12
        with database.reading() as session:
            outcomes = session.execute(
                text(
                    "SELECT c.outcome, count(*) FROM gateway_charges c JOIN payment_allocations a"
                    " ON a.intent_id = c.intent_id WHERE a.order_id = ANY(:ids) GROUP BY c.outcome"
                ),
                {"ids": placed},
            ).all()
        # Of each pair one charge pays. A short charge that came first is quarantined, and any other is returned.
        assert dict(map(tuple, outcomes))["applied"] == 12
        assert sum(number for _, number in outcomes) == 24
        assert {outcome for outcome, _ in outcomes} <= {"applied", "quarantined", "returned"}
        assert_whole(database)


class TestHostedPage:
    def open(
        self, database: Database, gateway: TestGateway, settings: Settings, shop: Shop, order_id: UUID
    ) -> tuple[str, PaymentPage | None]:
        intent, page = open_hosted_page(
            database,
            gateway.adapter(settings),
            buyer_id=shop.buyer.id,
            email="ada@example.com",
            target=PaymentTarget(order_id=order_id),
            callback_url=None,
            clock=lambda: NOW,
        )
        opened = database.in_transaction(lifecycle.record_hosted_page, intent=intent, page=page, now=NOW)
        return opened.reference, opened.page

    def test_concurrent_initializations_share_a_single_hosted_page(
        self, database: Database, gateway: TestGateway, settings: Settings, shop: Shop, order_id: UUID
    ) -> None:
        pages = at_once(lambda _: self.open(database, gateway, settings, shop, order_id), range(8))

        assert unexpected_errors(pages) == []
        assert len({repr(page) for page in pages}) == 1
        reference = pages[0][0]  # type: ignore[index]
        assert gateway.calls(reference) == {"POST /transaction/initialize": 1}
        assert count(database, "payment_allocations", order_id=order_id) == 1

    @pytest.mark.parametrize("fault", ["hang", "lose", "garble"])
    def test_lost_gateway_response_allows_a_new_attempt(
        self,
        database: Database,
        gateway: TestGateway,
        settings: Settings,
        shop: Shop,
        order_id: UUID,
        fault: str,
    ) -> None:
        """The gateway knows the lost reference and would refuse a repeat, so the next attempt has a new reference."""
        gateway.proxy.fault = fault
        with pytest.raises(ProviderUnavailableError):
            self.open(database, gateway, settings, shop, order_id)
        with database.reading() as session:
            lost = row_of(session, "payment_intents", id=_only_intent(database, order_id))
        assert (lost["authorization_url"], lost["opening_until"]) == (None, None)

        gateway.proxy.fault = None
        reference, _ = self.open(database, gateway, settings, shop, order_id)

        assert reference != lost["reference"]
        assert gateway.calls(reference) == {"POST /transaction/initialize": 1}
        assert gateway.calls(lost["reference"]) == {
            "POST /transaction/initialize": 2,
            "GET /transaction/verify": 1,
        }
        # A payment on the lost page is still matched to the order.
        with database.transaction() as session:
            apply(session, gateway.charge_of_paid(lost["reference"]))
            assert status_of(session, order_id) == "paid_escrow"
        assert_whole(database)

    def test_refusal_for_invalid_email_keeps_the_same_intent(
        self, database: Database, gateway: TestGateway, settings: Settings, shop: Shop, order_id: UUID
    ) -> None:
        for _ in range(2):
            with pytest.raises(ProviderUnavailableError):
                open_hosted_page(
                    database,
                    gateway.adapter(settings),
                    buyer_id=shop.buyer.id,
                    email="no address",
                    target=PaymentTarget(order_id=order_id),
                    callback_url=None,
                    clock=lambda: NOW,
                )

        with database.reading() as session:
            intent = row_of(session, "payment_intents", id=_only_intent(database, order_id))
        assert (intent["status"], intent["opening_until"]) == ("initialized", None)

    def test_call_after_gateway_outage_reuses_the_reference(
        self, database: Database, gateway: TestGateway, settings: Settings, shop: Shop, order_id: UUID
    ) -> None:
        gateway.proxy.fault = "refuse"
        results = at_once(lambda _: self.open(database, gateway, settings, shop, order_id), range(4))
        assert {type(result) for result in results} == {ProviderUnavailableError}

        gateway.proxy.fault = None
        reference, _ = self.open(database, gateway, settings, shop, order_id)

        assert count(database, "payment_allocations", order_id=order_id) == 1
        assert gateway.calls(reference) == {"POST /transaction/initialize": 1}


class TestConcurrentCharge:
    """The order and the money agree, whichever transaction commits first."""

    ROUNDS = 12

    def unpaid(self, database: Database, shop: Shop, number: int) -> list[tuple[Shop, UUID, Intent]]:
        with database.transaction() as session:
            product_id = make_product(session, shop, quantity=number)
            made = []
            for _ in range(number):
                buying = with_buyer(session, shop)
                order_id = place(session, buying, product_id)
                made.append((buying, order_id, make_intent(session, buying, order_id)))
            return made

    def test_cancellation_with_concurrent_charge_refunds_the_money(
        self, database: Database, shop: Shop
    ) -> None:
        made = self.unpaid(database, shop, self.ROUNDS)

        def act(job: tuple[str, Shop, UUID, Intent]) -> object:
            kind, buying, order_id, intent = job
            with database.transaction() as session:
                if kind == "charge":
                    return apply(session, make_charge(intent))
                return order_cancellation.cancel_order(
                    session, order_id=order_id, caller=buying.buyer, reason=None, now=NOW
                )

        jobs = [(kind, *one) for one in made for kind in ("charge", "cancel")]
        results = at_once(act, jobs)

        assert unexpected_errors(results) == []
        for (_, order_id, _), charged, cancelled in zip(made, results[::2], results[1::2], strict=True):
            # The order is cancelled in any case. The money is refunded from escrow or returned from the charge.
            assert statuses(database, [order_id]) == ["cancelled"]
            assert charged in (ChargeOutcome.APPLIED, ChargeOutcome.RETURNED)
            assert cancelled is None
            assert count(database, "refunds", order_id=order_id, destination="gateway", status="pending") == 1
        assert_whole(database)

    def test_sweep_with_concurrent_charge_and_verification_keeps_orders_consistent(
        self, database: Database, gateway: TestGateway, settings: Settings, shop: Shop
    ) -> None:
        """The webhook of a late payment, two sweeps and the buyer's verification run at the same time."""
        made = self.unpaid(database, shop, 6)
        adapter = gateway.adapter(settings)
        for _, _, intent in made:
            gateway.open(intent.reference, intent.amount_minor)
        with database.transaction() as session:
            session.execute(
                text(
                    "UPDATE payment_intents SET authorization_url = 'x', access_code = 'x' WHERE id = ANY(:ids)"
                ),
                {"ids": [intent.id for _, _, intent in made]},
            )
        charges = [gateway.charge_of_paid(intent.reference) for _, _, intent in made[:3]]

        def sweep() -> object:
            return sweep_abandoned_checkouts(database, adapter, fee_bearer="platform", now=later(hours=1))

        def charge(number: int) -> object:
            with database.transaction() as session:
                return apply(session, charges[number])

        def verify(number: int) -> object:
            reference = made[number][2].reference
            found = adapter.fetch_charge(reference)
            return database.in_transaction(
                lifecycle.apply_reported_charge,
                reference=reference,
                charge=found,
                fee_bearer="platform",
                now=NOW,
            )

        jobs = [
            sweep,
            sweep,
            *(lambda n=n: charge(n) for n in range(3)),
            *(lambda n=n: verify(n) for n in range(6)),
        ]
        results = at_once(lambda job: job(), jobs)

        assert unexpected_errors(results) == []
        placed = [order_id for _, order_id, _ in made]
        assert statuses(database, placed) == ["paid_escrow"] * 3 + ["expired"] * 3
        for one in charges:
            assert count(database, "ledger_transactions", kind="payment", source=f"charge:{one.id}") == 1
        assert count(database, "quarantined_charges", intent_id=made[0][2].id) == 0
        assert_whole(database)

    def test_two_concurrent_charges_pay_the_order_once(self, database: Database, shop: Shop) -> None:
        made = self.unpaid(database, shop, self.ROUNDS)

        def charge(intent: Intent) -> ChargeOutcome:
            with database.transaction() as session:
                return apply(session, make_charge(intent))

        results = at_once(charge, [intent for _, _, intent in made for _ in range(2)])

        for first, second in zip(results[::2], results[1::2], strict=True):
            assert {first, second} == {ChargeOutcome.APPLIED, ChargeOutcome.RETURNED}
        assert_whole(database)


def _only_intent(database: Database, order_id: UUID) -> UUID:
    with database.reading() as session:
        found: UUID = row_of(session, "payment_allocations", order_id=order_id)["intent_id"]
        return found
